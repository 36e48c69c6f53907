"""Variables that hooks leave for the shell: they append lines of shell to a file, which is read after they ran."""

import os
from collections.abc import Callable, Mapping

from tugline.ports import Workspace, WorkspaceError

SECONDS = 10.0
_OWN = frozenset({"_", "PWD", "OLDPWD", "SHLVL", "CLAUDE_ENV_FILE", "TUGLINE_LINEAGE"})
_READ = 'set -a; . "$1" >/dev/null 2>&1; exec env -0'


class EnvFile:
    """The file, and what it says of the environment, which `extend` takes."""

    def __init__(self, path: str, workspace: Workspace, extend: Callable[[Mapping[str, str]], None]) -> None:
        self._path = path
        self._workspace = workspace
        self._extend = extend
        self._size = 0

    def path(self) -> str:
        """Where hooks write; made at the first question, for the user alone."""
        if not os.path.exists(self._path):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        return self._path

    async def apply(self) -> None:
        """Let the shell have what was written since the last time."""
        try:
            size = os.path.getsize(self._path)
        except OSError:
            return
        if size == self._size:
            return
        self._size = size
        before = await self._environment(os.devnull)
        after = await self._environment(self._path)
        if before is not None and after is not None:
            changed = {name: value for name, value in after.items() if before.get(name) != value}
            self._extend(changed)

    async def _environment(self, source: str) -> dict[str, str] | None:
        try:
            async with self._workspace.process(
                ["bash", "--noprofile", "--norc", "-c", _READ, "bash", source],
                cwd=self._workspace.roots[0], timeout=SECONDS, spill=False, apart=True, keep=500_000,
            ) as process:  # fmt: skip
                end = await process.wait()
                output = process.output()
        except WorkspaceError:
            return None
        if end.status or not output.whole:
            return None
        pairs = (entry.partition("=") for entry in (output.head + output.tail).split("\0") if entry)
        return {name: value for name, _, value in pairs if name not in _OWN}
