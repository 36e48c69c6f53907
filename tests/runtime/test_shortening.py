"""Bringing back what was compacted or folded, and leaving it alone afterwards."""

from types import SimpleNamespace

import pytest
from stage import Stage, texts

from tugline.loop.compaction import Compaction
from tugline.protocol.errors import SessionError
from tugline.protocol.events import CompactionFinished
from tugline.protocol.script import Match, Step
from tugline.protocol.specs import ModelCard
from tugline.rules.shrinking import Limits
from tugline.runtime.past import Past
from tugline.runtime.shortening import Shortening
from tugline.testing import ScriptedProvider, call, reply
from tugline.tools.define import tool

CARD = ModelCard(name="scripted-model", window=40_000, output_limit=4_000)
SUMMARY = "<summary>\n## Goal\nTo look at many things, one after the other, until all are seen.\n</summary>"


@tool(footprint="reads")
async def look(size: int) -> str:
    """Looks."""
    return "words of little weight " * (size // 23)


def session(script: list[Step], limits: Limits) -> tuple[Stage, Shortening]:
    summarised = reply(SUMMARY, when=Match(purpose="compaction"), repeat=None)
    stage = Stage(
        ScriptedProvider([*script, summarised], cards=[CARD]), tools=[look], workspace=SimpleNamespace(roots=())
    )
    compaction = stage.agent.compactor = Compaction(stage.agent, limits, rerunnable=())
    return stage, Shortening(stage.agent, compaction, Past(stage.gear, stage.log, "/"))


def turns(count: int) -> list[Step]:
    steps = [(reply(call("look", size=14_000)), reply(call("look", size=14_000)), reply(f"{n}.")) for n in range(count)]
    return [step for turn in steps for step in turn]


async def test_what_was_brought_back_is_left_alone_until_it_has_grown() -> None:
    script = [*turns(3), reply("Small."), *turns(1)]
    stage, shortening = session(script, Limits(fold=False, keep_results=0, threshold=15_000, auto=False))
    for _ in range(3):
        await stage.run()
    compaction = stage.agent.compactor
    assert isinstance(compaction, Compaction)
    compaction.limits = Limits(keep_results=0, threshold=15_000)
    await shortening.compact()
    await shortening.uncompact()
    assert stage.transcript.gauge.tokens() > 15_000
    assert (await stage.run()).text == "Small."
    assert [event.how for event in stage.said(CompactionFinished)] == ["summary", "undo"]
    await stage.run()
    assert len(stage.said(CompactionFinished)) > 2


async def test_what_was_folded_comes_back_where_nothing_was_summarised() -> None:
    stage, shortening = session(turns(4), Limits(trim=False))
    said = []
    for number in range(4):
        await stage.run(f"Question {number}")
        said.append(f"Question {number}")
    assert any("folded here" in texts(message) for message in stage.messages)
    assert "What was folded is back" in await shortening.uncompact()
    assert not any("folded here" in texts(message) for message in stage.messages)
    assert [texts(m) for m in stage.messages if texts(m).startswith("Question")] == said
    with pytest.raises(SessionError, match="nothing to bring back"):
        await shortening.uncompact()
