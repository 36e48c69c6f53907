"""How large a conversation is: within a tenth of what a real model counts, in sessions of several kinds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_sessions import RecordedSession, recorded

from tugline.protocol.messages import Assistant
from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Usage
from tugline.rules import shrinking, tokens
from tugline.rules.shrinking import Limits, Situation, Tries
from tugline.rules.tokens import Gauge, Weight

SESSIONS = recorded()
LEARNED = 2
"""Reports after which an estimate holds, also for a session whose first report was of other things than the rest."""


def errors(session: RecordedSession) -> list[tuple[int, float]]:
    """For each message: how many usages were reported before, and how far the estimate was off."""
    gauge = tokens.add(Gauge(), Weight(tokens.size_of(session.system)))
    real, reports = session.system_tokens, 0
    found = []
    for counted in session.messages:
        gauge = tokens.add(gauge, tokens.weigh(counted.message))
        real += counted.tokens
        found.append((reports, abs(gauge.tokens() - real) / real))
        if isinstance(counted.message, Assistant):
            gauge = tokens.report(gauge, Usage(input=real))
            reports += 1
    return found


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_the_estimate_is_within_a_tenth_once_it_has_learned(session: RecordedSession) -> None:
    learned = [error for reports, error in errors(session) if reports >= LEARNED]
    assert len(learned) >= 2
    assert max(learned) <= 0.1


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_what_is_left_after_a_compaction_is_known_within_a_quarter(session: RecordedSession) -> None:
    gauge = tokens.add(Gauge(), Weight(tokens.size_of(session.system)))
    real = session.system_tokens
    for counted in session.messages:
        gauge = tokens.add(gauge, tokens.weigh(counted.message))
        real += counted.tokens
    gauge = tokens.report(gauge, Usage(input=real))
    half = session.messages[len(session.messages) // 2 :]
    left = tokens.add(Gauge(ratio=gauge.ratio), Weight(tokens.size_of(session.system)))
    left = tokens.add(left, tokens.total([tokens.weigh(one.message) for one in half]))
    assert left.tokens() == pytest.approx(session.system_tokens + sum(one.tokens for one in half), rel=0.25)


def test_several_kinds_of_session_are_recorded() -> None:
    assert {session.name for session in SESSIONS} >= {"code", "prose", "json", "shell output", "chinese", "japanese"}


# -- when to shrink

cards = st.builds(
    ModelCard, name=st.just("m"), window=st.integers(2_048, 2_000_000), output_limit=st.integers(256, 128_000)
)
sizes = st.integers(0, 2_000_000)


@given(cards)
def test_the_threshold_lies_below_the_size_at_which_requests_are_refused(card: ModelCard) -> None:
    limit = shrinking.threshold(card, Limits())
    assert card.window // 3 <= limit < tokens.blocking_limit(card) < card.window
    assert shrinking.threshold(card, Limits(threshold=1_000)) <= limit


@given(cards, sizes, sizes, sizes, st.booleans(), st.integers(0, 4), st.integers(0, 4), sizes)
def test_no_way_of_shrinking_is_chosen_over_and_over(
    card: ModelCard, size: int, trim: int, fold: int, force: bool, failures: int, in_a_row: int, again_at: int
) -> None:
    tries = Tries(failures, in_a_row, again_at)
    now = Situation(size=size, card=card, trimmable=trim, foldable=fold, force=force)
    act = shrinking.choose(now, Limits(), tries)
    limit = shrinking.threshold(card, Limits())
    if act in ("trim", "fold"):
        assert (trim if act == "trim" else fold) >= limit // 8
    if act == "summarise":
        assert failures < shrinking.FAILURES
    if act in ("summarise", "snip"):
        assert in_a_row < shrinking.FAILURES
        assert force or size >= limit
    assert shrinking.choose(now, Limits(auto=False), tries) == "nothing"
    after = shrinking.failed(tries, size, limit)
    if not force and size < tokens.blocking_limit(card):
        again = Situation(size=size, card=card)
        assert shrinking.choose(again, Limits(), after) == "nothing"
