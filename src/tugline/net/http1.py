"""HTTP/1.1 without I/O: a request's head as bytes, and an answer from bytes."""

import re
from collections.abc import Iterable

import httptools

from tugline.net.errors import HttpError

HEAD_LIMIT = 128 * 1024
"""Bytes that may come without any of them being body: heads, interim answers, chunk extensions, trailers."""

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Headers:
    """The headers of an answer; names are compared without case."""

    def __init__(self, items: Iterable[tuple[str, str]]) -> None:
        self._items = tuple((name.lower(), value) for name, value in items)

    def get(self, name: str, default: str = "") -> str:
        """The first value of that name."""
        name = name.lower()
        for known, value in self._items:
            if known == name:
                return value
        return default

    def items(self) -> tuple[tuple[str, str], ...]:
        """All of them, names in lower case, in the order they came."""
        return self._items

    def __repr__(self) -> str:
        return f"Headers({self._items!r})"


def request_head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a request, or `HttpError("invalid")` that names the header which cannot be sent."""
    if not _NAME.fullmatch(method):
        raise HttpError("invalid", "the request's method is not a word")
    lines = [f"{method} {target} HTTP/1.1"]
    for name, value in headers:
        if not _NAME.fullmatch(name):
            raise HttpError("invalid", "a header's name holds characters that cannot be sent")
        if not _VALUE.fullmatch(value):
            raise HttpError("invalid", f"the header {name.lower()} holds characters that cannot be sent")
        lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Answers:
    """Reads the answers that come over one connection, one after the other.

    `start` before each request, then `feed` with what arrives and `finish` at the end of the connection. The body's
    pieces are taken with `take_body`; no byte is looked at twice.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # the parser calls it straight: nothing of ours runs per chunk
        self._raw_headers: list[tuple[bytes, bytes]] = []
        self._parser = httptools.HttpResponseParser(self)
        self._failed: HttpError | None = None
        self._bodiless = False
        self._framed = False
        self._idle_bytes = 0
        self.status = 0
        self.headers = Headers(())
        self.head_done = False
        self.complete = True
        self.keep_alive = True

    def start(self, method: str) -> None:
        """A request was sent: its answer comes next."""
        self._pieces.clear()  # what nobody read of the last answer is no part of this one
        self._bodiless = method == "HEAD"
        self._idle_bytes = 0
        self.status = 0
        self.head_done = self.complete = False

    def feed(self, data: bytes) -> None:
        """Read on. `HttpError("protocol")` or `("too_large")` where it cannot be read; what came before stays."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise HttpError("protocol", f"{self._place} switched to another protocol") from None
        except httptools.HttpParserError as error:
            self.keep_alive = False
            if self.complete:  # the answer itself is whole; what follows it is nobody's
                return
            raise self._failed or HttpError(
                "protocol", f"{self._place} does not speak proper HTTP/1.1: {error}"
            ) from None
        if self._pieces:
            self._idle_bytes = 0
        elif not self.complete:
            self._idle_bytes += len(data)
            if self._idle_bytes > HEAD_LIMIT:
                raise HttpError("too_large", f"{self._place} sent more than {HEAD_LIMIT // 1024} kB of headers")

    def finish(self) -> None:
        """The connection has ended. `HttpError("cut")` unless the answer may end so."""
        self.keep_alive = False
        if self.complete:
            return
        if not self.head_done:
            raise HttpError("cut", f"{self._place} closed the connection before it answered")
        if self._framed:
            raise HttpError("cut", f"{self._place} closed the connection in the middle of its answer")
        self.complete = True

    def take_body(self) -> bytes:
        """The body's bytes that were read since the last time."""
        pieces = self._pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return data

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        if self.complete:
            raise ValueError("bytes after the answer")
        self._raw_headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.head_done:  # what comes later are trailers, which mean nothing to us
            self._raw_headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            if status == 101:
                self._failed = HttpError("protocol", f"{self._place} switched to another protocol")
                raise self._failed
            return
        self.status = status
        self.headers = Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._raw_headers)
        self._raw_headers.clear()
        coding = self.headers.get("transfer-encoding").strip().lower()
        if coding not in ("", "chunked"):
            self._failed = HttpError("protocol", f"{self._place} answers in a transfer encoding that nobody asked for")
            raise self._failed
        self._framed = bool(coding) or bool(self.headers.get("content-length"))
        self.keep_alive = self._parser.should_keep_alive()
        self.head_done = True
        if self._bodiless:
            self.complete, self.keep_alive = True, False

    def on_message_complete(self) -> None:
        if self.head_done:
            self.complete = True
