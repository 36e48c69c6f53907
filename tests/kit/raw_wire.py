"""A client of few lines: it shows what is on the wire, and takes nothing from the code under test.

A test module gets the fixture with `pytest_plugins = ["raw_wire"]`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httptools
import pytest

HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "k", "content-type": "application/json"}


@dataclass
class Answer:
    """What came back; `whole` says whether the body ended properly, `pieces` how the chunks were cut."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    whole: bool = False
    reset: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)

    def on_message_complete(self) -> None:
        self.whole = True

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Names and data of the events; `[DONE]` as it stands."""
        found = []
        for block in self.body.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
            if "data" in lines:
                data = lines["data"]
                found.append((lines.get("event", ""), data if data == "[DONE]" else json.loads(data)))
        return found


class Wire:
    """One connection, kept alive over requests."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> None:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + data)

    async def receive(self) -> Answer:
        assert self._reader is not None
        answer = Answer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.whole:
            try:
                data = await self._reader.read(65536)
            except ConnectionResetError:
                answer.reset = True
                data = b""
            if not data:
                break
            parser.feed_data(data)
        answer.status = parser.get_status_code()
        return answer

    async def ask(
        self, path: str, body: Any = None, *, method: str = "POST", headers: Mapping[str, str] = HEADERS
    ) -> Answer:
        await self.send(method, path, body, headers)
        return await self.receive()

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            try:
                await self._writer.wait_closed()
            except ConnectionError:
                pass


@pytest.fixture
async def wire() -> AsyncIterator[Callable[[int], Wire]]:
    """Makes connections to a port, and closes them at the end."""
    made: list[Wire] = []

    def connect(port: int) -> Wire:
        made.append(Wire(port))
        return made[-1]

    yield connect
    for each in made:
        await each.close()
