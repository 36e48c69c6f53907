"""Untrusted text on its way to a terminal."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tugline.rules.terminal import STRING_LIMIT, Cleaner, char_width, clean, clean_controls, clean_line, clip

HOSTILE = st.text(
    st.one_of(
        st.sampled_from("\x1b\x1b[]PX^_\\0;9mHJ\x07\x9b\x9d\x9c\x90\r\n\t\x18 a\u202e\u200b\U000e0041\ud800"),
        st.characters(),
    ),
    max_size=60,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\nand Ünïcode 漢字", "plain\ttext\nand Ünïcode 漢字"),
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("a\x1b[2J\x1b[Hb", "ab"),
        ("a\x9b2Jb", "ab"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("a\x9d52;c;aGk=\x9cb", "ab"),
        ("a\x1bPq#0\x1b\\b", "ab"),
        ("a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x1b\\d", "abcd"),
        ("a\x1b(0b", "ab"),
        ("a\x1bcb", "ab"),
        ("cut off \x1b[31", "cut off "),
        ("cut off \x1b]0;tit", "cut off "),
        ("\x1b]0;no end\nnext line", "\nnext line"),
        ("\x1b[31\nnext", "\nnext"),
        ("bell\x07 back\x08 null\x00 del\x7f nel\x85", "bell\\x07 back\\x08 null\\x00 del\\x7f nel\\x85"),
        ("dos\r\nline", "dos\nline"),
        ("over\rwritten\r", "over\\x0dwritten\\x0d"),
        ("rm \u202efdp.exe", "rm \\u202efdp.exe"),
        ("zero\u200bwidth \ufeff", "zero\\u200bwidth \\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half \ud83d", "half \\ud83d"),
    ],
)
def test_what_a_terminal_would_act_on_is_removed_or_shown(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_control_string_without_an_end_does_not_hide_the_rest() -> None:
    assert clean("\x1b]0;" + "x" * (STRING_LIMIT + 2) + "rm -rf").endswith("rm -rf")


@given(HOSTILE)
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    shown = clean(text)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\ud800-\udfff\U000e0000-\U000e007f]", shown
    )
    shown.encode()
    assert clean(shown) == shown


@given(HOSTILE, st.lists(st.integers(0, 60), max_size=5))
@example("\x1b]0;a\x1b\\b\r\nc", [1, 2, 3, 6, 9])
def test_any_split_of_the_stream_gives_the_same(text: str, cuts: list[int]) -> None:
    cleaner = Cleaner()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [cleaner.feed(text[start:end]) for start, end in pairwise(places)]
    assert "".join(pieces) + cleaner.close() == clean(text)


@given(st.text(st.characters(exclude_categories=("Cc", "Cs"))))
def test_for_programs_all_but_controls_stays(text: str) -> None:
    assert clean_controls(text) == text
    assert clean_controls(f"{text}\x1b[1m") == text


@given(st.text(), st.integers(0, 30))
def test_a_line_fits_its_width(text: str, width: int) -> None:
    for line in (clean_line(text, width), clip(clean(text).replace("\n", " "), width)):
        assert sum(map(char_width, line)) <= width
        assert "\n" not in line


def test_a_line_that_is_cut_ends_in_an_ellipsis() -> None:
    assert clean_line("one  two\nthree", 9) == "one two …"
    assert clean_line("漢字漢字", 5) == "漢字…"
    assert clean_line("漢字", 4) == "漢字"
