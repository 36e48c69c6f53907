"""TodoWrite: the agent's own list, replaced whole."""

from collections import Counter
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tugline.ports import ToolContext
from tugline.protocol.specs import Display, Footprint, Result, Todo, Todos
from tugline.tools.define import BuiltinTool
from tugline.tools.plain import plain_text

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TodoEntry(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One entry."""

    content: Annotated[str, Meta(description="What to do", min_length=1)]
    status: Literal["pending", "in_progress", "completed"]
    active_form: Annotated[str, Meta(description="What is being done, while it is in progress")] = ""


class TodoWriteInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says."""

    todos: Annotated[list[TodoEntry], Meta(description="The whole list", max_length=200)]


class TodoWrite(BuiltinTool[TodoWriteInput]):
    """Replaces the list of todos."""

    name = "TodoWrite"
    input = TodoWriteInput

    def footprint(self, data: TodoWriteInput) -> Footprint:
        """The list is a change that the executor applies: nothing is touched."""
        return Footprint.NOTHING

    def title(self, data: TodoWriteInput) -> str:
        """How far it is."""
        done = sum(entry.status == "completed" for entry in data.todos)
        return f"Todos: {done} of {len(data.todos)} done" if data.todos else "Clear the todos"

    async def run(self, data: TodoWriteInput, context: ToolContext) -> Result:
        """Take the list."""
        todos = tuple(Todo(entry.content, entry.status, entry.active_form) for entry in data.todos)
        detail = "\n".join(f"{_MARKS[todo.status]} {_one_line(todo)}" for todo in todos)
        return Result(_for_model(data), Display(self.title(data), detail), changes=(Todos(todos),))


def _one_line(todo: Todo) -> str:
    words = todo.active_form if todo.status == "in_progress" and todo.active_form else todo.content
    return " ".join(plain_text(words).split())


def _for_model(data: TodoWriteInput) -> str:
    if not data.todos:
        return "The list is empty now."
    counts = Counter(entry.status for entry in data.todos)
    text = (
        f"The list is kept: {counts['completed']} completed, {counts['in_progress']} in progress, "
        f"{counts['pending']} pending."
    )
    if counts["in_progress"] > 1:
        return f"{text} More than one entry is in progress: work on one at a time."
    if counts["pending"] and not counts["in_progress"]:
        return f"{text} None is in progress: mark the one that you work on."
    return text
