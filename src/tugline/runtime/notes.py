"""What a person notes for every session of a project: a line in its file of instructions."""

import os
from collections.abc import Awaitable, Callable, Sequence

from tugline.loop.executor import Gear
from tugline.ports import FileStat, Ids, WorkspaceError
from tugline.protocol.blocks import Text
from tugline.protocol.errors import SessionError, UsageError
from tugline.protocol.events import UserAdded
from tugline.protocol.messages import User
from tugline.protocol.permissions import Verdict, VerdictAllow
from tugline.protocol.specs import Footprint, PathSubject
from tugline.rules import wording
from tugline.rules.paths import inside
from tugline.rules.permission import Query

LARGEST = 1_000_000
"""Bytes; a longer file is not read as instructions either."""
SWITCHED_OFF = "Files of instructions are switched off here, so nothing would read a note."


class Notes:
    """The files of instructions, listed, and a line added to the project's own.

    The person asks for it, so nobody is asked again; but what a deny rule or the protection of paths forbids stays
    forbidden, and a link that leads out of the project is not followed. `names` are the files' names; none: they are
    switched off. `listing` tells what is loaded, in Markdown."""

    def __init__(
        self,
        gear: Gear,
        ids: Ids,
        judge: Callable[[Query], Verdict],
        *,
        names: Sequence[str],
        project_root: str,
        listing: Callable[[], Awaitable[str]],
    ) -> None:
        self._gear = gear
        self._ids = ids
        self._judge = judge
        self._names = names
        self._root = project_root
        self._listing = listing

    async def listed(self) -> str:
        """What there is, and where a note would go."""
        if not self._names:
            return SWITCHED_OFF
        path, stat = await self._place()
        return f"{await self._listing()}\n`#TEXT` adds a line to {path}{'' if stat else ', which it makes'}."

    async def add(self, text: str) -> str:
        """Add a line; returns the file's path. `SessionError` says why it cannot be."""
        line = " ".join(wording.sound(text).split())
        if not line:
            raise UsageError("There is nothing to note. Say what: #TEXT")
        if not self._names:
            raise SessionError(SWITCHED_OFF)
        path, stat = await self._place()
        self._refuse(path)
        try:
            await self._write(path, stat, line)
        except WorkspaceError as error:
            raise SessionError(f"The note was not kept: {error}") from error
        self._tell(path, line)
        return path

    async def _place(self) -> tuple[str, FileStat | None]:
        """The first of the files that the project's root has; else the one that will be made."""
        for name in self._names:
            path = os.path.join(self._root, name)
            try:
                stat = await self._gear.workspace.stat(path)
            except WorkspaceError:
                continue
            if stat is not None or os.path.islink(path):
                return path, stat
        return os.path.join(self._root, self._names[0]), None

    def _refuse(self, path: str) -> None:
        try:
            name, target = self._gear.workspace.resolve(path, self._root)
        except WorkspaceError as error:
            raise SessionError(f"The note was not kept: {error}") from error
        if not inside(target, self._root):
            raise SessionError(f"The note was not kept: {name} leads out of the project, to {target}.")
        verdict = self._judge(Query("Edit", {}, Footprint.CHANGES, (PathSubject(path, "edit"),), self._root))
        if not isinstance(verdict, VerdictAllow):
            raise SessionError(f"The note was not kept: {verdict.reason}.")

    async def _write(self, path: str, stat: FileStat | None, line: str) -> None:
        workspace = self._gear.workspace
        if stat is None:
            await workspace.write(path, f"- {line}\n".encode(), expect=None)
            return
        if stat.size > LARGEST:
            raise SessionError(f"The note was not kept: {path} has more than {LARGEST:,} bytes, and is not read.")
        data, found = await workspace.read(path)
        try:
            data.decode()
        except UnicodeDecodeError:
            raise SessionError(f"The note was not kept: {path} is not UTF-8 text.") from None
        end = b"\r\n" if b"\r\n" in data else b"\n"
        gap = b"" if not data or data.endswith(b"\n") else end
        await workspace.write(path, data + gap + f"- {line}".encode() + end, expect=found)

    def _tell(self, path: str, line: str) -> None:
        """The model learns of it now, if it has read the file already; else when it reads it."""
        transcript = self._gear.transcript
        if transcript.messages:
            words = wording.reminder(f"The person added to {path}: {wording.escape(line)}")
            message = User(self._ids.message(), (Text(words),), "letter", hidden=True)
            transcript.add(message)
            self._gear.voice.say(UserAdded, message=message)
