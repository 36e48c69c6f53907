"""The three standard descriptors, whatever state they were handed over in. Imports next to nothing: `--version` uses
it."""

import os

BROKEN_PIPE = 141
"""The exit code when nobody reads stdout any more: 128 + SIGPIPE, as of any program in a pipe."""


def secure() -> frozenset[int]:
    """Which of the descriptors 0-2 were closed; each now is `/dev/null`, so that no file of ours takes its number."""
    closed = set()
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            closed.add(fd)
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            os.set_inheritable(fd, True)
    return frozenset(closed)


def put(text: str) -> int:
    """Write to stdout; the exit code that comes of it."""
    data = text.encode("utf-8", "backslashreplace")
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:
        complain(f"stdout cannot be written: {error.strerror}.")
        return 1
    return 0


def complain(line: str) -> None:
    """One line on stderr, if anybody hears it; whatever stands in it, it is harmless to a terminal."""
    if not line.replace("\n", "").isprintable():
        from tugline.rules.terminal import clean  # noqa: PLC0415  imported here: start-up cost

        line = clean(line)
    say(f"tugline: {line}\n")


def say(text: str) -> None:
    """Write to stderr, if anybody hears it."""
    _write_if_heard(2, text)


def put_quietly(text: str) -> None:
    """Write to stdout, if anybody hears it; what comes after it will tell if not."""
    _write_if_heard(1, text)


def _write_if_heard(fd: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        pass
