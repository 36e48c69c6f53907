"""Looks at the place once, when a session begins."""

import os
import platform
import time
from collections.abc import Mapping, Sequence

import anyio

from tugline.ports import Workspace, WorkspaceError
from tugline.protocol.specs import Surroundings
from tugline.rules.git_guard import LIMIT, GitSetting, looking, read_settings

GIT_LIMIT = 2.0
"""Seconds that git may take; without an answer the prompt does without."""
STATUS_LINES = 40
KEPT = 100_000
"""Characters of its answer that are read."""

_GIT = ("git", "--no-pager", "--no-optional-locks")


async def git_settings(workspace: Workspace, cwd: str) -> list[GitSetting] | None:
    """What git has set here, of the user and of the folder; `None` outside of a repository, or where git does not say.
    To list them runs nothing."""
    if _repository(cwd) is None:
        return None
    argv = (*_GIT, "config", "--list", "--show-scope", "--includes", "-z")
    listed = await _ask_git(workspace, argv, cwd, looking(), whole=True)
    found = read_settings(listed) if listed is not None else []
    return found if listed is not None and len(found) <= LIMIT else None


async def look_around(workspace: Workspace, cwd: str, git: Sequence[GitSetting] | None) -> Surroundings:
    """The surroundings of a session that begins now. Nothing of a repository that was just cloned runs because somebody
    looks at it: without its settings (`git`) git is not run."""
    branch, status = "", ""
    if _repository(cwd) is not None:
        branch, status = ("unknown", "") if git is None else await _git_state(workspace, cwd, looking(git))
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


async def _git_state(workspace: Workspace, cwd: str, git: Mapping[str, str]) -> tuple[str, str]:
    """Branch and short status; `unknown` where git does not answer."""
    argv = (*_GIT, "status", "--short", "--branch", "--untracked-files=normal", "--ignore-submodules=all")
    said = await _ask_git(workspace, argv, cwd, git)
    return ("unknown", "") if said is None else read_status(said)


async def _ask_git(
    workspace: Workspace, argv: Sequence[str], cwd: str, env: Mapping[str, str], *, whole: bool = False
) -> str | None:
    """What git says in its time, the beginning of it or all; `None` where it does not."""
    try:
        with anyio.move_on_after(GIT_LIMIT):
            async with workspace.process(argv, cwd=cwd, env=env, timeout=GIT_LIMIT, spill=False, keep=KEPT) as process:
                end = await process.wait()
                output = process.output()
                if end.status == 0 and (output.whole or not whole):
                    return output.head + output.tail if output.whole else output.head
    except (WorkspaceError, OSError):
        return None
    return None


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
