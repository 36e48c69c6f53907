"""What fills the context and what it costs, as data and as told; a missed prompt cache names what had changed."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tugline
from tugline.testing import ModelServer, call, cut, gate, reply

Open = Callable[..., AbstractAsyncContextManager[tugline.Session]]
LONG = "a line of some length that fills the context\n" * 400


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    @asynccontextmanager
    async def open_it(*script: Any, **options: Any) -> AsyncIterator[tugline.Session]:
        (tmp_path / "work").mkdir(exist_ok=True)
        (tmp_path / "work" / "long.txt").write_text(LONG)
        async with ModelServer(script) as server:
            environ = {
                "PATH": os.environ["PATH"], "HOME": str(tmp_path), "TUGLINE_HOME": str(tmp_path / "state"),
                "ANTHROPIC_API_KEY": "canary", "ANTHROPIC_BASE_URL": server.url,
            }  # fmt: skip
            async with tugline.Session(cwd=str(tmp_path / "work"), environ=environ, **options) as session:
                yield session

    return open_it


def misses(events: list[tugline.Event]) -> list[str]:
    return [event.cache_miss for event in events if isinstance(event, tugline.UsageReported)]


async def test_steps_that_only_add_hit_the_cache(opened: Open) -> None:
    async with opened(reply(call("Read", file_path="long.txt")), reply("One."), reply("Two.")) as session:
        for words in ("Read it", "Again"):
            await session.run(words)
        found = await session.costs()
        (row,) = found.rows
        assert (row.purpose, row.spend.requests, row.hits, row.misses) == ("main", 3, 2, 0)
        assert found.causes == ()
        assert found.total.cost_usd == pytest.approx(session.inside.agent.ledger.total().cost_usd)


async def test_another_model_is_named_as_the_cause_of_a_miss(opened: Open) -> None:
    async with opened(reply(call("Read", file_path="long.txt")), reply("One."), reply("Two.")) as session:
        events = session.events()
        await session.run("Read it")
        before = session.opening.model
        session.set_model("claude-haiku-4-5")
        await session.run("Again")
        assert misses(await events.batch()) == ["", "", f"model: {before} → claude-haiku-4-5"]
        told = (await session.run("/cost")).text
        assert "1 misses" in told
        assert f"- 1 × model: {before} → claude-haiku-4-5" in told


async def test_tools_that_were_loaded_meanwhile_are_named(opened: Open) -> None:
    @tugline.tool(deferred=True)
    async def rare(words: str) -> str:
        """Something rare."""
        return words

    script = [reply(call("Read", file_path="long.txt")), reply(call("ToolSearch", query="select:rare")), reply("Done.")]
    async with opened(*script, tools=[rare]) as session:
        events = session.events()
        await session.run("Read it")
        assert misses(await events.batch()) == ["", "", "tools: +rare"]


async def test_words_that_were_rewound_cost_no_miss_of_what_is_still_there(opened: Open) -> None:
    script = [reply(call("Read", file_path="long.txt")), reply("One."), reply("Two."), reply("Three.")]
    async with opened(*script) as session:
        events = session.events()
        for words in ("Read it", "two"):
            await session.run(words)
        await session.rewind((await session.prompts())[1].id)
        await session.run("three")
        assert misses(await events.batch()) == ["", "", "", ""]


async def test_the_context_is_shown_by_parts_whose_sum_is_what_is_used(opened: Open) -> None:
    async with opened(reply("Look.", call("Read", file_path="long.txt")), reply("It is long.")) as session:
        await session.run("What is in it?")
        found = session.context()
        parts = {(part.group, part.name): part for part in found.parts}
        assert abs(sum(part.tokens for part in found.parts) - found.used) <= len(found.parts)
        assert {("system", "identity"), ("tools", "Read"), ("conversation", "results of Read")} <= set(parts)
        assert parts["conversation", "results of Read"].tokens > parts["conversation", "your words"].tokens
        told = (await session.run("/context")).text
        assert "results of Read" in told
        assert f"{found.used:,} of {found.window:,} tokens" in told


async def test_what_broke_off_is_paid_for_too(opened: Open) -> None:
    async with opened(reply("One", cut("close")), reply("Two."), reply("Three", gate("middle"))) as session:
        await session.run("Go")
        first = (await session.costs()).total
        assert first.requests == 2
        assert first.usage.input + first.usage.cache_write > 1_000
        async with session.stream("And on") as events:
            async for event in events:
                if isinstance(event, tugline.TextDelta):
                    session.interrupt()
        assert (await session.costs()).total.requests == 3


async def test_nothing_spent_is_said(opened: Open) -> None:
    async with opened() as session:
        assert (await session.run("/cost")).text == "Nothing was spent yet."


async def test_a_resumed_session_knows_what_it_has_cost(opened: Open) -> None:
    async with opened(reply("One.")) as session:
        await session.run("one")
        before = await session.costs()
    async with opened(reply("Two."), continue_session=True) as session:
        await session.run("two")
        after = await session.costs()
    assert after.total.requests == before.total.requests + 1
    assert after.total.cost_usd > before.total.cost_usd
