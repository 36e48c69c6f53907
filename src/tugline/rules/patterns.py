"""Path patterns of permission rules: git's ignore syntax, anchored as rules anchor it."""

import re
import unicodedata
from functools import lru_cache
from typing import Literal

from msgspec import Struct

Anchor = Literal["root", "home", "project", "cwd"]


class PatternError(ValueError):
    """The pattern cannot be read; the text says why."""


class PathPattern(Struct, frozen=True):
    """A pattern below its anchor. `spread`: written relative, so deny and ask rules try it below each root too."""

    anchor: Anchor
    regex: str
    folded: str
    spread: bool
    literal: tuple[str, ...]
    """Leading components without wildcards; empty where the pattern may match at any depth."""


def fold(text: str) -> str:
    """The form in which deny rules and protected paths are compared: case and composition set aside."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def parse_path_pattern(spec: str, *, deep: bool) -> PathPattern:
    """`//abs`, `~/home`, `/project`, `./cwd`, `cwd`. `deep`: a relative pattern with a slash matches at any depth."""
    if not spec:
        raise PatternError("the pattern is empty")
    if spec.startswith(("!", "#")):
        raise PatternError(f"a pattern cannot begin with {spec[0]}")
    anchor: Anchor = "cwd"
    body, anchored, spread = spec, True, False
    if spec.startswith("//"):
        anchor, body = "root", spec[2:]
    elif spec == "~" or spec.startswith("~/"):
        anchor, body = "home", spec[2:]
    elif spec.startswith("/"):
        anchor, body = "project", spec[1:]
    elif spec == "." or spec.startswith("./"):
        body = spec[2:]
    else:
        if spec.startswith("~"):
            raise PatternError("only ~/ is understood, not another user's home")
        anchored = "/" in spec.rstrip("/") and not deep
        spread = True
    parts = _parts(body)
    if any(part == ".." for part in parts):
        raise PatternError("a pattern cannot contain ..")
    if not anchored and "**" not in parts[:1]:
        parts = ["**", *parts]
    regex = _regex(parts)
    try:
        re.compile(regex)
        folded = _regex([fold(part) for part in parts])
        re.compile(folded)
    except re.error:
        raise PatternError("its [ ] cannot be read") from None
    return PathPattern(anchor=anchor, regex=regex, folded=folded, spread=spread, literal=_literal(parts))


def _parts(body: str) -> list[str]:
    return [part for part in body.split("/") if part not in ("", ".")]


def _literal(parts: list[str]) -> tuple[str, ...]:
    literal: list[str] = []
    for part in parts:
        if re.search(r"[*?\[\\]", part):
            break
        literal.append(fold(part))
    return tuple(literal)


def _regex(parts: list[str]) -> str:
    """Over the path below the anchor without a leading slash; what lies below a match matches too."""
    out: list[str] = []
    last = len(parts) - 1
    for position, part in enumerate(parts):
        if part == "**":
            if position < last:
                out.append(r"(?:[^/]+/)*")
            continue
        out.append(_segment(part))
        rest = parts[position + 1 :]
        if rest and any(other != "**" for other in rest):
            out.append("/")
    return "".join(out) + (r"(?:/.*)?\Z" if out and out[-1] != r"(?:[^/]+/)*" else r".*\Z")


def _segment(part: str) -> str:
    out: list[str] = []
    i = 0
    while i < len(part):
        char = part[i]
        if char == "*":
            while part[i + 1 : i + 2] == "*":
                i += 1
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "\\":
            i += 1
            if i >= len(part):
                raise PatternError("a backslash at the end escapes nothing")
            out.append(re.escape(part[i]))
        elif char == "[":
            text, i = _bracket(part, i)
            out.append(text)
        else:
            out.append(re.escape(char))
        i += 1
    text = "".join(out)
    # `*` alone is at least one character: a component is never empty
    return "[^/]+" if text == "[^/]*" else text


def _bracket(part: str, start: int) -> tuple[str, int]:
    i = start + 1
    negate = part[i : i + 1] in ("!", "^")
    i += negate
    first = i
    body: list[str] = []
    while i < len(part) and (part[i] != "]" or i == first):
        if part[i] == "[" and part[i + 1 : i + 2] in (":", ".", "="):
            raise PatternError("character classes like [:alpha:] are not understood")
        low, i = _bracket_char(part, i)
        if part[i : i + 1] == "-" and part[i + 1 : i + 2] not in ("", "]"):
            high, i = _bracket_char(part, i + 1)
            body.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            body.append("\\^" if low == "^" else re.escape(low))
    if i >= len(part):
        raise PatternError("a [ without ]")
    return f"(?!/)[{'^' if negate else ''}{''.join(body)}]", i


def _bracket_char(part: str, i: int) -> tuple[str, int]:
    """One character inside brackets, and where the next one is."""
    if part[i] == "\\":
        i += 1
        if i >= len(part):
            raise PatternError("a [ without ]")
    return part[i], i + 1


@lru_cache(maxsize=2048)
def compiled(regex: str) -> re.Pattern[str]:
    """The compiled expression; each is compiled once."""
    return re.compile(regex, re.DOTALL)
