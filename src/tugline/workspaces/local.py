"""The workspace on this machine. All that can block runs in worker threads."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import anyio.to_thread

from tugline.ports import Confinement, FileStat, Output, Process, WorkspaceError
from tugline.workspaces import files, paths
from tugline.workspaces.environment import child_environment
from tugline.workspaces.processes import run_process
from tugline.workspaces.roster import Roster

T = TypeVar("T")


class LocalWorkspace:
    """Files and processes of this machine. Which of them may be touched is for the gate to say; what is touched here
    is what the path pointed to when the call began.

    `environment`: what processes get (default: this process's own, less secrets and shell traps). `roster`: where they
    are noted while they run.
    """

    def __init__(
        self,
        roots: Sequence[str],
        *,
        spill_dir: str | None = None,
        environment: Mapping[str, str] | None = None,
        roster: Roster | None = None,
    ) -> None:
        if not roots:
            raise ValueError("a workspace needs at least one root")
        self.roots = tuple(paths.resolve(root, os.getcwd())[1] for root in roots)
        self._spill_dir = spill_dir
        self._roster = roster
        self._environment = dict(child_environment(os.environ) if environment is None else environment)

    def spill_to(self, folder: str) -> None:
        """Keep the whole outputs of processes there from now on."""
        self._spill_dir = folder

    def add_environment(self, more: Mapping[str, str]) -> None:
        """Let processes from now on have these variables too."""
        self._environment |= more

    def resolve(self, path: str, cwd: str) -> tuple[str, str]:
        """The absolute path by name, and what it really points to."""
        return paths.resolve(path, cwd)

    async def stat(self, path: str) -> FileStat | None:
        """What the system knows of what the path points to; `None` if there is nothing."""
        return await _in_thread(lambda: files.stat_file(self._target(path)))

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> tuple[bytes, FileStat]:
        """Bytes of a regular file; devices, pipes and the like are refused."""
        return await _in_thread(lambda: files.read_file(self._target(path), offset, limit))

    async def write(self, path: str, data: bytes, *, expect: FileStat | None) -> FileStat:
        """Replace or create atomically; `WorkspaceError("changed")` if what stands there is not what was expected."""
        # Never left half-way: a cancelled caller waits for the thread, which is done soon.
        return await anyio.to_thread.run_sync(lambda: files.write_file(self._target(path), data, expect))

    async def entries(self, path: str) -> Sequence[tuple[str, str]]:
        """Names and kinds in a folder, sorted."""
        return await _in_thread(lambda: files.list_folder(self._target(path)))

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
        apart: bool = False,
        keep: int = 15_000,
        on_output: Callable[[Output], None] | None = None,
        confine: Confinement | None = None,
    ) -> AbstractAsyncContextManager[Process]:
        """Start a process that dies with the context. There is no sandbox: what may only read is refused."""
        if confine is not None and confine.read_only:
            raise WorkspaceError("denied", "The command was not run: it may only read here, and there is no sandbox.")
        return run_process(
            argv,
            cwd=cwd,
            env={**self._environment, **env} if env else self._environment,
            stdin=stdin,
            timeout=timeout,
            spill_dir=self._spill_dir if spill else None,
            report=report,
            apart=apart,
            keep=keep,
            on_output=on_output,
            roster=self._roster,
        )

    def _target(self, path: str) -> str:
        if not path.startswith("/"):
            raise WorkspaceError("invalid", f"{path}: a workspace takes absolute paths only.")
        return paths.resolve(path, "/")[1]


async def _in_thread(work: Callable[[], T]) -> T:
    # A read from a dead network drive must not hold up an interrupt: the thread is left to itself.
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
