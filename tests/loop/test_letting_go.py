"""Work that is let go of at every moment in turn."""

from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct
from stage import OpenGate, Stage, assert_valid, results, texts

from tugline.loop.turn import Turn
from tugline.ports import TaskEnd, TaskRunner, Tether, ToolContext
from tugline.protocol.blocks import Text, ToolResult
from tugline.protocol.events import TaskFinished, TaskStarted
from tugline.protocol.messages import User
from tugline.protocol.specs import Footprint, Result
from tugline.runtime.tasks import Tasks, TaskTable
from tugline.testing import ScriptedProvider, SequentialIds, call, reply
from tugline.tools.define import BuiltinTool

PIECES = 6


class WritesInput(Struct, frozen=True):
    """What it writes."""

    name: str


class Writes(BuiltinTool[WritesInput]):
    """Writes to a file, piece by piece, and waits between."""

    name = "writes"
    input = WritesInput
    description = "Writes."

    def __init__(self, tasks: TaskRunner, folder: Path) -> None:
        super().__init__()
        self.tasks = tasks
        self.folder = folder

    def footprint(self, data: WritesInput) -> Footprint:
        return Footprint.READS

    async def run(self, data: WritesInput, context: ToolContext) -> Result:
        async def work(tether: Tether) -> TaskEnd:
            path = self.folder / data.name
            await anyio.lowlevel.checkpoint()
            tether.begun(lambda: str(path))
            for piece in range(PIECES):
                with path.open("a") as file:
                    file.write(f"{piece}\n")
                await anyio.lowlevel.checkpoint()
            return TaskEnd(Result(path.read_text()), "completed", "all written", 0)

        return await self.tasks.run(work, context, kind="local_bash", description=data.name)


class Scene:
    """A turn whose two calls write; and all that became of it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.table = TaskTable()
        self.tasks = Tasks(self.table, SequentialIds())
        script = [reply("I write.", call("writes", name="a"), call("writes", name="b"))]
        script += [reply(f"So be it {n}.") for n in range(3)]
        self.provider = ScriptedProvider(script, strict=False)
        self.stage = Stage(self.provider, tools=[Writes(self.tasks, folder)], gate=OpenGate())
        self.tasks.serve(self.stage.gear)

    async def play(self, moment: int, act: Any) -> None:
        """Run a turn, do `act` after so many moments, and let everything come to rest."""
        async with self.tasks:
            turn = self.stage.turn()
            async with anyio.create_task_group() as group:
                group.start_soon(turn.run)
                for _ in range(moment):
                    await anyio.lowlevel.checkpoint()
                act(self, turn)
            for live in self.table.all():
                await live.over.wait()
            await anyio.lowlevel.checkpoint()
            if self.stage.inbox:
                await Turn(self.stage.agent, User(self.stage.ids.message(), (Text("And?"),))).run()

    def outcome(self, name: str) -> str:
        """How the writing of `name` was told: by its result, or by the word that it goes on and one of its end."""
        found: list[ToolResult] = [result for message in self.stage.messages for result in results(message)]
        (result,) = [result for result in found if result.tool_use_id.endswith("1" if name == "a" else "2")]
        text = result.content if isinstance(result.content, str) else ""
        whole = "".join(f"{piece}\n" for piece in range(PIECES))
        told = [
            message
            for message in self.stage.messages
            if "<task-notification>" in texts(message) and f"'{name}'" in texts(message)
        ]
        if text == whole:
            assert told == []
            return "result"
        assert "goes on in the background" in text
        assert len(told) == 1
        assert "all written" in texts(told[0])
        return "told"


async def test_work_let_go_of_at_any_await_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    ways = []
    for moment in range(400):
        scene = Scene(tmp_path / str(moment))
        let_go: list[int] = []
        await scene.play(moment, lambda scene, turn, let_go=let_go: let_go.append(len(scene.table.release())))
        assert_valid(scene.stage.messages)
        whole = "".join(f"{piece}\n" for piece in range(PIECES))
        assert [(scene.folder / name).read_text() for name in "ab"] == [whole, whole]
        ways.append((scene.outcome("a"), scene.outcome("b")))
        told = [way for way in ways[-1] if way == "told"]
        assert len(told) == let_go[0]
        assert len(scene.stage.said(TaskStarted)) == len(scene.stage.said(TaskFinished)) == len(told)
        assert not scene.stage.transcript.tasks
        if moment > 20 and let_go == [0]:
            break
    assert ("told", "told") in ways
    assert ways[-1] == ("result", "result")


async def test_an_interrupt_at_any_await_ends_what_is_waited_for(tmp_path: Path) -> None:
    for moment in range(400):
        scene = Scene(tmp_path / str(moment))
        await scene.play(moment, lambda scene, turn: turn.interrupt())
        assert_valid(scene.stage.messages)
        assert scene.table.all() == ()
        assert scene.stage.said(TaskFinished) == []
        if any("So be it 0" in texts(message) for message in scene.stage.messages):
            break
    assert moment > 20
