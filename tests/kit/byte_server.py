"""A server on loopback that does exactly what a test tells it, at the level of bytes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

Talk = Callable[["Line"], Awaitable[None]]


class Line:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: "ByteServer") -> None:
        self.reader = reader
        self.writer = writer
        self.server = server

    async def request(self) -> bytes:
        """Read one request, head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        request = head + await self.reader.readexactly(length)
        self.server.requests.append(request)
        return request

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Until the client has closed."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def reset(self) -> None:
        """Close with RST."""
        import socket
        import struct

        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class ByteServer:
    """Runs `talk` for each connection, and closes it afterwards."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = asyncio.Event()
        self.port = 0
        self.scheme = "http"

    def url(self, path: str = "/") -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._talk(Line(reader, writer, self))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            self.ended.set()

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        self.scheme = "https" if context else "http"

    async def stop(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


Serve = Callable[..., Awaitable[ByteServer]]
PEM = Path(__file__).with_name("localhost.pem")


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`server = await serve(talk)`; with `tls=True` it speaks TLS with a certificate that nobody trusts."""
    servers: list[ByteServer] = []

    async def start(talk: Talk, *, tls: bool = False) -> ByteServer:
        server = ByteServer(talk)
        context = None
        if tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(PEM)
        await server.start(context)
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
def pem() -> str:
    """The path of the server's certificate."""
    return str(PEM)
