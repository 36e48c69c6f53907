"""HTTP/1.1 as a server speaks it: one asyncio protocol per connection, one request at a time, keep-alive."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import httptools
from msgspec import Struct

from tugline.protocol import codec

BODY_LIMIT = 256 << 20
WAITING_LIMIT = 64


class Received(Struct, frozen=True, eq=False):
    """A request as it came. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """The body's JSON, or `None` where it is none."""
        try:
            return codec.decode_json(self.raw)
        except codec.DecodeError:
            return None


class Connections:
    """The connections that are open."""

    def __init__(self) -> None:
        self.open: set[Connection] = set()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, connection: "Connection") -> None:
        """One more."""
        self.open.add(connection)
        self._none.clear()

    def remove(self, connection: "Connection") -> None:
        """One less."""
        self.open.discard(connection)
        if not self.open:
            self._none.set()

    async def none(self) -> None:
        """Until none is open."""
        await self._none.wait()


class ClientGone(Exception):
    """The client closed the connection."""


Serve = Callable[[Received, "Connection"], Awaitable[None]]


class Connection(asyncio.Protocol):
    """Parses requests, hands each to `serve` in a task of its own, and writes what that answers.

    The task is cancelled when the client goes away.
    """

    def __init__(self, serve: Serve, connections: Connections) -> None:
        self._serve = serve
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Received, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._chunked = False
        self._started = False
        self._keep = True
        self._clear()

    # what the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or we closed: whoever still answers is cancelled."""
        self._transport = None
        self._connections.remove(self)
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400)
        except httptools.HttpParserError:
            self._refuse(400)

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable.set()

    # what the parser tells

    def on_url(self, url: bytes) -> None:
        """More of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The headers are whole."""
        if self._headers.get("expect", "").lower() == "100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """More of the body."""
        self._size += len(data)
        if self._size > BODY_LIMIT:
            self._refuse(413)
            return
        self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is whole: answer it, or let it wait behind the one before."""
        method = self._parser.get_method().decode("latin-1")
        path = self._url.decode("latin-1")
        received = Received(method, path, self._headers, b"".join(self._body))
        self._waiting.append((received, self._parser.should_keep_alive()))
        self._clear()
        if len(self._waiting) > WAITING_LIMIT:
            self._refuse(429)
        elif self._task is None:
            self._next()

    # what an answer is made of

    def start(self, status: int, headers: Mapping[str, str], length: int | None = None) -> None:
        """Send status and headers; without `length` the body is sent in chunks."""
        self._started = True
        self._chunked = length is None
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Unknown"
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        lines.append("transfer-encoding: chunked" if length is None else f"content-length: {length}")
        if not self._keep:
            lines.append("connection: close")
        self._write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))

    def send(self, data: bytes) -> None:
        """Send a part of the body."""
        if data:
            self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    async def drain(self) -> None:
        """Until the client has read enough for more; `ClientGone` if it never will."""
        await self._writable.wait()
        if self._transport is None:
            raise ClientGone

    def finish(self) -> None:
        """The body is whole."""
        if self._chunked:
            self._write(b"0\r\n\r\n")

    def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer."""
        self.start(status, headers, len(body))
        self.send(body)

    def close(self) -> None:
        """Close after what was written is sent: a body that is not whole stays cut off."""
        self._keep = False
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Drop the connection at once."""
        self._keep = False
        if self._transport is not None:
            self._transport.abort()

    async def ended(self) -> None:
        """Until whoever answers here has stopped."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _clear(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0

    def _write(self, data: bytes) -> None:
        if self._transport is None:
            raise ClientGone
        self._transport.write(data)

    def _next(self) -> None:
        if self._waiting and self._transport is not None:
            received, self._keep = self._waiting.popleft()
            self._started = self._chunked = False
            self._task = asyncio.get_running_loop().create_task(self._run(received))

    async def _run(self, received: Received) -> None:
        try:
            await self._serve(received, self)
        except ClientGone:
            self.close()
        except BaseException:
            # cut off, so that the client never takes half an answer for a whole one; the task keeps the error
            self.reset()
            raise
        finally:
            self._task = None
        if not self._keep:
            self.close()
        self._next()

    def _refuse(self, status: int) -> None:
        if self._transport is not None and not self._started:
            line = f"HTTP/1.1 {status} Refused\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self._transport.write(line.encode())
        self.close()
