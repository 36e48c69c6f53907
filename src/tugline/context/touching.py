"""A tool that brings up the instruction files which hold for what it touches."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from msgspec import structs

from tugline.ports import Tool, ToolContext, ToolWrapper
from tugline.protocol.instructions import Instruction
from tugline.protocol.specs import Instructed, PathSubject, Result

Touched = Callable[[Sequence[str], str, Collection[str]], Awaitable[tuple[Instruction, ...]]]


class Touching(ToolWrapper):
    """Does what the tool does. What it touched is known from its subjects, so this holds for every tool that names
    the paths it works on."""

    def __init__(self, tool: Tool, touched: Touched) -> None:
        super().__init__(tool)
        self._touched = touched

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
