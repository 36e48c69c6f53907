import json
from typing import Any

import pytest
from wire_streams import (
    blocks,
    chunks_of,
    decode,
    ending,
    failure_of,
    response_call,
    response_end,
    response_event,
    response_item,
    response_start,
    response_text,
    responses,
    sse,
)

from tugline.protocol.blocks import Opaque, Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, ReplyEnded, ReplyStarted
from tugline.protocol.errors import ProviderError
from tugline.protocol.ids import CallId, ReplyId
from tugline.protocol.usage import Usage


def use(data: dict[str, Any], malformed: str | None = None, call: str = "call_1") -> ToolUse:
    return ToolUse(CallId(call), "Read", data, malformed)


def test_a_reply_becomes_its_chunks_in_order() -> None:
    events = [
        response_start(),
        response_event("in_progress", response={}),
        *response_text(0, "Hel", "lo"),
        *response_call(1, '{"a"', ":1}"),
        response_end(),
    ]
    assert chunks_of(responses(), events) == [
        ReplyStarted(ReplyId("resp_1"), "gpt-x", Usage()),
        BlockStarted(0, "text"),
        BlockDelta(0, "Hel"),
        BlockDelta(0, "lo"),
        BlockClosed(0, Text("Hello")),
        BlockStarted(1, "tool_use", CallId("call_1"), "Read"),
        BlockDelta(1, '{"a"'),
        BlockDelta(1, ":1}"),
        BlockClosed(1, use({"a": 1})),
        ReplyEnded("tool_use", Usage(15, 7, 5, 0)),
    ]


def test_reasoning_is_shown_and_kept_whole_for_the_next_request() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    done = {"summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "abc", "status": None}
    events = [
        response_start(),
        *response_item(
            0,
            item,
            response_event("reasoning_summary_part.added", summary_index=0),
            response_event("reasoning_summary_text.delta", summary_index=0, delta="one"),
            response_event("reasoning_summary_part.added", summary_index=1),
            response_event("reasoning_summary_text.delta", summary_index=1, delta="two"),
            done=done,
        ),
        *response_text(1, "So."),
        response_end(),
    ]
    kept = {"summary": done["summary"], "type": "reasoning", "id": "rs_1", "encrypted_content": "abc"}
    assert blocks(chunks_of(responses(), events)) == [Thinking("one\n\ntwo"), Opaque("openai", kept), Text("So.")]


def test_reasoning_that_cannot_be_given_back_is_only_shown() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    done = {"content": [{"type": "reasoning_text", "text": "hm"}]}
    events = [response_start(), *response_item(0, item, done=done), response_end()]
    assert blocks(chunks_of(responses(), events)) == [Thinking("hm")]
    events = [response_start(), *response_item(0, item), response_end()]
    assert blocks(chunks_of(responses(), events)) == []


def test_items_and_events_that_are_not_known_are_ignored() -> None:
    events = [
        response_start(),
        *response_item(0, {"type": "web_search_call", "id": "ws"}, response_event("web_search_call.searching")),
        response_event("output_text.annotation.added", output_index=1),
        ("response.brand_new", "no json"),
        *response_text(1, "Hi"),
        response_end(),
    ]
    assert blocks(chunks_of(responses(), events)) == [Text("Hi")]


def test_servers_that_name_no_places_are_followed_by_item_ids() -> None:
    events = [response_start(), *response_text(0, "Hi"), *response_call(1, "{}"), response_end()]
    for _, data in events:
        data.pop("output_index", None)
    assert blocks(chunks_of(responses(), events)) == [Text("Hi"), use({})]


def test_events_that_lost_their_names_are_told_by_their_data() -> None:
    events = [response_start(), *response_text(0, "Hi"), response_end()]
    assert decode(responses(), [sse(events, named=False)]) == chunks_of(responses(), events)


def test_what_stands_only_in_the_last_event_of_an_item_counts() -> None:
    text = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
    call = {"type": "function_call", "id": "f", "call_id": "call_1", "name": "Read", "arguments": '{"a":1}'}
    events = [
        response_start(),
        response_event("output_item.done", output_index=0, item=text),
        response_event("output_item.added", output_index=1, item=call | {"arguments": ""}),
        response_event("output_item.done", output_index=1, item=call),
        response_end(),
    ]
    assert blocks(chunks_of(responses(), events)) == [Text("Hi"), use({"a": 1})]


def test_what_stands_only_in_the_last_event_of_all_counts() -> None:
    text = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
    call = {"type": "function_call", "id": "f", "call_id": "call_1", "name": "Read", "arguments": '{"a":1}'}
    events = [response_start(), response_end(output=[text, call])]
    assert blocks(chunks_of(responses(), events)) == [Text("Hi"), use({"a": 1})]
    opened = response_call(0, '{"a"', ":1}")[:-1]
    assert blocks(chunks_of(responses(), [response_start(), *opened, response_end(output=[call])])) == [use({"a": 1})]


@pytest.mark.parametrize(
    ("end", "stop"),
    [
        (response_end(), "end_turn"),
        (response_end("incomplete", incomplete_details={"reason": "max_output_tokens"}), "max_tokens"),
        (response_end("incomplete", incomplete_details={"reason": "content_filter"}), "refusal"),
        (response_end("incomplete", incomplete_details={"reason": "tired"}), "tired"),
        (response_end("incomplete", incomplete_details=None), "max_tokens"),
    ],
)
def test_endings(end: tuple[str, Any], stop: str) -> None:
    assert ending(chunks_of(responses(), [response_start(), *response_text(0, "Hi"), end])).stop == stop


def test_a_refusal_is_told_as_text_and_as_the_stop_reason() -> None:
    item = {"type": "message", "id": "m", "content": []}
    done = {"content": [{"type": "refusal", "refusal": "No."}]}
    delta = response_event("refusal.delta", content_index=0, delta="No.")
    for middle in ([delta], []):
        chunks = chunks_of(responses(), [response_start(), *response_item(0, item, *middle, done=done), response_end()])
        assert blocks(chunks) == [Text("No.")]
        assert ending(chunks).stop == "refusal"


@pytest.mark.parametrize("pieces", [(), ('{"a":',)])
def test_a_call_cut_at_the_output_limit_is_malformed(pieces: tuple[str, ...]) -> None:
    end = response_end("incomplete", incomplete_details={"reason": "max_output_tokens"})
    for call in (response_call(0, *pieces), response_call(0, *pieces)[:-1]):
        assert blocks(chunks_of(responses(), [response_start(), *call, end])) == [use({}, "".join(pieces))]


@pytest.mark.parametrize("count", range(6))
def test_a_stream_without_its_last_event_is_broken(count: int) -> None:
    events = [response_start(), *response_text(0, "Hi"), *response_call(1, "{}")]
    assert failure_of(responses(), events[:count]).kind == "stream_broken"


BROKEN: dict[str, list[tuple[str, Any]]] = {
    "two replies": [response_start(), response_event("created", response={"id": "resp_2"})],
    "two replies without names": [response_event("created", response={}), response_event("created", response={})],
    "a reply told from its start": [response_start(), *response_text(0, "x"), response_start(), *response_text(0, "x")],
    "delta before its item": [response_start(), response_text(0, "x")[1]],
    "delta before the start": [response_text(0, "x")[1]],
    "delta after its item": [response_start(), *response_text(0, "x"), response_text(0, "x")[1]],
    "item twice": [response_start(), *response_text(0, "x"), *response_text(0, "x")],
    "item done twice": [response_start(), *response_text(0, "x"), response_text(0, "x")[-1]],
    "call never done": [response_start(), *response_call(0, "{}")[:-1]],
    "two versions of a call": [
        response_start(),
        *response_call(0, '{"path":"a"}')[:-1],
        response_call(0, '{"path":"b"}')[-1],
    ],
    "delta that is no text": [response_start(), response_event("output_text.delta", output_index=0, delta=3)],
    "item missing": [response_start(), response_event("output_item.added", output_index=0)],
    "no JSON": [response_start(), ("response.output_item.added", "nonsense")],
    "cancelled": [response_start(), response_end("cancelled")],
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_no_sound_stream_does_is_broken(name: str) -> None:
    assert failure_of(responses(), [*BROKEN[name], response_end()]).kind == "stream_broken"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (("error", {"type": "error", "code": "rate_limit_exceeded", "message": "slow"}), "rate_limit"),
        (("error", {"type": "error", "error": {"type": "server_error", "message": "x"}}), "server"),
        (response_end("failed", error={"code": "server_error", "message": "x"}), "server"),
        (response_end("failed", error={"code": "context_length_exceeded", "message": "x"}), "prompt_too_long"),
        (response_end("failed", error={"code": "insufficient_quota", "message": "x"}), "billing"),
        (response_end("failed", error=None), "server"),
        (("", {"error": {"message": "boom"}}), "server"),
    ],
)
def test_errors_have_their_kind(event: tuple[str, Any], kind: str) -> None:
    assert failure_of(responses(), [response_start(), *response_text(0, "x"), event]).kind == kind


def test_odd_characters() -> None:
    raw = '{"output_index":0,"delta":"%s"}'
    text = response_text(0)
    deltas = [
        ("response.output_text.delta", raw % "a\\ud83d"),
        ("response.output_text.delta", raw % "\\ude00"),
        ("response.output_text.delta", (raw % "X").encode().replace(b"X", b"\xff")),
    ]
    events = [response_start(), text[0], *deltas, text[-1], response_end()]
    assert blocks(chunks_of(responses(), events)) == [Text("a\U0001f600\ufffd")]


def test_a_beginning_that_is_told_again_is_the_same_reply() -> None:
    opened, delta, *rest = response_text(0, "Hi")
    events = [response_start(), opened, response_start(), response_event("in_progress"), delta, *rest, response_end()]
    assert blocks(chunks_of(responses(), events)) == [Text("Hi")]


def test_a_reply_that_was_not_streamed_gives_the_same_blocks() -> None:
    output = [
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"},
        {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]},
        {"type": "function_call", "id": "f", "call_id": "call_1", "name": "Read", "arguments": '{"a":1}'},
    ]
    body = response_end(output=output, model="gpt-x")[1]["response"]
    chunks = responses().whole(json.dumps(body).encode())
    assert blocks(chunks) == [
        Opaque("openai", {"summary": [], "type": "reasoning", "id": "rs", "encrypted_content": "e"}),
        Text("Hi"),
        use({"a": 1}),
    ]
    assert ending(chunks) == ReplyEnded("tool_use", Usage(15, 7, 5, 0))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "stream_broken"),
        (b"{}", "unexpected_reply"),
        (b'{"status":"failed","error":{"code":"server_error","message":"x"}}', "server"),
        (b'{"status":"in_progress","output":[]}', "stream_broken"),
    ],
)
def test_a_whole_answer_that_is_none_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        responses().whole(body)
    assert caught.value.failure.kind == kind
