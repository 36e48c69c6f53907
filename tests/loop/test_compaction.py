"""Compaction by itself: cheapest ways first, never over and over, and the turn goes on."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import anyio
import pytest
from conversations import PNG, user
from stage import Stage, assert_valid, texts

from tugline.loop.compaction import STOPPED, Compaction
from tugline.ports import CompactionVerdict
from tugline.protocol.blocks import ToolResult
from tugline.protocol.errors import SessionError
from tugline.protocol.events import (
    CompactionFinished,
    CompactionStarted,
    Notice,
    RequestStarted,
    RetryWaiting,
    UsageReported,
)
from tugline.protocol.messages import Message
from tugline.protocol.records import Compacted, Folded, Trimmed
from tugline.protocol.script import Match, Part, Step
from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Usage
from tugline.providers.retry import NetworkSettings, Retry
from tugline.rules import shrinking, summary
from tugline.rules.history import fold
from tugline.rules.shrinking import Limits
from tugline.testing import ScriptedProvider, call, cut, fail, gate, reply
from tugline.tools.define import tool

CARD = ModelCard(name="scripted-model", window=40_000, output_limit=4_000)
LIMIT = shrinking.threshold(CARD, Limits())
SUMMARY = "<summary>\n## Goal\nTo look at many things, one after the other, until all are seen.\n</summary>"
PLAIN = Limits(trim=False, fold=False)


@tool(footprint="reads")
async def look(name: str, size: int = 0) -> str:
    """Looks."""
    return f"{name}: " + "words of little weight " * (size // 23)


@tool(footprint="reads")
async def once(name: str, size: int = 0) -> str:
    """Looks at what cannot be seen twice."""
    return f"{name}: " + "words of little weight " * (size // 23)


def summarised(*parts: Part | str, **options: Any) -> Step:
    """The answer to a request for a summary."""
    return reply(*(parts or (SUMMARY,)), when=Match(purpose="compaction"), **options)


def stage_of(script: Sequence[Step], limits: Limits = PLAIN, **options: Any) -> Stage:
    stage = Stage(ScriptedProvider(script, cards=[CARD]), tools=[look, once], **options)
    stage.agent.compactor = Compaction(stage.agent, limits, rerunnable={"look"})
    return stage


def looks(count: int, size: int = 20_000, tool: str = "look") -> list[Step]:
    return [reply(f"Step {n}.", call(tool, name=f"thing{n}", size=size)) for n in range(count)]


def purposes(stage: Stage) -> list[str]:
    provider = stage.provider
    assert isinstance(provider, ScriptedProvider)
    return [request.purpose for request in provider.requests]


def finished(stage: Stage) -> list[CompactionFinished]:
    return stage.said(CompactionFinished)


def as_recorded(stage: Stage) -> tuple[Message, ...]:
    """What a resumed session would show the model."""
    return fold(stage.log.read(whole=True)).messages


async def test_past_the_threshold_the_history_is_summarised_and_the_turn_goes_on_by_itself() -> None:
    stage = stage_of([*looks(8), reply("All seen."), summarised()])
    ended = await stage.run("Look at everything")
    assert (ended.reason, ended.text) == ("completed", "All seen.")
    assert purposes(stage).count("compaction") == 1
    (done,) = finished(stage)
    assert (done.trigger, done.how, done.failure) == ("auto", "summary", "")
    assert done.tokens_before >= LIMIT
    assert done.tokens_after <= done.tokens_before * 0.8
    words = [texts(message) for message in stage.messages]
    assert "until all are seen" in words[0]
    assert "Look at everything" in words
    assert any("Go on with the next step" in text for text in words)
    assert_valid(stage.messages)
    assert as_recorded(stage) == tuple(stage.messages)


async def test_the_request_for_a_summary_is_the_next_step_with_another_end() -> None:
    stage = stage_of([*looks(6), reply("All seen."), summarised()])
    await stage.run()
    assert isinstance(stage.provider, ScriptedProvider)
    requests = stage.provider.requests
    at = purposes(stage).index("compaction")
    before, asked = requests[at - 1], requests[at]
    assert asked.messages[: len(before.messages)] == before.messages
    assert (asked.system, asked.tools, asked.thinking_tokens) == (before.system, before.tools, before.thinking_tokens)
    assert "Do not call any tool" in asked.tail


async def test_what_a_summary_costs_is_booked_for_its_purpose() -> None:
    stage = stage_of([*looks(6), reply("All seen."), summarised(usage=Usage(input=7, output=500))])
    ended = await stage.run()
    (report,) = [report for report in stage.said(UsageReported) if report.purpose == "compaction"]
    assert report.cost_usd == pytest.approx(0.5)
    assert ended.spend.cost_usd >= 0.5


async def test_calls_in_the_answer_are_not_run() -> None:
    stage = stage_of([*looks(6), reply("All seen."), summarised(SUMMARY, call("look", name="never"))])
    ended = await stage.run()
    assert ended.reason == "completed"
    assert finished(stage)[0].failure == ""
    assert all("never" not in str(block) for message in stage.messages for block in message.content)


async def test_an_answer_without_a_summary_leaves_the_history_as_it_was() -> None:
    stage = stage_of([*looks(6), reply("All seen."), summarised(call("look", name="never"), repeat=None)])
    ended = await stage.run()
    assert ended.reason == "completed"
    assert "no summary" in finished(stage)[0].failure
    assert not [record for record in stage.log.records if isinstance(record, Compacted)]
    assert_valid(stage.messages)


async def test_a_summary_that_frees_too_little_is_not_repeated_in_the_next_step() -> None:
    huge = f"<summary>{'Every word of it. ' * 8_000}</summary>"
    stage = stage_of([*looks(6), *looks(3, 100), reply("All seen."), summarised(huge, repeat=None)])
    ended = await stage.run()
    assert ended.reason == "completed"
    assert [event.failure[:25] for event in finished(stage)] == ["it would free too little "]
    assert purposes(stage).count("compaction") == 1


async def test_after_three_failures_the_person_is_told_once_and_the_oldest_rounds_are_cut() -> None:
    grown = [*looks(5), *looks(30, 2_000)]
    stage = stage_of([*grown, reply("All seen."), fail(400, "no", when=Match(purpose="compaction"), repeat=None)])
    ended = await stage.run("Look on")
    assert ended.reason == "completed"
    assert purposes(stage).count("compaction") == 3
    assert [notice.text for notice in stage.said(Notice)] == [STOPPED]
    cuts = [event for event in finished(stage) if event.how == "snip"]
    assert cuts
    assert all(cut.tokens_after <= cut.tokens_before * 0.8 for cut in cuts)
    assert "were cut out here" in texts(stage.messages[0])
    assert "Look on" in [texts(message) for message in stage.messages]
    assert_valid(stage.messages)
    assert as_recorded(stage) == tuple(stage.messages)


async def test_a_prompt_too_long_for_the_provider_is_compacted_once_without_its_oldest_rounds() -> None:
    stage = stage_of([*looks(3), fail(413, "prompt is too long"), reply("fits"), summarised()])
    ended = await stage.run()
    assert ended.text == "fits"
    (done,) = finished(stage)
    assert (done.trigger, done.how) == ("forced", "summary")


async def test_a_provider_that_always_finds_it_too_long_is_asked_a_bounded_number_of_times() -> None:
    stage = stage_of([*looks(3), fail(413, "prompt is too long", repeat=None)])
    ended = await stage.run()
    assert ended.reason == "prompt_too_long"
    again = await stage.run("Again")
    assert again.reason == "prompt_too_long"
    assert len(purposes(stage)) < 30


async def test_a_summary_request_that_is_too_long_drops_its_oldest_rounds() -> None:
    too_long = fail(413, "prompt is too long", when=Match(purpose="compaction"), repeat=2)
    stage = stage_of([*looks(6), reply("All seen."), too_long, summarised()])
    assert (await stage.run()).reason == "completed"
    assert isinstance(stage.provider, ScriptedProvider)
    asked = [len(request.messages) for request in stage.provider.requests if request.purpose == "compaction"]
    assert len(asked) == 3
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] < asked[0]
    assert finished(stage)[0].failure == ""


async def test_an_interrupt_during_a_summary_leaves_the_history_usable() -> None:
    stage = stage_of([*looks(6), summarised("<summary>", gate("middle"), "x"), reply("Seen.")])
    async with anyio.create_task_group() as tasks:
        turn = stage.turn()
        tasks.start_soon(turn.run)
        assert isinstance(stage.provider, ScriptedProvider)
        await stage.provider.reached("middle")
        before = list(stage.messages)
        turn.interrupt()
    assert stage.messages[: len(before)] == before
    assert len(stage.said(CompactionStarted)) == 1
    assert [event.failure for event in finished(stage)] == ["It was interrupted."]
    assert_valid(stage.messages)


async def test_old_results_give_way_to_a_line_rarely_and_are_kept_in_files() -> None:
    stage = stage_of([*looks(40, 6_000), reply("All seen.")], Limits(fold=False, keep_results=3))
    assert (await stage.run()).reason == "completed"
    trims = [record for record in stage.log.records if isinstance(record, Trimmed)]
    assert 1 < len(trims) < 10
    assert [event.how for event in finished(stage)] == ["trim"] * len(trims)
    assert all(trim.freed >= LIMIT // 8 for trim in trims)
    results = [b for m in stage.messages for b in m.content if isinstance(b, ToolResult)]
    assert "Old result left out" in str(results[0].content)
    assert stage.spill.texts["spill/" + results[0].tool_use_id + ".txt"].startswith("thing0: words")
    assert f"spill/{results[0].tool_use_id}.txt" in str(results[0].content)
    assert all("words of little" in str(result.content) for result in results[-3:])
    assert "compaction" not in purposes(stage)
    assert as_recorded(stage) == tuple(stage.messages)


async def test_results_of_calls_that_cannot_be_made_again_stay() -> None:
    stage = stage_of([*looks(6, 6_000, "once"), reply("Seen.")], Limits(fold=False, keep_results=0))
    await stage.run()
    assert not finished(stage)


async def test_finished_work_is_folded_to_its_answer_before_a_summary_is_needed() -> None:
    turns = [[*looks(2, 16_000, "once"), reply(f"Answer {n}.")] for n in range(5)]
    stage = stage_of([step for turn in turns for step in turn], Limits(trim=False))
    for number in range(5):
        assert (await stage.run(f"Question {number}")).text == f"Answer {number}."
    folds = [record for record in stage.log.records if isinstance(record, Folded)]
    assert folds
    assert "compaction" not in purposes(stage)
    words = [texts(message) for message in stage.messages]
    assert words[0] == "Question 0"
    assert "folded here to make room: 2 steps" in words[1]
    assert "once thing0" not in words[0]
    assert words[2] == "Answer 0."
    assert [w for w in words if w.startswith("Question")] == [f"Question {n}" for n in range(5)]
    assert words[-2:] == ["", "Answer 4."]  # the work that led to the last answer stays
    assert_valid(stage.messages)
    assert as_recorded(stage) == tuple(stage.messages)


async def test_while_nothing_shrinks_each_request_only_adds_to_the_one_before() -> None:
    stage = stage_of([*looks(60, 4_000), reply("All seen."), summarised(repeat=None)], Limits(keep_results=2))
    await stage.run()
    assert isinstance(stage.provider, ScriptedProvider)
    requests = [request for request in stage.provider.requests if request.purpose == "main"]
    changes = sum(b.messages[: len(a.messages)] != a.messages for a, b in pairwise(requests))
    told = [event for event in stage.events if isinstance(event, CompactionFinished | RequestStarted)]
    groups = sum(isinstance(a, RequestStarted) and isinstance(b, CompactionFinished) for a, b in pairwise(told))
    assert changes == groups
    assert changes < 12


class Hooks:
    """Says what it is told to, and remembers what it heard."""

    def __init__(self, block: str | None = None) -> None:
        self.block = block
        self.heard: list[Any] = []

    async def before_compaction(self, trigger: str, words: str) -> CompactionVerdict:
        self.heard.append(("before", trigger, words))
        return CompactionVerdict(("Mind the numbers.",), self.block)

    async def additions(self) -> tuple[str, ...]:
        return ("The hook adds this.",)

    async def after_compaction(self, trigger: str, summary: str) -> None:
        self.heard.append(("after", trigger, summary))


async def test_hooks_instruct_the_summary_add_to_what_is_left_and_hear_of_it() -> None:
    stage = stage_of([*looks(6), reply("All seen."), summarised()])
    hooks = stage.agent.compaction_hooks = Hooks()
    await stage.run()
    assert isinstance(stage.provider, ScriptedProvider)
    asked = stage.provider.requests[purposes(stage).index("compaction")]
    assert "Mind the numbers." in asked.tail
    assert any("The hook adds this." in texts(message) for message in stage.messages)
    assert [heard[:2] for heard in hooks.heard] == [("before", "auto"), ("after", "auto")]
    assert hooks.heard[1][2].startswith("## Goal")


async def test_a_hook_may_forbid_it_which_is_no_failure() -> None:
    stage = stage_of([*looks(6), *looks(6, 100), reply("All seen.")])
    hooks = stage.agent.compaction_hooks = Hooks(block="not today")
    assert (await stage.run()).reason == "completed"
    assert "compaction" not in purposes(stage)
    assert [notice.text for notice in stage.said(Notice)] == ["A hook forbids to compact the conversation: not today"]
    assert len(hooks.heard) == 1


async def test_switched_off_nothing_happens_by_itself() -> None:
    stage = stage_of([*looks(8), reply("never")], Limits(auto=False))
    assert (await stage.run()).reason == "prompt_too_long"
    assert not finished(stage)


async def test_a_huge_last_round_loses_results_that_can_be_had_again_rather_than_the_session() -> None:
    wide = [call("look", name=f"n{n}", size=29_000) for n in range(6)]
    stage = stage_of([reply("All at once.", *wide), reply("Then singly."), summarised(repeat=None)])
    ended = await stage.run("Go")
    assert (ended.reason, ended.text) == ("completed", "Then singly.")


async def test_what_a_step_costs_does_not_grow_with_the_history() -> None:
    class Counted(list[Message]):
        looked = 0

        def __getitem__(self, index: Any) -> Any:
            found = super().__getitem__(index)
            Counted.looked += len(found) if isinstance(index, slice) else 1
            return found

        def __iter__(self) -> Any:
            raise AssertionError("the whole history was walked through")

    stage = stage_of([])
    compactor = stage.agent.compactor
    assert compactor is not None
    card = ModelCard(name="m", window=10_000_000)
    counted = Counted()
    counted.extend([])
    scripted = stage_of([*looks(100, 500), reply("x")], Limits(auto=False))
    scripted.agent.compactor = None
    scripted.provider._cards = {"scripted-model": card}  # type: ignore[attr-defined]
    await scripted.run()
    for message in list(scripted.messages):
        counted.append(message)
        assert await compactor.before_step(counted, 10, card, force=False) is None
    assert Counted.looked == len(scripted.messages)


async def test_by_hand_nothing_to_do_is_said_and_costs_nothing() -> None:
    stage = stage_of([*looks(2), reply("Seen."), summarised()])
    compaction = stage.agent.compactor
    assert isinstance(compaction, Compaction)
    with pytest.raises(SessionError, match="nothing to compact"):
        await compaction.compact()
    await stage.run()
    await stage.agent.shrink(await compaction.compact("the numbers"))
    with pytest.raises(SessionError, match="nothing to compact"):
        await compaction.compact()
    with pytest.raises(SessionError, match="nothing to cut"):
        await compaction.snip()
    assert purposes(stage).count("compaction") == 1
    (record,) = [record for record in stage.log.records if isinstance(record, Compacted)]
    assert (record.trigger, record.words, record.standing is not None) == ("manual", "the numbers", True)
    assert record.standing is not None
    assert record.standing.compactions == 1


async def test_the_persons_words_go_through_many_compactions_word_for_word() -> None:
    steps = [step for n in range(6) for step in (*looks(2), reply(f"Answer {n}."))]
    stage = stage_of([*steps, summarised(repeat=None)])
    compaction = stage.agent.compactor
    assert isinstance(compaction, Compaction)
    for number in range(6):
        await stage.run(f"Word for word: question {number} — exactly.")
        await stage.agent.shrink(await compaction.compact())
    words = [texts(message) for message in stage.messages if summary.is_spoken(message)]
    assert words == [f"Word for word: question {n} — exactly." for n in range(6)]


async def test_a_person_who_says_much_keeps_the_newest_words_and_a_reference_to_the_rest() -> None:
    stage = stage_of([reply("One."), reply("Two."), reply("Three."), summarised()], Limits(words_tokens=100))
    compaction = stage.agent.compactor
    assert isinstance(compaction, Compaction)
    for words in ("first " * 3_000, "second " * 20, "third"):
        await stage.run(words)
    await stage.agent.shrink(await compaction.compact())
    said = [texts(message).strip() for message in stage.messages if summary.is_spoken(message)]
    assert said == [("second " * 20).strip(), "third"]
    assert any("The oldest 1 are not among them; they stand in spill/" in texts(m) for m in stage.messages)
    assert any("first first" in text for text in stage.spill.texts.values())


def test_pictures_and_attached_files_are_no_words_of_the_person() -> None:
    message = user("m", "Look at @a.txt", '<file path="a.txt">\nlong\n</file>', PNG)
    assert summary.spoken_text(message) == "Look at @a.txt\n[1 picture or document left out]"


async def test_each_wait_for_a_summary_is_told_and_what_broke_off_is_paid_for() -> None:
    asked = Match(purpose="compaction")
    broken = reply("<summary>", cut(), when=asked, usage=Usage(input=100, output=1))
    scripted = ScriptedProvider([*looks(6), reply("All seen."), broken, summarised()], cards=[CARD])
    stage = Stage(Retry(scripted, NetworkSettings(retry_base=0.0)), tools=[look, once])
    stage.agent.compactor = Compaction(stage.agent, PLAIN, rerunnable={"look"})
    assert (await stage.run()).reason == "completed"
    assert len(stage.said(RetryWaiting)) == 1
    assert [event.failure for event in finished(stage)] == [""]
    booked = [event for event in stage.said(UsageReported) if event.purpose == "compaction"]
    assert len(booked) == 2
