"""What a proxy is asked for, from bytes: strict, because who asks may want it to be read in two ways."""

import re
from typing import Literal

from msgspec import Struct

from tugline.net.errors import HttpError
from tugline.rules.hosts import HostError, Target, read_target

HEAD_LIMIT = 32 * 1024
_LINE_LIMIT = 128

_REQUEST = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,16000}) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,200}):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_HOP_BY_HOP = frozenset(
    ["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "upgrade", "transfer-encoding", "content-length", "host", "http2-settings"]
)  # fmt: skip
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\x20-\x7e]*)?")


class ProxyRequest(Struct, frozen=True):
    """A tunnel (`head` is empty), or one plain request: what is sent on, and how its body is measured (-1: chunked)."""

    target: Target
    head: bytes = b""
    body: int = 0


def read_proxy_request(head: bytes) -> ProxyRequest:
    """From a head that ends with an empty line; `HttpError` for all that is not plainly one request."""
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    match = _REQUEST.fullmatch(lines[0])
    if match is None:
        raise HttpError("protocol", "not a proper request to a proxy")
    headers: list[tuple[str, str]] = []
    for line in lines[1:]:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise HttpError("protocol", "a header is malformed")
        headers.append((found[1].decode("ascii"), found[2].decode("latin-1").rstrip(" \t")))
    method, text, minor = match[1].decode(), match[2].decode(), match[3]
    try:
        if method == "CONNECT":
            target, path = read_target(text), ""
        else:
            target, path = _absolute(text)
        _require_host(target, headers, 443 if method == "CONNECT" else 80, needed=minor == b"1")
    except HostError as error:
        raise HttpError("protocol", str(error)) from None
    if method == "CONNECT":
        return ProxyRequest(target)
    body = _framing(headers)
    return ProxyRequest(target, _rewritten(method, path, target, headers, body), body)


def _absolute(text: str) -> tuple[Target, str]:
    if text[:7].lower() != "http://":
        raise HttpError("protocol", "a proxy takes whole http:// URLs, and CONNECT for all else")
    authority, slash, rest = text[7:].partition("/")
    if "?" in authority:
        authority, _, query = text[7:].partition("?")
        slash, rest = "/", "?" + query
    if "#" in rest:
        raise HttpError("protocol", "a URL that is asked for has no fragment")
    return read_target(authority, 80), (slash or "/") + rest


def _require_host(target: Target, headers: list[tuple[str, str]], port: int, *, needed: bool) -> None:
    """One `Host`, and the same: a server behind the proxy goes by it."""
    named = [value for name, value in headers if name.lower() == "host"]
    if len(named) > 1 or (needed and not named):
        raise HttpError("protocol", "a request names its host once")
    if named and read_target(named[0], port) not in (target, Target(target.host, port)):
        raise HttpError("protocol", "the request is for one host and its Host header for another")


def _framing(headers: list[tuple[str, str]]) -> int:
    lengths = [value for name, value in headers if name.lower() == "content-length"]
    codings = [value for name, value in headers if name.lower() == "transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise HttpError("protocol", "the request says twice how long its body is")
    if codings:
        if codings[0].lower() != "chunked":
            raise HttpError("protocol", "the body's transfer coding is not known")
        return -1
    if lengths and not re.fullmatch(r"[0-9]{1,15}", lengths[0]):
        raise HttpError("protocol", "the body's length is not a number")
    return int(lengths[0]) if lengths else 0


def _rewritten(method: str, path: str, target: Target, headers: list[tuple[str, str]], body: int) -> bytes:
    named = ",".join(value for name, value in headers if name.lower() == "connection")
    dropped = _HOP_BY_HOP | {word.strip().lower() for word in named.split(",")}
    host = str(target).removesuffix(":80")
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    if body:
        lines.append("Transfer-Encoding: chunked" if body < 0 else f"Content-Length: {body}")
    lines += [f"{name}: {value}" for name, value in headers if name.lower() not in dropped]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class BodyMeter:
    """Lets one body pass and nothing after it."""

    def __init__(self, body: int) -> None:
        self._left = body
        self._chunked = body < 0
        self._state: Literal["size", "data", "end", "last"] = "size"
        self._line = bytearray()
        self.done = body == 0

    def feed(self, data: bytes) -> bytes:
        """What of the data belongs to the body; raises `HttpError` for a chunk that is none."""
        if self.done:
            return b""
        if not self._chunked:
            taken = data[: self._left]
            self._left -= len(taken)
            self.done = self._left == 0
            return taken
        at = 0
        while at < len(data) and not self.done:
            at = self._data(data, at) if self._state == "data" else self._control(data, at)
        return data[:at]

    def _data(self, data: bytes, at: int) -> int:
        taken = min(self._left, len(data) - at)
        self._left -= taken
        if self._left == 0:
            self._state = "end"
        return at + taken

    def _control(self, data: bytes, at: int) -> int:
        """A line: a size, or the empty one behind a chunk or at the end. Trailers are not taken."""
        end = data.find(b"\n", at)
        stop = len(data) if end < 0 else end + 1
        self._line += data[at:stop]
        if len(self._line) > _LINE_LIMIT:
            raise HttpError("protocol", "a chunk is malformed")
        if end >= 0:
            line, self._line = bytes(self._line), bytearray()
            self._take(line)
        return stop

    def _take(self, line: bytes) -> None:
        if self._state == "size":
            found = _SIZE.fullmatch(line.removesuffix(b"\r\n")) if line.endswith(b"\r\n") else None
            if found is None:
                raise HttpError("protocol", "a chunk is malformed")
            self._left = int(found[1], 16)
            self._state = "data" if self._left else "last"
        elif line != b"\r\n":
            raise HttpError("protocol", "a chunk is malformed")
        else:
            self.done = self._state == "last"
            self._state = "size"
