"""How a turn ends, or goes on: the table of loop.md §2."""

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from stage import OpenGate, Stage, assert_valid, results, texts

from tugline.loop.agent import AgentSpec
from tugline.loop.executor import Passed, Refused
from tugline.loop.inbox import Letter
from tugline.ports import HookAfter, Tool
from tugline.protocol.blocks import Text, ToolUse
from tugline.protocol.commands import PromptContent
from tugline.protocol.events import (
    LimitReached,
    ModelChanged,
    Notice,
    RequestStarted,
    ResultAdded,
    Tombstone,
    TurnFinished,
    UserAdded,
)
from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.records import Compacted
from tugline.protocol.specs import AgentState, Cwd, ModelCard, Result
from tugline.protocol.usage import Usage
from tugline.providers.fallback import Fallback
from tugline.rules import wording
from tugline.testing import Match, ScriptedProvider, call, fail, gate, raw_call, reply, text
from tugline.tools.define import tool


def letter(words: str) -> Letter:
    content: PromptContent = (Text(words),)
    return Letter(content)


async def test_a_reply_without_calls_ends_the_turn_with_its_text() -> None:
    stage = Stage(ScriptedProvider([reply("Hello.")]))
    finished = await stage.run("Hi")
    assert (finished.reason, finished.text, finished.steps) == ("completed", "Hello.", 1)
    assert [type(m) for m in stage.messages] == [User, Assistant]
    assert stage.events[-1] is finished


async def test_results_follow_the_reply_in_one_message_in_the_order_of_the_calls() -> None:
    script = [reply(call("look", name="a"), call("change", name="b"), call("look", name="c")), reply("Done")]
    stage = Stage(ScriptedProvider(script))
    finished = await stage.run()
    assert finished.reason == "completed"
    assert [r.content for r in results(stage.messages[2])] == ["a done", "b done", "c done"]
    assert [e.result.content for e in stage.said(ResultAdded)] == ["a done", "b done", "c done"]
    assert_valid(stage.messages)


async def test_the_prompt_is_durable_before_the_first_request() -> None:
    order: list[str] = []

    class Log:
        path = ""

        def append(self, record: Any) -> None:
            order.append(f"append {type(record).__name__}")

        async def durable(self) -> None:
            order.append("durable")

        async def aclose(self) -> None: ...

    class Provider(ScriptedProvider):
        def stream(self, request: Any) -> Any:
            order.append("request")
            return super().stream(request)

    stage = Stage(Provider([reply("x")]), log=Log())
    await stage.run()
    assert order.index("append Said") < order.index("durable") < order.index("request")


async def test_after_the_limit_of_steps_the_results_are_kept_and_no_request_follows() -> None:
    provider = ScriptedProvider([reply(call("look", name="a")), reply(call("look", name="b"))])
    stage = Stage(provider, spec=AgentSpec(max_steps=2))
    finished = await stage.run()
    assert (finished.reason, finished.steps) == ("max_steps", 2)
    assert [(e.kind, e.limit, e.count) for e in stage.said(LimitReached)] == [("max_steps", 2, 2)]
    assert [r.content for r in results(stage.messages[-1])] == ["b done"]
    assert_valid(stage.messages)


async def test_one_step_is_enough_for_a_plain_answer() -> None:
    stage = Stage(ScriptedProvider([reply("42")]), spec=AgentSpec(max_steps=1))
    assert (await stage.run()).reason == "completed"


async def test_a_spent_budget_ends_the_turn_and_names_the_other_ending_that_coincides() -> None:
    script = [reply(call("look", name="a"), usage=Usage(input=10, output=500))]
    stage = Stage(ScriptedProvider(script), spec=AgentSpec(max_cost_usd=0.5, max_steps=1))
    finished = await stage.run()
    assert (finished.reason, finished.also, finished.total_cost_usd) == ("max_budget", ("max_steps",), 0.5)


async def test_a_cut_reply_is_continued_three_times_and_then_stands_with_a_notice() -> None:
    script = [reply(text(f"part {n} "), stop="max_tokens") for n in range(4)]
    provider = ScriptedProvider(script)
    stage = Stage(provider, spec=AgentSpec(max_steps=1))
    finished = await stage.run()
    assert (finished.reason, finished.steps) == ("completed", 1)
    assert finished.text == "part 0 part 1 part 2 part 3 "
    hidden = [m for m in stage.messages if isinstance(m, User) and m.hidden]
    assert [texts(m) for m in hidden] == [wording.CONTINUE_CUT] * 3
    assert [n.level for n in stage.said(Notice)] == ["warning"]
    provider.check()


async def test_the_output_limit_is_raised_first_where_the_model_allows_it() -> None:
    card = ModelCard(name="scripted-model", output_limit=1_000, output_ceiling=8_000)
    provider = ScriptedProvider([reply("a", stop="max_tokens"), reply("b")], cards=[card])
    await Stage(provider).run()
    assert [request.max_output_tokens for request in provider.requests] == [None, 8_000]


async def test_a_raised_output_limit_is_for_the_model_that_allows_it_and_no_other() -> None:
    cards = [
        ModelCard(name="chosen", output_limit=1_000, output_ceiling=8_000),
        ModelCard(name="spare", output_limit=500, output_ceiling=2_000),
    ]
    steps = [reply("a", stop="max_tokens"), fail(529, "Overloaded"), reply("b", stop="max_tokens"), reply("c")]
    provider = ScriptedProvider(steps, cards=cards)
    assert (await Stage(Fallback(provider, "spare"), model="chosen").run()).text == "abc"
    asked = [(request.model, request.max_output_tokens) for request in provider.requests]
    assert asked == [("chosen", None), ("chosen", 8_000), ("spare", 2_000), ("spare", 2_000)]


async def test_whole_calls_of_a_cut_reply_run_and_the_loop_goes_on_as_usual() -> None:
    stage = Stage(ScriptedProvider([reply(call("look", name="a"), stop="max_tokens"), reply("ok")]))
    finished = await stage.run()
    assert (finished.reason, finished.steps) == ("completed", 2)
    assert not [m for m in stage.messages if isinstance(m, User) and m.hidden]


async def test_the_count_of_continuations_starts_again_after_a_step_with_tools() -> None:
    cut = [reply("x", stop="max_tokens")] * 3
    stage = Stage(ScriptedProvider([*cut, reply(call("look", name="a")), *cut, reply("end")]))
    finished = await stage.run()
    assert (finished.text, finished.steps) == ("xxxend", 2)


async def test_a_refusal_ends_the_turn_and_says_so() -> None:
    stage = Stage(ScriptedProvider([reply("No.", stop="refusal")]))
    finished = await stage.run()
    assert finished.reason == "refused"
    assert finished.failure is not None
    assert finished.failure.kind == "refusal"


async def test_an_unknown_stop_reason_ends_the_turn() -> None:
    stage = Stage(ScriptedProvider([reply("hm", stop="moon_phase")]))
    finished = await stage.run()
    assert (finished.reason, finished.stop) == ("completed", "moon_phase")
    assert ["moon_phase" in notice.text for notice in stage.said(Notice)] == [True]


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "authentication"), (404, "invalid_model"), (400, "invalid_request")]
)
async def test_an_error_for_good_ends_the_turn_at_once_and_the_conversation_goes_on(status: int, kind: str) -> None:
    stage = Stage(ScriptedProvider([fail(status, "no"), reply("now")]))
    finished = await stage.run()
    assert finished.reason == "api_error"
    assert finished.failure is not None
    assert (finished.failure.kind, finished.message) == (kind, "no")
    assert (await stage.run("again")).text == "now"


async def test_a_stream_that_breaks_leaves_a_tombstone_and_nothing_in_the_conversation() -> None:
    from tugline.testing import cut

    stage = Stage(ScriptedProvider([reply("half a", cut()), reply("ok")]))
    finished = await stage.run()
    assert finished.reason == "api_error"
    assert len(stage.said(Tombstone)) == 1
    assert [type(m) for m in stage.messages] == [User]


async def test_letters_join_the_next_request_in_order_of_arrival() -> None:
    provider = ScriptedProvider([reply(call("look", name="a", hold=True)), reply("ok")])
    stage = Stage(provider)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.run)
        await stage.bench.reached("a")
        stage.inbox.put(letter("first"))
        stage.inbox.put(letter("second"))
        stage.bench.gate("a").set()
    assert [texts(m) for m in stage.messages if isinstance(m, User)] == ["Go", "", "first", "second"]
    assert [texts(e.message) for e in stage.said(UserAdded)] == ["first", "second"]
    assert_valid(stage.messages)


async def test_letters_stay_when_a_limit_ends_the_turn_and_open_the_next_one() -> None:
    provider = ScriptedProvider([reply(call("look", name="a")), reply("ok")])
    stage = Stage(provider, spec=AgentSpec(max_steps=1))
    gate_ = OpenGate()
    gate_.after_context["look"] = "hooked"
    stage.gear.gate.after_context = gate_.after_context  # type: ignore[attr-defined]
    assert (await stage.run()).reason == "max_steps"
    assert len(stage.inbox) == 1
    await stage.run("next")
    assert [texts(m) for m in stage.messages if isinstance(m, User)][-2:] == [wording.reminder("hooked"), "next"]


async def test_a_stop_hook_makes_the_loop_go_on_and_is_told_so() -> None:
    seen: list[tuple[str, bool]] = []

    class Hook:
        async def on_stop(self, text: str, active: bool) -> str | None:
            seen.append((text, active))
            return None if active else "Run the tests first."

    stage = Stage(ScriptedProvider([reply("done?"), reply("done!")]), stop_hook=Hook())
    finished = await stage.run()
    assert (finished.text, seen) == ("done!", [("done?", False), ("done!", True)])
    assert texts(stage.messages[2]) == "Run the tests first."


async def test_a_stop_hook_cannot_keep_the_loop_going_for_ever() -> None:
    class Hook:
        async def on_stop(self, text: str, active: bool) -> str | None:
            return "more"

    stage = Stage(ScriptedProvider([reply("x", repeat=None)]), stop_hook=Hook())
    finished = await stage.run()
    assert (finished.reason, finished.steps) == ("completed", 9)
    assert "8 times" in stage.said(Notice)[0].text


async def test_a_hook_that_stops_keeps_the_results_and_reports_its_reason() -> None:
    open_gate = OpenGate()
    open_gate.after_stop["look"] = "enough seen"
    stage = Stage(ScriptedProvider([reply(call("look", name="a"))]), gate=open_gate)
    finished = await stage.run()
    assert (finished.reason, finished.message) == ("hook_stopped", "enough seen")
    assert [r.content for r in results(stage.messages[-1])] == ["a done"]


async def test_a_denial_that_stops_ends_the_turn_and_what_waited_is_not_run() -> None:
    script = [reply(call("change", name="a"), call("save", name="b"))]
    stage = Stage(ScriptedProvider(script), gate=OpenGate(stop=["change"]))
    finished = await stage.run()
    assert finished.reason == "denied_stopped"
    assert stage.bench.started == []
    assert [d["tool_name"] for d in finished.denials] == ["change"]
    assert [r.is_error for r in results(stage.messages[-1])] == [True, True]
    assert_valid(stage.messages)


async def test_a_denied_call_is_an_error_result_and_the_loop_goes_on() -> None:
    stage = Stage(ScriptedProvider([reply(call("change", name="a")), reply("ok")]), gate=OpenGate(deny=["change"]))
    finished = await stage.run()
    assert finished.reason == "completed"
    assert [(r.content, r.is_error) for r in results(stage.messages[2])] == [("not this", True)]


class Halver:
    """Keeps the first and the last message."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    async def before_step(self, messages: Sequence[Message], tokens: int, card: ModelCard, *, force: bool) -> Any:
        self.asked.append(force)
        if not force:
            return None
        summary = User(MessageId("summary"), (Text("Summary."),), "summary")
        return Compacted(
            id=MessageId("boundary"), messages=(summary, messages[-1]), tokens_before=tokens, tokens_after=1
        )


async def test_a_prompt_too_long_is_compacted_once_and_tried_again() -> None:
    provider = ScriptedProvider([fail(413, "prompt is too long"), reply("fits")])
    halver = Halver()
    stage = Stage(provider, compactor=halver)
    finished = await stage.run()
    assert (finished.text, halver.asked) == ("fits", [False, True, False, False])
    assert [texts(m) for m in provider.requests[1].messages] == ["Summary.", "Go"]


async def test_a_prompt_that_stays_too_long_is_a_clear_error_that_names_the_remedy() -> None:
    provider = ScriptedProvider([fail(413, "prompt is too long", repeat=2)])
    finished = await Stage(provider, compactor=Halver()).run()
    assert finished.reason == "prompt_too_long"
    # the provider counts otherwise than we do, so it is quoted
    assert "prompt is too long. Shrink it with /compact" in finished.message
    provider.check()


async def test_at_the_blocking_limit_no_request_is_made() -> None:
    card = ModelCard(name="scripted-model", window=20_000, output_limit=1_000)
    provider = ScriptedProvider([], cards=[card])
    stage = Stage(provider)
    finished = await stage.run("x" * 100_000)
    assert finished.reason == "prompt_too_long"
    assert stage.said(RequestStarted) == []
    assert provider.requests == []


async def test_an_empty_reply_ends_the_turn_and_leaves_no_empty_message() -> None:
    stage = Stage(ScriptedProvider([reply(), reply("ok")]))
    assert (await stage.run()).reason == "completed"
    assert [type(m) for m in stage.messages] == [User]
    assert [notice.text for notice in stage.said(Notice)] == ["The model ended its reply without a word."]
    assert (await stage.run()).text == "ok"


async def test_ids_that_a_provider_uses_twice_are_made_unique() -> None:
    from tugline.testing import SayCall

    same = SayCall("look", {"name": "a"}, id="call_0")
    stage = Stage(ScriptedProvider([reply(same, same), reply(same), reply("ok")]))
    await stage.run()
    ids = [b.id for m in stage.messages for b in m.content if isinstance(b, ToolUse)]
    assert len(set(ids)) == 3
    assert_valid(stage.messages)


async def test_usage_and_cost_are_summed_per_turn_and_session() -> None:
    usage = Usage(input=100, output=50, cache_read=30, cache_write=7)
    stage = Stage(ScriptedProvider([reply(call("look", name="a"), usage=usage), reply("x", usage=usage, repeat=2)]))
    first = await stage.run()
    second = await stage.run()
    assert first.spend.usage == Usage(200, 100, 60, 14)
    assert second.spend.usage == usage
    assert first.total_cost_usd == pytest.approx(0.1)
    assert second.total_cost_usd == pytest.approx(0.15)


async def test_the_size_of_the_context_is_the_last_usage_plus_what_came_after() -> None:
    usage = Usage(input=1_000, output=10)
    stage = Stage(ScriptedProvider([reply(call("long", size=4_000), usage=usage), reply("x", usage=usage)]))
    await stage.run()
    requests = stage.said(RequestStarted)
    assert 1_010 < requests[1].context_tokens < 1_010 + 5_000


async def test_an_interrupt_while_the_model_answers_keeps_what_was_said() -> None:
    provider = ScriptedProvider([reply("Half a sentence", gate("hold"), "never"), reply("ok")])
    stage = Stage(provider)
    turn = stage.turn()
    finished: list[TurnFinished] = []

    async def run() -> None:
        finished.append(await turn.run())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await provider.reached("hold")
        turn.interrupt()
    assert (finished[0].reason, finished[0].interrupted_during) == ("interrupted", "request")
    assert [texts(m) for m in stage.messages] == ["Go", "Half a sentence", wording.INTERRUPTED_REQUEST]
    assert (await stage.run("go on")).text == "ok"
    assert provider.running == 0


async def test_an_interrupt_during_tools_gives_each_call_a_result_and_says_what_ran() -> None:
    provider = ScriptedProvider(
        [reply(call("look", name="a"), call("change", name="b", hold=True), call("look", name="c"))]
    )
    stage = Stage(provider)
    turn = stage.turn()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn.run)
        await stage.bench.reached("b")
        turn.interrupt()
    (finished,) = stage.said(TurnFinished)
    assert (finished.steps, finished.api_duration > 0) == (1, True)  # the reply was whole, and paid for
    found = results(stage.messages[2])
    assert [r.content for r in found] == [
        "a done",
        wording.interrupted("change", started=True),
        wording.interrupted("look", started=False),
    ]
    assert texts(stage.messages[3]) == wording.INTERRUPTED_TOOLS
    assert stage.bench.cancelled == ["b"]
    assert_valid(stage.messages)


async def test_a_call_that_may_finish_is_not_cut_by_an_interrupt() -> None:
    stage = Stage(ScriptedProvider([reply(call("save", name="a", hold=True))]))
    turn = stage.turn()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn.run)
        await stage.bench.reached("a")
        turn.interrupt()
        await anyio.lowlevel.checkpoint()
        stage.bench.gate("a").set()
    assert [r.content for r in results(stage.messages[2])] == ["a done"]
    assert (stage.bench.ended, stage.bench.cancelled) == (["a"], [])


class SlowHook(OpenGate):
    """After each call it takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = anyio.Event()

    async def after(self, call: CallId, passed: Passed, result: Result, duration: float) -> HookAfter:
        self.begun.set()
        await anyio.sleep_forever()
        return HookAfter()


async def test_what_a_tool_has_done_stands_when_the_hooks_after_it_are_interrupted() -> None:
    @tool(footprint="changes")
    async def move() -> Result:
        """Moves."""
        return Result("moved", changes=(Cwd("/elsewhere"),))

    hook = SlowHook()
    stage = Stage(ScriptedProvider([reply(call("move"))]), tools=[move], gate=hook)
    turn = stage.turn()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn.run)
        await hook.begun.wait()
        turn.interrupt()
    assert [(r.content, r.is_error) for r in results(stage.messages[2])] == [("moved", False)]
    assert stage.gear.state.now.cwd == "/elsewhere"


class CancellingHook(OpenGate):
    """Before each call it cancels the task that it runs in."""

    async def check(
        self, call: CallId, tool: Tool, data: Any, given: dict[str, Any], state: AgentState
    ) -> Passed | Refused:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return await super().check(call, tool, data, given, state)


async def test_a_hook_that_cancels_the_task_of_a_call_leaves_a_conversation_that_can_go_on() -> None:
    stage = Stage(ScriptedProvider([reply(call("look", name="a")), reply("ok")]), gate=CancellingHook())
    turn = stage.turn()
    with pytest.raises(RuntimeError, match="the task of a call was cancelled") as caught:
        await turn.run()
    assert turn.crash(caught.value).reason == "failed"
    assert_valid(stage.messages)
    assert (await stage.run("go on")).text == "ok"


async def test_the_model_is_resolved_anew_for_each_request_and_a_change_is_told() -> None:
    provider = ScriptedProvider([reply(call("long", size=4_000)), reply("ok")])
    stage = Stage(provider, model="team")
    stage.agent.resolve = lambda name, tokens: f"{name}-large" if tokens > 500 else name
    await stage.run()
    assert [request.model for request in provider.requests] == ["team", "team-large"]
    assert [(e.before, e.after) for e in stage.said(ModelChanged)] == [("team", "team-large")]


async def test_a_fallback_serves_until_the_turn_ends_and_no_longer() -> None:
    overloaded = fail(529, "Overloaded", when=Match(model="chosen"), repeat=1)
    provider = ScriptedProvider([overloaded, reply(call("look", name="a")), reply("ok"), reply("next")])
    stage = Stage(Fallback(provider, "spare"), model="chosen")
    assert (await stage.run()).text == "ok"
    assert (await stage.run()).text == "next"
    assert [request.model for request in provider.requests] == ["chosen", "spare", "spare", "chosen"]
    assert len(stage.said(ModelChanged)) == 1


async def test_every_turn_has_a_chain_of_its_own() -> None:
    stage = Stage(ScriptedProvider([reply("a"), reply("b")]))
    await stage.run()
    await stage.run()
    assert [e.origin.chain for e in stage.said(TurnFinished)] == ["chain1", "chain2"]


async def test_a_call_that_was_cut_off_is_dropped_and_the_reply_continued() -> None:
    cut_call = raw_call("change", '{"name": "a')
    provider = ScriptedProvider([reply("I write. ", cut_call, stop="max_tokens"), reply("done")])
    stage = Stage(provider)
    finished = await stage.run()
    assert (finished.text, finished.steps) == ("I write. done", 1)
    assert [type(block) for block in stage.messages[1].content] == [Text]
    assert texts(stage.messages[2]) == wording.CONTINUE_CUT
    assert_valid(stage.messages)


async def test_whole_calls_before_one_that_was_cut_off_are_run() -> None:
    script = [reply(call("look", name="a"), raw_call("change", '{"name": '), stop="max_tokens"), reply("done")]
    stage = Stage(ScriptedProvider(script))
    await stage.run()
    assert [r.content for r in results(stage.messages[2])] == ["a done"]
    assert_valid(stage.messages)
