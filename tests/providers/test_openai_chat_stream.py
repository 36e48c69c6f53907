import json
from typing import Any

import pytest
from wire_streams import (
    CHAT_USAGE,
    DONE,
    blocks,
    chat,
    chat_call,
    chat_chunk,
    chunks_of,
    ending,
    failure_of,
    said,
)

from tugline.protocol.blocks import Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, ReplyEnded, ReplyStarted
from tugline.protocol.errors import ProviderError
from tugline.protocol.ids import CallId, ReplyId
from tugline.protocol.usage import Usage


def use(data: dict[str, Any], malformed: str | None = None, call: str = "c1", name: str = "Read") -> ToolUse:
    return ToolUse(CallId(call), name, data, malformed)


def test_a_reply_becomes_its_chunks_in_order() -> None:
    events = [
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk({"content": "Hel"}),
        chat_chunk({"content": "lo"}),
        chat_call(0, "", id="c1", name="Read"),
        chat_call(0, '{"a"'),
        chat_call(0, ":1}"),
        chat_chunk(finish="tool_calls"),
        CHAT_USAGE,
        DONE,
    ]
    assert chunks_of(chat(), events) == [
        ReplyStarted(ReplyId("chatcmpl-1"), "m", Usage()),
        BlockStarted(0, "text"),
        BlockDelta(0, "Hel"),
        BlockDelta(0, "lo"),
        BlockClosed(0, Text("Hello")),
        BlockStarted(1, "tool_use", CallId("c1"), "Read"),
        BlockDelta(1, '{"a"'),
        BlockDelta(1, ":1}"),
        BlockClosed(1, use({"a": 1})),
        ReplyEnded("tool_use", Usage(15, 7, 5, 0)),
    ]


def test_parallel_calls_are_told_apart_by_index_and_the_first_is_given_when_the_second_begins() -> None:
    decoder = chat()
    events = [chat_call(0, '{"a":1}', id="c1", name="Read"), chat_call(1, "", id="c2", name="Ls")]
    first, second = (decoder.feed("message", json.dumps(data).encode()) for _, data in events)
    assert BlockClosed(0, use({"a": 1})) not in first
    assert second == [BlockClosed(0, use({"a": 1})), BlockStarted(1, "tool_use", CallId("c2"), "Ls")]


def test_a_call_is_given_when_words_follow_it() -> None:
    decoder = chat()
    events = [chat_call(0, '{"a":1}', id="c1", name="Read"), chat_chunk({"content": "and"})]
    _, words = (decoder.feed("message", json.dumps(data).encode()) for _, data in events)
    assert words == [BlockClosed(0, use({"a": 1})), BlockStarted(1, "text"), BlockDelta(1, "and")]


def test_interleaved_calls_come_out_one_after_the_other() -> None:
    events = [
        chat_call(0, '{"a":', id="c1", name="Read"),
        chat_call(1, '{"b":', id="c2", name="Read"),
        chat_call(0, "1}"),
        chat_call(1, "2}"),
        chat_chunk(finish="tool_calls"),
        DONE,
    ]
    chunks = chunks_of(chat(), events)
    assert blocks(chunks) == [use({"a": 1}), use({"b": 2}, call="c2")]


@pytest.mark.parametrize(
    "events",
    [
        [chat_call(0, "{}", id="c1", name="Read"), chat_call(0, "{}", id="c2", name="Read")],
        [chat_call(None, "{}", id="c1", name="Read"), chat_call(None, "{}", id="c2", name="Read")],
        [
            chat_chunk(
                {
                    "tool_calls": [
                        {"id": "c1", "function": {"name": "Read", "arguments": "{}"}},
                        {"id": "c2", "function": {"name": "Read", "arguments": "{}"}},
                    ]
                }
            )
        ],
        [chat_call(0, None, id="c1"), chat_call(0, "{}", name="Read"), chat_call(1, "{}", id="c2", name="Read")],
        [
            chat_call(0, "{", id="c1", name="Read"),
            chat_call(0, "}", id="c1", name="Read"),
            chat_call(1, {}, id="c2", name="Read"),
        ],
    ],
    ids=["one index", "no index", "one event", "name later", "name again, dict"],
)
def test_two_calls_in_the_ways_that_servers_write_them(events: list[tuple[str, Any]]) -> None:
    made = blocks(chunks_of(chat(), [*events, chat_chunk(finish="tool_calls"), DONE]))
    assert made == [use({}), use({}, call="c2")]


def test_input_as_an_object_is_taken_as_it_is_written() -> None:
    events = [chat_call(0, {"a": [1]}, id="c1", name="Read"), chat_chunk(finish="tool_calls"), DONE]
    assert blocks(chunks_of(chat(), events)) == [use({"a": [1]})]
    twice = '{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"Read","arguments":{"a":1,"a":2}}}]}}]}'
    assert blocks(chunks_of(chat(), [("", twice), chat_chunk(finish="tool_calls")])) == [use({}, '{"a":1,"a":2}')]


def test_calls_without_ids_get_their_own() -> None:
    events = [
        chat_call(0, "{}", name="Read"),
        chat_call(1, "{}", id="", name="Read"),
        chat_call(2, "{}", id="x", name="Read"),
        chat_call(3, "{}", id="x", name="Read"),
        chat_chunk(finish="stop"),
        DONE,
    ]
    ids = [block.id for block in blocks(chunks_of(chat(), events))]
    assert len(set(ids)) == 4
    assert "x" in ids
    known = chat(known_call=lambda call: call == "x")
    assert "x" not in [block.id for block in blocks(chunks_of(known, events))]


def test_a_call_that_never_got_a_name_is_still_a_call() -> None:
    events = [chat_call(0, "{}", id="c1"), chat_chunk(finish="tool_calls"), DONE]
    assert blocks(chunks_of(chat(), events)) == [use({}, name="")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking(field: str) -> None:
    events = [
        chat_chunk({field: "let me "}),
        chat_chunk({field: "see"}),
        chat_chunk({"content": "So."}),
        chat_chunk(finish="stop"),
        DONE,
    ]
    assert blocks(chunks_of(chat(), events)) == [Thinking("let me see"), Text("So.")]


def test_content_in_parts_is_understood() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "So."}]
    events = [chat_chunk({"content": parts}), chat_chunk(finish="stop"), DONE]
    assert blocks(chunks_of(chat(), events)) == [Thinking("hm"), Text("So.")]


@pytest.mark.parametrize(
    ("finish", "calls", "stop"),
    [
        ("stop", False, "end_turn"),
        ("stop", True, "tool_use"),
        ("tool_calls", True, "tool_use"),
        ("tool_calls", False, "end_turn"),
        ("function_call", True, "tool_use"),
        ("length", False, "max_tokens"),
        ("length", True, "max_tokens"),
        ("content_filter", False, "refusal"),
        ("tired", False, "tired"),
    ],
)
def test_finish_reasons(finish: str, calls: bool, stop: str) -> None:
    call = [chat_call(0, "{}", id="c1", name="Read")] if calls else []
    events = [chat_chunk({"content": "Hi"}), *call, chat_chunk(finish=finish), DONE]
    assert ending(chunks_of(chat(), events)).stop == stop


def test_a_refusal_is_told_as_text_and_as_the_stop_reason() -> None:
    events = [chat_chunk({"refusal": "I will not."}), chat_chunk(finish="stop"), DONE]
    chunks = chunks_of(chat(), events)
    assert blocks(chunks) == [Text("I will not.")]
    assert ending(chunks).stop == "refusal"


@pytest.mark.parametrize("arguments", ["", '{"a":', '{"a":1,'])
def test_a_call_cut_at_the_output_limit_is_malformed(arguments: str) -> None:
    events = [chat_call(0, arguments, id="c1", name="Read"), chat_chunk(finish="length"), DONE]
    assert blocks(chunks_of(chat(), events)) == [use({}, arguments)]


# --- what makes a reply count


@pytest.mark.parametrize("tail", [[], [DONE], [CHAT_USAGE], [CHAT_USAGE, DONE], [chat_chunk(finish="stop"), DONE]])
def test_a_finish_reason_is_an_end_with_and_without_done(tail: list[tuple[str, Any]]) -> None:
    events = [chat_chunk({"content": "Hi"}), chat_chunk(finish="stop"), *tail]
    assert ending(chunks_of(chat(), events)).stop == "end_turn"


@pytest.mark.parametrize(
    "events",
    [
        [],
        [DONE],
        [chat_chunk({"content": "Hi"})],
        [chat_chunk({"content": "Hi"}), DONE],
        [chat_call(0, "{}", id="c1", name="Read")],
        [chat_call(0, "{}", id="c1", name="Read"), DONE],
        [CHAT_USAGE, DONE],
        [chat_chunk({"content": "Hi"}), chat_chunk(finish="stop"), chat_chunk({"content": "more"})],
        [chat_call(0, "{}", id="c1", name="R"), chat_call(1, "", id="c2", name="R"), chat_call(0, "{}")],
        [chat_chunk({"content": "Hi"}), ("", "nonsense")],
        [chat_chunk({"content": "Hi"}), ("", "[]")],
        [chat_chunk({"content": "Hi"}), ("", '{"choices":[{"delta":{"content":"x')],
    ],
)
def test_without_a_finish_reason_or_against_the_rules_it_is_broken(events: list[tuple[str, Any]]) -> None:
    assert failure_of(chat(), events).kind == "stream_broken"


def test_other_choices_and_empty_events_are_ignored() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    azure: dict[str, Any] = {"choices": [], "prompt_filter_results": [], "id": "", "model": ""}
    events = [("", azure), chat_chunk({"content": "Hi"}), ("", other), ("", {}), chat_chunk(finish="stop"), DONE]
    assert blocks(chunks_of(chat(), events)) == [Text("Hi")]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"error": {"message": "overloaded", "type": "overloaded_error"}}, "overloaded"),
        ({"error": {"message": "Provider returned error", "code": 429}}, "rate_limit"),
        (
            {"error": {"message": "Internal", "code": 502}, "choices": [{"delta": {}, "finish_reason": "error"}]},
            "server",
        ),
        ({"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "x", "code": 503}}]}, "overloaded"),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, "server"),
        ({"object": "error", "message": "maximum context length is 9", "code": 400}, "prompt_too_long"),
        ({"error": "the request exceeds the available context size"}, "prompt_too_long"),
        ({"detail": "boom"}, "server"),
    ],
)
def test_an_error_in_the_stream_has_its_kind(data: dict[str, Any], kind: str) -> None:
    assert failure_of(chat(), [chat_chunk({"content": "Hi"}), ("", data)]).kind == kind


def test_usage_of_other_servers_is_understood() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "prompt_cache_hit_tokens": 8, "prompt_tokens_details": None}
    events = [chat_chunk({"content": "Hi"}), chat_chunk(finish="stop", usage=usage), DONE]
    assert ending(chunks_of(chat(), events)).usage == Usage(12, 3, 8, 0)


def test_odd_characters() -> None:
    delta = '{"choices":[{"delta":{"content":"%s"}}]}'
    call = '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"R","arguments":"%s"}}]}}]}'
    events: list[tuple[str, Any]] = [
        ("", delta % "a\\ud83d"),
        ("", delta % "\\ude00b"),
        ("", (delta % "X").encode().replace(b"X", b"\xff")),
        ("", call % '{\\"a\\":\\"\\ud83d'),
        ("", call % '\\ude00\\"}'),
        chat_chunk(finish="tool_calls"),
    ]
    chunks = chunks_of(chat(), events)
    assert blocks(chunks) == [Text("a\U0001f600b\ufffd"), use({"a": "\U0001f600"}, name="R")]
    bad = ("", (call % "{X}").encode().replace(b"X", b"\xff"))
    assert blocks(chunks_of(chat(), [bad, chat_chunk(finish="tool_calls")])) == [use({}, "{\ufffd}", name="R")]


# --- calls as text


def asked(text: list[str], finish: str = "stop", tools: tuple[str, ...] = ("Read",)) -> list[Any]:
    events = [*(chat_chunk({"content": piece}) for piece in text), chat_chunk(finish=finish), DONE]
    return blocks(chunks_of(chat(text_tools=tools), events))


def test_calls_in_tags_are_calls_where_the_card_says_so() -> None:
    text = 'Sure.\n<tool_call>\n{"name": "Read", "arguments": {"a": 1}}\n</tool_call>'
    for pieces in ([text], list(text)):
        words, call = asked(pieces)
        assert words == Text("Sure.")
        assert (call.name, call.input, call.malformed) == ("Read", {"a": 1}, None)
    events = [chat_chunk({"content": text}), chat_chunk(finish="stop")]
    assert blocks(chunks_of(chat(), events)) == [Text(text)]
    assert ending(chunks_of(chat(text_tools=["Read"]), events)).stop == "tool_use"


def test_bare_json_is_a_call_if_it_is_all_and_names_a_tool() -> None:
    (call,) = asked(['{"name": "Read", ', '"parameters": {"a": 1}}'])
    assert (call.name, call.input) == ("Read", {"a": 1})
    assert asked(['{"name": "Nope", "parameters": {}}']) == [Text('{"name": "Nope", "parameters": {}}')]
    assert asked(['{"name": "Read"'], finish="length") == [Text('{"name": "Read"')]


# --- not streamed


def test_a_reply_that_was_not_streamed_gives_the_same_blocks() -> None:
    message = {
        "role": "assistant",
        "reasoning_content": "hm",
        "content": "Hello",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"a":1}'}},
            {"id": "", "type": "function", "function": {"name": "Read", "arguments": {"b": 1}}},
            {"id": "", "type": "function", "function": {"name": "Read", "arguments": ""}},
        ],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = {"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": CHAT_USAGE[1]["usage"]}
    chunks = chat().whole(json.dumps(body).encode())
    made = blocks(chunks)
    assert made[:3] == [Thinking("hm"), Text("Hello"), use({"a": 1})]
    assert [block.input for block in made[3:]] == [{"b": 1}, {}]
    assert len({block.id for block in made[2:]}) == 3
    assert ending(chunks) == ReplyEnded("tool_use", Usage(15, 7, 5, 0))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "stream_broken"),
        (b"{}", "unexpected_reply"),
        (b'{"choices":[]}', "unexpected_reply"),
        (b'{"choices":[{"message":{"content":"Hi"}}]}', "stream_broken"),
        (b'{"error":{"message":"model \'x\' not found"}}', "invalid_model"),
        (b'{"object":"error","message":"x","code":503}', "overloaded"),
    ],
)
def test_a_whole_answer_that_is_none_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        chat().whole(body)
    assert caught.value.failure.kind == kind


def test_deltas_are_what_was_said() -> None:
    events = [chat_chunk({"content": piece}) for piece in ("a", "", "b")]
    assert said(chunks_of(chat(), [*events, chat_chunk(finish="stop")])) == "ab"
