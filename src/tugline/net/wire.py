"""One connection as a stream of bytes.

A protocol of our own instead of anyio's streams: half the CPU per request (`bench/spikes/README.md`), and
the whole request can be handed over at once while the answer already comes in, so that a server which answers early
(413, 401) without reading on is heard.
"""

import asyncio
from collections import deque

_HIGH_WATER = 512 * 1024


class Wire(asyncio.Protocol):
    """Bytes out at once, bytes in when they come. At most half a megabyte waits unread."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._unread: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._held: asyncio.Future[None] | None = None
        self.failure: Exception | None = None

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands (again, when TLS was put on it)."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep the bytes, and hold the sender back when too many wait."""
        self._unread.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """The other side has ended; the transport closes itself."""
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        self._ended = True
        self.failure = self.failure or exc
        if not self._closed.done():
            self._closed.set_result(None)
        self.resume_writing()
        self._wake()

    def pause_writing(self) -> None:
        """More waits to be sent than the transport likes."""
        self._held = self._loop.create_future()

    def resume_writing(self) -> None:
        """It takes more again."""
        if self._held is not None and not self._held.done():
            self._held.set_result(None)
        self._held = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- what the client calls ---

    @property
    def transport(self) -> asyncio.Transport:
        """The transport; only after the connection was made."""
        assert self._transport is not None
        return self._transport

    def adopt(self, transport: asyncio.Transport) -> None:
        """Go on over another transport (TLS on top of the former one)."""
        self._transport = transport

    @property
    def quiet(self) -> bool:
        """Whether the connection is open and nothing waits unread."""
        return not self._ended and not self._unread and not self.transport.is_closing()

    def send(self, data: bytes) -> None:
        """Hand the bytes over; what the system does not take at once is sent as it can."""
        self.transport.write(data)

    async def room(self) -> None:
        """Until the transport takes more; at once where it does, or where the connection is gone."""
        if self._held is not None:
            await self._held

    def take(self) -> bytes:
        """What waits unread, without waiting; may be nothing."""
        unread = self._unread
        if not unread:
            return b""
        data = unread[0] if len(unread) == 1 else b"".join(unread)
        unread.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return data

    async def receive(self, timeout: float | None = None) -> bytes:
        """The next bytes; nothing at the end (`failure` then says why); `TimeoutError`."""
        if not self._unread:
            if self._ended:
                return b""
            waiter = self._waiter = self._loop.create_future()
            timer = None if timeout is None else self._loop.call_later(timeout, self._expire, waiter)
            try:
                await waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        return self.take()

    @staticmethod
    def _expire(waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_exception(TimeoutError())

    def end(self) -> None:
        """Send no more; what comes in is still read."""
        if self._transport is not None and self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        """Close once all is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what was not sent is dropped."""
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        """Until the socket is closed, after `abort`."""
        await asyncio.shield(self._closed)
