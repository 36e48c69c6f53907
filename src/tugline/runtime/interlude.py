"""What is done to a conversation between two turns: a compaction, a rewind, a command's answer."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from tugline.protocol.errors import SessionError

Outcome = TypeVar("Outcome")


class Interlude(Generic[Outcome]):
    """Work that takes its turn among the prompts, so that nothing else touches the conversation meanwhile."""

    def __init__(self, work: Callable[[], Awaitable[Outcome]]) -> None:
        self._work = work
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._outcome: list[Outcome] = []
        self._error: Exception | None = None
        self.interrupted = False

    def interrupt(self) -> None:
        """End it at its next await; whoever waits for it gets a `SessionError`."""
        self.interrupted = True
        self._scope.cancel()

    def give_up(self) -> None:
        """It will not be done: the session is closed."""
        self._over.set()

    async def run(self) -> None:
        """Do it. What it raises is for those who wait."""
        try:
            with self._scope:
                self._outcome.append(await self._work())
        except Exception as error:  # frontend top: told to whoever asked for it
            self._error = error
        finally:
            self._over.set()

    async def outcome(self) -> Outcome:
        """What came of it."""
        await self._over.wait()
        if self._error is not None:
            raise self._error
        if not self._outcome:
            raise SessionError("It was interrupted.")
        return self._outcome[0]
