"""Streams as servers send them, and what the decoders make of them."""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.providers.anthropic_stream import AnthropicDecoder
from tugline.providers.assemble import ReplyIds
from tugline.providers.openai_chat_stream import ChatDecoder
from tugline.providers.openai_responses_stream import ResponsesDecoder
from tugline.providers.sse import SseParser
from tugline.providers.wire import Decoder

Events = Sequence[tuple[str, Any]]


def anthropic() -> AnthropicDecoder:
    return AnthropicDecoder(ReplyIds())


def chat(**options: Any) -> ChatDecoder:
    return ChatDecoder(ReplyIds(), **options)


def responses() -> ResponsesDecoder:
    return ResponsesDecoder(ReplyIds())


def sse(events: Events, *, named: bool = True) -> bytes:
    """The events as bytes; data that is no object goes out as it is."""
    made = []
    for name, data in events:
        text = (
            data if isinstance(data, bytes) else data.encode() if isinstance(data, str) else json.dumps(data).encode()
        )
        made.append((f"event: {name}\n".encode() if named and name else b"") + b"data: " + text + b"\n\n")
    return b"".join(made)


def decode(decoder: Decoder, pieces: Iterable[bytes]) -> list[Chunk]:
    """All chunks of a stream that ends properly behind the last piece."""
    parser = SseParser()
    chunks: list[Chunk] = []
    for piece in pieces:
        for event, data in parser.feed(piece):
            chunks += decoder.feed(event, data)
    for event, data in parser.end():
        chunks += decoder.feed(event, data)
    return [*chunks, *decoder.end()]


def chunks_of(decoder: Decoder, events: Events) -> list[Chunk]:
    """The chunks of these events."""
    return decode(decoder, [sse(events)])


def failure_of(decoder: Decoder, events: Events) -> Failure:
    """How the stream fails."""
    with pytest.raises(ProviderError) as caught:
        chunks_of(decoder, events)
    failure = caught.value.failure
    assert "\n" not in failure.message
    assert str(caught.value) == failure.message
    return failure


def blocks(chunks: Iterable[Chunk]) -> list[Any]:
    """The blocks of a reply, after checking that the chunks keep their order."""
    made: list[Any] = []
    state = "before"
    current = -1
    for chunk in chunks:
        if isinstance(chunk, ReplyStarted):
            assert state == "before"
            state = "between"
        elif isinstance(chunk, BlockStarted):
            assert state == "between"
            assert chunk.index == len(made)
            state, current = "inside", chunk.index
        elif isinstance(chunk, BlockDelta):
            assert state == "inside"
            assert chunk.index == current
            assert chunk.text
        elif isinstance(chunk, BlockClosed):
            assert state == "inside"
            assert chunk.index == current
            made.append(chunk.block)
            state = "between"
        elif isinstance(chunk, ReplyEnded):
            assert state == "between"
            state = "after"
    return made


def said(chunks: Iterable[Chunk]) -> str:
    """All deltas, joined."""
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, BlockDelta))


def ending(chunks: Sequence[Chunk]) -> ReplyEnded:
    """The end of the reply."""
    last = chunks[-1]
    assert isinstance(last, ReplyEnded)
    return last


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The data in pieces, parted at these places (modulo its length)."""
    marks = sorted({place % (len(data) + 1) for place in places})
    edges = [0, *marks, len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def anthropic_start(**message: Any) -> tuple[str, Any]:
    """The first event of an Anthropic stream."""
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2}
    return "message_start", {
        "type": "message_start",
        "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
        | {"stop_reason": None, "usage": usage}
        | message,
    }


def anthropic_block(index: int, block: dict[str, Any], *deltas: dict[str, Any], stop: bool = True) -> Events:
    """The events of one Anthropic block."""
    made: list[tuple[str, Any]] = [
        ("content_block_start", {"type": "content_block_start", "index": index, "content_block": block})
    ]
    for delta in deltas:
        made.append(("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}))
    if stop:
        made.append(("content_block_stop", {"type": "content_block_stop", "index": index}))
    return made


def anthropic_text(index: int, *texts: str) -> Events:
    """A block of text."""
    return anthropic_block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": t} for t in texts))


def anthropic_tool(index: int, *pieces: str, call: str = "toolu_1", name: str = "Read", stop: bool = True) -> Events:
    """A call."""
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return anthropic_block(index, {"type": "tool_use", "id": call, "name": name, "input": {}}, *deltas, stop=stop)


def anthropic_end(stop: str | None = "end_turn", output: int = 7) -> Events:
    """The last two events."""
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [
        ("message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}),
        ("message_stop", {"type": "message_stop"}),
    ]


def chat_chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> tuple[str, Any]:
    """One event of a Chat stream."""
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return "", {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": choices} | more


def chat_call(index: int | None, arguments: Any = None, **call: Any) -> tuple[str, Any]:
    """An event with a piece of a call."""
    function = {"name": call.pop("name")} if "name" in call else {}
    if arguments is not None:
        function["arguments"] = arguments
    counted = {} if index is None else {"index": index}
    return chat_chunk({"tool_calls": [counted | call | {"function": function}]})


CHAT_USAGE = (
    "",
    {
        "id": "chatcmpl-1",
        "model": "m",
        "choices": [],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 7,
            "total_tokens": 27,
            "prompt_tokens_details": {"cached_tokens": 5},
        },
    },
)
DONE = ("", "[DONE]")


def response_start() -> tuple[str, Any]:
    """The first event of a Responses stream."""
    return response_event("created", response={"id": "resp_1", "model": "gpt-x", "status": "in_progress"})


def response_event(name: str, **data: Any) -> tuple[str, Any]:
    """One event of a Responses stream."""
    return f"response.{name}", {"type": f"response.{name}", **data}


def response_item(
    index: int, item: dict[str, Any], *middle: tuple[str, Any], done: dict[str, Any] | None = None
) -> Events:
    """An output item from its opening to its end; `done` is what its last event adds."""
    return [
        response_event("output_item.added", output_index=index, item=item),
        *((name, {**data, "output_index": index, "item_id": item.get("id")}) for name, data in middle),
        response_event("output_item.done", output_index=index, item=item | (done or {})),
    ]


def response_text(index: int, *texts: str) -> Events:
    """A message item."""
    whole = {"type": "output_text", "text": "".join(texts), "annotations": []}
    return response_item(
        index,
        {"type": "message", "id": f"item_{index}", "role": "assistant", "content": []},
        *(response_event("output_text.delta", content_index=0, delta=text) for text in texts),
        done={"content": [whole], "status": "completed"},
    )


def response_call(index: int, *pieces: str, call: str = "call_1", name: str = "Read") -> Events:
    """A function call item."""
    return response_item(
        index,
        {"type": "function_call", "id": f"item_{index}", "call_id": call, "name": name, "arguments": ""},
        *(response_event("function_call_arguments.delta", delta=piece) for piece in pieces),
        done={"arguments": "".join(pieces), "status": "completed"},
    )


def response_end(status: str = "completed", **response: Any) -> tuple[str, Any]:
    """The last event."""
    usage = {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 7, "total_tokens": 27}
    return response_event(status, response={"id": "resp_1", "status": status, "usage": usage} | response)
