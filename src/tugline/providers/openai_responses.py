"""OpenAI Responses, without state on the server: the provider, and requests as bytes."""

from collections.abc import Callable
from typing import Any

from tugline.net.client import HttpClient, Timeouts
from tugline.protocol.blocks import AssistantBlock, Document, Image, Opaque, Text, ToolResult, ToolUse
from tugline.protocol.messages import Message, User
from tugline.protocol.specs import ModelCard, ModelRequest, ToolSpec
from tugline.providers.catalog import Catalog, fit_effort
from tugline.providers.encode import (
    Conversation,
    ConversationCache,
    Entry,
    Group,
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
from tugline.providers.openai_chat import check_tools, openai_headers
from tugline.providers.openai_responses_stream import NAME, ResponsesDecoder
from tugline.providers.wire import Outgoing, WireProvider

_DOCUMENTS = frozenset({"application/pdf"})


class OpenAIResponsesProvider(WireProvider):
    """OpenAI's Responses API, and servers that speak it."""

    def __init__(
        self, endpoint: Endpoint, client: HttpClient, catalog: Catalog, *, timeouts: Timeouts | None = None
    ) -> None:
        super().__init__(endpoint, client, catalog, timeouts=timeouts)
        self._encoder = ResponsesEncoder(catalog, self.name)

    @property
    def name(self) -> str:
        return self.endpoint.provider or NAME

    def prepare(self, request: ModelRequest) -> Outgoing:
        """The request for `/responses`."""
        conversation, body = self._encoder.encode(request)
        return Outgoing(
            url=self.endpoint.url("/responses", **{"api-version": self.endpoint.version}),
            headers=openai_headers(self.endpoint, stream=request.stream),
            body=body,
            decoder=ResponsesDecoder(self.reply_ids, self.name, conversation.calls.__contains__, model=request.model),
            stream=request.stream,
        )


class ResponsesEncoder:
    """Requests as bytes. What varies stands behind the input, so that the prefix stays the same from step to step."""

    def __init__(self, catalog: Catalog, provider: str = NAME) -> None:
        self._catalog = catalog
        self._provider = provider
        self._cache = ConversationCache()

    def encode(self, request: ModelRequest) -> tuple[Conversation, bytes]:
        """The body, and what is kept of the conversation."""
        card = self._catalog.card(request.model)
        check_tools(request, card)
        conversation = self._cache.update(request, self._entry_encoder(card))
        parts = [b'{"model":', dumps(request.model)]
        system = "\n\n".join(text for text in request.system if text.strip())
        if system:
            parts += [b',"instructions":', dumps(system)]
        if request.tools:
            parts += [b',"tools":[', conversation.tools(request.tools, _encode_tool), b"]"]
        parts.append(b',"input":[')
        parts.append(joined(_items(conversation, request)))
        parts.append(b"]")
        parts.append(_options(request, card))
        parts.append(b"}")
        return conversation, b"".join(parts)

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
                content=joined(self._item(block) for block in message.content),
                calls=calls_of(message),
            )

        return encode

    def _item(self, block: AssistantBlock) -> bytes:
        if isinstance(block, Text):
            # llama.cpp tells items apart by their type alone.
            said = {"type": "message", "role": "assistant", "content": block.text}
            return dumps(said) if block.text.strip() else b""
        if isinstance(block, ToolUse):
            return dumps(
                {
                    "type": "function_call",
                    "call_id": wire_id(block.id),
                    "name": wire_name(block.name),
                    "arguments": dumps(block.input).decode(),
                }
            )
        if isinstance(block, Opaque) and block.provider == self._provider:
            return dumps(block.data)
        return b""


def _options(request: ModelRequest, card: ModelCard) -> bytes:
    options: dict[str, Any] = {"stream": request.stream, "store": False}
    if request.max_output_tokens is not None:
        options["max_output_tokens"] = request.max_output_tokens
    effort = fit_effort(card, request.effort)
    if card.thinking:
        reasoning: dict[str, Any] = {"summary": "auto"}
        if effort is not None:
            reasoning["effort"] = effort
        options["reasoning"] = reasoning
        options["include"] = ["reasoning.encrypted_content"]
    elif effort is not None:
        options["reasoning"] = {"effort": effort}
    if request.session:
        options["prompt_cache_key"] = f"{request.session}:{request.agent}"[:64]
    return b"," + dumps(options)[1:-1]


def _encode_tool(spec: ToolSpec) -> bytes:
    return dumps(
        {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.input_schema,
            "strict": False,
        }
    )


def _encode_result(result: ToolResult, card: ModelCard) -> bytes:
    parts = [_part(part, card) for part in shown_results(result.content)]
    output: Any = parts
    if len(parts) == 1 and parts[0]["type"] == "input_text":
        output = parts[0]["text"]
    return dumps({"type": "function_call_output", "call_id": wire_id(result.tool_use_id), "output": output})


def _part(given: Text | Image | Document, card: ModelCard) -> dict[str, Any]:
    part = seen(given, card, _DOCUMENTS)
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    url = f"data:{part.media_type};base64,{part.data}"
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": part.title or "document.pdf", "file_data": url}


def _items(conversation: Conversation, request: ModelRequest) -> list[bytes]:
    tail = dumps({"type": "input_text", "text": request.tail}) if request.tail.strip() else b""
    groups = list(conversation.groups())
    made: list[bytes] = []
    for group in groups:
        made += _user_group(group, tail if group is groups[-1] else b"") if group.user else _contents(group)
    if not groups or (tail and not groups[-1].user):
        content = tail or b'{"type":"input_text","text":"(nothing)"}'
        made.append(b'{"type":"message","role":"user","content":[' + content + b"]}")
    return made


def _contents(group: Group) -> list[bytes]:
    return [entry.content for entry in group.entries if entry.content]


def _user_group(group: Group, tail: bytes) -> list[bytes]:
    made = [entry.results for entry in group.entries if entry.results]
    content = joined([*_contents(group), tail])
    if content:
        made.append(b'{"type":"message","role":"user","content":[' + content + b"]}")
    return made
