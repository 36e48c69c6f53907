"""What a sandbox keeps on the disk while it is in use, and how the remains of a killed process are cleared away."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress

from tugline.workspaces.placeholders import sweep

_PREFIX = "run-"


class SandboxState:
    """A private folder of this process in `above`: `tmp` is what commands see as `/tmp`, `empty` has nothing in it.

    The paths of placeholders are written down before they are made, so that the next process finds them. `OSError`
    where the folder cannot be made.
    """

    def __init__(self, above: str) -> None:
        os.makedirs(above, mode=0o700, exist_ok=True)
        _clear(above)
        self.folder = tempfile.mkdtemp(prefix=_PREFIX, dir=above)
        self.tmp = os.path.join(self.folder, "tmp")
        self.empty = os.path.join(self.folder, "empty")
        self._noted: set[str] = set()
        self._lock = _open_journal(self.folder)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            os.mkdir(self.tmp, 0o700)  # noqa: PTH102 - paths are str inside
            os.mkdir(self.empty, 0o500)  # noqa: PTH102 - paths are str inside
        except BaseException:
            self.close()
            raise

    def note(self, paths: Iterable[str]) -> None:
        """Write down where placeholders are about to be made."""
        new = [path for path in paths if path not in self._noted]
        if new:
            os.write(self._lock, b"".join(os.fsencode(path) + b"\0" for path in new))
            self._noted.update(new)

    def close(self) -> None:
        """Take the folder away."""
        if self._lock >= 0:
            _remove(self.folder)
            os.close(self._lock)
            self._lock = -1


def _open_journal(folder: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(os.path.join(folder, "placeholders"), flags, 0o600)


def _clear(above: str) -> None:
    """Folders whose process is gone: nobody holds their lock."""
    with suppress(OSError):
        for entry in os.scandir(above):
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    _clear_one(entry.path)


def _clear_one(folder: str) -> None:
    lock = os.open(os.path.join(folder, "placeholders"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        noted = os.read(lock, 1 << 20)
        sweep(os.fsdecode(path) for path in noted.split(b"\0") if path.startswith(b"/"))
        _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.isdir(folder):
        # a command may have left folders that not even their owner may change
        for at, _, _ in os.walk(folder):
            with suppress(OSError):
                os.chmod(at, 0o700)
        shutil.rmtree(folder, ignore_errors=True)
