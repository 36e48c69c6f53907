"""The command on a disk that fails at a chosen moment: `python faulty_disk.py WHAT N WORDS…`.

Counted are the writes, syncs and cuts of transcripts. At the N-th: `before`, `half` or `after` end the process with
SIGKILL at that point of it; `ENOSPC` and `EIO` make it fail, a write after half of it, and the next three as well.
"""

import errno
import os
import signal
import sys

FAILURES = 4
count = 0


def main() -> int:
    what, number = sys.argv[1], int(sys.argv[2])
    for name in ("write", "fdatasync", "fsync", "ftruncate"):
        setattr(os, name, faulty(getattr(os, name), what, number))  # type: ignore[no-untyped-call]
    sys.argv[1:] = sys.argv[3:]
    from tugline.__main__ import main as tugline

    return tugline()


def faulty(call, what, number):  # type: ignore[no-untyped-def]
    if (what == "ENOSPC" and call.__name__ != "write") or (what == "EIO" and call.__name__ == "ftruncate"):
        return call  # a full disk still cuts and syncs

    def wrapped(fd, *arguments):  # type: ignore[no-untyped-def]
        global count
        if not os.readlink(f"/proc/self/fd/{fd}").endswith((".jsonl", ".torn", "/sessions", "/work")):
            return call(fd, *arguments)
        count += 1
        if what in ("ENOSPC", "EIO"):
            if number <= count < number + FAILURES:
                if arguments and isinstance(arguments[0], bytes) and count == number:
                    return call(fd, arguments[0][: len(arguments[0]) // 2])
                raise OSError(getattr(errno, what), os.strerror(getattr(errno, what)))
            return call(fd, *arguments)
        if count != number:
            return call(fd, *arguments)
        if what == "half" and arguments and isinstance(arguments[0], bytes):
            call(fd, arguments[0][: len(arguments[0]) // 2])
        elif what == "after":
            call(fd, *arguments)
        return os.kill(os.getpid(), signal.SIGKILL)

    return wrapped


if __name__ == "__main__":
    sys.exit(main())
