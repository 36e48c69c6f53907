"""What tool output looks like to a person."""

from tugline.rules.terminal import clean


def plain_text(text: str) -> str:
    """The text fit for a terminal. Of a line that was written over (progress bars) the last state is left."""
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    return clean(text)


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
