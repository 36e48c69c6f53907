"""Big results: the whole text goes to a file, the model gets head, tail, size and the path. Decided once per result,
in the order of the calls, so that a request's prefix never changes."""

from typing import Any

from msgspec import structs

from tugline.ports import Spill
from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.errors import SessionError
from tugline.protocol.specs import Content, Display, Result
from tugline.rules import wording

MESSAGE_LIMIT = 200_000
"""Characters that the results of one message may have in all."""
SMALLEST = 2_000
"""What a result keeps at least, however full its message is."""


def size(content: Content) -> int:
    """Characters of text."""
    if isinstance(content, str):
        return len(content)
    return sum(len(part.text) for part in content if isinstance(part, Text))


def fit(content: Content, limit: int, name: str, spill: Spill) -> Content:
    """The content, cut to `limit` characters of text; what is cut is kept in a file that the text names."""
    if size(content) <= limit:
        return content
    if isinstance(content, str):
        return _fit_text(content, limit, name, spill)
    parts: list[Text | Image | Document] = []
    left = limit
    for part in content:
        if isinstance(part, Text):
            if len(part.text) > left:
                parts.append(Text(_fit_text(part.text, max(left, 200), name, spill)))
                left = 0
            else:
                parts.append(part)
                left -= len(part.text)
        else:
            parts.append(part)
    return tuple(parts)


def _fit_text(text: str, limit: int, name: str, spill: Spill) -> str:
    try:
        where = f"it is in {spill.keep(name, text)}, to be read in parts or searched"
    except SessionError as error:
        where = f"it could not be kept ({error})"
    head, tail = text[: limit // 2], text[-(limit // 2) :]
    missing = len(text) - len(head) - len(tail)
    lines = text.count("\n") + 1
    return (
        f"{head}\n\n[{missing} characters left out here. The whole result has {len(text)} characters in {lines} lines; "
        f"{where}.]\n\n{tail}"
    )


def sealed(result: Any) -> Result:
    """The result of a tool, whose text cannot pass for the engine's. `TypeError` unless it is what tools promise: their
    code is the user's."""
    if not isinstance(result, Result):
        raise TypeError(f"it returned {type(result).__name__} instead of a Result")
    content: Any = result.for_model
    if isinstance(content, str):
        return structs.replace(result, for_model=wording.escape(content) or "(no output)")
    if not isinstance(content, tuple) or not all(isinstance(part, Text | Image | Document) for part in content):
        raise TypeError("its result for the model is neither text nor a tuple of blocks")
    blocks = tuple(Text(wording.escape(part.text)) if isinstance(part, Text) else part for part in content)
    return structs.replace(result, for_model=blocks)


def sound(display: Display) -> Display:
    """What a person is shown, without characters that cannot be sent."""
    return structs.replace(display, line=wording.sound(display.line), detail=wording.sound(display.detail))


def first_line(content: Content) -> str:
    """The first line of the text, cut."""
    text = content if isinstance(content, str) else next((p.text for p in content if isinstance(p, Text)), "")
    return text.strip().split("\n", 1)[0][:200]
