"""Who may write a transcript: one at a time, by a lock on the file that ends with its process."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tugline.protocol.errors import SessionError
from tugline.stores.reading import open_regular

TORN = ".torn"
"""Behind a transcript's name: what was no whole record at its end."""
LOCK_TRIES = 4
LOCK_PAUSE = 0.02
"""Seconds between them: who only asks whether a file is in use holds its lock for a moment too."""


class Busy(SessionError):
    """Another process, or another session of this one, writes this file."""


def unwritable(
    path: str, error: OSError, remedy: str = "Make the folder writable, or set TUGLINE_HOME to another one."
) -> SessionError:
    """What is said where the disk refuses."""
    return SessionError(f"The session cannot be recorded in {path}: {error.strerror}. {remedy}")


def hold(fd: int, path: str) -> None:
    """Lock a file that was there, and make sure that it still is: it may have been removed just before."""
    lock(fd, path)
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        raise SessionError(f"The session {path} was moved or removed meanwhile.") from None
    if not os.path.samestat(now, os.fstat(fd)):
        raise SessionError(f"The session {path} was replaced meanwhile.")


def lock(fd: int, path: str) -> None:
    """Hold the file until its descriptor is closed. `Busy` if somebody else does."""
    for attempt in range(LOCK_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < LOCK_TRIES:
                time.sleep(LOCK_PAUSE)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            return  # a file system without locks: nobody can be kept out there
        else:
            return
    raise Busy(f"The session is in use by another process: {path}.")


@contextmanager
def held(path: str) -> Iterator[None]:
    """Inside, nobody writes or opens this transcript. `Busy` if somebody does."""
    fd = open_regular(path, os.O_RDONLY)
    try:
        hold(fd, path)
        yield
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        os.close(fd)


def is_busy(path: str) -> bool:
    """Whether somebody writes this transcript now."""
    try:
        fd = open_regular(path, os.O_RDONLY)
    except SessionError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False
