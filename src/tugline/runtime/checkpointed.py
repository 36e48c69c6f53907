"""A tool whose changes can be taken back. The tool knows nothing of it: its workspace keeps what it writes over."""

from typing import Any, Literal

from msgspec import structs

from tugline.ports import FileStat, Tool, ToolContext, ToolWrapper, Workspace
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
        if self.footprint(data) != Footprint.CHANGES:
            return "nothing"
        subjects = self.subjects(data)
        return "files" if subjects and all(isinstance(one, PathSubject) for one in subjects) else "anything"


class Keeping:
    """A call's workspace: what it writes over is kept first. All else is the workspace's own."""

    def __init__(self, workspace: Workspace, call: CallId, checkpoints: Checkpoints) -> None:
        self.roots = workspace.roots
        self.resolve = workspace.resolve
        self.stat = workspace.stat
        self.read = workspace.read
        self.entries = workspace.entries
        self.process = workspace.process
        self._workspace = workspace
        self._call = call
        self._checkpoints = checkpoints

    async def write(self, path: str, data: bytes, *, expect: FileStat | None) -> FileStat:
        """The workspace's, after what is there is kept. `WorkspaceError("full")` where it cannot be."""
        return await self._checkpoints.write(self._workspace, self._call, path, data, expect)
