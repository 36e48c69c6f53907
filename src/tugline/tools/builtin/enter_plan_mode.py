"""EnterPlanMode: from here on the model only reads, until a plan is approved."""

from msgspec import Struct

from tugline.ports import Planner, ToolContext
from tugline.protocol.specs import Display, Footprint, Result
from tugline.tools.define import BuiltinTool


class EnterPlanModeInput(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing has to be said."""


class EnterPlanMode(BuiltinTool[EnterPlanModeInput]):
    """Begins plan mode."""

    name = "EnterPlanMode"
    input = EnterPlanModeInput

    def __init__(self, planner: Planner) -> None:
        super().__init__()
        self._planner = planner

    def footprint(self, data: EnterPlanModeInput) -> Footprint:
        """Nothing is touched, and less is allowed than before."""
        return Footprint.NOTHING

    def title(self, data: EnterPlanModeInput) -> str:
        """What it does."""
        return "Begin plan mode"

    async def run(self, data: EnterPlanModeInput, context: ToolContext) -> Result:
        """Change the mode."""
        return Result(self._planner.enter(), Display("Plan mode: only reading, until a plan is approved"))
