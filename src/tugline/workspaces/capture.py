"""What a process prints: both ends in memory, all of it in a file, and neither without a limit."""

import codecs
import os

from tugline.ports import Output

SPILL_LIMIT = 64 * 1024 * 1024
"""Bytes of output that go to the file."""
_BYTES_PER_CHARACTER = 4


class Capture:
    """Takes bytes as they come and tells, at any time, what there is so far.

    Memory depends on `keep` (characters at each end) alone. The file is made once there is more than `keep` can hold.
    """

    def __init__(self, keep: int, spill: str | None) -> None:
        self._keep = keep
        self._room = max(keep, 1) * _BYTES_PER_CHARACTER
        self._head = bytearray()
        self._tail = bytearray()
        self._path = spill or ""
        self._spilling = spill is not None
        self._file = -1
        self._at_once = False
        self._spilled = 0
        self._newlines = 0
        self._open_line = False
        self._ended = False
        self.size = 0

    def feed(self, data: bytes) -> None:
        """More of it."""
        self.size += len(data)
        self._newlines += data.count(b"\n")
        self._open_line = not data.endswith(b"\n")
        if self._spilling and (self._at_once or self.size > 2 * self._keep):
            self._spill(data)
        missing = self._room - len(self._head)
        if missing > 0:
            self._head += data[:missing]
            data = data[missing:]
        if data:
            self._tail += data[-self._room :]
            if len(self._tail) > 2 * self._room:
                del self._tail[: -self._room]

    def keep_all(self) -> str | None:
        """From now on the file has all that came and comes; its path, `None` where it cannot be kept."""
        if self._spilling and self._file < 0:
            self._at_once = True
            self._spill(b"")
            if self._ended:
                self._close()
        return self._path if self._file >= 0 or self._spilled else None

    def end(self) -> None:
        """Nothing more comes: closes the file."""
        self._ended = True
        self._close()

    def output(self) -> Output:
        """What there is so far."""
        head, tail, whole = self._ends()
        return Output(
            head=head,
            tail=tail,
            size=self.size,
            lines=self._newlines + self._open_line,
            spill=self._path if self._spilled else None,
            whole=whole,
        )

    def _ends(self) -> tuple[str, str, bool]:
        keep = self._keep
        if len(self._head) + len(self._tail) == self.size:
            text = self._decode(self._head + self._tail)
            if len(text) <= 2 * keep:
                return text[:keep], text[keep:], True
            return text[:keep], text[-keep:] if keep else "", False
        # Each end has bytes for more characters than are shown: what the cut went through is not among them.
        tail = self._decode(self._tail)
        return self._decode(self._head)[:keep], tail[-keep:] if keep else "", False

    def _decode(self, data: bytes | bytearray) -> str:
        # While more may come, an unfinished character at the end waits for its rest.
        return codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(data), final=self._ended)

    def _spill(self, data: bytes) -> None:
        try:
            if self._file < 0:
                # All that came before is still in the head, which has more room than `2 * keep`.
                self._file = _create(self._path)
                data = bytes(self._head) + data
            view = memoryview(data)[: SPILL_LIMIT - self._spilled]
            while view:
                written = os.write(self._file, view)
                self._spilled += written
                view = view[written:]
        except OSError:
            # A full disk must not end the process: what is in the file stays, the ends in memory go on.
            self._spilling = False
        if self._spilled >= SPILL_LIMIT:
            self._spilling = False
        if not self._spilling:
            self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _create(path: str) -> int:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
