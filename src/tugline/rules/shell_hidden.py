"""Commands inside text that other programs run: for deny and ask rules, which have to see them. Rather too many."""

import re
from collections.abc import Iterator, Sequence

from tugline.rules import shell_awk, shell_sed
from tugline.rules.shell_escapes import escaping_values
from tugline.rules.shell_tables import word_list
from tugline.rules.shell_words import Word

_LIMIT = 48
_BLANK_OR_OPERATOR = re.compile(r"[\s;|&$`]")
_QUOTED = re.compile(
    r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`([^`]*)`|\bqx?\(([^()]*)\)|\bqx\{([^{}]*)\}", re.DOTALL
)
_CALLS = re.compile(
    r"system|exec|popen|subprocess|spawn|\brun\b|\bcall\b|check_output|qx|`|shell_exec|passthru|proc_open|\bsh\b|pty|\|"
    r"|getline"
)
_LEAD = re.compile(
    r"\A(?:exec=|--[a-z-]+=|[+:]*!+|[+:]*(?:shell|system|exec|spawn|\.shell|\.system|\\!)\b|\w[\w.-]*=!?|-\w+=)\s*"
)
_RUNNING_VARIABLE = re.compile(
    r"(?:PAGER|EDITOR|VISUAL|COMMAND|SSH|ASKPASS|BROWSER|LESSOPEN|LESSCLOSE|PS[0-4]|BASH_ENV|ENV|DIFF|SHELL|CC|CXX|"
    r"WRAPPER|FLAGS|OPTIONS)\Z"
)
_GIT_RUNS = re.compile(
    r"--(?:exec|upload-pack|receive-pack|tree-filter|index-filter|msg-filter|env-filter|commit-filter|parent-filter"
    r"|tag-name-filter|extcmd|open-files-in-pager)(?:=|\Z)|-[xuO]"
)


def texts_of(name: str, argv: Sequence[Word]) -> Iterator[str]:
    """What among the words of a program may be run as a command."""
    if name == "git":
        yield from _git_texts(argv)
        yield from escaping_values(name, argv)
        return
    for value in escaping_values(name, argv):
        yield from _readings(value)
    known = [word.text for word in argv[1:] if word.text is not None]
    if name in word_list("runners.txt", "code"):
        yield from _code(name, known)
    if name not in word_list("runners.txt", "text"):
        return
    for text in known[:_LIMIT]:
        if _BLANK_OR_OPERATOR.search(text) or _LEAD.match(text):
            yield from _readings(text)


def _readings(text: str) -> Iterator[str]:
    """A text, what of it stands behind `!` or an option's name, and what is quoted in it."""
    yield text
    rest = text
    for _ in range(3):
        shorter = _LEAD.sub("", rest, count=1)
        if shorter == rest or not shorter:
            break
        rest = shorter
        yield rest
    if _CALLS.search(text):
        yield from quoted(text)


def quoted(text: str) -> Iterator[str]:
    """What stands between quotes, each by itself and all in a row."""
    found = ["".join(part or "" for part in match.groups()) for match in _QUOTED.finditer(text)][:_LIMIT]
    yield from found
    if len(found) > 1:
        yield " ".join(found)


def _code(name: str, known: Sequence[str]) -> Iterator[str]:
    for text in known[:_LIMIT]:
        if name in ("sed", "gsed"):
            if not shell_sed.only_prints(text):
                yield from re.findall(r"(?:\A|[;{}\n0-9$/!~ ])e[ \t]+([^\n]+)", text)
                yield from (
                    re.split(r"(?<!\\)[/|#,]", text)[1:3] if re.search(r"[gIimM0-9]*e[gIimM0-9]*\Z", text) else ()
                )
        elif name.endswith("awk"):
            if not shell_awk.only_prints(text):
                yield from quoted(text)
        elif _CALLS.search(text):
            yield from quoted(text)


def _git_texts(argv: Sequence[Word]) -> Iterator[str]:
    texts = [word.text or "" for word in argv[1:]][: 4 * _LIMIT]
    configures = False
    for position, text in enumerate(texts):
        before = texts[position - 1] if position else ""
        configures = configures or before == "config"
        if before in ("-c", "--config") or configures:
            value = text.partition("=")[2] or text
            yield value.lstrip("!")
            if "alias." in text or "alias." in before:
                yield value.lstrip("!") if value.startswith("!") else f"git {value}"
        if _GIT_RUNS.match(before) and "=" not in before:
            yield text
        found = _GIT_RUNS.match(text)
        if found and len(text) > found.end():
            yield text[found.end() :]
        if before in ("foreach", "run", "--recursive"):
            yield " ".join(texts[position:])
        if text.startswith("ext::"):
            yield text.removeprefix("ext::")


def variable_texts(pairs: Sequence[tuple[str, Word]]) -> Iterator[str]:
    """Values of variables that programs take for commands."""
    for name, value in pairs:
        if value.text and _RUNNING_VARIABLE.search(name):
            yield value.text


def paths_in(name: str, text: str) -> Iterator[str]:
    """What in a word could be the name of a file: all of it, what stands behind `=` or `@`, what code has in quotes."""
    if not text.startswith("-"):
        yield text
    value = text.partition("=")[2]
    if value:
        yield value
    for part in (text, value):
        if "@" in part:
            yield part.rpartition("@")[2]
        if "file://" in part:
            yield part.partition("file://")[2]
    runs = name in word_list("runners.txt", "code") or name in word_list("runners.txt", "text")
    if runs and re.search(r"[\s\"'(;]", text):
        yield from quoted(text)
        yield from re.findall(r"[\w.~/+-]*[./][\w./~+-]+", text)[:_LIMIT]
