"""What calls change can be taken back: former contents are kept before a tool writes, and looks at the work tree before
and after a shell command tell what that changed.

Whatever two looks find other is put down to the calls that ran in between, as a set; where none did, somebody else has
done it. What tools wrote meanwhile is known already, and no news.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import anyio.to_thread

from tugline.loop.executor import is_call_cancelled
from tugline.loop.transcript import Transcript
from tugline.loop.voice import Voice
from tugline.ports import FileStat, Moved, Unlookable, Workspace, WorkspaceError
from tugline.protocol.errors import SessionError
from tugline.protocol.events import Event, Notice, TurnStarted
from tugline.protocol.ids import CallId
from tugline.protocol.records import FileChange, FilesChanged, FileState
from tugline.rules.changes import same
from tugline.rules.paths import inside
from tugline.rules.rewinding import digest_of

LAST_LOOK = 3.0
"""Seconds that a session which is closed may take to see what its last calls did."""
_AT_ONCE = 1_000
"""Files in one record."""
_NAMED = 3


class Contents(Protocol):
    """A store of former contents."""

    def put(self, data: bytes, *, durable: bool = True) -> str: ...

    def get(self, digest: str) -> bytes | None: ...

    def has(self, digest: str) -> bool: ...


class Tree(Protocol):
    """A work tree that can be looked at (`workspaces.snapshots.WorkTree`)."""

    root: str
    trouble: str

    def look(self) -> list[Moved]: ...

    def settle(self) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def mark(self, calls: Iterable[str]) -> None: ...

    def marked(self) -> list[str]: ...


class Checkpoints:
    """Keeps the way back for one session. `root` is the project's folder, which paths are told from; `find` gives the
    work trees in which commands may change something, asked again until there is one."""

    def __init__(
        self,
        transcript: Transcript,
        voice: Voice,
        contents: Contents,
        find: Callable[[], Sequence[Tree]],
        *,
        root: str,
        limit: int,
    ) -> None:
        self.contents = contents
        self.root = root
        self.limit = limit
        """Bytes of the largest file whose content is kept."""
        self._transcript = transcript
        self._voice = voice
        self._find = find
        self._trees: list[Tree] = []
        self._given_up: set[str] = set()
        self._looked = False
        self._running: dict[CallId, None] = {}
        self._ended: dict[CallId, None] = {}
        """Calls that have ended since the last look."""
        self._written: dict[str, FileState | None] = {}
        """What was written since the last look, and is on record."""
        self._one_look = anyio.Lock()
        self._told: set[str] = set()

    def hear(self, event: Event) -> None:
        """A turn begins: the next call that changes something takes a look first."""
        if isinstance(event, TurnStarted):
            self._looked = False

    @property
    def covers_commands(self) -> bool:
        """Whether what shell commands change can be taken back."""
        return bool(self._known_trees())

    # -- what calls do

    async def before_change(self) -> None:
        """Once in a turn: see how the work tree is before anything is changed."""
        if not self._looked:
            await self.look()

    @asynccontextmanager
    async def around(self, call: CallId) -> AsyncIterator[None]:
        """A call that may change anything runs inside."""
        await self.look()
        self._running[call] = None
        self._mark()
        try:
            yield
        finally:
            # whoever is interrupted does not wait for a look: the next one tells what the call did
            self._running.pop(call, None)
            self._ended[call] = None
        try:
            await self.look()
        except anyio.get_cancelled_exc_class():
            if is_call_cancelled():
                raise  # else the tool has cancelled the task it ran in: its result stands, and the next look tells

    async def write(
        self, workspace: Workspace, call: CallId, path: str, data: bytes, expect: FileStat | None
    ) -> FileStat:
        """Write a file, after what it was is kept and the change is on record."""
        target = workspace.resolve(path, "/")[1]
        before = await self._keep(workspace, path, expect)
        after = FileState(await self._keep_new(data), before.mode if before is not None else 0o644)
        await self._record_write(FilesChanged(files=(self.change(target, before, after),), calls=(call,)))
        try:
            written = await workspace.write(path, data, expect=expect)
        except BaseException:
            self.record((self.change(target, after, before),), (call,))  # it did not come about
            raise
        self.wrote(target, after)
        return written

    async def _keep(self, workspace: Workspace, path: str, expect: FileStat | None) -> FileState | None:
        """How the file is that is about to be written, its content being kept."""
        if expect is None:
            if await workspace.stat(path) is not None:
                raise WorkspaceError("changed", f"{path}: it exists by now.")
            return None
        if expect.size > self.limit:
            self._tell(
                f"{path} is too large for its content to be kept (checkpoints.maxFileBytes); there is no way back."
            )
            return FileState("", expect.mode)
        data, stat = await workspace.read(path)
        if (stat.size, stat.mtime_ns) != (expect.size, expect.mtime_ns):
            raise WorkspaceError("changed", f"{path}: it was changed meanwhile.")
        try:
            return FileState(await anyio.to_thread.run_sync(lambda: self.contents.put(data)), stat.mode)
        except SessionError as error:
            raise WorkspaceError("full", f"{path} was not written: {error}") from None

    async def _keep_new(self, data: bytes) -> str:
        """What is written is kept as well, so that changes can be shown; where that fails, they cannot."""
        if len(data) > self.limit:
            return digest_of(data)
        try:
            return await anyio.to_thread.run_sync(lambda: self.contents.put(data, durable=False))
        except SessionError:
            return digest_of(data)

    async def _record_write(self, record: FilesChanged) -> None:
        self.record(record.files, record.calls)
        try:
            await self._transcript.durable()
        except SessionError as error:
            raise WorkspaceError("full", f"Nothing was written: {error}") from None

    def wrote(self, path: str, state: FileState | None) -> None:
        """A file was written, and that is on record: the next look need not tell."""
        if self._trees:
            self._written[path] = state

    def record(self, files: Sequence[FileChange], calls: Iterable[CallId], rewind: str = "") -> None:
        """Write down that files are other ones now, or are about to be."""
        for start in range(0, len(files), _AT_ONCE):
            self._transcript.files_changed(
                FilesChanged(
                    files=tuple(files[start : start + _AT_ONCE]),
                    calls=tuple(calls),
                    root=self.root,
                    rewind=rewind,
                )
            )

    def change(self, path: str, before: FileState | None, after: FileState | None) -> FileChange:
        """A change as it is recorded."""
        name = path[len(self.root.rstrip("/")) + 1 :] if inside(path, self.root) else path
        raw, said = "", os.fsencode(name).decode("utf-8", "replace")
        if said != name:
            raw = os.fsencode(name).hex()
        kept = before is None or self.contents.has(before.digest)
        return FileChange(said, before, after, kept, raw)

    # -- looks

    async def look(self) -> None:
        """See what is other in the work trees than at the look before, and write it down. Tells the person, once, where
        that is not possible."""
        async with self._one_look:
            moved: list[Moved] = []
            looked: list[Tree] = []
            for tree in self._known_trees():
                found = await self._look_at(tree)
                if found is not None:
                    moved.extend(found)
                    looked.append(tree)
            self._looked = True
            calls = (*self._ended, *self._running)
            self._ended.clear()
            self._write_down(moved, calls)
            if not self._transcript.trouble:
                for tree in looked:
                    tree.settle()
            self._mark()

    def _known_trees(self) -> list[Tree]:
        """Those that can be looked at; a repository may be made at any time."""
        for tree in self._find():
            if tree.root not in self._given_up and all(tree.root != known.root for known in self._trees):
                self._trees.append(tree)
                # of a process that was killed
                self._ended.update((CallId(call), None) for call in tree.marked())
        return list(self._trees)

    async def _look_at(self, tree: Tree) -> list[Moved] | None:
        found = await self._looked_at(tree)
        if isinstance(found, Unlookable) and not found.final:
            found = await self._looked_at(tree)  # it may have changed while it was looked at
        if isinstance(found, Unlookable):
            self._tell(f"What shell commands change in {tree.root} cannot be taken back: {found}.")
            self._given_up.add(tree.root)
            self._trees.remove(tree)
            return None
        if tree.trouble:
            self._tell(f"Not all that shell commands change can be taken back: {tree.trouble}.")
        return found

    async def _looked_at(self, tree: Tree) -> list[Moved] | Unlookable:
        try:
            return await anyio.to_thread.run_sync(tree.look, abandon_on_cancel=True)
        except Unlookable as error:
            return error
        except anyio.get_cancelled_exc_class():
            tree.stop()
            raise

    def _write_down(self, moved: Sequence[Moved], calls: tuple[CallId, ...]) -> None:
        changes = []
        for one in moved:
            before = one.before
            if one.path in self._written:
                before = self._written[one.path]
                if same(before, one.after):
                    continue  # on record since it was written
            changes.append(self.change(one.path, before, one.after))
        self._written.clear()
        self.record(changes, calls)
        lost = [change.path for change in changes if not change.kept]
        if lost and calls:
            names = ", ".join(lost[:_NAMED]) + (f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else "")
            self._tell(f"A command changed what cannot be taken back, as its content was not kept: {names}.")

    def _mark(self) -> None:
        """Should this process be killed: these calls are behind what the next look finds."""
        for tree in self._trees:
            tree.mark((*self._ended, *self._running))

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._voice.say(Notice, level="warning", text=text)

    async def aclose(self) -> None:
        """See what calls did that were interrupted, and forget what only looks need."""
        if self._ended:
            with anyio.move_on_after(LAST_LOOK):
                await self.look()
        if not self._ended:
            for tree in self._trees:
                tree.close()
