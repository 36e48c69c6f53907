"""Where our files are: XDG folders, or all of them below `TUGLINE_HOME`."""

import os
from collections.abc import Mapping

from msgspec import Struct


class Folders(Struct, frozen=True):
    """Our own folders and the files of settings. Nothing is made before something is written."""

    config: str
    data: str
    cache: str
    claude: str
    """The user's folder of Claude Code, read below our own."""

    @property
    def user_settings(self) -> str:
        """The user's settings file."""
        return os.path.join(self.config, "settings.json")

    @property
    def trust(self) -> str:
        """The file of the folders that the user trusts."""
        return os.path.join(self.config, "trust.json")

    @property
    def plans(self) -> str:
        """Where plans are kept."""
        return os.path.join(self.data, "plans")

    @property
    def sessions(self) -> str:
        """Where transcripts are kept."""
        return os.path.join(self.data, "sessions")

    @property
    def checkpoints(self) -> str:
        """Where former contents of files are kept."""
        return os.path.join(self.data, "checkpoints")

    @property
    def processes(self) -> str:
        """Where it is noted which commands run."""
        return os.path.join(self.data, "processes")


def find_folders(environ: Mapping[str, str], home: str) -> Folders:
    """Our folders, as the environment says. Relative XDG values do not count, as their standard demands."""
    own = environ.get("TUGLINE_HOME", "")
    claude = _absolute(environ.get("CLAUDE_CONFIG_DIR", ""), home) or os.path.join(home, ".claude")
    if own:
        root = os.path.abspath(_absolute(own, home) or own)
        parts = (os.path.join(root, "config"), os.path.join(root, "data"), os.path.join(root, "cache"))
        return Folders(*parts, claude)

    def xdg(name: str, default: str) -> str:
        value = environ.get(name, "")
        return os.path.join(value if os.path.isabs(value) else os.path.join(home, default), "tugline")

    return Folders(
        xdg("XDG_CONFIG_HOME", ".config"),
        xdg("XDG_DATA_HOME", ".local/share"),
        xdg("XDG_CACHE_HOME", ".cache"),
        claude,
    )


def _absolute(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        return home + path[1:]
    return path if os.path.isabs(path) else ""


def make_private(folder: str) -> str:
    """Make a folder, and what is missing above it, for the user alone; returns it. `OSError` where that fails."""
    missing: list[str] = []
    at = folder
    while at and not os.path.isdir(at):
        missing.append(at)
        above = os.path.dirname(at)
        if above == at:
            break
        at = above
    for part in reversed(missing):
        try:
            os.mkdir(part, 0o700)  # noqa: PTH102 - paths are str inside
        except FileExistsError:
            # made meanwhile by another process, or there is a file of that name
            if not os.path.isdir(part):
                raise
        else:
            # mkdir's mode is lessened by the umask, never widened; a strange umask must not lock us out
            os.chmod(part, 0o700)
    return folder


def write_privately(path: str, raw: bytes) -> None:
    """Put a file of the user's own in place, whole or not at all. `OSError` where that fails."""
    fresh = f"{path}.{os.getpid()}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(fd)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def find_project_root(cwd: str, home: str) -> str:
    """The nearest folder at or above `cwd` that holds `.git` or `.tugline`, never the home folder itself or above."""
    at = cwd
    while True:
        if at == home and at != cwd:
            return cwd
        if os.path.exists(os.path.join(at, ".git")) or (at != home and os.path.isdir(os.path.join(at, ".tugline"))):
            return at
        above = os.path.dirname(at)
        if above == at:
            return cwd
        at = above


def main_repository(root: str) -> str:
    """The repository that the folder is a work tree of; the folder itself where it is none, or only claims to be: the
    repository must know of it too."""
    try:
        line = _beginning(os.path.join(root, ".git"))
        if not line.startswith("gitdir: "):
            return root
        entry = os.path.realpath(os.path.join(root, line.removeprefix("gitdir: ").strip()))
        back = os.path.realpath(os.path.join(entry, _beginning(os.path.join(entry, "gitdir")).strip()))
    except (OSError, ValueError):
        return root
    git = os.path.dirname(os.path.dirname(entry))
    known = os.path.basename(os.path.dirname(entry)) == "worktrees" and os.path.basename(git) == ".git"
    return os.path.dirname(git) if known and back == os.path.join(os.path.realpath(root), ".git") else root


def _beginning(path: str) -> str:
    """The beginning of a text file; a pipe in its place is empty, and holds nobody up."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        return (file.read(4_096) or b"").decode()
