"""git with a folder of its own beside a work tree: it sees the files and the ignore rules, and nothing of the
repository's index, configuration, hooks, filters and references; nor does it write anything there."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

CONFIG = """\
[core]
repositoryformatversion = 0
bare = false
fileMode = true
symlinks = true
ignoreCase = false
precomposeUnicode = false
protectHFS = false
protectNTFS = false
autocrlf = false
fsyncMethod = batch
looseCompression = 1
splitIndex = false
untrackedCache = false
fsmonitor = false
hooksPath = /dev/null
[gc]
auto = 0
[feature]
manyFiles = false
"""
ATTRIBUTES = "* -text !eol -ident -filter -working-tree-encoding\n"
"""What git keeps of a file is what the file is: no filter is run, no line end changed, whatever the repository says."""


class GitError(Exception):
    """git did not do it; the text is for a person. `final`: it is no use to try again."""

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


class PrivateGit:
    """git (found in `search`) over the work tree `root`, with `folder` in place of its repository and `objects` to
    write to."""

    def __init__(self, root: str, folder: str, objects: str, search: str) -> None:
        self.root = root
        self._search = search
        self.folder = folder
        self.index = os.path.join(folder, "index")
        self.objects = objects
        self._running: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def prepare(self, excludes: bytes, make: Callable[[str], object]) -> None:
        """Make the folder (`make` does). `excludes`: rules of ignored files beside those in the tree. `OSError` if that
        fails."""
        for folder in (os.path.join(self.folder, "refs"), os.path.join(self.folder, "info"), self.objects):
            make(folder)
        texts = {
            "config": CONFIG.encode(),
            "info/attributes": ATTRIBUTES.encode(),
            "info/exclude": excludes,
            "HEAD": b"ref: refs/heads/none\n",
        }
        for name, text in texts.items():
            path = os.path.join(self.folder, name)
            if name == "HEAD" and os.path.exists(path):
                continue  # its time says since when this folder is in use
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(text)
        for left in ("index.lock", "index.next.lock", "index.next"):  # of a git that was killed: the folder is ours
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, left))

    def run(
        self, words: Sequence[str], *, until: float, data: bytes | None = None, index: str = "", output: int = 1 << 28
    ) -> bytes:
        """What git prints. It is killed at the moment `until` (monotonic). `index` stands in for our own."""
        environment = self._environment(index or self.index)
        if self._stopped.is_set():
            raise GitError("it was broken off")
        try:
            process = subprocess.Popen(
                ["git", *words],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                umask=0o077,
            )
        except FileNotFoundError as error:
            text = "git is not installed" if os.path.isdir(self.root) else f"{self.root} is gone"
            raise GitError(text, final=True) from error
        except OSError as error:
            raise GitError(f"git cannot be started: {error.strerror}") from error
        self._running = process
        if self._stopped.is_set():  # `stop` came before it could see the process
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        try:
            out, said = process.communicate(data, timeout=max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise GitError("git took too long", final=True) from None
        finally:
            self._running = None
            _end(process)
        if self._stopped.is_set():
            raise GitError("it was broken off")
        if process.returncode != 0:
            lines = said.decode(errors="replace").strip().splitlines()
            raise GitError(lines[-1][:200] if lines else f"git ended with {process.returncode}")
        if len(out) > output:
            raise GitError("the work tree is too large", final=True)
        return out

    def stop(self) -> None:
        """End what runs; from any thread."""
        self._stopped.set()
        process = self._running
        if process is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    def resume(self) -> None:
        """After `stop`, let it run again."""
        self._stopped.clear()

    def _environment(self, index: str) -> Mapping[str, str]:
        others = alternates(self.root)
        return {
            "PATH": self._search,
            "HOME": self.folder,
            "LC_ALL": "C",
            "GIT_DIR": self.folder,
            "GIT_WORK_TREE": self.root,
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": self.objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(others) if others else "",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }


def _end(process: "subprocess.Popen[bytes]") -> None:
    """It and all that it started are gone, its pipes are closed."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait()


def work_tree_of(folder: str, home: str) -> str | None:
    """The nearest folder at or above that is a work tree; the home folder only where it is meant itself."""
    at = folder
    while at == folder or at != home:
        if os.path.lexists(os.path.join(at, ".git")):
            return at
        above = os.path.dirname(at)
        if above == at:
            break
        at = above
    return None


def git_folder(root: str) -> str | None:
    """The folder of the repository whose work tree this is; of a linked work tree, its own. Found by reading, without
    git; `None` where it is none."""
    entry = os.path.join(root, ".git")
    if os.path.isdir(entry):
        return entry
    pointer = _line(entry)
    if not pointer.startswith("gitdir: "):
        return None
    folder = os.path.normpath(os.path.join(root, pointer.removeprefix("gitdir: ")))
    return folder if os.path.isdir(folder) else None


def common_folder(folder: str) -> str:
    """What the work trees of a repository share."""
    shared = _line(os.path.join(folder, "commondir"))
    return os.path.normpath(os.path.join(folder, shared)) if shared else folder


def alternates(root: str) -> str:
    """Where the repository has its objects: what is there need not be kept twice. Empty: nowhere that we can read."""
    folder = git_folder(root)
    if folder is None:
        return ""
    common = common_folder(folder)
    objects = os.path.join(common, "objects")
    if not os.path.isdir(objects) or "objectformat" in _text(os.path.join(common, "config")).lower():
        return ""  # objects named otherwise
    return objects


def own_excludes(root: str) -> bytes:
    """The repository's list of ignored files that is no part of the tree."""
    folder = git_folder(root)
    return b"" if folder is None else read_small(os.path.join(common_folder(folder), "info", "exclude"))


def person_excludes(environ: Mapping[str, str], home: str) -> bytes:
    """The person's own list of files that are ignored everywhere, where git looks for it by default or is told to by
    the person's configuration."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    path = os.path.join(base, "git", "ignore")
    for file in (os.path.join(base, "git", "config"), os.path.join(home, ".gitconfig")):
        for line in _text(file).splitlines():
            name, equals, value = line.partition("=")
            if equals and name.strip().lower() == "excludesfile":
                value = value.strip().strip('"')
                path = os.path.join(home, value.removeprefix("~/"))
    return read_small(path)


def read_small(path: str, limit: int = 1 << 20) -> bytes:
    """The beginning of a plain file; empty where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            return file.read(limit) or b"" if Path(path).is_file() else b""
    except OSError:
        return b""


def _text(path: str) -> str:
    return read_small(path).decode(errors="replace")


def _line(path: str) -> str:
    """A file's only line; empty where it is none."""
    data = read_small(path, 4_096)
    return os.fsdecode(data.split(b"\n", 1)[0]).strip() if b"\0" not in data else ""


def _quoted(path: str) -> str:
    """One path in a list of them that colons part."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if set(path) & set(':"\\\n') or path.startswith('"') else path
