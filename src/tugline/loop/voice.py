"""How an agent is heard: every event carries its origin and the session's next number."""

from collections.abc import Callable
from typing import Any, Protocol

from tugline.protocol.events import Event, Origin


class Hearer(Protocol):
    """Takes events, in order: the bus."""

    def number(self) -> int: ...

    def publish(self, event: Event) -> None: ...


class Voice:
    """Says events for one agent."""

    __slots__ = ("hearer", "number", "origin", "publish")

    def __init__(self, hearer: Hearer, origin: Origin) -> None:
        self.hearer = hearer
        self.origin = origin
        self.number: Callable[[], int] = hearer.number
        self.publish: Callable[[Event], None] = hearer.publish

    def say(self, kind: type[Event], /, **fields: Any) -> None:
        """Make the event and publish it."""
        self.publish(kind(seq=self.number(), origin=self.origin, **fields))
