"""What is to be done with a file, from its records and from what stands there."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.records import FileChange, FilesChanged, FileState
from tugline.rules.rewinding import Found, since, step, targets

A, B, C, D = (FileState(letter) for letter in "abcd")
OURS, OTHERS, REWIND = "ours", "others", "rewind"


def chain(*changes: tuple[FileState | None, FileState | None, str]) -> list[FilesChanged]:
    return [
        FilesChanged(
            files=(FileChange("f", before, after),),
            calls=(CallId("c"),) if who == OURS else (),
            rewind="r" if who == REWIND else "",
            root="/p",
        )
        for before, after, who in changes
    ]


def done(changes: list[FilesChanged], now: FileState | None, **given: Any) -> str:
    found = targets(changes, lambda root: root)
    if not found:
        return "nothing"
    (target,) = found
    decided = step(target, Found(now), have=given.pop("have", True), **given)
    return "nothing" if decided is None else decided.do


@pytest.mark.parametrize(
    ("changes", "now", "expected"),
    [
        ([(A, B, OURS)], B, "restore"),
        ([(A, B, OURS)], A, "nothing"),  # it did not come about
        ([(A, B, OURS)], C, "conflict"),
        ([(A, B, OURS)], None, "conflict"),
        ([(None, B, OURS)], B, "delete"),
        ([(None, B, OURS)], None, "nothing"),
        ([(A, None, OURS)], None, "recreate"),
        ([(A, None, OURS)], C, "conflict"),
        ([(A, B, OURS), (B, C, OURS)], C, "restore"),
        ([(A, B, OURS), (B, C, OURS)], B, "restore"),  # the last one did not come about
        ([(A, B, OURS), (A, C, OURS)], C, "restore"),  # the first one did not
        ([(A, B, OURS), (C, D, OURS)], D, "conflict"),  # somebody changed it in between, and nobody saw
        ([(A, B, OURS), (B, C, OTHERS)], C, "conflict"),
        ([(A, B, OURS), (B, C, OTHERS), (C, D, OURS)], D, "conflict"),
        ([(A, B, OTHERS), (B, C, OURS)], C, "restore"),  # what was done before stays
        ([(A, B, OTHERS)], B, "nothing"),
        ([(A, B, OURS), (A, B, OTHERS)], B, "restore"),  # our own change, seen again after a crash
        ([(A, B, OURS), (B, A, REWIND)], A, "nothing"),
        ([(A, B, OURS), (B, A, REWIND)], B, "restore"),  # the rewind was cut short
        ([(A, B, OURS), (B, A, REWIND), (A, C, OURS)], C, "restore"),
    ],
)
def test_what_is_done_with_a_file(changes: Any, now: FileState | None, expected: str) -> None:
    assert done(chain(*changes), now) == expected


def test_force_goes_back_all_the_same_but_makes_up_nothing() -> None:
    assert done(chain((A, B, OURS), (B, C, OTHERS)), C, force=True) == "restore"
    assert done(chain((A, B, OURS)), C, force=True) == "restore"
    assert done(chain((A, B, OURS)), B, have=False, force=True) == "lost"


def test_a_mode_goes_back_too() -> None:
    changes = chain((FileState("a", 0o600), FileState("a", 0o755), OURS))
    assert done(changes, FileState("a", 0o755)) == "restore"
    assert done(changes, FileState("a", 0o600)) == "nothing"


def test_what_stands_in_the_way_is_a_conflict_also_with_force() -> None:
    (target,) = targets(chain((A, B, OURS)), lambda root: root)
    assert step(target, Found(obstacle="a folder"), have=True, force=True) == step(
        target, Found(obstacle="a folder"), have=True
    )


def test_only_what_came_after_a_prompt_counts() -> None:
    assert since(chain((A, B, OURS)), MessageId("never said")) == ()


states = st.sampled_from([None, A, B, C, D])


@given(st.lists(states, min_size=2, max_size=6), states)
def test_what_is_there_goes_only_if_we_put_it_there(seen: list[FileState | None], now: FileState | None) -> None:
    """A chain of our own changes: unforced, a file is replaced or removed only as one of our changes left it."""
    changes = chain(*((before, after, OURS) for before, after in pairwise(seen)))
    if done(changes, now) in ("restore", "delete", "recreate"):
        assert now in seen[-2:]
        assert now != seen[0]
    elif done(changes, now) == "nothing":
        assert now == seen[0]
