"""Server-sent events, without I/O: bytes in, events out; any split of the bytes gives the same events."""

import re

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes that one line, or the data of one event, may have."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_CACHED_NAMES = 64
_PER_LINE = 40  # what Python keeps beside the bytes: a million empty lines are not free


class SseError(Exception):
    """The stream cannot be read on: a line or an event is too long."""


class SseParser:
    """Splits a stream into events `(name, data)`; an event without a name is a `message`.

    Lines end with LF, CR or CRLF only. Comments, and events without data, yield nothing: whoever reads the stream
    counts bytes that complete no event as a sign of life (a ping), not as content.
    """

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._start: bytes | None = b""  # what may still be a byte order mark
        self._line: list[bytes] = []  # pieces of a line whose end has not come
        self._line_size = 0
        self._after_cr = False
        self._name = b""
        self._data: list[bytes] = []
        self._data_size = 0
        self._names: dict[bytes, str] = {b"": "message"}

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """More bytes; the events that they complete. `SseError` when the stream cannot be read on."""
        if self._start is not None:
            data = self._begin(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 10:
                data = data[1:]
        if not data:
            return []
        events: list[tuple[str, bytes]] = []
        plain = b"\r" not in data
        if self._line:
            if plain and b"\n" not in data:
                self._hold(data)
                return events
            self._line.append(data)
            data = b"".join(self._line)
            self._line.clear()
            self._line_size = 0
        if plain:
            self._plain(data, events)
        else:
            self._any_ends(data, events)
        return events

    def end(self) -> list[tuple[str, bytes]]:
        """The stream has ended properly: the last event, if only its blank line was missing."""
        events: list[tuple[str, bytes]] = []
        if self._start:
            self._hold(self._start)
        self._start = None
        line = b"".join(self._line)
        self._line.clear()
        if line:
            self._take(line, events)
        self._take(b"", events)
        return events

    def _begin(self, data: bytes) -> bytes:
        data = (self._start or b"") + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._start = data
            return b""
        self._start = None
        return data.removeprefix(_BOM)

    def _plain(self, data: bytes, events: list[tuple[str, bytes]]) -> None:
        """Bytes whose lines all end with LF: whole events are cut out at once, the rest is read line by line."""
        position = 0
        while self._name or self._data:  # an event is open: read it to its end first
            end = data.find(b"\n", position)
            if end < 0:
                break
            self._take(data[position:end], events)
            position = end + 1
        else:
            last = data.rfind(b"\n\n", position)
            if last >= 0:
                for block in data[position:last].split(b"\n\n"):
                    self._block(block, events)
                position = last + 2
        while (end := data.find(b"\n", position)) >= 0:
            self._take(data[position:end], events)
            position = end + 1
        if position < len(data):
            self._hold(data[position:] if position else data)

    def _block(self, block: bytes, events: list[tuple[str, bytes]]) -> None:
        """One event, without its blank line; nearly all look the same."""
        head, found, data = block.partition(b"\ndata: ")
        if found and data and b"\n" not in data and head[:7] == b"event: " and b"\n" not in head:
            if len(data) > self._limit:
                raise self._too_long()
            name = head[7:]
            events.append((self._names.get(name) or self._named(name), data))
            return
        for line in block.split(b"\n"):
            self._take(line, events)
        self._take(b"", events)

    def _any_ends(self, data: bytes, events: list[tuple[str, bytes]]) -> None:
        """Bytes with CR in them."""
        *lines, rest = _LINE_END.split(data)
        for line in lines:
            self._take(line, events)
        if rest:
            self._hold(rest)
        else:
            self._after_cr = data[-1] == 13  # a LF may follow, which belongs to it

    def _hold(self, piece: bytes) -> None:
        self._line.append(piece)
        self._line_size += len(piece)
        if self._line_size > self._limit:
            raise self._too_long()

    def _take(self, line: bytes, events: list[tuple[str, bytes]]) -> None:
        """One whole line."""
        if not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                if data:
                    events.append((self._named(self._name), data))
                self._data.clear()
                self._data_size = 0
            self._name = b""
            return
        if len(line) > self._limit:
            raise self._too_long()
        field, _, value = line.partition(b":")
        if field == b"data":
            value = value[1:] if value[:1] == b" " else value
            self._data_size += len(value) + _PER_LINE
            if self._data_size > self._limit + _PER_LINE:
                raise self._too_long()
            self._data.append(value)
        elif field == b"event":
            self._name = value[1:] if value[:1] == b" " else value

    def _named(self, name: bytes) -> str:
        known = self._names.get(name)
        if known is None:
            known = name.decode("utf-8", "replace")
            if len(self._names) < _CACHED_NAMES:
                self._names[name] = known
        return known

    def _too_long(self) -> SseError:
        return SseError(f"a line of the event stream is longer than {self._limit // 1_048_576} MB")
