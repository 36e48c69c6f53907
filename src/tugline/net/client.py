"""The HTTP client: `async with client.request("POST", url, ...) as response`, then `await response.receive()`.

HTTP/1.1 with kept connections, TLS, proxies, gzip; redirects within the origin only. What it is strict about: a body
that ends early is an error, a connection that was not read to its end is closed, nothing is unbounded.
"""

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from msgspec import Struct

from tugline.net.decode import decoder_for
from tugline.net.dial import AddressCheck, dial
from tugline.net.errors import HttpError
from tugline.net.http1 import Answers, Headers, request_head
from tugline.net.proxies import proxies_from
from tugline.net.tls import Tls
from tugline.net.url import Url, join_url, parse_url
from tugline.net.wire import Wire

__all__ = ["AddressCheck", "Headers", "HttpClient", "HttpError", "Response", "Timeouts", "Tls"]

BODY_LIMIT = 256 * 1024 * 1024
"""Bytes of one answer's decoded content."""

_KEEP = 4
_KEEP_SECONDS = 60.0
_REDIRECTS = 5
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class Timeouts(Struct, frozen=True):
    """Seconds. `connect`: name, TCP, proxy and TLS together; `first_byte`: from the request's sending to the head of
    the answer; `idle`: between pieces of the body. `None` waits for ever."""

    connect: float = 10.0
    first_byte: float | None = 60.0
    idle: float | None = None


USUAL_TIMEOUTS = Timeouts()


class _Request(Struct, frozen=True):
    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeouts: Timeouts
    resend: bool


class _Connection:
    """A wire and the reader of what comes over it."""

    def __init__(self, key: tuple[str, str], wire: Wire, place: str) -> None:
        self.key = key
        self.place = place
        self.wire = wire
        self.answers = Answers(place)
        self.kept_since = 0.0

    def settle(self) -> bool:
        """Read what has come already, without waiting; whether another request can be sent."""
        try:
            while not self.answers.complete and (data := self.wire.take()):
                self.answers.feed(data)
                self.answers.take_body()
        except HttpError:
            return False
        return self.settled

    @property
    def settled(self) -> bool:
        """Whether the last answer was read to its end and another request can be sent."""
        return self.answers.complete and self.answers.keep_alive and self.wire.quiet


class Response:
    """An answer whose head has arrived."""

    def __init__(self, connection: _Connection, idle: float | None, limit: int, url: Url) -> None:
        self._connection = connection
        self._answers = connection.answers
        self._wire = connection.wire
        self._idle = idle
        self._limit = limit
        self._place = url.origin
        self.url = url.origin + url.target
        self._size = 0
        self._ended = False
        self.status = self._answers.status
        self.headers = self._answers.headers
        self._decoder = decoder_for(self.headers.get("content-encoding"), url.origin)
        self._released = False

    async def receive(self) -> bytes:
        """The next piece of the body, decoded; `b""` only at its proper end. `HttpError("cut")` if it ends early."""
        while not self._ended:
            data = self._decoder.take() if self._decoder else self._answers.take_body()
            if not data and self._decoder and (encoded := self._answers.take_body()):
                self._decoder.feed(encoded)
                continue
            if data:
                self._size += len(data)
                if self._size > self._limit:
                    raise HttpError("too_large", f"the answer of {self._place} is longer than {_size(self._limit)}")
                return data
            if self._answers.complete:
                if self._decoder:
                    self._decoder.finish()
                self._ended = True
            else:
                await self._read_on()
        return b""

    async def read(self, limit: int) -> bytes:
        """The whole body, or `HttpError("too_large")` when it is longer than `limit`."""
        pieces: list[bytes] = []
        size = 0
        while data := await self.receive():
            size += len(data)
            if size > limit:
                raise HttpError("too_large", f"the answer of {self._place} is longer than {_size(limit)}")
            pieces.append(data)
        return b"".join(pieces)

    def release(self) -> None:
        """Say that all content has come and only the body's formal end may be missing: the connection is then kept
        when the context is left, and used again if that end has arrived by then."""
        self._released = True

    async def _read_on(self) -> None:
        try:
            data = await self._wire.receive(self._idle)
        except TimeoutError:
            raise HttpError("timeout", f"{self._place} sent nothing for {self._idle:g} s") from None
        if data:
            self._answers.feed(data)
        else:
            self._answers.finish()

    def keepable(self) -> bool:
        """Whether the connection may serve another request; for the client."""
        return self._connection.settle() or (self._released and self._wire.quiet)


class HttpClient:
    """A client with a few kept connections of its own; make one per agent.

    `tls` may be shared with other clients. `check` sees the addresses of a host before any connection is made (against
    servers that answer a harmless address first and another later). `environ` is where proxies and certificates are
    looked up.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        tls: Tls | None = None,
        check: AddressCheck | None = None,
        body_limit: int = BODY_LIMIT,
    ) -> None:
        environ = os.environ if environ is None else environ
        self._proxies = proxies_from(environ)
        self._tls = tls or Tls(environ)
        self._check = check
        self._body_limit = body_limit
        self._kept: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._last_url: tuple[str, Url] | None = None
        self._closed = False

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] | Mapping[str, str],
        body: bytes | Sequence[bytes] = b"",
        timeouts: Timeouts = USUAL_TIMEOUTS,
        resend: bool = True,
    ) -> AbstractAsyncContextManager[Response]:
        """Send a request; inside, the head of the answer is there. Leaving early closes the connection.

        `resend`: a kept connection that turns out to be closed before any answer came is replaced and the request sent
        again, once. Requests to models may be repeated; for others say no, unless they change nothing.
        """
        items = tuple(headers.items() if isinstance(headers, Mapping) else headers)
        data = body if isinstance(body, bytes) else b"".join(body)
        if self._last_url is None or self._last_url[0] != url:
            self._last_url = url, parse_url(url)  # an agent asks the same one over and over
        return self._request(_Request(method, items, data, timeouts, resend), self._last_url[1])

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        self._closed = True
        connections = [*self._kept, *self._open]
        self._kept.clear()
        for connection in connections:
            connection.wire.abort()
        for connection in connections:
            with anyio.move_on_after(1):
                await connection.wire.closed()

    @asynccontextmanager
    async def _request(self, request: _Request, url: Url) -> AsyncIterator[Response]:
        for _ in range(_REDIRECTS + 1):
            connection = await self._send(request, url)
            try:
                target = _redirect(request.method, url, connection.answers)
                if target is None:
                    response = Response(connection, request.timeouts.idle, self._body_limit, url)
                    yield response
                    keep = response.keepable()
                else:
                    url, keep = target, connection.settle()
            except BaseException:
                # an answer that was read to its end leaves a good connection, whatever its reader made of it
                self._put_back(connection, connection.settled)
                raise
            self._put_back(connection, keep)
            if target is None:
                return
        raise HttpError("redirect", f"{url.origin} redirects again and again")

    async def _send(self, request: _Request, url: Url) -> _Connection:
        """Send the request and read the head of its answer."""
        proxy = self._proxies.choose(url)
        data = _head(request, url, proxy) + request.body
        connection = self._reuse(url, proxy)
        if connection is not None:
            if await self._exchange(connection, request, data):
                return connection
            if not request.resend:
                raise HttpError("cut", f"{url.origin} closed the connection before it answered")
        connection = await self._dial(url, proxy, request.timeouts.connect)
        if await self._exchange(connection, request, data):
            return connection
        raise HttpError("cut", f"{url.origin} closed the connection before it answered")

    async def _exchange(self, connection: _Connection, request: _Request, data: bytes) -> bool:
        """Send, and read until the head of the answer is there; false if the connection ended with no byte of it."""
        wire, answers, timeout = connection.wire, connection.answers, request.timeouts.first_byte
        deadline = None if timeout is None else time.monotonic() + timeout
        touched = False
        try:
            answers.start(request.method)
            wire.send(data)
            while not answers.head_done:
                received = await wire.receive(None if deadline is None else max(0.0, deadline - time.monotonic()))
                if not received and not touched:
                    self._drop(connection)
                    return False
                touched = True
                if received:
                    answers.feed(received)
                else:
                    answers.finish()
        except BaseException as error:
            self._drop(connection)
            if isinstance(error, TimeoutError):
                raise HttpError("timeout", f"{connection.place} did not answer within {timeout:g} s") from None
            raise
        return True

    # --- connections ---

    def _reuse(self, url: Url, proxy: Url | None) -> _Connection | None:
        """A kept connection that still looks alive; those that do not are closed."""
        if self._closed:
            raise HttpError("connect", "the HTTP client is closed")
        key = _key(url, proxy)
        oldest = time.monotonic() - _KEEP_SECONDS
        for connection in reversed(self._kept.copy()):
            if connection.key != key:
                continue
            self._kept.remove(connection)
            self._open.add(connection)
            if connection.kept_since > oldest and connection.settle():
                return connection
            self._drop(connection)
        return None

    async def _dial(self, url: Url, proxy: Url | None, timeout: float) -> _Connection:
        wire = await dial(url, proxy, self._tls, timeout, self._check)
        connection = _Connection(_key(url, proxy), wire, url.origin)
        self._open.add(connection)
        if self._closed:
            self._drop(connection)
            raise HttpError("connect", "the HTTP client is closed")
        return connection

    def _put_back(self, connection: _Connection, keep: bool) -> None:
        if not keep:
            self._drop(connection)
            return
        self._open.discard(connection)
        connection.kept_since = time.monotonic()
        self._kept.append(connection)
        if len(self._kept) > _KEEP or self._closed:
            self._drop(self._kept.pop(0))

    def _drop(self, connection: _Connection) -> None:
        self._open.discard(connection)
        connection.wire.abort()


def _key(url: Url, proxy: Url | None) -> tuple[str, str]:
    return url.origin, proxy.origin if proxy else ""


def _head(request: _Request, url: Url, proxy: Url | None) -> bytes:
    method, headers, length = request.method, request.headers, len(request.body)
    given = {name.lower() for name, _ in headers}
    if refused := given & {"content-length", "transfer-encoding", "connection", "expect", "upgrade"}:
        raise HttpError("invalid", f"the header {min(refused)} is the client's own and cannot be set")
    items: list[tuple[str, str]] = [] if "host" in given else [("Host", url.authority)]
    items.extend(headers)
    if "accept-encoding" not in given:
        items.append(("Accept-Encoding", "identity"))  # what is compressed may wait in buffers on its way
    if url.basic_auth and "authorization" not in given:
        items.append(("Authorization", url.basic_auth))
    if length or method in ("POST", "PUT", "PATCH"):
        items.append(("Content-Length", str(length)))
    if proxy is None or url.scheme == "https":
        return request_head(method, url.target, items)
    if proxy.basic_auth:
        items.append(("Proxy-Authorization", proxy.basic_auth))
    return request_head(method, url.origin + url.target, items)


def _redirect(method: str, url: Url, answers: Answers) -> Url | None:
    """Where the answer sends us within the origin; `None` if nowhere; `HttpError("redirect")` if elsewhere."""
    location = answers.headers.get("location")
    if answers.status not in _REDIRECT_STATUSES or not location:
        return None
    try:
        target = join_url(url, location)
    except HttpError as error:
        raise HttpError("redirect", f"{url.origin} redirects to a place that is no use: {error}") from None
    if target.origin != url.origin:
        raise HttpError(
            "redirect",
            f"{url.origin} redirects to another origin, {target.origin}",
            location=target.origin + target.target,
        )
    if method not in ("GET", "HEAD") and answers.status not in (307, 308):
        raise HttpError(
            "redirect", f"{url.origin} redirects a {method} to {target.target}", location=target.origin + target.target
        )
    return Url(
        scheme=target.scheme,
        host=target.host,
        port=target.port,
        target=target.target,
        user=url.user,
        password=url.password,
    )


def _size(count: int) -> str:
    return f"{count // 1_048_576} MB" if count >= 1_048_576 else f"{count} bytes"
