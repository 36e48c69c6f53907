"""What a person is asked to approve can be read off the screen, character by character."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.ids import CallId, QuestionId
from tugline.protocol.permissions import PermissionQuestion
from tugline.rules.shown import original, question_lines, visible

ANY = st.text(st.characters(codec=None, exclude_categories=())) | st.text("\\xu0n1b\x1b\n\u202e ", max_size=12)


@given(ANY)
def test_the_text_can_be_told_from_what_is_shown(text: str) -> None:
    assert original(visible(text)) == text


@given(ANY)
def test_what_is_shown_is_one_line_of_characters_that_are_seen(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert not set(shown) & set("\u200b\u202e\ufeff\u00ad\u3164\u2800\u115f\U000e0041\u0301")


@given(ANY)
def test_nothing_is_collapsed(text: str) -> None:
    assert visible(text).count(" ") == text.count(" ")
    assert len(visible(text)) >= len(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("npm test", "npm test"),
        (r"grep '\.py$'", r"grep '\.py$'"),
        ("a\x1b[2Kb", r"a\x1b[2Kb"),
        (r"a\x1b", r"a\\x1b"),
        ("rm  -rf   x", "rm  -rf   x"),
        ("caf\u00e9 \u65e5\u672c", "caf\u00e9 \u65e5\u672c"),
        ("a\u00a0b", r"a\xa0b"),
        ("x\u202ey", r"x\u202ey"),
        ("\U000e0041", r"\U000e0041"),
        ("end\\", "end\\"),
    ],
)
def test_examples(text: str, shown: str) -> None:
    assert visible(text) == shown


def question(**given: Any) -> PermissionQuestion:
    made: dict[str, Any] = {
        "tool": "Bash", "input": {"command": "a\nb\x07"}, "title": "Run a", "reason": "no rule allows Bash a",
    }  # fmt: skip
    return PermissionQuestion(QuestionId("q"), CallId("c"), **(made | given))


def test_a_question_shows_the_input_whole_the_reason_and_what_always_would_save_and_where() -> None:
    asked = question(suggestions=("Bash(a)", "Bash(b)"), saved_in="/p/.tugline/settings.local.json")
    assert question_lines(asked) == [
        "Run a",
        "  command:",
        "    | a",
        "    | b\\x07",
        "Asked because no rule allows Bash a.",
        '"Always" would allow Bash(a), Bash(b) in /p/.tugline/settings.local.json.',
    ]
    assert question_lines(question(suggestions=("Edit",)))[-1] == '"Always" would allow Edit for this session only.'


def test_with_a_limit_it_is_said_how_much_more_there_is_before_the_reason() -> None:
    lines = question_lines(question(input={"command": "\n".join(map(str, range(50)))}), 10)
    assert lines[11] == "  ... 41 more lines"
    assert lines[12].startswith("Asked because")


@given(st.dictionaries(ANY, ANY | st.lists(ANY | st.integers()) | st.none() | st.floats(), max_size=4), ANY, ANY)
def test_any_question_is_shown_in_characters_that_are_seen(data: dict[str, Any], title: str, reason: str) -> None:
    lines = question_lines(question(input=data, title=title, reason=reason, agent=reason))
    assert all(line.isprintable() for line in lines)
    texts = [value for value in data.values() if isinstance(value, str)]
    shown = "\n".join(lines)
    assert all(visible(line) in shown for text in texts for line in text.split("\n"))
