"""Commands that run other commands, looked through: one way for deny and ask rules, a narrower one for allow rules."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tugline.rules.names import names
from tugline.rules.shell import Analysis, Member, analyse, harmless_env
from tugline.rules.shell_tables import FIND_RUNS, FIND_WRITES
from tugline.rules.shell_words import Word

Argv = tuple[Word, ...]

_SHELLS = names("sh bash dash zsh ksh ash fish mksh rbash tcsh csh")
_TEXT_RUNNERS = names("eval watch su script ssh flock parallel runuser xargs trap")
_WRAPPERS = names(
    "env sudo doas timeout gtimeout nice nohup stdbuf setsid xargs gxargs watch flock command builtin exec coproc "
    "time ionice chrt taskset strace ltrace chroot unshare nsenter setarch busybox toybox parallel script su "
    "runuser xvfb-run dbus-run-session unbuffer systemd-run firejail bwrap proot fakeroot setpriv capsh numactl "
    "prlimit rlwrap caffeinate choom torsocks proxychains proxychains4 faketime then do else if while until ! {"
)
_POSITIONAL = names("flock chroot taskset chrt timeout gtimeout faketime su runuser")
_NEVER_BY_PREFIX = frozenset(["watch", "setsid", "ionice", "flock"])
_LAYER_LIMIT = 64
_SCRIPT_DEPTH = 4

_NAME_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class Layers(Struct, frozen=True):
    """What a member runs, looked through all wrappers. `uncertain`: some of it cannot be seen."""

    argvs: tuple[Argv, ...]
    scripts: tuple[str, ...] = ()
    uncertain: bool = False


def base_name(text: str) -> str:
    """A program's name without its folder."""
    return text.rpartition("/")[2] or text


def all_layers(member: Member) -> Layers:
    """Every command that the member may run, for deny and ask rules. Too many rather than too few."""
    found: list[Argv] = []
    scripts: list[str] = []
    uncertain = False
    pending: list[Argv] = [member.words] if member.words else []
    while pending:
        argv = pending.pop(0)
        if not argv or argv in found:
            continue
        if len(found) >= _LAYER_LIMIT:
            uncertain = True
            break
        found.append(argv)
        name = None if argv[0].text is None else base_name(argv[0].text)
        if name is None:
            uncertain = True
            continue
        if name in _SHELLS or name in _TEXT_RUNNERS:
            texts, sure = _scripts(name, argv)
            scripts.extend(texts)
            uncertain = uncertain or not sure
        if name in _WRAPPERS:
            pending.extend(_inner(name, argv))
        elif name in ("find", "fd", "fdfind"):
            pending.extend(_executed(argv))
        elif name == "git":
            stripped = _git_command(argv)
            if stripped is not None:
                pending.append(stripped)
    return Layers(tuple(found), tuple(scripts), uncertain)


def _inner(name: str, argv: Argv) -> Iterator[Argv]:
    """Where the wrapped command may begin: behind options, their values, assignments, numbers."""
    skip = 1 if name in _POSITIONAL else 0
    tail: Argv = (Word(text=None, raw="…", single=False),) if name in ("xargs", "gxargs", "parallel") else ()
    after_option = False
    for position in range(1, len(argv)):
        text = argv[position].text
        if text is not None and text.startswith("-"):
            after_option = text != "--"
            continue
        yield argv[position:] + tail
        passing = after_option or text is None or _NAME_VALUE.match(text) or re.fullmatch(r"[0-9.]+[a-z]*", text)
        if not passing:
            if not skip:
                return
            skip -= 1
        after_option = False


def _executed(argv: Argv) -> Iterator[Argv]:
    starts = FIND_RUNS | {"-x", "-X", "--exec", "--exec-batch"}
    for position, word in enumerate(argv):
        if word.text in starts:
            end = position + 1
            while end < len(argv) and argv[end].text not in (";", "+"):
                end += 1
            inner = argv[position + 1 : end]
            unknown = Word(text=None, raw="{}")
            yield tuple(unknown if part.text is not None and "{}" in part.text else part for part in inner)


def _git_command(argv: Argv) -> Argv | None:
    """`git -C d -c k=v push` as `git push`."""
    position = 1
    while position < len(argv):
        text = argv[position].text
        if text is None or not text.startswith("-"):
            break
        position += 2 if text in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
    return None if position == 1 else (argv[0], *argv[position:])


def _scripts(name: str, argv: Argv) -> tuple[list[str], bool]:
    """Texts that are run as commands, and whether those are all."""
    rest = argv[1:]
    if name == "eval":
        if any(word.text is None for word in rest):
            return [], False
        return [" ".join(word.text or "" for word in rest)], True
    if name in _SHELLS:
        return _shell_scripts(rest)
    texts = [word.text for word in rest if word.text is not None and re.search(r"[\s;|&$`]", word.text)]
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
    pending = [(member, 0) for member in analysis.members]
    while pending:
        member, depth = pending.pop()
        layers = all_layers(member)
        uncertain = uncertain or layers.uncertain
        for script in layers.scripts:
            if depth >= _SCRIPT_DEPTH or len(members) > 1024:
                uncertain = True
                break
            found = analyse(script)
            inner.append(found)
            uncertain = uncertain or bool(found.opaque)
            for other in found.members:
                hidden = Member(other.words, other.env, None, other.raw, inner=True)
                members.append(hidden)
                pending.append((hidden, depth + 1))
    return tuple(members), tuple(inner), uncertain


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
    if not all(harmless_env(name, value) for name, value in member.env):
        return None
    argv: Argv | None = member.words
    last: Argv | None = argv
    while argv and argv[0].text not in ("xargs", "git"):
        last = argv
        argv = _unwrapped(argv)
    return argv or last


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
    return name in ("find", "gfind") and any(word.text is None or word.text in FIND_WRITES for word in argv[1:])
