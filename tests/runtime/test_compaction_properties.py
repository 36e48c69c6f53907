"""Whatever a session goes through, with compactions, cuts, undoing, rewinding and resuming in any order: what is sent
is valid, what was said by the person is there word for word, and the transcript says the same as the memory."""

from types import SimpleNamespace
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from stage import Stage, assert_valid, texts

from tugline.loop.compaction import Compaction
from tugline.loop.turn import Turn
from tugline.protocol.blocks import Text, ToolResult, ToolUse
from tugline.protocol.errors import SessionError
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.records import AnyRecord, Compacted
from tugline.protocol.script import Match, Step
from tugline.protocol.specs import ModelCard
from tugline.rules.compactions import compactions
from tugline.rules.history import fold, spoken
from tugline.rules.shrinking import Limits
from tugline.runtime.past import Past
from tugline.runtime.shortening import Shortening
from tugline.stores.memory import MemoryLog
from tugline.testing import ScriptedProvider, call, fail, reply
from tugline.tools.define import tool

CARD = ModelCard(name="scripted-model", window=20_000, output_limit=2_000)
SUMMARY = "<summary>\n## Goal\nWhat was asked for, and what has come of it so far, in a few words.\n</summary>"


@tool(footprint="reads")
async def look(size: int) -> str:
    """Looks."""
    return "words of little weight " * (size // 23)


calls = st.lists(st.sampled_from([0, 500, 3_000, 12_000]), min_size=1, max_size=3)
turns = st.tuples(st.just("turn"), st.lists(calls, max_size=4), st.sampled_from(["", "413", "500"]))
others = st.sampled_from([("compact",), ("snip",), ("uncompact",), ("resume",), ("there and back",)])
rewinds = st.tuples(st.just("rewind"), st.integers(0, 5))
stories = st.lists(turns | turns | others | rewinds, min_size=2, max_size=9)


class Play:
    """A session that goes through a story."""

    def __init__(self, story: list[Any], limits: Limits) -> None:
        script: list[Step] = []
        for number, act in enumerate(story):
            if act[0] in ("turn", "there and back"):
                for sizes in act[1] if len(act) > 1 else ():
                    script.append(reply("I look.", *(call("look", size=size) for size in sizes)))
                if act[0] == "turn" and act[2] == "413":
                    script.append(fail(413, "prompt is too long"))
                script.append(reply(f"Answer {number}."))
        broken = any(act[0] == "turn" and act[2] == "500" for act in story)
        asked = Match(purpose="compaction")
        if broken:
            script.append(fail(400, "no", when=asked, repeat=2))
        self.provider = ScriptedProvider([*script, reply(SUMMARY, when=asked, repeat=None)], cards=[CARD])
        self.limits = limits
        self.log = MemoryLog()
        self.prompts = 0
        self.stage = self._open(None)

    def _open(self, before: Stage | None) -> Stage:
        stage = Stage(self.provider, tools=[look], log=self.log, workspace=SimpleNamespace(roots=()))
        if before is not None:
            stage.agent.ids = before.agent.ids
            stage.transcript.restore(fold(self.log.read()))
        compaction = stage.agent.compactor = Compaction(stage.agent, self.limits, rerunnable={"look"})
        self.past = Past(stage.gear, self.log, "/")
        self.shortening = Shortening(stage.agent, compaction, self.past)
        return stage

    async def go(self, act: Any) -> None:
        match act:
            case ("turn", _, _):
                await self._prompt()
            case ("resume",):
                before = list(self.stage.messages)
                self.stage = self._open(self.stage)
                assert self.stage.messages == before
            case ("rewind", number):
                prompts = await self.past.prompts()
                if prompts:
                    await self.past.rewind(prompts[number % len(prompts)].id)
            case ("there and back",):
                await self._there_and_back()
            case (name,):
                try:
                    await getattr(self.shortening, name)()
                except SessionError:
                    pass

    async def _prompt(self) -> None:
        self.prompts += 1
        words = User(self.stage.agent.ids.message(), (Text(f"Prompt {self.prompts}, word for word."),))
        await Turn(self.stage.agent, words).run()

    async def _there_and_back(self) -> None:
        before = list(self.stage.messages)
        try:
            await self.shortening.compact()
        except SessionError:
            assert self.stage.messages == before
            await self._prompt()
            return
        made = len(self.stage.messages)
        boundaries = sum(isinstance(record, Compacted) for record in self.log.records)
        await self._prompt()
        if sum(isinstance(record, Compacted) for record in self.log.records) > boundaries:
            return
        said = self.stage.messages[made:]
        await self.shortening.uncompact()
        assert self.stage.messages == [*before, *said]

    def check(self) -> None:
        messages, records = self.stage.messages, self.log.records
        assert_valid(messages)
        assert list(fold(records).messages) == messages
        said = {texts(message) for message in messages if isinstance(message, User)}
        assert {words.text for words in spoken(records)} <= said
        check_pairs(records, messages)


def check_pairs(records: list[AnyRecord], messages: list[Message]) -> None:
    """No boundary parts a call from its result."""
    for record in records:
        if isinstance(record, Compacted):
            uses = [b.id for m in record.messages if isinstance(m, Assistant) for b in m.content
                    if isinstance(b, ToolUse)]  # fmt: skip
            results = [b.tool_use_id for m in record.messages for b in m.content if isinstance(b, ToolResult)]
            assert uses == results
            assert record.tokens_after <= record.tokens_before * 0.8
    listed = compactions(records)
    assert [one.id for one in listed] == [record.id for record in records if isinstance(record, Compacted)]
    assert all(one.summary for one in listed)


@given(
    story=stories,
    limits=st.builds(
        Limits, auto=st.sampled_from([True, True, False]), trim=st.booleans(), fold=st.booleans(),
        keep_results=st.integers(0, 4),
    ),
)  # fmt: skip
@settings(deadline=None)
def test_a_session_stays_whole(story: list[Any], limits: Limits) -> None:
    async def play() -> None:
        one = Play(story, limits)
        for act in story:
            await one.go(act)
            one.check()
        assert [problem for problem in one.provider.problems if "no step" not in problem] == []

    anyio.run(play)
