"""The one writer of stdout: in order, at once, and never in the way of the event loop."""

import asyncio
import os
import select

PIECE = 4096
"""A pipe that is ready takes this much without blocking (PIPE_BUF)."""


class OutputGone(Exception):
    """Nobody reads stdout any more."""


class OutputFailed(Exception):
    """Stdout cannot be written; the text says why."""


class Output:
    """Writes what is put into `buffer`. A reader who takes its time delays nothing but the output."""

    def __init__(self, fd: int = 1) -> None:
        self.buffer = bytearray()
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    async def drain(self) -> None:
        """Write the buffer out; raises `OutputGone` or `OutputFailed`."""
        data, sent = self.buffer, 0
        try:
            while sent < len(data):
                if not self._poll.poll(0):
                    await self._ready()
                sent += self._write(data, sent)
        finally:
            del data[:sent]

    def drain_now(self) -> None:
        """Write what can be written without waiting; for a process that is about to end."""
        try:
            while self.buffer and self._poll.poll(0):
                del self.buffer[: self._write(self.buffer, 0)]
        except (OutputGone, OutputFailed):
            self.buffer.clear()

    def _write(self, data: bytearray, start: int) -> int:
        try:
            with memoryview(data) as view:
                return os.write(self._fd, view[start : start + PIECE])
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise OutputGone from None
        except OSError as error:
            raise OutputFailed(f"stdout cannot be written: {error.strerror}.") from None

    async def _ready(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()

        def writable() -> None:
            if not ready.done():
                ready.set_result(None)

        try:
            loop.add_writer(self._fd, writable)
        except PermissionError:
            return  # a regular file: always ready, whatever it says
        try:
            await ready
        finally:
            loop.remove_writer(self._fd)
