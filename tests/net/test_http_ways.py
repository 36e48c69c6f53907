"""Proxies, TLS, and the check of addresses before connecting."""

import asyncio
import base64
import socket
from typing import Any

import pytest

from tugline.net import dial
from tugline.net.client import HttpClient, HttpError, Timeouts

pytest_plugins = ["byte_server"]

Serve = Any
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


async def polite(line: Any) -> None:
    while True:
        await line.request()
        await line.send(OK)


async def get(client: HttpClient, url: str) -> bytes:
    async with client.request("GET", url, headers={}, timeouts=Timeouts(connect=5)) as response:
        return await response.read(1000)


async def refused(client: HttpClient, url: str) -> tuple[str, str]:
    with pytest.raises(HttpError) as caught:
        await get(client, url)
    return caught.value.kind, str(caught.value)


# --- TLS ---


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_a_certificate_named_in_the_environment_is_trusted(serve: Serve, pem: str, variable: str) -> None:
    server = await serve(polite, tls=True)
    client = HttpClient(environ={variable: pem})
    assert await get(client, server.url()) == b"hi"
    assert await get(client, server.url()) == b"hi"
    assert await get(client, f"https://localhost:{server.port}/") == b"hi"
    assert server.connections == 2
    await client.aclose()


async def test_an_unknown_certificate_is_refused_with_a_hint(serve: Serve) -> None:
    server = await serve(polite, tls=True)
    client = HttpClient(environ={})
    kind, text = await refused(client, server.url())
    assert kind == "tls"
    assert "certificate of 127.0.0.1 is not trusted" in text
    assert "SSL_CERT_FILE" in text
    assert server.requests == []
    await client.aclose()


async def test_a_certificate_for_another_name_is_refused(serve: Serve, pem: str, monkeypatch: Any) -> None:
    server = await serve(polite, tls=True)

    async def resolve(host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, ("127.0.0.1", port))]

    monkeypatch.setattr(dial, "_resolve", resolve)
    client = HttpClient(environ={"SSL_CERT_FILE": pem})
    kind, text = await refused(client, f"https://api.example:{server.port}/")
    assert kind == "tls"
    assert "api.example" in text
    await client.aclose()


async def test_https_to_a_server_without_tls_is_one_clear_line(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.reader.read(100)
        await line.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = await serve(talk)
    client = HttpClient(environ={})
    kind, text = await refused(client, server.url().replace("http:", "https:"))
    assert kind == "tls"
    assert "\n" not in text
    await client.aclose()


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
async def test_a_certificate_file_that_is_not_there_is_named(variable: str) -> None:
    client = HttpClient(environ={variable: "/no/such/file.pem"})
    kind, text = await refused(client, "https://127.0.0.1:1/")
    assert (kind, text) == ("invalid", f"{variable} names /no/such/file.pem, which does not exist")


async def test_a_certificate_file_that_is_none_is_named(tmp_path: Any) -> None:
    (tmp_path / "x.pem").write_text("no certificate")
    client = HttpClient(environ={"SSL_CERT_FILE": str(tmp_path / "x.pem")})
    kind, text = await refused(client, "https://127.0.0.1:1/")
    assert kind == "invalid"
    assert "no certificates in it" in text


async def test_a_handshake_that_never_ends_is_given_up(serve: Serve) -> None:
    async def talk(line: Any) -> None:
        await line.gone()

    server = await serve(talk)
    client = HttpClient(environ={})
    with pytest.raises(HttpError) as caught:
        async with client.request(
            "GET", server.url().replace("http:", "https:"), headers={}, timeouts=Timeouts(connect=0.2)
        ):
            pass
    assert caught.value.kind == "timeout"
    await asyncio.wait_for(server.ended.wait(), 5)
    await client.aclose()


# --- proxies ---


async def test_plain_http_goes_through_the_proxy_in_absolute_form(serve: Serve) -> None:
    server = await serve(polite)
    proxy = server.url().replace("//", "//me:p%40ss@")
    client = HttpClient(environ={"http_proxy": proxy})
    assert await get(client, "http://models.example/v1?x=1") == b"hi"
    assert await get(client, "http://models.example/v1?x=2") == b"hi"
    secret = base64.b64encode(b"me:p@ss").decode()
    assert server.requests[0].decode() == (
        "GET http://models.example/v1?x=1 HTTP/1.1\r\nHost: models.example\r\nAccept-Encoding: identity\r\n"
        f"Proxy-Authorization: Basic {secret}\r\n\r\n"
    )
    assert server.connections == 1
    await client.aclose()


def tunnel(target_port: int, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> Any:
    async def talk(line: Any) -> None:
        await line.request()
        reader, writer = await asyncio.open_connection("127.0.0.1", target_port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            except ConnectionError:
                pass
            sink.close()

        await line.send(answer)
        try:
            await asyncio.gather(pump(line.reader, writer), pump(reader, line.writer))
        finally:
            writer.close()

    return talk


async def test_https_goes_through_a_tunnel(serve: Serve, pem: str) -> None:
    server = await serve(polite, tls=True)
    proxy = await serve(tunnel(server.port))
    client = HttpClient(environ={"HTTPS_PROXY": proxy.url().replace("//", "//me:secret@"), "SSL_CERT_FILE": pem})
    url = f"https://localhost:{server.port}/x"
    assert await get(client, url) == b"hi"
    assert await get(client, url) == b"hi"
    secret = base64.b64encode(b"me:secret").decode()
    assert proxy.requests == [
        f"CONNECT localhost:{server.port} HTTP/1.1\r\nHost: localhost:{server.port}\r\n"
        f"Proxy-Authorization: Basic {secret}\r\n\r\n".encode()
    ]
    assert [request.split(b"\r\n")[0] for request in server.requests] == [b"GET /x HTTP/1.1"] * 2
    await client.aclose()


async def test_the_proxy_itself_may_be_reached_over_tls(serve: Serve, pem: str) -> None:
    server = await serve(polite, tls=True)
    proxy = await serve(tunnel(server.port), tls=True)
    client = HttpClient(environ={"ALL_PROXY": proxy.url(), "SSL_CERT_FILE": pem})
    assert await get(client, f"https://localhost:{server.port}/x") == b"hi"
    await client.aclose()


@pytest.mark.parametrize(
    ("answer", "words", "kind"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "asks for a user and password", "invalid"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno!!", "answered 403", "proxy"),
        (b"HTTP/1.1 200 OK\r\n\r\nalready data", "no proper answer", "proxy"),
        (b"SSH-2.0\r\n\r\n", "no proper answer", "proxy"),
        (b"HTTP/1.1 200 OK\r\n", "no proper answer", "proxy"),
        (b"", "no proper answer", "proxy"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "no proper answer", "proxy"),
    ],
)
async def test_a_proxy_that_makes_no_tunnel_is_named_without_its_password(
    serve: Serve, answer: bytes, words: str, kind: str
) -> None:
    async def talk(line: Any) -> None:
        await line.request()
        await line.send(answer)

    proxy = await serve(talk)
    client = HttpClient(environ={"HTTPS_PROXY": proxy.url().replace("//", "//me:secret@")})
    said, text = await refused(client, "https://models.example/")
    assert said == kind
    assert words in text
    assert f"http://127.0.0.1:{proxy.port}" in text
    assert "secret" not in text
    await client.aclose()


async def test_a_proxy_that_is_not_there_is_named(serve: Serve) -> None:
    client = HttpClient(environ={"ALL_PROXY": "127.0.0.1:1"})
    assert await refused(client, "http://models.example/") == (
        "connect",
        "cannot connect to the proxy http://127.0.0.1:1: connection refused",
    )


# --- addresses ---


def resolving(monkeypatch: Any, *answers: list[str]) -> list[str]:
    """Names resolve to these, one list per look-up."""
    asked: list[str] = []
    queue = list(answers)

    async def resolve(host: str, port: int) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, (address, port)) for address in (queue.pop(0) if len(queue) > 1 else queue[0])]

    monkeypatch.setattr(dial, "_resolve", resolve)
    return asked


async def test_the_client_connects_to_the_checked_address_and_to_no_other(serve: Serve, monkeypatch: Any) -> None:
    server = await serve(polite)
    asked = resolving(monkeypatch, ["203.0.113.9", "127.0.0.1"], ["10.0.0.1"])
    seen: list[tuple[str, tuple[str, ...]]] = []

    def check(host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        seen.append((host, addresses))
        return ("127.0.0.1",)

    client = HttpClient(environ={}, check=check)
    assert await get(client, f"http://rebind.example:{server.port}/") == b"hi"
    assert seen == [("rebind.example", ("203.0.113.9", "127.0.0.1"))]
    assert asked == ["rebind.example"]
    assert server.requests[0].split(b"\r\n")[1] == f"Host: rebind.example:{server.port}".encode()
    await client.aclose()


async def test_no_connection_is_made_where_no_address_is_allowed(serve: Serve, monkeypatch: Any) -> None:
    server = await serve(polite)
    resolving(monkeypatch, ["127.0.0.1"])
    client = HttpClient(environ={}, check=lambda host, addresses: ())
    kind, text = await refused(client, f"http://rebind.example:{server.port}/")
    assert kind == "connect"
    assert "not allowed" in text
    assert await refused(client, server.url()) == ("connect", text.replace("rebind.example", "127.0.0.1"))
    assert server.connections == 0
    await client.aclose()


async def test_the_check_may_say_why_and_is_asked_also_where_a_proxy_resolves() -> None:
    def check(host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        raise HttpError("invalid", f"{host} with {addresses} is not for you")

    client = HttpClient(environ={"http_proxy": "http://127.0.0.1:1"}, check=check)
    assert await refused(client, "http://a.example/") == ("invalid", "a.example with () is not for you")
    assert await refused(client, "http://10.0.0.1/") == ("invalid", "10.0.0.1 with ('10.0.0.1',) is not for you")


async def test_a_dead_address_does_not_keep_the_living_one_waiting(serve: Serve, monkeypatch: Any) -> None:
    server = await serve(polite)
    original = dial._connect
    resolving(monkeypatch, ["192.0.2.1", "127.0.0.1"])

    async def connect(address: Any) -> socket.socket:
        if address[1][0] == "192.0.2.1":
            await asyncio.Event().wait()
        return await original(address)

    monkeypatch.setattr(dial, "_connect", connect)
    monkeypatch.setattr(dial, "_STAGGER", 0.01)
    client = HttpClient(environ={})
    assert await get(client, f"http://two.example:{server.port}/") == b"hi"
    await client.aclose()


async def test_of_two_addresses_that_answer_at_once_one_is_taken_and_the_other_closed(
    serve: Serve, monkeypatch: Any
) -> None:
    server = await serve(polite)
    original = dial._connect
    opened: list[socket.socket] = []
    both = asyncio.Event()

    async def connect(address: Any) -> socket.socket:
        opened.append(await original(address))
        if len(opened) == 2:
            both.set()
        await both.wait()
        return opened[0 if address[1][0] == "127.0.0.1" else 1]

    monkeypatch.setattr(dial, "_connect", connect)
    monkeypatch.setattr(dial, "_STAGGER", 0.01)
    resolving(monkeypatch, ["127.0.0.1", "localhost"])
    client = HttpClient(environ={})
    assert await get(client, f"http://two.example:{server.port}/") == b"hi"
    await client.aclose()
    assert [one.fileno() for one in opened] == [-1, -1]


async def test_an_address_that_refuses_is_followed_by_the_next_at_once(serve: Serve, monkeypatch: Any) -> None:
    server = await serve(polite)
    resolving(monkeypatch, ["127.0.0.2", "127.0.0.1"])
    monkeypatch.setattr(dial, "_STAGGER", 1000.0)
    client = HttpClient(environ={})
    assert await get(client, f"http://two.example:{server.port}/") == b"hi"
    resolving(monkeypatch, ["127.0.0.2", "127.0.0.3"])
    assert (await refused(client, f"http://none.example:{server.port}/"))[0] == "connect"
    await client.aclose()


async def test_a_real_name_is_resolved(serve: Serve) -> None:
    server = await serve(polite)
    client = HttpClient(environ={})
    assert await get(client, f"http://localhost:{server.port}/") == b"hi"
    await client.aclose()
