"""Looks after files that hooks want to hear of, once a second."""

import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

SECONDS = 1.0
LIMIT = 1_000
"""How many files are watched; more are not."""

_State = tuple[int, int, int] | None


class Change(Struct, frozen=True):
    """A file that is another one now."""

    path: str
    kind: Literal["add", "change", "unlink"]


class Watcher:
    """Compares what the system says of each file with what it said before. One that is watched from now on is
    compared with how it is now."""

    def __init__(self, tell: Callable[[Change], Awaitable[None]], *, seconds: float = SECONDS) -> None:
        self._tell = tell
        self._seconds = seconds
        self._known: dict[str, _State] = {}
        self._runs = False

    def watch(self, paths: Iterable[str], tasks: TaskGroup) -> None:
        """Watch these too."""
        for path in paths:
            if path not in self._known and len(self._known) < LIMIT:
                self._known[path] = _state(path)
        if self._known and not self._runs:
            self._runs = True
            tasks.start_soon(self._run)

    async def _run(self) -> None:
        while True:
            await anyio.sleep(self._seconds)
            now = await anyio.to_thread.run_sync(_states, tuple(self._known), abandon_on_cancel=True)
            for path, state in now.items():
                before, self._known[path] = self._known[path], state
                if state != before:
                    kind: Literal["add", "change", "unlink"]
                    kind = "add" if before is None else "unlink" if state is None else "change"
                    await self._tell(Change(path, kind))


def _states(paths: Iterable[str]) -> dict[str, _State]:
    return {path: _state(path) for path in paths}


def _state(path: str) -> _State:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
