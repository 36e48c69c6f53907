"""The proxy of a sandboxed command: what it lets through, and how it is asked in ways that mean two things."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxing import FixedHosts

from tugline.net import relay as relay_module
from tugline.net.errors import HttpError
from tugline.net.proxy_request import BodyMeter, read_proxy_request
from tugline.net.relay import Relay

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def relaying(hosts: FixedHosts, **more: float) -> AsyncIterator[tuple[Relay, int]]:
    ear = socket.create_server(("127.0.0.1", 0))
    ear.setblocking(False)
    port = ear.getsockname()[1]

    async def at_once() -> socket.socket:
        return ear

    relay = Relay(hosts, {}, **more)
    relay.start(at_once())
    try:
        yield relay, port
    finally:
        with anyio.fail_after(10):
            await relay.aclose()


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def ask(port: int, *pieces: bytes, close: bool = False) -> bytes:
    """Send these and read to the end."""
    with anyio.fail_after(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if close:
                writer.write_eof()
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


class Heard:
    """A server that keeps what it hears and answers each connection once."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        self.requests.append(head + (await reader.readexactly(length) if length else b""))
        if b"chunked" in head.lower():
            self.requests[-1] += await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.write_eof()
        self.requests[-1] += await reader.read()


async def test_a_tunnel_carries_bytes_both_ways_until_both_have_ended() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        await writer.drain()

    async with serving(echo) as there, relaying(FixedHosts("127.0.0.1")) as (relay, port):
        request = b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (there, there)
        said = await ask(port, request, b"abc", close=True)
        assert said == b"HTTP/1.1 200 Connection established\r\n\r\nABC"
        assert relay.refused == {}


async def test_much_goes_through_in_little_memory() -> None:
    size = 40 << 20

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(size >> 16):
            writer.write(bytes(1 << 16))
            await writer.drain()

    async with serving(pour) as there, relaying(FixedHosts("127.0.0.1")) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.0\r\n\r\n" % there)
        await reader.readuntil(b"\r\n\r\n")
        got = 0
        while data := await reader.read(1 << 20):
            got += len(data)
        writer.close()
        assert got == size


async def test_a_plain_request_is_sent_on_rewritten() -> None:
    heard = Heard()
    async with serving(heard) as there, relaying(FixedHosts("127.0.0.1")) as (_, port):
        host = f"127.0.0.1:{there}"
        said = await ask(
            port,
            f"POST http://{host}/a?b=c HTTP/1.1\r\nHost: {host}\r\nConnection: X-Gone, close\r\nX-Gone: 1\r\n"
            f"Proxy-Authorization: Basic c2VjcmV0\r\nX-Kept: 2\r\nContent-Length: 3\r\n\r\nxyz".encode(),
        )
    assert said.endswith(b"hello")
    assert heard.requests == [
        f"POST /a?b=c HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        "Content-Length: 3\r\nX-Kept: 2\r\n\r\nxyz".encode()
    ]


SECOND = b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"


BODIES = (
    b"Content-Length: 3\r\n\r\nxyz",
    b"Transfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n",
    b"\r\n",
)


@pytest.mark.parametrize("body", BODIES)
async def test_a_second_request_behind_the_first_is_not_sent_on(body: bytes) -> None:
    heard = Heard()
    async with serving(heard) as there, relaying(FixedHosts("127.0.0.1")) as (_, port):
        head = b"POST http://127.0.0.1:%d/ HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (there, there)
        assert (await ask(port, head + body + SECOND, SECOND)).endswith(b"hello")
    assert len(heard.requests) == 1
    assert b"evil" not in heard.requests[0]


async def test_what_is_not_allowed_is_refused_with_a_line_that_says_so() -> None:
    hosts = FixedHosts("allowed.test", denied=("bad.test",), answers={"asked.test": False})
    async with relaying(hosts) as (relay, port):
        for request in (
            b"CONNECT bad.test:443 HTTP/1.1\r\nHost: bad.test:443\r\n\r\n",
            b"CONNECT asked.test:443 HTTP/1.1\r\nHost: asked.test:443\r\n\r\n",
            b"GET http://asked.test/ HTTP/1.1\r\nHost: asked.test\r\n\r\n",
            b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80\r\n\r\n",
        ):
            assert (await ask(port, request)).startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert relay.refused == {
        "bad.test:443": "sandbox.network.deniedDomains names it",
        "asked.test:443": "sandbox.network.allowedDomains does not name it",
        "asked.test:80": "sandbox.network.allowedDomains does not name it",
        "169.254.169.254:80": "sandbox.network.allowedDomains does not name it",
    }
    assert hosts.asked == ["asked.test:443", "asked.test:80", "169.254.169.254:80"]


async def test_a_name_that_leads_to_this_machine_is_refused_though_it_is_allowed() -> None:
    async with relaying(FixedHosts("*")) as (relay, port):
        said = await ask(port, b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 403")
        assert list(relay.refused) == ["localhost:80"]


MALFORMED = {
    "another host in Host": b"GET http://allowed.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "another host in a tunnel's Host": b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
    "two Hosts": b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n",
    "no Host": b"GET http://allowed.test/ HTTP/1.1\r\n\r\n",
    "a path alone": b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "https in the clear": b"GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "a user": b"GET http://allowed.test@evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "a fragment": b"GET http://evil.test/#.allowed.test HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "no port": b"CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
    "a NUL": b"CONNECT evil.test\0.allowed.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a decimal address": b"CONNECT 2130706433:80 HTTP/1.1\r\nHost: 2130706433:80\r\n\r\n",
    "both lengths": b"POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "two lengths": b"POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 1\r\n"
    b"Content-Length: 2\r\n\r\n",
    "a signed length": b"POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: +1\r\n\r\n",
    "an odd coding": b"POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "a folded header": b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nX: a\r\n b\r\n\r\n",
    "a bare line feed": b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\nX: y\r\n\r\n",
    "a blank before a colon": b"GET http://allowed.test/ HTTP/1.1\r\nHost : allowed.test\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\n",
    "a huge head": b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n" + b"X: y\r\n" * 20_000,
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_what_could_be_read_in_two_ways_is_refused(what: str) -> None:
    hosts = FixedHosts("allowed.test")
    async with relaying(hosts) as (_, port):
        said = await ask(port, MALFORMED[what])
    assert said.startswith(b"HTTP/1.1 400 ") or said == b""
    assert hosts.asked == []


async def test_who_never_finishes_asking_is_sent_away() -> None:
    async with relaying(FixedHosts("allowed.test"), head_patience=0.05) as (_, port):
        assert (await ask(port, b"GET http://allowed.test/ HTTP/1.1\r\nHo")).startswith(b"HTTP/1.1 408")


async def test_closing_ends_what_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as there:
        async with relaying(FixedHosts("127.0.0.1")) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"CONNECT 127.0.0.1:%d HTTP/1.0\r\n\r\n" % there)
            await reader.readuntil(b"\r\n\r\n")
        with anyio.fail_after(10):
            try:
                assert await reader.read() == b""
            except ConnectionError:
                pass
            writer.close()


async def test_who_moves_too_much_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "TRAFFIC", 1 << 20)

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(bytes(1 << 16))
            await writer.drain()

    async with serving(pour) as there, relaying(FixedHosts("127.0.0.1")) as (_, port):
        said = await ask(port, b"CONNECT 127.0.0.1:%d HTTP/1.0\r\n\r\n" % there)
        assert len(said) <= (1 << 20) + 200


# -- the parts ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.binary(min_size=1, max_size=30), max_size=5),
    st.binary(max_size=20),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_of_a_chunked_body_all_passes_and_nothing_behind_it(
    chunks: list[bytes], behind: bytes, cuts: list[int]
) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    meter, passed, data = BodyMeter(-1), b"", body + behind
    at = 0
    for cut in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
        passed += meter.feed(data[at:cut])
        at = cut
    assert passed == body
    assert meter.done


@given(st.binary(max_size=200))
def test_any_bytes_are_a_body_or_an_error(data: bytes) -> None:
    try:
        passed = BodyMeter(-1).feed(data)
    except HttpError:
        return
    assert data.startswith(passed)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_an_error(data: bytes) -> None:
    try:
        request = read_proxy_request(data + b"\r\n\r\n")
    except HttpError:
        return
    assert request.target.host
