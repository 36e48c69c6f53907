"""TaskStop: ends a task in the background."""

from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import TaskDesk, ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, Result
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.plain import plain_text
from tugline.tools.schema import closest


class TaskStopInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says."""

    task_id: Annotated[str, Meta(description="The task's id", min_length=1, max_length=200)]


class TaskStop(BuiltinTool[TaskStopInput]):
    """Ends tasks of `desk`."""

    name = "TaskStop"
    input = TaskStopInput

    def __init__(self, desk: TaskDesk) -> None:
        super().__init__()
        self._desk = desk

    def footprint(self, data: TaskStopInput) -> Footprint:
        """Nothing is touched but what the agent itself has started."""
        return Footprint.NOTHING

    def title(self, data: TaskStopInput) -> str:
        """The task."""
        return cut_line(plain_text(f"Stop {data.task_id}"))

    async def run(self, data: TaskStopInput, context: ToolContext) -> Result:
        """End it."""
        task = self._desk.find(data.task_id.strip())
        if task is None:
            ids = [one.id for one in self._desk.all()]
            near = closest(data.task_id, ids)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(ids) or 'none'}."
            raise ToolError(f"There is no task {data.task_id[:100]!r}. {hint}")
        if task.over:
            return Result(f"The task {task.id} was over already: {task.state}.", Display(f"Was over: {task.state}"))
        task = await self._desk.stop(task.id)
        if not task.over:
            raise ToolError(f"The task {task.id} was told to end, and has not ended yet.")
        where = f" What it printed is in {task.output}." if task.output else ""
        return Result(
            f"The task {task.id} ({task.description}) is {task.state} now.{where}", Display(f"Stopped {task.id}")
        )
