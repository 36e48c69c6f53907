"""The gate: rules, hooks, mode, a question, in that order; what was judged and shown is what runs."""

from collections.abc import Callable
from typing import Any

import anyio
import msgspec
import pytest
from stage import NoHooks, Stage, results

from tugline.loop.gate import Gate
from tugline.ports import HookAfter, HookVerdict
from tugline.protocol.events import Event, PermissionAsked, PermissionDecided, QuestionClosed
from tugline.protocol.ids import CallId
from tugline.protocol.permissions import Allow, Deny, PermissionAnswer, PermissionQuestion, PermissionUpdate
from tugline.protocol.specs import Result
from tugline.rules.permission import Policy, Query
from tugline.rules.rule import parse_rule
from tugline.runtime.questions import Questions
from tugline.runtime.standing import Standing
from tugline.testing import ScriptedProvider, call, reply

Respond = Callable[[PermissionQuestion], PermissionAnswer]


class Hooks(NoHooks):
    """Hooks that say what a test tells them to."""

    def __init__(
        self,
        verdict: HookVerdict | None = None,
        after: HookAfter | None = None,
        answer: PermissionAnswer | None = None,
    ) -> None:
        self.verdict = verdict or HookVerdict()
        self.said_after = after or HookAfter()
        self.answer = answer
        self.before_calls: list[str] = []
        self.heard: list[str] = []

    async def before(self, call: CallId, query: Query) -> HookVerdict:
        self.before_calls.append(query.tool)
        return self.verdict

    async def respond(self, question: PermissionQuestion, query: Query) -> PermissionAnswer | None:
        return self.answer

    async def denied(self, call: CallId, query: Query, reason: str) -> tuple[str, ...]:
        self.heard.append(reason)
        return ()

    async def after(self, call: CallId, query: Query, result: Result, duration: float) -> HookAfter:
        return self.said_after


def guarded(
    *calls: Any,
    answer: Respond | None = None,
    hooks: Hooks | None = None,
    allow: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    mode: Any = "default",
    attended: bool = False,
    depth: int = 0,
) -> tuple[Stage, Standing]:
    stage = Stage(ScriptedProvider([reply(*calls), reply("ok")]))
    stage.voice.origin = msgspec.structs.replace(stage.voice.origin, depth=depth)
    policy = Policy(
        mode=mode,
        allow=tuple(parse_rule(rule, "allow", "test") for rule in allow),
        ask=tuple(parse_rule(rule, "ask", "test") for rule in ask),
        deny=tuple(parse_rule(rule, "deny", "test") for rule in deny),
    )
    standing = Standing(policy, lambda path, cwd: (path, path))
    questions = Questions(stage.voice, stage.ids, attended=attended or answer is not None)

    def hear(event: Event) -> None:
        if isinstance(event, PermissionAsked) and answer is not None:
            questions.answer(event.question.id, answer(event.question))

    stage.bus.attach(hear)
    gate = Gate(standing, questions, stage.voice, hooks)
    gear = msgspec.structs.replace(stage.gear, gate=gate)
    stage.gear = stage.agent.gear = gear
    return stage, standing


def contents(stage: Stage) -> list[str]:
    return [str(result.content) for result in results(stage.messages[2])]


async def test_a_call_that_changes_is_asked_about_and_runs_after_a_yes() -> None:
    stage, _ = guarded(call("change", name="a"), answer=lambda _: Allow())
    await stage.run()
    assert [q.question.input for q in stage.said(PermissionAsked)] == [{"name": "a"}]
    assert [c.outcome for c in stage.said(QuestionClosed)] == ["answered"]
    assert stage.bench.ended == ["a"]


async def test_a_no_with_words_reaches_the_model() -> None:
    stage, _ = guarded(call("change", name="a"), answer=lambda _: Deny("use the other file"))
    await stage.run()
    assert "use the other file" in contents(stage)[0]
    assert stage.bench.started == []


async def test_a_no_that_stops_ends_the_turn() -> None:
    stage, _ = guarded(call("change", name="a"), call("change", name="b"), answer=lambda _: Deny("stop it", stop=True))
    finished = await stage.run()
    assert (finished.reason, finished.message) == ("denied_stopped", "stop it")
    assert len(stage.said(PermissionAsked)) == 1


async def test_with_nobody_to_ask_the_call_is_denied_with_the_reason() -> None:
    stage, _ = guarded(call("change", name="a"))
    finished = await stage.run()
    assert "nobody can be asked" in contents(stage)[0]
    assert len(finished.denials) == 1


async def test_an_answer_for_the_session_settles_the_next_question_too() -> None:
    stage, standing = guarded(
        call("change", name="a"),
        call("change", name="b"),
        answer=lambda q: Allow(remember="session", rules=("change",)),
    )
    await stage.run()
    assert len(stage.said(PermissionAsked)) == 1
    assert stage.bench.ended == ["a", "b"]
    assert [rule.text for rule in standing.policy.allow] == ["change"]


async def test_an_answer_that_forbids_more_settles_the_next_question_with_a_no() -> None:
    forbid = PermissionUpdate("addRules", rules=("change",), behavior="deny")
    stage, _ = guarded(
        call("change", name="a"),
        call("save", name="b"),
        call("change", name="c"),
        answer=lambda q: Allow(updates=(forbid,)) if q.tool == "save" else Allow(),
    )
    await stage.run()
    assert [asked.question.tool for asked in stage.said(PermissionAsked)] == ["change", "save"]
    assert stage.bench.ended == ["a", "b"]


@pytest.mark.parametrize(("depth", "asked"), [(0, 1), (1, 0)])
async def test_a_person_is_bothered_for_an_agent_in_the_background_only_where_hooks_have_no_answer(
    depth: int, asked: int
) -> None:
    hooks = Hooks(answer=Deny("not at night"))
    stage, _ = guarded(call("change", name="a"), hooks=hooks, attended=True, depth=depth)
    await stage.run()
    assert (len(stage.said(PermissionAsked)), stage.bench.started) == (asked, [])
    assert "a hook: not at night" in contents(stage)[0]
    stage, _ = guarded(call("change", name="a"), hooks=Hooks(), answer=lambda _: Allow(), depth=depth)
    await stage.run()
    assert (len(stage.said(PermissionAsked)), stage.bench.ended) == (1, ["a"])


@pytest.mark.parametrize("answer", [Deny(), Deny("no"), None])
async def test_hooks_hear_of_denials_but_not_of_their_own_nor_of_a_persons(answer: Deny | None) -> None:
    hooks = Hooks()
    stage, _ = guarded(call("change", name="a"), hooks=hooks, answer=None if answer is None else lambda _: answer)
    await stage.run()
    assert len(hooks.heard) == (answer is None)
    hooks = Hooks(answer=answer)
    stage, _ = guarded(call("change", name="a"), hooks=hooks)
    await stage.run()
    assert len(hooks.heard) == (answer is None)


async def test_an_input_that_the_person_changed_is_what_runs_and_what_is_told() -> None:
    stage, _ = guarded(call("change", name="a"), answer=lambda _: Allow(input={"name": "z"}))
    await stage.run()
    assert stage.bench.started == ["z"]
    assert [d.input for d in stage.said(PermissionDecided)] == [{"name": "z"}]


async def test_an_input_that_the_person_spoiled_is_not_run() -> None:
    stage, _ = guarded(call("change", name="a"), answer=lambda _: Allow(input={"nme": "z"}))
    await stage.run()
    assert stage.bench.started == []
    assert "the user changed it" in contents(stage)[0]


async def test_words_with_a_yes_reach_the_model_in_its_next_request() -> None:
    stage, _ = guarded(call("change", name="a"), answer=lambda _: Allow(words="only this once"))
    await stage.run()
    assert "only this once" in str(stage.messages[3])


async def test_deny_rules_stand_above_hooks_that_allow_and_such_calls_reach_no_hook() -> None:
    hooks = Hooks(HookVerdict("allow"))
    stage, _ = guarded(call("change", name="a"), hooks=hooks, deny=("change",))
    await stage.run()
    assert (stage.bench.started, hooks.before_calls) == ([], [])


async def test_a_hook_that_allows_skips_the_question_but_not_an_ask_rule() -> None:
    stage, _ = guarded(call("change", name="a"), hooks=Hooks(HookVerdict("allow")))
    await stage.run()
    assert stage.bench.ended == ["a"]
    stage, _ = guarded(call("change", name="a"), hooks=Hooks(HookVerdict("allow")), ask=("change",))
    await stage.run()
    assert stage.bench.started == []


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
async def test_a_hook_that_denies_stands_in_every_mode(mode: str) -> None:
    stage, _ = guarded(call("look", name="a"), hooks=Hooks(HookVerdict("deny", "no looking")), mode=mode)
    await stage.run()
    assert "no looking" in contents(stage)[0]


async def test_a_hook_that_asks_makes_a_reading_call_a_question() -> None:
    stage, _ = guarded(call("look", name="a"), hooks=Hooks(HookVerdict("ask")), answer=lambda _: Allow())
    await stage.run()
    assert len(stage.said(PermissionAsked)) == 1


async def test_an_input_that_a_hook_changed_is_judged_again() -> None:
    hooks = Hooks(HookVerdict("allow", input={"name": "hooked"}, context=("mind the gap",)))
    stage, _ = guarded(call("change", name="a"), hooks=hooks)
    await stage.run()
    assert stage.bench.started == ["hooked"]
    assert "mind the gap" in str(stage.messages[3])


async def test_a_hook_that_stops_ends_the_turn_with_its_reason() -> None:
    stage, _ = guarded(call("look", name="a"), hooks=Hooks(HookVerdict(stop="budget review")))
    finished = await stage.run()
    assert (finished.reason, finished.message) == ("hook_stopped", "budget review")


async def test_an_interrupt_withdraws_the_open_question() -> None:
    stage, _ = guarded(call("change", name="a"), attended=True)
    turn = stage.turn()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(turn.run)
        while not stage.said(PermissionAsked):
            await anyio.lowlevel.checkpoint()
        turn.interrupt()
    assert [c.outcome for c in stage.said(QuestionClosed)] == ["withdrawn"]
    assert stage.bench.started == []
