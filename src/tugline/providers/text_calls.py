"""Calls that small models write as text: `<tool_call>` tags, or bare JSON in place of a reply. Sans-I/O."""

from collections.abc import Collection
from typing import Any

from msgspec import Struct

from tugline.providers.assemble import parse_object
from tugline.providers.encode import dumps

OPENING = "<tool_call>"
CLOSING = "</tool_call>"
BARE_LIMIT = 1024 * 1024
"""Characters up to which a reply that begins like bare JSON is held back."""


class Said(Struct, frozen=True):
    """Words for the person."""

    text: str


class Asked(Struct, frozen=True):
    """A call. `arguments` is JSON text, or whatever stood in its place."""

    name: str
    arguments: str


class TextCalls:
    """Splits a reply's text into words and calls; any split of the text gives the same words and calls.

    Bare JSON counts as a call only where it is the whole reply and names one of `tools`.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._held = ""
        self._call: list[str] | None = None
        self._call_tail = ""
        self._after_call = False
        self._bare: list[str] | None = []
        self._bare_size = 0

    def feed(self, text: str) -> list[Said | Asked]:
        """More of the text."""
        if self._bare is not None:
            self._bare.append(text)
            self._bare_size += len(text)
            start = "".join(self._bare[:2]).lstrip() if len(self._bare) > 1 else text.lstrip()
            if not start and self._bare_size < BARE_LIMIT:
                self._bare = ["".join(self._bare)]
                return []
            if start[:1] in ("{", "[", "`") and self._bare_size < BARE_LIMIT:
                return []
            text = "".join(self._bare)
            self._bare = None
        return self._tagged(text)

    def end(self, *, cut: bool) -> list[Said | Asked]:
        """The text is over; `cut`: at the output limit, so that what is unfinished is no call."""
        made: list[Said | Asked] = []
        if self._bare is not None:
            text = "".join(self._bare)
            self._bare = None
            call = None if cut else self._bare_call(text)
            if call is not None:
                return call
            made = self._tagged(text)
        if self._call is not None:
            text = "".join(self._call) + self._call_tail
            asked = None if cut else _call_of(text)
            # A model that stops at the closing tag often does not say it.
            made.append(asked if asked is not None else Said(OPENING + text))
        elif self._held and not (self._after_call and not self._held.strip()):
            made.append(Said(self._held))
        self._held, self._call = "", None
        return made

    def _tagged(self, text: str) -> list[Said | Asked]:
        made: list[Said | Asked] = []
        while text:
            if self._call is None:
                text = self._held + text
                if self._after_call:
                    text = text.lstrip()
                before, tag, after = text.partition(OPENING)
                # Blanks between words and a call belong to neither: they wait until it is known what follows.
                words = (before if tag else text[: len(text) - _overlap(text, OPENING)]).rstrip()
                if words:
                    self._after_call = False
                    made.append(Said(words))
                if not tag:
                    self._held = text[len(words) :]
                    return made
                self._held = ""
                self._call, self._call_tail, text = [], "", after
            else:
                text = self._call_tail + text
                inside, tag, after = text.partition(CLOSING)
                if not tag:
                    keep = _overlap(text, CLOSING)
                    self._call.append(text[: len(text) - keep])
                    self._call_tail = text[len(text) - keep :]
                    return made
                whole = "".join(self._call) + inside
                made.append(_call_of(whole) or Asked(_name_in(whole), whole.strip()))
                self._call, self._call_tail, text, self._after_call = None, "", after, True
        return made

    def _bare_call(self, text: str) -> list[Said | Asked] | None:
        stripped = text.strip()
        if stripped.startswith("```"):
            stripped = stripped.strip("`").removeprefix("json").strip()
        if stripped.startswith("["):
            wrapped = parse_object('{"calls":' + stripped + "}")
            values = wrapped["calls"] if wrapped is not None else []
        else:
            values = [parse_object(stripped)]
        calls = [_asked(value) for value in values]
        found = [call for call in calls if call is not None and call.name in self._tools]
        return list(found) if found and len(found) == len(calls) else None


def _call_of(text: str) -> Asked | None:
    return _asked(parse_object(text.strip()))


def _asked(value: Any) -> Asked | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return None
    for key in ("arguments", "parameters", "input"):
        arguments = value.get(key)
        if isinstance(arguments, dict):
            return Asked(name, dumps(arguments).decode())
        if isinstance(arguments, str):
            return Asked(name, arguments)
    return Asked(name, "{}")


def _name_in(text: str) -> str:
    """The name in a call that cannot be parsed, as far as it can be told."""
    _, found, rest = text.partition('"name"')
    parts = rest.split('"', 2)
    return parts[1] if found and len(parts) > 2 else ""


def _overlap(text: str, tag: str) -> int:
    """How much of the end of the text may be the beginning of the tag."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
