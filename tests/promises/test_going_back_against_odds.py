"""Going back when something is wrong: killed, interrupted, full, damaged, moved, replaced meanwhile."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import TUGLINE
from workshop import Workshop, doing, shell, warnings

import tugline
from tugline.protocol.commands import Rewind
from tugline.protocol.errors import SessionError
from tugline.protocol.events import CommandAnswered, ConversationRewound, Event
from tugline.protocol.specs import FileStep
from tugline.testing import ModelServer, ScriptedProvider, call, gate, reply

FILES: dict[str, str | bytes] = {"a.txt": "one\n", "b.txt": "b\n", "d/c.txt": "c\n"}


async def heard(session: tugline.Session, *prompts: str) -> list[Event]:
    """All that is told during these prompts."""
    events = session.events()
    for words in prompts:
        await session.run(words)
    return await events.batch()


async def back(session: tugline.Session, index: int = 0, what: Any = "files", **given: Any) -> dict[str, str]:
    prompt = (await session.prompts())[index]
    return {step.path: step.do for step in (await session.rewind(prompt.id, what, **given)).files}


async def test_a_process_killed_in_the_middle_of_a_command_is_gone_on_with_and_back(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    before = shop.tree()
    async with ModelServer([reply(shell("echo two > a.txt; rm b.txt; kill -9 $PPID"))], lenient=True) as server:
        process = await asyncio.create_subprocess_exec(
            TUGLINE, "-p", "--permission-mode", "bypassPermissions", "Do it", cwd=shop.work,
            env={**shop.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        await process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert (shop.work / "a.txt").read_text() == "two\n"
    async with shop.session(continue_session=True) as session:
        assert await back(session) == {"a.txt": "restore", "b.txt": "recreate"}
    assert shop.tree() == before
    made = [record for record in shop.changes() if not record.rewind]
    assert [record.calls for record in made] == [("call_1_1",)]
    assert not list(shop.checkpoints.glob("*/work/*"))


KILLED = """
import asyncio, os, signal, sys
import tugline
from tugline.testing import ScriptedProvider
from tugline.workspaces import restoring
put, count = restoring.put, 0
def dying(*arguments, **given):
    global count
    count += 1
    if count == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    put(*arguments, **given)
restoring.put = dying
async def main():
    async with tugline.Session(continue_session=True, provider=ScriptedProvider([]), model="m") as session:
        (prompt,) = await session.prompts()
        await session.rewind(prompt.id, "both")
asyncio.run(main())
"""


async def test_a_rewind_killed_half_way_can_be_done_again(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    before = shop.tree()
    async with shop.session(doing(shell("for f in a.txt b.txt d/c.txt; do echo x >> $f; done"))) as session:
        await session.run("Go")
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=shop.work, env=shop.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert shop.tree() != before
    async with shop.session(continue_session=True) as session:
        assert len(await back(session, what="both")) == 2
        assert shop.tree() == before
        assert await session.prompts() == ()


async def test_what_an_interrupted_command_did_is_put_down_to_it(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    script = [reply(shell("echo two > a.txt; echo x > ready; sleep 100")), *doing(shell("echo y > b.txt"))]
    async with shop.session(script) as session:
        running = asyncio.create_task(session.run("Go"))
        while not (shop.work / "ready").exists():
            await asyncio.sleep(0.01)  # a command of another process has no gate but the files that it makes
        session.interrupt()
        assert (await running).reason == "interrupted"
        await session.run("Again")
        assert [(record.calls, {one.path for one in record.files}) for record in shop.changes()] == [
            (("call_1_1",), {"a.txt", "ready"}), (("call_2_1",), {"b.txt"}),
        ]  # fmt: skip
        await back(session)
    assert (shop.work / "a.txt").read_text() == "one\n"
    assert not (shop.work / "ready").exists()


async def test_a_session_closed_right_after_an_interrupt_still_knows_what_it_did(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    async with shop.session([reply(shell("echo two > a.txt; echo x > ready; sleep 100"))]) as session:
        running = asyncio.create_task(session.run("Go"))
        while not (shop.work / "ready").exists():
            await asyncio.sleep(0.01)
        session.interrupt()
        await running
    assert [record.calls for record in shop.changes()] == [("call_1_1",)]


async def test_a_store_that_takes_nothing_holds_up_tools_but_not_commands(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    shop.checkpoints.parent.mkdir(parents=True)
    shop.checkpoints.write_text("in the way")
    script = doing(
        call("Read", file_path="a.txt"),
        call("Write", file_path="a.txt", content="two\n"),
        shell("echo x > n; rm b.txt"),
    )
    provider = ScriptedProvider(script)
    async with shop.session(provider=provider) as session:
        events = await heard(
            session,
            "Go",
        )
    said = [event for event in events if isinstance(event, tugline.CallFinished)]
    assert [event.is_error for event in said] == [False, True, False]
    assert "a.txt was not written: What the file was cannot be kept" in str(provider.requests[2].messages[-1])
    assert (shop.work / "a.txt").read_text() == "one\n"
    assert (shop.work / "n").exists()
    (warning,) = warnings(events)
    assert "cannot be taken back" in warning
    assert shop.changes() == []


@pytest.mark.parametrize("git", ["missing", "hanging", "failing"])
async def test_without_a_git_that_answers_commands_run_and_it_is_said_once(tmp_path: Path, git: str) -> None:
    shop = Workshop(tmp_path, files=FILES)
    bins = tmp_path / "bin"
    bins.mkdir()
    for name in ("bash", "rm"):
        (bins / name).symlink_to(f"/bin/{name}")
    if git != "missing":
        does = "read -t 100 < <(exec /bin/sleep 100)" if git == "hanging" else "echo no; exit 1"
        (bins / "git").write_text(f"#!/bin/bash\n{does}\n")
        (bins / "git").chmod(0o755)
    shop.environ["PATH"] = str(bins)
    settings = {"checkpoints": {"seconds": 0.2}}
    async with shop.session(doing(shell("rm a.txt"), shell("rm b.txt")), settings=settings) as session:
        events = await heard(session, "Go")
        assert len(warnings(events)) == 1
        assert "cannot be taken back" in warnings(events)[0]
        preview = await session.rewind_preview((await session.prompts())[0].id)
        assert (preview.files, preview.covers_commands) == ((), False)
    assert not (shop.work / "b.txt").exists()


async def test_a_content_that_is_gone_or_damaged_is_said_and_the_rest_comes_back(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    async with shop.session(doing(shell("echo x > a.txt; echo x > b.txt; echo x > d/c.txt"))) as session:
        await session.run("Go")
        digests = {one.path: one.before.digest for one in shop.changes()[0].files if one.before}
        (objects,) = shop.checkpoints.glob("*/objects")
        for name, damage in (("a.txt", None), ("b.txt", b"damaged")):
            path = objects / digests[name][:2] / digests[name][2:]
            path.unlink()
            if damage:
                path.write_bytes(damage)
        assert await back(session) == {"a.txt": "lost", "b.txt": "lost", "d/c.txt": "restore"}
        assert (shop.work / "a.txt").read_text() == "x\n"


async def test_a_project_that_was_moved_goes_back_at_its_new_place(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    before = shop.tree()
    async with shop.session(doing(shell("rm b.txt; echo x > a.txt"))) as session:
        await session.run("Go")
    shop.work = shop.work.rename(shop.folder / "moved")
    async with shop.session(resume=shop.transcript.stem) as session:
        await back(session)
    assert shop.tree() == before


async def test_another_folder_gets_nothing_while_the_old_one_is_there(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    before = shop.tree()
    async with shop.session(doing(shell("rm b.txt; echo x > a.txt"))) as session:
        await session.run("Go")
    first, shop.work = shop.work, shop.folder / "other"
    shop.work.mkdir()
    async with shop.session(resume=shop.transcript.stem) as session:
        await back(session)
        assert shop.tree() == {}
    shop.work = first
    assert shop.tree() == before


async def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.txt").write_text("not ours\n")
    async with shop.session(doing(shell("echo x > d/c.txt"))) as session:
        await session.run("Go")
        (shop.work / "d/c.txt").unlink()
        (shop.work / "d").rmdir()
        (shop.work / "d").symlink_to(outside)
        assert await back(session, force=True) == {"d/c.txt": "conflict"}
    assert (outside / "c.txt").read_text() == "not ours\n"


async def test_a_folder_of_somebody_elses_in_a_files_place_is_left_alone(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    async with shop.session(doing(shell("rm a.txt"))) as session:
        await session.run("Go")
        shop.write("a.txt/mine", "mine\n")
        assert await back(session, force=True) == {"a.txt": "conflict"}
    assert (shop.work / "a.txt/mine").read_text() == "mine\n"


async def test_other_names_of_a_file_and_its_mode_stay(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    os.link(shop.work / "a.txt", shop.work / "same")
    (shop.work / "b.txt").chmod(0o440)
    before = shop.tree()
    async with shop.session(doing(shell("echo x > a.txt; rm -f b.txt"))) as session:
        await session.run("Go")
        await back(session)
    assert shop.tree() == before
    assert (shop.work / "a.txt").samefile(shop.work / "same")


async def test_the_model_hears_of_it_with_the_next_prompt_and_reads_again_before_it_edits(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    script = [
        *doing(call("Read", file_path="a.txt"), call("Edit", file_path="a.txt", old_string="one", new_string="two")),
        *doing(call("Edit", file_path="a.txt", old_string="one", new_string="three")),
    ]
    provider = ScriptedProvider(script)
    async with shop.session(provider=provider) as session:
        await session.run("Go")
        await back(session)
    assert len(provider.requests) == 3
    async with shop.session(provider=provider, continue_session=True) as session:
        events = await heard(session, "Again")
    assert "put files back to what they were earlier: a.txt" in str(provider.requests[3].messages[-2:])
    assert [event.is_error for event in events if isinstance(event, tugline.CallFinished)] == [True]
    assert (shop.work / "a.txt").read_text() == "one\n"


async def test_a_rewind_can_be_asked_for_as_a_command_and_is_told_as_events(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    async with shop.session(doing(shell("rm a.txt"))) as session:
        await session.run("Go")
        (prompt,) = await session.prompts()
        events = session.events()
        session.send(Rewind(prompt.id, "both"))
        assert await session.prompts() == ()
        told = [
            event for event in await events.batch() if isinstance(event, tugline.FilesRewound | ConversationRewound)
        ]
        assert [type(event).__name__ for event in told] == ["FilesRewound", "ConversationRewound"]
        assert isinstance(told[0], tugline.FilesRewound)
        assert told[0].files == (FileStep("a.txt", "recreate"),)


async def answers(session: tugline.Session, *words: str) -> list[str]:
    events = await heard(session, *words)
    return [event.text for event in events if isinstance(event, CommandAnswered)]


@pytest.mark.parametrize("git", [True, False])
async def test_the_slash_command_previews_does_and_takes_back(tmp_path: Path, git: bool) -> None:
    shop = Workshop(tmp_path, git=git, files=FILES)
    script = doing(call("Write", file_path="n.txt", content="new\n"), shell("rm a.txt"))
    async with shop.session(script) as session:
        await session.run("Go")
        preview, done, again, undone = await answers(
            session, "/rewind 1 preview", "/rewind 1 files", "/rewind 1 preview", "/rewind undo"
        )
        assert "   delete  n.txt" in preview
        assert ("recreate  a.txt" in preview) == git
        assert ("What shell commands changed is not covered" in preview) == (not git)
        assert "The files are as they were before prompt 1." in done
        assert "No file has to be put back" in again
        assert (shop.work / "n.txt").exists()
        assert not (shop.work / "a.txt").exists()
        assert "taken back" in undone
        for words in ("/rewind 1 all", "/rewind 1 files both", "/rewind undo now"):
            assert (await session.run(words)).reason == "failed"
        shop.write("n.txt", "mine\n")
        (left,) = await answers(session, "/rewind 1 both")
        assert "Not all could be put back" in left
        assert "leave  n.txt: somebody else has changed it" in left
        assert "which was:\n\nGo" in left


async def test_with_checkpoints_off_nothing_is_kept_and_that_is_said(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    async with shop.session(doing(shell("rm a.txt")), settings={"checkpoints": {"enabled": False}}) as session:
        await session.run("Go")
        (prompt,) = await session.prompts()
        with pytest.raises(SessionError, match="checkpoints are switched off"):
            await session.rewind(prompt.id, "files")
    assert not shop.checkpoints.exists()


async def test_nothing_to_take_back_and_unknown_words_are_errors(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    async with shop.session(doing()) as session:
        await session.run("Go")
        (prompt,) = await session.prompts()
        assert await back(session) == {}
        with pytest.raises(SessionError, match="no rewind of files"):
            await session.undo_rewind()
        with pytest.raises(SessionError, match="No prompt"):
            await session.rewind_preview(tugline.MessageId("other"))
        with pytest.raises(tugline.UsageError, match="conversation, files, both"):
            await session.rewind(prompt.id, "all")  # type: ignore[arg-type]


async def test_what_somebody_does_between_turns_is_on_record_as_nobodys(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    script = [*doing(shell("echo x > a.txt")), *doing(call("Write", file_path="n", content=""))]
    async with shop.session(script) as session:
        await session.run("one")
        shop.write("b.txt", "mine\n")
        await session.run("two")
    assert [(record.calls, [one.path for one in record.files]) for record in shop.changes()] == [
        (("call_1_1",), ["a.txt"]), ((), ["b.txt"]), (("call_3_1",), ["n"]),
    ]  # fmt: skip


async def test_what_somebody_does_between_two_commands_is_not_put_down_to_them(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    script = [
        reply(shell("echo x > a.txt")), reply(gate("middle"), shell("echo y > d/c.txt")), reply("Done."),
    ]  # fmt: skip
    provider = ScriptedProvider(script)
    async with shop.session(provider=provider) as session:
        running = asyncio.create_task(session.run("Go"))
        await provider.reached("middle")
        shop.write("b.txt", "mine\n")
        provider.open("middle")
        await running
    assert [(record.calls, [one.path for one in record.files]) for record in shop.changes()] == [
        (("call_1_1",), ["a.txt"]), ((), ["b.txt"]), (("call_2_1",), ["d/c.txt"]),
    ]  # fmt: skip


async def test_no_look_is_taken_before_something_is_changed(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    async with shop.session(doing(call("Read", file_path="a.txt"), shell("cat a.txt"))) as session:
        await session.run("Go")
        assert not shop.checkpoints.exists()


async def test_a_copy_of_a_session_goes_back_too(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, files=FILES)
    before = shop.tree()
    async with shop.session(doing(shell("rm a.txt"))) as session:
        await session.run("Go")
    async with shop.session(continue_session=True, fork_session=True) as session:
        await back(session)
    assert shop.tree() == before
