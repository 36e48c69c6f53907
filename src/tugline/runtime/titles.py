"""Titles made on the side: after the first turn a small model names the session, while nobody waits for it."""

import anyio

from tugline.loop.executor import Gear
from tugline.ports import SideModel
from tugline.protocol.errors import TuglineError
from tugline.protocol.events import SessionRenamed
from tugline.protocol.records import Titled
from tugline.rules import titles

SECONDS = 30.0


class Titles:
    """Names a session once. A name that a person gave is never replaced; a failure is no matter, and not told."""

    def __init__(self, gear: Gear, model: SideModel) -> None:
        self._gear = gear
        self._model = model
        self._tried = False

    def due(self) -> bool:
        """Whether the session has no name, and none was tried to be found."""
        return not self._tried and not self._gear.transcript.title

    async def make(self, prompt: str, answer: str) -> None:
        """Find a title and keep it. Whoever closes the session cancels it."""
        self._tried = True
        found = ""
        with anyio.move_on_after(SECONDS):
            try:
                found = titles.as_title(await self._model.complete(titles.question(prompt, answer), purpose="title"))
            except TuglineError:
                return
        transcript = self._gear.transcript
        if found and not transcript.title:  # it may have been named meanwhile
            transcript.rename(Titled(title=found, by="model"))
            self._gear.voice.say(SessionRenamed, title=found)
