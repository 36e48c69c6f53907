"""What is made of a session's transcript while it runs: a document, or a branch that goes on in its place."""

from collections.abc import Awaitable, Callable

import anyio.to_thread
from msgspec import structs

from tugline.loop.executor import Gear
from tugline.protocol.events import SessionBranched
from tugline.protocol.ids import SessionId
from tugline.protocol.sessions import ExportFormat

Export = Callable[[str | None, ExportFormat | None], str]
"""Writes the session's document to a path in a format, where they are given; returns the path. May block."""
Branch = Callable[[], Awaitable[SessionId]]
"""Copies the transcript, and writes the copy from now on; returns its id."""


class Copies:
    """Only while no turn runs."""

    def __init__(self, gear: Gear, export: Export, branch: Branch) -> None:
        self._gear = gear
        self._export = export
        self._branch = branch
        self.branched: Callable[[], Awaitable[None]] | None = None
        """Hears that the conversation goes on in a copy."""

    async def export(self, path: str | None = None, form: ExportFormat | None = None) -> str:
        """Write the conversation so far as one document; returns its path."""
        await self._gear.transcript.durable()
        return await anyio.to_thread.run_sync(self._export, path, form)

    async def branch(self) -> SessionId:
        """Go on under a new id, in a copy; the session so far stays as it is, and can be gone on with."""
        await self._gear.transcript.durable()
        voice = self._gear.voice
        before = voice.origin.session
        session = await self._branch()
        voice.origin = structs.replace(voice.origin, session=session)
        voice.say(SessionBranched, before=before, transcript=self._gear.transcript.path)
        if self.branched is not None:
            await self.branched()
        return session
