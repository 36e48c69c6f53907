"""Looks at the place once, when a session begins."""

import os
import platform
import time

import anyio

from tugline.ports import Workspace, WorkspaceError
from tugline.protocol.specs import Surroundings

GIT_LIMIT = 2.0
"""Seconds that git may take; without an answer the prompt does without."""
STATUS_LINES = 40

# nothing of a repository that was just cloned may run because somebody looks at it
_NEUTRAL = (
    "git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "diff.external=",
    "-c", "core.pager=cat", "--no-optional-locks",
)  # fmt: skip


async def look_around(workspace: Workspace, cwd: str) -> Surroundings:
    """The surroundings of a session that begins now."""
    branch, status = "", ""
    if _repository(cwd) is not None:
        branch, status = await _git_state(workspace, cwd)
    return Surroundings(
        cwd=cwd,
        platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
        date=time.strftime("%Y-%m-%d"),
        directories=tuple(root for root in workspace.roots if root != cwd),
        git_branch=branch,
        git_status=status,
    )


def _repository(cwd: str) -> str | None:
    folder = cwd
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


async def _git_state(workspace: Workspace, cwd: str) -> tuple[str, str]:
    """Branch and short status; `unknown` where git does not answer."""
    argv = (*_NEUTRAL, "status", "--short", "--branch", "--untracked-files=normal", "--ignore-submodules=all")
    try:
        with anyio.move_on_after(GIT_LIMIT):
            async with workspace.process(argv, cwd=cwd, timeout=GIT_LIMIT, spill=False) as process:
                end = await process.wait()
                if end.status == 0:
                    return read_status(process.output().head)
    except (WorkspaceError, OSError):
        return "unknown", ""
    return "unknown", ""


def read_status(text: str) -> tuple[str, str]:
    """Branch and the changed files out of `git status --short --branch`."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith("## "):
        return "unknown", ""
    branch = lines[0][3:].split("...")[0].removeprefix("No commits yet on ")
    changed = lines[1:]
    shown = changed[:STATUS_LINES]
    if len(changed) > len(shown):
        shown.append(f"… and {len(changed) - len(shown)} more")
    return branch or "unknown", "\n".join(shown) or "(clean)"
