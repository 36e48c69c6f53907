import json
from typing import Any

import pytest
from wire_streams import (
    anthropic,
    anthropic_block,
    anthropic_end,
    anthropic_start,
    anthropic_text,
    anthropic_tool,
    blocks,
    chunks_of,
    decode,
    ending,
    failure_of,
    said,
    sse,
)

from tugline.protocol.blocks import Opaque, Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, ReplyEnded, ReplyStarted
from tugline.protocol.errors import ProviderError
from tugline.protocol.ids import CallId, ReplyId
from tugline.protocol.usage import Usage


def use(data: dict[str, Any], malformed: str | None = None, call: str = "toolu_1", name: str = "Read") -> ToolUse:
    return ToolUse(CallId(call), name, data, malformed)


def test_a_reply_becomes_its_chunks_in_order() -> None:
    events = [
        anthropic_start(),
        ("ping", {"type": "ping"}),
        *anthropic_text(0, "Hel", "lo"),
        *anthropic_tool(1, '{"file_', 'path": "a"}'),
        *anthropic_end("tool_use"),
    ]
    assert chunks_of(anthropic(), events) == [
        ReplyStarted(ReplyId("msg_1"), "claude-x", Usage(10, 1, 5, 2)),
        BlockStarted(0, "text"),
        BlockDelta(0, "Hel"),
        BlockDelta(0, "lo"),
        BlockClosed(0, Text("Hello")),
        BlockStarted(1, "tool_use", CallId("toolu_1"), "Read"),
        BlockDelta(1, '{"file_'),
        BlockDelta(1, 'path": "a"}'),
        BlockClosed(1, use({"file_path": "a"})),
        ReplyEnded("tool_use", Usage(10, 7, 5, 2)),
    ]


def test_a_call_is_given_the_moment_its_block_is_closed() -> None:
    decoder = anthropic()
    events = [anthropic_start(), *anthropic_tool(0, '{"a":1}')]
    last = events.pop()
    for name, data in events:
        decoder.feed(name, json.dumps(data).encode())
    assert decoder.feed(last[0], json.dumps(last[1]).encode()) == [BlockClosed(0, use({"a": 1}))]


def test_thinking_keeps_its_signature_and_redacted_thinking_is_opaque() -> None:
    events = [
        anthropic_start(),
        *anthropic_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "let me "},
            {"type": "thinking_delta", "thinking": "see"},
            {"type": "signature_delta", "signature": "sig=="},
        ),
        *anthropic_block(1, {"type": "redacted_thinking", "data": "xyz"}),
        *anthropic_block(2, {"type": "thinking", "thinking": "", "signature": "omitted"}),
        *anthropic_text(3, "So."),
        *anthropic_end(),
    ]
    assert blocks(chunks_of(anthropic(), events)) == [
        Thinking("let me see", "sig=="),
        Opaque("anthropic", {"type": "redacted_thinking", "data": "xyz"}),
        Thinking("", "omitted"),
        Text("So."),
    ]


def test_unknown_events_blocks_and_deltas_are_ignored() -> None:
    citation = {"type": "citations_delta", "citation": {"url": "x"}}
    events = [
        anthropic_start(),
        ("something_new", "not even json"),
        *anthropic_block(0, {"type": "server_tool_use", "id": "s", "name": "web"}, {"type": "input_json_delta"}),
        *anthropic_block(1, {"type": "text", "text": "Hi"}, citation, {"type": "new_delta", "x": 1}),
        *anthropic_end(),
    ]
    assert blocks(chunks_of(anthropic(), events)) == [Text("Hi")]


def test_events_that_lost_their_names_are_told_by_their_data() -> None:
    events = [anthropic_start(), *anthropic_text(0, "Hi"), *anthropic_end()]
    assert decode(anthropic(), [sse(events, named=False)]) == chunks_of(anthropic(), events)


@pytest.mark.parametrize(
    ("stop", "told"),
    [
        ("end_turn", "end_turn"),
        ("pause_turn", "pause_turn"),
        ("refusal", "refusal"),
        ("max_tokens", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("model_context_window_exceeded", "context_exceeded"),
        ("tired", "tired"),
    ],
)
def test_stop_reasons(stop: str, told: str) -> None:
    events = [anthropic_start(), *anthropic_text(0, "Hi"), *anthropic_end(stop)]
    assert ending(chunks_of(anthropic(), events)).stop == told


def test_counts_are_replaced_not_added() -> None:
    deltas = [("message_delta", {"delta": {}, "usage": {"output_tokens": n, "input_tokens": None}}) for n in (3, 5)]
    events = [anthropic_start(), *deltas, *anthropic_end(output=9)]
    assert ending(chunks_of(anthropic(), events)).usage == Usage(10, 9, 5, 2)


def test_nonsense_counts_are_zero() -> None:
    events = [
        anthropic_start(usage={"input_tokens": -4, "output_tokens": "x", "cache_read_input_tokens": 1e300}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": None}),
        ("message_stop", {}),
    ]
    assert ending(chunks_of(anthropic(), events)).usage == Usage()


# --- what makes a reply or a call count


def test_a_stop_reason_and_closed_blocks_are_an_end_without_message_stop() -> None:
    events = [anthropic_start(), *anthropic_text(0, "Hi"), anthropic_end()[0]]
    assert ending(chunks_of(anthropic(), events)) == ReplyEnded("end_turn", Usage(10, 7, 5, 2))


def test_message_stop_is_an_end_without_a_stop_reason() -> None:
    events = [anthropic_start(), *anthropic_tool(0, "{}"), anthropic_end()[1]]
    assert ending(chunks_of(anthropic(), events)).stop == "tool_use"


def test_a_stream_cut_anywhere_before_its_stop_reason_is_broken() -> None:
    events = [anthropic_start(), *anthropic_text(0, "Hi"), *anthropic_tool(1, "{}"), *anthropic_end("tool_use")]
    for length in range(len(events) - 1):
        assert failure_of(anthropic(), events[:length]).kind == "stream_broken"
    assert failure_of(anthropic(), events[:3]).retryable


BROKEN: dict[str, list[tuple[str, Any]]] = {
    "two message_starts": [anthropic_start(), anthropic_start()],
    "delta before the start": [("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "x"}})],
    "block before the start": [*anthropic_text(0, "x")],
    "end before the start": [*anthropic_end()],
    "delta for an unknown index": [anthropic_start(), anthropic_text(7, "x")[1]],
    "stop for an unknown index": [anthropic_start(), anthropic_text(7, "x")[2]],
    "delta for a closed block": [anthropic_start(), *anthropic_text(0, "x"), anthropic_text(0, "y")[1]],
    "block stopped twice": [anthropic_start(), *anthropic_text(0, "x"), anthropic_text(0, "x")[2]],
    "block opened twice": [anthropic_start(), *anthropic_text(0, "x"), *anthropic_text(0, "x")],
    "text in a call": [anthropic_start(), *anthropic_tool(0, stop=False), anthropic_text(0, "x")[1]],
    "message_stop inside a block": [anthropic_start(), *anthropic_tool(0, "{}", stop=False), *anthropic_end()],
    "event without JSON": [anthropic_start(), ("content_block_delta", "nonsense")],
    "event that is an array": [anthropic_start(), ("message_delta", "[]")],
    "event cut short": [anthropic_start(), ("content_block_start", '{"index":0,"content_block":{"type":"te')],
    "index that is no number": [anthropic_start(), ("content_block_delta", {"index": "0", "delta": {}})],
    "delta that is no text": [
        anthropic_start(),
        *anthropic_block(0, {"type": "text"}, {"type": "text_delta", "text": {"a": 1}}),
    ],
    "NaN for an index": [anthropic_start(), ("content_block_delta", '{"index":NaN,"delta":{}}')],
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_no_sound_stream_does_is_broken(name: str) -> None:
    assert failure_of(anthropic(), [*BROKEN[name], *anthropic_end()]).kind == "stream_broken"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1',
        '{"a": 1}}',
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 1}}',
        "[1]",
        '"text"',
        "null",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        "{'a': 1}",
        '{"a": "line\nbreak"}',
        '{"a":' * 300 + "1" + "}" * 300,
        "[" * 100_000,
    ],
)
def test_a_closed_call_whose_input_is_not_one_object_keeps_its_raw_text(text: str) -> None:
    events = [anthropic_start(), *anthropic_tool(0, text[:3], text[3:]), *anthropic_end("tool_use")]
    assert blocks(chunks_of(anthropic(), events)) == [use({}, text)]


def test_no_input_is_an_empty_object() -> None:
    for pieces in ((), ("",), ("", "  ")):
        events = [anthropic_start(), *anthropic_tool(0, *pieces), *anthropic_end("tool_use")]
        assert blocks(chunks_of(anthropic(), events)) == [use({})]


def test_a_call_without_input_at_the_output_limit_was_cut_and_is_no_empty_object() -> None:
    events = [anthropic_start(), *anthropic_tool(0), *anthropic_end("max_tokens")]
    assert blocks(chunks_of(anthropic(), events)) == [use({}, "")]


def test_a_call_without_input_before_another_block_is_whole_also_at_the_output_limit() -> None:
    events = [anthropic_start(), *anthropic_tool(0), *anthropic_text(1, "and"), *anthropic_end("max_tokens")]
    assert blocks(chunks_of(anthropic(), events)) == [use({}), Text("and")]


def test_input_that_comes_with_the_opening_counts_where_no_deltas_follow() -> None:
    block = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"a": 1}}
    events = [anthropic_start(), *anthropic_block(0, block), *anthropic_end("tool_use")]
    chunks = chunks_of(anthropic(), events)
    assert blocks(chunks) == [use({"a": 1})]
    assert json.loads(said(chunks)) == {"a": 1}
    block["input"] = "no object"
    assert blocks(chunks_of(anthropic(), events)) == [use({}, '"no object"')]


def test_duplicate_keys_in_the_opening_are_refused_too() -> None:
    raw = '{"index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Read","input":{"a":1,"a":2}}}'
    events = [anthropic_start(), ("content_block_start", raw), anthropic_tool(0)[1], *anthropic_end("tool_use")]
    assert blocks(chunks_of(anthropic(), events)) == [use({}, '{"a":1,"a":2}')]


def test_blocks_that_a_server_interleaves_come_out_one_after_the_other() -> None:
    text, call = anthropic_text(0, "a", "b"), anthropic_tool(1, "{", "}")
    events = [anthropic_start(), text[0], call[0], text[1], call[1], call[2], call[3], text[2], text[3]]
    chunks = chunks_of(anthropic(), [*events, *anthropic_end("tool_use")])
    assert blocks(chunks) == [Text("ab"), use({})]
    assert said(chunks) == "ab{}"


def test_missing_and_repeated_call_ids_are_replaced() -> None:
    same = [call for index in range(3) for call in anthropic_tool(index, "{}", call="x")]
    events = [anthropic_start(), *same, *anthropic_tool(3, call=""), *anthropic_end("tool_use")]
    ids = [block.id for block in blocks(chunks_of(anthropic(), events))]
    assert ids[0] == "x"
    assert len(set(ids)) == 4
    assert all(ids)
    assert ids == [block.id for block in blocks(chunks_of(anthropic(), events))]


# --- errors in the stream


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "overloaded", True),
        ({"type": "api_error", "message": "Internal server error"}, "server", True),
        ({"type": "rate_limit_error", "message": "slow"}, "rate_limit", True),
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}, "prompt_too_long", False),
        ({"type": "authentication_error", "message": "invalid x-api-key"}, "authentication", False),
        ({}, "server", True),
    ],
)
def test_an_error_event_ends_the_stream_with_its_kind(error: dict[str, str], kind: str, retryable: bool) -> None:
    events = [anthropic_start(), ("error", {"type": "error", "error": error})]
    failure = failure_of(anthropic(), events)
    assert (failure.kind, failure.retryable) == (kind, retryable)


def test_what_follows_the_end_does_not_matter() -> None:
    events = [anthropic_start(), *anthropic_end(), anthropic_start(), ("error", {"error": {"type": "api_error"}})]
    assert ending(chunks_of(anthropic(), events)).stop == "end_turn"


# --- characters


def test_halves_of_a_surrogate_pair_in_two_deltas_are_joined() -> None:
    raw = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}'
    text = anthropic_text(0, "x")
    deltas = [("content_block_delta", raw % part) for part in ("a\\ud83d", "\\ude00b", "\\ud83d", "c", "\\ude00")]
    chunks = chunks_of(anthropic(), [anthropic_start(), text[0], *deltas, text[2], *anthropic_end()])
    assert blocks(chunks) == [Text("a\U0001f600b\ufffdc\ufffd")]
    assert said(chunks) == "a\U0001f600b\ufffdc\ufffd"


def test_a_surrogate_half_at_the_end_of_a_block_is_replaced() -> None:
    raw = '{"index":0,"delta":{"type":"text_delta","text":"a\\ud83d"}}'
    text = anthropic_text(0)
    events = [anthropic_start(), text[0], ("content_block_delta", raw), text[1], *anthropic_end()]
    assert blocks(chunks_of(anthropic(), events)) == [Text("a\ufffd")]


def test_bytes_that_are_not_utf8_are_replaced_in_text_and_refused_in_a_call() -> None:
    text, call = anthropic_text(0), anthropic_tool(1)
    bad_text = ("content_block_delta", b'{"index":0,"delta":{"type":"text_delta","text":"a\xffb"}}')
    bad_call = (
        "content_block_delta",
        b'{"index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":\\"\xff\\"}"}}',
    )
    events = [anthropic_start(), text[0], bad_text, text[1], call[0], bad_call, call[1], *anthropic_end("tool_use")]
    assert blocks(chunks_of(anthropic(), events)) == [Text("a\ufffdb"), use({}, '{"a":"\ufffd"}')]


def test_numbers_beyond_64_bits_are_what_a_transcript_gives_back() -> None:
    events = [anthropic_start(), *anthropic_tool(0, '{"a": 1180591620717411303424}'), *anthropic_end("tool_use")]
    (block,) = blocks(chunks_of(anthropic(), events))
    assert block.input == {"a": 1180591620717411303424.0}


def test_thirty_megabytes_of_input_take_linear_time() -> None:
    decoder = anthropic()
    start, *_ = anthropic_tool(0)
    decoder.feed(*_encoded(anthropic_start()))
    decoder.feed(*_encoded(start))
    piece = "x" * 300
    delta = _encoded(
        ("content_block_delta", {"index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}})
    )
    quote = [_encoded(anthropic_tool(0, part)[1]) for part in ('{"a":"', '"}')]
    decoder.feed(*quote[0])
    for _ in range(100_000):
        decoder.feed(*delta)
    decoder.feed(*quote[1])
    (closed,) = decoder.feed("content_block_stop", b'{"index":0}')
    assert isinstance(closed, BlockClosed)
    assert isinstance(closed.block, ToolUse)
    assert len(closed.block.input["a"]) == 30_000_000


def _encoded(event: tuple[str, Any]) -> tuple[str, bytes]:
    return event[0], json.dumps(event[1]).encode()


# --- not streamed


def test_a_reply_that_was_not_streamed_gives_the_same_blocks() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Hello"},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"a": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "Ls", "input": {}},
        {"type": "brand_new"},
    ]
    body = anthropic_start(content=content, stop_reason="tool_use")[1]["message"]
    chunks = anthropic().whole(json.dumps(body).encode())
    assert blocks(chunks) == [
        Thinking("hm", "s"),
        Text("Hello"),
        use({"a": 1}),
        use({}, call="toolu_2", name="Ls"),
    ]
    assert ending(chunks) == ReplyEnded("tool_use", Usage(10, 1, 5, 2))


def test_duplicate_keys_are_refused_there_too() -> None:
    raw = (
        b'{"id":"m","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t","name":"R","input":{"a":1,"a":2}}]}'
    )
    assert blocks(anthropic().whole(raw)) == [use({}, '{"a":1,"a":2}', call="t", name="R")]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "stream_broken"),
        (b"<html>", "stream_broken"),
        (b"[]", "stream_broken"),
        (b"{}", "unexpected_reply"),
        (b'{"content": []}', "stream_broken"),
        (b'{"content": [3], "stop_reason": "end_turn"}', "stream_broken"),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', "overloaded"),
    ],
)
def test_a_whole_answer_that_is_none_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        anthropic().whole(body)
    assert caught.value.failure.kind == kind
