"""Commands that outlive their program by no more than a moment."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from command import Desk
from living import alive

from tugline.testing import ModelServer, call, reply


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "work").mkdir()
    return Desk(
        tmp_path,
        {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "TUGLINE_HOME": str(tmp_path / "state"),
            "ANTHROPIC_API_KEY": "canary",
        },
    )


BYPASS = ("-p", "--permission-mode", "bypassPermissions")


@pytest.mark.parametrize("background", [False, True])
async def test_what_a_killed_run_left_is_ended_by_the_next_start(desk: Desk, background: bool) -> None:
    fifo = desk.folder / "pids"
    os.mkfifo(fifo)
    command = f"setsid sleep 1000 & echo $! $$ > {fifo}; wait"
    script = [reply(call("Bash", command=command, run_in_background=background)), reply("Runs."), reply("Hi.")]
    async with ModelServer(script, lenient=True) as server:
        env = {"ANTHROPIC_BASE_URL": server.url}
        process = await desk.start(*BYPASS, "Go", env=env)
        pids = [int(pid) for pid in (await asyncio.to_thread(fifo.read_text)).split()]
        process.send_signal(signal.SIGKILL)
        await process.wait()
        assert all(map(alive, pids))
        ended = await desk.run("-p", "Hello", env=env)
    assert ended.code == 0
    assert "1 command was still running" in ended.err
    assert not any(map(alive, pids))


async def test_a_living_session_keeps_its_commands_when_another_one_starts(desk: Desk) -> None:
    fifo = desk.folder / "pids"
    os.mkfifo(fifo)
    script = [reply(call("Bash", command=f"echo $$ > {fifo}; exec sleep 1000")), reply("Hi."), reply("Done.")]
    async with ModelServer(script, lenient=True) as server:
        env = {"ANTHROPIC_BASE_URL": server.url}
        process = await desk.start(*BYPASS, "Go", env=env)
        pid = int(await asyncio.to_thread(fifo.read_text))
        other = await desk.run("-p", "Hello", env=env)
        assert (other.code, other.out.strip()) == (0, "Hi.")
        assert alive(pid)
        process.send_signal(signal.SIGTERM)
        await desk.end(process)
    assert not alive(pid)
    assert not list((desk.folder / "state").rglob("processes/*.roster"))


async def test_a_headless_run_gives_commands_in_the_background_a_moment_and_then_ends_them(desk: Desk) -> None:
    done = desk.cwd / "done"
    script = [
        reply(
            call("Bash", command=f"sleep 0.3; touch {done}", run_in_background=True),
            call("Bash", command="echo $$ > pid; exec sleep 1000", run_in_background=True),
        ),
        reply("Both run."),
    ]
    async with ModelServer(script) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "TUGLINE_BACKGROUND_SHELL_GRACE": "1.5"}
        ended = await desk.run(*BYPASS, "Go", env=env)
    assert (ended.code, ended.out.strip()) == (0, "Both run.")
    assert done.exists()
    assert not alive(int((desk.cwd / "pid").read_text()))


def test_a_roster_of_another_start_of_the_machine_ends_nothing(tmp_path: Path) -> None:
    from tugline.workspaces.descendants import start_time
    from tugline.workspaces.roster import reap

    me = os.getpid()
    roster = tmp_path / "1-ab.roster"
    entry = f'{{"pid": {me}, "start": {start_time(me)}, "mark": "0123456789abcdef"}}\n'
    roster.write_text('{"boot": "another one"}\n' + entry + "{broken\n")
    (tmp_path / "2-cd.roster").write_bytes(b"\0\xff not a roster")
    (tmp_path / "3-ef.roster").symlink_to("/etc/passwd")
    assert reap(str(tmp_path)) == 0
    assert not roster.exists()
