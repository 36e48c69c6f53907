"""`tugline sessions gc`: put away by age and size what is asked for, and nothing else."""

from collections.abc import Callable, Sequence

from tugline.cli import streams
from tugline.cli.ansi import is_terminal
from tugline.cli.given import Given, read_given
from tugline.protocol.errors import SessionError, UsageError
from tugline.rules.telling import size
from tugline.rules.terminal import clean_line
from tugline.rules.tidying import Due, Limits, read_age, read_size
from tugline.sessions import Sessions


def collect(argv: Sequence[str]) -> int:
    """Archive, or with `--remove` delete, what the limits name; the exit code."""
    given = read_given(
        "sessions gc", argv, "--dry-run --remove --all --archived --yes", "--older-than --larger-than --keep-size"
    )
    if given.words:
        raise UsageError("`tugline sessions gc` takes flags only.")
    limits = _limits(given)
    remove = "--remove" in given.switches
    if limits.keep_size is not None and not remove:
        raise UsageError("--keep-size needs --remove: what is archived takes as much room as before.")
    if "--archived" in given.switches and not remove:
        raise UsageError("--archived needs --remove: those are archived already.")
    here = Sessions()
    found = here.due(limits, everywhere="--all" in given.switches, archived="--archived" in given.switches)
    if not found:
        return streams.put("There is nothing to put away.\n")
    code = streams.put("".join(_line(here, one) for one in found))
    total = f"{len(found)} session{'s' if len(found) > 1 else ''}, {size(sum(one.kept.bytes for one in found))}"
    if code:
        return code
    if "--dry-run" in given.switches:
        return streams.put(f"{total}; nothing was done.\n")
    if remove and "--yes" not in given.switches and not _agreed(total):
        return 1
    return _put_away(here, found, remove=remove)


def _limits(given: Given) -> Limits:
    older = _read(given, "--older-than", read_age, "30d, 12h, 6w or 1y")
    larger = _read(given, "--larger-than", read_size, "50MB or 2GB")
    keep = _read(given, "--keep-size", read_size, "500MB or 2GB")
    if older is None and larger is None and keep is None:
        raise UsageError(
            "`tugline sessions gc` needs to know what: --older-than 90d, --larger-than 50MB, or --keep-size 2GB"
        )
    return Limits(older, None if larger is None else int(larger), None if keep is None else int(keep))


def _read(given: Given, flag: str, read: Callable[[str], float | None], example: str) -> float | None:
    value = given.values.get(flag)
    if value is None:
        return None
    found = read(value)
    if found is None:
        raise UsageError(f"{flag} takes such as {example}, not {value[:60]!r}.")
    return found


def _line(here: Sessions, one: Due) -> str:
    summary = here.summary_at(one.kept.key)
    words = clean_line(summary.title or summary.prompt or summary.problem or "(no prompt)", 80)
    return f"{summary.session}  {size(one.kept.bytes):>8}  {one.why}  {words}\n"


def _agreed(total: str) -> bool:
    """Whether the person says yes to deleting; nobody to ask is a no."""
    if not (is_terminal(0) and is_terminal(2)):
        streams.complain("nothing was removed. To remove without being asked: --yes")
        return False
    streams.say(f"Remove {total} for good? [y/N] ")
    try:
        answer = input()
    except EOFError:
        answer = ""
    if answer.strip().casefold() in ("y", "yes"):
        return True
    streams.complain("nothing was removed.")
    return False


def _put_away(here: Sessions, found: Sequence[Due], *, remove: bool) -> int:
    done = freed = 0
    failed = False
    for one in found:
        try:
            here.put_away(one.kept.key, remove=remove)
        except SessionError as error:
            failed = True
            streams.complain(clean_line(str(error), 400))
            continue
        done += 1
        freed += one.kept.bytes
    if remove:
        pruned = here.prune()
        freed += pruned.bytes
        for problem in pruned.problems:
            streams.complain(clean_line(f"former contents of files were left alone: {problem}", 400))
    what = f"removed, {size(freed)} freed" if remove else "archived; `tugline sessions unarchive ID` takes one back"
    code = streams.put(f"{done} session{'' if done == 1 else 's'} {what}.\n")
    return code or int(failed)
