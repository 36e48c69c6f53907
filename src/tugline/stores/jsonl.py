"""Transcripts as JSON lines: one write per record, group commit off the event loop."""

import asyncio
import os
from functools import partial
from pathlib import Path

from msgspec import structs

from tugline.protocol.codec import encode
from tugline.protocol.errors import SessionError
from tugline.protocol.records import AnyRecord


class JsonlLog:
    """A transcript file with one writer.

    A record is one `write` on an append-only descriptor, so it survives the process as soon as `append` returns;
    `durable` adds a `fdatasync`, one for all that waits. A write that fails half-way is taken back, so that no line
    is ever torn by a full disk.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lines = 0
        self._synced = 0
        self._torn = False
        self._flight: asyncio.Future[None] | None = None
        self._fd = self._open(path)

    @staticmethod
    def _open(path: str) -> int:
        folder = Path(path).parent
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder_fd)
            finally:
                os.close(folder_fd)
        except FileExistsError as error:
            raise SessionError(f"There is a session of that id already: {path}. Choose another id.") from error
        except OSError as error:
            raise SessionError(
                f"The session cannot be recorded in {path}: {error.strerror}. "
                "Make the folder writable, or set TUGLINE_HOME to another one."
            ) from error
        return fd

    def append(self, record: AnyRecord) -> None:
        """Write the line now; raises `SessionError` if the disk does not take it."""
        if self._fd < 0:
            raise SessionError(f"The transcript {self.path} is closed.")
        line = (b"\n" if self._torn else b"") + encode(structs.replace(record, n=self._lines + 1)) + b"\n"
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, line[written:] if written else line)
        except OSError as error:
            if written:
                self._take_back(written)
            raise SessionError(
                f"The session cannot be recorded in {self.path}: {error.strerror}. "
                "Nothing recorded so far is lost; make room and go on."
            ) from error
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

    async def aclose(self) -> None:
        """Sync what is left and close the file."""
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
