"""How sessions and what was said in them are told to a person: ages, sizes, times, calls in a line."""

import math
import time
from typing import Any

from tugline.protocol.blocks import Document, Image, Text, ToolResult, ToolUse
from tugline.protocol.codec import encode
from tugline.protocol.specs import Content
from tugline.rules.terminal import clean_json

_AGES = (("year", 365 * 86_400), ("month", 30 * 86_400), ("day", 86_400), ("hour", 3_600), ("minute", 60))
_SUBJECTS = (
    "file_path", "notebook_path", "path", "command", "pattern", "url", "query", "description", "prompt", "skill",
    "name",
)  # fmt: skip
"""Fields of a call's input that say best what it is about."""


def age(seconds: float) -> str:
    """How long ago; what a jump of the clock puts into the future counts as now."""
    for name, length in _AGES:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "now"


def size(count: int) -> str:
    """Bytes, rounded."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1_000 or unit == "GB":
            break
        amount /= 1_000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def moment(seconds: float) -> str:
    """Date and time of day here; empty for what is none."""
    if not math.isfinite(seconds) or seconds <= 0:
        return ""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return ""


def call_line(use: ToolUse) -> str:
    """A call in a line: its tool, and what it is about."""
    for name in _SUBJECTS:
        value = use.input.get(name)
        if isinstance(value, str) and value.strip():
            return f"{use.name} {' '.join(value.split())}"
    return f"{use.name} {_first_text(use.input)}".rstrip()


def _first_text(data: dict[str, Any]) -> str:
    return next((" ".join(value.split()) for value in data.values() if isinstance(value, str)), "")


def content_text(content: Content) -> str:
    """What a result says, with a word in place of each picture and document."""
    if isinstance(content, str):
        return content
    return "\n".join(block_text(block) for block in content)


def block_text(block: Text | Image | Document) -> str:
    """A block of a person or of a result as text."""
    match block:
        case Text(text=text):
            return text
        case Image(media_type=kind):
            return f"[picture, {kind}]"
        case Document(media_type=kind, title=title):
            return f"[document, {title or kind}]"


def results_of(content: tuple[object, ...]) -> list[ToolResult]:
    """The results among the parts of a message."""
    return [block for block in content if isinstance(block, ToolResult)]


def as_json(value: Any) -> str:
    """Data as JSON that may be shown on a terminal."""
    return clean_json(encode(value).decode())
