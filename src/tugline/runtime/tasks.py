"""Tasks: work that goes on whether or not somebody waits for it.

A call that may be let go of runs its work here, in a task group of its agent's, and only waits for it. To let go of it
is to end the wait: the work is not moved, restarted or copied. `TaskTable` knows all tasks of a session, `Tasks` are
those of one agent, which end with it.
"""

import os
import traceback
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup
from msgspec import structs

from tugline.loop.executor import Gear, innermost
from tugline.loop.inbox import Letter
from tugline.ports import Ids, TaskEnd, ToolContext, Work
from tugline.protocol.blocks import Text
from tugline.protocol.errors import ToolError
from tugline.protocol.events import Crashed, TaskFinished, TaskProgress, TaskStarted
from tugline.protocol.ids import MessageId, TaskId
from tugline.protocol.specs import Display, Progress, Result
from tugline.protocol.tasks import Released, Task, TaskKind
from tugline.rules import tasks as wording
from tugline.rules.wording import sound

KEPT = 50
"""Tasks that are over and can still be looked at."""
LISTED_AFTER = 2.0
"""Seconds after which work in the foreground stands in the list."""
NEWS = 20_000
"""Characters of new output that one look gives."""
LINES = 50
"""Lines of a monitor that one letter tells."""
SUMMARY = 2_000
"""Characters of a result that are told with a task's end."""
STOP_LIMIT = 5.0
"""Seconds that a stopped task may take to end before nobody waits for it."""


class LiveTask:
    """A task of this process, and the tether of its work."""

    def __init__(self, task: Task, tasks: "Tasks", context: ToolContext) -> None:
        self.now = task
        self.tasks = tasks
        self.over = anyio.Event()
        self.settled = anyio.Event()
        """Set when it is over, or nobody has to wait any more."""
        self.underway = anyio.Event()
        """Set when the work has begun in earnest, or will not."""
        self.end: TaskEnd | None = None
        self.error: Exception | None = None
        self.scope = anyio.CancelScope()
        self.watchers = 0
        self.read_to = 0
        self.letter = MessageId("")
        self.lines: list[str] = []
        self.left_out = 0
        self._context = context
        self._on_release: Callable[[], str] = lambda: ""
        self._wish: Released = ""

    # -- what the work sees

    @property
    def task(self) -> TaskId:
        """Its id."""
        return self.now.id

    @property
    def released(self) -> bool:
        """Whether nobody waits any more."""
        return self.now.released != ""

    def begun(self, on_release: Callable[[], str]) -> None:
        """It is under way."""
        self._on_release = on_release
        self.underway.set()
        if self._wish:
            self.release(self._wish)

    def report(self, progress: Progress) -> None:
        """To the call while somebody waits for it, else as the task's own."""
        if not self.released:
            self._context.report(progress)
        elif not self.now.over:
            said = structs.replace(progress, text=sound(progress.text))
            self.tasks.gear.voice.say(TaskProgress, task=self.task, progress=said)

    def release(self, why: Released) -> bool:
        """Let whoever waits go."""
        if not self.tasks.enabled or self.released or self.over.is_set():
            return False
        if not self.underway.is_set():
            self._wish = why  # as soon as there is something to let go of
            return True
        self.now = structs.replace(self.now, released=why, output=self._on_release())
        self.tasks.note_release(self)
        self.settled.set()
        return True

    def finish(self) -> None:
        """It has come to its end."""
        end = self.end
        if end is not None:
            state, summary = end.state, end.summary
        elif self.error is not None:
            state, summary = "failed", f"{type(self.error).__name__}: {self.error}"[:SUMMARY]
        else:
            state, summary = "killed", ""
        self.now = structs.replace(
            self.now,
            state=state,
            summary=sound(summary)[:SUMMARY],
            exit_code=None if end is None else end.exit_code,
            ended=self.tasks.gear.clock.time(),
        )
        self.over.set()
        self.underway.set()
        self.settled.set()


class TaskTable:
    """All tasks of a session, of the main agent and of its children."""

    def __init__(self) -> None:
        self._live: dict[TaskId, LiveTask] = {}

    def find(self, task: str) -> LiveTask | None:
        """The task of that id."""
        return self._live.get(TaskId(task))

    def all(self) -> tuple[LiveTask, ...]:
        """Every one, oldest first."""
        return tuple(self._live.values())

    def add(self, live: LiveTask) -> None:
        """A task more; those that have long been over are forgotten."""
        self._live[live.task] = live
        over = [known for known in self._live.values() if known.over.is_set() and not known.watchers]
        for known in over[: max(0, len(over) - KEPT)]:
            del self._live[known.task]

    def drop(self, live: LiveTask) -> None:
        """Its caller had its result: there is nothing left to look at."""
        self._live.pop(live.task, None)

    def release(self, task: TaskId | None = None) -> tuple[Task, ...]:
        """Let go of what the main agent waits for, or of that task; which those were. Commands first: whoever waits
        for an agent waits for its commands too."""
        waiting = [live for live in self._live.values() if task in (None, live.task) and live.tasks.waited_for]
        waiting.sort(key=lambda live: live.now.kind != "local_bash")
        return tuple(live.now for live in waiting if live.release("user"))


class Tasks:
    """The tasks of one agent. Enter it; leaving it ends what runs.

    `waited_for` says whether the main agent waits for whatever this agent does in the foreground.
    """

    def __init__(
        self,
        table: TaskTable,
        ids: Ids,
        *,
        enabled: bool = True,
        grace: float = 0.0,
        waited_for: Callable[[], bool] = lambda: True,
    ) -> None:
        self.table = table
        self.enabled = enabled
        self.grace = grace
        """Seconds that commands in the background get to end once a headless run has its answer."""
        self._ids = ids
        self._waited_for = waited_for
        self._gear: Gear | None = None
        self._group: TaskGroup | None = None

    def serve(self, gear: Gear) -> None:
        """Whose tasks these are: said once, as its tools are made before it. What an earlier process has left untold is
        told with the next prompt."""
        self._gear = gear
        for task in tuple(gear.transcript.tasks.values()):
            if not task.over:
                task = structs.replace(task, state="killed", summary=wording.LOST)
                gear.transcript.task_ended(task)
            gear.inbox.put(Letter((Text(wording.ended(task)),), id=wording.told_id(task.id)))

    @property
    def gear(self) -> Gear:
        """What the agent works with."""
        assert self._gear is not None, "serve() comes first"
        return self._gear

    @property
    def waited_for(self) -> bool:
        """Whether the main agent waits for what runs in the foreground here."""
        return self._waited_for()

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)

    # -- TaskRunner

    async def run(
        self, work: Work, context: ToolContext, *, kind: TaskKind, description: str, background: bool = False
    ) -> Result:
        """The work's own result, or that it goes on."""
        assert self._group is not None, "tasks run inside `async with`"
        identity = TaskId(self._ids.new("task"))
        described = sound(" ".join(description.split()))[:200]
        task = Task(
            id=identity,
            kind=kind,
            owner=context.agent,
            description=described,
            started=self.gear.clock.time(),
            call=context.call,
        )
        live = LiveTask(task, self, context)
        self.table.add(live)
        self._group.start_soon(self._live, live, work)
        try:
            if background:
                await live.underway.wait()
                live.release("asked")
            await live.settled.wait()
        except anyio.get_cancelled_exc_class():
            if not live.released:
                live.scope.cancel()
                with anyio.CancelScope(shield=True):
                    await live.over.wait()
                self.table.drop(live)
            raise
        if live.released:
            text = wording.launched(live.now)
            return Result(text, Display(f"Runs in the background as {live.task}"))
        self.table.drop(live)
        if live.error is not None:
            raise live.error
        assert live.end is not None, "work ends with a result, an error, or because its call was cancelled"
        return live.end.result

    async def _live(self, live: LiveTask, work: Work) -> None:
        try:
            with live.scope:
                live.end = await work(live)
        except Exception as error:  # tool boundary: raised again where somebody waits, told where nobody does
            cause = innermost(error)
            live.error = cause if isinstance(cause, Exception) else error
        finally:
            live.finish()
            if live.released:
                self._tell_end(live)

    # -- what is told

    def note_release(self, live: LiveTask) -> None:
        """Nobody waits for it any more."""
        self.gear.transcript.task_released(live.now)
        self.gear.voice.say(TaskStarted, task=live.now)

    def _tell_end(self, live: LiveTask) -> None:
        if live.error is not None and not isinstance(live.error, ToolError):
            trace = "".join(traceback.format_exception(live.error))[-20_000:]
            said = f"{type(live.error).__name__}: {live.error}"[:2_000]
            self.gear.voice.say(Crashed, where=f"task {live.task}", error=said, traceback=trace)
        self.gear.transcript.task_ended(live.now)
        self.gear.voice.say(TaskFinished, task=live.now)
        if not live.watchers:
            self._send(live)

    def _send(self, live: LiveTask) -> None:
        letter = Letter((Text(wording.ended(live.now)),), id=wording.told_id(live.task))
        self.gear.inbox.put(letter, ring=True)

    def tell_lines(self, task: TaskId | str, lines: list[str], left_out: int) -> None:
        """New lines of a monitor. Those that the model has not been told yet are told with them: a letter per monitor
        waits at the most."""
        live = self._known(TaskId(task))
        waiting = self.gear.inbox.find(live.letter)
        if waiting is not None and self.gear.inbox.take_back(waiting):
            lines, left_out = [*live.lines, *lines], left_out + live.left_out
        live.lines, live.left_out = lines[-LINES:], left_out + max(0, len(lines) - LINES)
        live.letter = self._ids.message()
        text = wording.heard(live.now, live.lines, live.left_out)
        self.gear.inbox.put(Letter((Text(text),), id=live.letter), ring=True)

    # -- TaskDesk

    def find(self, task: str) -> Task | None:
        """The task of that id."""
        live = self.table.find(task)
        return None if live is None else live.now

    async def rest(self, kinds: Collection[TaskKind], seconds: float) -> None:
        """Until no task of these kinds runs in the background any more, or that long."""
        with anyio.move_on_after(seconds):
            for live in self.table.all():
                if live.released and live.now.kind in kinds:
                    await live.over.wait()

    def all(self) -> tuple[Task, ...]:
        """Those that can be looked at: also what has run for some seconds while somebody waits."""
        now = self.gear.clock.time()
        return tuple(live.now for live in self.table.all() if live.released or now - live.now.started >= LISTED_AFTER)

    async def wait(self, task: TaskId, seconds: float) -> Task:
        """Until it is over, or that long."""
        live = self._known(task)
        live.watchers += 1
        seen = False
        try:
            with anyio.move_on_after(seconds):
                await live.over.wait()
            seen = live.over.is_set()
        finally:
            live.watchers -= 1
            if live.over.is_set() and live.released:
                self._settle(live, seen=seen)
        return live.now

    def _settle(self, live: LiveTask, *, seen: bool) -> None:
        """The end of a task is told once: by the look that saw it, or by a letter."""
        owner = live.tasks.gear
        letter = owner.inbox.find(wording.told_id(live.task))
        if seen:
            if letter is not None:
                owner.inbox.take_back(letter)
            owner.transcript.task_told(live.task)
        elif not live.watchers and live.task in owner.transcript.tasks and letter is None:
            self._send(live)

    def news(self, task: TaskId) -> str:
        """What it has said since the last look; of much the end."""
        live = self._known(task)
        if not live.now.output:
            return ""
        try:
            with open(live.now.output, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                start = max(live.read_to, size - NEWS)
                file.seek(start)
                data = file.read(NEWS)
        except OSError as error:
            return f"[its output cannot be read: {error.strerror}]"
        left_out = start - live.read_to
        live.read_to = start + len(data)
        text = data.decode("utf-8", "replace")
        return f"[{left_out} bytes left out]\n{text}" if left_out else text

    async def stop(self, task: TaskId) -> Task:
        """End it; the caller is told by that, and the owner by nothing else."""
        live = self._known(task)
        live.watchers += 1
        try:
            return await self.end(task)
        finally:
            live.watchers -= 1
            if live.over.is_set() and live.released:
                self._settle(live, seen=True)

    async def end(self, task: TaskId) -> Task:
        """End it, and let its owner be told."""
        live = self._known(task)
        live.scope.cancel()
        with anyio.move_on_after(STOP_LIMIT):
            await live.over.wait()
        return live.now

    def _known(self, task: TaskId) -> LiveTask:
        live = self.table.find(task)
        if live is None:
            raise ToolError(f"There is no task {task[:100]!r}.")
        return live
