"""A file of lines, from its end or from its beginning, in bounded memory."""

import os
from collections.abc import Iterator

BLOCK = 1 << 20
LONGEST = 256 << 20
"""Bytes; a longer line is passed over."""


def lines_backward(fd: int, *, block: int = BLOCK, longest: int = LONGEST) -> Iterator[bytes | None]:
    """The lines of the file from the last to the first, without their ends; `None` for one that is too long.

    Memory is bounded by the longest line and a block.
    """
    at = os.fstat(fd).st_size
    parts: list[bytes] = []  # of the line that is being collected, the last part first
    size, fresh = 0, True
    while at > 0:
        length = min(block, at)
        at -= length
        data = os.pread(fd, length, at)
        if len(data) < length:  # it became shorter meanwhile
            at, parts, size, fresh = min(at, os.fstat(fd).st_size), [], 0, True
            continue
        end = len(data)
        while (cut := data.rfind(b"\n", 0, end)) >= 0:
            if not (fresh and cut == end - 1 and not parts):
                yield _joined(data[cut + 1 : end], parts, size, longest)
            fresh, parts, size, end = False, [], 0, cut
        size += end
        if size <= longest:
            parts.append(data[:end])
        else:
            parts = []
            fresh = False
    if size or not fresh:
        yield _joined(b"", parts, size, longest)


def _joined(last: bytes, parts: list[bytes], size: int, longest: int) -> bytes | None:
    if size + len(last) > longest:
        return None
    return b"".join((last, *reversed(parts)))


def lines_forward(
    fd: int, *, end: int | None = None, block: int = BLOCK, longest: int = LONGEST
) -> Iterator[bytes | None]:
    """The lines from the first on, without their ends, up to byte `end`; `None` for one that is too long. What stands
    behind the last line end is none: it may be in the middle of being written."""
    at, size = 0, 0
    parts: list[bytes] = []  # of the line that is being collected
    while data := os.pread(fd, block if end is None else max(0, min(block, end - at)), at):
        at += len(data)
        start = 0
        while (cut := data.find(b"\n", start)) >= 0:
            size += cut - start
            yield None if size > longest else b"".join((*parts, data[start:cut]))
            parts, size, start = [], 0, cut + 1
        size += len(data) - start
        if size <= longest:
            parts.append(data[start:])
        else:
            parts = []


def first_line(fd: int, limit: int) -> bytes:
    """The first line without its end, or as much of it as `limit` bytes hold."""
    data = os.pread(fd, limit, 0)
    return data.split(b"\n", 1)[0]


def last_line_start(fd: int, size: int) -> int:
    """Where the line that reaches to `size` begins; `size` itself behind a line end."""
    at = size
    while at > 0:
        length = min(65_536, at)
        at -= length
        cut = os.pread(fd, length, at).rfind(b"\n")
        if cut >= 0:
            return at + cut + 1
    return 0
