"""`tugline policy check --jsonl`: one verdict per row of stdin, whatever the row holds."""

import os
from collections.abc import Iterator, Sequence

from tugline.app.policy import Answered, answer_row
from tugline.cli import streams
from tugline.protocol.codec import encode
from tugline.protocol.errors import UsageError

ROW_LIMIT = 16 * 1024 * 1024
"""Bytes; a longer row is passed over and answered."""
_CHUNK = 1 << 16


def check(words: Sequence[str]) -> int:
    """Answer the rows of stdin in their order; 0, or what comes of a stdout that nobody reads."""
    if list(words) != ["--jsonl"]:
        raise UsageError("`tugline policy check` takes --jsonl, and rows on stdin; see `tugline policy --help`.")
    for row in _rows():
        code = streams.put(encode(_answer(row)).decode() + "\n")
        if code:
            return code
    return 0


def _answer(row: bytes | None) -> Answered:
    if row is None:
        return Answered(None, "deny", f"the row is longer than {ROW_LIMIT} bytes")
    try:
        return answer_row(row)
    except Exception as error:  # frontend top: no row may end the others
        return Answered(None, "deny", f"the row cannot be judged: {type(error).__name__}")


def _rows() -> Iterator[bytes | None]:
    """The lines of stdin as they come, less the blank ones; `None` for one that is too long."""
    kept: list[bytes] = []
    size = 0
    while True:
        try:
            chunk = os.read(0, _CHUNK)
        except OSError as error:
            streams.complain(f"stdin cannot be read: {error.strerror}.")
            return
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            kept.append(line)
            whole = b"".join(kept) if size + len(line) <= ROW_LIMIT else None
            kept, size = [], 0
            if whole is None or whole.strip():
                yield whole
        size += len(rest)
        if size <= ROW_LIMIT:
            kept.append(rest)
        else:
            kept.clear()
        if not chunk:
            last = b"".join(kept) if size <= ROW_LIMIT else None
            if last is None or last.strip():
                yield last
            return
