"""What a sandboxed command sees of the file system: all of it to read but what is hidden, little of it to write."""

import os
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tugline.rules.paths import (
    PROTECTED_BELOW_HOME,
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    SECRETS_ABSOLUTE,
    SECRETS_BELOW_HOME,
    components,
    inside,
)
from tugline.rules.patterns import fold
from tugline.workspaces import repository
from tugline.workspaces.placeholders import is_placeholder

PRIVATE = ("/tmp", "/var/tmp")
"""Folders that all programs share; commands get one of their own in their place."""

ABSENT = (".tugline", ".claude", ".agents", ".mcp.json", ".vscode", ".idea", ".husky", ".envrc")
"""What no command may make in a working folder where it is not there yet: our settings, and what editors and shells
obey without a question. Each costs time, so not all that is protected where it is there stands here."""
ABSENT_AT_HOME = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
    ".gitconfig", ".ssh", ".pam_environment", ".xprofile", ".config/tugline", ".config/git", ".config/fish",
    ".config/autostart", ".config/systemd", ".config/environment.d",
)  # fmt: skip

_SERVICES = (
    "/run/user", "/run/docker.sock", "/run/podman", "/run/containerd", "/run/crio", "/run/libvirt", "/run/lxd",
    "/run/incus", "/run/snapd.socket", "/run/dbus", "/run/systemd/private", "/run/systemd/io.systemd.Login",
    "/var/lib/docker", "/var/lib/lxd/unix.socket",
)  # fmt: skip
"""Where services of the machine and of the user's desktop listen."""

Denied = Callable[[], Sequence[str]]
"""Files that deny rules for reading name, as they are now."""


class Grounds(Struct, frozen=True, kw_only=True):
    """What a session's sandbox is made for; fixed when the session begins. All paths are absolute.

    `roots` and `writable` may be written; of these `read_only` may not, and neither may `own` (our settings and data,
    there or not). `hidden` may not be read, `shown` may be although it lies in something hidden.
    """

    roots: tuple[str, ...]
    home: str = ""
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    denied: Denied | None = None


class Layout(Struct, frozen=True):
    """The same for one command, as the disk is now; each list in the order in which it is mounted.

    `absent` are protected paths that do not exist. `watched` are names that cannot be mounted over, with what stands
    there (the text of a link, or `None` for nothing).
    """

    writable: tuple[str, ...]
    fixed: tuple[str, ...]
    """Folders above something protected: what is mounted cannot be renamed, and so nothing below it either."""
    read_only: tuple[str, ...]
    absent: tuple[str, ...]
    hidden_folders: tuple[str, ...]
    hidden_files: tuple[str, ...]
    shown: tuple[str, ...]
    watched: tuple[tuple[str, str | None], ...] = ()
    excludes: tuple[tuple[str, str], ...] = ()
    """Files of git's that say what it ignores in a folder; there they also name what stands in for the absent."""


def lay_out(grounds: Grounds, cwd: str, *, read_only: bool = False) -> Layout:
    """Look at the disk and say what a command in `cwd` is to see. `read_only`: it may write nothing but its tmp."""
    given = _existing((*grounds.roots, *grounds.writable))
    git = repository.places(grounds.roots)
    writable = () if read_only else tuple(_by_depth({*given, *git.writable}))
    hidden = _hidden(grounds)
    explicit = {os.path.realpath(path) for path in grounds.writable}
    protected = _protected(grounds, writable, cwd)
    watched = {**protected.watched, **dict(git.watched)}
    shut = {*protected.shut, *git.read_only}
    absent = {*protected.absent, *git.absent}
    shut = {path for path in shut if path not in explicit and _within(path, writable)}
    shut.update(_existing(grounds.read_only))
    absent = {path for path in absent if path not in explicit and _within(path, writable)}
    absent = {path for path in absent if not any(inside(path, other) for other in shut | (absent - {path}))}
    folders = tuple(path for path in hidden if os.path.isdir(path))
    return Layout(
        writable=writable if not read_only else (),
        fixed=tuple(_by_depth(_above(shut | absent, writable) - shut - set(writable))),
        read_only=tuple(_by_depth(shut)) if not read_only else (),
        absent=tuple(_by_depth(absent)) if not read_only else (),
        hidden_folders=folders,
        hidden_files=tuple(path for path in hidden if path not in folders),
        shown=tuple(_existing((*grounds.shown, *git.shown, *(given if read_only else ())))),
        watched=() if read_only else tuple(sorted(watched.items(), key=lambda one: one[0])),
        excludes=() if read_only else git.excludes,
    )


class _Protected:
    """What of the writable folders is protected, sorted by what can be done about it."""

    def __init__(self) -> None:
        self.shut: set[str] = set()
        self.absent: set[str] = set()
        self.watched: dict[str, str | None] = {}

    def add(self, path: str) -> None:
        missing = path if is_placeholder(path) else _first_missing(path)
        if missing:
            self.absent.add(missing)
        elif os.path.islink(path):
            self.watched[path] = os.readlink(path)
            self.shut.add(os.path.realpath(path))
        else:
            self.shut.add(path)


def _protected(grounds: Grounds, writable: Sequence[str], cwd: str) -> _Protected:
    found = _Protected()
    for folder in dict.fromkeys(level for root in writable for level in _levels(root, cwd)):
        for name in _names(folder):
            folded = fold(name)
            if (folded in PROTECTED_FOLDERS and folded != ".git") or folded in PROTECTED_FILES:
                found.add(os.path.join(folder, name))
    for root in grounds.roots:
        for name in ABSENT:
            found.add(os.path.join(root, name))
    home = os.path.realpath(grounds.home) if grounds.home else ""
    for name in (*PROTECTED_BELOW_HOME, *ABSENT_AT_HOME) if home else ():
        path = os.path.join(home, name)
        if _within(path, writable) and (name in ABSENT_AT_HOME or os.path.lexists(path)):
            found.add(path)
    for path in map(os.path.realpath, grounds.own):
        if _within(path, writable):
            found.add(path)
    return found


def _hidden(grounds: Grounds) -> list[str]:
    home = grounds.home
    named = [os.path.join(home, name) for name in SECRETS_BELOW_HOME] if home else []
    named += [*SECRETS_ABSOLUTE, *_SERVICES, *grounds.hidden]
    if grounds.denied is not None:
        named += grounds.denied()
    found = _by_depth(_existing(named))
    kept: list[str] = []
    for path in found:
        if not any(inside(path, above) for above in kept):
            kept.append(path)
    return kept


def _levels(root: str, cwd: str) -> Iterable[str]:
    """The folder and those between it and the command's own."""
    yield root
    if inside(cwd, root):
        at = root
        for part in components(cwd)[len(components(root)) :]:
            at = os.path.join(at, part)
            yield at


def _names(folder: str) -> Sequence[str]:
    try:
        return [name for name in os.listdir(folder) if not name.isalnum()]
    except OSError:
        return ()


def _first_missing(path: str) -> str:
    """The highest part of the path that does not exist; empty where all of it does."""
    missing = ""
    while path != "/" and not os.path.lexists(path):
        missing, path = path, os.path.dirname(path)
    return missing


def _above(paths: Iterable[str], roots: Sequence[str]) -> set[str]:
    """The folders between these paths and the writable folders that they lie in."""
    found: set[str] = set()
    for path in paths:
        at = os.path.dirname(path)
        while _within(at, roots) and at not in roots and at not in found:
            found.add(at)
            at = os.path.dirname(at)
    return found


def _within(path: str, folders: Iterable[str]) -> bool:
    return any(inside(path, folder) for folder in folders)


def _existing(paths: Iterable[str]) -> list[str]:
    """What is there, under its real name, once each."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.exists(path):
            found[os.path.realpath(path)] = None
    return list(found)


def _by_depth(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=lambda path: (len(components(path)), path))
