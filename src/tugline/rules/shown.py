"""What a person is asked to approve, as it is: every character can be seen, nothing is left out without saying so."""

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from tugline.protocol.permissions import PermissionQuestion
from tugline.rules.terminal import escaped

_ESCAPE_LETTERS = frozenset("xuUnt\\")


def is_seen(char: str) -> bool:
    """Whether a terminal shows a character as something of its own, in a column of its own; of blanks only the plain
    one counts."""
    if char == " " or "!" <= char <= "~":
        return True
    category = unicodedata.category(char)
    # fillers of Korean and the Braille blank are letters and signs that nobody sees
    return (category[0] in "LNPS" or category == "Mc") and char not in "\u115f\u1160\u3164\uffa0\u2800"


def visible(text: str) -> str:
    """The text in one line, from which it can be told exactly: what is not seen becomes an escape, and a backslash
    that could be taken for the beginning of one is doubled."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    out: list[str] = []
    for position, char in enumerate(text):
        if char == "\\":
            after = text[position + 1 : position + 2]
            out.append("\\\\" if after and (after in _ESCAPE_LETTERS or not is_seen(after)) else "\\")
        elif is_seen(char):
            out.append(char)
        else:
            out.append({"\n": "\\n", "\t": "\\t"}.get(char) or escaped(char))
    return "".join(out)


_ESCAPE = re.compile(r"\\(?:\\|n|t|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def original(line: str) -> str:
    """The text that `visible` shows as this line."""

    def back(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        return chr(int(code, 16)) if code else {"\\\\": "\\", "\\n": "\n", "\\t": "\t"}[match[0]]

    return _ESCAPE.sub(back, line)


def shown_lines(text: str) -> list[str]:
    """The text line by line, each as `visible` shows it."""
    return [visible(line) for line in text.split("\n")]


def question_lines(question: PermissionQuestion, limit: int | None = None) -> list[str]:
    """A permission question for a terminal: what would run, why it is asked, what "always" would save and where.

    With a `limit` at most so many lines of the input are shown, and how many more there are is said in their place.
    """
    lines = [visible(question.title)]
    body = [line for name, value in question.input.items() for line in _field(name, value)]
    if limit is not None and len(body) > limit:
        body = [*body[:limit], f"... {len(body) - limit} more lines"]
    lines += [f"  {line}" for line in body]
    who = f" (agent {visible(question.agent)})" if question.agent not in ("", "main") else ""
    lines.append(f"Asked because {visible(question.reason)}{who}.")
    if question.suggestions:
        rules = ", ".join(visible(rule) for rule in question.suggestions)
        where = f" in {visible(question.saved_in)}" if question.saved_in else " for this session only"
        lines.append(f'"Always" would allow {rules}{where}.')
    return lines


def _field(name: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else _plain(value)
    head, *rest = shown_lines(text)
    if not rest:
        return [f"{visible(name)}: {head}"]
    return [f"{visible(name)}:", *(f"  | {line}" for line in (head, *rest))]


def _plain(value: Any) -> str:
    nested = isinstance(value, list | Mapping) and bool(value)
    return json.dumps(value, ensure_ascii=False, indent=2 if nested else None, default=str)
