"""Toolsets: which tools there are, and which of them a request carries."""

import pytest

from tugline.protocol.errors import UsageError
from tugline.tools.define import FunctionTool, tool
from tugline.tools.toolset import Toolset, chosen, joined, split_names, undeferred, without


def made(name: str, *, deferred: bool = False) -> FunctionTool:
    return tool(name=name, deferred=deferred)(nothing)


def nothing() -> None:
    """Does nothing."""


TOOLS = Toolset(
    [made("Read"), made("Bash"), made("Agent"), made("WebFetch", deferred=True), made("mcp__calc__add", deferred=True)]
)


def test_the_order_is_that_of_their_making() -> None:
    assert TOOLS.names == ("Read", "Bash", "Agent", "WebFetch", "mcp__calc__add")
    assert len(TOOLS) == 5
    assert joined([made("b")], [made("a")]).names == ("b", "a")


def test_a_name_stands_for_one_tool() -> None:
    with pytest.raises(UsageError, match="two tools named Read"):
        joined(TOOLS, [made("Read")])


def test_tools_are_found_by_name_and_by_older_name() -> None:
    read, agent = TOOLS.find("Read"), TOOLS.find("Task")
    assert read is not None
    assert read.name == "Read"
    assert agent is not None
    assert agent.name == "Agent"
    assert TOOLS.find("read") is None
    assert TOOLS.closest("read") == ["Read"]
    assert TOOLS.closest("reed") == ["Read"]
    assert TOOLS.closest("§") == []


def test_a_request_carries_what_is_not_deferred_and_what_was_loaded() -> None:
    assert [spec.name for spec in TOOLS.specs()] == ["Read", "Bash", "Agent"]
    assert TOOLS.deferred() == ("WebFetch", "mcp__calc__add")
    loaded = frozenset({"mcp__calc__add", "gone"})
    assert [spec.name for spec in TOOLS.specs(loaded)] == ["Read", "Bash", "Agent", "mcp__calc__add"]
    assert TOOLS.deferred(loaded) == ("WebFetch",)
    assert undeferred(TOOLS).names == ("Read", "Bash", "Agent")


def test_tools_are_chosen_by_name() -> None:
    assert chosen(TOOLS, ["Bash", "Read"]).names == ("Read", "Bash")
    assert chosen(TOOLS, []).names == ()
    assert chosen(TOOLS, ["default"]).names == TOOLS.names
    assert chosen(TOOLS, ["Task", "mcp__*"]).names == ("Agent", "mcp__calc__add")
    assert chosen(TOOLS, ["mcp__calc"]).names == ("mcp__calc__add",)
    with pytest.raises(UsageError, match=r"There is no tool Raed\. Did you mean Read\?"):
        chosen(TOOLS, ["Raed"])


def test_tools_are_left_out_by_name_but_not_by_rule() -> None:
    assert without(TOOLS, ["Bash", "Task", "mcp__calc__*", "Unknown"]).names == ("Read", "WebFetch")
    assert without(TOOLS, ["Bash(rm:*)"]).names == TOOLS.names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("Read,Bash", ["Read", "Bash"]),
        (" Read  Bash,", ["Read", "Bash"]),
        ("Bash(git log:*, x),Read", ["Bash(git log:*, x)", "Read"]),
        ("Bash((a,b)) Read)", ["Bash((a,b))", "Read)"]),
    ],
)
def test_names_are_split_as_flags_give_them(text: str, names: list[str]) -> None:
    assert split_names(text) == names
