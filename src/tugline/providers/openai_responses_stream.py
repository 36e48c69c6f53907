"""OpenAI Responses: answers as chunks."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tugline.protocol.blocks import Opaque
from tugline.protocol.chunks import BlockKind, Chunk
from tugline.protocol.codec import mend_surrogates
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.messages import StopReason
from tugline.providers.assemble import Assembly, ReplyIds, loose_json, never
from tugline.providers.failure import broken, failure_in_reply
from tugline.providers.openai_chat_stream import NAME, chat_usage

__all__ = ["NAME", "ResponsesDecoder"]

_REASONING_FIELDS = ("type", "id", "summary", "content", "encrypted_content")


class _Delta(Struct, gc=False):
    delta: str
    output_index: int = -1
    content_index: int = 0
    item_id: str | None = None


_decode_delta = msgspec.json.Decoder(_Delta).decode
_decode_any = msgspec.json.Decoder().decode

_DELTAS: dict[str, BlockKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.function_call_arguments.delta": "tool_use",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
}
_ENDINGS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_RARE = _ENDINGS | {
    "response.created",
    "response.in_progress",
    "response.queued",
    "response.output_item.added",
    "response.output_item.done",
    "response.reasoning_summary_part.added",
    "error",
}

_BLOCKS: dict[str, BlockKind] = {"message": "text", "function_call": "tool_use", "reasoning": "thinking"}
_INCOMPLETE = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class ResponsesDecoder:
    """One answer of the Responses API.

    Each output item is a block; an item of reasoning becomes what it shows, and the whole item for the next request.
    """

    def __init__(
        self, reply_ids: ReplyIds, provider: str = NAME, known_call: Callable[[str], bool] = never, *, model: str = ""
    ) -> None:
        self.ended = False
        self._ids = reply_ids
        self._provider = provider
        self._assembly = Assembly(known_call=known_call, model=model)
        self._items: dict[int, str] = {}
        self._by_id: dict[str, int] = {}
        self._refused = False
        self._id: Any = None

    def feed(self, event: str, data: bytes) -> list[Chunk]:
        """One server-sent event."""
        if self.ended or data[:6] == b"[DONE]":
            return []
        kind = _DELTAS.get(event)
        if kind is not None:
            self._delta(event, kind, data)
        elif event in _RARE:
            self._rare(event, _object(data))
        elif event in ("", "message"):
            # The name was lost on the way, or never sent: the data says what it is.
            value = _object(data)
            name = value.get("type")
            if isinstance(name, str) and (name in _DELTAS or name in _RARE):
                return self.feed(name, data)
            if value.get("error"):
                raise failure_in_reply(value, self._provider)
        return self._assembly.take()

    def end(self) -> list[Chunk]:
        """The stream is over."""
        if not self.ended:
            place = "in the middle of the reply" if self._assembly.started else "before the reply began"
            raise broken(f"the stream ended {place}")
        return self._assembly.take()

    def whole(self, body: bytes) -> list[Chunk]:
        """The answer to a request that was not streamed."""
        response = _object(body)
        if response.get("error"):
            raise failure_in_reply(response, self._provider)
        if not isinstance(response.get("output"), list):
            message = f"{self._provider}: the answer is no response of the Responses API"
            raise ProviderError(Failure("unexpected_reply", message))
        self._begin(response)
        status = response.get("status")
        self._ending(status if isinstance(status, str) else "completed", response)
        return self._assembly.take()

    def _delta(self, event: str, kind: BlockKind, data: bytes) -> None:
        if event == "response.refusal.delta":
            self._refused = True
        try:
            made = _decode_delta(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value, damaged = loose_json(data)
            text = value.get("delta") if isinstance(value, dict) else None
            if not isinstance(text, str):
                raise broken("a delta is no text") from None
            key = self._index(value.get("output_index"), value.get("item_id")), kind
            self._assembly.ragged_delta(key, kind, text, damaged=damaged)
            return
        index = made.output_index
        if index < 0:
            index = self._index(None, made.item_id)
        self._assembly.delta((index, kind), kind, made.delta)

    def _rare(self, event: str, value: dict[str, Any]) -> None:
        if event == "error":
            raise failure_in_reply(value, self._provider)
        response = value.get("response")
        if not isinstance(response, dict):
            response = {}
        if event in ("response.created", "response.in_progress", "response.queued"):
            # llama.cpp says it again for a first character that came in pieces
            again = self._id is not None and response.get("id") == self._id
            if not self._assembly.started or (event == "response.created" and not again):
                self._begin(response)
        elif event == "response.reasoning_summary_part.added":
            key = self._index(value.get("output_index"), value.get("item_id")), "thinking"
            if value.get("summary_index"):
                self._assembly.delta(key, "thinking", "\n\n")
        elif event == "response.output_item.added":
            self._add(value.get("output_index"), _item_of(value))
        elif event == "response.output_item.done":
            item = _item_of(value)
            index = value.get("output_index")
            if type(index) is not int:
                index = self._by_id.get(str(item.get("id")))
            if index is None or index not in self._items:
                index = self._add(index, item)
            self._complete(index, item)
        else:
            # some servers say by the status alone that a limit was hit
            cut = response.get("status") == "incomplete"
            self._ending("incomplete" if cut else event.removeprefix("response."), response)

    def _begin(self, response: Mapping[str, Any]) -> None:
        self._id, model = response.get("id"), response.get("model")
        self._assembly.start(self._ids.fresh(response.get("id")), model if isinstance(model, str) else "")

    def _index(self, index: Any, item_id: Any) -> int:
        """The place of an item in the output, told by its place or, by servers that do not count, by its id."""
        if type(index) is int:
            return index
        return self._by_id.get(str(item_id), -1)

    def _add(self, given: Any, item: Mapping[str, Any]) -> int:
        if not self._assembly.started:
            self._begin({})
        index: int = given if type(given) is int else len(self._items)
        if index in self._items:
            raise broken("an output item was opened twice")
        kind = str(item.get("type"))
        self._items[index] = kind
        if isinstance(item.get("id"), str):
            self._by_id[item["id"]] = index
        block = _BLOCKS.get(kind)
        if block is None:
            for ignored in _BLOCKS.values():
                self._assembly.ignore((index, ignored))
        else:
            name = item.get("name")
            call = item.get("call_id") or item.get("id")
            self._assembly.open((index, block), block, call=call, name=name if isinstance(name, str) else "")
        return index

    def _complete(self, index: int, item: Mapping[str, Any]) -> None:
        """An item is done: what did not come in deltas stands in it."""
        block = _BLOCKS.get(self._items[index])
        if block is None:
            return
        assembly, key = self._assembly, (index, block)
        text = self._text_of(block, item)
        received = assembly.received(key)
        if not received and text:
            assembly.ragged_delta(key, block, text)
        elif block == "tool_use" and text and mend_surrogates(text) != received:
            raise broken("the input of a call came in two versions")
        assembly.close(key)
        if block == "thinking" and item.get("encrypted_content"):
            data = {field: item[field] for field in _REASONING_FIELDS if item.get(field) is not None}
            key = (index, "opaque")
            assembly.open(key, "opaque", data=Opaque(self._provider, {"summary": [], **data}))
            assembly.close(key)

    def _text_of(self, block: BlockKind, item: Mapping[str, Any]) -> str:
        if block == "tool_use":
            arguments = item.get("arguments")
            return arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
        parts = item.get("summary") or item.get("content") if block == "thinking" else item.get("content")
        texts: list[str] = []
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            if part.get("type") == "refusal":
                self._refused = True
            text = part.get("text", part.get("refusal"))
            if isinstance(text, str):
                texts.append(text)
        return ("\n\n" if block == "thinking" else "").join(texts)

    def _ending(self, status: str, response: Mapping[str, Any]) -> None:
        if status == "failed":
            raise failure_in_reply(response.get("error") or response, self._provider)
        if status not in ("completed", "incomplete"):
            raise broken(f"the response is {status}")
        if not self._assembly.started:
            self._begin(response)
        output = response.get("output")
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        if not self._items:
            for item in items:
                self._complete(self._add(None, item), item)
        for index, block in self._assembly.open_keys:
            if block != "tool_use" or status == "incomplete":
                self._assembly.close((index, block))
            elif 0 <= index < len(items) and items[index].get("type") == "function_call":
                self._complete(index, items[index])
        self._assembly.end(self._stop(status, response), chat_usage(_dict(response.get("usage"))))
        self.ended = True

    def _stop(self, status: str, response: Mapping[str, Any]) -> StopReason:
        if status == "incomplete":
            reason = _dict(response.get("incomplete_details")).get("reason")
            return _INCOMPLETE.get(reason, reason) if isinstance(reason, str) and reason else "max_tokens"
        if self._refused:
            return "refusal"
        return "tool_use" if self._assembly.calls else "end_turn"


def _item_of(value: Mapping[str, Any]) -> dict[str, Any]:
    item = value.get("item")
    if not isinstance(item, dict):
        raise broken("an output item is missing in its event")
    return item


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = _decode_any(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value, _ = loose_json(data)
    if not isinstance(value, dict):
        raise broken("an event is no JSON object")
    return value
