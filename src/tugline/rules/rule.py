"""Permission rules as people write them: `Tool`, `Tool(specifier)`. Parsing and matching, no decisions."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from tugline.rules.patterns import PathPattern, PatternError, parse_path_pattern

Kind = Literal["allow", "ask", "deny"]

READERS = ("Read", "Grep", "Glob")
"""Built-in tools that a `Read` rule covers."""
EDITORS = ("Edit", "Write", "NotebookEdit", "MultiEdit")
"""Built-in tools that an `Edit` rule covers."""
NAMERS = ("Agent", "Skill")
"""Built-in tools whose rules name what they start."""

_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")
_TOOL_GLOB = re.compile(r"[A-Za-z*][A-Za-z0-9_.*-]*\Z")
_LABELS = r"[a-z0-9_]+(?:-+[a-z0-9_]+)*"
_DOMAIN = re.compile(rf"(?:\*\.)?{_LABELS}(?:\.{_LABELS})*\Z|\[?[0-9a-f]*:[0-9a-f:.]*\]?\Z")
_ALIASES = {"Task": "Agent"}

SEPARATOR = "\x1f"
"""Stands between the words of a command where patterns are compared; no accepted command contains it."""


class RuleError(ValueError):
    """A rule that cannot be used. The text names the rule, its source and why."""


class Rule(Struct, frozen=True):
    """One permission rule. `spec` is `None` where every use of the tool is meant; `source` says who wrote it."""

    tool: str
    spec: str | None
    kind: Kind
    source: str
    text: str
    path: PathPattern | None = None

    def __str__(self) -> str:
        return f"{self.text} ({self.source})" if self.source else self.text


def parse_rule(text: str, kind: Kind, source: str = "") -> Rule:
    """The rule that `text` says; `RuleError` names rule and source where it says none."""
    stripped = text.strip()
    name, spec = _split(stripped, text, source)
    name = _ALIASES.get(name, name)
    _check_name(name, spec, kind, text, source)
    if spec is not None and spec.strip() in ("", "*"):
        spec = None
    path: PathPattern | None = None
    if spec is not None:
        spec, path = _check_spec(name, spec, kind, text, source)
    return Rule(tool=name, spec=spec, kind=kind, source=source, text=stripped, path=path)


def _split(stripped: str, text: str, source: str) -> tuple[str, str | None]:
    if not stripped:
        raise _error(text, source, "it is empty")
    if any(ord(c) < 32 and c not in "\t\n" for c in stripped):
        raise _error(text, source, "it contains control characters")
    opened = stripped.find("(")
    if opened < 0:
        if ")" in stripped:
            raise _error(text, source, "a ) without (")
        return stripped, None
    if not stripped.endswith(")"):
        raise _error(text, source, "the closing ) is missing or not at the end")
    return stripped[:opened], stripped[opened + 1 : -1]


def _check_name(name: str, spec: str | None, kind: Kind, text: str, source: str) -> None:
    if not name:
        raise _error(text, source, "the tool's name is missing")
    if "*" not in name:
        if not _TOOL.match(name):
            raise _error(text, source, f"{name!r} is not the name of a tool")
        return
    if not _TOOL_GLOB.match(name) or spec is not None:
        raise _error(text, source, "a * in a tool's name goes without a specifier")
    if kind == "allow" and not re.match(r"mcp__[^*]+?__[^*]*\*", name):
        raise _error(text, source, "an allow rule may have * only after a literal server: mcp__server__*")


def _check_spec(name: str, spec: str, kind: Kind, text: str, source: str) -> tuple[str, PathPattern | None]:
    if name in READERS or name in EDITORS:
        try:
            return spec, parse_path_pattern(spec.strip(), deep=kind != "allow")
        except PatternError as error:
            raise _error(text, source, str(error)) from None
    if name == "Bash":
        if ":*" in spec[:-2] and spec.endswith(":*") and spec[:-2].rstrip().endswith(":*"):
            raise _error(text, source, ":* may stand only once, at the end")
        if not spec.removesuffix(":*").strip():
            raise _error(text, source, "no command before :*")
        return spec, None
    if name == "WebFetch":
        if not spec.startswith("domain:"):
            raise _error(text, source, "expected WebFetch(domain:example.com)")
        host = spec.removeprefix("domain:").strip().lower()
        if host != "*" and not _DOMAIN.match(_ascii_host(host)):
            raise _error(text, source, f"{host!r} is not a domain")
        return "domain:" + _ascii_host(host), None
    if name.startswith("mcp__"):
        raise _error(text, source, "rules for MCP tools have no specifier")
    return spec, None


def _error(text: str, source: str, why: str) -> RuleError:
    where = f" in {source}" if source else ""
    return RuleError(f"permission rule {text!r}{where} cannot be used: {why}")


def _ascii_host(host: str) -> str:
    star = "*." if host.startswith("*.") else ""
    plain = host.removeprefix("*.").rstrip(".")
    try:
        plain.encode("ascii")
        return star + plain
    except UnicodeError:
        pass
    try:
        return star + plain.encode("idna").decode("ascii")
    except UnicodeError:
        return star + plain


def split_rules(text: str, separators: str = ", \t\n") -> list[str]:
    """Rules written in one line, as flags have them: parted by commas or blanks outside of parentheses."""
    found: list[str] = []
    depth = 0
    word: list[str] = []
    for char in text + separators[0]:
        if char in separators and depth <= 0:
            if "".join(word).strip():
                found.append("".join(word).strip())
            word = []
            continue
        depth += (char == "(") - (char == ")")
        word.append(char)
    if "".join(word).strip():
        # an open parenthesis: left whole, so that parsing it says what is wrong
        found.append("".join(word)[: -len(separators[0])].strip())
    return found


def names_tool(rule: Rule, tool: str) -> bool:
    """Whether the rule's tool part speaks of this tool (its specifier is another matter)."""
    wanted, tool = rule.tool, _ALIASES.get(tool, tool)
    if wanted == tool:
        return True
    if wanted == "Edit":
        return tool in EDITORS
    if wanted == "Read":
        return tool in READERS
    if "*" in wanted:
        return _tool_glob(wanted).match(tool) is not None
    # mcp__server speaks of all tools of that server
    return wanted.startswith("mcp__") and wanted.count("__") == 1 and tool.startswith(wanted + "__")


@lru_cache(maxsize=512)
def _tool_glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")) + r"\Z", re.DOTALL)


def matches_domain(spec: str, host: str) -> bool:
    """Whether `domain:…` names this host: exactly, or by a suffix of whole labels for `*.`."""
    wanted = spec.removeprefix("domain:")
    if wanted == "*":
        return True
    host = _ascii_host(host.strip().lower())
    if not host or any(c in host for c in "\x00/@\\ "):
        return False
    if wanted.startswith("*."):
        return host.endswith(wanted[1:]) and len(host) > len(wanted) - 1
    return host == wanted


def plain_host(host: str) -> bool:
    """Whether the text is a host and nothing more, so that a rule can name it."""
    return _DOMAIN.match(_ascii_host(host)) is not None and "*" not in host


def matches_name(spec: str, name: str) -> bool:
    """Whether `Agent(spec)` or `Skill(spec)` names it; `*` stands for anything."""
    return _tool_glob(spec.strip()).match(name) is not None


class Token(Struct, frozen=True):
    """One word of a rule for commands: its text, and whether it holds a `*` that stands for anything."""

    text: str
    star: bool


class CommandPattern(Struct, frozen=True):
    """A rule for commands, taken apart. `prefix`: more words may follow. `exact`: no `*` at all."""

    tokens: tuple[Token, ...]
    prefix: bool
    exact: bool
    regex: str
    loose: str


@lru_cache(maxsize=2048)
def parse_command_pattern(spec: str) -> CommandPattern:
    """`npm run test`, `npm run test:*`, `npm run *`, `git * main`: words compared as wholes, quotes removed."""
    body = spec.strip()
    prefix = False
    if body.endswith((":*", " *", "\t*")):
        prefix, body = True, body[:-2].rstrip()
    pieces = _tokens(body)
    tokens = tuple(Token(text="".join(p or "*" for p in word), star=any(p is None for p in word)) for word in pieces)
    strict = SEPARATOR.join(_word_regex(word) for word in pieces)
    loose = r"\s+".join(_word_regex(word) for word in pieces)
    tail, loose_tail = (f"(?:{SEPARATOR}.*)?", r"(?:\s.*)?") if prefix else ("", "")
    exact = not prefix and not any(token.star for token in tokens)
    return CommandPattern(tokens, prefix, exact, strict + tail + r"\Z", loose + loose_tail + r"\s*\Z")


def _word_regex(word: list[str | None]) -> str:
    return "".join(".*" if piece is None else re.escape(piece) for piece in word)


def _tokens(body: str) -> list[list[str | None]]:
    """Words with quotes removed; `None` stands for an unquoted `*`."""
    words: list[list[str | None]] = []
    word: list[str | None] = []
    started = False
    quote = ""
    i = 0
    balanced = _balanced(body)
    while i < len(body):
        char = body[i]
        if quote:
            if char == quote:
                quote = ""
            elif char == "\\" and quote == '"' and body[i + 1 : i + 2] in ('"', "\\", "$", "`"):
                i += 1
                word.append(body[i])
            else:
                word.append(char)
        elif char in "'\"" and balanced:
            quote, started = char, True
        elif char == "\\" and i + 1 < len(body):
            i += 1
            started = True
            word.append(body[i])
        elif char in " \t\n":
            if started:
                words.append(word)
            word, started = [], False
        else:
            started = True
            word.append(None if char == "*" else char)
        i += 1
    if started:
        words.append(word)
    return words


def _balanced(body: str) -> bool:
    quote = ""
    skip = False
    for char in body:
        if skip:
            skip = False
        elif char == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
    return not quote


@lru_cache(maxsize=2048)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex, re.DOTALL)


def matches_words(pattern: CommandPattern, words: Iterable[str]) -> bool:
    """Whether these exact words are what the pattern says, word by word."""
    return _compiled(pattern.regex).match(SEPARATOR.join(words)) is not None


def matches_text(pattern: CommandPattern, text: str) -> bool:
    """Whether the text, quotes removed, reads like the pattern: the looser comparison of deny and ask rules."""
    return _compiled(pattern.loose).match(text.strip()) is not None


def could_match(pattern: CommandPattern, words: list[str | None]) -> bool:
    """Whether a command whose `None` words are not known could be what the pattern says; `False` is certain."""
    for position, token in enumerate(pattern.tokens):
        if position >= len(words) or token.star or words[position] is None:
            return position < len(words)
        if token.text != words[position]:
            return False
    return pattern.prefix or len(words) == len(pattern.tokens) or None in words


def exact_command_spec(words: Iterable[str]) -> str:
    """The specifier of a rule that matches exactly these words and nothing else."""
    return " ".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    if word and not re.search(r"[\s'\"\\*()]|:\*?\Z", word):
        return word
    return '"' + re.sub(r'(["\\$`])', r"\\\1", word) + '"'
