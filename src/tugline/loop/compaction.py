"""Keeps an agent's conversation short enough for its window: trims, folds, summarises, cuts; see `rules.shrinking`."""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from msgspec import structs

from tugline.loop.agent import Agent
from tugline.loop.summarising import Summarising
from tugline.ports import CompactionVerdict, Keepsake, Shrink
from tugline.protocol.errors import ProviderError, SessionError
from tugline.protocol.events import (
    CompactionFinished,
    CompactionStarted,
    Notice,
    Trigger,
)
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import Message
from tugline.protocol.records import Compacted, Folded, Trimmed
from tugline.protocol.specs import ModelCard
from tugline.rules import outline, shrinking, summary, tokens
from tugline.rules.outline import OldResult, Outline
from tugline.rules.shrinking import Limits, Situation, Tries
from tugline.rules.summary import Rebuilt

SLACK = 100
"""Tokens that the words around what is taken along may have."""
STOPPED = (
    f"Summarising the conversation has failed {shrinking.FAILURES} times in a row and is not tried again by itself. "
    "/compact tries again, /snip cuts the oldest part, /clear begins anew."
)


class Compaction:
    """Compacts one agent's conversation, by itself before a step and when asked. What it returns takes effect through
    `Agent.shrink`; until then the history is as it was."""

    def __init__(
        self, agent: Agent, limits: Limits, *, rerunnable: Collection[str], keepsakes: Sequence[Keepsake] = ()
    ) -> None:
        self.limits = limits
        self.keepsakes = list(keepsakes)
        self._agent = agent
        self._summarising = Summarising(agent)
        self._rerunnable = frozenset(rerunnable)
        self._outline = Outline(self._rerunnable, limits.keep_results)
        self._epoch = -1
        self._seen = 0
        self._last_reply = MessageId("")
        self._tries = Tries()
        self._folds: deque[Folded] = deque()

    # -- by itself

    async def before_step(
        self, messages: Sequence[Message], tokens: int, card: ModelCard, *, force: bool
    ) -> Shrink | None:
        """What is to be done next; see `ports.Compactor`."""
        if self._folds and self._agent.gear.transcript.change == outline.FOLDED:
            return self._folds.popleft()
        self._folds.clear()
        self._follow(messages)
        now = Situation(
            size=tokens,
            card=card,
            trimmable=self._tokens(self._outline.old_gain),
            foldable=self._tokens(self._outline.finished_gain),
            force=force,
        )
        match shrinking.choose(now, self.limits, self._tries):
            case "trim":
                return self._trim(self._outline.old.values())
            case "fold":
                self._folds.extend(self._fold())
                return self._folds.popleft()
            case "summarise":
                return await self._summarise_or_cut(now)
            case "snip":
                return await self._cut(now)
            case _:
                return None

    def hold(self) -> None:
        """The history was made longer on purpose: leave it alone until it has grown by a good part."""
        size, limit = self._agent.gear.transcript.gauge.tokens(), shrinking.threshold(self._card(), self.limits)
        self._tries = Tries(again_at=size + shrinking.stride(limit))

    def _follow(self, messages: Sequence[Message]) -> None:
        """Bring the outline up to the messages; only what is new is looked at, unless the history was replaced."""
        epoch = self._agent.gear.transcript.epoch
        if epoch != self._epoch or self._seen > len(messages):
            self._outline, self._seen, self._epoch = Outline(self._rerunnable, self.limits.keep_results), 0, epoch
        for message in messages[self._seen :]:
            self._outline.take(message)
        self._seen = len(messages)
        if self._outline.last_reply not in ("", self._last_reply):
            self._last_reply = self._outline.last_reply
            self._tries = shrinking.replied(self._tries)

    async def _summarise_or_cut(self, now: Situation) -> Shrink | None:
        limit = shrinking.threshold(now.card, self.limits)
        try:
            made = await self._summarise("forced" if now.force else "auto", "", now.card)
        except _Blocked as blocked:
            self._tries = structs.replace(self._tries, again_at=now.size + shrinking.stride(limit))
            self._agent.gear.voice.say(Notice, level="warning", text=str(blocked))
            return None
        except SessionError:
            self._tries = shrinking.failed(self._tries, now.size, limit)
            if self._tries.stopped:
                self._agent.gear.voice.say(Notice, level="warning", text=STOPPED)
            made = None
        if made is not None:
            self._tries = shrinking.succeeded(self._tries, made.tokens_after, limit)
            return made
        if now.force or now.size >= tokens.blocking_limit(now.card):
            return await self._cut(now)
        return None

    async def _cut(self, now: Situation) -> Shrink | None:
        """The oldest rounds go; where there are none, or that is not enough, old and new results that can be had
        again."""
        limit = shrinking.threshold(now.card, self.limits)
        try:
            made = await self._snip("forced" if now.force else "auto", now.card)
        except SessionError:
            results = [*self._outline.old.values(), *self._outline.recent()]
            freed = self._tokens(tokens.total([outline.stub_gain(one) for one in results]))
            worth = shrinking.shrunk_enough(now.size, now.size - freed)
            self._tries = structs.replace(self._tries, in_a_row=self._tries.in_a_row + 1)
            return self._trim(results) if worth else None
        after = shrinking.succeeded(self._tries, made.tokens_after, limit)
        self._tries = structs.replace(after, failures=self._tries.failures)
        return made

    def _trim(self, results: Iterable[OldResult]) -> Trimmed:
        results = list(results)
        freed = self._tokens(tokens.total([outline.stub_gain(one) for one in results]))
        return Trimmed(
            stubs=tuple(outline.stub_of(one, self._keep(one.call, outline.text_of(one))) for one in results),
            freed=freed,
        )

    def _fold(self) -> list[Folded]:
        return [
            Folded(
                id=self._agent.ids.message(),
                first=stretch.first,
                last=stretch.last,
                text=outline.fold_text(stretch),
                freed=self._tokens(outline.fold_gain(stretch)),
            )
            for stretch in self._outline.finished
        ]

    # -- when asked

    async def compact(self, words: str = "") -> Compacted:
        """A summary in place of the conversation. `SessionError` says why there is none."""
        card = self._card()
        made = await self._summarise("manual", words, card)
        self._tries = shrinking.succeeded(Tries(), made.tokens_after, shrinking.threshold(card, self.limits))
        return made

    async def snip(self) -> Compacted:
        """The conversation without its oldest rounds. `SessionError` says why nothing is cut."""
        return await self._snip("manual", self._card())

    def _card(self) -> ModelCard:
        agent = self._agent
        return agent.card(agent.resolve(agent.model, agent.gear.transcript.gauge.tokens()))

    # -- a summary

    async def _summarise(self, trigger: Trigger, words: str, card: ModelCard) -> Compacted:
        gear = self._agent.gear
        done, fresh = summary.split(gear.transcript.messages)
        if not summary.has_work(done):
            raise SessionError("There is nothing to compact yet.")
        verdict = await self._ask_hooks(trigger, words)
        before = gear.transcript.gauge.tokens()
        gear.voice.say(CompactionStarted, trigger=trigger, context_tokens=before, words=words)
        failure = "It was interrupted."
        made: Compacted | None = None
        try:
            asked = summary.instructions(words, verdict.instructions)
            text = await self._summarising.ask(done, asked, card, self._room(card, forced=trigger == "forced"))
            made = await self._rebuild(text, trigger, words, card, done, fresh)
            return made
        except (ProviderError, SessionError) as error:
            failure = str(error)
            raise SessionError(f"The conversation could not be compacted: {failure}") from error
        finally:
            if made is None:
                gear.voice.say(
                    CompactionFinished,
                    trigger=trigger, how="summary", tokens_before=before, tokens_after=before, failure=failure,
                )  # fmt: skip

    async def _ask_hooks(self, trigger: Trigger, words: str) -> CompactionVerdict:
        hooks = self._agent.compaction_hooks
        if hooks is None:
            return CompactionVerdict()
        verdict = await hooks.before_compaction("manual" if trigger == "manual" else "auto", words)
        if verdict.block is not None:
            raise _Blocked(f"A hook forbids to compact the conversation: {verdict.block or 'it gave no reason'}")
        return verdict

    def _room(self, card: ModelCard, *, forced: bool) -> int | None:
        """The characters that a request for a summary may have, where it is plainly too long otherwise."""
        transcript = self._agent.gear.transcript
        if forced or transcript.gauge.tokens() >= card.window - tokens.reserve(card):
            return transcript.room_within(shrinking.threshold(card, self.limits))
        return None

    async def _rebuild(
        self,
        text: str,
        trigger: Trigger,
        words: str,
        card: ModelCard,
        done: Sequence[Message],
        fresh: Sequence[Message],
    ) -> Compacted:
        transcript = self._agent.gear.transcript
        before, limit = transcript.gauge.tokens(), shrinking.threshold(card, self.limits)
        parts = self._parts(done, limit, unfinished=trigger == "forced" or summary.ends_in_results(done))
        self._require_gain(before, summary.with_summary(text, parts, fresh))
        where = self._keep("before-compaction", summary.transcribed(done))
        parts = await self._told_anew(parts, done, limit, where)
        lean = summary.with_summary(text, parts, fresh)
        self._require_gain(before, lean)
        room = shrinking.most_after(before) - transcript.size_with(lean) - SLACK
        recalled = await self._recall(min(self.limits.files_tokens, limit // 6, room), card)
        rich = summary.with_summary(text, structs.replace(parts, extras=(*recalled, *parts.extras)), fresh)
        fits = shrinking.shrunk_enough(before, transcript.size_with(rich))
        return self._boundary(rich if fits else lean, "summary", trigger, words)

    def _require_gain(self, before: int, messages: Sequence[Message]) -> None:
        after = self._agent.gear.transcript.size_with(messages)
        if not shrinking.shrunk_enough(before, after):
            raise SessionError(f"it would free too little (from {before:,} to {after:,} tokens).")

    def _boundary(
        self, messages: Sequence[Message], how: Literal["summary", "snip"], trigger: Trigger, words: str = ""
    ) -> Compacted:
        transcript = self._agent.gear.transcript
        return Compacted(
            id=self._agent.ids.message(),
            messages=tuple(messages),
            how=how,
            trigger=trigger,
            words=words,
            tokens_before=transcript.gauge.tokens(),
            tokens_after=transcript.size_with(messages),
        )

    def _parts(self, gone: Sequence[Message], limit: int, *, unfinished: bool) -> Rebuilt:
        """What is known without reading or asking anybody."""
        ids = self._agent.ids
        return Rebuilt(
            ids=(ids.message(), ids.message(), ids.message()),
            words=self._words(gone, limit, ""),
            unfinished=unfinished,
        )

    async def _told_anew(self, parts: Rebuilt, gone: Sequence[Message], limit: int, where: str) -> Rebuilt:
        """The same with instruction files as they are on the disk now, what hooks add, and the file to look up."""
        agent = self._agent
        return structs.replace(
            parts,
            instructions=await agent.briefing.anew(limit // 8) if agent.briefing is not None else (),
            extras=await agent.compaction_hooks.additions() if agent.compaction_hooks is not None else (),
            words=self._words(gone, limit, where),
            where=where,
        )

    def _words(self, messages: Sequence[Message], limit: int, where: str) -> summary.Words:
        budget = min(self.limits.words_tokens, limit // 4)
        return summary.own_words(messages, budget, where, self._agent.gear.transcript.gauge.ratio)

    async def _recall(self, room: int, card: ModelCard) -> list[str]:
        """What is taken along, in at most so many tokens."""
        recalled: list[str] = []
        for keepsake in self.keepsakes:
            if room <= 0:
                break
            text = await keepsake.recall(room, card)
            if text:
                recalled.append(text)
                room -= int(tokens.size_of(text) / self._agent.gear.transcript.gauge.ratio)
        return recalled

    # -- a cut

    async def _snip(self, trigger: Trigger, card: ModelCard) -> Compacted:
        transcript = self._agent.gear.transcript
        before, limit = transcript.gauge.tokens(), shrinking.threshold(card, self.limits)
        done, fresh = summary.split(transcript.messages)
        kept, gone = summary.without_oldest(done, transcript.room_within(min(limit, before) // 2))
        if not gone:
            raise SessionError("There is nothing to cut: the conversation is a single round.")
        out = [*summary.rounds(done)[0], *gone]
        parts = self._parts(out, limit, unfinished=False)
        try:
            self._require_gain(before, (*summary.snipped(kept, len(gone), parts), *fresh))
            parts = await self._told_anew(parts, out, limit, self._keep("before-cut", summary.transcribed(out)))
            messages = (*summary.snipped(kept, len(gone), parts), *fresh)
            self._require_gain(before, messages)
        except SessionError as error:
            raise SessionError(f"The oldest part was not cut: {error}") from error
        return self._boundary(messages, "snip", trigger)

    # -- small things

    def _keep(self, name: str, text: str) -> str:
        """The file that has the text; empty where it cannot be kept: the transcript has it all the same."""
        if not text:
            return ""
        try:
            return self._agent.gear.spill.keep(name, text)
        except SessionError:
            return ""

    def _tokens(self, weight: tokens.Weight) -> int:
        return max(0, weight.tokens + int(weight.characters / self._agent.gear.transcript.gauge.ratio))


class _Blocked(SessionError):
    """A hook forbids it."""
