"""What untrusted text looks like to a person: nothing in it can move the cursor, colour or hide a thing."""

import re

# Incomplete sequences count too: one that the end of the text cuts off must not swallow what is printed after it.
_SEQUENCES = re.compile(
    r"""
    (?:\x1b\[|\x9b) [0-?]* [ -/]* (?:[@-~]|$)?
    | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]) [^\x07\x1b\x9c\n]* (?:\x07|\x1b\\|\x9c)?
    | \x1b [ -/]* [0-~]?
    """,
    re.VERBOSE,
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def plain_text(text: str) -> str:
    """The text without control sequences; what else would be invisible stands there as an escape.

    Of a line that was written over (progress bars) the last state is left, as on a terminal.
    """
    if "\r" in text:
        text = "\n".join(_last_state(line) for line in text.split("\n"))
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_escape, _SEQUENCES.sub("", text))


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
