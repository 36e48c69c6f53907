"""A tool whose changes can be taken back. The tool knows nothing of it: its workspace keeps what it writes over."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from msgspec import structs

from tugline.ports import FileStat, Output, Process, Tool, ToolContext, ToolWrapper, Workspace
from tugline.protocol.ids import CallId
from tugline.protocol.specs import Footprint, PathSubject, Result
from tugline.runtime.checkpoints import Checkpoints


class Checkpointed(ToolWrapper):
    """Does what the tool does. A call that names the files it edits is taken to edit those, through the workspace; of
    any other that changes something, looks at the work tree tell what."""

    def __init__(self, tool: Tool, checkpoints: Checkpoints) -> None:
        super().__init__(tool)
        self._checkpoints = checkpoints

    async def run(self, data: Any, context: ToolContext) -> Result:
        """The tool's result."""
        kept = Keeping(context.workspace, context.call, self._checkpoints)
        inside = structs.replace(context, workspace=kept)
        match self._reach(data):
            case "nothing":
                return await self._tool.run(data, inside)
            case "files":
                await self._checkpoints.before_change()
                return await self._tool.run(data, inside)
            case _:
                async with self._checkpoints.around(context.call):
                    return await self._tool.run(data, inside)

    def _reach(self, data: Any) -> Literal["nothing", "files", "anything"]:
        try:
            if self.footprint(data) != Footprint.CHANGES:
                return "nothing"
            subjects = self.subjects(data)
        except Exception:  # tool boundary: what cannot say what it touches may touch anything
            return "anything"
        return "files" if subjects and all(isinstance(one, PathSubject) for one in subjects) else "anything"


class Keeping:
    """A call's workspace: what it writes over is kept first."""

    def __init__(self, workspace: Workspace, call: CallId, checkpoints: Checkpoints) -> None:
        self.roots = workspace.roots
        self._workspace = workspace
        self._call = call
        self._checkpoints = checkpoints

    def resolve(self, path: str, cwd: str) -> tuple[str, str]:
        """The workspace's."""
        return self._workspace.resolve(path, cwd)

    async def stat(self, path: str) -> FileStat | None:
        """The workspace's."""
        return await self._workspace.stat(path)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> tuple[bytes, FileStat]:
        """The workspace's."""
        return await self._workspace.read(path, offset=offset, limit=limit)

    async def write(self, path: str, data: bytes, *, expect: FileStat | None) -> FileStat:
        """The workspace's, after what is there is kept. `WorkspaceError("full")` where it cannot be."""
        return await self._checkpoints.write(self._workspace, self._call, path, data, expect)

    async def entries(self, path: str) -> Sequence[tuple[str, str]]:
        """The workspace's."""
        return await self._workspace.entries(path)

    def process(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        spill: bool = True,
        report: bool = False,
        keep: int = 15_000,
        on_output: Callable[[Output], None] | None = None,
    ) -> AbstractAsyncContextManager[Process]:
        """The workspace's."""
        return self._workspace.process(
            argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout, spill=spill, report=report, keep=keep,
            on_output=on_output,
        )  # fmt: skip
