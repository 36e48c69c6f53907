"""Reads transcripts: from the end to the last boundary, or whole. Bad lines are passed over and counted."""

import os
import stat
from collections.abc import Iterator

from msgspec import Struct

from tugline.protocol.codec import DecodeError, decode_json, decode_record
from tugline.protocol.errors import SessionError
from tugline.protocol.records import FORMAT, AnyRecord, Opened
from tugline.rules.history import Backward
from tugline.stores.lines import first_line, lines_backward

FIRST_LIMIT = 1 << 20
UNREADABLE = (DecodeError, UnicodeDecodeError, RecursionError)
"""What a line that is no record raises; the last one is nested too deep."""


class Reading(Struct, frozen=True, eq=False):
    """The records that were read, in order; the file's first is always among them.

    `damaged` lines could not be read; `unknown` ones are of a kind or shape that only a newer version knows. `last` is
    the highest number of a record, `whole` whether all of the file was read.
    """

    records: tuple[AnyRecord, ...]
    damaged: int = 0
    unknown: int = 0
    last: int = 0
    whole: bool = True


def open_regular(path: str, flags: int) -> int:
    """A descriptor of a plain file that is not reached through a link; `SessionError` says why not."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SessionError(f"The session {path} cannot be opened: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise SessionError(f"The session {path} cannot be opened: it is no plain file.")
    return fd


def sync_folder(folder: str) -> None:
    """What was made or moved in the folder is on the disk."""
    fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_file(path: str, *, whole: bool = False) -> Reading:
    """What stands in a transcript that somebody may be writing."""
    fd = open_regular(path, os.O_RDONLY)
    try:
        return read_records(fd, path, whole=whole)
    except OSError as error:
        raise SessionError(f"The session {path} cannot be read: {error.strerror}.") from error
    finally:
        os.close(fd)


def read_records(fd: int, path: str, *, whole: bool = False) -> Reading:
    """The records from the last boundary on, or all. `SessionError` where this is no transcript of ours, or one of a
    newer format."""
    opened = opening(fd, path)
    backward = Backward(whole=whole)
    records: list[AnyRecord] = []
    damaged = unknown = last = bad_tail = 0
    for line in lines_backward(fd):
        record = decode(line)
        if isinstance(record, str):
            if record == "unknown":
                unknown += 1
            else:
                damaged += 1
                bad_tail += not records
            continue
        if not records:
            last = record.n + bad_tail
        records.append(record)
        backward.take(record)
        if backward.enough:
            break
    if not records and opened is None:
        raise SessionError(f"{path} is {'no transcript of tugline' if damaged or unknown else 'empty'}.")
    records.reverse()
    complete = not backward.enough or isinstance(records[0], Opened)
    if opened is not None and not (records and isinstance(records[0], Opened)):
        records.insert(0, opened)
    return Reading(tuple(records), damaged, unknown, last, complete)


def opening(fd: int, path: str) -> Opened | None:
    """The first record; `None` where it is damaged. `SessionError` where the file is no transcript of ours, or one of a
    newer format."""
    line = first_line(fd, FIRST_LIMIT)
    try:
        plain = decode_json(line)
    except UNREADABLE:
        return None
    if not isinstance(plain, dict) or plain.get("kind") != "opened":
        raise SessionError(f"{path} is no transcript of tugline.")
    found = plain.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise SessionError(
            f"{path} was written by a newer tugline (format {found}; this one knows {FORMAT}). "
            "Update tugline to open it."
        )
    record = decode(line)
    return record if isinstance(record, Opened) else None


def decode(line: bytes | None) -> AnyRecord | str:
    """The record in a line; else `damaged`, or `unknown` where it is sound but not ours to understand."""
    if line is None:
        return "damaged"
    try:
        record: AnyRecord = decode_record(line)
        return record
    except UNREADABLE:
        pass
    try:
        plain = decode_json(line)
    except UNREADABLE:
        return "damaged"
    return "unknown" if isinstance(plain, dict) and isinstance(plain.get("kind"), str) else "damaged"


def readable(line: bytes) -> bool:
    """Whether a line is a whole record, of whatever version."""
    return decode(line) != "damaged"


def records_backward(fd: int) -> Iterator[AnyRecord]:
    """The records that can be read, from the last to the first."""
    for line in lines_backward(fd):
        record = decode(line)
        if not isinstance(record, str):
            yield record
