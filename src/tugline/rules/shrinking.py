"""When a conversation is shown shorter, and by which of the ways: the cheapest first, and none over and over."""

from typing import Literal

from msgspec import Struct, structs

from tugline.protocol.specs import ModelCard
from tugline.rules import tokens

LEAST_SHARE = 0.2
"""A compaction that frees less of the context has failed."""
FAILURES = 3
"""After so many failures in a row the automatic tries stop; so many compactions may come without a reply between."""

Act = Literal["nothing", "trim", "fold", "summarise", "snip"]


class Limits(Struct, frozen=True, kw_only=True):
    """What the settings say."""

    auto: bool = True
    threshold: int | None = None
    buffer: int = 10_000
    trim: bool = True
    fold: bool = True
    keep_results: int = 6
    words_tokens: int = 20_000
    files_tokens: int = 25_000


class Tries(Struct, frozen=True):
    """What became of the automatic tries so far. `again_at`: the size from which the next one may come."""

    failures: int = 0
    in_a_row: int = 0
    again_at: int = 0

    @property
    def stopped(self) -> bool:
        """Whether they have failed too often."""
        return self.failures >= FAILURES


class Situation(Struct, frozen=True, kw_only=True):
    """How things stand before a request. `trimmable` and `foldable` are the tokens that these ways would free."""

    size: int
    card: ModelCard
    trimmable: int = 0
    foldable: int = 0
    force: bool = False


def threshold(card: ModelCard, limits: Limits) -> int:
    """The size from which a conversation is summarised: the window less what is kept for the reply and a buffer."""
    most = max(1, tokens.blocking_limit(card) - min(limits.buffer, card.window // 8))
    return most if limits.threshold is None else min(limits.threshold, most)


def stride(limit: int) -> int:
    """Tokens that a cut has to free, or a conversation to grow by, before something is done: an eighth of the
    threshold, so that the prompt cache is lost rarely."""
    return max(1, limit // 8)


def choose(now: Situation, limits: Limits, tries: Tries) -> Act:
    """What to do next."""
    if not limits.auto:
        return "nothing"
    limit = threshold(now.card, limits)
    blocked = now.size >= tokens.blocking_limit(now.card)
    may_summarise = not tries.stopped and tries.in_a_row < FAILURES
    if now.force:
        return "summarise" if may_summarise else "snip" if tries.in_a_row < FAILURES else "nothing"
    step = stride(limit)
    rested = now.size >= tries.again_at
    if limits.trim and rested and now.size >= limit // 2 and now.trimmable >= step:
        return "trim"
    if limits.fold and rested and now.size >= limit * 4 // 5 and now.foldable >= step:
        return "fold"
    if now.size < limit:
        return "nothing"
    if may_summarise and (rested or (blocked and not tries.failures)):
        return "summarise"
    return "snip" if blocked and tries.in_a_row < FAILURES else "nothing"


def most_after(before: int) -> int:
    """The size that a compaction may leave at most."""
    return int(before * (1 - LEAST_SHARE))


def shrunk_enough(before: int, after: int) -> bool:
    """Whether it was worth it."""
    return after <= most_after(before)


def succeeded(tries: Tries, after: int, limit: int) -> Tries:
    """A compaction took effect: the next one comes when the conversation has grown again."""
    return Tries(0, tries.in_a_row + 1, after + stride(limit))


def failed(tries: Tries, size: int, limit: int) -> Tries:
    """A summary came to nothing. It is not tried again before the conversation has grown."""
    return Tries(tries.failures + 1, tries.in_a_row + 1, size + max(1, stride(limit) // 8))


def replied(tries: Tries) -> Tries:
    """The model has answered since."""
    return structs.replace(tries, in_a_row=0) if tries.in_a_row else tries
