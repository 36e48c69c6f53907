"""Whole sessions, moved about: copied to a fork, put aside, taken back, removed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tugline.protocol.codec import encode
from tugline.protocol.errors import SessionError
from tugline.protocol.ids import SessionId
from tugline.protocol.records import Forked, Titled
from tugline.stores.lines import last_line_start
from tugline.stores.locks import TORN, Busy, held
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
    target = os.path.join(folder, os.path.basename(entry.path))
    if os.path.lexists(target):
        raise SessionError(f"There is a session of that id already: {target}.")
    with held(entry.path):
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            for part in parts(entry):
                # the transcript is the last one: as long as it is where it was, all of it counts as being there
                Path(part).rename(os.path.join(folder, os.path.basename(part)))
            sync_folder(folder)
        except OSError as error:
            raise SessionError(f"The session {entry.session} cannot be moved to {folder}: {error.strerror}.") from error
    return target


def parts(entry: Entry) -> list[str]:
    """All that is there of a session, its transcript last."""
    return [path for path in (entry.beside, entry.path + TORN, entry.path) if os.path.lexists(path)]


def remove(entry: Entry) -> None:
    """Delete a session and what is kept beside it. `SessionError` if it is in use."""
    with held(entry.path):
        try:
            os.unlink(entry.path)
            for part in parts(entry):
                if os.path.isdir(part) and not os.path.islink(part):
                    shutil.rmtree(part)
                else:
                    os.unlink(part)
        except OSError as error:
            raise SessionError(f"The session {entry.session} cannot be removed: {error.strerror}.") from error


def rename(entry: Entry, title: str, time: float) -> None:
    """Give a session a name. It does not count as used by that. `SessionError` if it is in use."""
    from tugline.stores.jsonl import JsonlLog  # noqa: PLC0415  imported here: start-up cost

    try:
        log = JsonlLog.add_to(entry.path)
    except Busy:
        raise SessionError(f"The session {entry.session} is in use; name it there, with /rename.") from None
    try:
        log.append(Titled(title=title, time=time))
    finally:
        log.close()
    with suppress(OSError):
        os.utime(entry.path, (entry.changed, entry.changed))


def kept_bytes(entry: Entry) -> int:
    """What a session takes on the disk, with all that is beside it."""
    total = entry.size
    if os.path.islink(entry.beside):
        return total
    for folder, _, names in os.walk(entry.beside):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
