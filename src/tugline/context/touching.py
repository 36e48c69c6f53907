"""A tool that brings up the instruction files which hold for what it touches."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from msgspec import structs

from tugline.ports import Tool, ToolContext
from tugline.protocol.instructions import Instruction
from tugline.protocol.specs import Footprint, Instructed, PathSubject, Result, Subject

Touched = Callable[[Sequence[str], str, Collection[str]], Awaitable[tuple[Instruction, ...]]]


class Touching:
    """Does what the tool does. What it touched is known from its subjects, so this holds for every tool that names
    the paths it works on."""

    def __init__(self, tool: Tool, touched: Touched) -> None:
        self.name = tool.name
        self.spec = tool.spec
        self.deferred = tool.deferred
        self.result_limit = tool.result_limit
        self.interrupt = tool.interrupt
        self.family = tool.family
        self.filtered: bool = getattr(tool, "filtered", False)
        self._tool = tool
        self._touched = touched

    def parse(self, data: dict[str, Any]) -> Any:
        """The tool's."""
        return self._tool.parse(data)

    def footprint(self, data: Any) -> Footprint:
        """The tool's."""
        return self._tool.footprint(data)

    def subjects(self, data: Any) -> tuple[Subject, ...]:
        """The tool's."""
        return self._tool.subjects(data)

    def title(self, data: Any) -> str:
        """The tool's."""
        return self._tool.title(data)

    async def run(self, data: Any, context: ToolContext) -> Result:
        """The tool's result, with what holds for the paths among its changes."""
        result: Any = await self._tool.run(data, context)
        if not isinstance(result, Result):
            return result  # type: ignore[no-any-return]  # the executor says what is wrong with it
        paths = [subject.path for subject in self._tool.subjects(data) if isinstance(subject, PathSubject)]
        if not paths:
            return result
        found = await self._touched(paths, context.state.cwd, context.state.told)
        return structs.replace(result, changes=(*result.changes, Instructed(found))) if found else result
