"""Where in a JSON text a value stands. Used only when there is something to complain about."""

import json
from collections.abc import Sequence

_BLANK = " \t\r\n"


def locate(text: str, path: Sequence[str | int]) -> tuple[int, int] | None:
    """Line and column (from 1) of the value at `path` (for a key that is the last one, of the key); `None` if gone."""
    position = _find(text, _skip(text, 0), list(path))
    if position is None:
        return None
    line = text.count("\n", 0, position) + 1
    return line, position - text.rfind("\n", 0, position)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _find(text: str, at: int, path: list[str | int]) -> int | None:
    if not path:
        return at
    try:
        if text[at] == "{" and isinstance(path[0], str):
            return _in_object(text, at + 1, path)
        if text[at] == "[" and isinstance(path[0], int):
            return _in_array(text, at + 1, path)
    except (ValueError, IndexError):
        return None
    return None


def _in_object(text: str, at: int, path: list[str | int]) -> int | None:
    decoder = json.JSONDecoder()
    found: int | None = None
    at = _skip(text, at)
    while text[at] == '"':
        begins = at
        key, at = decoder.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if key == path[0]:
            # of two values of one name the last one counts
            found = begins if len(path) == 1 else _find(text, at, path[1:])
        at = _skip(text, decoder.raw_decode(text, at)[1])
        if text[at] != ",":
            break
        at = _skip(text, at + 1)
    return found


def _in_array(text: str, at: int, path: list[str | int]) -> int | None:
    decoder = json.JSONDecoder()
    index = 0
    at = _skip(text, at)
    while text[at] != "]":
        if index == path[0]:
            return _find(text, at, path[1:])
        at = _skip(text, decoder.raw_decode(text, at)[1])
        index += 1
        if text[at] != ",":
            return None
        at = _skip(text, at + 1)
    return None
