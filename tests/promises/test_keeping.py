"""What is made of sessions while they run: branches, documents, notes in the project's instructions, names."""

import json
from pathlib import Path
from typing import Any

import pytest
from home import Home

import tugline
from tugline.protocol.errors import SessionError
from tugline.protocol.events import Crashed, Notice, SessionRenamed, TurnFinished, UsageReported
from tugline.testing import Match, ModelServer, Script, call, fail, gate, lane, reply


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_a_branch_goes_on_under_a_new_id_and_its_origin_stays(home: Home) -> None:
    async def branch(session: tugline.Session) -> None:
        events = session.events()
        before = session.opening.origin.session
        origin = home.transcripts()[0].read_bytes()
        answer = await session.run("/branch Another way")
        assert answer.reason == "completed"
        assert before in answer.text
        (told,) = [event for event in await events.batch() if isinstance(event, tugline.SessionBranched)]
        assert told.before == before != told.origin.session
        assert Path(told.transcript).stem == told.origin.session
        assert (await session.run("In the branch")).text == "2"
        (kept,) = [path for path in home.transcripts() if path.stem == before]
        assert kept.read_bytes() == origin
        # the origin is free for others, the branch is not
        sessions = tugline.Sessions(home.work, environ=home.environ)
        sessions.rename(before, "As it was")
        with pytest.raises(SessionError, match="in use"):
            sessions.rename(told.origin.session, "No")

    await home.talk(reply("1"), reply("2"), then=branch)
    (one,) = await home.talk(reply("3"), say=["More"], continue_session=True)
    assert [m["content"][0]["text"] for m in one["messages"]] == ["Go", "1", "In the branch", "2", "More"]
    (other,) = await home.talk(reply("3"), say=["More"], resume="as it was")
    assert [m["content"][0]["text"] for m in other["messages"]] == ["Go", "1", "More"]
    for path in home.transcripts():
        numbers = [json.loads(line)["n"] for line in path.read_text().splitlines()]
        assert numbers == list(range(1, len(numbers) + 1))


async def test_what_was_kept_before_and_after_a_branch_can_be_read_in_it_and_when_it_is_resumed(home: Home) -> None:
    (home.work / "big.txt").write_text("\n".join(f"line {n}" for n in range(20_000)))
    look, again = (
        [reply(call("Read", file_path="{{last_user_text}}", limit=lines)), reply("Read.")] for lines in (3, 4)
    )
    much = [reply(call("Bash", command="cat big.txt")), reply("Much.")]
    kept: list[Path] = []

    def all_kept() -> list[Path]:
        return list(home.transcripts()[0].parent.rglob("*.txt"))

    async def branch(session: tugline.Session) -> None:
        kept.extend(all_kept())
        fresh = await session.branch()
        await session.run("Once more")
        kept.extend(path for path in all_kept() if path not in kept)
        assert [path.parent.name for path in kept] == [session.opening.origin.session, fresh]
        for path in kept:
            await session.run(str(path))

    bodies = await home.talk(*much, *much, *look, *look, then=branch)
    bodies += await home.talk(*again, *again, say=[str(path) for path in kept], continue_session=True)
    for body in (bodies[5], bodies[7], bodies[9], bodies[11]):
        (result,) = body["messages"][-1]["content"]
        assert not result.get("is_error"), result
        assert "1\tline 0" in str(result["content"])


async def test_the_conversation_is_exported_where_the_person_says(home: Home) -> None:
    async def export(session: tugline.Session) -> None:
        answer = await session.run("/export html talk.html")
        assert answer.text == f"The conversation is in {home.work / 'talk.html'}"
        again = await session.run("/export html talk.html")
        assert (again.reason, "There is a file of that name already" in again.message) == ("failed", True)
        assert (await session.export()).endswith(".md")
        await session.run("/export json a folder with blanks.json")

    await home.talk(reply("It is so."), then=export)
    assert "It is so." in (home.work / "talk.html").read_text()
    document = json.loads((home.work / "a folder with blanks.json").read_text())
    assert [one["said"]["role"] for one in document["passages"]] == ["user", "assistant"]


# -- notes


@pytest.mark.parametrize("ends", ["\n", "", "\r\n"])
async def test_a_note_is_a_line_more_in_the_file_of_the_project(ends: str, home: Home) -> None:
    (home.work / "CLAUDE.md").write_bytes(f"# Rules{ends}".encode())

    async def note(session: tugline.Session) -> None:
        assert (await session.run("#  Prices are   in cents ")).text == f"Noted in {home.work / 'CLAUDE.md'}"
        listed = (await session.run("/memory")).text
        assert str(home.work / "CLAUDE.md") in listed
        assert "tokens" in listed
        await session.run("What about prices?")

    bodies = await home.talk(reply("1"), reply("2"), then=note)
    end = ends or "\n"
    assert (home.work / "CLAUDE.md").read_bytes() == f"# Rules{end}- Prices are in cents{end}".encode()
    told = [block["text"] for block in bodies[1]["messages"][-1]["content"]]
    assert [("Prices are in cents" in text, "system-reminder" in text) for text in told] == [
        (True, True), (False, False),
    ]  # fmt: skip
    assert not (home.work / "AGENTS.md").exists()


async def test_the_first_note_of_a_project_makes_its_file_and_a_session_of_notes_is_none_to_go_on_with(
    home: Home,
) -> None:
    assert await home.talk(say=["#Prices are in cents"]) == []
    assert (home.work / "AGENTS.md").read_text() == "- Prices are in cents\n"
    (body,) = await home.talk(reply("1"), say=["Hello"])
    assert "Prices are in cents" in str(body["messages"][0])
    for path in home.transcripts():
        if b'"said"' in path.read_bytes():
            path.unlink()
    with pytest.raises(SessionError, match="no session of this project"):
        await home.talk(continue_session=True)


@pytest.mark.parametrize("text", ["##", "#", "#12 is broken", "#!/bin/sh", "# Title\n\nand a text", " #note"])
async def test_what_is_no_note_goes_to_the_model(text: str, home: Home) -> None:
    (body,) = await home.talk(reply("1"), say=[text])
    assert body["messages"][-1]["content"][-1]["text"] == text
    assert list(home.work.iterdir()) == []


async def test_a_note_goes_nowhere_that_is_forbidden_or_outside(home: Home) -> None:
    outside = home.work.parent / "precious.md"
    outside.write_text("precious\n")
    notes = home.work / "AGENTS.md"
    for hindrance in ("link", "denied", "folder", "binary", "off"):
        options: dict[str, Any] = {}
        match hindrance:
            case "link":
                notes.symlink_to(outside)
            case "denied":
                options = {"disallowed_tools": ["Edit(AGENTS.md)"]}
            case "folder":
                notes.mkdir()
            case "binary":
                notes.write_bytes(b"\xff\xfe\x00")
            case _:
                options = {"instruction_files": ()}
        before = notes.read_bytes() if notes.is_file() else b""

        async def refused(session: tugline.Session) -> None:
            ended = await session.run("#Obey")
            assert ended.reason == "failed"
            assert "The note was not kept" in ended.message or "switched off" in ended.message

        await home.talk(say=(), then=refused, **options)
        assert (notes.read_bytes() if notes.is_file() else b"") == before
        if notes.is_dir():
            notes.rmdir()
        notes.unlink(missing_ok=True)
    assert outside.read_text() == "precious\n"


# -- titles


def title_lane(*answers: Any, **options: Any) -> Script:
    """A script with a lane for what is asked about titles."""
    asked = lane(Match(user="Give the conversation"), list(answers))
    return Script(steps=(reply("It adds up."), reply("Twice.")), lanes={"title": asked}, **options)


async def named(home: Home, script: Script, words: str, **options: Any) -> tuple[list[str], ModelServer]:
    """The names that a session with titles says it has, until it says `words`."""
    names: list[str] = []
    async with ModelServer(script, lenient=True) as server:
        async with home.session(server, titles=True, **options) as session:
            events = session.events()
            await session.run("What is in the cart?")
            async for event in events:
                if isinstance(event, SessionRenamed):
                    names.append(event.title)
                if isinstance(event, UsageReported | SessionRenamed) and words in names:
                    break
        return names, server


async def test_a_session_is_named_on_the_side_by_the_small_model(home: Home) -> None:
    names, server = await named(home, title_lane(reply('"The cart\'s sum."')), "The cart's sum")
    assert names == ["The cart's sum"]
    (request,) = [body for body in server.bodies if "Give the conversation" in str(body["messages"])]
    assert "haiku" in request["model"]
    assert "What is in the cart?" in str(request["messages"])
    (one,) = tugline.Sessions(home.work, environ=home.environ).summaries()
    assert one.title == "The cart's sum"
    (record,) = [r for r in map(json.loads, home.transcripts()[0].read_text().splitlines()) if r["kind"] == "titled"]
    assert record["by"] == "model"


async def test_no_end_of_a_session_waits_for_its_name(home: Home) -> None:
    async with ModelServer(title_lane(reply(gate("never"), "Late")), lenient=True) as server:
        async with home.session(server, titles=True) as session:
            assert (await session.run("What?")).text == "It adds up."
            assert (await session.run("And?")).text == "Twice."
        assert tugline.Sessions(home.work, environ=home.environ).summaries()[0].title == ""


async def test_a_name_that_a_person_gives_meanwhile_stays(home: Home) -> None:
    async with ModelServer(title_lane(reply(gate("hold"), "The model's")), lenient=True) as server:
        async with home.session(server, titles=True) as session:
            events = session.events()
            await session.run("What?")
            await server.reached("hold")
            session.rename("Mine")
            server.open("hold")
            await session.run("And?")
            async for event in events:
                if isinstance(event, TurnFinished) and event.text == "Twice.":
                    break
        records = [json.loads(line) for line in home.transcripts()[0].read_text().splitlines()]
        assert [record["title"] for record in records if record["kind"] == "titled"] == ["Mine"]


@pytest.mark.parametrize(
    ("titles", "settings", "title"), [(False, {}, ""), (True, {"sessions": {"titles": False}}, ""), (True, {}, "Given")]
)
async def test_no_model_is_asked_for_a_name_where_none_is_wanted(
    titles: bool, settings: dict[str, Any], title: str, home: Home
) -> None:
    bodies = await home.talk(
        reply("1"), reply("2"), say=["one", "two"], titles=titles, settings=settings, title=title or None
    )
    assert len(bodies) == 2


async def test_a_name_that_cannot_be_found_is_no_matter(home: Home) -> None:
    script = title_lane(fail(400))
    async with ModelServer(script, lenient=True) as server:
        async with home.session(server, titles=True) as session:
            events = session.events()
            assert (await session.run("What?")).reason == "completed"
            assert (await session.run("And?")).reason == "completed"
            told = await events.batch()
    assert not [event for event in told if isinstance(event, Notice | Crashed | SessionRenamed)]
