"""Calm in a storm: when a provider is overloaded, all agents of this process together ask it more slowly.

The gate knows nothing of event loops and tasks, only of moments, so that agents in several loops may share it.
"""

import threading
import time
from collections.abc import Awaitable, Callable

import anyio

from tugline.protocol.errors import Failure

PER_SECOND = 3.0
_CALM_AFTER_REPLIES = 5
_CALM_AFTER_SECONDS = 60.0
_LOOK_AGAIN = 0.5
_GATES = 256


class Gate:
    """One provider and key. Open in calm weather; after an overload it lets `PER_SECOND` requests through, until
    several replies in a row have come, or a minute has passed without a refusal."""

    def __init__(
        self,
        *,
        per_second: float = PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._interval = 1 / per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._storm_until = 0.0  # 0: calm
        self._next = 0.0
        self._streak = 0

    @property
    def storm(self) -> bool:
        """Whether requests are being spread out now."""
        if self._storm_until and self._clock() >= self._storm_until:
            self._storm_until = 0.0
        return self._storm_until > 0

    async def admit(self) -> None:
        """Until it is this request's turn; at once in calm weather."""
        if not self._storm_until or not self.storm:
            return
        with self._lock:
            turn = max(self._next, self._clock())
            self._next = turn + self._interval
        while (wait := turn - self._clock()) > 0 and self.storm:
            await self._sleep(min(wait, _LOOK_AGAIN))

    def refused(self, failure: Failure) -> None:
        """A request failed; if for overload, the storm begins or goes on."""
        if failure.kind not in ("overloaded", "rate_limit"):
            return
        with self._lock:
            now = self._clock()
            if not self._storm_until or now >= self._storm_until:
                self._next = now + self._interval
            self._streak = 0
            self._storm_until = now + _CALM_AFTER_SECONDS

    def replied(self) -> None:
        """A reply came to its proper end."""
        if not self._storm_until:
            return
        with self._lock:
            self._streak += 1
            if self._streak >= _CALM_AFTER_REPLIES:
                self._storm_until = 0.0


class Gates:
    """The gates of a process, by base URL and key; the key itself is not kept."""

    def __init__(self) -> None:
        self._gates: dict[tuple[str, int], Gate] = {}
        self._lock = threading.Lock()

    def gate(self, base_url: str, key: str) -> Gate:
        """The one gate for this provider and key."""
        name = (base_url, hash(key))
        with self._lock:
            gate = self._gates.get(name)
            if gate is None:
                if len(self._gates) >= _GATES:
                    del self._gates[next(iter(self._gates))]
                gate = self._gates[name] = Gate()
            return gate


# The one place where agents that know nothing of each other must meet: the provider counts per key, not per session.
PROCESS_GATES = Gates()
