"""TaskOutput: how a task in the background stands, and what it has said since the last look."""

from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import TaskDesk, ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, Result
from tugline.protocol.tasks import Task
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.plain import plain_text
from tugline.tools.schema import closest

MAX_WAIT = 600_000


class TaskOutputInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says."""

    task_id: Annotated[str, Meta(description="The task's id", min_length=1, max_length=200)]
    block: Annotated[bool, Meta(description="Wait until the task is over")] = True
    timeout: Annotated[float, Meta(description="Milliseconds to wait at most", ge=0, le=MAX_WAIT)] = 30_000


class TaskOutput(BuiltinTool[TaskOutputInput]):
    """Looks at the tasks of `desk`."""

    name = "TaskOutput"
    input = TaskOutputInput

    def __init__(self, desk: TaskDesk) -> None:
        super().__init__()
        self._desk = desk

    def footprint(self, data: TaskOutputInput) -> Footprint:
        """Nothing is touched."""
        return Footprint.NOTHING

    def title(self, data: TaskOutputInput) -> str:
        """The task."""
        return cut_line(plain_text(f"Output of {data.task_id}"))

    async def run(self, data: TaskOutputInput, context: ToolContext) -> Result:
        """Wait if asked to, and tell."""
        task = known(self._desk, data.task_id)
        task = await self._desk.wait(task.id, data.timeout / 1000 if data.block else 0)
        news = self._desk.news(task.id).rstrip("\n")
        lines = [f"status: {task.state}"]
        if task.exit_code is not None:
            lines.append(f"exit code: {task.exit_code}")
        if task.output:
            lines.append(f"output file: {task.output}")
        if task.over and task.summary and task.kind != "local_bash":
            lines.append(f"result:\n{task.summary}")
        lines.append(f"new output:\n{news}" if news else "no new output")
        return Result("\n".join(lines), Display(cut_line(plain_text(f"{task.description}: {task.state}")), news))


def known(desk: TaskDesk, task_id: str) -> Task:
    """The task of that id; `ToolError` names those that come closest."""
    task = desk.find(task_id.strip())
    if task is not None:
        return task
    ids = [one.id for one in desk.all()]
    near = closest(task_id, ids)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(ids) or 'none'}."
    raise ToolError(f"There is no task {task_id[:100]!r}. {hint}")
