"""Work where there is nothing to run it beside its call."""

from collections.abc import Callable

from tugline.ports import Tether, ToolContext, Work
from tugline.protocol.ids import TaskId
from tugline.protocol.specs import Progress, Result
from tugline.protocol.tasks import Released, TaskKind


class InPlace:
    """Runs work inside its call, which nobody can let go of."""

    async def run(
        self, work: Work, context: ToolContext, *, kind: TaskKind, description: str, background: bool = False
    ) -> Result:
        """The work's own result."""
        return (await work(_Bound(context))).result


class _Bound:
    def __init__(self, context: ToolContext) -> None:
        self.task = TaskId("")
        self._context = context

    def begun(self, on_release: Callable[[], str]) -> None:
        """Nobody will ever call it."""

    def report(self, progress: Progress) -> None:
        self._context.report(progress)

    def release(self, why: Released) -> bool:
        return False

    @property
    def released(self) -> bool:
        return False


_: type[Tether] = _Bound
