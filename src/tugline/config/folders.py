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
    def sessions(self) -> str:
        """Where transcripts are kept."""
        return os.path.join(self.data, "sessions")

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
        with open(os.path.join(root, ".git"), encoding="utf-8") as file:
            line = file.read(4_096)
        if not line.startswith("gitdir: "):
            return root
        entry = os.path.realpath(os.path.join(root, line.removeprefix("gitdir: ").strip()))
        with open(os.path.join(entry, "gitdir"), encoding="utf-8") as file:
            back = os.path.realpath(os.path.join(entry, file.read(4_096).strip()))
    except (OSError, ValueError):
        return root
    git = os.path.dirname(os.path.dirname(entry))
    known = os.path.basename(os.path.dirname(entry)) == "worktrees" and os.path.basename(git) == ".git"
    return os.path.dirname(git) if known and back == os.path.join(os.path.realpath(root), ".git") else root
