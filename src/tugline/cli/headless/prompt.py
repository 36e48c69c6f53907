"""The prompt: from the command line, and from stdin if something is piped in."""

import os
import select
import stat

from tugline.cli.streams import complain
from tugline.protocol.blocks import Text
from tugline.protocol.commands import PromptContent
from tugline.protocol.errors import UsageError

LIMIT = 10 << 20
"""Bytes of stdin that are taken; more is an error."""

PATIENCE = 3.0
"""Seconds after which an open stdin that says nothing is mentioned (a pipe) or left alone (a socket)."""

_TEXT_CONTROLS = frozenset(b"\t\n\r\f\v\b\x1b")


def read_prompt(given: str | None, *, fd: int = 0) -> PromptContent:
    """What to send to the model: the words given, then what stdin holds, as a part of its own: files are mentioned by
    the person, not by data.

    Raises `UsageError` for nothing at all, for binary input and for too much of it. Never waits for a terminal.
    """
    piped = read_piped(fd, optional=bool(given and given.strip()))
    parts = tuple(Text(part) for part in (given or "", piped) if part.strip())
    if not parts:
        raise UsageError('There is no prompt. Give one: tugline -p "..." or: echo "..." | tugline -p')
    return parts


def read_piped(fd: int, *, optional: bool) -> str:
    """The text that is piped in, or nothing. `optional`: there is a prompt already."""
    try:
        if os.isatty(fd):
            return ""
        kind = os.fstat(fd).st_mode
        return _decode(_read(fd, kind, optional=optional))
    except OSError as error:
        if optional and isinstance(error, IsADirectoryError):
            return ""
        raise UsageError(f"stdin cannot be read: {error.strerror}.") from None


def _read(fd: int, kind: int, *, optional: bool) -> bytes:
    pieces: list[bytes] = []
    size = 0
    if not stat.S_ISREG(kind) and not _say_while_silent(fd, kind, optional=optional):
        return b""
    while piece := _piece(fd):
        size += len(piece)
        if size > LIMIT:
            raise UsageError(
                f"More than {LIMIT >> 20} MB on stdin. Save it to a file and name the file in the prompt instead."
            )
        pieces.append(piece)
    return b"".join(pieces)


def _piece(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, 1 << 16)
        except BlockingIOError:  # whoever started us made it non-blocking
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll()


def _say_while_silent(fd: int, kind: int, *, optional: bool) -> bool:
    """Wait for the first byte; false if none will be waited for.

    A pipe comes from a command that may take its time, and dropping what it says would be worse than waiting. A
    socket comes from a host program that hands one to every child; with a prompt at hand it is not waited for.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if poll.poll(PATIENCE * 1_000):
        return True
    if optional and stat.S_ISSOCK(kind):
        return False
    complain("waiting for the end of stdin. If nothing is to come from there, add: < /dev/null")
    return True


def _decode(data: bytes) -> str:
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"stdin is not UTF-8 text (byte {error.start}). Save it to a file and name the file in the prompt instead."
        ) from None
    if any(byte < 32 and byte not in _TEXT_CONTROLS for byte in set(data)):
        raise UsageError("stdin is binary, not text. Save it to a file and name the file in the prompt instead.")
    return text
