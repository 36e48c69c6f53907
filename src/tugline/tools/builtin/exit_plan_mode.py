"""ExitPlanMode: the person approves the plan, changes it, or says what should be different."""

from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import Planner, ToolContext
from tugline.protocol.specs import Footprint, Result
from tugline.tools.define import BuiltinTool


class ExitPlanModeInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says."""

    plan: Annotated[
        str, Meta(description="The whole plan as Markdown; default: what the plan file says", max_length=100_000)
    ] = ""


class ExitPlanMode(BuiltinTool[ExitPlanModeInput]):
    """Asks through `planner`."""

    name = "ExitPlanMode"
    input = ExitPlanModeInput

    def __init__(self, planner: Planner) -> None:
        super().__init__()
        self._planner = planner

    def footprint(self, data: ExitPlanModeInput) -> Footprint:
        """Nothing is touched: the person decides what follows."""
        return Footprint.NOTHING

    def title(self, data: ExitPlanModeInput) -> str:
        """What it does."""
        return "Present the plan"

    async def run(self, data: ExitPlanModeInput, context: ToolContext) -> Result:
        """Ask, and wait for as long as it takes."""
        return await self._planner.present(context.call, data.plan)
