"""Our own tools pass the suite that we give to others, and a bad tool does not."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from tugline.ports import Tool, Workspace
from tugline.protocol.specs import Footprint, Result, ToolSpec
from tugline.testing.conformance import ToolConformance
from tugline.tools.builtin.bash import Bash
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep
from tugline.tools.builtin.read import Read
from tugline.tools.builtin.todo_write import TodoWrite
from tugline.tools.builtin.write import Write
from tugline.tools.define import tool
from tugline.workspaces.local import LocalWorkspace


@asynccontextmanager
async def room() -> AsyncIterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder:
        workspace = LocalWorkspace([folder])
        await workspace.write(f"{workspace.roots[0]}/a.txt", b"one\ntwo\n", expect=None)
        yield workspace


class InRoom(ToolConformance):
    def workspace(self) -> AbstractAsyncContextManager[Workspace]:
        return room()


class TestRead(InRoom):
    def tool(self) -> Tool:
        return Read()

    def inputs(self) -> Sequence[dict[str, Any]]:
        return [{"file_path": "a.txt"}, {"file_path": "a.txt", "offset": 2, "limit": 1}, {"file_path": "none"}]


class TestWrite(InRoom):
    def tool(self) -> Tool:
        return Write()

    def inputs(self) -> Sequence[dict[str, Any]]:
        return [{"file_path": "b.txt", "content": "x"}, {"file_path": "a.txt", "content": "unread"}]


class TestEdit(InRoom):
    def tool(self) -> Tool:
        return Edit()

    def inputs(self) -> Sequence[dict[str, Any]]:
        return [{"file_path": "a.txt", "old_string": "one", "new_string": "1"}]


class TestTodoWrite(InRoom):
    def tool(self) -> Tool:
        return TodoWrite()

    def inputs(self) -> Sequence[dict[str, Any]]:
        return [{"todos": [{"content": "a", "status": "pending", "activeForm": "doing a"}]}]


class TestGlob(InRoom):
    def tool(self) -> Tool:
        return Glob()

    def inputs(self) -> Sequence[dict[str, Any]]:
        return [{"pattern": "*.txt"}]


class TestGrep(InRoom):
    def tool(self) -> Tool:
        return Grep()

    def inputs(self) -> Sequence[dict[str, Any]]:
        return [{"pattern": "one", "output_mode": "content", "-n": True}]


class TestBash(InRoom):
    def tool(self) -> Tool:
        return Bash()

    def inputs(self) -> Sequence[dict[str, Any]]:
        return [{"command": "echo hi", "timeout": 5000}, {"command": "exit 3"}]


@tool
async def greet(name: str, times: int = 1) -> str:
    """Greet someone.

    Args:
        name: Who.
        times: How often.
    """
    return f"hello {name}" * times


class TestFunctionTool(InRoom):
    def tool(self) -> Tool:
        return greet

    def inputs(self) -> Sequence[dict[str, Any]]:
        return [{"name": "you"}, {"name": "you", "times": 2}]


class Bad:
    """A tool with one fault at a time."""

    name = "Bad"
    deferred = False
    result_limit = 1
    interrupt = "cancel"
    family = ""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        schema = {"type": "string"} if fault == "schema" else {"type": "object", "properties": {}}
        self.spec = ToolSpec("Other" if fault == "name" else "Bad", "Does bad things.", schema)
        self.count = 0

    def parse(self, data: dict[str, Any]) -> Any:
        if self.fault == "parse" and "x" not in data:
            raise KeyError("x")
        return data

    def footprint(self, data: Any) -> Footprint:
        return 0 if self.fault == "footprint" else Footprint.READS  # type: ignore[return-value]

    def subjects(self, data: Any) -> tuple[Any, ...]:
        return ("path",) if self.fault == "subjects" else ()

    def title(self, data: Any) -> str:
        self.count += 1
        if self.fault == "title":
            return f"a\nb {data}"
        return f"bad {self.count}" if self.fault == "impure" else "bad"

    async def run(self, data: Any, context: Any) -> Result:
        return "text" if self.fault == "result" else Result("text")  # type: ignore[return-value]


@pytest.mark.parametrize("fault", ["schema", "name", "parse", "footprint", "subjects", "title", "impure", "result", ""])
async def test_the_suite_finds_the_fault(fault: str) -> None:
    class Suite(InRoom):
        def tool(self) -> Tool:
            return Bad(fault)

        def inputs(self) -> Sequence[dict[str, Any]]:
            return [{"x": 1}]

    failed = []
    for name in dir(Suite):
        if name.startswith("test_"):
            try:
                made = getattr(Suite(), name)()
                if made is not None:
                    await made
            except Exception:
                failed.append(name)
    assert bool(failed) == bool(fault)
