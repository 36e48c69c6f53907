"""`tugline sessions`: from its words to what is printed."""

import os
import time
from collections.abc import Callable, Iterator, Sequence

from tugline.cli import streams
from tugline.cli.ansi import Palette, columns, is_terminal, palette
from tugline.cli.given import Given, read_given
from tugline.cli.help import SESSIONS
from tugline.cli.pager import pager, put_pages, shows_colours
from tugline.cli.sessions.listing import json_lines, rows
from tugline.cli.sessions.showing import Teller, call_of, heading, told_call, told_record
from tugline.protocol.errors import SessionError, UsageError
from tugline.protocol.sessions import FORMATS, ExportFormat, Hit
from tugline.rules.exports import exported
from tugline.rules.telling import as_json, moment
from tugline.rules.terminal import clean, clean_line
from tugline.sessions import Sessions
from tugline.stores.chronicle import Chronicle

LISTED = 50
HITS = 200
NOTHING_FOUND = 1


def sessions(argv: Sequence[str]) -> int:
    """`list`, `show`, `search`, `export`, `rename`, `archive`, `unarchive`, `gc`, `changes`, `compactions`; the exit
    code."""
    if not argv or "--help" in argv or "-h" in argv:
        return streams.put(SESSIONS)
    what, *rest = argv
    if what == "gc":
        from tugline.cli.sessions.tidying import collect  # noqa: PLC0415  imported here: start-up cost

        return collect(rest)
    run = _COMMANDS.get(what)
    if run is None:
        from difflib import get_close_matches  # noqa: PLC0415  imported here: start-up cost

        near = get_close_matches(what, [*_COMMANDS, "gc"], 1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join([*_COMMANDS, 'gc'])}."
        raise UsageError(f"`tugline sessions {what[:60]}` is nothing I know. {hint}")
    return run(rest)


def _list(argv: Sequence[str]) -> int:
    given = read_given("sessions list", argv, "--all --archived --json", "--limit")
    _no_words("list", given)
    everywhere, archived = "--all" in given.switches, "--archived" in given.switches
    limit = given.number("--limit", LISTED)
    here = Sessions()
    found = here.summaries(everywhere=everywhere, archived=archived, limit=limit + 1 if limit else None)
    more = limit and len(found) > limit
    found = found[:limit] if limit else found
    if "--json" in given.switches:
        return streams.put(json_lines(found))
    if not found:
        return streams.put(_nothing(here, everywhere=everywhere, archived=archived))
    # a pipe gets whole lines
    width = columns(1) if is_terminal(1) else 1_000
    code = streams.put("".join(rows(found, time.time(), width, palette(1, os.environ), folders=everywhere)))
    if more and not code:
        streams.say("… there are more: --limit N, or --limit 0 for all\n")
    return code


def _nothing(here: Sessions, *, everywhere: bool, archived: bool) -> str:
    kind = "archived session" if archived else "session"
    if everywhere:
        return f"There is no {kind}.\n"
    others = here.count(everywhere=True, archived=archived)
    more = f" Those of other projects ({others}): tugline sessions list --all" if others else ""
    return f"There is no {kind} of this project.{more}\n"


def _show(argv: Sequence[str]) -> int:
    given = read_given("sessions show", argv, "--full --json", "--record --call")
    if "--record" in given.values and "--call" in given.values:
        raise UsageError("--record and --call cannot both be given.")
    words = _which("show", given)
    with Sessions().chronicle(words) as (summary, chronicle):
        if "--record" in given.values:
            return _show_record(chronicle, given)
        if "--call" in given.values:
            return _show_call(chronicle, given)
        if "--json" in given.switches:
            return put_pages(exported(summary, chronicle.passages(), "json", lambda text: text), [])
        program = pager(os.environ)
        paint = palette(1, os.environ) if shows_colours(program) else Palette(on=False)
        teller = Teller(paint, columns(1), full="--full" in given.switches)

        def pieces() -> Iterator[str]:
            yield heading(summary, paint)
            for passage in chronicle.passages():
                yield teller.tell(passage)

        code = put_pages(pieces(), program)
        _tell_damage(chronicle)
        return code


def _show_record(chronicle: Chronicle, given: Given) -> int:
    wanted = given.number("--record", 0)
    for n, record in chronicle.records():
        if n == wanted:
            return streams.put(f"{as_json(record)}\n" if "--json" in given.switches else told_record(record))
    raise SessionError(f"There is no record {wanted} in this session.")


def _show_call(chronicle: Chronicle, given: Given) -> int:
    call = given.values["--call"]
    use, result = call_of(chronicle.records(), call)
    if use is None and result is None:
        raise SessionError(f"There is no call {clean_line(call, 80)} in this session. Its calls: show ID --full")
    if "--json" in given.switches:
        return streams.put(as_json({"call": use, "result": result}) + "\n")
    return streams.put(told_call(use, result, palette(1, os.environ)))


def _tell_damage(chronicle: Chronicle) -> None:
    for count, what in ((chronicle.damaged, "cannot be read"), (chronicle.unknown, "are of a newer tugline")):
        if count:
            streams.complain(f"{count} line{'s' if count > 1 else ''} of the transcript {what} and left out.")


def _search(argv: Sequence[str]) -> int:
    given = read_given("sessions search", argv, "--all --archived --json", "--limit")
    if not given.words:
        raise UsageError("`tugline sessions search` needs words to look for.")
    limit = given.number("--limit", HITS)
    hits = Sessions().search(
        " ".join(given.words), everywhere="--all" in given.switches, archived="--archived" in given.switches
    )
    paint = palette(1, os.environ)
    session, places, found = "", 0, 0
    for hit in hits:
        if limit and places == limit:
            streams.say("… there are more: --limit N, or --limit 0 for all\n")
            break
        places += 1
        if "--json" in given.switches:
            code = streams.put(as_json(hit) + "\n")
        else:
            found += hit.session != session
            code = streams.put(_told_hit(hit, paint, first=hit.session != session))
            session = hit.session
        if code:
            return code
    if not places:
        streams.complain("Nothing was found. Sessions of other projects: --all; archived ones: --archived")
    return 0 if places else NOTHING_FOUND


def _told_hit(hit: Hit, paint: Palette, *, first: bool) -> str:
    title = clean_line(hit.title, 100)
    head = f"{paint.paint(hit.session, 'cyan')}{'  ' + title if title else ''}\n" if first else ""
    who = {"person": "you", "model": "model", "title": "name"}[hit.who]
    where = f"  #{hit.n} {moment(hit.time)} {who}:".replace("  :", ":")
    return f"{head}{paint.paint(where, 'dim')} {clean_line(hit.excerpt, 400)}\n"


def _export(argv: Sequence[str]) -> int:
    given = read_given("sessions export", argv, "", "--format --output -o")
    words = _which("export", given)
    path = given.values.get("-o", given.values.get("--output"))
    form = _format(given.values.get("--format"))
    here = Sessions()
    if path == "-":
        pieces = here.document(words, form or "markdown")
        return put_pages(map(clean, pieces) if is_terminal(1) else pieces, [])
    return streams.put(f"{clean(here.export(words, path, form))}\n")


def _format(value: str | None) -> ExportFormat | None:
    wanted = {"md": "markdown", "htm": "html"}.get(value or "", value)
    found = next((form for form in FORMATS if form == wanted), None)
    if wanted is not None and found is None:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}, not {wanted[:60]!r}.")
    return found


def _rename(argv: Sequence[str]) -> int:
    given = read_given("sessions rename", argv)
    if len(given.words) != 2:
        raise UsageError('`tugline sessions rename` takes a session and its new name: rename ID "NAME"')
    name = Sessions().rename(*given.words)
    return streams.put(f"The session is named: {clean_line(name, 400)}\n")


def _archive(argv: Sequence[str]) -> int:
    given = read_given("sessions archive", argv)
    path = Sessions().archive(_which("archive", given))
    return streams.put(f"Archived: {clean(path)}\nIt comes back with: tugline sessions unarchive, or -r\n")


def _unarchive(argv: Sequence[str]) -> int:
    given = read_given("sessions unarchive", argv)
    return streams.put(f"Back among the others: {clean(Sessions().unarchive(_which('unarchive', given)))}\n")


def _changes(argv: Sequence[str]) -> int:
    from tugline.cli.sessions.changes import told_changes  # noqa: PLC0415  imported here: start-up cost

    given = read_given("sessions changes", argv, "--json")
    found = Sessions().changes(_which("changes", given))
    if "--json" in given.switches:
        return streams.put("".join(f"{as_json(one)}\n" for one in found))
    if not found:
        return streams.put("No changes of files are recorded in this session.\n")
    return put_pages(told_changes(found, palette(1, os.environ)), [])


def _compactions(argv: Sequence[str]) -> int:
    from tugline.rules.compactions import compactions  # noqa: PLC0415  imported here: start-up cost

    given = read_given("sessions compactions", argv, "--json --full")
    with Sessions().chronicle(_which("compactions", given)) as (_, chronicle):
        found = compactions(chronicle.boundaries())
    if "--json" in given.switches:
        return streams.put("".join(f"{as_json(one)}\n" for one in found))
    if not found:
        return streams.put("This session was not compacted.\n")
    lines = []
    for one in found:
        undone = ", undone" if one.undone else ""
        about = f"about {one.tokens_before:,} tokens to {one.tokens_after:,}"
        lines.append(f"{moment(one.time)}  {one.how} ({one.trigger}{undone}): {about}\n")
        if one.words:
            lines.append(f"    to keep: {clean_line(one.words, 400)}\n")
        if "--full" in given.switches and one.summary:
            lines += [f"    {line}\n" for line in clean(one.summary).split("\n")]
    return streams.put("".join(lines))


def _which(what: str, given: Given) -> str:
    """The words that say which session is meant."""
    if not given.words:
        raise UsageError(f"`tugline sessions {what}` needs a session: an id, or words of its name or first prompt.")
    return " ".join(given.words)


def _no_words(what: str, given: Given) -> None:
    if given.words:
        raise UsageError(f"`tugline sessions {what}` takes flags only; to look for words: tugline sessions search")


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "export": _export,
    "rename": _rename,
    "archive": _archive,
    "unarchive": _unarchive,
    "changes": _changes,
    "compactions": _compactions,
}
