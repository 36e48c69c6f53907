"""What is put away, by age and size; and how ages and sizes are told."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.rules.telling import age, moment, size
from tugline.rules.tidying import Kept, Limits, due, read_age, read_size
from tugline.rules.titles import as_title

DAY = 86_400.0
kept = st.lists(
    st.builds(Kept, st.text(max_size=3), st.integers(0, 1_000), st.floats(-1e6, 1e6)), unique_by=lambda one: one.key
)
limits = st.builds(
    Limits,
    st.none() | st.floats(0, 1e6),
    st.none() | st.integers(0, 1_000),
    st.none() | st.integers(0, 5_000),
)


@given(kept, limits, st.floats(-1e6, 1e6))
def test_exactly_what_the_limits_name_is_put_away(sessions: list[Kept], given_limits: Limits, now: float) -> None:
    found = {one.kept.key for one in due(sessions, given_limits, now)}
    stays = [one for one in sessions if one.key not in found]
    older, larger, keep = given_limits.older_than, given_limits.larger_than, given_limits.keep_size
    for one in stays:
        assert older is None or now - one.changed <= older
        assert larger is None or one.bytes <= larger
    assert keep is None or sum(one.bytes for one in stays) <= keep
    named = [
        one
        for one in sessions
        if (older is not None and now - one.changed > older) or (larger is not None and one.bytes > larger)
    ]
    if keep is None:
        assert found == {one.key for one in named}
    extra = [one for one in sessions if one.key in found and one not in named]
    if extra:  # they are the longest unused, and without the last of them there would be too much
        assert max(one.changed for one in extra) <= min((one.changed for one in stays), default=math.inf)
        assert sum(one.bytes for one in stays) + max(extra, key=lambda one: (one.changed, one.key)).bytes > (keep or 0)


def test_nothing_is_put_away_without_a_limit() -> None:
    assert due([Kept("a", 10**12, -1e9)], Limits(), 0.0) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 30 * DAY), ("30", 30 * DAY), ("12h", DAY / 2), ("6w", 42 * DAY), ("1Y", 365 * DAY), ("2m", 60 * DAY)],
)
def test_an_age_is_read(text: str, seconds: float) -> None:
    assert read_age(text) == seconds


@pytest.mark.parametrize(
    ("text", "count"), [("500MB", 500_000_000), ("2G", 2 * 10**9), ("1.5 kB", 1_500), ("100", 100), ("1GiB", 10**9)]
)
def test_a_size_is_read(text: str, count: int) -> None:
    assert read_size(text) == count


@pytest.mark.parametrize("text", ["", "x", "-1d", "1d2", "٣d", "1e9", "99999999999d"])
def test_what_is_neither_is_none(text: str) -> None:
    assert read_age(text) is None
    assert read_size(text) is None or text == ""


@given(st.floats(max_value=1e12))
def test_no_age_is_negative_and_no_time_raises(seconds: float) -> None:
    assert "-" not in age(seconds)
    moment(seconds)
    moment(seconds * 1e300)


def test_ages_and_sizes_are_rounded_as_people_say_them() -> None:
    assert [age(value) for value in (-5, 0, 59, 60, 7_200, DAY, 45 * DAY, 800 * DAY)] == [
        "now", "now", "now", "1 minute ago", "2 hours ago", "1 day ago", "1 month ago", "2 years ago",
    ]  # fmt: skip
    assert [size(value) for value in (0, 999, 1_000, 123_456, 10_000_000, 5 * 10**12)] == [
        "0 B", "999 B", "1.0 kB", "123 kB", "10.0 MB", "5000 GB",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Mend the cart", "Mend the cart"),
        ('"Mend the cart."\n', "Mend the cart"),
        ("# Mend the cart\n\nI chose this because", "Mend the cart"),
        ("**Title: Mend it**", "Mend it"),
        ("\x1b[31mRed\x1b[0m cart", "Red cart"),
        ("", ""),
        ("I am sorry, but I cannot give a title to this conversation, as it is empty.", ""),
    ],
)
def test_what_counts_as_a_title(answer: str, title: str) -> None:
    assert as_title(answer) == title
