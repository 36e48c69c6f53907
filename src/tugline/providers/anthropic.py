"""Anthropic Messages: the provider, and requests as bytes."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from tugline.net.client import HttpClient, Timeouts
from tugline.protocol.blocks import AssistantBlock, Document, Image, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.specs import ModelCard, ModelRequest, ToolSpec
from tugline.providers.anthropic_stream import NAME, AnthropicDecoder
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
from tugline.providers.wire import Outgoing, WireProvider

VERSION = "2023-06-01"
LEAST_THINKING = 1024
"""The smallest budget for thinking that the API takes."""

_DOCUMENTS = frozenset({"application/pdf", "text/plain"})
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_NOWHERE = (None, None)
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
            decoder=AnthropicDecoder(self.reply_ids, self.name, conversation.calls.__contains__, model=request.model),
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
            text = base64.b64decode(part.data, validate=True).decode("utf-8", "replace")
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
    folded, groups = conversation.fold(lambda group: _message(group, _NOWHERE))
    spots = _move_marks(conversation, groups)
    near = {entry.message.id for group in groups for entry in group.entries}
    if folded and any(spot is not None and spot[0] not in near for spot in spots):
        conversation.unfold()
        folded, groups = [], list(conversation.groups())
    ending = b'{"type":"text","text":' + dumps(tail) + b"}" if tail.strip() else b""
    values = [*folded, *(_message(group, spots) for group in groups)]
    if ending and groups and groups[-1].user:
        values[-1] = values[-1][:-2] + b"," + ending + b"]}"
    elif ending or not groups:
        values.append(b'{"role":"user","content":[' + (ending or _EMPTY_USER) + b"]}")
    return [b",".join(values)]


def _message(group: Group, spots: tuple[Spot | None, Spot | None]) -> bytes:
    role = b'{"role":"user","content":[' if group.user else b'{"role":"assistant","content":['
    return role + _group_content(group, spots) + b"]}"


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
