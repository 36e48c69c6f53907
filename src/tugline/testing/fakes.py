"""A clock and ids that a test can foretell."""

from collections import Counter

from tugline.protocol.ids import MessageId


class FakeClock:
    """A `Clock` that stands still until it is told to go on; with `tick`, each reading moves it."""

    def __init__(self, start: float = 1_700_000_000.0, *, tick: float = 0.0) -> None:
        self._start = start
        self._passed = 0.0
        self._tick = tick

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._start + self._read()

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._read()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._passed += seconds

    def _read(self) -> float:
        now = self._passed
        self._passed += self._tick
        return now


class SequentialIds:
    """`Ids` that count: `m1`, `m2` for messages, and `<kind>1`, `<kind>2` for each other kind."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def message(self) -> MessageId:
        """The next message's id."""
        return MessageId(self.new("m"))

    def new(self, kind: str) -> str:
        """The next id of this kind."""
        self._counts[kind] += 1
        return f"{kind}{self._counts[kind]}"
