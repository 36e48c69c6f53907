"""The local workspace passes the suite that we give to others."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from tugline.ports import Workspace
from tugline.testing.conformance import WorkspaceConformance
from tugline.workspaces.local import LocalWorkspace


@asynccontextmanager
async def local() -> AsyncIterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder:
        yield LocalWorkspace([folder])


class TestLocalWorkspace(WorkspaceConformance):
    def workspace(self) -> AbstractAsyncContextManager[Workspace]:
        return local()
