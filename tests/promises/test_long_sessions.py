"""Long sessions as a user has them: compacted by hand and by themselves, resumed, rewound, forked, over every wire."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from command import Desk
from home import Home, unmarked

import tugline
from tugline.protocol.commands import Compact, Uncompact
from tugline.protocol.errors import SessionError, UsageError
from tugline.rules.compactions import compactions
from tugline.testing import Match, ModelServer, call, fail, gate, reply

SUMMARY = "<summary>The files were read; they hold nothing but words that fill them.</summary>"
ASKED = Match(last="has become too long")
SMALL = {"compaction": {"threshold": 7_000, "trim": False, "fold": False}}
MODEL = "claude-sonnet-4-5"
BIG = "words that fill a file\n" * 800


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    for name in "abc":
        (made.work / f"{name}.txt").write_text(BIG)
    return made


def summarised(**options: Any) -> Any:
    return reply(SUMMARY, when=ASKED, **options)


def read(name: str, says: str = "I read.") -> Any:
    return reply(says, call("Read", file_path=f"{name}.txt"))


def words(body: Any) -> list[str]:
    return [block["text"] for message in body["messages"] for block in message["content"] if block["type"] == "text"]


async def test_a_compacted_session_goes_on_with_the_same_bytes_in_another_process(home: Home) -> None:
    first = await home.talk(
        read("a"), read("b"), reply("Read."), summarised(), reply("Yes."),
        say=["Read them", "/compact the names", "Sure?"],
    )  # fmt: skip
    second = await home.talk(reply("Still."), say=["And now?"], continue_session=True)
    before, after = unmarked(first[-1]), unmarked(second[0])
    assert after["messages"][: len(before["messages"])] == before["messages"]
    said = words(before)
    assert "words that fill them." in said[1]
    assert [text for text in said if text in ("Read them", "/compact the names", "Sure?")] == ["Read them", "Sure?"]
    assert "the names" in words(first[3])[-1]


async def test_what_was_learned_about_tokens_goes_through_a_boundary(home: Home) -> None:
    learned: list[float] = []

    async def look(session: tugline.Session) -> None:
        learned.append(session.inside.agent.gear.transcript.gauge.ratio)

    await home.talk(
        read("a"), read("b"), reply("Read."), summarised(), say=["Read", "/compact"], then=look
    )  # fmt: skip
    await home.talk(say=[], then=look, continue_session=True)
    assert learned[0] != 4.0
    assert learned[1] == pytest.approx(learned[0], abs=0.001)


async def test_the_request_for_a_summary_reads_the_history_from_the_prompt_cache(home: Home) -> None:
    usages: list[tugline.UsageReported] = []

    async def look(session: tugline.Session) -> None:
        events = session.events()
        await session.compact(" half a \ud83d sign ")
        usages.extend(event for event in await events.batch() if isinstance(event, tugline.UsageReported))

    bodies = await home.talk(read("a"), read("b"), reply("Read."), summarised(), then=look)
    (usage,) = [event.usage for event in usages]
    assert usage.cache_read > 10 * usage.input
    last, asked = unmarked(bodies[-2]), unmarked(bodies[-1])
    assert (asked["system"], asked["tools"]) == (last["system"], last["tools"])
    assert asked["messages"][: len(last["messages"])] == last["messages"]


@pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
async def test_a_turn_that_grows_too_long_goes_on_by_itself_over_every_wire(wire: str, home: Home) -> None:
    script = [read("a"), read("b"), read("c"), reply("All read."), summarised(repeat=None)]
    async with ModelServer(script) as server:
        options: dict[str, Any] = {"settings": SMALL, "model": "claude-sonnet-4-5"}
        if wire != "messages":
            environ = {**home.environ, "OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "k"}
            del environ["ANTHROPIC_API_KEY"]
            settings = {**SMALL, "providers": {"openai": {"api": wire}}}
            options = {"settings": settings, "model": "gpt-5", "environ": environ}
        async with home.session(server, **options) as session:
            events = session.events()
            result = await session.run("Read all of them")
            told = [event for event in await events.batch() if isinstance(event, tugline.CompactionFinished)]
    assert (result.reason, result.text) == ("completed", "All read.")
    assert {event.how for event in told} == {"summary"}
    assert all(event.tokens_after <= event.tokens_before * 0.8 for event in told)
    assert "Read all of them" in json.dumps(server.bodies[-1])


async def test_files_todos_and_instructions_are_taken_along_and_instructions_read_anew(home: Home) -> None:
    (home.work / "AGENTS.md").write_text("Count in dozens.\n")
    (home.work / "small.txt").write_text("seen last\n")
    todo = {"content": "Count the eggs", "status": "pending", "activeForm": "Counting"}

    async def change(session: tugline.Session) -> None:
        (home.work / "AGENTS.md").write_text("Count in scores.\n")
        (home.work / "small.txt").write_text("changed since\n")
        await session.compact()
        await session.run("Go on")

    bodies = await home.talk(
        read("a"), reply(call("Read", file_path="small.txt"), call("TodoWrite", todos=[todo])), reply("Read."),
        summarised(), reply("Fine."), then=change,
    )  # fmt: skip
    text = "\n".join(words(bodies[-1]))
    assert "Count in scores." in text
    assert "Count in dozens." not in text
    assert "[pending] Count the eggs" in text
    assert "changed since" in text
    assert "a.txt" in text  # too long to be shown: named
    assert "words that fill a file" not in text


async def test_a_file_that_left_the_conversation_is_shown_again_when_it_is_read_again(home: Home) -> None:
    settings = {"compaction": {"files": 0}}
    bodies = await home.talk(
        read("a"), read("b"), reply("Read."), summarised(), read("a"), reply("Again."),
        say=["Read", "/compact", "Read a again"], settings=settings,
    )  # fmt: skip
    (result,) = [b for m in bodies[-1]["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert "words that fill a file" in json.dumps(result)


async def test_the_history_comes_back_as_it_was(home: Home) -> None:
    first = await home.talk(
        read("a"), read("b"), reply("Read."), summarised(), reply("Fine."), reply("Back."),
        say=["Read", "/compact", "Now", "/uncompact", "Then"],
    )  # fmt: skip
    before, after = unmarked(first[2])["messages"], unmarked(first[-1])["messages"]
    assert after[: len(before)] == before
    assert [message["content"][0]["text"] for message in after[len(before) :]] == ["Read.", "Now", "Fine.", "Then"]
    again = await home.talk(reply("Yes."), say=["More"], continue_session=True)
    assert unmarked(again[0])["messages"][: len(after)] == after


async def test_what_does_not_fit_any_more_is_not_brought_back(home: Home) -> None:
    await home.talk(
        read("a"), read("b"), read("c"), reply("Read."), summarised(), say=["Read", "/compact"], model=MODEL
    )

    async def back(session: tugline.Session) -> None:
        with pytest.raises(SessionError, match="a larger window"):
            await session.uncompact()
        assert "words that fill them" in str(session.inside.agent.gear.transcript.messages)

    small = {"models": {MODEL: {"window": 17_000}}}
    await home.talk(say=[], then=back, continue_session=True, settings=small, model=MODEL)
    with pytest.raises(SessionError, match="nothing to bring back"):
        await home.talk(say=[], then=lambda session: session.uncompact())


async def test_going_back_to_before_a_compaction_and_forking_behind_one(home: Home) -> None:
    await home.talk(
        reply("One."), read("a"), read("b"), reply("Two."), summarised(), reply("Three."),
        say=["one", "two", "/compact", "three"],
    )  # fmt: skip
    (origin,) = home.transcripts()
    kept = origin.read_bytes()
    (forked,) = await home.talk(
        reply("Four."), say=["four"], resume=origin.stem, fork_session=True, session_id="copy-1"
    )
    assert origin.read_bytes() == kept
    assert "words that fill them." in words(forked)[1]

    async def back(session: tugline.Session) -> None:
        prompts = await session.prompts()
        assert [said.text for said in prompts] == ["one", "two", "three"]
        await session.rewind(prompts[1].id)
        await session.run("another two")

    (body,) = await home.talk(reply("Else."), say=[], then=back, resume=origin.stem)
    assert words(body) == ["one", "One.", "another two"]


async def test_a_compaction_waits_for_the_turn_and_can_be_interrupted(home: Home) -> None:
    held = reply("<summary>", gate("summary"), when=ASKED)
    script = [read("a"), read("b"), reply("Read", gate("turn"), " all."), held]
    async with ModelServer(script, lenient=True) as server, home.session(server) as session:
        events = session.events()
        running = asyncio.create_task(session.run("Read"))
        await server.reached("turn")
        session.send(Compact("all of it"))
        server.open("turn")
        assert (await running).text == "Read all."
        await server.reached("summary")
        before = list(session.inside.agent.gear.transcript.messages)
        session.interrupt()
        assert (await session.run("/rename Interrupted")).reason == "completed"
        assert session.inside.agent.gear.transcript.messages == before
        said = await events.batch()
        (started,) = [event for event in said if isinstance(event, tugline.CompactionStarted)]
        (ended,) = [event for event in said if isinstance(event, tugline.CompactionFinished)]
        assert (started.words, ended.failure) == ("all of it", "It was interrupted.")


async def test_words_that_are_none_are_refused(home: Home) -> None:
    async with ModelServer([]) as server, home.session(server) as session:
        with pytest.raises(UsageError, match="in words"):
            await session.compact(3)  # type: ignore[arg-type]


async def test_what_a_command_cannot_do_is_told_as_a_notice(home: Home) -> None:
    async with ModelServer([]) as server, home.session(server) as session:
        events = session.events()
        session.send(Compact())
        session.send(Uncompact())
        await session.run("/help")
        notices = [event.text for event in await events.batch() if isinstance(event, tugline.Notice)]
        assert [notice.split(":")[0].split(".")[0] for notice in notices] == [
            "There is nothing to compact yet", "There is nothing to bring back",
        ]  # fmt: skip


async def test_slash_commands_say_what_they_did_or_why_not(home: Home) -> None:
    async def ask(session: tugline.Session) -> None:
        assert "summarised at" in (await session.run("/context")).text
        assert "tokens before" in (await session.run("/compact")).text
        assert "is back" in (await session.run("/uncompact")).text
        nothing = await session.run("/uncompact")
        assert (nothing.reason, "nothing to bring back" in nothing.message) == ("failed", True)
        await session.run("Read c")
        cut = await session.run("/snip")
        assert ("is cut" in cut.text, cut.steps) == (True, 0)
        found = compactions(await session.inside.past.records())
        assert [(one.how, one.trigger, one.undone) for one in found] == [
            ("summary", "manual", True), ("snip", "manual", False),
        ]  # fmt: skip
        assert found[0].summary == "The files were read; they hold nothing but words that fill them."

    await home.talk(read("a"), read("b"), reply("Read."), summarised(), read("c"), reply("Read too."), then=ask)


async def test_a_failing_summary_by_hand_says_why_and_changes_nothing(home: Home) -> None:
    refused = fail(400, "the summary is refused", when=ASKED)

    async def ask(session: tugline.Session) -> None:
        before = list(session.inside.agent.gear.transcript.messages)
        answer = await session.run("/compact")
        assert (answer.reason, "the summary is refused" in answer.message) == ("failed", True)
        assert session.inside.agent.gear.transcript.messages == before

    await home.talk(read("a"), reply("Read."), refused, then=ask)


# -- the command


@pytest.fixture
def desk(home: Home) -> Desk:
    return Desk(home.work.parent, {**home.environ, "PATH": os.environ["PATH"]})


LINES = ["-p", "--output-format", "stream-json", "--verbose", "--settings", json.dumps(SMALL)]


async def test_stream_json_has_a_status_and_a_boundary(desk: Desk) -> None:
    script = [read("a"), read("b"), reply("All read."), summarised(repeat=None)]
    async with ModelServer(script) as server:
        ended = await desk.run(*LINES, "Read", env={"ANTHROPIC_BASE_URL": server.url})
    assert ended.result["result"] == "All read."
    system = [line for line in ended.lines if line["type"] == "system" and line["subtype"] != "init"]
    kinds = [(line["subtype"], line.get("status")) for line in system[:3]]
    assert kinds == [("status", "compacting"), ("status", None), ("compact_boundary", None)]
    data = system[2]["compact_metadata"]
    assert data["trigger"] == "auto"
    assert data["post_tokens"] <= data["pre_tokens"] * 0.8
    assert all(line["uuid"] and line["session_id"] for line in system)


async def test_the_text_format_tells_of_it_on_stderr_in_a_line(desk: Desk) -> None:
    script = [read("a"), read("b"), reply("All read."), summarised(repeat=None)]
    async with ModelServer(script) as server:
        ended = await desk.run("-p", "--settings", json.dumps(SMALL), "Read", env={"ANTHROPIC_BASE_URL": server.url})
        assert ended.out == "All read.\n"
        assert "tugline: the conversation was compacted (" in ended.err
        back = await desk.run("-c", "-p", "/uncompact", env={"ANTHROPIC_BASE_URL": server.url})
        assert (back.code, "is back" in back.out, back.err) == (0, True, "")


async def test_a_variable_switches_it_off(desk: Desk) -> None:
    script = [read("a"), read("b"), reply("All read.")]
    async with ModelServer(script) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "TUGLINE_COMPACTION_AUTO": "false"}
        ended = await desk.run(*LINES[:-2], "Read", env=env)
    assert not [line for line in ended.lines if line.get("subtype") in ("status", "compact_boundary")]
