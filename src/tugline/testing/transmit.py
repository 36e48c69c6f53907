"""Sending one reply over a connection, with all the faults that its step asks for."""

import asyncio
from collections.abc import Mapping, Sequence

from tugline.protocol import codec
from tugline.protocol.chunks import BlockClosed, BlockStarted, ReplyEnded
from tugline.protocol.script import Cut, ErrorEvent, Garbage, Gate, Pause, Pings, Step
from tugline.testing.connection import Connection
from tugline.testing.dialects import Dialect, Encoder, Json
from tugline.testing.gates import Gates
from tugline.testing.perform import Act

PIECE = 16_384

EVENT_STREAM = "text/event-stream; charset=utf-8"


class _Broken(Exception):
    """The script cuts the stream here; the connection is dealt with."""


class Transmission:
    """One reply on its way to the client."""

    def __init__(self, connection: Connection, gates: Gates, acts: Sequence[Act], step: Step) -> None:
        self._connection = connection
        self._gates = gates
        self._acts = acts
        self._step = step
        self._events_left = step.cut.events if step.cut is not None else None
        self._bytes_left = step.cut.bytes if step.cut is not None else None
        self._pending: list[bytes] = []
        self._size = 0

    async def send(self, dialect: Dialect, body: Json, headers: Mapping[str, str]) -> None:
        """Send the reply, in the way in which the request asks for it."""
        try:
            if body.get("stream") is True:
                await self._stream(dialect.encoder(body), headers)
            else:
                await self._whole(dialect, headers)
        except _Broken:
            return

    async def _stream(self, encoder: Encoder, headers: Mapping[str, str]) -> None:
        kind = self._step.content_type or EVENT_STREAM
        acts = await self._before_head()
        self._connection.start(200, {"content-type": kind, "cache-control": "no-cache", **headers})
        for act in acts:
            if isinstance(act, Pause | Gate | Cut):
                await self._wait(act)
            elif isinstance(act, Pings):
                for _ in range(act.count):
                    await self._put(encoder.ping())
            elif isinstance(act, Garbage):
                await self._put(act.text.encode())
            elif isinstance(act, ErrorEvent):
                await self._put(encoder.error(act.type, act.message))
                break
            else:
                await self._put(encoder.encode(act))
        await self._flush()
        self._connection.finish()

    async def _whole(self, dialect: Dialect, headers: Mapping[str, str]) -> None:
        for act in self._acts:
            if isinstance(act, Pause | Gate):
                await self._wait(act)
        chunks = [a for a in self._acts if not isinstance(a, Pause | Gate | Pings | Garbage | Cut | ErrorEvent)]
        data = codec.encode(dialect.whole(chunks))
        data += b"".join(act.text.encode() for act in self._acts if isinstance(act, Garbage))
        cut = self._cut()
        sent = len(data) if cut is None else len(data) // 2 if cut.bytes is None else min(cut.bytes, len(data))
        length = sent if cut is None or cut.how == "end" else len(data)
        head = {"content-type": self._step.content_type or "application/json", **headers}
        self._connection.start(200, head, length)
        self._pending.append(data[:sent])
        await self._flush()
        if cut is not None and cut.how != "end":
            await self._break(cut)

    def _cut(self) -> Cut | None:
        """How a reply in one piece breaks off: as its step says, or in the middle where its end is not proper."""
        if self._step.cut is not None:
            return self._step.cut
        if here := next((act for act in self._acts if isinstance(act, Cut)), None):
            return here
        proper = any(isinstance(act, ReplyEnded) for act in self._acts) and not self._unclosed()
        return None if proper and not any(isinstance(act, ErrorEvent) for act in self._acts) else Cut()

    def _unclosed(self) -> bool:
        opened = sum(isinstance(act, BlockStarted) for act in self._acts)
        return opened != sum(isinstance(act, BlockClosed) for act in self._acts)

    async def _before_head(self) -> Sequence[Act]:
        """Pauses and gates before the first word also hold back the head of the answer."""
        for n, act in enumerate(self._acts):
            if not isinstance(act, Pause | Gate):
                return self._acts[n:]
            await self._wait(act)
        return ()

    async def _wait(self, act: Pause | Gate | Cut) -> None:
        await self._flush()
        if isinstance(act, Pause):
            await asyncio.sleep(act.seconds)
        elif isinstance(act, Gate):
            await self._gates.passed(act.name)
        else:
            await self._break(act)

    async def _put(self, data: bytes) -> None:
        if not data:
            return
        if self._events_left is not None:
            self._events_left -= 1
            if self._events_left < 0:
                await self._flush()
                await self._break(self._step.cut or Cut())
        if self._bytes_left is not None:
            if len(data) > self._bytes_left:
                self._pending.append(data[: self._bytes_left])
                await self._flush()
                await self._break(self._step.cut or Cut())
            self._bytes_left -= len(data)
        self._pending.append(data)
        self._size += len(data)
        if self._size >= PIECE:
            await self._flush()

    async def _flush(self) -> None:
        data = b"".join(self._pending)
        self._pending.clear()
        self._size = 0
        size = self._step.split or len(data)
        for start in range(0, len(data), max(size, 1)):
            self._connection.send(data[start : start + size])
            await self._connection.drain()

    async def _break(self, cut: Cut) -> None:
        match cut.how:
            case "hang":
                await asyncio.Event().wait()
            case "drop":
                self._connection.reset()
            case "close":
                self._connection.close()
            case "end":
                self._connection.finish()
        raise _Broken
