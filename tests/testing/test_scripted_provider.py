"""The scripted model in memory."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tugline.protocol.blocks import Text, Thinking, ToolResult, ToolUse, UserBlock
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.ids import CallId, MessageId, ReplyId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.specs import ModelRequest, ToolSpec
from tugline.protocol.usage import Usage
from tugline.testing import (
    FakeClock,
    Match,
    Script,
    ScriptedProvider,
    ScriptMismatch,
    SequentialIds,
    Step,
    call,
    cut,
    drop,
    error_event,
    exactly,
    fail,
    garbage,
    gate,
    hang,
    lane,
    pause,
    ping,
    raw_call,
    regexp,
    reply,
    text,
    thinking,
)

READ = ToolSpec("Read", "Reads.", {"type": "object", "properties": {}})


def said(*words: str) -> tuple[Message, ...]:
    """A conversation in which the person says these words, one after the other, and the model answers `ok`."""
    messages: list[Message] = []
    for word in words:
        if messages:
            messages.append(Assistant(MessageId("a"), (Text("ok"),)))
        messages.append(User(MessageId("u"), (Text(word),)))
    return tuple(messages)


def ask(*words: str, **rest: Any) -> ModelRequest:
    return ModelRequest(model="m", messages=said(*(words or ("hello",))), **rest)


async def collect(provider: ScriptedProvider, request: ModelRequest, chunks: list[Chunk]) -> None:
    async with provider.stream(request) as batches:
        async for batch in batches:
            chunks += batch


async def answer(provider: ScriptedProvider, request: ModelRequest | None = None) -> list[Chunk]:
    chunks: list[Chunk] = []
    await collect(provider, request or ask(), chunks)
    return chunks


async def blocks(provider: ScriptedProvider, request: ModelRequest | None = None) -> list[Any]:
    return [chunk.block for chunk in await answer(provider, request) if isinstance(chunk, BlockClosed)]


async def failure(provider: ScriptedProvider, request: ModelRequest | None = None) -> Failure:
    with pytest.raises(ProviderError) as raised:
        await answer(provider, request)
    return raised.value.failure


async def test_a_reply_is_told_as_chunks_in_their_order() -> None:
    provider = ScriptedProvider(
        [reply(thinking("hm"), text("hello"), call("Read", file_path="x"), usage=Usage(7, 3), chunk=3)]
    )
    assert await answer(provider) == [
        ReplyStarted(ReplyId("msg_1"), "m", Usage(7, 1)),
        BlockStarted(0, "thinking"),
        BlockDelta(0, "hm"),
        BlockClosed(0, Thinking("hm", "scripted")),
        BlockStarted(1, "text"),
        BlockDelta(1, "hel"),
        BlockDelta(1, "lo"),
        BlockClosed(1, Text("hello")),
        BlockStarted(2, "tool_use", CallId("call_1_1"), "Read"),
        *(BlockDelta(2, piece) for piece in ('{"f', "ile", "_pa", 'th"', ':"x', '"}')),
        BlockClosed(2, ToolUse(CallId("call_1_1"), "Read", {"file_path": "x"})),
        ReplyEnded("tool_use", Usage(7, 3)),
    ]
    provider.check()


async def test_steps_are_taken_in_order_and_repeat_as_often_as_they_say() -> None:
    provider = ScriptedProvider([reply("a"), reply("b", repeat=2), reply("c", repeat=None)])
    answers = [(await blocks(provider))[0].text for _ in range(6)]
    assert answers == ["a", "b", "b", "c", "c", "c"]
    provider.check()


async def test_a_step_that_nobody_asked_for_is_named_by_check() -> None:
    provider = ScriptedProvider([reply("a"), reply(call("Read")), fail(529), reply("often", repeat=3)])
    await answer(provider)
    with pytest.raises(ScriptMismatch) as raised:
        provider.check()
    assert str(raised.value).splitlines() == [
        "never asked for: step 2: call of Read",
        "never asked for: step 3: error 529",
        "never asked for: step 4: text 'often'",
    ]


async def test_a_request_too_many_is_refused_for_good_and_named_by_check() -> None:
    provider = ScriptedProvider([reply("a")])
    await answer(provider)
    problem = "unexpected request: no step is left for a request (model m, user 'more')"
    assert await failure(provider, ask("more")) == Failure("server", problem, 500)
    with pytest.raises(ScriptMismatch, match="no step is left"):
        provider.check()


async def test_a_failed_expectation_says_what_was_there_instead() -> None:
    provider = ScriptedProvider([reply("a", expect=Match(user="bye", tools=("Read", "Edit"), without=("Read",)))])
    said = (await failure(provider, ask("hello", tools=(READ,)))).message
    assert "user to contain 'bye', but it is 'hello'" in said
    assert "tools Edit to be offered, but these are: Read" in said
    assert "tools Read not to be offered" in said
    with pytest.raises(ScriptMismatch):
        provider.check()


async def test_a_step_with_a_condition_goes_before_steps_without() -> None:
    title = reply("a title", when=Match(purpose="title"), repeat=None)
    provider = ScriptedProvider([reply("first"), reply("second"), title])
    assert await blocks(provider, ask(purpose="title")) == [Text("a title")]
    assert await blocks(provider) == [Text("first")]
    assert await blocks(provider, ask(purpose="title")) == [Text("a title")]
    assert await blocks(provider) == [Text("second")]
    provider.check()


async def test_lanes_have_sequences_of_their_own() -> None:
    lanes = {
        "left": lane(Match(first="go left"), [reply("left 1"), reply("left 2")]),
        "worker": lane(Match(first=regexp(r"^item \d+$")), [reply("one"), reply("two")], each=True),
    }
    provider = ScriptedProvider(Script([reply("main")], lanes))
    assert await blocks(provider, ask("go left", "more")) == [Text("left 1")]
    assert await blocks(provider, ask("item 1")) == [Text("one")]
    assert await blocks(provider, ask("item 2")) == [Text("one")]
    assert await blocks(provider, ask("item 1", "more")) == [Text("two")]
    assert await blocks(provider) == [Text("main")]
    assert await blocks(provider, ask("go left")) == [Text("left 2")]
    assert provider.remaining == ["step 2 of lane worker_2: text 'two'"]


def results(*pairs: tuple[str, bool]) -> ModelRequest:
    calls = tuple(ToolUse(CallId(f"c{n}"), "Read", {}) for n in range(len(pairs)))
    answers = tuple(ToolResult(CallId(f"c{n}"), words, failed) for n, (words, failed) in enumerate(pairs))
    start = User(MessageId("u"), (Text("<system-reminder>noise</system-reminder>"), Text("begin")))
    reminded: tuple[UserBlock, ...] = (*answers, Text("<system-reminder>mind the gap</system-reminder>"))
    return ModelRequest("m", (start, Assistant(MessageId("a"), calls), User(MessageId("r"), reminded)))


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        (Match(result="two"), True),
        (Match(result="three"), False),
        (Match(results=("one", exactly("two"))), True),
        (Match(results=("two", "one")), False),
        (Match(results=("one",)), False),
        (Match(is_error=True), True),
        (Match(is_error=False), False),
        (Match(user=exactly("begin"), first=exactly("begin")), True),
        (Match(last="mind the gap"), True),
        (Match(user="gap"), False),
        (Match(model=regexp("^m$"), stream=True), True),
        (Match(stream=False), False),
        (Match(system="rule 7"), False),
    ],
)
async def test_an_expectation_can_look_at_each_part_of_a_request(match: Match, holds: bool) -> None:
    provider = ScriptedProvider([reply("fine", expect=match)])
    request = results(("one", False), ("two", True))
    if holds:
        await answer(provider, request)
        provider.check()
    else:
        assert (await failure(provider, request)).kind == "server"


async def test_a_gate_holds_the_reply_until_it_is_opened() -> None:
    provider = ScriptedProvider([reply("before", gate("a"), "after")])
    task = asyncio.create_task(blocks(provider))
    await provider.reached("a")
    assert not task.done()
    assert provider.running == 1
    provider.open("a")
    assert await task == [Text("before"), Text("after")]
    assert provider.running == 0


async def test_a_gate_may_be_opened_before_anyone_comes() -> None:
    provider = ScriptedProvider([reply(gate("a"), "through", repeat=2)])
    provider.open("a")
    await asyncio.gather(blocks(provider), blocks(provider), provider.reached("a", 2))
    provider.check()


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        (cut(), "stream_broken"),
        (drop(), "stream_broken"),
        (garbage("<html>"), "stream_broken"),
        (error_event(), "overloaded"),
        (error_event("rate_limit_error", "slow down"), "rate_limit"),
    ],
)
async def test_a_fault_in_the_stream_comes_after_what_was_said_before_it(part: Any, kind: str) -> None:
    provider = ScriptedProvider([reply("said", part, "unsaid")])
    chunks: list[Chunk] = []
    with pytest.raises(ProviderError) as raised:
        await collect(provider, ask(), chunks)
    assert raised.value.failure.kind == kind
    assert raised.value.failure.retryable
    assert [chunk.block for chunk in chunks if isinstance(chunk, BlockClosed)] == [Text("said")]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "step",
    [
        reply("said", stop="missing"),
        reply(text("said", unclosed=True)),
        reply("said", cut=cut()),
        reply("said", content_type="text/html"),
    ],
)
async def test_a_reply_without_a_proper_end_is_a_broken_stream(step: Step, stream: bool) -> None:
    if step.cut:
        step = reply("said", cut=type(step.cut)("end", events=2))
    assert (await failure(ScriptedProvider([step]), ask(stream=stream))).kind == "stream_broken"


async def test_a_stream_that_hangs_is_left_when_its_reader_is_cancelled() -> None:
    provider = ScriptedProvider([reply("said", gate("here"), ping(), pause(0.0), hang()), reply("next")])
    provider.open("here")
    task = asyncio.create_task(answer(provider))
    await provider.reached("here")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.running == 0
    assert await blocks(provider) == [Text("next")]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (fail(529, "busy", retry_after=3), Failure("overloaded", "busy", 529, 3, True)),
        (fail(429), Failure("rate_limit", "429 rate_limit_error", 429, None, True)),
        (fail(401, "no"), Failure("authentication", "no", 401)),
        (fail(400, "prompt is too long: 9 > 8"), Failure("prompt_too_long", "prompt is too long: 9 > 8", 400)),
        (fail(502), Failure("server", "502 api_error", 502, None, True)),
    ],
)
async def test_a_refusal_becomes_a_failure_of_its_kind(step: Step, expected: Failure) -> None:
    assert await failure(ScriptedProvider([step])) == expected


@pytest.mark.parametrize("raw", ['{"a": ', "[1]", "null", "nonsense"])
async def test_a_call_whose_json_is_no_object_keeps_its_raw_text(raw: str) -> None:
    provider = ScriptedProvider([reply(raw_call("Read", raw, call_id="c9"))])
    assert await blocks(provider) == [ToolUse(CallId("c9"), "Read", {}, raw)]


async def test_places_in_a_text_are_filled_from_the_request() -> None:
    request = results(("the result", False))
    parts = (text("{{model}} in {{ cwd }}: {{last_tool_result}} {{other}}"), call("Read", p=["{{last_user_text}}"]))
    provider = ScriptedProvider([reply(*parts), reply("{{cwd}}", literal=True), reply("{{cwd}}")])
    in_folder = ModelRequest("m", request.messages, system=("Working directory: /some where\n",))
    filled = await blocks(provider, in_folder)
    assert filled[0] == Text("m in /some where: the result {{other}}")
    assert filled[1].input == {"p": ["begin"]}
    assert await blocks(provider) == [Text("{{cwd}}")]
    assert "names no working directory" in (await failure(provider)).message


async def test_a_repeated_step_gives_each_call_an_id_of_its_own() -> None:
    provider = ScriptedProvider([reply(raw_call("Read", "{}", call_id="x"), call("Read"), repeat=2)])
    ids = [block.id for _ in range(2) for block in await blocks(provider)]
    assert ids == ["x", "call_1_2", "x_2", "call_2_2"]


async def test_a_conversation_that_no_service_takes_is_refused_and_reported() -> None:
    provider = ScriptedProvider([reply("never")])
    lonely = ModelRequest("m", (User(MessageId("u"), (ToolResult(CallId("c1"), "x"),)),))
    assert (await failure(provider, lonely)).kind == "invalid_request"
    with pytest.raises(ScriptMismatch, match="unexpected `tool_use_id`"):
        provider.check()


async def test_requests_are_kept_as_they_were_when_they_came() -> None:
    history: list[Message] = list(said("one"))
    provider = ScriptedProvider([reply("a")])
    await answer(provider, ModelRequest("m", history))
    history.append(Assistant(MessageId("a"), (Text("later"),)))
    assert [len(request.messages) for request in provider.requests] == [1]


async def test_batches_hold_as_many_chunks_as_asked_for() -> None:
    sizes: list[int] = []
    provider = ScriptedProvider([reply("a" * 10, chunk=1)], batch=5)
    async with provider.stream(ask()) as batches:
        async for batch in batches:
            sizes.append(len(batch))
    assert sizes == [5, 5, 4]


async def test_a_ping_is_an_empty_batch() -> None:
    sizes: list[int] = []
    provider = ScriptedProvider([reply(ping(2), "a")], batch=9)
    async with provider.stream(ask()) as batches:
        async for batch in batches:
            sizes.append(len(batch))
    assert sizes == [1, 0, 0, 4]


def test_the_clock_goes_on_when_told_and_ids_count_per_kind() -> None:
    clock, ids = FakeClock(100.0), SequentialIds()
    clock.advance(2.5)
    assert (clock.time(), clock.monotonic()) == (102.5, 2.5)
    ticking = FakeClock(0.0, tick=1.0)
    assert [ticking.monotonic() for _ in range(3)] == [0.0, 1.0, 2.0]
    made: Sequence[str] = [ids.message(), ids.new("c"), ids.message(), ids.new("c"), ids.new("q")]
    assert made == ["m1", "c1", "m2", "c2", "q1"]
