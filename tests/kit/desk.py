"""A desk for tools: a folder, a workspace over it, and an agent's state that their results change."""

import os
from pathlib import Path
from typing import Any

from tugline.ports import Tool, ToolContext, Workspace
from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.ids import AgentId, CallId
from tugline.protocol.specs import AgentState, ModelCard, Progress, Result
from tugline.rules.state import apply
from tugline.workspaces.local import LocalWorkspace

ENVIRONMENT = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


class Desk:
    """Calls tools one after the other, as an executor does."""

    def __init__(self, root: Path, *, workspace: Workspace | None = None, **card: Any) -> None:
        self.root = Path(os.path.realpath(root))
        self.state = AgentState(str(self.root))
        self.model = ModelCard(name="test", **card)
        self.workspace = workspace or LocalWorkspace([str(self.root)], environment=ENVIRONMENT)
        self.progress: list[Progress] = []

    def file(self, name: str, content: str | bytes = "") -> Path:
        """Put a file there, with its folders."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def context(self) -> ToolContext:
        """What the next call gets to see."""
        return ToolContext(
            CallId("call"), AgentId("main"), self.state, self.workspace, self.model, self.progress.append
        )

    async def call(self, tool: Tool, **data: Any) -> Result:
        """Run a call and apply what it changes."""
        result = await tool.run(tool.parse(data), self.context())
        self.state = apply(self.state, result.changes)
        return result

    async def text(self, tool: Tool, **data: Any) -> str:
        """The same, for results that are plain text."""
        result = await self.call(tool, **data)
        assert isinstance(result.for_model, str)
        return result.for_model

    async def blocks(self, tool: Tool, **data: Any) -> tuple[Text | Image | Document, ...]:
        """The same, for results made of blocks."""
        result = await self.call(tool, **data)
        assert isinstance(result.for_model, tuple)
        return result.for_model
