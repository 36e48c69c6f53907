"""Paths: what a name really points to, and whether one path lies inside another.

Resolution goes component by component and physically, as the kernel does it: `..` after a link leads to the parent of
the link's target. Nothing is decided by comparing strings.
"""

import errno
import os
import stat

from tugline.ports import WorkspaceError
from tugline.rules.paths import KERNEL

LINK_LIMIT = 40
"""Links followed in one resolution; as many as Linux follows."""

_REASONS = {
    errno.ENOENT: ("missing", "it does not exist"),
    errno.ENOTDIR: ("missing", "a part of the path is not a folder"),
    errno.EACCES: ("denied", "permission denied"),
    errno.EPERM: ("denied", "operation not permitted"),
    errno.EROFS: ("denied", "the file system is read-only"),
    errno.EISDIR: ("folder", "it is a folder"),
    errno.ELOOP: ("changed", "a part of the path became a link while it was opened"),
    errno.ENAMETOOLONG: ("invalid", "the name is too long"),
    errno.ENXIO: ("irregular", "it is not a regular file"),
    errno.ENOSPC: ("full", "no space left on the disk; the file is as it was"),
    errno.EDQUOT: ("full", "the disk quota is used up; the file is as it was"),
    errno.EFBIG: ("full", "larger than a file may be here; the file is as it was"),
    errno.ESTALE: ("gone", "it went away"),
}


def resolve(path: str, cwd: str, home: str | None = None) -> tuple[str, str]:
    """The absolute path by name, and what it really points to. What does not exist yet is taken as it is written.

    `home`: what `~` stands for, if not the user's own folder.
    """
    named = _absolute(path, cwd, home)
    try:
        return _walk(named)
    except OSError as error:
        raise refusal(error, path) from None
    except ValueError:
        raise WorkspaceError("invalid", f"{path!r} is not a path: it has characters that no path can have.") from None


def refusal(error: OSError, path: str) -> WorkspaceError:
    """What the system said, in words for the model."""
    kind, words = _REASONS.get(error.errno or 0, ("invalid", (error.strerror or str(error)).lower()))
    return WorkspaceError(kind, f"{path}: {words}.")


def is_inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it, by components. Both are resolved."""
    inner, outer = parts(path), parts(folder)
    return inner[: len(outer)] == outer


def is_forbidden(target: str) -> bool:
    """Whether a resolved path lies where the kernel shows itself as files."""
    return any(is_inside(target, folder) for folder in KERNEL)


def parts(path: str) -> list[str]:
    """The components of an absolute path."""
    return [part for part in path.split("/") if part]


def _absolute(path: str, cwd: str, home: str | None) -> str:
    if not path.strip():
        raise WorkspaceError("invalid", "The path is empty.")
    if "\0" in path:
        raise WorkspaceError("invalid", f"{path!r} is not a path: it has a NUL in it.")
    if path == "~" or path.startswith("~/"):
        path = (os.path.expanduser("~") if home is None else home) + path[1:]
    return path if path.startswith("/") else f"{cwd}/{path}"


def _walk(path: str) -> tuple[str, str]:
    name: list[str] = []
    target: list[str] = []
    todo = parts(path)[::-1]
    followed = 0
    named = len(todo)
    missing = False
    while todo:
        # While a link is being followed, its own components lie on top, and are no part of the name.
        counts = len(todo) == named
        named -= counts
        part = todo.pop()
        if part == ".":
            continue
        if part == "..":
            target = target[:-1]
            if counts:
                name = list(target)
            missing = False
            continue
        if counts:
            name.append(part)
        link = "" if missing else _link("/" + "/".join([*target, part]))
        if link is None:
            missing = True
        if not link:
            target.append(part)
            continue
        followed += 1
        if followed > LINK_LIMIT:
            raise WorkspaceError("invalid", f"{path}: too many links, one of them leads back to itself.")
        if link.startswith("/"):
            target = []
        todo.extend(parts(link)[::-1])
    return "/" + "/".join(name), "/" + "/".join(target)


def _link(path: str) -> str | None:
    """Where a link leads; empty for what is no link, `None` for what does not exist."""
    try:
        if not stat.S_ISLNK(os.lstat(path).st_mode):
            return ""
        return os.readlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
