"""sed scripts: whether they only print, delete and replace. A script of which one command is not known is not known."""

import re

_PLAIN = frozenset("pdDPgGhHxnNlF=z")
"""Commands without arguments that print, or work on the text in hand."""
_FLAGS = re.compile(r"[gpiImM0-9]*")
_NUMBER = re.compile(r"[0-9]+")
_LABEL = re.compile(r"[ \t]*[A-Za-z0-9_]*[ \t]*")


def only_prints(script: str) -> bool:
    """Whether the script writes no file, reads none beside its operands, and runs nothing."""
    try:
        return bool(script.strip()) and _Script(script).sound()
    except _Unknown:
        return False


class _Unknown(Exception):
    """Something that is not known to be harmless."""


class _Script:
    """Reads a script command by command, as POSIX and GNU describe it; what they read differently is unknown."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def sound(self) -> bool:
        while True:
            self._skip(" \t\n;")
            if self.at >= len(self.text):
                return self.depth == 0
            self._addresses()
            self._command()

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self, characters: str) -> None:
        while self._peek() and self._peek() in characters:
            self.at += 1

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def _addresses(self) -> None:
        if self._address():
            self._skip(" \t")
            if self._peek() == ",":
                self.at += 1
                self._skip(" \t")
                if self._peek() in ("+", "~"):
                    self.at += 1
                if not self._address():
                    raise _Unknown
        self._skip(" \t")
        while self._peek() == "!":
            self.at += 1
            self._skip(" \t")

    def _address(self) -> bool:
        char = self._peek()
        if char == "$":
            self.at += 1
            return True
        if self._take(_NUMBER):
            if self._peek() == "~":
                self.at += 1
                self._take(_NUMBER)
            return True
        if char == "\\":
            self.at += 1
            char = self._peek()
            if not char or char.isalnum() or char in " \\\n":
                raise _Unknown
        elif char != "/":
            return False
        self.at += 1
        self._until(char)
        while self._peek() in ("I", "M"):
            self.at += 1
        return True

    def _until(self, end: str) -> None:
        """Go behind the next `end` that is not escaped. Whether one inside brackets counts is read differently."""
        while True:
            char = self._peek()
            if not char or char == "\n":
                raise _Unknown
            self.at += 1
            if char == "\\":
                self.at += 1
            elif char == end:
                return
            elif char == "[":
                self._bracket(end)

    def _bracket(self, end: str) -> None:
        closing = re.compile(r"\^?\]?(?:\[:[a-z]+:\]|[^\]\n])*\]").match(self.text, self.at)
        if closing is None:
            # an open bracket that is none, such as in the replacement of s
            return
        if end in closing[0] or ("\\" in closing[0].removesuffix("]") and "\\]" in closing[0]):
            raise _Unknown
        self.at = closing.end()

    def _command(self) -> None:
        char = self._peek()
        self.at += 1
        if char == "{":
            self.depth += 1
            return
        if char == "}":
            self.depth -= 1
            if self.depth < 0:
                raise _Unknown
        elif char == "#":
            self._line()
            return
        elif char == "s":
            self._substitute()
        elif char == "y":
            end = self._delimiter()
            self._plain_until(end)
            self._plain_until(end)
        elif char in ("q", "Q", "L"):
            self._skip(" \t")
            self._take(_NUMBER)
        elif char in ("b", "t", "T", ":"):
            self._skip(" \t")
            if char == ":" and not self._take(re.compile(r"[A-Za-z0-9_]+")):
                raise _Unknown
            self._take(_LABEL)
        elif char not in _PLAIN or not char:
            raise _Unknown
        self._end()

    def _delimiter(self) -> str:
        end = self._peek()
        if not end or end.isalnum() or end in " \t\\\n;":
            raise _Unknown
        self.at += 1
        return end

    def _substitute(self) -> None:
        end = self._delimiter()
        self._until(end)
        self._plain_until(end)
        self._take(_FLAGS)

    def _plain_until(self, end: str) -> None:
        while True:
            char = self._peek()
            if not char or char == "\n":
                raise _Unknown
            self.at += 1
            if char == "\\":
                self.at += 1
            elif char == end:
                return

    def _line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _end(self) -> None:
        """A command ends with its line, a semicolon or a closing brace; anything else was not understood."""
        self._skip(" \t")
        if self._peek() and self._peek() not in "\n;}#":
            raise _Unknown
