"""Anthropic Messages: answers as chunks."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tugline.protocol.blocks import Opaque
from tugline.protocol.chunks import BlockKind, Chunk
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.messages import StopReason
from tugline.protocol.usage import Usage
from tugline.providers.assemble import Assembly, ReplyIds, count, loose_json, never
from tugline.providers.encode import dumps
from tugline.providers.failure import broken, failure_in_reply

NAME = "anthropic"


class _DeltaBody(Struct, gc=False):
    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""


class _DeltaEvent(Struct, gc=False):
    index: int
    delta: _DeltaBody


class _StartEvent(Struct):
    index: int
    content_block: dict[str, Raw]


class _Whole(Struct):
    content: list[dict[str, Raw]]


class _Tagged(Struct):
    type: str = ""


_decode_delta = msgspec.json.Decoder(_DeltaEvent).decode
_decode_start = msgspec.json.Decoder(_StartEvent).decode
_decode_whole = msgspec.json.Decoder(_Whole).decode
_decode_tag = msgspec.json.Decoder(_Tagged).decode
_decode_any = msgspec.json.Decoder().decode

_DELTAS: dict[str, tuple[BlockKind, str]] = {
    "text_delta": ("text", "text"),
    "input_json_delta": ("tool_use", "partial_json"),
    "thinking_delta": ("thinking", "thinking"),
}
_STOPS = {"model_context_window_exceeded": "context_exceeded"}
_KNOWN = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "error",
    }
)


class AnthropicDecoder:
    """One answer of the Messages API."""

    def __init__(
        self,
        reply_ids: ReplyIds,
        provider: str = NAME,
        known_call: Callable[[str], bool] = never,
        *,
        model: str = "",
    ) -> None:
        self.ended = False
        self._ids = reply_ids
        self._provider = provider
        self._assembly = Assembly(known_call=known_call, model=model)
        self._usage: dict[str, int] = {}
        self._stop: StopReason | None = None

    def feed(self, event: str, data: bytes) -> list[Chunk]:
        """One server-sent event."""
        if self.ended:
            return []
        if event == "content_block_delta":
            try:
                made = _decode_delta(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self._slow_delta(data)
                return self._assembly.take()
            self._delta(made)
            return self._assembly.take()
        if event not in _KNOWN:
            return self._unnamed(data) if event in ("", "message") else []
        self._rare(event, data)
        return self._assembly.take()

    def end(self) -> list[Chunk]:
        """The stream is over."""
        if not self.ended:
            if not self._assembly.started:
                raise broken("the stream ended before the reply began")
            if self._stop is None:
                raise broken("the stream ended in the middle of the reply")
            self._finish()
        return self._assembly.take()

    def whole(self, body: bytes) -> list[Chunk]:
        """The answer to a request that was not streamed."""
        message = _object(body)
        if message.get("type") == "error" or message.get("error"):
            raise failure_in_reply(message, self._provider)
        if not isinstance(message.get("content"), list):
            raise ProviderError(
                Failure("unexpected_reply", f"{self._provider}: the answer is no message of the Messages API")
            )
        self._begin(message)
        for index, (block, raw_input) in enumerate(_whole_blocks(body, message["content"])):
            self._open(index, block, raw_input)
            self._assembly.close(index)
        self._note_usage(message.get("usage"))
        self._note_stop(message)
        if self._stop is None:
            raise broken("the reply has no stop reason")
        self._finish()
        return self._assembly.take()

    def _delta(self, made: _DeltaEvent) -> None:
        delta = made.delta
        kind = delta.type
        if kind == "text_delta":
            self._assembly.delta(made.index, "text", delta.text)
        elif kind == "input_json_delta":
            self._assembly.delta(made.index, "tool_use", delta.partial_json)
        elif kind == "thinking_delta":
            self._assembly.delta(made.index, "thinking", delta.thinking)
        elif kind == "signature_delta":
            self._assembly.signature(made.index, delta.signature)

    def _slow_delta(self, data: bytes) -> None:
        """A delta that the fast decoder refuses: odd characters, nulls, or nothing usable."""
        value, damaged = loose_json(data)
        index = value.get("index") if isinstance(value, dict) else None
        delta = value.get("delta") if isinstance(value, dict) else None
        if not isinstance(index, int) or isinstance(index, bool) or not isinstance(delta, dict):
            raise broken("a delta has no index or no content")
        name = delta.get("type")
        if name == "signature_delta" and isinstance(delta.get("signature"), str) and not damaged:
            self._assembly.signature(index, delta["signature"])
        elif isinstance(name, str) and name in _DELTAS:
            kind, field = _DELTAS[name]
            text = delta.get(field)
            if text is not None and not isinstance(text, str):
                raise broken("a delta is no text")
            self._assembly.ragged_delta(index, kind, text or "", damaged=damaged)

    def _unnamed(self, data: bytes) -> list[Chunk]:
        """An event whose name was lost on the way: its data says what it is."""
        try:
            event = _decode_tag(data).type
        except (msgspec.DecodeError, UnicodeDecodeError):
            value, _ = loose_json(data)
            named = value.get("type") if isinstance(value, dict) else None
            event = named if isinstance(named, str) else ""
        if not event:
            value = _object(data)
            if "error" in value:
                raise failure_in_reply(value, self._provider)
        return self.feed(event, data) if event in _KNOWN else []

    def _rare(self, event: str, data: bytes) -> None:
        assembly = self._assembly
        if event == "content_block_start":
            self._start_block(data)
            return
        value = _object(data)
        if event == "error":
            raise failure_in_reply(value, self._provider)
        if event == "message_start":
            message = value.get("message")
            self._begin(message if isinstance(message, dict) else {})
        elif event == "content_block_stop":
            index = value.get("index")
            if type(index) is not int:
                raise broken("the end of a block does not say which")
            assembly.close(index)
        elif event == "message_delta":
            if not assembly.started:
                raise broken("the end of a reply came before its beginning")
            self._note_usage(value.get("usage"))
            delta = value.get("delta")
            if isinstance(delta, dict):
                self._note_stop(delta)
        elif event == "message_stop":
            self._finish()

    def _start_block(self, data: bytes) -> None:
        try:
            made = _decode_start(data)
            index, (block, raw_input) = made.index, _split_input(made.content_block)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value, _ = loose_json(data)
            loose = value.get("content_block") if isinstance(value, dict) else None
            if not isinstance(loose, dict) or type(value.get("index")) is not int:
                raise broken("the beginning of a block cannot be read") from None
            index, block, raw_input = value["index"], loose, dumps(loose.get("input")).decode()
        self._open(index, block, raw_input)

    def _open(self, index: int, block: Mapping[str, Any], raw_input: str) -> None:
        assembly = self._assembly
        kind = block.get("type")
        if kind == "tool_use":
            initial = "" if raw_input.strip() in ("", "null", "{}") else raw_input
            name = block.get("name")
            assembly.open(
                index, "tool_use", call=block.get("id"), name=name if isinstance(name, str) else "", initial=initial
            )
        elif kind == "text":
            assembly.open(index, "text")
            if isinstance(block.get("text"), str):
                assembly.ragged_delta(index, "text", block["text"])
        elif kind == "thinking":
            assembly.open(index, "thinking")
            if isinstance(block.get("thinking"), str):
                assembly.ragged_delta(index, "thinking", block["thinking"])
            if isinstance(block.get("signature"), str):
                assembly.signature(index, block["signature"])
        elif kind == "redacted_thinking":
            data = Opaque(self._provider, {"type": kind, "data": block.get("data", "")})
            assembly.open(index, "opaque", data=data)
        else:
            assembly.ignore(index)

    def _begin(self, message: Mapping[str, Any]) -> None:
        self._note_usage(message.get("usage"))
        model = message.get("model")
        reply = self._ids.fresh(message.get("id"))
        self._assembly.start(reply, model if isinstance(model, str) else "", self._total())

    def _note_stop(self, value: Mapping[str, Any]) -> None:
        stop = value.get("stop_reason")
        if isinstance(stop, str) and stop:
            self._stop = _STOPS.get(stop, stop)

    def _note_usage(self, usage: Any) -> None:
        # Later counts replace earlier ones: they are sums already.
        if isinstance(usage, dict):
            for key, value in usage.items():
                if value is not None and key.endswith("_tokens"):
                    self._usage[key] = count(value)

    def _total(self) -> Usage:
        get = self._usage.get
        return Usage(
            input=get("input_tokens", 0),
            output=get("output_tokens", 0),
            cache_read=get("cache_read_input_tokens", 0),
            cache_write=get("cache_creation_input_tokens", 0),
        )

    def _finish(self) -> None:
        stop = self._stop or ("tool_use" if self._assembly.calls else "end_turn")
        self._assembly.end(stop, self._total())
        self.ended = True


def _split_input(block: Mapping[str, Raw]) -> tuple[dict[str, Any], str]:
    """A block, and a call's input as it was written: it is parsed by stricter rules."""
    raw = block.get("input")
    rest = {key: _decode_any(value) for key, value in block.items() if key != "input"}
    return rest, bytes(raw).decode() if raw is not None else ""


def _whole_blocks(body: bytes, content: list[Any]) -> list[tuple[dict[str, Any], str]]:
    try:
        return [_split_input(block) for block in _decode_whole(body).content]
    except (msgspec.DecodeError, UnicodeDecodeError):
        if not all(isinstance(block, dict) for block in content):
            raise broken("a block is no object") from None
        return [(block, dumps(block.get("input")).decode()) for block in content]


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = _decode_any(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value, _ = loose_json(data)
    if not isinstance(value, dict):
        raise broken("an event is no JSON object")
    return value
