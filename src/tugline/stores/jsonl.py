"""Transcripts as JSON lines: one write per record, group commit off the event loop, one process at a time."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from tugline.protocol.codec import encode, mended
from tugline.protocol.errors import SessionError
from tugline.protocol.records import AnyRecord
from tugline.stores.lines import last_line_start, lines_backward
from tugline.stores.locks import TORN, Busy, hold, is_busy, lock, unwritable
from tugline.stores.reading import (
    Reading,
    open_regular,
    opening,
    read_records,
    readable,
    records_backward,
    sync_folder,
)

__all__ = ["Busy", "JsonlLog", "Tail", "is_busy"]

_Made = TypeVar("_Made")


class Tail(Struct, frozen=True):
    """What was wrong with a file's end: bytes moved aside because they are no whole record."""

    torn: int = 0
    kept_in: str = ""


class JsonlLog:
    """A transcript file with one writer, which holds a lock on it.

    A record is one `write` on an append-only descriptor, so it survives the process as soon as `append` returns;
    `durable` adds a `fdatasync`, one for all that waits. A write that fails half-way is taken back, so that no line
    is ever torn by a full disk.
    """

    def __init__(self, path: str, fd: int, lines: int = 0, tail: Tail = Tail()) -> None:  # noqa: B008 - frozen
        self.path = path
        self.tail = tail
        self._fd = fd
        self._lines = lines
        self._synced = lines
        self._torn = False
        self._flight: asyncio.Future[None] | None = None

    @classmethod
    def create(cls, path: str) -> "JsonlLog":
        """A new file. `SessionError` if there is one already, or it cannot be made."""
        folder = Path(path).parent
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise SessionError(
                f"There is a session of that id already: {path}. Choose another id, or go on with it: --resume."
            ) from error
        except OSError as error:
            raise unwritable(path, error) from error
        return _kept(fd, path, lambda: cls._begin(path, fd))

    @classmethod
    def _begin(cls, path: str, fd: int) -> "JsonlLog":
        lock(fd, path)
        sync_folder(os.path.dirname(path))
        return cls(path, fd)

    @classmethod
    def resume(cls, path: str) -> tuple["JsonlLog", Reading]:
        """Go on with a file: lock it, put its end right, and read from the last boundary. `Busy` if it is in use."""
        fd = open_regular(path, os.O_RDWR | os.O_APPEND)
        return _kept(fd, path, lambda: cls._go_on(path, fd))

    @classmethod
    def _go_on(cls, path: str, fd: int) -> tuple["JsonlLog", Reading]:
        hold(fd, path)
        reading = read_records(fd, path)  # before anything is changed: it may be no transcript at all
        tail = _mend_tail(fd, path)
        return cls(path, fd, reading.last - bool(tail.torn), tail), reading

    @classmethod
    def add_to(cls, path: str) -> "JsonlLog":
        """A file that only a record is added to, without reading what is in it. `Busy` if it is in use."""
        fd = open_regular(path, os.O_RDWR | os.O_APPEND)
        return _kept(fd, path, lambda: cls._at_end(path, fd))

    @classmethod
    def _at_end(cls, path: str, fd: int) -> "JsonlLog":
        hold(fd, path)
        opened = opening(fd, path)
        last = next((record.n for record in records_backward(fd) if record.n), 0)
        if opened is None and not last:
            raise SessionError(f"{path} is no transcript of tugline.")
        return cls(path, fd, last, _mend_tail(fd, path))

    def read(self, *, whole: bool = False) -> tuple[AnyRecord, ...]:
        """The records from the last boundary on, or all, in order; the first is always there."""
        return read_records(self._fd, self.path, whole=whole).records

    def append(self, record: AnyRecord) -> None:
        """Write the line now; raises `SessionError` if the disk does not take it."""
        if self._fd < 0:
            raise SessionError(f"The transcript {self.path} is closed.")
        line = (b"\n" if self._torn else b"") + _encoded(structs.replace(record, n=self._lines + 1)) + b"\n"
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, line[written:] if written else line)
        except OSError as error:
            if written:
                self._take_back(written)
            raise unwritable(self.path, error, "Nothing recorded so far is lost; make room and go on.") from error
        self._lines += 1
        self._torn = False

    def _take_back(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, os.fstat(self._fd).st_size - size)
        except OSError:
            self._torn = True  # the next line begins with a line end of its own

    async def durable(self) -> None:
        """Until all that was appended so far is on the disk. Callers that wait together share one sync."""
        target = self._lines
        while self._synced < target:
            flight = self._flight
            if flight is None:
                loop = asyncio.get_running_loop()
                flight = self._flight = loop.run_in_executor(None, os.fdatasync, self._fd)
                flight.add_done_callback(partial(self._landed, self._lines))
            await asyncio.wait([flight])  # a cancelled waiter leaves the sync alone
            error = flight.exception()
            if error is not None:
                raise SessionError(f"The session cannot be recorded in {self.path}: {error}.") from error

    def _landed(self, lines: int, flight: "asyncio.Future[None]") -> None:
        self._flight = None
        if not flight.cancelled() and flight.exception() is None:
            self._synced = max(self._synced, lines)

    async def go_on_in(self, other: "JsonlLog") -> None:
        """Write the other's file from now on, and let go of this one."""
        await self.durable()
        if self._flight is not None:
            await asyncio.wait([self._flight])
        former, self._fd, other._fd = self._fd, other._fd, -1
        self.path, self.tail = other.path, other.tail
        self._lines = self._synced = other._lines
        self._torn = False
        os.close(former)

    def close(self) -> None:
        """Sync and close, where there is no event loop."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise unwritable(self.path, error) from error
        finally:
            os.close(fd)

    async def aclose(self) -> None:
        """Sync what is left, let go of the lock, and close the file."""
        if self._fd < 0:
            return
        try:
            await self.durable()
        finally:
            fd, self._fd = self._fd, -1
            if self._flight is None:
                os.close(fd)
            else:  # a sync that still runs keeps the file open, also where nobody waits for it any more
                self._flight.add_done_callback(lambda _: os.close(fd))
                await asyncio.wait([self._flight])


def _encoded(record: AnyRecord) -> bytes:
    """What parts that users bring have put into a record is written as far as it can be."""
    try:
        return encode(record)
    except UnicodeEncodeError:
        return encode(mended(record))


def _kept(fd: int, path: str, use: Callable[[], _Made]) -> _Made:
    """What `use` makes of the descriptor, which is closed if it fails."""
    try:
        return use()
    except OSError as error:
        os.close(fd)
        raise unwritable(path, error) from error
    except BaseException:
        os.close(fd)
        raise


def _mend_tail(fd: int, path: str) -> Tail:
    """A last line without its end is ended if it is a whole record, else moved to `<file>.torn`."""
    size = os.fstat(fd).st_size
    if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
        return Tail()
    line = next(lines_backward(fd))
    if line is not None and readable(line):
        os.write(fd, b"\n")
        return Tail()
    start = last_line_start(fd, size)
    aside = path + TORN
    _move_aside(fd, start, size, aside)
    os.ftruncate(fd, start)
    os.fsync(fd)
    return Tail(size - start, aside)


def _move_aside(fd: int, start: int, end: int, path: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    aside = os.open(path, flags, 0o600)
    try:
        while start < end:
            data = os.pread(fd, min(1 << 20, end - start), start)
            if not data:
                break
            start += len(data)
            while data:
                data = data[os.write(aside, data) :]
        os.write(aside, b"\n")
        os.fsync(aside)
    finally:
        os.close(aside)
    sync_folder(os.path.dirname(path))
