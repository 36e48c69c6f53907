"""Files as they were before a prompt: what going back would do, and doing it.

What is overwritten is kept first, and put on record as any change; so a rewind can be taken back itself, and one that
was cut short can be done again.
"""

import os
from collections.abc import Sequence

import anyio.to_thread
from msgspec import Struct, structs

from tugline.loop.executor import Gear, take
from tugline.loop.inbox import Letter
from tugline.ports import Ids, WorkspaceError
from tugline.protocol.blocks import Text
from tugline.protocol.errors import SessionError
from tugline.protocol.events import FilesRewound
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import User
from tugline.protocol.records import AnyRecord, FilesChanged, FileState
from tugline.protocol.specs import FileStep, Seen
from tugline.rules import wording
from tugline.rules.changes import same
from tugline.rules.rewinding import Found, Target, last_rewind, since, step, targets
from tugline.runtime.checkpoints import Checkpoints

DONE = ("restore", "delete", "recreate")
TOLD = 20
"""Files that the model is told of by name."""


class _Planned(Struct, frozen=True):
    """A file to be put back: what is done, and what stands there now."""

    step: FileStep
    target: Target
    now: FileState | None


class FilePast:
    """Puts back what the calls of a session changed. Only while no turn runs."""

    def __init__(self, gear: Gear, checkpoints: Checkpoints, ids: Ids) -> None:
        self._gear = gear
        self._ids = ids
        self._checkpoints = checkpoints

    @property
    def covers_commands(self) -> bool:
        """Whether what shell commands changed comes back too."""
        return self._checkpoints.covers_commands

    async def look(self) -> None:
        """Have on record what has changed by now."""
        await self._checkpoints.look()

    async def preview(self, records: Sequence[AnyRecord], prompt: MessageId) -> tuple[FileStep, ...]:
        """What it takes to have the files as they were before a prompt."""
        return tuple(one.step for one in await self._plan(since(records, prompt), force=False))

    async def rewind(self, records: Sequence[AnyRecord], prompt: MessageId, *, force: bool) -> tuple[FileStep, ...]:
        """Do it; `force`: also where somebody else has changed a file too. What was done, and what was not."""
        return await self._do(await self._plan(since(records, prompt), force=force), prompt)

    async def undo(self, records: Sequence[AnyRecord], *, force: bool) -> tuple[FileStep, ...]:
        """Take the last rewind of files back."""
        made = last_rewind(records)
        if not made:
            raise SessionError("There is no rewind of files to take back.")
        return await self._do(await self._plan(made, force=force), None)

    def tell(self, steps: Sequence[FileStep]) -> None:
        """Let the model know, whose conversation still says otherwise."""
        paths = [one.path for one in steps if one.do in DONE]
        if paths:
            names = ", ".join(paths[:TOLD]) + (f" and {len(paths) - TOLD} more" if len(paths) > TOLD else "")
            text = wording.reminder(f"The user has put files back to what they were earlier: {names}.")
            letter = User(self._ids.message(), (Text(text),), "letter", hidden=True)
            self._gear.transcript.queue(letter)
            self._gear.inbox.put(Letter((Text(text),), hidden=True, id=letter.id))

    # -- how

    async def _plan(self, records: Sequence[FilesChanged], *, force: bool) -> list[_Planned]:
        found = targets(records, self._place)
        return await anyio.to_thread.run_sync(lambda: self._planned(found, force))

    def _place(self, root: str) -> str:
        """Where a project is now: where it was, or here if it is not there any more."""
        return root if root and os.path.isdir(root) else self._checkpoints.root

    def _planned(self, targets: Sequence[Target], force: bool) -> list[_Planned]:
        """What is to be done, last with those files that others stand in the way of: these are removed by then."""
        from tugline.workspaces import restoring  # noqa: PLC0415  imported here: start-up cost

        planned: list[_Planned | None] = []
        in_the_way: list[tuple[Target, str]] = []
        for target in targets:
            try:
                if ".." in target.path.split("/"):
                    raise WorkspaceError("denied", f"{target.path}: it leads out of the project.")
                now, here = restoring.look_at(target.path, self._checkpoints.limit)
            except WorkspaceError as error:
                if target.wanted is not None:  # else there is no such file, as it should be
                    in_the_way.append((target, _reason(error)))
                continue
            obstacle = "it is too large to be kept first" if now is not None and here is None else ""
            planned.append(self._decided(target, Found(now, obstacle), force))
        removed = {one.target.path for one in planned if one is not None and one.step.do == "delete"}
        for target, why in in_the_way:
            free = restoring.would_be_free(target.path, removed)
            planned.append(self._decided(target, Found(obstacle="" if free else why), force))
        return [one for one in planned if one is not None]

    def _decided(self, target: Target, found: Found, force: bool) -> _Planned | None:
        have = target.wanted is not None and self._checkpoints.contents.get(target.wanted.digest) is not None
        decided = step(target, found, have=have, force=force)
        return None if decided is None else _Planned(decided, target, found.state)

    async def _do(self, planned: Sequence[_Planned], prompt: MessageId | None) -> tuple[FileStep, ...]:
        planned = await anyio.to_thread.run_sync(lambda: [self._kept(one) for one in planned])
        doing = [one for one in planned if one.step.do in DONE]
        identity = self._ids.new("rewind")
        if doing:
            changes = [self._checkpoints.change(one.target.path, one.now, one.target.wanted) for one in doing]
            self._checkpoints.record(changes, (), identity)
            await self._gear.transcript.durable()
        steps = []
        for one in planned:
            steps.append(await self._put_back(one, identity) if one.step.do in DONE else one.step)
        known = self._gear.state.now.files
        take(self._gear, [Seen(one.target.path, None) for one in doing if one.target.path in known])
        told = tuple(steps)
        self._gear.voice.say(FilesRewound, prompt=prompt, files=told)
        return told

    def _kept(self, one: _Planned) -> _Planned:
        """Keep what stands there now, so that all of this can be taken back."""
        if one.step.do not in DONE or one.now is None:
            return one
        try:
            data = self._unchanged(one)
        except WorkspaceError as error:
            return structs.replace(one, step=FileStep(one.step.path, "conflict", _reason(error)))
        if data is not None:
            self._checkpoints.contents.put(data)
        return one

    def _unchanged(self, one: _Planned) -> bytes | None:
        """What stands there, if it is still what was looked at."""
        from tugline.workspaces import restoring  # noqa: PLC0415  imported here: start-up cost

        path = one.target.path
        if one.now is None and os.path.isdir(path) and not os.path.islink(path):
            restoring.clear(path)
        now, data = restoring.look_at(path, self._checkpoints.limit)
        if now is not None and not same(now, one.now):
            raise WorkspaceError("changed", f"{path}: somebody else changed it just now.")
        return data

    async def _put_back(self, one: _Planned, identity: str) -> FileStep:
        from tugline.workspaces import restoring  # noqa: PLC0415  imported here: start-up cost

        wanted, path = one.target.wanted, one.target.path

        def work() -> None:
            self._unchanged(one)
            if wanted is None:
                restoring.remove(path, self._checkpoints.root)
                return
            data = self._checkpoints.contents.get(wanted.digest)
            if data is None:
                raise WorkspaceError("gone", f"{path}: its former content went away just now.")
            restoring.put(path, data, wanted.mode, link=wanted.link)

        try:
            await anyio.to_thread.run_sync(work)
        except WorkspaceError as error:
            self._checkpoints.record((self._checkpoints.change(path, wanted, one.now),), (), identity)
            return FileStep(one.step.path, "conflict", _reason(error))
        self._checkpoints.wrote(path, wanted)
        return one.step


def _reason(error: WorkspaceError) -> str:
    """The reason alone: the words begin with the path."""
    return str(error).partition(": ")[2].rstrip(".") or str(error)
