"""The workspace in the sandbox passes the suite of all workspaces."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from sandboxing import FixedHosts, cell, needs_sandbox

from tugline.ports import Confinement, Process, Workspace
from tugline.testing.conformance import WorkspaceConformance
from tugline.workspaces.sandbox import SandboxWorkspace


class Confined(SandboxWorkspace):
    """All of its processes are confined, also those of which nothing is said."""

    def process(self, argv: Any, **how: Any) -> AbstractAsyncContextManager[Process]:
        return super().process(argv, **{"confine": Confinement(), **how})


@asynccontextmanager
async def confined(*hosts: str) -> AsyncIterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder:
        async with cell(Path(folder), FixedHosts(*hosts) if hosts else None) as made:
            yield Confined(made.workspace.roots, made.sandbox)


@needs_sandbox
class TestSandboxWorkspace(WorkspaceConformance):
    def workspace(self) -> AbstractAsyncContextManager[Workspace]:
        return confined()


@needs_sandbox
class TestSandboxWorkspaceWithNetwork(WorkspaceConformance):
    def workspace(self) -> AbstractAsyncContextManager[Workspace]:
        return confined("example.com")
