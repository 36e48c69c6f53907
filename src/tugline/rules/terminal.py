"""Untrusted text on its way to a terminal: nothing in it can move the cursor, colour, ring or hide a thing."""

import re
import unicodedata
from enum import IntEnum

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff"
)
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_SUSPECT = re.compile(f"[{_CONTROLS}{_INVISIBLE}]")
_CONTROL = re.compile(f"[{_CONTROLS}]")

STRING_LIMIT = 4_096
"""Characters after which a control string without an end no longer hides what follows."""

_STRING_STARTS = "\x90\x98\x9d\x9e\x9f"
_STRING_LETTERS = "]PX^_"


class _In(IntEnum):
    GROUND = 0
    RETURN = 1
    ESCAPE = 2
    ESCAPE_MIDDLE = 3
    CSI = 4
    STRING = 5
    STRING_ESCAPE = 6


class Cleaner:
    """Cleans a stream of text; any split of the text gives the same output.

    Control sequences (7 and 8 bit, whole or cut off) are left out; other control characters than line feed and tab,
    and characters that are invisible or turn the direction of writing, become visible escapes.
    """

    def __init__(self, *, suspect: re.Pattern[str] = _SUSPECT) -> None:
        self._suspect = suspect
        self._state = _In.GROUND
        self._length = 0
        self._out: list[str] = []

    def feed(self, text: str) -> str:
        """The next piece, clean."""
        position, end = 0, len(text)
        while position < end:
            if self._state == _In.GROUND:
                found = self._suspect.search(text, position)
                stop = found.start() if found else end
                if stop > position:
                    self._out.append(text[position:stop])
                if found is None:
                    break
                position = stop
            self._step(text[position])
            position += 1
        return self._taken()

    def close(self) -> str:
        """What is left at the end of the stream."""
        if self._state == _In.RETURN:
            self._out.append(escaped("\r"))
        self._state = _In.GROUND
        return self._taken()

    def _taken(self) -> str:
        text = "".join(self._out)
        self._out.clear()
        return text

    def _step(self, char: str) -> None:
        match self._state:
            case _In.GROUND:
                self._ground(char)
            case _In.RETURN:
                if char != "\n":
                    self._out.append(escaped("\r"))
                self._ground(char)
            case _In.ESCAPE:
                self._escape(char)
            case _In.ESCAPE_MIDDLE:
                self._within(char, " ", "/")
            case _In.CSI:
                self._within(char, " ", "?")
            case _In.STRING:
                self._string(char)
            case _In.STRING_ESCAPE:
                if char == "\\":
                    self._state = _In.GROUND
                else:
                    self._escape(char)

    def _ground(self, char: str) -> None:
        self._state = _In.GROUND
        if char == "\x1b":
            self._state = _In.ESCAPE
        elif char == "\x9b":
            self._state = _In.CSI
        elif char in _STRING_STARTS:
            self._begin_string()
        elif char == "\r":
            self._state = _In.RETURN
        elif self._suspect.match(char):
            self._out.append(escaped(char))
        else:
            self._out.append(char)

    def _begin_string(self) -> None:
        self._state = _In.STRING
        self._length = 0

    def _escape(self, char: str) -> None:
        if char == "[":
            self._state = _In.CSI
        elif char in _STRING_LETTERS:
            self._begin_string()
        elif " " <= char <= "/":
            self._state = _In.ESCAPE_MIDDLE
        elif "0" <= char <= "~":
            self._state = _In.GROUND
        else:
            self._ground(char)

    def _within(self, char: str, low: str, high: str) -> None:
        """Inside a sequence whose parameters lie between `low` and `high`, and that a further letter ends."""
        if low <= char <= high:
            return
        if high < char <= "~" or char in "\x18\x1a":
            self._state = _In.GROUND
        else:
            self._ground(char)

    def _string(self, char: str) -> None:
        self._length += 1
        if char == "\x1b":
            self._state = _In.STRING_ESCAPE
        elif char in "\x07\x9c\x18\x1a":
            self._state = _In.GROUND
        elif char == "\n":
            # a terminal would go on swallowing; what is shown is safe either way, and hiding helps only an attacker
            self._ground(char)
        elif self._length >= STRING_LIMIT:
            self._state = _In.GROUND


def escaped(char: str) -> str:
    """A character as a visible escape."""
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: str) -> str:
    """The text as it may be shown on a terminal."""
    if _SUSPECT.search(text) is None:
        return text
    cleaner = Cleaner()
    return cleaner.feed(text) + cleaner.close()


def clean_controls(text: str) -> str:
    """The text without control sequences, all else as it is: for what a program reads, or a person after it."""
    if _CONTROL.search(text) is None:
        return text
    cleaner = Cleaner(suspect=_CONTROL)
    return cleaner.feed(text) + cleaner.close()


def clean_json(text: str) -> str:
    """Encoded JSON with what a terminal should not get as escapes of JSON: to a program it says the same."""
    return _SUSPECT.sub(_json_escape, text) if _SUSPECT.search(text) else text


def _json_escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def clean_line(text: str, width: int) -> str:
    """The text as one clean line of at most `width` columns, runs of blanks made one."""
    return clip(" ".join(clean(text).split()), width)


def clip(line: str, width: int) -> str:
    """A clean line in at most `width` columns; what was cut off shows as an ellipsis."""
    if len(line) <= width and line.isascii():
        return line
    columns = 0
    for position, char in enumerate(line):
        columns += char_width(char)
        if columns > width:
            return _cut(line[:position], width)
    return line


def _cut(line: str, width: int) -> str:
    if width <= 0:
        return ""
    columns = sum(map(char_width, line))
    while line and columns > width - 1:
        columns -= char_width(line[-1])
        line = line[:-1]
    return line + "…"


def char_width(char: str) -> int:
    """Columns that a character takes."""
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
