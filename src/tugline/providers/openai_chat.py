"""OpenAI Chat Completions, and the many servers that speak like it: the provider, and requests as bytes."""

from collections.abc import Callable
from typing import Any

from tugline.net.client import HttpClient, Timeouts
from tugline.protocol.blocks import Document, Image, Text, ToolUse
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.specs import ModelCard, ModelRequest, ToolSpec
from tugline.providers.catalog import Catalog, fit_effort
from tugline.providers.encode import (
    Conversation,
    ConversationCache,
    Entry,
    Group,
    calls_of,
    dumps,
    inner,
    joined,
    seen,
    shown_results,
    user_parts,
    wire_id,
    wire_name,
)
from tugline.providers.endpoint import Endpoint
from tugline.providers.openai_chat_stream import NAME, ChatDecoder
from tugline.providers.wire import Outgoing, WireProvider

ID_LIMIT = 40
"""Characters that a call's id may have there."""

_DOCUMENTS = frozenset({"application/pdf"})
_GAP = b"\\n\\n"


class OpenAIChatProvider(WireProvider):
    """OpenAI's Chat Completions API, and servers that speak it."""

    def __init__(
        self, endpoint: Endpoint, client: HttpClient, catalog: Catalog, *, timeouts: Timeouts | None = None
    ) -> None:
        super().__init__(endpoint, client, catalog, timeouts=timeouts)
        self._encoder = ChatEncoder(catalog, openai_itself=endpoint.openai_itself)

    @property
    def name(self) -> str:
        return self.endpoint.provider or NAME

    def prepare(self, request: ModelRequest) -> Outgoing:
        """The request for `/chat/completions`."""
        conversation, body = self._encoder.encode(request)
        tools = [spec.name for spec in request.tools] if self.card(request.model).text_calls else None
        return Outgoing(
            url=self.endpoint.url("/chat/completions", **{"api-version": self.endpoint.version}),
            headers=openai_headers(self.endpoint, stream=request.stream),
            body=body,
            decoder=ChatDecoder(
                self.reply_ids, self.name, conversation.calls.__contains__, model=request.model, text_tools=tools
            ),
            stream=request.stream,
        )


def openai_headers(endpoint: Endpoint, *, stream: bool) -> tuple[tuple[str, str], ...]:
    """The headers of a request to an OpenAI protocol."""
    return (
        ("content-type", "application/json"),
        ("accept", "text/event-stream" if stream else "application/json"),
        ("user-agent", endpoint.user_agent),
        *endpoint.auth_headers("bearer"),
        *endpoint.headers,
    )


def check_tools(request: ModelRequest, card: ModelCard) -> None:
    """Refuse tools for a model that cannot call any."""
    if request.tools and not (card.tools or card.text_calls):
        raise ProviderError(
            Failure("invalid_model", f"{request.model} cannot call tools natively; choose a model that can")
        )


class ChatEncoder:
    """Requests as bytes. What varies stands behind the messages: the prefix stays the same from step to step."""

    def __init__(self, catalog: Catalog, *, openai_itself: bool = False) -> None:
        self._catalog = catalog
        self._openai_itself = openai_itself
        self._cache = ConversationCache()

    def encode(self, request: ModelRequest) -> tuple[Conversation, bytes]:
        """The body, and what is kept of the conversation."""
        card = self._catalog.card(request.model)
        check_tools(request, card)
        conversation = self._cache.update(request, self._entry_encoder(card))
        parts = [b'{"model":', dumps(request.model)]
        if request.tools:
            parts += [b',"tools":[', conversation.tools(request.tools, _encode_tool), b"]"]
        parts.append(b',"messages":[')
        parts.append(joined(_messages(conversation, request, in_parts=self._openai_itself)))
        parts.append(b"]")
        parts.append(self._options(request, card))
        parts.append(b"}")
        return conversation, b"".join(parts)

    def _options(self, request: ModelRequest, card: ModelCard) -> bytes:
        options: dict[str, Any] = {"stream": request.stream}
        if request.stream:
            options["stream_options"] = {"include_usage": True}
        # OpenAI's own limit includes hidden thinking, so it is only set on request; elsewhere a model without
        # any limit may never stop.
        limit = request.max_output_tokens or (card.output_limit if card.known and not self._openai_itself else None)
        if limit is not None:
            options["max_completion_tokens" if self._openai_itself else "max_tokens"] = limit
        effort = fit_effort(card, request.effort)
        if effort is not None:
            options["reasoning_effort"] = effort
        if self._openai_itself and request.session:
            options["prompt_cache_key"] = f"{request.session}:{request.agent}"[:64]
        return b"," + dumps(options)[1:-1]

    def _entry_encoder(self, card: ModelCard) -> Callable[[Message], Entry]:
        def encode(message: Message) -> Entry:
            return _user_entry(message, card) if isinstance(message, User) else _assistant_entry(message)

        return encode


def _encode_tool(spec: ToolSpec) -> bytes:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.input_schema}
    return dumps({"type": "function", "function": function})


def _user_entry(message: User, card: ModelCard) -> Entry:
    results, rest = user_parts(message)
    made: list[bytes] = []
    parts: list[Text | Image | Document] = []
    for result in results:
        shown = [seen(part, card, _DOCUMENTS) for part in shown_results(result.content)]
        others = [part for part in shown if not isinstance(part, Text)]
        texts = [part.text for part in shown if isinstance(part, Text)]
        call = wire_id(result.tool_use_id, ID_LIMIT)
        if others:
            # A result can be text only there: what else it has follows as words of the user.
            texts.append(f"[{len(others)} attached below]")
            parts += [Text(f"[attached to the result of {call}]"), *others]
        made.append(dumps({"role": "tool", "tool_call_id": call, "content": "\n\n".join(texts)}))
    parts += [seen(part, card, _DOCUMENTS) for part in rest]
    texts = [part.text for part in parts if isinstance(part, Text)]
    return Entry(
        message=message,
        user=True,
        results=joined(made),
        content=joined(dumps(_part(part)) for part in parts),
        text=_GAP.join(map(inner, texts)) if texts and len(texts) == len(parts) else None,
    )


def _assistant_entry(message: Assistant) -> Entry:
    """`text` is what was said, `content` the calls."""
    text = "".join(block.text for block in message.content if isinstance(block, Text))
    calls = [
        dumps(
            {
                "id": wire_id(block.id, ID_LIMIT),
                "type": "function",
                "function": {"name": wire_name(block.name), "arguments": dumps(block.input).decode()},
            }
        )
        for block in message.content
        if isinstance(block, ToolUse)
    ]
    return Entry(
        message=message,
        user=False,
        results=b"",
        content=joined(calls),
        text=inner(text) if text.strip() else None,
        calls=calls_of(message),
    )


def _part(part: Text | Image | Document) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    url = f"data:{part.media_type};base64,{part.data}"
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": part.title or "document.pdf", "file_data": url}}


def _messages(conversation: Conversation, request: ModelRequest, *, in_parts: bool) -> list[bytes]:
    """`in_parts`: the user's words as a list of parts, so that a picture which joins them later changes nothing before
    it; many servers other than OpenAI's own understand words only as one string."""
    system = "\n\n".join(text for text in request.system if text.strip())
    made = [dumps({"role": "system", "content": system})] if system else []
    groups = list(conversation.groups())
    tail = request.tail if request.tail.strip() else ""
    for group in groups:
        if group.user:
            made += _user_group(group, tail if group is groups[-1] else "", in_parts=in_parts)
        else:
            made.append(_assistant_group(group))
    if not groups or (tail and not groups[-1].user):
        made.append(dumps({"role": "user", "content": tail or "(nothing)"}))
    return made


def _user_group(group: Group, tail: str, *, in_parts: bool) -> list[bytes]:
    made = [entry.results for entry in group.entries if entry.results]
    spoken = [entry for entry in group.entries if entry.content]
    if not spoken and not tail:
        return made
    if not in_parts and all(entry.text is not None for entry in spoken):
        texts = [entry.text for entry in spoken if entry.text is not None]
        text = _GAP.join([*texts, inner(tail)] if tail else texts)
        made.append(b'{"role":"user","content":"' + text + b'"}')
    else:
        parts = [entry.content for entry in spoken]
        if tail:
            parts.append(dumps({"type": "text", "text": tail}))
        made.append(b'{"role":"user","content":[' + b",".join(parts) + b"]}")
    return made


def _assistant_group(group: Group) -> bytes:
    texts = [entry.text for entry in group.entries if entry.text is not None]
    content = b'"' + _GAP.join(texts) + b'"' if texts else b"null"
    calls = joined(entry.content for entry in group.entries)
    tail = b',"tool_calls":[' + calls + b"]}" if calls else b"}"
    return b'{"role":"assistant","content":' + content + tail
