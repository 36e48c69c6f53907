"""TodoWrite."""

from typing import cast

import pytest

from tugline.ports import ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, Result, Todo, Todos
from tugline.tools.builtin.todo_write import TodoWrite

NOWHERE = cast(ToolContext, None)


async def write(*todos: dict[str, str]) -> Result:
    tool = TodoWrite()
    data = tool.parse({"todos": list(todos)})
    assert tool.footprint(data) == Footprint.NOTHING
    return await tool.run(data, NOWHERE)


async def test_the_list_becomes_a_change() -> None:
    result = await write(
        {"content": "Run the tests", "status": "in_progress", "activeForm": "Running the tests"},
        {"content": "Fix them", "status": "pending", "activeForm": "Fixing them"},
        {"content": "Read", "status": "completed"},
    )
    assert result == Result(
        "The list is kept: 1 completed, 1 in progress, 1 pending.",
        Display("Todos: 1 of 3 done", "[>] Running the tests\n[ ] Fix them\n[x] Read"),
        changes=(
            Todos(
                (
                    Todo("Run the tests", "in_progress", "Running the tests"),
                    Todo("Fix them", "pending", "Fixing them"),
                    Todo("Read", "completed"),
                )
            ),
        ),
    )


async def test_two_in_progress_are_a_hint_not_an_error() -> None:
    result = await write({"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"})
    assert not result.is_error
    assert "work on one at a time" in str(result.for_model)
    assert len(result.changes) == 1


async def test_an_empty_list_clears() -> None:
    assert await write() == Result("The list is empty now.", Display("Clear the todos"), changes=(Todos(()),))


async def test_nothing_in_an_entry_moves_the_cursor() -> None:
    result = await write({"content": "a\x1b[2J\nb", "status": "pending"})
    assert result.for_person == Display("Todos: 0 of 1 done", "[ ] a b")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "`todos` is missing"),
        ({"todos": [{"content": "x", "status": "done"}]}, "must be one of"),
        ({"todos": [{"content": "", "status": "pending"}]}, "content"),
        ({"todos": [{"status": "pending"}]}, "content"),
        ({"todos": [{"content": "x", "status": "pending"}] * 201}, "200"),
    ],
)
def test_wrong_input_names_the_field(data: dict[str, object], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        TodoWrite().parse(data)
