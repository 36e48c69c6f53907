"""Sessions that are gone on with: what the model is sent, what is remembered, and who may write a file."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from home import Home, unmarked

import tugline
from tugline.protocol.commands import Steer
from tugline.protocol.errors import SessionError
from tugline.protocol.events import CallStarted, ConversationRewound, TurnStarted
from tugline.testing import ModelServer, call, gate, reply


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_a_resumed_session_sends_the_same_bytes_and_then_what_is_new(home: Home) -> None:
    (home.work / "a.txt").write_text("alpha\n")
    subprocess.run(["git", "init", "-q", str(home.work)], check=True)
    first = await home.talk(
        reply("Look.", call("Read", file_path="a.txt"), call("TodoWrite", todos=[])), reply("It says alpha."),
        reply("Sure."), say=["What is in a.txt?", "Sure?"],
    )  # fmt: skip
    (home.work / "new.txt").write_text("git status is another one now\n")
    second = await home.talk(reply("Still alpha."), say=["And now?"], continue_session=True)
    before, after = unmarked(first[-1]), unmarked(second[0])
    assert after["system"] == before["system"]
    assert after["tools"] == before["tools"]
    assert after["messages"][: len(before["messages"])] == before["messages"]
    news = after["messages"][-1]["content"]
    assert "new.txt" in news[0]["text"]
    assert news[-1]["text"] == "And now?"


async def test_files_that_were_read_and_the_todos_are_remembered(home: Home) -> None:
    (home.work / "a.txt").write_text("alpha\n")
    todo = {"content": "Change it", "status": "pending", "activeForm": "Changing it"}
    await home.talk(reply(call("Read", file_path="a.txt"), call("TodoWrite", todos=[todo])), reply("Read."))
    seen: list[Any] = []

    async def look(session: tugline.Session) -> None:
        seen.extend(entry.content for entry in session.inside.agent.gear.state.now.todos)

    edit = call("Edit", file_path="a.txt", old_string="alpha", new_string="beta")
    await home.talk(
        reply(edit), reply("Done."), then=look, continue_session=True, permission_mode="acceptEdits"
    )  # fmt: skip
    assert (home.work / "a.txt").read_text() == "beta\n"
    assert seen == ["Change it"]


async def test_the_cost_goes_on_and_a_budget_begins_anew(home: Home) -> None:
    price = {"models": {"scripted-model": {"price": {"input": 1_000_000, "output": 0}}}}
    options: dict[str, Any] = {"settings": price, "model": "scripted-model"}
    spent: list[float] = []

    async def sum_up(session: tugline.Session) -> None:
        spent.append(session.inside.agent.ledger.total().cost_usd)

    await home.talk(reply("One."), then=sum_up, **options)
    await home.talk(reply("Two."), then=sum_up, continue_session=True, max_budget_usd=spent[0] * 3, **options)
    assert spent[1] > spent[0] > 0


async def test_words_that_waited_when_the_process_ended_are_said_with_the_next_prompt(home: Home) -> None:
    async with ModelServer([reply("Thinking", gate("middle"))], lenient=True) as server:
        async with home.session(server) as session:
            session.inside.prompt("Begin")
            await server.reached("middle")
            session.steer("mind the gap")
            session.inside.prompt("and then this")
    (body,) = await home.talk(reply("Fine."), say=["Go on"], continue_session=True)
    words = [block["text"] for message in body["messages"] for block in message["content"] if block["type"] == "text"]
    assert [word for word in words if word in ("mind the gap", "and then this", "Go on")] == [
        "mind the gap", "and then this", "Go on",
    ]  # fmt: skip


async def test_a_session_in_use_is_copied_and_both_go_on(home: Home) -> None:
    async with ModelServer([reply("One."), reply("Two."), reply("Three.")]) as server:
        async with home.session(server) as first:
            await first.run("Hello")
            async with home.session(server, resume=first.opening.origin.session) as second:
                assert second.opening.origin.session != first.opening.origin.session
                assert any("in use" in notice for notice in second.notices)
                await second.run("in the copy")
            await first.run("in the first")
        sent = server.bodies
    assert len(home.transcripts()) == 2
    assert [len(body["messages"]) for body in sent] == [1, 3, 3]


async def test_a_fork_leaves_its_origin_as_it_was(home: Home) -> None:
    await home.talk(reply("One."))
    (origin,) = home.transcripts()
    before = origin.read_bytes()
    (body,) = await home.talk(
        reply("Two."), say=["Elsewhere"], resume=origin.stem, fork_session=True, session_id="copy-1"
    )
    assert origin.read_bytes() == before
    assert [path.stem for path in home.transcripts() if path != origin] == ["copy-1"]
    assert len(body["messages"]) == 3


async def test_a_session_is_found_by_words_of_its_name_and_first_prompt(home: Home) -> None:
    await home.talk(reply("One."), say=["Mend the parser"], title="Parser work")
    await home.talk(reply("Two."), say=["Mend the printer"])
    (body,) = await home.talk(reply("Yes."), say=["More"], resume="parser WORK")
    assert body["messages"][0]["content"][0]["text"] == "Mend the parser"
    with pytest.raises(SessionError, match="2 sessions fit 'mend'"):
        await home.talk(resume="mend")
    with pytest.raises(SessionError, match="No session of this project fits"):
        await home.talk(resume="sing")


async def test_where_there_is_none_to_go_on_with_that_is_said(home: Home) -> None:
    with pytest.raises(SessionError, match="no session of this project"):
        await home.talk(continue_session=True)


async def test_a_work_tree_shares_the_sessions_of_its_repository(home: Home) -> None:
    git = ["git", "-C", str(home.work), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", "../tree"]):
        subprocess.run([*git, *words], check=True)
    await home.talk(reply("One."))
    (body,) = await home.talk(reply("Two."), continue_session=True, cwd=str(home.work.parent / "tree"))
    assert len(body["messages"]) == 3


async def test_a_folder_that_only_claims_to_be_a_work_tree_gets_no_session_of_the_other(home: Home) -> None:
    subprocess.run(["git", "init", "-q", str(home.work)], check=True)
    await home.talk(reply("One."))
    liar = home.work.parent / "liar"
    liar.mkdir()
    (home.work / ".git" / "worktrees" / "liar").mkdir(parents=True)
    (liar / ".git").write_text(f"gitdir: {home.work}/.git/worktrees/liar\n")
    with pytest.raises(SessionError, match="no session of this project"):
        await home.talk(continue_session=True, cwd=str(liar))


async def test_a_project_that_vanished_leaves_sessions_that_go_on_elsewhere(home: Home) -> None:
    await home.talk(reply("One."))
    (origin,) = home.transcripts()
    home.work.rename(home.work.parent / "moved")
    (body,) = await home.talk(reply("Two."), resume=origin.stem[:8], cwd=str(home.work.parent / "moved"))
    assert len(body["messages"]) == 3


async def test_rewinding_takes_words_and_all_after_them_out_and_survives_a_resume(home: Home) -> None:
    async def back(session: tugline.Session) -> None:
        events = session.events()
        first, second, _ = await session.prompts()
        assert (first.text, second.text) == ("one", "two")
        assert (await session.rewind(second.id)).text == "two"
        assert [e.text for e in await events.batch() if isinstance(e, ConversationRewound)] == ["two"]

    await home.talk(reply("1"), reply("2"), reply("3"), say=["one", "two", "three"], then=back)
    (body,) = await home.talk(reply("4"), say=["four"], continue_session=True)
    texts = [message["content"][0]["text"] for message in body["messages"]]
    assert texts == ["one", "1", "four"]


async def test_rewinding_waits_for_the_turn_that_runs(home: Home) -> None:
    async with ModelServer([reply("1"), reply("2", gate("middle"))], lenient=True) as server:
        async with home.session(server) as session:
            await session.run("one")
            running = asyncio.create_task(session.run("two"))
            await server.reached("middle")
            asking = asyncio.create_task(session.prompts())
            server.open("middle")
            assert (await running).text == "2"
            assert [said.text for said in await asking] == ["one", "two"]


async def test_slash_commands_are_answered_without_a_request(home: Home) -> None:
    async def ask(session: tugline.Session) -> None:
        wrong = await session.run("/rewind 7")
        assert (wrong.reason, wrong.steps) == ("failed", 0)
        answers = [await session.run(words) for words in ("/help", "/rewind", "/rename A name", "/rewind 1", "/rewind")]
        assert [answer.reason for answer in answers] == ["completed"] * 5
        assert "/rewind" in answers[0].text
        assert "1  Go" in answers[1].text
        assert "nothing to go back to" in answers[4].text
        unknown = await session.run("/rewindd")
        assert (unknown.reason, "Did you mean /rewind?" in unknown.message) == ("failed", True)

    assert len(await home.talk(reply("1"), then=ask)) == 1


async def test_what_only_looks_like_a_command_goes_to_the_model(home: Home) -> None:
    bodies = await home.talk(reply("1"), reply("2"), say=["/etc/hosts is empty", "/nonsense and more words"])
    assert [body["messages"][-1]["content"][0]["text"] for body in bodies] == [
        "/etc/hosts is empty", "/nonsense and more words",
    ]  # fmt: skip


async def test_clearing_begins_anew_and_the_file_keeps_what_was(home: Home) -> None:
    bodies = await home.talk(reply("1"), reply("2"), say=["one", "/clear", "two"])
    assert len(bodies[1]["messages"]) == 1
    assert "one" in home.transcripts()[0].read_text()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x00" * 4096, "no transcript"),
        (b'{"type":"user","message":{}}\n', "no transcript"),
        (b'{"kind":"opened","format":99,"session":"x","agent":"main","cwd":"/","version":"9"}\n', "newer tugline"),
        (b"\xff\xfe binary \n", "no transcript"),
    ],
)
async def test_what_is_no_transcript_of_ours_is_named_and_left_alone(content: bytes, words: str, home: Home) -> None:
    await home.talk(reply("One."))
    (real,) = home.transcripts()
    foreign = real.with_name("foreign-1.jsonl")
    foreign.write_bytes(content)
    with pytest.raises(SessionError, match=words):
        await home.talk(resume="foreign-1")
    assert foreign.read_bytes() == content


async def test_links_and_pipes_in_place_of_a_transcript_are_refused(home: Home) -> None:
    await home.talk(reply("One."))
    (real,) = home.transcripts()
    os.mkfifo(real.with_name("pipe-1.jsonl"))
    real.with_name("link-1.jsonl").symlink_to(real)
    for name in ("pipe-1", "link-1"):
        with pytest.raises(SessionError):
            await home.talk(resume=name)


async def test_damage_in_the_middle_is_passed_over_and_told(home: Home) -> None:
    await home.talk(reply("One."), reply("Two."), say=["first", "second"])
    (path,) = home.transcripts()
    lines = path.read_bytes().splitlines(keepends=True)
    broken = next(i for i, line in enumerate(lines) if b'"first"' in line)
    lines[broken] = b"\x00" * 200 + b"\n"
    path.write_bytes(b"".join(lines))
    notices: list[str] = []

    async def look(session: tugline.Session) -> None:
        notices.extend(session.notices)

    (body,) = await home.talk(reply("Three."), say=["third"], continue_session=True, then=look)
    assert any("1 line" in notice for notice in notices)
    texts = [block["text"] for message in body["messages"] for block in message["content"]]
    assert "second" in texts
    assert body["messages"][0]["role"] == "user"


async def test_a_call_whose_outcome_nobody_knows_is_not_run_again(home: Home) -> None:
    async with ModelServer([reply(call("Bash", command="echo x >> marks; sleep 60"))], lenient=True) as server:
        async with home.session(server, allowed_tools=["Bash"]) as session:
            events = session.events()
            session.inside.prompt("Do it")
            async for event in events:
                if isinstance(event, CallStarted):
                    break
            (path,) = home.transcripts()
            frozen = path.read_bytes()  # as `kill -9` at this point would leave it
    path.write_bytes(frozen)
    (body,) = await home.talk(reply("I check."), say=["Go on"], continue_session=True)
    (result,) = [b for m in body["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert "outcome is unknown" in result["content"]
    again = await home.talk(reply("Fine."), say=["Once more"], continue_session=True)
    assert unmarked(again[0])["messages"][: len(body["messages"])] == unmarked(body)["messages"]


async def test_steering_words_are_kept_once(home: Home) -> None:
    async with ModelServer([reply(call("Bash", command="ls")), reply("Done.")]) as server:
        async with home.session(server) as session:
            async with session.stream("Go") as events:
                async for event in events:
                    if isinstance(event, TurnStarted):
                        session.send(Steer((tugline.Text("and quickly"),)))
        (path,) = home.transcripts()
    (body,) = await home.talk(reply("Ok."), say=["More"], continue_session=True)
    assert str(body["messages"]).count("and quickly") == 1
    assert path.exists()
