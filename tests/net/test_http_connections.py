"""When a connection is kept, replaced, or closed."""

import asyncio
from typing import Any

import anyio
import pytest

from tugline.net.client import HttpClient, HttpError, Timeouts

pytest_plugins = ["byte_server"]

Serve = Any
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"


async def ask(client: HttpClient, url: str, **options: Any) -> bytes:
    async with client.request("POST", url, headers={}, body=b"{}", **options) as response:
        return await response.read(1000)


async def polite(line: Any) -> None:
    while True:
        await line.request()
        await line.send(OK)


async def test_one_connection_serves_many_requests(serve: Serve) -> None:
    server = await serve(polite)
    client = HttpClient(environ={})
    for _ in range(5):
        assert await ask(client, server.url()) == b"hi"
    assert (server.connections, len(server.requests)) == (1, 5)
    await client.aclose()


async def test_head_and_body_leave_in_one_piece_as_they_were_given(serve: Serve) -> None:
    server = await serve(polite)
    client = HttpClient(environ={})
    url = server.url("/a%20b/ü?x=1&y=%2F#fragment")
    async with client.request("POST", url, headers=[("x-a", "1"), ("x-a", "2")], body=[b"{", b"}"]) as response:
        await response.read(10)
    place = f"127.0.0.1:{server.port}".encode()
    assert server.requests == [
        b"POST /a%20b/%C3%BC?x=1&y=%2F HTTP/1.1\r\nHost: " + place + b"\r\nx-a: 1\r\nx-a: 2\r\n"
        b"Accept-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}"
    ]
    await client.aclose()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
async def test_a_server_that_will_close_is_not_asked_again_on_that_connection(serve: Serve, answer: bytes) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(answer)
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    for count in (1, 2):
        assert await ask(client, server.url(), resend=False) == b"hi"
        assert server.connections == count
    await client.aclose()


async def test_requests_at_the_same_time_have_a_connection_each(serve: Serve) -> None:
    both = asyncio.Event()

    async def talk(line: Any) -> None:
        await line.request()
        if len(line.server.requests) == 2:
            both.set()
        await both.wait()
        await line.send(OK)
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    answers = await asyncio.gather(ask(client, server.url()), ask(client, server.url()))
    assert list(answers) == [b"hi", b"hi"]
    assert server.connections == 2
    await client.aclose()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_kept_connection_that_the_server_closed_is_replaced_without_a_word(serve: Serve, reset: bool) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(OK)
        if reset:
            line.reset()

    server = await serve(talk)
    client = HttpClient(environ={})
    for _ in range(3):
        assert await ask(client, server.url()) == b"hi"
        server.ended.clear()
    assert server.connections == 3
    await client.aclose()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_request_that_meets_a_connection_closing_is_sent_again_once(serve: Serve, reset: bool) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(OK)
        if line.server.connections == 1:
            await line.request()  # the second request arrives, and gets no answer
            if reset:
                line.reset()
            return
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    assert await ask(client, server.url()) == b"hi"
    assert await ask(client, server.url()) == b"hi"
    assert (server.connections, len(server.requests)) == (2, 3)
    await client.aclose()


async def test_a_request_that_may_not_be_repeated_is_not_sent_again(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(OK)
        await line.request()

    server = await serve(talk)
    client = HttpClient(environ={})
    assert await ask(client, server.url()) == b"hi"
    with pytest.raises(HttpError) as caught:
        await ask(client, server.url(), resend=False)
    assert caught.value.kind == "cut"
    assert (server.connections, len(server.requests)) == (1, 2)
    await client.aclose()


@pytest.mark.parametrize("first", [True, False])
async def test_once_a_byte_came_or_on_a_fresh_connection_nothing_is_sent_again(serve: Serve, first: bool) -> None:
    async def talk(line: Any) -> None:
        if not first:
            await line.request()
            await line.send(OK)
        await line.request()
        await line.send(b"" if first else b"HTTP/1.1 2")

    server = await serve(talk)
    client = HttpClient(environ={})
    if not first:
        assert await ask(client, server.url()) == b"hi"
    with pytest.raises(HttpError) as caught:
        await ask(client, server.url())
    assert caught.value.kind == "cut"
    assert server.connections == 1
    await client.aclose()


async def test_bytes_that_nobody_asked_for_spoil_a_kept_connection(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(OK)
        await line.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    assert await ask(client, server.url()) == b"hi"
    await asyncio.wait_for(_until_unread(client), 5)
    assert await ask(client, server.url()) == b"hi"
    assert server.connections == 2
    await client.aclose()


async def _until_unread(client: HttpClient) -> None:
    # what is waited for happens inside the client, which says nothing of it
    while any(one.wire.quiet for one in client._kept):
        await asyncio.sleep(0.001)


async def test_a_connection_left_in_the_middle_of_the_body_is_closed(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(CHUNKS)
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("GET", server.url(), headers={}) as response:
        assert await response.receive() == b"hi"
    await asyncio.wait_for(server.ended.wait(), 5)
    await client.aclose()


async def test_an_answer_read_to_its_end_keeps_its_connection_also_if_its_reader_raises(serve: Serve) -> None:
    server = await serve(polite)
    client = HttpClient(environ={})

    async def dislike() -> None:
        async with client.request("GET", server.url(), headers={}) as response:
            raise ValueError(await response.read(10))

    for _ in range(3):
        with pytest.raises(ValueError, match="hi"):
            await dislike()
    assert server.connections == 1
    await client.aclose()


async def test_a_released_answer_whose_formal_end_comes_late_keeps_its_connection(serve: Serve) -> None:
    left = asyncio.Event()
    ended = asyncio.Event()

    async def talk(line: Any) -> None:
        while True:
            await line.request()
            await line.send(CHUNKS)
            await left.wait()
            await line.send(b"0\r\n\r\n")
            ended.set()

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("GET", server.url(), headers={}) as response:
        assert await response.receive() == b"hi"
        response.release()
    left.set()
    await ended.wait()
    await asyncio.wait_for(_until_unread(client), 5)
    assert await ask(client, server.url()) == b"hi"
    assert server.connections == 1
    await client.aclose()


async def test_a_released_answer_whose_end_never_comes_costs_a_new_connection_only(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(CHUNKS if line.server.connections == 1 else OK)
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("GET", server.url(), headers={}) as response:
        assert await response.receive() == b"hi"
        response.release()
    assert await ask(client, server.url()) == b"hi"
    assert server.connections == 2
    await client.aclose()


async def test_cancelling_while_the_answer_is_awaited_closes_the_connection(serve: Serve) -> None:
    asked = asyncio.Event()

    async def talk(line: Any) -> None:
        await line.request()
        asked.set()
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    task = asyncio.create_task(ask(client, server.url()))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.ended.wait(), 5)
    await client.aclose()


async def test_cancelling_inside_the_body_closes_the_connection(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(CHUNKS)
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    with anyio.move_on_after(5) as scope:
        async with client.request("GET", server.url(), headers={}) as response:
            assert await response.receive() == b"hi"
            scope.cancel()
            await response.receive()
    assert scope.cancelled_caught
    await asyncio.wait_for(server.ended.wait(), 5)
    assert client._open == set()
    assert client._kept == []
    await client.aclose()


async def test_closing_the_client_ends_the_requests_under_way(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(CHUNKS)
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("GET", server.url(), headers={}) as response:
        assert await response.receive() == b"hi"
        await client.aclose()
        with pytest.raises(HttpError) as caught:
            await response.receive()
    assert caught.value.kind == "cut"
    with pytest.raises(HttpError, match="closed"):
        await ask(client, server.url())


async def test_at_most_four_connections_are_kept(serve: Serve) -> None:
    all_there = asyncio.Event()

    async def talk(line: Any) -> None:
        await line.request()
        if len(line.server.requests) == 8:
            all_there.set()
        await all_there.wait()
        await line.send(OK)
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    await asyncio.gather(*(ask(client, server.url()) for _ in range(8)))
    assert len(client._kept) == 4
    await client.aclose()


async def test_an_early_refusal_is_heard_though_the_body_was_not_taken(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.reader.readuntil(b"\r\n\r\n")
        await line.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await asyncio.sleep(60)

    server = await serve(talk)
    client = HttpClient(environ={})
    body = b"x" * 30_000_000
    async with client.request("POST", server.url(), headers={}, body=body) as response:
        assert (response.status, await response.read(10)) == (413, b"big")
    await client.aclose()


async def test_a_head_request_has_no_body(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("HEAD", server.url(), headers={}) as response:
        assert (response.headers.get("Content-Length"), await response.receive()) == ("500", b"")
    await client.aclose()


async def test_no_answer_at_all_is_a_time_out_that_says_who_was_silent(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    with pytest.raises(HttpError) as caught:
        await ask(client, server.url("/path?key=secret"), timeouts=Timeouts(first_byte=0.05))
    assert caught.value.kind == "timeout"
    assert str(caught.value) == f"http://127.0.0.1:{server.port} did not answer within 0.05 s"
    await client.aclose()


# --- redirects ---


def moved(status: int, location: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


async def test_a_redirect_within_the_origin_is_followed(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        while True:
            request = await line.request()
            await line.send(moved(301, "next?x=1") if b"/a/first" in request else OK)

    server = await serve(talk)
    client = HttpClient(environ={})
    async with client.request("GET", server.url("/a/first"), headers={}) as response:
        assert (response.status, response.url) == (200, server.url("/a/next?x=1"))
    assert server.connections == 1
    await client.aclose()


@pytest.mark.parametrize(
    "location", ["http://example.org/x", "https://127.0.0.1/x", "//localhost/x", "file:///x", "http://[::"]
)
async def test_a_redirect_to_elsewhere_is_refused_and_the_key_stays_here(serve: Serve, location: str) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(moved(307, location))
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    with pytest.raises(HttpError) as caught:
        async with client.request("GET", server.url(), headers={"authorization": "Bearer secret"}):
            pass
    assert caught.value.kind == "redirect"
    if location == "http://example.org/x":
        assert caught.value.location == location
    await client.aclose()


@pytest.mark.parametrize(("status", "followed"), [(301, False), (303, False), (307, True), (308, True)])
async def test_a_redirected_post_stays_a_post_or_is_refused(serve: Serve, status: int, followed: bool) -> None:
    async def talk(line: Any) -> None:
        while True:
            request = await line.request()
            await line.send(OK if b"/new" in request else moved(status, "/new"))

    server = await serve(talk)
    client = HttpClient(environ={})
    if followed:
        assert await ask(client, server.url()) == b"hi"
        assert server.requests[1].startswith(b"POST /new ")
        assert server.requests[1].endswith(b"\r\n\r\n{}")
    else:
        with pytest.raises(HttpError, match="redirects a POST"):
            await ask(client, server.url())
    await client.aclose()


async def test_redirects_do_not_go_in_circles_for_ever(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        while True:
            await line.request()
            await line.send(moved(302, "/"))

    server = await serve(talk)
    client = HttpClient(environ={})
    with pytest.raises(HttpError) as caught:
        async with client.request("GET", server.url(), headers={}):
            pass
    assert (caught.value.kind, len(server.requests)) == ("redirect", 6)
    await client.aclose()


# --- what is refused before anything is sent ---


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"authorization": "Bearer sk-secret\r\nX: y"}, "the header authorization holds"),
        ({"authorization": "Bearer sk-secret\u2019"}, "the header authorization holds"),
        ({"x-key": "sk-secret\n"}, "the header x-key holds"),
        ({"a b": "sk-secret"}, "a header's name"),
        ({"Content-Length": "5"}, "content-length"),
    ],
)
async def test_a_header_that_cannot_be_sent_is_named_but_not_shown(headers: dict[str, str], words: str) -> None:
    client = HttpClient(environ={})
    with pytest.raises(HttpError) as caught:
        async with client.request("GET", "http://127.0.0.1:1/", headers=headers):
            pass
    assert caught.value.kind == "invalid"
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_nobody_listening_is_one_clear_line() -> None:
    client = HttpClient(environ={})
    with pytest.raises(HttpError) as caught:
        await ask(client, "http://127.0.0.1:1/v1?key=secret")
    assert (caught.value.kind, str(caught.value)) == (
        "connect",
        "cannot connect to http://127.0.0.1:1: connection refused",
    )


async def test_a_name_that_does_not_exist_is_one_clear_line() -> None:
    client = HttpClient(environ={})
    with pytest.raises(HttpError) as caught:
        await ask(client, "http://nothing.invalid/")
    assert caught.value.kind == "dns"
    assert "nothing.invalid" in str(caught.value)
