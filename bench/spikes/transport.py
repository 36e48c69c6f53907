"""The spike of decision 28: which transport carries the model traffic?

`python bench/spikes/transport.py` prints a table; each figure is the median of rounds, every round a fresh process,
rounds of the candidates alternating. The server is a process of its own, so the CPU figures are the client's alone.
Candidates split the event stream with the same few lines, so what differs is transport and HTTP parsing.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time

CANDIDATES = ("httpx2", "aiohttp", "anyio-h11", "anyio-httptools", "protocol-httptools", "tugline")
WORKLOADS = ("a", "b", "e", "f")
BODY = b'{"model":"m","stream":true,"messages":[' + b'{"role":"user","content":"' + b"x" * 2000 + b'"}]}'
DELTA = (
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello world"}}\n\n'
)


# --- the server -------------------------------------------------------------------------------------------------------


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    small = b"".join(b"%x\r\n%s\r\n" % (len(DELTA), DELTA) for _ in range(10)) + b"0\r\n\r\n"
    burst = b"".join(b"%x\r\n%s\r\n" % (len(DELTA), DELTA) for _ in range(20_000)) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    try:
        while True:
            request = await reader.readuntil(b"\r\n\r\n")
            lower = request.lower()
            length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(head + (burst if b"/burst" in request.split(b"\r\n")[0] else small))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def serve() -> None:
    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# --- the candidates: `make()` gives an agent's `post(path)`, an iterator over the pieces of the body ------------------


def make_httpx2(port):
    import ssl

    import httpx2

    context = ssl.create_default_context()

    def agent():
        client = httpx2.AsyncClient(
            verify=context, trust_env=False, limits=httpx2.Limits(max_connections=4, max_keepalive_connections=4)
        )

        async def post(path):
            async with client.stream(
                "POST", f"http://127.0.0.1:{port}{path}", content=BODY, headers={"content-type": "application/json"}
            ) as response:
                async for piece in response.aiter_raw():
                    yield piece

        return post, client.aclose

    return agent


def make_aiohttp(port):
    import aiohttp

    def agent():
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=4))

        async def post(path):
            async with session.post(
                f"http://127.0.0.1:{port}{path}", data=BODY, headers={"content-type": "application/json"}
            ) as response:
                async for piece in response.content.iter_any():
                    yield piece

        return post, session.close

    return agent


HEAD = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def make_anyio_h11(port):
    import anyio
    import h11

    def agent():
        kept = []

        async def post(path):
            if kept:
                stream, http = kept.pop()
                http.start_next_cycle()
            else:
                stream, http = await anyio.connect_tcp("127.0.0.1", port), h11.Connection(h11.CLIENT)
            request = h11.Request(
                method="POST",
                target=path,
                headers=[
                    ("Host", "127.0.0.1"),
                    ("Content-Type", "application/json"),
                    ("Content-Length", str(len(BODY))),
                ],
            )
            await stream.send(http.send(request) + http.send(h11.Data(data=BODY)) + http.send(h11.EndOfMessage()))
            while True:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    http.receive_data(await stream.receive(262_144))
                elif isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
            kept.append((stream, http))

        async def close():
            for stream, _ in kept:
                await stream.aclose()

        return post, close

    return agent


class Incoming:
    """What httptools calls."""

    def __init__(self):
        self.pieces = []
        self.done = False

    def on_body(self, data):
        self.pieces.append(data)

    def on_message_begin(self):
        self.done = False

    def on_message_complete(self):
        self.done = True


def make_anyio_httptools(port):
    import anyio
    import httptools

    def agent():
        kept = []

        async def post(path):
            if kept:
                stream, incoming, parser = kept.pop()
            else:
                stream, incoming = await anyio.connect_tcp("127.0.0.1", port), Incoming()
                parser = httptools.HttpResponseParser(incoming)
            incoming.done = False
            await stream.send(HEAD % (path.encode(), len(BODY)) + BODY)
            while not incoming.done:
                parser.feed_data(await stream.receive(262_144))
                if incoming.pieces:
                    yield b"".join(incoming.pieces)
                    incoming.pieces.clear()
            kept.append((stream, incoming, parser))

        async def close():
            for stream, _, _ in kept:
                await stream.aclose()

        return post, close

    return agent


def make_protocol_httptools(port):
    import anyio  # noqa: F401 - the program imports it anyhow, so its cost is not left out
    import httptools

    class Wire(asyncio.Protocol):
        def __init__(self):
            self.queue = []
            self.held = 0
            self.waiter = None
            self.transport = None

        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.queue.append(data)
            self.held += len(data)
            if self.held > 524_288:
                self.transport.pause_reading()
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)

        def connection_lost(self, exc):
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)

        async def receive(self):
            if not self.queue:
                self.waiter = asyncio.get_running_loop().create_future()
                await self.waiter
                self.waiter = None
            data = b"".join(self.queue) if len(self.queue) > 1 else self.queue[0]
            self.queue.clear()
            if self.held > 524_288:
                self.transport.resume_reading()
            self.held = 0
            return data

    def agent():
        kept = []

        async def post(path):
            if kept:
                wire, incoming, parser = kept.pop()
            else:
                _, wire = await asyncio.get_running_loop().create_connection(Wire, "127.0.0.1", port)
                incoming = Incoming()
                parser = httptools.HttpResponseParser(incoming)
            incoming.done = False
            wire.transport.write(HEAD % (path.encode(), len(BODY)) + BODY)
            while not incoming.done:
                parser.feed_data(await wire.receive())
                if incoming.pieces:
                    yield b"".join(incoming.pieces)
                    incoming.pieces.clear()
            kept.append((wire, incoming, parser))

        async def close():
            for wire, _, _ in kept:
                wire.transport.close()

        return post, close

    return agent


def make_tugline(port):
    """What came of it: `tugline.net.client`."""
    from tugline.net.client import HttpClient

    def agent():
        client = HttpClient(environ={})

        async def post(path):
            async with client.request(
                "POST",
                f"http://127.0.0.1:{port}{path}",
                headers=[("Content-Type", "application/json")],
                body=BODY,
            ) as response:
                while piece := await response.receive():
                    yield piece

        return post, client.aclose

    return agent


# --- the workloads ----------------------------------------------------------------------------------------------------


async def ask(post, path):
    events, tail = 0, b""
    async for piece in post(path):
        *whole, tail = (tail + piece).split(b"\n\n")
        events += len(whole)
    return events


async def measure(workload, agent, started):
    post, close = agent()
    before, wall = time.process_time(), time.perf_counter()
    if workload == "a":
        async for _ in post("/small"):
            figures = {"wall": time.time() - started, "cpu": time.process_time()}
            break
        else:
            raise SystemExit("no answer")
    elif workload == "b":
        assert await ask(post, "/small") == 10
        before = time.process_time()
        for _ in range(200):
            assert await ask(post, "/small") == 10
        figures = {"cpu": (time.process_time() - before) / 200}
    elif workload == "e":
        assert await ask(post, "/small") == 10
        before = time.process_time()
        assert await ask(post, "/burst") == 20_000
        figures = {"cpu": (time.process_time() - before) / 20_000}
    else:
        agents = [agent() for _ in range(100)]

        async def work(one):
            for _ in range(10):
                assert await ask(one, "/small") == 10

        await asyncio.gather(*(work(one) for one, _ in agents))
        figures = {"cpu": time.process_time() - before, "wall": time.perf_counter() - wall}
        for _, end in agents:
            await end()
    await close()
    figures["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures), flush=True)
    os._exit(0)


def main():
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve())
        return
    if sys.argv[1:2] == ["run"]:
        _, _, candidate, workload, port, started = sys.argv
        make = globals()["make_" + candidate.replace("-", "_")]
        asyncio.run(measure(workload, make(int(port)), float(started)))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    server = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True)
    port = server.stdout.readline().strip()
    results = {}
    try:
        for number in range(rounds + 1):
            for workload in WORKLOADS:
                for candidate in CANDIDATES:
                    argv = [sys.executable, __file__, "run", candidate, workload, port, str(time.time())]
                    answer = json.loads(subprocess.run(argv, env=env, check=True, capture_output=True).stdout)
                    if number:  # the first round warms byte code and disk
                        results.setdefault((candidate, workload), []).append(answer)
    finally:
        server.terminate()
        server.wait()

    def middle(candidate, workload, figure):
        return statistics.median(one[figure] for one in results[candidate, workload])

    print(f"load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}, {rounds} rounds\n")
    print("| transport | (a) wall ms | (a) CPU ms | (a) MB | (b) µs CPU per request | (e) µs CPU per event |", end="")
    print(" (f) CPU ms | (f) wall ms | (f) MB |\n|" + "---|" * 9)
    for c in CANDIDATES:
        print(
            f"| {c} | {middle(c, 'a', 'wall') * 1e3:.0f} | {middle(c, 'a', 'cpu') * 1e3:.0f} "
            f"| {middle(c, 'a', 'rss'):.0f} | {middle(c, 'b', 'cpu') * 1e6:.0f} | {middle(c, 'e', 'cpu') * 1e6:.2f} "
            f"| {middle(c, 'f', 'cpu') * 1e3:.0f} | {middle(c, 'f', 'wall') * 1e3:.0f} | {middle(c, 'f', 'rss'):.0f} |"
        )


if __name__ == "__main__":
    main()
