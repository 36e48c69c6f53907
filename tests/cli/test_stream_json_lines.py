"""The fold from events to lines of the stream-json protocol."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.cli.headless.ending import Failed
from tugline.cli.headless.printer import JsonResult, PlainText, Uuids
from tugline.cli.headless.shapes import LINE_LIMIT, line
from tugline.cli.headless.stream_json import UNANSWERED, StreamJson
from tugline.protocol.blocks import Image, Opaque, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.chunks import BlockKind
from tugline.protocol.errors import Failure
from tugline.protocol.events import (
    BlockBegan,
    BlockFinished,
    Event,
    InputDelta,
    ModeChanged,
    Notice,
    Origin,
    ReplyBegan,
    ReplyFinished,
    ResultAdded,
    RetryWaiting,
    SessionStarted,
    TextDelta,
    ThinkingDelta,
    Tombstone,
    TurnFinished,
    TurnStarted,
)
from tugline.protocol.ids import AgentId, CallId, MessageId, ReplyId, SessionId
from tugline.protocol.messages import Assistant, User
from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Spend, Usage

FIRST = "00000000-0000-4000-8000-000000000000"
AT: dict[str, Any] = {"seq": 1, "origin": Origin(SessionId("s"), AgentId("main"))}
R1, R2 = ReplyId("r1"), ReplyId("r2")
USAGE = Usage(input=5, output=7, cache_read=1, cache_write=2)
USAGE_SHAPE = {
    "input_tokens": 5,
    "output_tokens": 7,
    "cache_creation_input_tokens": 2,
    "cache_read_input_tokens": 1,
}
STARTED = SessionStarted(**AT, cwd="/w", model="m", mode="default", tools=("Read",), key_source="ANTHROPIC_API_KEY")
BEGUN = TurnStarted(**AT, message=User(MessageId("u"), (Text("Go"),)))


def uuid(number: int) -> str:
    return f"{FIRST[:-4]}{number:04x}"


def printer(*, partial: bool = False) -> StreamJson:
    cards = lambda name: ModelCard(name=name, window=1000, output_limit=50)  # noqa: E731
    return StreamJson("s", Uuids(FIRST), cards, level="9.9.9", version="0.0.1", partial_messages=partial)


def told(*events: Event, partial: bool = False, failed: Failed | None = None) -> list[dict[str, Any]]:
    out = bytearray()
    fold = printer(partial=partial)
    for event in events:
        fold.take(event, out)
    if failed is not None:
        fold.fail(failed, out)
    return [json.loads(each) for each in out.decode().split("\n")[:-1]]


def use(name: str) -> ToolUse:
    return ToolUse(CallId(name), "Read", {"file_path": name})


def said(reply: ReplyId, *blocks: Any, stop: str = "tool_use") -> ReplyFinished:
    message = Assistant(MessageId(f"m-{reply}"), blocks, model="m", stop=stop, usage=USAGE, reply=reply)
    return ReplyFinished(**AT, message=message)


def result(name: str, content: Any = "text", *, error: bool = False) -> ResultAdded:
    return ResultAdded(**AT, result=ToolResult(CallId(name), content, error), tool="Read")


def began(reply: ReplyId) -> ReplyBegan:
    return ReplyBegan(**AT, reply=reply, model="m", usage=Usage(input=5))


def finished(reason: Any = "completed", **fields: Any) -> TurnFinished:
    given: dict[str, Any] = {
        "text": "Done.", "steps": 2, "spend": Spend(USAGE, 0.5, 2), "models": {"m": Spend(USAGE, 0.5, 2)},
        "total_cost_usd": 0.75, "duration": 1.2345, "api_duration": 0.9, "stop": "end_turn",
    }  # fmt: skip
    return TurnFinished(**AT, reason=reason, **(given | fields))


RESULT = {
    "type": "result", "subtype": "success", "uuid": uuid(1), "session_id": "s", "is_error": False,
    "duration_ms": 1234, "duration_api_ms": 900, "num_turns": 2, "result": "Done.", "stop_reason": "end_turn",
    "total_cost_usd": 0.75, "usage": USAGE_SHAPE,
    "modelUsage": {"m": {
        "inputTokens": 5, "outputTokens": 7, "cacheReadInputTokens": 1, "cacheCreationInputTokens": 2,
        "webSearchRequests": 0, "costUSD": 0.5, "contextWindow": 1000, "maxOutputTokens": 50,
    }},
    "permission_denials": [], "terminal_reason": "completed",
}  # fmt: skip


def test_a_turn_begins_with_what_the_session_works_with() -> None:
    lines = told(STARTED, ModeChanged(**AT, mode="plan"), BEGUN)
    assert lines == [
        {
            "type": "system", "subtype": "init", "uuid": uuid(1), "session_id": "s", "cwd": "/w", "tools": ["Read"],
            "mcp_servers": [], "model": "m", "permissionMode": "plan", "slash_commands": [], "agents": [],
            "skills": [], "plugins": [], "apiKeySource": "ANTHROPIC_API_KEY", "claude_code_version": "9.9.9",
            "tugline_version": "0.0.1", "output_style": "default",
        }
    ]  # fmt: skip


def test_a_reply_is_one_line_with_all_its_blocks() -> None:
    blocks = (
        Thinking("hm", "sig"), Opaque("anthropic", {"type": "redacted_thinking", "data": "x"}),
        Opaque("openai", {"type": "reasoning"}), Text("Look."), use("a"),
    )  # fmt: skip
    (assistant,) = told(began(R1), said(R1, *blocks))
    assert assistant == {
        "type": "assistant", "uuid": "m-r1", "session_id": "s", "parent_tool_use_id": None,
        "message": {
            "id": "r1", "type": "message", "role": "assistant", "model": "m",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "Look."},
                {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "a"}},
            ],
            "stop_reason": "tool_use", "stop_sequence": None, "usage": USAGE_SHAPE,
        },
    }  # fmt: skip


def test_results_wait_for_the_line_of_their_reply() -> None:
    image = (Text("see"), Image("image/png", "AAAA"))
    lines = told(began(R1), result("a", image), said(R1, use("a"), use("b")), result("b", "no", error=True))
    assert [each["type"] for each in lines] == ["assistant", "user", "user"]
    assert lines[1:] == [
        {
            "type": "user", "uuid": uuid(1), "session_id": "s", "parent_tool_use_id": None,
            "message": {"role": "user", "content": [{
                "type": "tool_result", "tool_use_id": "a", "is_error": False,
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                ],
            }]},
        },
        {
            "type": "user", "uuid": uuid(2), "session_id": "s", "parent_tool_use_id": None,
            "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
            ]},
        },
    ]  # fmt: skip


def test_nothing_of_a_void_reply_is_shown() -> None:
    void = Tombstone(**AT, reply=R1, reason="broken")
    retry = RetryWaiting(**AT, failure=Failure("stream_broken", "cut"), attempt=1, limit=3, delay=0.25)
    lines = told(began(R1), result("a"), void, retry, began(R2), said(R2, Text("Whole."), stop="end_turn"))
    assert lines[0] == {
        "type": "system", "subtype": "api_retry", "uuid": uuid(1), "session_id": "s", "attempt": 1, "max_retries": 2,
        "retry_delay_ms": 250, "error_status": None, "error": "unknown",
    }  # fmt: skip
    assert [each["type"] for each in lines[1:]] == ["assistant"]


def test_partial_messages_have_the_shapes_of_the_service() -> None:
    def block(index: int, kind: BlockKind, call: str = "", name: str = "") -> BlockBegan:
        return BlockBegan(**AT, reply=R1, index=index, kind=kind, call=CallId(call), name=name)

    events: list[Event] = [
        began(R1),
        block(0, "thinking"), ThinkingDelta(**AT, reply=R1, index=0, text="h\"m\u2028"),
        BlockFinished(**AT, reply=R1, index=0, block=Thinking("h\"m\u2028", "sig")),
        block(1, "text"), TextDelta(**AT, reply=R1, index=1, text=" "),  # only blanks: it has no end of its own
        block(2, "tool_use", "a", "Read"), InputDelta(**AT, reply=R1, index=2, text="{}"),
        BlockFinished(**AT, reply=R1, index=2, block=ToolUse(CallId("a"), "Read", {})),
        said(R1, ToolUse(CallId("a"), "Read", {})),
    ]  # fmt: skip
    lines = told(*events, partial=True)
    assert [each["uuid"] for each in lines[:-1]] == [uuid(number) for number in range(1, len(lines))]
    assert {each["type"] for each in lines[:-1]} == {"stream_event"}
    start: dict[str, Any] = {
        "id": "r1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {**USAGE_SHAPE, "output_tokens": 0, "cache_creation_input_tokens": 0,
                                         "cache_read_input_tokens": 0},
    }  # fmt: skip
    assert [each["event"] for each in lines[:-1]] == [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "h\"m\u2028"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": " "}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2,
         "content_block": {"type": "tool_use", "id": "a", "name": "Read", "input": {}}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": USAGE_SHAPE},
        {"type": "message_stop"},
    ]  # fmt: skip
    assert lines[-1]["type"] == "assistant"


def test_without_the_flag_there_are_no_partial_messages() -> None:
    delta = TextDelta(**AT, reply=R1, index=0, text="x")
    assert told(began(R1), delta, BlockFinished(**AT, reply=R1, index=0, block=Text("x"))) == []


def test_a_completed_turn_has_its_result() -> None:
    assert told(finished()) == [RESULT]
    denial = {"tool_name": "Write", "tool_use_id": "a", "tool_input": {}}
    assert told(finished(denials=(denial,))) == [RESULT | {"permission_denials": [denial]}]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (finished("max_steps", text="", message="Reached 2."), {
            "subtype": "error_max_turns", "errors": ["Reached 2."], "terminal_reason": "max_turns"}),
        (finished("max_budget", text="", message="Spent."), {
            "subtype": "error_max_budget_usd", "errors": ["Spent."], "terminal_reason": "max_budget_usd"}),
        (finished("interrupted", text="", message="Stop.", interrupted_during="request"), {
            "subtype": "error_during_execution", "errors": ["Stop."], "terminal_reason": "aborted_streaming"}),
        (finished("interrupted", text="", message="Stop.", interrupted_during="tools"), {
            "subtype": "error_during_execution", "errors": ["Stop."], "terminal_reason": "aborted_tools"}),
        (finished("failed", text=""), {
            "subtype": "error_during_execution", "errors": ["The turn ended: failed."], "terminal_reason": "failed"}),
    ],
)  # fmt: skip
def test_other_endings_have_theirs(event: TurnFinished, expected: dict[str, Any]) -> None:
    base = {name: value for name, value in RESULT.items() if name != "result"}
    assert told(event) == [base | {"is_error": True} | expected]


def test_a_failure_of_the_service_is_an_error_in_the_shape_of_success() -> None:
    failure = Failure("overloaded", "Overloaded.", status=529, retryable=True)
    shown, ending = told(finished("api_error", text="", failure=failure))
    assert ending == RESULT | {
        "is_error": True, "result": "API Error: Overloaded.", "terminal_reason": "api_error", "api_error_status": 529,
    }  # fmt: skip
    assert (shown["type"], shown["error"]) == ("assistant", "rate_limit")
    assert shown["message"]["content"] == [{"type": "text", "text": "API Error: Overloaded."}]


def test_every_call_that_was_shown_gets_its_result_shown() -> None:
    lines = told(began(R1), said(R1, use("a"), use("b")), result("a"), failed=Failed("Gone."))
    assert [each["type"] for each in lines] == ["assistant", "user", "user", "result"]
    (answer,) = lines[2]["message"]["content"]
    assert (answer["tool_use_id"], answer["content"], answer["is_error"]) == ("b", UNANSWERED, True)
    assert (lines[3]["subtype"], lines[3]["errors"]) == ("error_during_execution", ["Gone."])


def test_there_is_one_result_and_it_is_the_last_line() -> None:
    lines = told(finished(), finished(), Notice(**AT, level="error", text="late"), BEGUN, failed=Failed("late"))
    assert lines == [RESULT]


def test_agents_below_the_main_one_have_no_lines_yet() -> None:
    below: dict[str, Any] = {"seq": 1, "origin": Origin(SessionId("s"), AgentId("x"), depth=1)}
    assert told(ReplyBegan(**below, reply=R1, model="m", usage=Usage())) == []


def test_the_json_format_is_the_result_alone() -> None:
    out = bytearray()
    fold = JsonResult("s", Uuids(FIRST), lambda name: ModelCard(name=name, window=1000, output_limit=50))
    for event in (STARTED, BEGUN, began(R1), said(R1, Text("x")), finished(), finished()):
        fold.take(event, out)
    fold.fail(Failed("late"), out)
    assert json.loads(out) == RESULT


def test_the_text_format_is_the_answer_alone() -> None:
    out = bytearray()
    fold = PlainText(str)
    for event in (STARTED, began(R1), said(R1, Text("Done.")), finished(), finished("failed", text="")):
        fold.take(event, out)
    fold.fail(Failed("late"), out)
    assert bytes(out) == b"Done.\n"


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.text(max_size=50), st.integers(-(2**53), 2**53)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=5))
def test_a_line_is_one_line_that_says_the_same(message: dict[str, Any]) -> None:
    encoded = line(message)
    assert encoded.endswith(b"\n")
    assert len(encoded.decode().splitlines()) == 1
    if all(not 0xD800 <= ord(char) < 0xE000 for char in str(message)):
        assert json.loads(encoded) == message


@pytest.mark.parametrize(
    "content",
    [
        "x" * 3_000_000,
        "\x00\u2028\u0085" * 700_000,
        ["y" * 1_000 for _ in range(3_000)],
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 2_000_000}}],
        {f"key{number}": number for number in range(200_000)},
        [[[["z" * 900_000]], "z" * 900_000]],
    ],
)
def test_no_line_is_longer_than_hosts_can_read(content: Any) -> None:
    encoded = line({"type": "user", "message": {"content": content}})
    assert len(encoded) <= LINE_LIMIT + 1
    assert json.loads(encoded)["type"] == "user"
    if not isinstance(content, dict):
        assert b"left out" in encoded
