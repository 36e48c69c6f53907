"""Our data in the shapes of the stream-json protocol, and lines kept below its limit."""

from typing import Any

from tugline.protocol.blocks import Block, Document, Image, Opaque, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.codec import encode
from tugline.protocol.usage import Usage

Json = dict[str, Any]

LINE_LIMIT = (1 << 20) - 1
"""Bytes of a line without its end: hosts give up on longer ones."""

_FIRST_CUT = 1 << 18


def usage_shape(usage: Usage) -> Json:
    """Tokens, as the protocol names them."""
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
    }


def block_shape(block: Block) -> Json | None:
    """A block; `None` for one that only its provider understands."""
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(thinking, signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUse(id=call, name=name, input=given):
            return {"type": "tool_use", "id": call, "name": name, "input": given}
        case Image(media_type, data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        case Document(media_type, data):
            return {"type": "document", "source": {"type": "base64", "media_type": media_type, "data": data}}
        case Opaque(provider, data):
            return data if provider == "anthropic" and "type" in data else None
        case ToolResult():
            return result_shape(block)


def result_shape(result: ToolResult) -> Json:
    """The result of a call."""
    content: Any = result.content
    if not isinstance(content, str):
        content = [block_shape(block) for block in content]
    return {
        "type": "tool_result",
        "tool_use_id": result.tool_use_id,
        "content": content,
        "is_error": result.is_error,
    }


def line(message: Json) -> bytes:
    """The message as one line; what is too long in it is cut and says so."""
    try:
        data = one_line(encode(message))
    except UnicodeEncodeError:
        message = _encodable(message)
        data = one_line(encode(message))
    limit = _FIRST_CUT
    while len(data) > LINE_LIMIT and limit:
        message = _cut(message, limit)
        data = one_line(encode(message))
        limit //= 2
    return data + b"\n"


def one_line(data: bytes) -> bytes:
    """JSON without the three characters that some readers of lines take for an end of line."""
    if b"\xe2\x80" in data or b"\xc2\x85" in data:
        data = data.replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")
        data = data.replace(b"\xc2\x85", rb"\u0085")
    return data


def _cut(value: Any, limit: int) -> Any:
    """The value with strings and lists of at most about `limit` characters or entries."""
    if isinstance(value, str):
        return value if len(value) <= limit else _cut_text(value, limit)
    if isinstance(value, dict):
        source = value.get("source")
        if isinstance(source, dict) and len(source.get("data", "")) > limit:
            kind = value.get("type", "part")
            return {"type": "text", "text": f"[{kind} of {len(source['data'])} characters left out: line too long]"}
        items = list(value.items())
        return {_cut(key, limit): _cut(each, limit) for key, each in items[: max(limit, 16)]}
    if isinstance(value, list | tuple):
        kept = [_cut(each, limit) for each in value[:limit]]
        if len(value) > limit and (not kept or isinstance(kept[0], str)):
            kept.append(f"[… {len(value) - limit} more left out: line too long]")
        return kept
    return value


def _cut_text(text: str, limit: int) -> str:
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out: line too long]\n{text[len(text) - half :]}"


def _encodable(value: Any) -> Any:
    """The value without halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return value
