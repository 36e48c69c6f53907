"""Whole sessions, moved about: copied to a fork, put aside, taken back, removed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tugline.protocol.codec import encode
from tugline.protocol.errors import SessionError
from tugline.protocol.ids import SessionId
from tugline.protocol.records import Forked
from tugline.stores.jsonl import is_busy
from tugline.stores.lines import last_line_start
from tugline.stores.reading import open_regular, records_backward, sync_folder
from tugline.stores.sessions import ARCHIVE, ENDING, Entry


def fork(origin: str, path: str, session: SessionId, time: float) -> None:
    """Make a session that begins as a copy of another one, which may be in use. `JsonlLog.resume` opens it."""
    source = open_regular(origin, os.O_RDONLY)
    made = False
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        copy = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        made = True
        with os.fdopen(copy, "wb") as new:
            for data in _whole_lines(source):
                new.write(data)
            name = SessionId(os.path.basename(origin).removesuffix(ENDING))
            last = next((record.n for record in records_backward(source) if record.n), 0)
            new.write(encode(Forked(session=session, origin=name, n=last + 1, time=time)) + b"\n")
            new.flush()
            os.fsync(copy)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        if made:
            with suppress(OSError):
                os.unlink(path)
        raise SessionError(f"The session cannot be copied to {path}: {error.strerror}.") from error
    finally:
        os.close(source)


def _whole_lines(fd: int) -> Iterator[bytes]:
    """The file up to its last line end: a line may be in the middle of being written."""
    end, at = last_line_start(fd, os.fstat(fd).st_size), 0
    while at < end:
        data = os.pread(fd, min(1 << 20, end - at), at)
        if not data:
            return
        at += len(data)
        yield data


def put_aside(entry: Entry) -> str:
    """Archive a session: it is kept, and no list shows it unasked. `SessionError` if it is in use."""
    return _move(entry, os.path.join(entry.folder, ARCHIVE))


def take_back(entry: Entry) -> str:
    """Take a session out of the archive."""
    return _move(entry, entry.folder)


def _move(entry: Entry, folder: str) -> str:
    refuse_busy(entry)
    target = os.path.join(folder, os.path.basename(entry.path))
    if os.path.lexists(target):
        raise SessionError(f"There is a session of that id already: {target}.")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        if os.path.isdir(entry.beside):
            Path(entry.beside).rename(target.removesuffix(ENDING))
        Path(entry.path).rename(target)
        sync_folder(folder)
    except OSError as error:
        raise SessionError(f"The session {entry.session} cannot be moved to {folder}: {error.strerror}.") from error
    return target


def remove(entry: Entry) -> None:
    """Delete a session and what is kept beside it. `SessionError` if it is in use."""
    refuse_busy(entry)
    try:
        os.unlink(entry.path)
        shutil.rmtree(entry.beside, ignore_errors=True)
    except OSError as error:
        raise SessionError(f"The session {entry.session} cannot be removed: {error.strerror}.") from error


def refuse_busy(entry: Entry) -> None:
    """`SessionError` if somebody writes it now."""
    if is_busy(entry.path):
        raise SessionError(f"The session {entry.session} is in use.")


def kept_bytes(entry: Entry) -> int:
    """What a session takes on the disk, with all that is beside it."""
    total = entry.size
    for folder, _, names in os.walk(entry.beside):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
