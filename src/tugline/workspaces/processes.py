"""Processes that die with their call: one pipe for what they print, memory that does not depend on it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from tugline.ports import Output, Process


def run_process(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout: float | None = None,
    spill_dir: str | None = None,
    report: bool = False,
    keep: int = 15_000,
    on_output: Callable[[Output], None] | None = None,
) -> AbstractAsyncContextManager[Process]:
    """Start a process in a session of its own; leaving the context ends all of it. `env` is its whole environment.

    `spill_dir`: where the whole output goes once it is more than what `keep` characters at each end hold (`None`:
    nowhere). Raises `WorkspaceError` if it cannot be started.
    """
    raise NotImplementedError
