"""The session's event log: numbers every event and gives it to each subscriber, in order."""

import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable
from itertools import count

import anyio
from msgspec import structs

from tugline.protocol.events import Crashed, Event, InputDelta, TextDelta, ThinkingDelta

QUEUE_LIMIT = 2_000
"""Events that may wait for a slow subscriber before neighbouring deltas are merged."""

_DELTAS = (TextDelta, ThinkingDelta, InputDelta)


class Bus:
    """Numbers and distributes. A subscriber is a callback that must be quick and must not raise."""

    def __init__(self) -> None:
        self.number: Callable[[], int] = count(1).__next__
        self._subscribers: tuple[Callable[[Event], None], ...] = ()
        self._queues: set[Subscription] = set()

    def publish(self, event: Event) -> None:
        """Give the event to every subscriber, in the order of their subscription. One that raises hears no more."""
        failure: Exception | None = None
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception as error:  # frontend boundary: who listens cannot break what is told
                self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)
                failure = error
        if failure is not None:
            text = f"{type(failure).__name__}: {failure}"[:2_000]
            trace = "".join(traceback.format_exception(failure))[-20_000:]
            self.publish(Crashed(self.number(), event.origin, where="subscriber", error=text, traceback=trace))

    def close(self) -> None:
        """Nothing more will be said: every subscription ends once it has given what waits."""
        for queue in tuple(self._queues):
            queue.close()

    def attach(self, subscriber: Callable[[Event], None]) -> Callable[[], None]:
        """From now on `subscriber` hears every event; call what is returned to end that."""
        self._subscribers = (*self._subscribers, subscriber)

        def detach() -> None:
            self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

        return detach

    def subscribe(self, limit: int = QUEUE_LIMIT) -> "Subscription":
        """A queue of its own for a consumer that takes its time."""
        queue = Subscription(self, limit)
        self._queues.add(queue)
        return queue

    def forget(self, queue: "Subscription") -> None:
        """The subscription has ended."""
        self._queues.discard(queue)


class Subscription:
    """Events in order, to be iterated. When more than `limit` wait, neighbouring deltas are merged; nothing else is
    ever left out. Ends when closed."""

    def __init__(self, bus: Bus, limit: int) -> None:
        self._queue: deque[Event] = deque()
        self._limit = limit
        self._waiter: anyio.Event | None = None
        self._closed = False
        self._merging: list[str] = []
        self._bus = bus
        self._detach = bus.attach(self._hear)

    def _hear(self, event: Event) -> None:
        queue = self._queue
        if len(queue) >= self._limit and isinstance(event, _DELTAS):
            last = queue[-1]
            if type(last) is type(event) and (last.reply, last.index) == (event.reply, event.index):
                self._merge(event)
                return
        if self._merging:
            self._settle_merge()
        queue.append(event)
        if self._waiter is not None:
            self._waiter.set()

    def _merge(self, event: "TextDelta | ThinkingDelta | InputDelta") -> None:
        last = self._queue[-1]
        assert isinstance(last, _DELTAS)
        if not self._merging:
            self._merging.append(last.text)
        self._merging.append(event.text)
        self._queue[-1] = event

    def _settle_merge(self) -> None:
        last = self._queue[-1]
        assert isinstance(last, _DELTAS)
        self._queue[-1] = structs.replace(last, text="".join(self._merging))
        self._merging.clear()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._queue:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = anyio.Event()
            await self._waiter.wait()
            self._waiter = None
        if self._merging and len(self._queue) == 1:
            self._settle_merge()
        return self._queue.popleft()

    async def batch(self) -> list[Event]:
        """All that waits now, in order; waits for the first. Empty only when closed."""
        try:
            events = [await self.__anext__()]
        except StopAsyncIteration:
            return []
        if self._merging:
            self._settle_merge()
        events.extend(self._queue)
        self._queue.clear()
        return events

    def close(self) -> None:
        """Hear no more; what waits can still be taken."""
        self._closed = True
        self._detach()
        self._bus.forget(self)
        if self._waiter is not None:
            self._waiter.set()
