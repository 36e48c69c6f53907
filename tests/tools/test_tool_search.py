"""ToolSearch."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.ports import ToolContext
from tugline.protocol.specs import Display, Footprint, Result, ToolsLoaded, ToolSpec
from tugline.tools.builtin.tool_search import ToolSearch, search

NOWHERE = cast(ToolContext, None)
SPECS = (
    ToolSpec("mcp__slack__send_message", "Send a message to a channel", {}),
    ToolSpec("mcp__slack__list_channels", "List all channels", {}),
    ToolSpec("mcp__github__create_issue", "Create an issue\nin a repository", {}),
    ToolSpec("NotebookEdit", "Edit the cells of a notebook", {}),
    ToolSpec("CronCreate", "Run a prompt on a schedule", {}),
)


async def find(query: str, specs: tuple[ToolSpec, ...] = SPECS, **options: int) -> Result:
    tool = ToolSearch(specs)
    data = tool.parse({"query": query, **options})
    assert tool.footprint(data) == Footprint.NOTHING
    return await tool.run(data, NOWHERE)


def loaded(result: Result) -> list[str]:
    return [name for change in result.changes if isinstance(change, ToolsLoaded) for name in change.names]


async def test_names_are_loaded_as_they_are_selected() -> None:
    assert await find("select:CronCreate, notebookedit") == Result(
        "Loaded, to be called from the next step on:\n"
        "- CronCreate: Run a prompt on a schedule\n"
        "- NotebookEdit: Edit the cells of a notebook",
        Display("Loaded CronCreate, NotebookEdit"),
        changes=(ToolsLoaded(("CronCreate", "NotebookEdit")),),
    )


async def test_an_unknown_name_is_told_beside_what_was_loaded() -> None:
    result = await find("select:CronCreate,CronCreat")
    assert (loaded(result), result.is_error) == (["CronCreate"], False)
    assert "no deferred tool named 'CronCreat'. Did you mean CronCreate?" in str(result.for_model)


async def test_nothing_but_unknown_names_is_an_error() -> None:
    result = await find("select:Xyz")
    assert (loaded(result), result.is_error) == ([], True)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("slack", ["mcp__slack__list_channels", "mcp__slack__send_message"]),
        ("slack message", ["mcp__slack__send_message", "mcp__slack__list_channels"]),
        ("+slack list", ["mcp__slack__list_channels", "mcp__slack__send_message"]),
        ("+github message", ["mcp__github__create_issue"]),
        ("schedule", ["CronCreate"]),
        ("create", ["mcp__github__create_issue", "CronCreate"]),
        ("notebook", ["NotebookEdit"]),
        ("NOTEBOOKEDIT", ["NotebookEdit"]),
        ("zzz qqq", []),
        ("***", []),
    ],
)
def test_words_are_ranked(query: str, names: list[str]) -> None:
    assert [spec.name for spec in search(query, SPECS)] == names


async def test_the_count_is_limited() -> None:
    assert len(loaded(await find("a e i o slack create edit", max_results=2))) == 2


async def test_without_a_match_the_names_are_told() -> None:
    result = await find("zzz")
    assert (loaded(result), result.is_error) == ([], False)
    assert "NotebookEdit" in str(result.for_model)
    assert "no deferred tools" in str((await find("zzz", ())).for_model)


async def test_tools_that_come_later_are_found() -> None:
    specs: list[ToolSpec] = []
    tool = ToolSearch(specs)
    specs.append(SPECS[0])
    assert loaded(await tool.run(tool.parse({"query": "slack"}), NOWHERE)) == ["mcp__slack__send_message"]


@given(st.text(min_size=1, max_size=50))
def test_any_query_finds_only_what_there_is(query: str) -> None:
    found = search(query, SPECS)
    assert len({spec.name for spec in found}) == len(found)
    assert set(map(id, found)) <= set(map(id, SPECS))
