"""A session's conversation, made shorter when the person asks for it, and longer again."""

from collections.abc import Sequence

from msgspec import structs

from tugline.loop.agent import Agent
from tugline.loop.compaction import Compaction
from tugline.protocol.errors import SessionError, UsageError
from tugline.protocol.events import CompactionFinished
from tugline.protocol.messages import Message
from tugline.protocol.records import Compacted, Uncompacted, Unfolded
from tugline.rules import shrinking, tokens, wording
from tugline.rules.filling import Filling
from tugline.rules.history import active_folds, fold, last_boundary
from tugline.runtime.past import Past


class Shortening:
    """Compacts, cuts and brings back. Only while no turn runs; each raises `SessionError` where it cannot be done, and
    leaves the history as it was."""

    def __init__(self, agent: Agent, compaction: Compaction, past: Past) -> None:
        self._agent = agent
        self._compaction = compaction
        self._past = past

    def filling(self) -> Filling:
        """What fills the context, and when it is compacted."""
        found, limits = self._agent.filling(), self._compaction.limits
        threshold = shrinking.threshold(self._agent.card(found.model), limits) if limits.auto else 0
        return structs.replace(found, threshold=threshold)

    async def compact(self, words: str = "") -> Compacted:
        """A summary by the model stands in place of the conversation. `words`: what it is to keep."""
        if not isinstance(words, str):
            raise UsageError(f"What a summary is to keep is said in words, not as {type(words).__name__}.")
        return await self._take_effect(await self._compaction.compact(wording.sound(words).strip()))

    async def snip(self) -> Compacted:
        """The oldest rounds are out of the conversation."""
        return await self._take_effect(await self._compaction.snip())

    async def _take_effect(self, made: Compacted) -> Compacted:
        await self._agent.shrink(made)
        await self._agent.gear.transcript.durable()
        return made

    async def uncompact(self) -> str:
        """The history before the last summary or cut is back; where there is none, what was folded. What was done, in
        a line."""
        records = await self._past.records()
        boundary = last_boundary(records)
        undone: list[Uncompacted | Unfolded] = [Unfolded(fold=one.id) for one in active_folds(records)]
        if boundary is not None:
            undone = [Uncompacted(boundary=boundary.id)]
        if not undone:
            raise SessionError("There is nothing to bring back: the conversation was neither compacted nor cut.")
        self._require_room(fold([*records, *undone]).messages)
        transcript = self._agent.gear.transcript
        before = transcript.gauge.tokens()
        for record in undone:
            transcript.note(record)
        await self._past.reload()
        transcript.change = "brought back"
        self._compaction.hold()
        after = transcript.gauge.tokens()
        self._agent.gear.voice.say(
            CompactionFinished,
            trigger="manual",
            how="undo",
            tokens_before=before,
            tokens_after=after,
            boundary=boundary.id if boundary is not None else "",
        )
        what = "The history before the last compaction" if boundary is not None else "What was folded"
        return f"{what} is back: about {after:,} tokens, {before:,} before."

    def _require_room(self, messages: Sequence[Message]) -> None:
        agent = self._agent
        size = agent.gear.transcript.size_with(messages)
        card = agent.card(agent.resolve(agent.model, size))
        limit = tokens.blocking_limit(card)
        if size >= limit:
            raise SessionError(
                f"The history before has about {size:,} tokens, and {card.name} takes {limit:,} at most. Choose a "
                "model with a larger window first; the transcript keeps that history in any case."
            )
