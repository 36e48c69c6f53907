"""What the client makes of an answer's body, in every framing, and when it ends too early."""

import gzip
import os
import zlib
from typing import Any

import pytest

from tugline.net.client import HttpClient, HttpError, Timeouts

pytest_plugins = ["byte_server"]

Server = Any
Serve = Any
OK = b"HTTP/1.1 200 OK\r\n"


async def fetch(server: Server, **options: Any) -> tuple[int, bytes]:
    client = HttpClient(environ={}, **options)
    try:
        async with client.request("POST", server.url(), headers={"x-a": "1"}, body=b"{}") as response:
            body = b""
            while data := await response.receive():
                body += data
            assert await response.receive() == b""
            return response.status, body
    finally:
        await client.aclose()


async def answer(serve: Serve, data: bytes, **options: Any) -> tuple[int, bytes]:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(data)

    return await fetch(await serve(talk), **options)


async def failure(serve: Serve, data: bytes, **options: Any) -> tuple[str, str]:
    with pytest.raises(HttpError) as caught:
        await answer(serve, data, **options)
    return caught.value.kind, str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 5\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        OK + b"transfer-encoding: Chunked\r\n\r\n2;ext=1\r\nhe\r\n3\r\nllo\r\n0\r\nX-Trailer: y\r\n\r\n",
        OK + b"\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        + OK
        + b"Content-Length: 5\r\n\r\nhello",
        OK + b"Content-Length: 5\r\n\r\nhello and more than was said",
        OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhellomore",
        OK + b"Content-Length: 5\r\n\r\nhello" + OK + b"Content-Length: 3\r\n\r\nbad",
    ],
)
async def test_a_body_is_read_in_every_framing(serve: Serve, data: bytes) -> None:
    assert await answer(serve, data) == (200, b"hello")


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_some_statuses_have_no_body(serve: Serve, status: bytes) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n")
        await line.gone()

    assert (await fetch(await serve(talk)))[1] == b""


WHOLE = OK + b"Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
SIZED = OK + b"Content-Type: text/plain\r\nContent-Length: 11\r\n\r\nhello world"


@pytest.mark.parametrize("whole", [WHOLE, SIZED], ids=["chunked", "sized"])
async def test_an_answer_cut_at_any_byte_is_an_error_and_never_a_short_body(serve: Serve, whole: bytes) -> None:
    cuts = iter(range(len(whole) + 1))

    async def talk(line: Any) -> None:
        await line.request()
        await line.send(whole[: next(cuts)])

    server = await serve(talk)
    for _ in range(len(whole)):
        with pytest.raises(HttpError) as caught:
            await fetch(server)
        assert caught.value.kind == "cut"
    assert await fetch(server) == (200, b"hello world")


@pytest.mark.parametrize("whole", [WHOLE, SIZED], ids=["chunked", "sized"])
async def test_an_answer_in_single_bytes_is_the_same_answer(serve: Serve, whole: bytes) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        for i in range(len(whole)):
            await line.send(whole[i : i + 1])

    assert await fetch(await serve(talk)) == (200, b"hello world")


async def test_a_reset_in_the_middle_is_a_cut(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(OK + b"Content-Length: 500\r\n\r\nhello")
        line.reset()

    with pytest.raises(HttpError) as caught:
        await fetch(await serve(talk))
    assert caught.value.kind == "cut"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "proper HTTP/1.1"),
        (b"\x16\x03\x01\x02", "proper HTTP/1.1"),
        (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "proper HTTP/1.1"),
        (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello", "proper HTTP/1.1"),
        (OK + b"Content-Length: -5\r\n\r\nhello", "proper HTTP/1.1"),
        (OK + b"Content-Length: 99999999999999999999999\r\n\r\nhello", "proper HTTP/1.1"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello", "proper HTTP/1.1"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\nhello", "proper HTTP/1.1"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n", "proper HTTP/1.1"),
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "transfer encoding"),
        (OK + b"X: a\x00b\r\n\r\n", "proper HTTP/1.1"),
        (b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nabc", "another protocol"),
        (OK + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\nhi", "'br'"),
    ],
)
async def test_what_is_not_proper_http_is_named_so(serve: Serve, data: bytes, words: str) -> None:
    kind, text = await failure(serve, data)
    assert kind == "protocol"
    assert words in text
    assert text.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "junk",
    [
        b"X-Endless: " + b"a" * 300_000,
        b"a: b\r\n" * 50_000,
        b"\r\nHTTP/1.1 100 Continue\r\n" * 20_000,
        b"Transfer-Encoding: chunked\r\n\r\n5;" + b"e" * 300_000,
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"T: " + b"t" * 300_000,
    ],
    ids=["one header", "many headers", "interim answers", "chunk extension", "trailer"],
)
async def test_bytes_that_never_become_body_are_not_read_for_ever(serve: Serve, junk: bytes) -> None:
    head = b"HTTP/1.1 100 Continue\r\n" if junk.startswith(b"\r\n") else OK

    async def talk(line: Any) -> None:
        await line.request()
        await line.send(head + junk)
        await line.gone()

    with pytest.raises(HttpError) as caught:
        await fetch(await serve(talk))
    assert caught.value.kind in ("too_large", "protocol")


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(b"hello" * 1000, mtime=0)),
        ("x-gzip", gzip.compress(b"hello" * 500, mtime=0) + gzip.compress(b"hello" * 500, mtime=0)),
        ("gzip", gzip.compress(b"hello" * 1000, mtime=0) + b"\0" * 20),
        ("deflate", zlib.compress(b"hello" * 1000)),
        ("deflate", zlib.compress(b"hello" * 1000)[2:-4]),
        ("identity", b"hello" * 1000),
    ],
    ids=["gzip", "two members", "padded", "deflate", "raw deflate", "identity"],
)
@pytest.mark.parametrize("step", [1, 7, 1_000_000])
async def test_compressed_content_is_unpacked(serve: Serve, encoding: str, data: bytes, step: int) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(OK + f"Content-Encoding: {encoding}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for i in range(0, len(data), step):
            piece = data[i : i + step]
            await line.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        await line.send(b"0\r\n\r\n")

    assert await fetch(await serve(talk)) == (200, b"hello" * 1000)


def packed(data: bytes) -> bytes:
    return OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)


async def test_compressed_content_that_ends_early_is_a_cut(serve: Serve) -> None:
    assert (await failure(serve, packed(gzip.compress(os.urandom(1000))[:-5])))[0] == "cut"


async def test_damaged_compressed_content_is_an_error(serve: Serve) -> None:
    assert (await failure(serve, packed(b"\x1f\x8bnonsense, no gzip at all")))[0] == "protocol"


async def test_a_gzip_bomb_is_stopped_at_the_cap(serve: Serve) -> None:
    import tracemalloc

    bomb = gzip.compress(b"\0" * (64 * 1024 * 1024))

    async def talk(line: Any) -> None:
        await line.request()
        await line.send(packed(bomb))
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={}, body_limit=8 * 1024 * 1024)
    tracemalloc.start()
    sizes: list[int] = []

    async def read_all() -> None:
        async with client.request("GET", server.url(), headers={}) as response:
            while data := await response.receive():
                sizes.append(len(data))

    with pytest.raises(HttpError) as caught:
        await read_all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    await client.aclose()
    assert caught.value.kind == "too_large"
    assert "8 MB" in str(caught.value)
    assert sum(sizes) <= 8 * 1024 * 1024
    assert peak < 4 * 1024 * 1024


async def test_a_plain_body_is_capped_too(serve: Serve) -> None:
    assert (await failure(serve, OK + b"\r\n" + b"x" * 2000, body_limit=1000))[0] == "too_large"


async def test_read_gives_the_whole_body_or_says_that_it_is_too_long(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        while True:
            await line.request()
            await line.send(OK + b"Content-Length: 10\r\n\r\n0123456789")

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("GET", server.url(), headers={}) as response:
        assert await response.read(10) == b"0123456789"
    with pytest.raises(HttpError) as caught:
        async with client.request("GET", server.url(), headers={}) as response:
            await response.read(9)
    assert caught.value.kind == "too_large"
    await client.aclose()


async def test_a_server_that_drips_its_head_is_given_up(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        import asyncio

        await line.request()
        await line.send(OK)
        for i in range(1000):
            await line.send(b"x-%d: y\r\n" % i)
            await asyncio.sleep(0.01)

    server = await serve(talk)
    client = HttpClient(environ={})
    with pytest.raises(HttpError) as caught:
        async with client.request("GET", server.url(), headers={}, timeouts=Timeouts(first_byte=0.1)):
            pass
    assert caught.value.kind == "timeout"
    await client.aclose()


async def test_silence_in_the_body_is_a_time_out_if_asked_for(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(OK + b"Content-Length: 10\r\n\r\n01234")
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("GET", server.url(), headers={}, timeouts=Timeouts(idle=0.05)) as response:
        assert await response.receive() == b"01234"
        with pytest.raises(HttpError) as caught:
            await response.receive()
    assert caught.value.kind == "timeout"
    await client.aclose()


async def test_a_huge_body_is_held_back_while_nobody_reads_it(serve: Serve) -> None:
    import asyncio

    sent = 0
    stuck = asyncio.Event()

    async def talk(line: Any) -> None:
        nonlocal sent
        await line.request()
        line.writer.write(OK + b"\r\n")
        for _ in range(1000):
            line.writer.write(b"x" * 65536)
            try:
                await asyncio.wait_for(line.writer.drain(), 0.5)
            except TimeoutError:
                stuck.set()
                await line.writer.drain()
            sent += 65536

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("GET", server.url(), headers={}) as response:
        await stuck.wait()
        assert sent < 40_000_000
        size = 0
        while data := await response.receive():
            size += len(data)
    assert size == 65_536_000
    await client.aclose()
