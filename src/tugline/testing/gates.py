"""Gates: places in a script where the model waits until a test says go on."""

from anyio import Event


class Gates:
    """Named gates. A gate stays open once it was opened, also when it is opened before anyone comes."""

    def __init__(self) -> None:
        self._open: dict[str, Event] = {}
        self._arrived: dict[str, Event] = {}
        self._arrivals: dict[str, int] = {}
        self._waiting: dict[str, int] = {}

    def open(self, *names: str) -> None:
        """Open these gates."""
        for name in names:
            self._open.setdefault(name, Event()).set()

    def waiting(self) -> dict[str, int]:
        """The gates before which replies wait now, and how many."""
        return {name: count for name, count in self._waiting.items() if count}

    async def reached(self, name: str, count: int = 1) -> None:
        """Until `count` replies in all have come to this gate, whether it is open or not."""
        while self._arrivals.get(name, 0) < count:
            await self._arrived.setdefault(name, Event()).wait()

    async def passed(self, name: str) -> None:
        """Come to a gate, and wait until it is open."""
        self._arrivals[name] = self._arrivals.get(name, 0) + 1
        if name in self._arrived:
            self._arrived.pop(name).set()
        event = self._open.setdefault(name, Event())
        if event.is_set():
            return
        self._waiting[name] = self._waiting.get(name, 0) + 1
        try:
            await event.wait()
        finally:
            self._waiting[name] -= 1
