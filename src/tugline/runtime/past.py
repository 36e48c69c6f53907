"""A session's past: what the person said, and going back to it."""

from collections.abc import Sequence

import anyio

from tugline.loop.executor import Gear
from tugline.ports import Log
from tugline.protocol.errors import SessionError
from tugline.protocol.events import ConversationRewound
from tugline.protocol.ids import MessageId
from tugline.protocol.records import AnyRecord, Rewound
from tugline.rules.costs import Costs, costs
from tugline.rules.history import Spoken, fold, spoken
from tugline.runtime.resuming import resumed_state


class Past:
    """Reads a session's transcript, and moves its end back. Only while no turn runs."""

    def __init__(self, gear: Gear, log: Log, cwd: str) -> None:
        self._gear = gear
        self._log = log
        self._cwd = cwd

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

    async def rewind(self, prompt: MessageId) -> Spoken:
        """The conversation goes on from before these words, which are returned."""
        said = {words.id: words for words in await self.prompts()}
        if prompt not in said:
            raise SessionError(f"No prompt of this conversation has the id {prompt}.")
        await self._go_back(said[prompt].before)
        self._gear.voice.say(ConversationRewound, prompt=prompt, text=said[prompt].text)
        return said[prompt]

    async def clear(self) -> None:
        """The conversation begins anew; the file keeps what was."""
        await self._go_back(None)
        self._gear.voice.say(ConversationRewound, prompt=None, text="")

    async def _go_back(self, node: MessageId | None) -> None:
        self._gear.transcript.note(Rewound(to=node))
        await self.reload()

    async def reload(self) -> None:
        """Go on with what the transcript says now."""
        await self._gear.transcript.durable()
        history = fold(await anyio.to_thread.run_sync(self._log.read))
        self._gear.transcript.restore(history)
        self._gear.state.now = resumed_state(history, self._gear.workspace.roots, self._cwd)
