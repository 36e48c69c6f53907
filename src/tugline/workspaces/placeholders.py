"""Empty folders that stand where something protected is missing, so that it can be mounted over while a command runs.

Folders, because an empty one can be taken away without any risk (`rmdir` takes nothing else), and because git does not
see them. Several commands, and several processes, may need the same one: each holds a lock on it, and the last takes it
away.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

_MODE = 0o555
"""Nobody may write there: by this a placeholder is known, as nobody else makes an empty folder like this."""

_TRIES = 20


class Placeholders:
    """Those of one command."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def hold(self, paths: Iterable[str]) -> list[str]:
        """Make or join one at each path; those where there is one now. `OSError` where none can be made."""
        try:
            return [path for path in paths if self._hold(path)]
        except BaseException:
            self.release()
            raise

    def _hold(self, path: str) -> bool:
        for _ in range(_TRIES):
            try:
                os.mkdir(path, _MODE)  # noqa: PTH102 - paths are str inside
            except FileExistsError:
                pass
            except OSError as error:
                # where we cannot make it the command, which has no more rights, cannot either
                if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR):
                    return False
                raise
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            except OSError:
                return True
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_at(descriptor, path):
                self._held[path] = descriptor
                return True
            os.close(descriptor)
        raise OSError(errno.EAGAIN, "it comes and goes", path)

    def release(self) -> None:
        """Take away those that nobody else holds."""
        held, self._held = self._held, {}
        # deeper ones first
        for path in sorted(held, reverse=True):
            _take_away(path, held[path])


def sweep(paths: Iterable[str]) -> None:
    """Take away placeholders that a process left behind which is gone."""
    for path in sorted(paths, reverse=True):
        with suppress(OSError):
            _take_away(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))


def is_placeholder(path: str) -> bool:
    """Whether a folder is one, and nothing that somebody made."""
    try:
        found = os.lstat(path)
        return stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o222 and not os.listdir(path)
    except OSError:
        return False


def _take_away(path: str, descriptor: int) -> None:
    """Whoever comes next looks again under the lock, so nobody is left with a folder that is gone."""
    try:
        if os.fstat(descriptor).st_mode & 0o222:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(descriptor, path):
            os.rmdir(path)
    except OSError:
        pass  # another still holds it, or something stands in it
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        found, wanted = os.fstat(descriptor), os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
