"""A model server as cheap as can be: it counts replies in the request and sends bytes made beforehand.

It parses nothing but the content length, so that what is measured is the client. Run in a process of its own:
`python -m bench.server WORKLOAD` prints its port, then `REQUEST <time>` when the first byte of a request arrives, and
`SERVED <count>` when it is ended: how many requests it answered.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from types import ModuleType

from bench import messages, responses
from bench.sse import HEAD, Pieces, chunk, whole

STEPS = 200
AGENT_STEPS = 10
DELTAS = 20_000
CALLS = 10
INTERRUPTS = 50
SLEEPERS = "sleep 1000 & (sleep 1000 & sleep 1000) & echo up; sleep 1000"
"""A shell command with children that do not end by themselves."""

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
Answer = Callable[[int], Pieces]
"""The reply, by how many replies the request holds."""


def steps(name: str, data: dict[str, object], count: int = STEPS, dialect: ModuleType = messages) -> Answer:
    """So many steps with one call each, then the last reply."""
    made = [dialect.calling(name, data, n) for n in range(count)]
    made.append(dialect.final())
    return lambda n: made[min(n, count)]


def ten_calls(n: int) -> Pieces:
    """Ten slow calls in one message."""
    if n:
        return messages.final()
    calls = (messages.call(i, "slow", {"n": i}, 0) for i in range(CALLS))
    return whole(messages.start(), *calls, messages.end("tool_use"))


def ten_calls_apart(n: int) -> Pieces:
    """Ten slow calls, their blocks 100 ms apart."""
    if n:
        return messages.final()
    pieces: Pieces = [(0.0, HEAD + chunk(messages.start()))]
    pieces += [(0.1 if i else 0.0, chunk(messages.call(i, "slow", {"n": i}, 0))) for i in range(CALLS)]
    pieces.append((0.0, chunk(messages.end("tool_use")) + chunk(b"")))
    return pieces


WORKLOADS: dict[str, Callable[[], Answer]] = {
    "hello": lambda: lambda n: messages.final(),
    "steps": lambda: steps("trivial", {"x": 1}),
    "steps-read": lambda: steps("Read", {"file_path": "note.txt"}),
    "steps-shell": lambda: steps("Bash", {"command": "true"}),
    "steps-shell-pi": lambda: steps("bash", {"command": "true"}),
    "interrupts": lambda: lambda n: messages.calling("Bash", {"command": SLEEPERS}, n),
    "decisions": lambda: lambda n: messages.final(),
    "resume": lambda: lambda n: messages.final(),
    "resume-whole": lambda: lambda n: messages.final(),
    "steps-4k": lambda: steps("large", {"x": 1}),
    "agents": lambda: steps("trivial", {"x": 1}, AGENT_STEPS),
    "burst": lambda: lambda n: messages.burst(DELTAS),
    "ten": lambda: ten_calls,
    "ten-apart": lambda: ten_calls_apart,
    "responses-hello": lambda: lambda n: responses.final(),
    "responses-steps-shell": lambda: steps("exec_command", {"cmd": "true", "login": False}, dialect=responses),
    "responses-burst": lambda: lambda n: responses.burst(DELTAS),
}


def expected(workload: str, agents: int) -> int:
    """How many requests there are in a run that went as it should."""
    if "steps" in workload:
        return STEPS + 1
    return {
        "decisions": 0,
        "resume": 0,
        "resume-whole": 0,
        "interrupts": INTERRUPTS,
        "agents": agents * (AGENT_STEPS + 1),
        "ten": 2,
        "ten-apart": 2,
    }.get(workload, 1)


class Served:
    """What came in, over all connections."""

    def __init__(self, workload: str) -> None:
        self.answer = WORKLOADS[workload]()
        self.done = responses.DONE if workload.startswith("responses") else messages.DONE
        self.began = False
        self.count = 0

    def seen(self) -> None:
        """Bytes have come."""
        if not self.began:
            self.began = True
            print(f"REQUEST {time.time()}", flush=True)

    def reply(self, head: bytes, body: bytes) -> Pieces:
        """What a request gets; only posts count."""
        if not head.startswith(b"post"):
            return [(0.0, NOT_FOUND)]
        self.count += 1
        return self.answer(body.count(self.done) + body.count(self.done.replace(b":", b": ")))


class Peer(asyncio.Protocol):
    """One connection."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._data = bytearray()
        self._head = b""
        self._need = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._served.seen()
        self._data += data
        while True:
            if self._need < 0:
                split = self._data.find(b"\r\n\r\n")
                if split < 0:
                    return
                self._head = bytes(self._data[:split]).lower()
                _, found, rest = self._head.partition(b"content-length:")
                del self._data[: split + 4]
                self._need = int(rest.split(b"\r\n")[0]) if found else 0
            if len(self._data) < self._need:
                return
            body = bytes(self._data[: self._need])
            del self._data[: self._need]
            self._need = -1
            self._send(self._served.reply(self._head, body))

    def _send(self, pieces: Pieces) -> None:
        for n, (wait, data) in enumerate(pieces):
            if wait:
                asyncio.get_running_loop().call_later(wait, self._send, [(0.0, data), *pieces[n + 1 :]])
                return
            self._transport.write(data)  # type: ignore[attr-defined]


async def serve(workload: str) -> None:
    """Serve until terminated."""
    loop = asyncio.get_running_loop()
    served = Served(workload)
    server = await loop.create_server(lambda: Peer(served), "127.0.0.1", 0, backlog=2048)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()
    print(f"SERVED {served.count}", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(serve(sys.argv[1]))
    except KeyboardInterrupt:
        pass
