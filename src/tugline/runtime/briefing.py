"""Tells an agent what the instruction files say: once at the start, what changed when it goes on, and anew after a
compaction."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import structs

from tugline.loop.executor import Gear
from tugline.ports import Ids
from tugline.protocol.blocks import Text
from tugline.protocol.commands import PromptContent
from tugline.protocol.events import InstructionsLoaded, UserAdded
from tugline.protocol.instructions import Instruction
from tugline.protocol.messages import User
from tugline.rules import instructions, wording


class Reader(Protocol):
    """Reads the files that load at the start."""

    async def read(self, room: int | None = None) -> tuple[Instruction, ...]:
        """As they are on the disk now, of at most so many tokens."""
        ...

    def there(self, path: str) -> bool: ...


class FileBriefing:
    """Keeps an agent's conversation instructed. The conversation itself says what it was told, so nothing has to be
    kept beside it: not for a resumed one, not for one that was shortened or rewound."""

    def __init__(self, gear: Gear, ids: Ids, reader: Reader) -> None:
        self._gear = gear
        self._ids = ids
        self._reader = reader
        self._given = self._known = -1
        """The transcript's epochs in which it was given, and in which it was last asked what it tells."""
        self._room: int | None = None

    async def give(self) -> None:
        """Before the first prompt: all of it. Where the conversation goes on, or has become another one since: what it
        does not tell yet, or tells otherwise."""
        transcript = self._gear.transcript
        if self._given == transcript.epoch and transcript.messages:
            return
        now = await self._reader.read(self._room)
        told = instructions.told_in(transcript.messages)
        difference = instructions.compare(told, now, there=self._reader.there)
        self._given = transcript.epoch
        if difference:
            text = instructions.changes(difference) if told else instructions.opening(now)
            message = self._message(text)
            transcript.add(message)
            self._say("resumed" if told else "started", difference.changed)
            self._gear.voice.say(UserAdded, message=message)
        self._known = -1
        self.recall()

    def recall(self) -> None:
        """Know what the conversation tells, and no more. What is not in it is told again when it is touched."""
        transcript, state = self._gear.transcript, self._gear.state
        if self._known != transcript.epoch:
            self._known = transcript.epoch
            state.now = structs.replace(state.now, told=frozenset(instructions.told_in(transcript.messages)))

    async def anew(self, room: int | None = None) -> PromptContent:
        """What loads at the start, from the disk, of at most so many tokens: for the head of a conversation that is
        shortened, as a message whose source is `context`."""
        self._room = room
        now = await self._reader.read(room)
        if not now:
            return ()
        self._say("compacted", now)
        return (Text(wording.reminder(instructions.opening(now))),)

    def _say(self, reason: str, loaded: Sequence[Instruction]) -> None:
        self._gear.voice.say(InstructionsLoaded, reason=reason, files=tuple(one.file for one in loaded))

    def _message(self, text: str) -> User:
        return User(self._ids.message(), (Text(wording.reminder(text)),), "context", hidden=True)
