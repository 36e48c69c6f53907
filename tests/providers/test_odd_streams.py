"""Sound streams in which something is odd: a value of another type, an event twice, gone or in another place.

Whatever it is, the decoder gives a whole reply that can be written, or one line that says why not.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wire_streams import (
    CHAT_USAGE,
    DONE,
    anthropic,
    anthropic_block,
    anthropic_end,
    anthropic_start,
    anthropic_text,
    anthropic_tool,
    blocks,
    chat,
    chat_call,
    chat_chunk,
    chunks_of,
    ending,
    response_call,
    response_end,
    response_event,
    response_item,
    response_start,
    response_text,
    responses,
)

from tugline.protocol import codec
from tugline.protocol.chunks import Chunk
from tugline.protocol.errors import ProviderError
from tugline.providers.wire import Decoder

Event = tuple[str, Any]
Path = tuple[str | int, ...]

SUMMARY = response_event("reasoning_summary_text.delta", delta="hm", summary_index=0)
DECODERS: dict[str, Callable[[], Decoder]] = {"anthropic": anthropic, "chat": chat, "responses": responses}
STREAMS: dict[str, list[Event]] = {
    "anthropic": [
        anthropic_start(),
        *anthropic_block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "signature_delta", "signature": "sig"},
        ),
        *anthropic_block(1, {"type": "redacted_thinking", "data": "xx"}),
        *anthropic_text(2, "Hel", "lo"),
        *anthropic_tool(3, '{"file_path"', ': "x"}'),
        *anthropic_tool(4, call="toolu_2"),
        *anthropic_end("tool_use"),
    ],
    "chat": [
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk({"reasoning_content": "hm"}),
        chat_chunk({"content": "Hel"}),
        chat_chunk({"content": "lo"}),
        chat_call(0, "", id="call_1", name="Read"),
        chat_call(0, '{"a":'),
        chat_call(0, "1}"),
        chat_call(1, "{}", id="call_2", name="Read"),
        chat_chunk({}, "tool_calls"),
        CHAT_USAGE,
        DONE,
    ],
    "responses": [
        response_start(),
        *response_item(
            0,
            {"type": "reasoning", "id": "rs_1", "summary": []},
            SUMMARY,
            done={"encrypted_content": "enc", "summary": [{"type": "summary_text", "text": "hm"}]},
        ),
        *response_text(1, "Hel", "lo"),
        *response_call(2, '{"a"', ":1}"),
        *response_call(3, call="call_2"),
        response_end(),
    ],
}
WHOLE: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "model": "claude-x",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "xx"},
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    },
    "chat": {
        "id": "chatcmpl-1",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "content": "Hello",
                    "reasoning_content": "hm",
                    "tool_calls": [{"id": "call_1", "function": {"name": "Read", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
    },
    "responses": {
        "id": "resp_1",
        "status": "completed",
        "model": "gpt-x",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"text": "hm"}], "encrypted_content": "enc"},
            {"type": "message", "id": "item_1", "content": [{"type": "output_text", "text": "Hello"}]},
            {"type": "function_call", "id": "item_2", "call_id": "call_1", "name": "Read", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


GONE = object()
ODD: list[Any] = [
    *(GONE, None, True, [], {}, [1], [None], [{}], {"a": 1}, "", -1, 0, 1, 10**30, -(10**30), 1.5, 1e308),
    *("x", "\ud800", "a\udc00b", "\ud83d", "\ude00", "stop", "error", {"type": "error"}, "\x00\x1b[31m", "é" * 300),
    nested(230),
]


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """All places in it."""
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def changed(value: Any, path: Path, new: Any) -> Any:
    """The value with something else at a place."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    made: Any = dict(value) if isinstance(value, dict) else list(value)
    if not rest and new is GONE:
        del made[key]
    else:
        made[key] = changed(made[key], rest, new)
    return made


def check(chunks: Sequence[Chunk]) -> None:
    """A whole reply, all of which can be written to the transcript."""
    blocks(chunks)
    ending(chunks)
    for chunk in chunks:
        codec.encode(chunk)


def check_outcome(chunks: Callable[[], Sequence[Chunk]]) -> None:
    """A whole reply, or one line."""
    try:
        made = chunks()
    except ProviderError as error:
        failure = error.failure
    else:
        check(made)
        return
    assert "\n" not in failure.message
    codec.encode(failure)


def check_stream(name: str, events: Sequence[Event]) -> None:
    check_outcome(lambda: chunks_of(DECODERS[name](), events))


@pytest.mark.parametrize("name", STREAMS)
def test_any_single_value_of_a_stream_may_be_odd(name: str) -> None:
    events = STREAMS[name]
    check(chunks_of(DECODERS[name](), events))
    for place, (event, data) in enumerate(events):
        for path in () if isinstance(data, str) else places(data):
            for odd in ODD:
                spoiled = changed(data, path, odd)
                check_stream(name, [*events[:place], (event, spoiled), *events[place + 1 :]])
                if name != "chat":
                    check_stream(name, [*events[:place], ("", spoiled), *events[place + 1 :]])


@pytest.mark.parametrize("name", WHOLE)
def test_any_single_value_of_a_whole_answer_may_be_odd(name: str) -> None:
    body = WHOLE[name]
    check(DECODERS[name]().whole(json.dumps(body).encode()))
    for path in places(body):
        for odd in ODD:
            spoiled = json.dumps(changed(body, path, odd)).encode()
            check_outcome(partial(DECODERS[name]().whole, spoiled))


@st.composite
def spoiled_streams(draw: st.DrawFn, name: str) -> list[Event]:
    events = list(STREAMS[name])
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(events) - 1))
        event, data = events[place]
        match draw(st.sampled_from(["value", "value", "byte", "twice", "gone", "elsewhere", "renamed"])):
            case "value" if isinstance(data, dict):
                found = list(places(data))
                if found:
                    events[place] = event, changed(data, draw(st.sampled_from(found)), draw(st.sampled_from(ODD[:-1])))
            case "byte" if isinstance(data, dict):
                text = bytearray(json.dumps(data).encode())
                text[draw(st.integers(0, len(text) - 1))] = draw(st.integers(32, 255))
                events[place] = event, bytes(text)
            case "twice":
                events.insert(draw(st.integers(0, len(events))), events[place])
            case "gone" if len(events) > 1:
                del events[place]
            case "elsewhere":
                events.insert(draw(st.integers(0, len(events) - 1)), events.pop(place))
            case "renamed":
                events[place] = draw(st.sampled_from(["", "message", "error", "ping", "new"])), data
    return events


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=150)
@given(data=st.data())
def test_any_few_things_of_a_stream_may_be_odd(name: str, data: st.DataObject) -> None:
    check_stream(name, data.draw(spoiled_streams(name)))


@given(st.binary(max_size=60))
@example(b"[]")
def test_any_bytes_may_stand_where_an_event_should(data: bytes) -> None:
    data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    for name, events in STREAMS.items():
        check_stream(name, [events[0], (events[1][0], data), *events[1:]])
