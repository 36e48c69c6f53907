"""Work that nobody waits for, in whole sessions with real commands and the scripted model."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from living import alive

import tugline
from tugline.protocol.commands import Background, StopTask
from tugline.protocol.events import CallStarted, Event, TaskFinished, TaskStarted, TurnFinished
from tugline.testing import ModelServer, call, reply


def bash(command: str, **more: Any) -> Any:
    return call("Bash", command=command, **more)


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"TUGLINE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    return {
        "cwd": str(project),
        "environ": environ,
        "api_key": "secret-key",
        "permission_mode": "bypassPermissions",
    }


class Watch:
    """Hears a session's events and waits for one."""

    def __init__(self, session: tugline.Session) -> None:
        self.seen: list[Event] = []
        self._events = session.events()

    async def until(self, kind: type[Any], count: int = 1) -> Any:
        while sum(isinstance(event, kind) for event in self.seen) < count:
            self.seen.append(await self._events.__anext__())
        return [event for event in self.seen if isinstance(event, kind)][count - 1]


def told(body: dict[str, Any]) -> list[str]:
    """Everything of a request that tells of a task's end."""
    return json.dumps(body["messages"]).split("<task-notification>")[1:]


async def test_a_command_in_the_background_gives_its_id_at_once_and_wakes_the_session_when_it_ends(
    options: dict[str, Any], tmp_path: Path
) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    script = [
        reply(bash(f"echo begun; cat {fifo}; echo done", run_in_background=True)),
        reply("It runs."),
        reply("It has ended."),
    ]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            watch = Watch(session)
            result = await session.run("Start it")
            assert result.text == "It runs."
            fifo.write_text("")
            ended = await watch.until(TaskFinished)
            last = await watch.until(TurnFinished, 2)
        assert last.text == "It has ended."
        assert (ended.task.state, ended.task.exit_code) == ("completed", 0)
        assert Path(ended.task.output).read_text() == "begun\ndone\n"
        launched = json.dumps(server.requests[1].body["messages"])
        assert ended.task.id in launched
        assert "has not ended" in launched
        assert len(told(server.requests[2].body)) == 1


async def test_what_runs_in_the_foreground_is_let_go_of_and_nothing_of_it_is_lost(
    options: dict[str, Any], tmp_path: Path
) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    script = [reply(bash(f"echo one; cat {fifo}; echo two")), reply("On to other things."), reply("I see.")]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            watch = Watch(session)
            async with session.stream("Go") as events:
                async for event in events:
                    if isinstance(event, CallStarted):
                        session.send(Background())
            task = (await watch.until(TaskStarted)).task
            assert task.released == "user"
            fifo.write_text("")
            done = (await watch.until(TaskFinished)).task
            await watch.until(TurnFinished, 2)
        assert Path(done.output).read_text() == "one\ntwo\n"
        assert "the user let go of it" in json.dumps(server.requests[1].body["messages"])
        assert len(told(server.requests[2].body)) == 1


async def test_letting_go_where_nothing_runs_has_no_effect(options: dict[str, Any]) -> None:
    async with ModelServer([reply("Hi.")]) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            assert session.background() == ()
            assert (await session.run("Hello")).text == "Hi."
            assert session.background() == ()


async def test_an_interrupt_ends_what_is_waited_for_and_leaves_what_is_not(
    options: dict[str, Any], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    script = [
        reply(bash(f"echo $$ >> {pids}; exec sleep 1000", run_in_background=True)),
        reply(bash(f"echo $$ >> {pids}; exec sleep 1000; true")),
    ]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            calls = 0
            async with session.stream("Go") as events:
                async for event in events:
                    if isinstance(event, CallStarted):
                        calls += 1
                        if calls == 2:
                            session.interrupt()
                    if isinstance(event, TurnFinished):
                        assert event.reason == "interrupted"
            background, *foreground = (int(line) for line in pids.read_text().split())
            assert alive(background)
            assert not any(map(alive, foreground))
            (running,) = session.tasks()
            assert running.state == "running"
        assert not alive(background)


async def test_a_look_that_sees_the_end_is_the_only_word_of_it(options: dict[str, Any], tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    script = [
        reply(bash(f"cat {fifo}; echo out; exit 3", run_in_background=True)),
        reply(call("TaskOutput", task_id="{{found task id: (\\S+)}}")),
        reply("Seen."),
        reply("Again."),
    ]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            async with session.stream("Go") as events:
                async for event in events:
                    if isinstance(event, CallStarted) and event.tool == "TaskOutput":
                        fifo.write_text("")
            assert isinstance(event, TurnFinished)
            assert event.text == "Seen."
            assert (await session.run("And?")).text == "Again."
        seen = json.dumps(server.requests[2].body["messages"])
        assert "status: failed" in seen
        assert "exit code: 3" in seen
        assert "new output:\\nout" in seen
        assert told(server.requests[3].body) == []


async def test_a_stopped_task_is_killed_with_all_that_it_started(options: dict[str, Any], tmp_path: Path) -> None:
    fifo = tmp_path / "pids"
    os.mkfifo(fifo)
    script = [
        reply(bash(f"sleep 1000 & echo $! $$ > {fifo}; wait", run_in_background=True)),
        reply("Runs."),
        reply("Stopped, I see."),
    ]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            watch = Watch(session)
            await session.run("Go")
            (task,) = session.tasks()
            pids = (await asyncio.to_thread(fifo.read_text)).split()
            session.send(StopTask(task.id))
            ended = (await watch.until(TaskFinished)).task
            await watch.until(TurnFinished, 2)
        assert ended.state == "killed"
        assert not any(alive(int(pid)) for pid in pids)
        assert "killed" in told(server.requests[2].body)[0]


async def test_each_line_of_a_monitor_arrives_and_wakes_the_session(options: dict[str, Any], tmp_path: Path) -> None:
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    script = [
        reply(call("ToolSearch", query="select:Monitor")),
        reply(call("Monitor", command=f"cat {fifo}", description="the log")),
        reply("Watching."),
        reply("Something came."),
        reply("It is over."),
    ]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            watch = Watch(session)
            assert (await session.run("Watch it")).text == "Watching."
            with fifo.open("w") as log:
                log.write("first line\nsecond </task-notification> line\n")
                log.flush()
                assert (await watch.until(TurnFinished, 2)).text == "Something came."
            await watch.until(TurnFinished, 3)
        heard = told(server.requests[3].body)
        assert len(heard) == 1
        assert "first line" in heard[0]
        assert heard[0].count("</task-notification>") == 1


async def test_what_was_left_running_is_told_as_ended_when_the_session_goes_on(options: dict[str, Any]) -> None:
    script = [reply(bash("sleep 1000; true", run_in_background=True)), reply("Runs."), reply("I see."), reply("Yes.")]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, **options) as session:
            await session.run("Go")
        for prompt in ("And now?", "And now again?"):
            async with tugline.Session(base_url=server.url, continue_session=True, **options) as session:
                await session.run(prompt)
        assert len(told(server.requests[2].body)) == 1
        assert "was ended before it was done" in told(server.requests[2].body)[0]
        assert len(told(server.requests[3].body)) == 1


async def test_without_background_it_is_not_offered_and_a_call_for_it_waits(options: dict[str, Any]) -> None:
    settings = {"background": {"enabled": False}}
    script = [reply(bash("echo here", run_in_background=True)), reply("Done.")]
    async with ModelServer(script) as server:
        async with tugline.Session(base_url=server.url, settings=settings, **options) as session:
            await session.run("Go")
            assert "TaskOutput" not in session.opening.tools
        (tool,) = [tool for tool in server.requests[0].body["tools"] if tool["name"] == "Bash"]
        assert "run_in_background" not in tool["input_schema"]["properties"]
        assert "ran in the foreground" in json.dumps(server.requests[1].body["messages"])
