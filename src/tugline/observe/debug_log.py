"""The log of `--debug`: every event as a line, in a private file that does not grow without end."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress

from tugline.protocol.codec import encode
from tugline.protocol.events import Event, InputDelta, TextDelta, ThinkingDelta
from tugline.rules.masking import MaskSet

SIZE_LIMIT = 8 << 20
"""Bytes of a file before the next one begins."""
KEPT = 3
"""Former files that are kept, as `.1`, `.2`, …"""
LINE_LIMIT = 64 << 10


class DebugLog:
    """Writes events and tracebacks to `path`. A subscriber of the bus that never raises: a log that cannot be written
    is no reason to end a session. `secrets` never appear in it."""

    def __init__(self, path: str, *, secrets: Iterable[str] = (), limit: int = SIZE_LIMIT, kept: int = KEPT) -> None:
        self.path = path
        self.problem = ""
        self._mask = MaskSet(secrets)
        self._limit = limit
        self._kept = kept
        self._fd = -1
        self._size = 0
        self._open()

    def hide(self, values: Iterable[str]) -> None:
        """Further secrets that became known."""
        self._mask.learn(values)

    def hear(self, event: Event) -> None:
        """Write the event. Deltas are left out: the blocks that they make up are there."""
        if not isinstance(event, TextDelta | InputDelta | ThinkingDelta):
            try:
                self._write(encode(event))
            except UnicodeEncodeError:
                self._write(encode(repr(event).encode("utf-8", "replace").decode()))

    def note(self, text: str) -> None:
        """Write words of our own, such as a traceback."""
        self._write(encode({"type": "note", "text": text.encode("utf-8", "replace").decode()}))

    def close(self) -> None:
        """Write no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self.path, flags, 0o600)
            self._size = os.fstat(self._fd).st_size
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.problem = f"The debug log {self.path} cannot be written: {error.strerror}."
        self.close()

    def _write(self, body: bytes) -> None:
        if self._fd < 0:
            return
        # before it is cut: half a key would not be known
        body = self._mask.data(body)
        if len(body) > LINE_LIMIT:
            cut = body[:LINE_LIMIT].decode("utf-8", "ignore")
            body = encode({"type": "cut", "bytes": len(body), "begins": cut})
        line = b'{"time":%.3f,"pid":%d,"event":%s}\n' % (time.time(), os.getpid(), body)
        try:
            if self._size + len(line) > self._limit and self._size:
                self._rotate()
            self._size += os.write(self._fd, line)
        except OSError as error:
            self._fail(error)

    def _rotate(self) -> None:
        os.close(self._fd)
        self._fd = -1
        if self._is_still_there():
            for number in range(self._kept, 0, -1):
                former = self.path if number == 1 else f"{self.path}.{number - 1}"
                with suppress(FileNotFoundError):
                    os.replace(former, f"{self.path}.{number}")
        self._open()

    def _is_still_there(self) -> bool:
        """Whether the file is still full: another process may have begun a new one meanwhile."""
        try:
            return os.stat(self.path).st_size + LINE_LIMIT > self._limit
        except FileNotFoundError:
            return False
