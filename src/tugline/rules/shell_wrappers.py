"""Commands that run other commands, looked through: one way for deny and ask rules, a narrower one for allow rules."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from msgspec import Struct

from tugline.rules.names import names
from tugline.rules.shell import analyse
from tugline.rules.shell_hidden import quoted, texts_of, variable_texts
from tugline.rules.shell_outputs import HERE
from tugline.rules.shell_parts import Analysis, Folders, Member, enter, harmless_env
from tugline.rules.shell_tables import word_list
from tugline.rules.shell_words import Output, Word

Argv = tuple[Word, ...]

_NEVER_BY_PREFIX = frozenset(["watch", "setsid", "ionice", "flock"])
_LAYER_LIMIT = 64
_WORD_LIMIT = 4_000
"""Words of all layers of a command together; beyond that some is unseen."""
_SCRIPT_DEPTH = 4
_SCRIPT_LIMIT = 200
_TEXT_LIMIT = 64_000
"""Characters of text that commands hand to shells; of more some is unseen."""

_NAME_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class Layers(Struct, frozen=True):
    """What a member runs, looked through all wrappers. `uncertain`: some of it cannot be seen."""

    argvs: tuple[Argv, ...]
    scripts: tuple[str, ...] = ()
    uncertain: bool = False


def base_name(text: str) -> str:
    """A program's name without its folder."""
    return text.rpartition("/")[2] or text


@lru_cache(maxsize=1024)
def all_layers(member: Member) -> Layers:
    """Every command that the member may run, for deny and ask rules. Too many rather than too few."""
    found: list[Argv] = []
    scripts: list[str] = list(variable_texts(member.env))
    uncertain = False
    pending: list[Argv] = [member.words] if member.words else []
    seen: set[Argv] = set()
    budget = _WORD_LIMIT
    while pending:
        argv = pending.pop(0)
        if not argv or argv in seen:
            continue
        budget -= len(argv)
        if len(found) >= _LAYER_LIMIT or (budget < 0 and found):
            uncertain = True
            break
        seen.add(argv)
        found.append(argv)
        name = None if argv[0].text is None else base_name(argv[0].text)
        if name is None:
            uncertain = True
            continue
        texts, sure = _scripts(name, argv)
        scripts.extend(texts)
        uncertain = uncertain or not sure
        if name in word_list("runners.txt", "wrappers"):
            pending.extend(islice(_inner(name, argv), _LAYER_LIMIT))
        elif name in ("find", "fd", "fdfind"):
            pending.extend(islice(_executed(argv), _LAYER_LIMIT))
        elif name == "git":
            stripped = _git_command(argv)
            if stripped is not None:
                pending.append(stripped)
    return Layers(tuple(found), tuple(dict.fromkeys(scripts)), uncertain)


def _inner(name: str, argv: Argv) -> Iterator[Argv]:
    """Where the wrapped command may begin: behind options, their values, assignments, numbers."""
    skip = next((n for n, what in ((1, "one before"), (2, "two before")) if name in word_list("runners.txt", what)), 0)
    tail: Argv = (Word(text=None, raw="…", single=False),) if name in ("xargs", "gxargs", "parallel") else ()
    after_option = False
    anywhere = name in word_list("runners.txt", "anywhere")
    for position in range(1, len(argv)):
        text = argv[position].text
        if text is not None and text.startswith("-"):
            after_option = text != "--"
            continue
        yield argv[position:] + tail
        passing = (
            anywhere or after_option or text is None or _NAME_VALUE.match(text) or re.fullmatch(r"[0-9.]+[a-z]*", text)
        )
        if not passing:
            if not skip:
                return
            skip -= 1
        after_option = False


def starts(argv: Argv) -> tuple[Word, ...]:
    """Where a `find` begins to look."""
    found: list[Word] = []
    for word in argv[1:]:
        if word.text is not None and re.match(r"[-(!]", word.text):
            if word.text in ("-H", "-L", "-P"):
                continue
            break
        found.append(word)
    return tuple(found) or (HERE,)


def _executed(argv: Argv) -> Iterator[Argv]:
    runs = word_list("find.txt", "runs") | {"-x", "-X", "--exec", "--exec-batch"}
    for position, word in enumerate(argv):
        if word.text in runs:
            end = position + 1
            while end < len(argv) and argv[end].text not in (";", "+"):
                end += 1
            inner = argv[position + 1 : end]
            unknown = Word(text=None, raw="{}", output=Output("listing", starts(argv)))
            yield tuple(unknown if part.text is not None and "{}" in part.text else part for part in inner)


_GIT_VALUED = names("-C -c --git-dir --work-tree --namespace --config-env --attr-source --super-prefix --list-cmds")


def _git_command(argv: Argv) -> Argv | None:
    """`git -C d -c k=v push` as `git push`."""
    position = 1
    while position < len(argv):
        text = argv[position].text
        if text is None or not text.startswith("-"):
            break
        position += 2 if text in _GIT_VALUED else 1
    return None if position == 1 else (argv[0], *argv[position:])


def _scripts(name: str, argv: Argv) -> tuple[list[str], bool]:
    """Texts that are run as commands, and whether those are all."""
    rest = argv[1:]
    if name == "eval":
        rest = rest[1:] if rest and rest[0].text == "--" else rest
        if any(word.text is None for word in rest):
            return [], False
        return [" ".join(word.text or "" for word in rest)], True
    if name in word_list("runners.txt", "shells"):
        return _shell_scripts(rest)
    if name in ("source", "."):
        return [], False
    texts = list(texts_of(name, argv))
    if name == "env":
        texts.extend(text[2:] for text in (word.text or "" for word in rest) if re.match(r"-S.", text))
    if name == "watch":
        plain = [word.text or "" for word in rest if not (word.text or "-").startswith("-")]
        texts.append(" ".join(plain))
    return texts, name not in ("su", "script", "trap") or all(word.text is not None for word in rest)


def _shell_scripts(rest: Argv) -> tuple[list[str], bool]:
    command = False
    for position, word in enumerate(rest):
        text = word.text
        if text is None:
            return [], False
        if text == "--":
            continue
        if re.match(r"[-+][A-Za-z]", text):
            command = command or ("c" in text and not text.startswith("--"))
            if text in ("-o", "+o", "-O", "+O"):
                continue
        elif command:
            # an option's value may stand before the text: all words are read as text then
            return [other.text for other in rest[position:] if other.text is not None], True
        elif not text.startswith("--") and position and rest[position - 1].text in ("-o", "+o", "-O", "+O"):
            continue
        elif not text.startswith("--"):
            return [], True
    # what it reads from its input is not seen
    return [], False


def all_members(analysis: Analysis) -> tuple[tuple[Member, ...], tuple[Analysis, ...], bool]:
    """The members, those inside text that they hand to shells, those texts' analyses, and whether some is unseen."""
    members: list[Member] = list(analysis.members)
    inner: list[Analysis] = []
    uncertain = False
    pending: list[tuple[str, Folders, int]] = []

    def look(member: Member, depth: int) -> None:
        nonlocal uncertain
        layers = all_layers(member)
        uncertain = uncertain or layers.uncertain
        pending.extend((script, member.folders, depth) for script in layers.scripts)
        pending.extend((script, member.folders, depth) for script in _fed(analysis, member, layers))

    for member in analysis.members:
        look(member, 0)
    pending.extend((script, ("",), 0) for script in analysis.hidden)
    seen: set[str] = set()
    budget = _TEXT_LIMIT
    while pending:
        script, folders, depth = pending.pop()
        if script in seen or not script.strip():
            continue
        seen.add(script)
        budget -= len(script)
        if budget < 0 or depth >= _SCRIPT_DEPTH or len(members) > 1024 or len(seen) > _SCRIPT_LIMIT:
            uncertain = True
            break
        found = analyse(script)
        inner.append(found)
        uncertain = uncertain or bool(found.opaque)
        for other in found.members:
            where = other.folders if folders == ("",) else None
            hidden = Member(other.words, other.env, where, other.raw, inner=True)
            members.append(hidden)
            look(hidden, depth + 1)
    return tuple(members), tuple(inner), uncertain


def _fed(analysis: Analysis, member: Member, layers: Layers) -> Iterator[str]:
    """Texts that the member may get as input, or as its own words, from what else the command prints."""
    names_ = {base_name(argv[0].text) for argv in layers.argvs if argv[0].text is not None}
    printed = [*analysis.texts, *(text for other in analysis.members for text in _printed(other))]
    if names_ & word_list("runners.txt", "read from input"):
        for text in printed:
            yield text
            yield text.lstrip("!:. ")
            if names_ & word_list("runners.txt", "code"):
                yield from quoted(text)
            if "tclsh" in names_:
                yield text.removeprefix("exec ")
    for argv in layers.argvs:
        at = next((position for position, word in enumerate(argv[:3]) if word.text is None and word.hole), None)
        if at is not None and (at == 0 or names_ & {"git"}):
            words = [word.text or "x" for word in argv]
            for text in (*printed, *analysis.assigned):
                yield " ".join([*words[:at], text, *words[at + 1 :]])


def _printed(member: Member) -> Iterator[str]:
    """What `echo` and `printf` print, more or less."""
    if member.name not in ("echo", "printf") or any(word.text is None for word in member.words):
        return
    texts = [(word.text or "").replace("\\n", "\n") for word in member.words[1:]]
    if member.name == "printf" and len(texts) > 1:
        yield " ".join(texts[1:])
        yield texts[0].replace("%s", "{}").replace("{}", texts[1], 1)
        return
    yield " ".join(text for text in texts if not re.fullmatch(r"-[neE]+", text))


# -- for allow rules --------------------------------------------------------------------------------


def allowed_layers(member: Member) -> Iterator[Argv]:
    """The literal command, then what is left of it without the wrappers that change nothing about it."""
    env = tuple(_assignment(name, value) for name, value in member.env)
    if env:
        yield env + member.words
        if not all(harmless_env(name, value) for name, value in member.env):
            return
    argv: Argv | None = member.words
    seen = 0
    while argv and seen < _LAYER_LIMIT:
        seen += 1
        yield argv
        argv = _unwrapped(argv)


def plain(member: Member) -> Argv | None:
    """The command that decides whether the member only reads; `None` where its variables leave that open."""
    # for the builtin `read`, IFS says how the line is cut and nothing more
    env = [pair for pair in member.env if not (pair[0] == "IFS" and member.name == "read")]
    if not all(harmless_env(name, value) for name, value in env):
        return None
    argv: Argv | None = member.words
    last: Argv | None = argv
    while argv and argv[0].text not in ("xargs", "git"):
        last = argv
        argv = _unwrapped(argv)
    return argv or last


def moved_git(argv: Argv, folders: Folders) -> tuple[Argv, Folders]:
    """`git -C folder …` without the folder, and where it then runs."""
    if not argv or argv[0].text != "git":
        return argv, folders
    rest = argv[1:]
    while len(rest) > 1 and rest[0].text == "-C" and rest[1].path:
        folders = enter(folders, rest[1].path)
        rest = rest[2:]
    return (argv[0], *rest), folders


def _assignment(name: str, value: Word) -> Word:
    return Word(text=None if value.text is None else f"{name}={value.text}", raw=f"{name}={value.raw}")


def _unwrapped(argv: Argv) -> Argv | None:
    name = argv[0].text
    rest = argv[1:]
    if name == "timeout":
        return _after_timeout(rest)
    if name == "time":
        return _after(rest, frozenset(["-p", "--"])) or None
    if name == "nice":
        return _after_nice(rest)
    if name in ("nohup", "builtin"):
        return _after(rest, frozenset(["--"]))
    if name == "command":
        if rest and rest[0].text in ("-v", "-V"):
            return None
        return _after(rest, frozenset(["--", "-p"]))
    if name == "stdbuf":
        return _after_stdbuf(rest)
    if name == "xargs":
        first = rest[0].text if rest else None
        unknown = Word(text=None, raw="…", single=False)
        return (*rest, unknown) if first is not None and not first.startswith("-") else None
    if name == "git":
        return _after_git(argv)
    return None


def _command(rest: Sequence[Word]) -> Argv | None:
    """The words, if they begin a command for certain."""
    if not rest or rest[0].text is None or rest[0].text.startswith("-"):
        return None
    return tuple(rest)


def _after(rest: Argv, options: frozenset[str]) -> Argv | None:
    while rest and rest[0].text in options:
        rest = rest[1:]
    return _command(rest)


def _after_timeout(rest: Argv) -> Argv | None:
    while rest and rest[0].text is not None and rest[0].text.startswith("-"):
        text = rest[0].text
        if text in ("--foreground", "--preserve-status", "-v", "--verbose"):
            rest = rest[1:]
        elif text in ("-k", "-s", "--kill-after", "--signal") and len(rest) > 1 and rest[1].text is not None:
            rest = rest[2:]
        elif re.fullmatch(r"(-[ks]|--kill-after=|--signal=)[A-Za-z0-9.+]+", text):
            rest = rest[1:]
        else:
            return None
    if not rest or not re.fullmatch(r"[0-9.]+[smhd]?", rest[0].text or ""):
        return None
    return _command(rest[1:])


def _after_nice(rest: Argv) -> Argv | None:
    if rest and rest[0].text == "-n" and len(rest) > 1 and re.fullmatch(r"[-+]?[0-9]+", rest[1].text or ""):
        rest = rest[2:]
    elif rest and re.fullmatch(r"-n?[-+]?[0-9]+|--adjustment=[-+]?[0-9]+", rest[0].text or ""):
        rest = rest[1:]
    return _command(rest)


def _after_stdbuf(rest: Argv) -> Argv | None:
    while rest and re.fullmatch(r"-[ioe][0-9KMGL]+|--(input|output|error)=[0-9KMGL]+", rest[0].text or ""):
        rest = rest[1:]
    return _command(rest)


def _after_git(argv: Argv) -> Argv | None:
    rest = argv[1:]
    start = len(rest)
    while rest and rest[0].text in ("--no-pager", "-C"):
        step = 2 if rest[0].text == "-C" else 1
        if len(rest) < step or (step == 2 and (rest[1].text is None)):
            return None
        rest = rest[step:]
    return None if len(rest) == start else (argv[0], *rest)


def never_by_prefix(argv: Argv) -> bool:
    """Whether only an exact rule may allow this command, as its operands name what it runs or removes."""
    name = base_name(argv[0].text or "")
    if name in _NEVER_BY_PREFIX:
        return True
    return name in ("find", "gfind") and any(
        word.text is None or word.text in word_list("find.txt", "writes") | word_list("find.txt", "runs")
        for word in argv[1:]
    )
