"""Server-sent events in a chunked body, as bytes made beforehand."""

import json

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

Pieces = list[tuple[float, bytes]]
"""A reply: seconds to wait, then bytes to send."""


def event(name: str, data: dict[str, object]) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **data}, separators=(',', ':'))}\n\n".encode()


def chunk(data: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(*parts: bytes) -> Pieces:
    """A reply in one piece."""
    return [(0.0, HEAD + chunk(b"".join(parts)) + chunk(b""))]


def many(before: bytes, delta: bytes, count: int, after: bytes) -> Pieces:
    """A reply of many equal deltas, a hundred to a write and each in a chunk of its own."""
    pieces: Pieces = [(0.0, HEAD + chunk(before))]
    pieces += [(0.0, chunk(delta) * 100)] * (count // 100)
    pieces.append((0.0, chunk(after) + chunk(b"")))
    return pieces
