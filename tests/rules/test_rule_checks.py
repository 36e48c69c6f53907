"""Rules that will never speak of anything."""

import pytest

from tugline.rules.rule import parse_rule
from tugline.rules.rule_checks import doubtful


def told(*texts: str, tools: tuple[str, ...] = ()) -> tuple[str, ...]:
    return doubtful([parse_rule(text, "deny", "settings.json") for text in texts], tools)


def test_a_rule_for_a_tool_that_does_not_exist_is_told_with_the_nearest_name() -> None:
    assert told("Bahs(rm *)") == (
        "The deny rule Bahs(rm *) (settings.json) speaks of no tool: there is no Bahs. Did you mean Bash?",
    )


@pytest.mark.parametrize(
    "text", ["Bash", "Bash(rm *)", "Task(Explore)", "mcp__github", "mcp__*", "Read(./.env)", "WebSearch", "weather"]
)
def test_a_rule_that_can_speak_of_something_is_not_told(text: str) -> None:
    assert told(text, tools=("weather",)) == ()


def test_of_many_the_first_are_named_and_the_rest_counted() -> None:
    lines = told(*(f"Nothing{number}" for number in range(9)))
    assert len(lines) == 6
    assert lines[-1] == "And 4 more rules that speak of no tool."
