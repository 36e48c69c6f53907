"""Anthropic Messages, as the service speaks it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tugline.protocol import codec
from tugline.protocol.blocks import AssistantBlock, Opaque, Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.usage import Usage
from tugline.testing.dialects import Encoder, Json, event, gather
from tugline.testing.prompt_cache import Piece, PromptCache
from tugline.testing.validity import (
    MARKERS_ALLOWED,
    check_block,
    check_conversation,
    check_schema,
    check_tool_names,
    require,
)
from tugline.testing.view import Said, SeenResult, View, content_text, view_of

_NAMES = (
    "model messages max_tokens system tools tool_choice metadata stop_sequences stream temperature top_k top_p thinking"
    " service_tier container mcp_servers context_management output_config output_format cache_control inference_geo"
    " speed"
)
FIELDS = frozenset(_NAMES.split())
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


class Messages:
    """`POST /v1/messages`."""

    name = "messages"

    def check(self, body: Json, headers: Mapping[str, str]) -> None:
        """Raise `Invalid` unless the service would take this request."""
        require(headers.get("anthropic-version"), "anthropic-version: header is required")
        require(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
        require(body["max_tokens"] >= 1, "max_tokens: Input should be greater than or equal to 1")
        self.check_prompt(body)
        thinking = body.get("thinking")
        if isinstance(thinking, dict) and thinking.get("type") == "enabled":
            budget = thinking.get("budget_tokens")
            require(isinstance(budget, int) and budget >= 1024, "thinking.budget_tokens: at least 1024")
            require(budget < body["max_tokens"], "`max_tokens` must be greater than `thinking.budget_tokens`")

    def check_prompt(self, body: Json) -> None:
        """Raise `Invalid` unless model, system, tools and messages are as they must be."""
        require(isinstance(body.get("model"), str) and body["model"], "model: Field required")
        unknown = sorted(set(body) - FIELDS)
        require(not unknown, f"{unknown[0] if unknown else ''}: Extra inputs are not permitted")
        require("messages" in body, "messages: Field required")
        _check_system(body.get("system"))
        tools = body.get("tools", [])
        require(isinstance(tools, list), "tools: Input should be a valid list")
        for n, tool in enumerate(tools):
            require(isinstance(tool, dict), f"tools.{n}: Input should be an object")
            if tool.get("type", "custom") == "custom":
                check_schema(tool.get("input_schema"), f"tools.{n}.input_schema")
        check_tool_names([tool.get("name") for tool in tools], 128)
        check_conversation(body["messages"])
        marks = sum(piece.marked for piece in pieces(body))
        require(marks <= MARKERS_ALLOWED, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")

    def view(self, body: Json) -> View:
        """What a script can see of the request."""
        return view_of(
            [_said(message) for message in body["messages"]],
            model=body["model"],
            system=content_text(body.get("system", "")),
            tools=tuple(tool["name"] for tool in body.get("tools", [])),
            stream=body.get("stream") is True,
            characters=0,
        )

    def usage(self, body: Json, cache: PromptCache) -> Usage:
        """What the request costs: markers say what is kept."""
        return cache.marked(body["model"], pieces(body))

    def encoder(self, body: Json) -> Encoder:
        """For a streamed reply."""
        return _Stream()

    def whole(self, chunks: Sequence[Chunk]) -> Json:
        """The reply in one piece."""
        started, blocks, stop, usage = gather(chunks)
        content = [block for block in map(_block, blocks) if block is not None]
        return {**_message(started, usage), "content": content, "stop_reason": stop}

    def error(self, kind: str, message: str, request_id: str) -> Json:
        """The body of a refusal."""
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


class _Stream:
    def __init__(self) -> None:
        self._index = -1
        self._head = b""
        self._thinking = False

    def encode(self, chunk: Chunk) -> bytes:
        match chunk:
            case BlockDelta(text=text):
                return self._head + codec.encode(text) + b"}}\n\n"
            case BlockStarted():
                return self._block_started(chunk)
            case BlockClosed(block=block):
                return self._block_closed(block)
            case ReplyStarted():
                return event("message_start", {"type": "message_start", "message": _message(chunk, chunk.usage)})
            case ReplyEnded(stop=stop, usage=usage):
                delta = {"stop_reason": stop, "stop_sequence": None}
                data = {"type": "message_delta", "delta": delta, "usage": _usage(usage)}
                return event("message_delta", data) + event("message_stop", {"type": "message_stop"})
        return b""

    def ping(self) -> bytes:
        return PING

    def error(self, kind: str, message: str) -> bytes:
        return event("error", {"type": "error", "error": {"type": kind, "message": message}})

    def _block_started(self, chunk: BlockStarted) -> bytes:
        if chunk.kind == "opaque":
            return b""
        key, kind, empty = _DELTAS[chunk.kind]
        self._open(key, kind)
        if chunk.kind == "tool_use":
            empty = {"type": "tool_use", "id": chunk.call, "name": chunk.name, "input": {}}
        return self._started(empty)

    def _open(self, key: str, kind: str) -> None:
        self._index += 1
        opening = f'{{"type":"content_block_delta","index":{self._index},"delta":{{"type":"{kind}","{key}":'
        self._head = f"event: content_block_delta\ndata: {opening}".encode()

    def _started(self, block: Any) -> bytes:
        data = {"type": "content_block_start", "index": self._index, "content_block": block}
        return event("content_block_start", data) + (PING if self._index == 0 else b"")

    def _block_closed(self, block: AssistantBlock) -> bytes:
        said = b""
        if isinstance(block, Opaque):
            if (shown := _block(block)) is None:
                return b""
            self._index += 1
            said = self._started(shown)
        elif isinstance(block, Thinking) and block.signature:
            delta = {"type": "signature_delta", "signature": block.signature}
            said = event("content_block_delta", {"type": "content_block_delta", "index": self._index, "delta": delta})
        return said + event("content_block_stop", {"type": "content_block_stop", "index": self._index})


_DELTAS: dict[str, tuple[str, str, Json]] = {
    "text": ("text", "text_delta", {"type": "text", "text": ""}),
    "thinking": ("thinking", "thinking_delta", {"type": "thinking", "thinking": "", "signature": ""}),
    "tool_use": ("partial_json", "input_json_delta", {}),
}


def _message(started: ReplyStarted, usage: Usage) -> Json:
    return {
        "id": started.reply,
        "type": "message",
        "role": "assistant",
        "model": started.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(usage),
    }


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }


def _block(block: AssistantBlock) -> Json | None:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Thinking(thinking=thinking, signature=signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUse():
            data = block.input if block.malformed is None else block.malformed
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": data}
        case Opaque(provider=provider, data=shown):
            return shown if provider.startswith("anthropic") else None


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    require(isinstance(system, list), "system: Input should be a string or a list")
    for n, block in enumerate(system):
        require(isinstance(block, dict) and block.get("type") == "text", f"system.{n}.type: Input should be 'text'")
        check_block(block, f"system.{n}", "user")


def _said(message: Json) -> Said:
    content = message["content"]
    if isinstance(content, str):
        return Said(message["role"], (content,))
    texts = tuple(block["text"] for block in content if block["type"] == "text")
    results = tuple(
        SeenResult(block["tool_use_id"], content_text(block.get("content", "")), block.get("is_error", False))
        for block in content
        if block["type"] == "tool_result"
    )
    return Said(message["role"], texts, results)


def pieces(body: Json) -> list[Piece]:
    """The prompt in the order in which the service reads it: tools, system, messages."""
    system = body.get("system") or []
    blocks = [*body.get("tools", []), *([{"type": "text", "text": system}] if isinstance(system, str) else system)]
    found = [_piece(block, b"") for block in blocks]
    for message in body["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [_piece(block, message["role"].encode()) for block in parts]
    return found


def _piece(block: Json, role: bytes) -> Piece:
    marked = "cache_control" in block
    if marked:
        block = {key: value for key, value in block.items() if key != "cache_control"}
    return Piece(role + codec.encode(block), marked)
