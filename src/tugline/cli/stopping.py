"""SIGINT, SIGTERM, SIGHUP: the first one asks for a tidy end; the second SIGINT or the end of patience ends at once."""

import os
import signal
from collections.abc import Callable
from types import FrameType

from tugline.cli.children import kill_children

PATIENCE = 2.7
"""Seconds that a tidy end may take."""


class Stopped(BaseException):
    """A signal came while there was nothing to end yet. `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Stopping:
    """What signals do to this process, from `install` on.

    Before `bind`, the first signal raises `Stopped`; after it, the first signal calls what was bound. Both from the
    main thread, also while the event loop is blocked. Whatever comes of it, the process has ended `PATIENCE` seconds
    later; `last_words` is called before it ends by force.
    """

    def __init__(self, last_words: Callable[[int], None]) -> None:
        self.number: int | None = None
        self._last_words = last_words
        self._ask: Callable[[], object] | None = None
        self._former: dict[int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = {}

    @property
    def code(self) -> int | None:
        """The exit code that the signal asks for, if one came."""
        return None if self.number is None else 128 + self.number

    def install(self) -> None:
        """Hear signals from now on."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # under nohup SIGHUP is ignored, and stays so; hosts that start us with SIGINT ignored still send it
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._hear)
        self._former[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._run_out)

    def restore(self) -> None:
        """Leave signals as they were found. After one has come this process does nothing more but end: further ones
        change neither its exit code nor what it has said, and it still ends when its time is up."""
        if self.number is not None:
            self._last_words = lambda code: None
            for number in self._former.keys() - {signal.SIGALRM}:
                signal.signal(number, signal.SIG_IGN)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE)  # anew: the tidy end has had its time
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former.clear()

    def bind(self, ask: Callable[[], object]) -> None:
        """From now on the first signal calls `ask`, which must be safe to call from a signal handler."""
        self._ask = ask

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            if number == signal.SIGINT:
                self._end_at_once()
            return
        self.number = number
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        if self._ask is None:
            raise Stopped(128 + number)
        self._ask()

    def _run_out(self, number: int, frame: FrameType | None) -> None:
        self._end_at_once()

    def _end_at_once(self) -> None:
        code = self.code or 128 + signal.SIGINT
        kill_children()
        try:
            self._last_words(code)
        finally:
            os._exit(code)
