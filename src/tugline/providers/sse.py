"""Server-sent events, without I/O: bytes in, events out; any split of the bytes gives the same events."""

import re

LINE_LIMIT = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_KNOWN_NAMES = 64


class SseError(Exception):
    """The stream cannot be read on: a line or an event that is too long."""


class SseParser:
    """Splits a stream into events `(name, data)`; an event without a name is a `message`.

    Lines end with LF, CR or CRLF only. Comments and events without data yield nothing: whoever reads the stream counts
    bytes that complete no event as a sign of life (a ping), not as content.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._tail = b""
        self._pieces: list[bytes] = []
        self._held = 0
        self._fresh = True
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._names: dict[bytes, str] = {}

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """More bytes; the events that they complete."""
        raise NotImplementedError

    def end(self) -> list[tuple[str, bytes]]:
        """The stream ended properly: the last event, if only its blank line was missing."""
        raise NotImplementedError
