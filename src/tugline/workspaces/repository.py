"""What of a git repository a sandboxed command may write, so that git works and nothing is planted that runs later."""

import os
from collections.abc import Iterable

from msgspec import Struct

from tugline.workspaces.placeholders import is_placeholder

_RUNS = ("hooks", "config", "config.worktree", "info/attributes")
"""What makes git run programs."""
_SHARED = ("objects", "refs", "logs")
"""What a work tree writes in the repository that it belongs to."""
_POINTERS = ("commondir", "gitdir")
"""Files that lead git to another configuration."""


class Places(Struct, frozen=True):
    """By what has to happen to them. `watched` must not come into being: git fails where even an empty one stands."""

    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    watched: tuple[tuple[str, str | None], ...] = ()
    shown: tuple[str, ...] = ()
    """Repositories that a work tree belongs to, to be read."""
    excludes: tuple[tuple[str, str], ...] = ()
    """By working folder: the file in which git finds what else it is to ignore there."""


def places(roots: Iterable[str]) -> Places:
    """Of the repositories whose working folders these are."""
    writable: list[str] = []
    read_only: list[str] = []
    absent: list[str] = []
    watched: list[tuple[str, str | None]] = []
    shown: list[str] = []
    excludes: list[tuple[str, str]] = []
    for root in roots:
        git = os.path.join(root, ".git")
        if os.path.islink(git):
            watched.append((git, os.readlink(git)))
            git = os.path.realpath(git)
        if os.path.isdir(git):
            excludes.append((root, os.path.join(git, "info", "exclude")))
            for folder in (git, *_modules(git)):
                _guard(folder, read_only, absent)
                pointers = [os.path.join(folder, name) for name in _POINTERS]
                read_only += [path for path in pointers if os.path.lexists(path)]
                watched += [(path, None) for path in pointers if not os.path.lexists(path)]
        elif os.path.isfile(git):
            read_only.append(git)
            entry, common = _linked(root, git)
            if entry:
                shown.append(common)
                excludes.append((root, os.path.join(common, "info", "exclude")))
                writable += [entry, *(os.path.join(common, name) for name in _SHARED)]
                read_only += [os.path.join(entry, name) for name in _POINTERS]
                read_only += [os.path.join(entry, name) for name in _RUNS if os.path.lexists(os.path.join(entry, name))]
    return Places(
        tuple(path for path in writable if os.path.isdir(path)),
        tuple(read_only),
        tuple(absent),
        tuple(watched),
        tuple(shown),
        tuple((root, path) for root, path in excludes if os.path.isfile(path)),
    )


def _guard(folder: str, read_only: list[str], absent: list[str]) -> None:
    for name in _RUNS:
        path = os.path.join(folder, name)
        if not os.path.lexists(path) or is_placeholder(path):
            if name == "hooks":
                absent.append(path)
        else:
            read_only.append(path)


def _modules(git: str) -> list[str]:
    """The repositories of submodules, one level deep."""
    folder = os.path.join(git, "modules")
    try:
        return [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _linked(root: str, file: str) -> tuple[str, str]:
    """The entry of a work tree in its repository, and the repository, if each names the other."""
    try:
        line = _read(file)
        if not line.startswith("gitdir: "):
            return "", ""
        entry = os.path.realpath(os.path.join(root, line.removeprefix("gitdir: ")))
        back = os.path.realpath(os.path.join(entry, _read(os.path.join(entry, "gitdir"))))
        common = os.path.realpath(os.path.join(entry, _read(os.path.join(entry, "commondir"))))
    except (OSError, ValueError):
        return "", ""
    known = os.path.dirname(entry) == os.path.join(common, "worktrees")
    return (entry, common) if known and back == os.path.join(os.path.realpath(root), ".git") else ("", "")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read(4_096).strip()
