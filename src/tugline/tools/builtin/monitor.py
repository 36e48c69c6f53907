"""Monitor: a command whose lines of output arrive as notifications."""

import os
from collections import deque
from collections.abc import Callable
from typing import Annotated

import anyio
from msgspec import Meta, Struct

from tugline.ports import Confinement, Output, TaskEnd, TaskRunner, Tether, ToolContext, WorkspaceError
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import CommandSubject, Footprint, Progress, Result, Subject
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.plain import plain_text
from tugline.tools.shell_argv import shell_argv

DEFAULT_TIMEOUT = 300_000
MAX_TIMEOUT = 3_600_000
LINES = 50
"""Lines that are told at a time; of more the last ones."""
LINE = 500
"""Characters of a line."""
PIECE = 1 << 20
"""Bytes of new output that are looked at, at a time."""


class MonitorInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says."""

    command: Annotated[str, Meta(description="The command; each line that it prints is told", min_length=1)]
    description: Annotated[str, Meta(description="What is watched, in a few words", min_length=1)]
    timeout: Annotated[float, Meta(description="Milliseconds after which it ends", gt=0, le=MAX_TIMEOUT)] = (
        DEFAULT_TIMEOUT
    )
    persistent: Annotated[bool, Meta(description="No time limit: until the session ends or TaskStop")] = False


Tell = Callable[[str, list[str], int], None]
"""Tells the agent of new lines of a task, and of how many were left out before them."""


class Monitor(BuiltinTool[MonitorInput]):
    """Starts watching commands as `tasks`; what they print goes to `tell`."""

    name = "Monitor"
    input = MonitorInput
    family = "shell"
    deferred = True

    def __init__(self, tasks: TaskRunner, tell: Tell) -> None:
        super().__init__()
        self._tasks = tasks
        self._tell = tell

    def footprint(self, data: MonitorInput) -> Footprint:
        """As any command that nothing is known of."""
        return Footprint.CHANGES

    def subjects(self, data: MonitorInput) -> tuple[Subject, ...]:
        """The command as it will run."""
        return (CommandSubject(data.command),)

    def title(self, data: MonitorInput) -> str:
        """What is watched."""
        return cut_line(plain_text(f"{data.description}: {data.command}"))

    async def run(self, data: MonitorInput, context: ToolContext) -> Result:
        """Begin to watch."""

        async def work(tether: Tether) -> TaskEnd:
            return await self._watch(data, context, tether)

        return await self._tasks.run(work, context, kind="monitor", description=data.description, background=True)

    async def _watch(self, data: MonitorInput, context: ToolContext, tether: Tether) -> TaskEnd:
        seconds = None if data.persistent else data.timeout / 1000
        lines = _NewLines(lambda found, left_out: self._tell(tether.task, found, left_out))

        def hear(output: Output) -> None:
            lines.read()
            tether.report(Progress(text=lines.last, lines=output.lines, bytes=output.size))

        status = None
        try:
            async with context.workspace.process(
                shell_argv(data.command),
                cwd=context.state.cwd,
                report=True,
                on_output=hear,
                confine=Confinement(context.call),
            ) as process:
                path = lines.path = process.unbound() or ""
                if not path:
                    raise ToolError("There is no place to keep what the command prints.")
                tether.begun(lambda: path)
                with anyio.move_on_after(seconds):
                    status = (await process.wait()).status
        except WorkspaceError as error:
            raise ToolError(str(error)) from None
        lines.read(last=True)
        if status is None:
            text = f"Its time limit of {seconds:g} s has ended it; start it anew if it is still needed."
            return TaskEnd(Result(text), "completed", text)
        return TaskEnd(Result(f"exit code {status}"), "completed" if status == 0 else "failed", "", status)


class _NewLines:
    """Reads the lines that a growing file has got, and tells them."""

    def __init__(self, tell: Callable[[list[str], int], None]) -> None:
        self.path = ""
        self.last = ""
        self._tell = tell
        self._offset = 0
        self._rest = b""

    def read(self, *, last: bool = False) -> None:
        """Tell what is new; of an unfinished line only at the very end."""
        if not self.path:
            return
        try:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                skipped = max(0, size - self._offset - PIECE)
                file.seek(self._offset + skipped)
                data = file.read(PIECE)
        except OSError:
            return  # the file is there until the session's folder goes
        self._offset += skipped + len(data)
        data = (b"" if skipped else self._rest) + data
        whole, newline, self._rest = data.rpartition(b"\n")
        found = [line for line in whole.split(b"\n") if line.strip()] if newline else []
        if last and self._rest.strip():
            found.append(self._rest)
        if not found:
            return
        shown = deque((cut_line(plain_text(line.decode("utf-8", "replace")), LINE) for line in found), maxlen=LINES)
        self.last = shown[-1]
        self._tell(list(shown), len(found) - len(shown))
