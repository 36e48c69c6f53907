"""The parts a message is made of. Tags are the words most providers use, so that a transcript reads naturally."""

from typing import Any

from msgspec import Struct

from tugline.protocol.ids import CallId


class Text(Struct, frozen=True, tag_field="type", tag="text"):
    """Words, of a person or of the model."""

    text: str


class Image(Struct, frozen=True, tag_field="type", tag="image"):
    """A picture, base64."""

    media_type: str
    data: str


class Document(Struct, frozen=True, tag_field="type", tag="document", omit_defaults=True):
    """A document that the provider reads itself (PDF), base64."""

    media_type: str
    data: str
    title: str = ""
    pages: int = 1


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking", omit_defaults=True):
    """Reasoning that the provider shows. `signature` is what it wants back unchanged."""

    thinking: str
    signature: str = ""


class Opaque(Struct, frozen=True, tag_field="type", tag="opaque"):
    """A part that only `provider` understands and wants back unchanged (redacted thinking, reasoning items)."""

    provider: str
    data: dict[str, Any]


class ToolUse(Struct, frozen=True, tag_field="type", tag="tool_use", omit_defaults=True):
    """A call that the model asks for. `malformed` holds the raw input where it was not one JSON object."""

    id: CallId
    name: str
    input: dict[str, Any]
    malformed: str | None = None


class ToolResult(Struct, frozen=True, tag_field="type", tag="tool_result", omit_defaults=True):
    """What came of a call, as the model reads it."""

    tool_use_id: CallId
    content: str | tuple[Text | Image | Document, ...]
    is_error: bool = False


UserBlock = Text | Image | Document | ToolResult
AssistantBlock = Text | Thinking | ToolUse | Opaque
Block = UserBlock | AssistantBlock
