"""Colours for a terminal, by name; none where they are not wanted."""

import os
from collections.abc import Mapping

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Palette:
    """Paints text, or leaves it alone. The text has to be clean: what is painted is not escaped."""

    def __init__(self, on: bool, *, plain: bool = False) -> None:
        self.on = on
        self.dot = "*" if plain else "●"
        self.elbow = "|" if plain else "└"

    def paint(self, text: str, *names: str) -> str:
        """The text in these colours."""
        if not (self.on and text and names):
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"


def palette(fd: int, environ: Mapping[str, str]) -> Palette:
    """What suits this descriptor: colours only on a terminal that is not dumb, and never with NO_COLOR."""
    dumb = environ.get("TERM") == "dumb"
    return Palette(is_terminal(fd) and not dumb and not environ.get("NO_COLOR"), plain=dumb)


def is_terminal(fd: int) -> bool:
    """Whether a person may be looking at this descriptor."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


def columns(fd: int) -> int:
    """The width of the terminal, or 100 where there is none or it does not say."""
    try:
        found = os.get_terminal_size(fd).columns
    except OSError:
        found = 0
    return max(20, found) if found else 100
