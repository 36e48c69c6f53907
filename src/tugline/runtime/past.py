"""A session's past: what the person said, and going back to it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import get_args

import anyio
from msgspec import Struct

from tugline.loop.executor import Gear
from tugline.ports import Log
from tugline.protocol.commands import RewindWhat
from tugline.protocol.errors import SessionError, UsageError
from tugline.protocol.events import ConversationRewound
from tugline.protocol.ids import MessageId
from tugline.protocol.records import AnyRecord, Rewound
from tugline.protocol.specs import FileStep
from tugline.rules.costs import Costs, costs
from tugline.rules.history import Spoken, fold, spoken
from tugline.runtime.file_past import FilePast
from tugline.runtime.resuming import resumed_state


class Rewinding(Spoken, frozen=True):
    """The words that a rewind went back to, and what became of the files, where they were asked for."""

    files: tuple[FileStep, ...] = ()


class RewindPreview(Struct, frozen=True):
    """What a rewind would do with files. `covers_commands`: what shell commands changed is among them; else only what
    tools wrote."""

    files: tuple[FileStep, ...]
    covers_commands: bool


class Past:
    """Reads a session's transcript, and moves its end back. Only while no turn runs."""

    def __init__(self, gear: Gear, log: Log, cwd: str, files: FilePast | None = None) -> None:
        self._gear = gear
        self._log = log
        self._cwd = cwd
        self._files = files
        self.cleared: Callable[[], Awaitable[None]] | None = None
        """Hears that the conversation begins anew."""

    @property
    def session(self) -> str:
        """The id that the session has now."""
        return self._gear.voice.origin.session

    async def records(self) -> Sequence[AnyRecord]:
        """All of them; read beside the loop, as it may take a second."""
        await self._gear.transcript.durable()
        return await anyio.to_thread.run_sync(lambda: self._log.read(whole=True))

    async def prompts(self) -> tuple[Spoken, ...]:
        """What the person said, oldest first, also before compactions."""
        return spoken(await self.records())

    async def costs(self) -> Costs:
        """What the session has cost, by model and purpose."""
        return costs(await self.records())

    async def rewind(self, prompt: MessageId, what: RewindWhat = "conversation", *, force: bool = False) -> Rewinding:
        """Go back to before these words, which are returned: the conversation goes on from there, or the files that
        the agent changed are again what they were, or both."""
        if what not in get_args(RewindWhat):
            raise UsageError(f"What is rewound must be one of {', '.join(get_args(RewindWhat))}, not {what!r}.")
        said = self._said(await self.records(), prompt)
        files: tuple[FileStep, ...] = ()
        if what != "conversation":
            past = self._file_past()
            await past.look()
            files = await past.rewind(await self.records(), prompt, force=force)
        if what != "files":
            await self._go_back(said.before)
            self._gear.voice.say(ConversationRewound, prompt=prompt, text=said.text)
        elif self._files is not None:
            self._files.tell(files)
        return Rewinding(said.id, said.before, said.text, said.time, files)

    async def preview(self, prompt: MessageId) -> RewindPreview:
        """What a rewind of files to before these words would do."""
        past = self._file_past()
        await past.look()
        records = await self.records()
        self._said(records, prompt)
        return RewindPreview(await past.preview(records, prompt), past.covers_commands)

    async def undo_rewind(self, *, force: bool = False) -> tuple[FileStep, ...]:
        """Put files back to what they were before the last rewind of files."""
        past = self._file_past()
        await past.look()
        files = await past.undo(await self.records(), force=force)
        past.tell(files)
        return files

    @property
    def covers_commands(self) -> bool:
        """Whether what shell commands changed can be put back too."""
        return self._files is not None and self._files.covers_commands

    def _file_past(self) -> FilePast:
        if self._files is None:
            raise SessionError("Files cannot be put back: checkpoints are switched off (checkpoints.enabled).")
        return self._files

    def _said(self, records: Sequence[AnyRecord], prompt: MessageId) -> Spoken:
        said = {words.id: words for words in spoken(records)}
        if prompt not in said:
            raise SessionError(f"No prompt of this conversation has the id {prompt}.")
        return said[prompt]

    async def clear(self) -> None:
        """The conversation begins anew; the file keeps what was."""
        await self._go_back(None)
        self._gear.voice.say(ConversationRewound, prompt=None, text="")
        if self.cleared is not None:
            await self.cleared()

    async def _go_back(self, node: MessageId | None) -> None:
        self._gear.transcript.note(Rewound(to=node))
        await self.reload()

    async def reload(self) -> None:
        """Go on with what the transcript says now."""
        await self._gear.transcript.durable()
        history = fold(await anyio.to_thread.run_sync(self._log.read))
        self._gear.transcript.restore(history)
        self._gear.state.now = resumed_state(history, self._gear.workspace.roots, self._cwd)
