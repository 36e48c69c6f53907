"""`stream_event` lines: our deltas in the shapes of Anthropic's stream, whatever the provider was."""

from tugline.cli.headless.shapes import Json, block_shape, one_line, usage_shape
from tugline.protocol.blocks import Opaque, Thinking
from tugline.protocol.codec import encode
from tugline.protocol.events import (
    BlockBegan,
    BlockFinished,
    InputDelta,
    ReplyBegan,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
)

DELTA_LIMIT = 150_000
"""Characters of a delta in one line: six times as many bytes at worst, which is below the limit of a line."""

_SHAPES: dict[type, tuple[bytes, bytes]] = {
    TextDelta: (b"text_delta", b"text"),
    ThinkingDelta: (b"thinking_delta", b"thinking"),
    InputDelta: (b"input_json_delta", b"partial_json"),
}


def delta_prefix(session: bytes, kind: type, index: int) -> bytes:
    """What stands before the text in the line of a delta; `session` is encoded."""
    name, field = _SHAPES[kind]
    return (
        b'{"type":"stream_event","session_id":%s,"parent_tool_use_id":null,"event":{"type":"content_block_delta",'
        b'"index":%d,"delta":{"type":"%s","%s":' % (session, index, name, field)
    )


def delta_text(text: str) -> bytes:
    """The text of a delta, encoded."""
    try:
        return one_line(encode(text))
    except UnicodeEncodeError:
        return one_line(encode(text.encode("utf-8", "replace").decode()))


def message_start(event: ReplyBegan) -> Json:
    """A reply began."""
    message: Json = {
        "id": event.reply,
        "type": "message",
        "role": "assistant",
        "model": event.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_shape(event.usage),
    }
    return {"type": "message_start", "message": message}


def block_start(event: BlockBegan) -> Json | None:
    """A block opened; `None` for a kind that is not shown."""
    block: Json
    match event.kind:
        case "text":
            block = {"type": "text", "text": ""}
        case "thinking":
            block = {"type": "thinking", "thinking": "", "signature": ""}
        case "tool_use":
            block = {"type": "tool_use", "id": event.call, "name": event.name, "input": {}}
        case _:
            return None
    return {"type": "content_block_start", "index": event.index, "content_block": block}


def block_end(event: BlockFinished) -> list[Json]:
    """A block is complete. One that only its provider understands is shown whole, if at all."""
    stop = block_stop(event.index)
    if isinstance(event.block, Thinking) and event.block.signature:
        delta = {"type": "signature_delta", "signature": event.block.signature}
        return [{"type": "content_block_delta", "index": event.index, "delta": delta}, stop]
    if isinstance(event.block, Opaque):
        shape = block_shape(event.block)
        if shape is None:
            return []
        return [{"type": "content_block_start", "index": event.index, "content_block": shape}, stop]
    return [stop]


def block_stop(index: int) -> Json:
    """A block ended."""
    return {"type": "content_block_stop", "index": index}


def message_end(event: ReplyFinished) -> list[Json]:
    """A reply ended."""
    delta = {"stop_reason": event.message.stop, "stop_sequence": None}
    usage = usage_shape(event.message.usage)
    return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]
