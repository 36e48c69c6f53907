"""A model server as cheap as can be: it counts replies in the request and sends bytes made beforehand.

It parses nothing but the content length, so that what is measured is the client. Run in a process of its own:
`python -m bench.server WORKLOAD` prints its port, then `REQUEST <time>` when the first byte of a request arrives.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable

STEPS = 200
AGENT_STEPS = 10
DELTAS = 20_000
CALLS = 10

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(name: str, data: dict[str, object]) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **data}, separators=(',', ':'))}\n\n".encode()


def start() -> bytes:
    """The beginning of every reply."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    return event("message_start", {"message": message})


def end(stop: str) -> bytes:
    """The end of every reply."""
    delta = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 10}}
    return event("message_delta", delta) + event("message_stop", {})


def block(index: int, opened: dict[str, object], deltas: list[dict[str, object]]) -> bytes:
    """One block."""
    parts = [event("content_block_start", {"index": index, "content_block": opened})]
    parts += [event("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
    parts.append(event("content_block_stop", {"index": index}))
    return b"".join(parts)


def text(words: list[str]) -> bytes:
    """A text block of one delta per word."""
    return block(0, {"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in words])


def call(index: int, name: str, data: dict[str, object], step: int) -> bytes:
    """A call."""
    opened = {"type": "tool_use", "id": f"toolu_{step}_{index}", "name": name, "input": {}}
    return block(index, opened, [{"type": "input_json_delta", "partial_json": json.dumps(data)}])


def chunk(data: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


Pieces = list[tuple[float, bytes]]
"""Seconds to wait, then bytes to send."""


def whole(*parts: bytes) -> Pieces:
    """A reply in one piece."""
    return [(0.0, SSE_HEAD + chunk(b"".join(parts)) + chunk(b""))]


def final() -> Pieces:
    """The last reply."""
    return whole(start(), text(["done"]), end("end_turn"))


def steps(name: str, data: dict[str, object], count: int) -> Callable[[int], Pieces]:
    """So many steps with one call each, then the last reply."""
    made = [whole(start(), call(0, name, data, n), end("tool_use")) for n in range(count)]
    return lambda n: made[n] if n < count else final()


def burst(n: int) -> Pieces:
    """A reply of many deltas."""
    events = [event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})]
    one = event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "word "}})
    body = start() + events[0]
    pieces: Pieces = [(0.0, SSE_HEAD + chunk(body))]
    for _ in range(DELTAS // 100):
        pieces.append((0.0, b"".join(chunk(one) for _ in range(100))))
    pieces.append((0.0, chunk(event("content_block_stop", {"index": 0}) + end("end_turn")) + chunk(b"")))
    return pieces


def ten_calls(n: int) -> Pieces:
    """Ten slow calls in one message."""
    if n:
        return final()
    return whole(start(), *(call(i, "slow", {"n": i}, 0) for i in range(CALLS)), end("tool_use"))


def ten_calls_apart(n: int) -> Pieces:
    """Ten slow calls, their blocks 100 ms apart."""
    if n:
        return final()
    pieces: Pieces = [(0.0, SSE_HEAD + chunk(start()))]
    pieces += [(0.1 if i else 0.0, chunk(call(i, "slow", {"n": i}, 0))) for i in range(CALLS)]
    pieces.append((0.0, chunk(end("tool_use")) + chunk(b"")))
    return pieces


WORKLOADS: dict[str, Callable[[int], Pieces]] = {
    "hello": lambda n: final(),
    "steps": steps("trivial", {"x": 1}, STEPS),
    "steps-read": steps("Read", {"file_path": "note.txt"}, STEPS),
    "steps-shell": steps("Bash", {"command": "true"}, STEPS),
    "steps-4k": steps("large", {"x": 1}, STEPS),
    "agents": steps("trivial", {"x": 1}, AGENT_STEPS),
    "burst": burst,
    "ten": ten_calls,
    "ten-apart": ten_calls_apart,
}


class Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, answer: Callable[[int], Pieces], seen: Callable[[], None]) -> None:
        self._answer = answer
        self._seen = seen
        self._data = bytearray()
        self._need = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._seen()
        self._data += data
        while True:
            if self._need < 0:
                split = self._data.find(b"\r\n\r\n")
                if split < 0:
                    return
                head = bytes(self._data[:split]).lower()
                length = head.split(b"content-length:")[1].split(b"\r\n")[0] if b"content-length:" in head else b"0"
                self._need = split + 4 + int(length)
            if len(self._data) < self._need:
                return
            body = self._data[: self._need]
            del self._data[: self._need]
            self._need = -1
            done = body.count(b'"role":"assistant"') + body.count(b'"role": "assistant"')
            self._send(self._answer(done))

    def _send(self, pieces: Pieces) -> None:
        for n, (wait, data) in enumerate(pieces):
            if wait:
                asyncio.get_running_loop().call_later(wait, self._send, [(0.0, data), *pieces[n + 1 :]])
                return
            self._transport.write(data)  # type: ignore[attr-defined]


async def serve(workload: str) -> None:
    """Serve until killed."""
    first = True

    def seen() -> None:
        nonlocal first
        if first:
            first = False
            print(f"REQUEST {time.time()}", flush=True)

    server = await asyncio.get_running_loop().create_server(lambda: Peer(WORKLOADS[workload], seen), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(serve(sys.argv[1]))
    except KeyboardInterrupt:
        pass
