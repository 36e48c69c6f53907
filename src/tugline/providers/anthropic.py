"""Anthropic Messages: requests as bytes, answers as chunks."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tugline.net.client import HttpClient, Timeouts
from tugline.protocol.blocks import AssistantBlock, Document, Image, Opaque, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.chunks import BlockKind, Chunk
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.messages import Assistant, Message, StopReason, User
from tugline.protocol.specs import ModelCard, ModelRequest, ToolSpec
from tugline.protocol.usage import Usage
from tugline.providers.assemble import Assembly, ReplyIds, count, loose_json, never
from tugline.providers.catalog import Catalog, fit_effort
from tugline.providers.encode import (
    Conversation,
    ConversationCache,
    Entry,
    Group,
    Spot,
    calls_of,
    dumps,
    joined,
    seen,
    shown_results,
    user_parts,
    wire_id,
    wire_name,
)
from tugline.providers.endpoint import Endpoint
from tugline.providers.failure import broken, error_of, failure_of_error
from tugline.providers.wire import Outgoing, WireProvider

NAME = "anthropic"
VERSION = "2023-06-01"
LEAST_THINKING = 1024
"""The smallest budget for thinking that the API takes."""

_DOCUMENTS = frozenset({"application/pdf", "text/plain"})
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_EMPTY_USER = b'{"type":"text","text":"(nothing)"}'


class AnthropicProvider(WireProvider):
    """Anthropic's Messages API, and servers that speak it."""

    def __init__(
        self, endpoint: Endpoint, client: HttpClient, catalog: Catalog, *, timeouts: Timeouts | None = None
    ) -> None:
        super().__init__(endpoint, client, catalog, timeouts=timeouts)
        self._encoder = AnthropicEncoder(catalog, self.name)

    @property
    def name(self) -> str:
        return self.endpoint.provider or NAME

    def prepare(self, request: ModelRequest) -> Outgoing:
        """The request for `/v1/messages`."""
        conversation, body = self._encoder.encode(request)
        endpoint = self.endpoint
        headers = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream" if request.stream else "application/json"),
            ("anthropic-version", endpoint.version or VERSION),
            ("user-agent", endpoint.user_agent),
            *endpoint.auth_headers("x-api-key"),
        ]
        if endpoint.betas:
            headers.append(("anthropic-beta", ",".join(endpoint.betas)))
        has_version = endpoint.base_url.rstrip("/").endswith("/v1")
        return Outgoing(
            url=endpoint.url("/messages" if has_version else "/v1/messages"),
            headers=(*headers, *endpoint.headers),
            body=body,
            decoder=AnthropicDecoder(self.reply_ids, self.name, conversation.calls.__contains__),
            stream=request.stream,
        )


class AnthropicEncoder:
    """Requests as bytes. What varies stands behind the messages, so that the prefix stays the same from step to step.

    Cache markers: the last tool, the last part of the system prompt, the place where the previous request had its last
    marker, and the end of the last user message.
    """

    def __init__(self, catalog: Catalog, provider: str = NAME) -> None:
        self._catalog = catalog
        self._provider = provider
        self._cache = ConversationCache()

    def encode(self, request: ModelRequest) -> tuple[Conversation, bytes]:
        """The body, and what is kept of the conversation."""
        card = self._catalog.card(request.model)
        if request.tools and not card.tools:
            message = f"{request.model} cannot call tools; choose a model that can"
            raise ProviderError(Failure("invalid_model", message))
        conversation = self._cache.update(request, self._entry_encoder(card))
        parts = [b'{"model":', dumps(request.model)]
        if request.tools:
            parts += [b',"tools":[', _marked(conversation.tools(request.tools, _encode_tool)), b"]"]
        system = joined([dumps({"type": "text", "text": text}) for text in request.system if text.strip()])
        if system:
            parts += [b',"system":[', _marked(system), b"]"]
        parts.append(b',"messages":[')
        parts += _messages(conversation, request.tail)
        parts.append(b"]")
        parts.append(self._options(request, card, conversation))
        parts.append(b"}")
        return conversation, b"".join(parts)

    def _options(self, request: ModelRequest, card: ModelCard, conversation: Conversation) -> bytes:
        limit = request.max_output_tokens or card.output_limit
        options: dict[str, Any] = {"max_tokens": limit}
        thinking = _thinking(request, card, limit, conversation)
        if thinking is not None:
            options["thinking"] = thinking
        effort = fit_effort(card, request.effort)
        if effort is not None:
            options["output_config"] = {"effort": effort}
        if request.session:
            options["metadata"] = {"user_id": request.session}
        options["stream"] = request.stream
        return b"," + dumps(options)[1:-1]

    def _entry_encoder(self, card: ModelCard) -> Callable[[Message], Entry]:
        def encode(message: Message) -> Entry:
            if isinstance(message, User):
                results, rest = user_parts(message)
                return Entry(
                    message=message,
                    user=True,
                    results=joined(_encode_result(result, card) for result in results),
                    content=joined(dumps(_part(part, card)) for part in rest),
                )
            return Entry(
                message=message,
                user=False,
                results=b"",
                content=joined(self._assistant_block(block, message) for block in message.content),
                calls=calls_of(message),
            )

        return encode

    def _assistant_block(self, block: AssistantBlock, message: Assistant) -> bytes:
        if isinstance(block, Text):
            return dumps({"type": "text", "text": block.text}) if block.text.strip() else b""
        if isinstance(block, ToolUse):
            return dumps(
                {"type": "tool_use", "id": wire_id(block.id), "name": wire_name(block.name, 128), "input": block.input}
            )
        if isinstance(block, Thinking):
            own = self._catalog.card(message.model).provider in ("", NAME, self._provider)
            if not block.signature or not own:
                return b""
            return dumps({"type": "thinking", "thinking": block.thinking, "signature": block.signature})
        return dumps(block.data) if block.provider == self._provider else b""


def _encode_tool(spec: ToolSpec) -> bytes:
    return dumps({"name": spec.name, "description": spec.description, "input_schema": spec.input_schema})


def _encode_result(result: ToolResult, card: ModelCard) -> bytes:
    content: Any = [_part(part, card) for part in shown_results(result.content)]
    if len(content) == 1 and content[0]["type"] == "text":
        content = content[0]["text"]
    made = {"type": "tool_result", "tool_use_id": wire_id(result.tool_use_id), "content": content}
    if result.is_error:
        made["is_error"] = True
    return dumps(made)


def _part(given: Text | Image | Document, card: ModelCard) -> dict[str, Any]:
    part = seen(given, card, _DOCUMENTS)
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    source: dict[str, Any] = {"type": "base64", "media_type": part.media_type, "data": part.data}
    if isinstance(part, Image):
        return {"type": "image", "source": source}
    if part.media_type == "text/plain":
        try:
            text = base64.b64decode(part.data).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return {"type": "text", "text": "[document left out: its data is damaged]"}
        source = {"type": "text", "media_type": "text/plain", "data": text or " "}
    made = {"type": "document", "source": source}
    if part.title:
        made["title"] = part.title
    return made


def _marked(values: bytes) -> bytes:
    """The values with a cache marker on the last one."""
    return values[:-1] + _MARK


def _messages(conversation: Conversation, tail: str) -> list[bytes]:
    """The messages, with markers at the remembered place and at the end of the last user message."""
    groups = list(conversation.groups())
    spots = _move_marks(conversation, groups)
    ending = b'{"type":"text","text":' + dumps(tail) + b"}" if tail.strip() else b""
    parts: list[bytes] = []
    for group in groups:
        last = group is groups[-1]
        extra = ending if last and group.user else b""
        if parts:
            parts.append(b",")
        parts.append(b'{"role":"user","content":[' if group.user else b'{"role":"assistant","content":[')
        parts.append(_group_content(group, spots) + (b"," + extra if extra else b""))
        parts.append(b"]}")
    if not groups or (ending and not groups[-1].user):
        text = ending or _EMPTY_USER
        parts.append((b"," if parts else b"") + b'{"role":"user","content":[' + text + b"]}")
    return parts


def _group_content(group: Group, spots: tuple[Spot | None, Spot | None]) -> bytes:
    values: list[bytes] = []
    if group.user:
        for entry in group.entries:
            if entry.results:
                values.append(_marked(entry.results) if (entry.message.id, False) in spots else entry.results)
    for entry in group.entries:
        if entry.content:
            marked = group.user and (entry.message.id, True) in spots
            values.append(_marked(entry.content) if marked else entry.content)
    return b",".join(values)


def _end_of(group: Group) -> Spot:
    """The last thing of a user group on the wire."""
    for entry in reversed(group.entries):
        if entry.content:
            return entry.message.id, True
    return group.entries[-1].message.id, False


def _move_marks(conversation: Conversation, groups: list[Group]) -> tuple[Spot | None, Spot | None]:
    """Where the markers stand in this request: where the last request wrote its cache, and as late as can be."""
    users = [group for group in groups[-4:] if group.user]
    if not users:
        conversation.marked = (None, None)
        return conversation.marked
    last = _end_of(users[-1])
    before, written = conversation.marked
    if written == last:
        previous = before
    elif written is not None and _stands(written, conversation):
        previous = written
    else:
        previous = _end_of(users[-2]) if len(users) > 1 else None
    conversation.marked = (previous, last)
    return conversation.marked


def _stands(spot: Spot, conversation: Conversation) -> bool:
    # Backwards: the place is nearly always within the last few messages.
    for entry in reversed(conversation.entries):
        if entry.message.id == spot[0]:
            return bool(entry.content if spot[1] else entry.results)
    return False


def _thinking(request: ModelRequest, card: ModelCard, limit: int, conversation: Conversation) -> dict[str, Any] | None:
    if request.thinking_tokens <= 0 or not (card.thinking or not card.known):
        return None
    if card.adaptive_thinking:
        return {"type": "adaptive", "display": "summarized"}
    budget = min(request.thinking_tokens, limit - 1)
    if budget < LEAST_THINKING or not _may_think(conversation):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _may_think(conversation: Conversation) -> bool:
    """Whether the API takes a budget here: a turn that called tools without thinking has to go on without."""
    for entry in reversed(conversation.entries):
        if isinstance(entry.message, Assistant):
            return not entry.calls or entry.content.startswith((b'{"type":"thinking"', b'{"type":"redacted_thinking"'))
    return True


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
    ) -> None:
        self.ended = False
        self._ids = reply_ids
        self._provider = provider
        self._assembly = Assembly(known_call=known_call)
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
            self._error(message)
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
        elif name in _DELTAS:
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
            event = value.get("type", "") if isinstance(value, dict) else ""
        if not event:
            value = _object(data)
            if "error" in value:
                self._error(value)
        return self.feed(event, data) if event in _KNOWN else []

    def _rare(self, event: str, data: bytes) -> None:
        assembly = self._assembly
        if event == "content_block_start":
            self._start_block(data)
            return
        value = _object(data)
        if event == "error":
            self._error(value)
        elif event == "message_start":
            message = value.get("message")
            self._begin(message if isinstance(message, dict) else {})
        elif event == "content_block_stop":
            assembly.close(value.get("index"))
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

    def _error(self, value: Mapping[str, Any]) -> None:
        words, detail = error_of(value)
        raise ProviderError(failure_of_error(words, detail, provider=self._provider))


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
