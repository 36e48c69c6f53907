"""A model server that sends any bytes it is told to, and well-formed streams in pieces to spoil.

It shares no code with the scripted model's transport: what is wrong on the wire is wrong because a test wrote it.
"""

import asyncio
import gzip
import json
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tugline.testing.validity import Invalid
from tugline.testing.wire_anthropic import Messages
from tugline.testing.wire_chat import Chat
from tugline.testing.wire_responses import Responses

SPOILED = "SPOILED"
"""Stands in all that a faulty answer says, so that a test sees where it ended up."""
FINE = "Fine."


# -- what the protocols say


@dataclass(frozen=True)
class Call:
    """A call in a reply; `arguments` is sent as it stands."""

    arguments: str = '{"name": "SPOILED"}'
    id: str | None = "call_1"
    name: str | None = "touch"


Part = str | Call


def sse(data: Any, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


class Anthropic:
    """Streams of the Messages API."""

    name = "anthropic"
    dialect = Messages()
    model = "claude-sonnet-4-5"
    path = ""

    def event(self, kind: str, **data: Any) -> bytes:
        return sse({"type": kind, **data}, kind)

    def start(self, reply: str = "msg_1") -> list[bytes]:
        usage = {"input_tokens": 10, "output_tokens": 1}
        about = {"id": reply, "type": "message", "role": "assistant", "model": self.model, "content": []}
        return [self.event("message_start", message={**about, "stop_reason": None, "usage": usage})]

    def part(self, index: int, part: Part) -> list[bytes]:
        if isinstance(part, str):
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": part}
        else:
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            block = {key: value for key, value in block.items() if value is not None}
            delta = {"type": "input_json_delta", "partial_json": part.arguments}
        return [
            self.event("content_block_start", index=index, content_block=block),
            self.event("content_block_delta", index=index, delta=delta),
            self.event("content_block_stop", index=index),
        ]

    def end(self, parts: Sequence[Part] = (), stop: str = "") -> list[bytes]:
        stop = stop or ("tool_use" if any(isinstance(part, Call) for part in parts) else "end_turn")
        usage = {"output_tokens": 5}
        return [
            self.event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage),
            self.event("message_stop"),
        ]

    def whole(self, *parts: Part) -> bytes:
        blocks = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "tool_use", "id": part.id, "name": part.name, "input": json.loads(part.arguments)}
            for part in parts
        ]
        stop = "tool_use" if any(isinstance(part, Call) for part in parts) else "end_turn"
        about = {"id": "msg_w", "type": "message", "role": "assistant", "model": self.model, "content": blocks}
        return json.dumps({**about, "stop_reason": stop, "usage": {"input_tokens": 10, "output_tokens": 5}}).encode()

    def error(self, kind: str, text: str) -> bytes:
        return json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode()

    def error_event(self, kind: str, text: str) -> bytes:
        return self.event("error", error={"type": kind, "message": text})

    def ping(self) -> bytes:
        return self.event("ping")


class OpenAIChat:
    """Streams of Chat Completions."""

    name = "chat"
    dialect = Chat()
    model = "gpt-x"
    path = "/v1"

    def chunk(self, choice: dict[str, Any] | None = None, **more: Any) -> bytes:
        choices = [] if choice is None else [{"index": 0, "finish_reason": None, **choice}]
        return sse({"id": "c1", "object": "chat.completion.chunk", "model": self.model, "choices": choices, **more})

    def start(self, reply: str = "") -> list[bytes]:
        return [self.chunk({"delta": {"role": "assistant", "content": ""}})]

    def part(self, index: int, part: Part) -> list[bytes]:
        if isinstance(part, str):
            return [self.chunk({"delta": {"content": part}})]
        function = {"name": part.name, "arguments": ""}
        opening = {"index": index, "id": part.id, "type": "function", "function": function}
        opening = {key: value for key, value in opening.items() if value is not None}
        more = {"index": index, "function": {"arguments": part.arguments}}
        return [self.chunk({"delta": {"tool_calls": [opening]}}), self.chunk({"delta": {"tool_calls": [more]}})]

    def end(self, parts: Sequence[Part] = (), stop: str = "") -> list[bytes]:
        stop = stop or ("tool_calls" if any(isinstance(part, Call) for part in parts) else "stop")
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        return [self.chunk({"delta": {}, "finish_reason": stop}), self.chunk(usage=usage), b"data: [DONE]\n\n"]

    def whole(self, *parts: Part) -> bytes:
        calls = [
            {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
            for part in parts
            if isinstance(part, Call)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(p for p in parts if isinstance(p, str))}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return json.dumps({"id": "c1", "model": self.model, "choices": [choice]}).encode()

    def error(self, kind: str, text: str) -> bytes:
        return json.dumps({"error": {"type": kind, "message": text, "code": kind, "param": None}}).encode()

    def error_event(self, kind: str, text: str) -> bytes:
        return sse(self.error(kind, text).decode())

    def ping(self) -> bytes:
        return b": ping\n\n"


class OpenAIResponses(OpenAIChat):
    """Streams of the Responses API."""

    name = "responses"
    dialect = Responses()  # type: ignore[assignment]

    def event(self, kind: str, **data: Any) -> bytes:
        return sse({"type": kind, **data}, kind)

    def _response(self, status: str, output: Sequence[Any] = ()) -> dict[str, Any]:
        about = {"id": "resp_1", "object": "response", "status": status, "model": self.model, "output": list(output)}
        return {**about, "error": None, "usage": {"input_tokens": 10, "output_tokens": 5}}

    def _item(self, index: int, part: Part) -> dict[str, Any]:
        if isinstance(part, str):
            content = [{"type": "output_text", "text": part, "annotations": []}]
            return {"id": f"m{index}", "type": "message", "role": "assistant", "content": content}
        item = {"id": f"fc{index}", "type": "function_call", "call_id": part.id, "name": part.name}
        return {**{key: value for key, value in item.items() if value is not None}, "arguments": part.arguments}

    def start(self, reply: str = "") -> list[bytes]:
        return [self.event("response.created", response=self._response("in_progress"))]

    def part(self, index: int, part: Part) -> list[bytes]:
        item = self._item(index, part)
        empty = {**item, "content": []} if isinstance(part, str) else {**item, "arguments": ""}
        text, kind = (part, "output_text") if isinstance(part, str) else (part.arguments, "function_call_arguments")
        where = {"output_index": index, "item_id": item["id"]}
        return [
            self.event("response.output_item.added", output_index=index, item=empty),
            self.event(f"response.{kind}.delta", **where, delta=text),
            self.event("response.output_item.done", output_index=index, item=item),
        ]

    def end(self, parts: Sequence[Part] = (), stop: str = "") -> list[bytes]:
        items = [self._item(index, part) for index, part in enumerate(parts)]
        return [self.event("response.completed", response=self._response("completed", items))]

    def whole(self, *parts: Part) -> bytes:
        return json.dumps(self._response("completed", [self._item(n, part) for n, part in enumerate(parts)])).encode()

    def error_event(self, kind: str, text: str) -> bytes:
        return self.event("error", code=kind, message=text, param=None)


Tongue = Anthropic | OpenAIChat
ANTHROPIC, CHAT, RESPONSES = Anthropic(), OpenAIChat(), OpenAIResponses()
TONGUES: tuple[Tongue, ...] = (ANTHROPIC, CHAT, RESPONSES)


def stream(tongue: Tongue, *parts: Part, stop: str = "") -> list[bytes]:
    """A whole reply as events."""
    said = [event for index, part in enumerate(parts) for event in tongue.part(index, part)]
    return [*tongue.start(), *said, *tongue.end(parts, stop)]


# -- answers


Piece = bytes | float | int
"""Bytes to send; a float is a pause; an int is so many kilobytes of `x`."""


@dataclass(frozen=True)
class Answer:
    """What is sent for one request, and what becomes of the connection: `keep`, `close`, `reset`, or `hang`."""

    pieces: tuple[Piece, ...]
    after: str = "keep"
    endless: bytes = b""
    """Sent again and again with short pauses until the client goes away."""
    early: bool = False
    """The connection is also closed while it is idle, after the answer."""

    def then(self, after: str) -> "Answer":
        return replace(self, after=after)


def head(status: int = 200, kind: str = "text/event-stream", *more: str) -> bytes:
    """The head of an answer; its framing stands in `more`."""
    return "\r\n".join([f"HTTP/1.1 {status} Word", f"Content-Type: {kind}", *more, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunked(*events: bytes, status: int = 200, kind: str = "text/event-stream", more: Sequence[str] = ()) -> Answer:
    """Events in a body that ends properly."""
    pieces = [chunk(event) for event in events if event]
    return Answer((head(status, kind, "Transfer-Encoding: chunked", *more), *pieces, b"0\r\n\r\n"))


def unended(*events: Piece, after: str = "close") -> Answer:
    """Events in a body whose end never comes."""
    pieces = [chunk(event) if isinstance(event, bytes) else event for event in events]
    return Answer((head(200, "text/event-stream", "Transfer-Encoding: chunked"), *pieces), after)


def plain(
    body: bytes, *more: str, status: int = 200, kind: str = "application/json", length: int | None = None
) -> Answer:
    """A body in one piece."""
    size = len(body) if length is None else length
    return Answer((head(status, kind, f"Content-Length: {size}", *more), body))


def refusal(tongue: Tongue, status: int, kind: str, text: str = "no", *more: str) -> Answer:
    """An error as the service says it."""
    return plain(tongue.error(kind, text), *more, status=status)


def zipped(data: bytes, cut: int | None = None) -> Answer:
    """A gzipped stream of events, cut after so many bytes."""
    packed = gzip.compress(data)[:cut]
    return Answer((head(200, "text/event-stream", "Content-Encoding: gzip", f"Content-Length: {len(packed)}"), packed))


# -- the server


@dataclass
class FaultyServer:
    """Gives these answers in order, and a sound one to every request after them. Judges each request strictly."""

    tongue: Tongue
    answers: Sequence[Answer]
    fine: Callable[[int], str] = lambda number: FINE
    next: Callable[[], Answer | None] | None = None
    """Chooses the answers in place of `answers`."""
    bodies: list[Any] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.tongue.path}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._writers.discard(writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        raw_head = await reader.readuntil(b"\r\n\r\n")
        lines = raw_head.decode("latin-1").split("\r\n")[1:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        data = await reader.readexactly(int(headers["content-length"]))
        body = self._judge(data, headers)
        number = len(self.raw)
        self.raw.append(data)
        self.bodies.append(body)
        answer = self._choose(number) or self._sound(number, body)
        for piece in answer.pieces:
            await self._send(writer, piece)
        while answer.endless:
            await self._send(writer, answer.endless)
            await asyncio.sleep(0.01)
        if answer.after == "hang":
            await reader.read()
        if answer.after == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(1, 13, linger)  # SOL_SOCKET, SO_LINGER: the end is a RST
        return answer.after == "keep"

    def _choose(self, number: int) -> Answer | None:
        if self.next is not None:
            return self.next()
        return self.answers[number] if number < len(self.answers) else None

    async def _send(self, writer: asyncio.StreamWriter, piece: Piece) -> None:
        if isinstance(piece, float):
            await asyncio.sleep(piece)
        elif isinstance(piece, int):
            for _ in range(0, piece, 64):
                writer.write(b"x" * 65_536)
                await writer.drain()
        else:
            for start in range(0, len(piece), 262_144):
                writer.write(piece[start : start + 262_144])
                await writer.drain()

    def _judge(self, data: bytes, headers: dict[str, str]) -> Any:
        try:
            body = json.loads(data.decode("utf-8"))
            self.tongue.dialect.check(body, headers)
            self.tongue.dialect.view(body)
        except (Invalid, ValueError, KeyError, TypeError) as error:
            self.problems.append(f"request {len(self.raw) + 1}: {error!r}")
            body = {}
        return body

    def _sound(self, number: int, body: Any) -> Answer:
        words = self.fine(number)
        if body.get("stream") is True:
            return chunked(*stream(self.tongue, words))
        return plain(self.tongue.whole(words))


@asynccontextmanager
async def serving(tongue: Tongue, *answers: Answer) -> AsyncIterator[FaultyServer]:
    """A faulty server at work."""
    faulty = FaultyServer(tongue, answers)
    server = await asyncio.start_server(faulty.talk, "127.0.0.1", 0, limit=1 << 26)
    faulty.port = server.sockets[0].getsockname()[1]
    try:
        yield faulty
    finally:
        server.close()
        for writer in tuple(faulty._writers):
            writer.transport.abort()
        while faulty._writers:
            await asyncio.sleep(0.001)
        await server.wait_closed()


def options(server: FaultyServer, folder: Path, **network: float) -> dict[str, Any]:
    """What a session needs to speak to the server, in a folder of its own."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    pace = {"retryBase": 0.001, "maxRetries": 3, "idleTimeout": 10, **network}
    settings: dict[str, Any] = {"network": pace, "permissions": {"allow": ["touch", "peek"]}}
    prefix = ""
    if server.tongue.name != "anthropic":
        prefix = "openai/"
        settings["providers"] = {"openai": {"api": server.tongue.name}}
    return {
        "cwd": str(project),
        "environ": {"TUGLINE_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin"},
        "base_url": server.base_url,
        "api_key": KEY,
        "model": prefix + server.tongue.model,
        "settings": settings,
        "setting_sources": (),
        "builtin_tools": (),
    }


KEY = "sk-secret-0123456789"
