"""What the model is told of plan mode, and what a conversation has told it so far."""

from collections.abc import Sequence

from tugline.protocol.blocks import Text, ToolResult
from tugline.protocol.messages import Message, User
from tugline.protocol.specs import Mode
from tugline.rules import wording

ON = "Plan mode is on."
OFF = "Plan mode is off."
_FIRST_LIMIT = 200


def entered(file: str) -> str:
    """Plan mode is on from here."""
    return (
        f"{ON} Only reading is allowed now, and writing the plan to {file}. Find out what you need, then present the "
        "plan with ExitPlanMode: what would change where, in which order, how it would be checked, and what is risky. "
        "Do not try to change anything else, and do not ask in words whether the plan is fine: ExitPlanMode asks."
    )


def left(mode: Mode) -> str:
    """Plan mode is off from here, by the person's own choice."""
    return f"{OFF} The user has changed the permission mode to {mode}: calls that change something are possible again."


def approved(mode: Mode, plan: str, *, changed: bool, words: str, file: str) -> str:
    """The person has said yes to the plan."""
    parts = [f"{OFF} The user has approved the plan; it is kept in {file}. The permission mode is {mode} now."]
    if words:
        parts.append(f"They say: {words}")
    if changed:
        parts.append(f"They have changed it. Carry out this plan, not the one that you gave:\n\n{plan}")
    else:
        parts.append("Carry it out.")
    return "\n".join(parts)


def rejected(words: str) -> str:
    """The person has said no to the plan."""
    said = f"They say: {words}" if words else "They did not say why: ask what should be different."
    return f"The user does not want this plan. {said}\nPlan mode goes on: revise the plan and present it again."


def nobody(file: str) -> str:
    """There is no person who could say yes."""
    return (
        f"Nobody can approve the plan in this run, so it cannot be carried out. It is kept in {file}. Give it as your "
        "answer, and end."
    )


def restored(plan: str, file: str) -> str:
    """The plan, for a conversation that was shortened."""
    return f"The plan of this session, kept in {file}:\n\n{plan}"


def told_on(messages: Sequence[Message]) -> bool:
    """Whether the conversation, as it is, leaves the model with the belief that plan mode is on."""
    for message in reversed(messages):
        if isinstance(message, User):
            for block in reversed(message.content):
                said = _beginning(block)
                if said.startswith((ON, OFF)):
                    return said.startswith(ON)
    return False


def _beginning(block: object) -> str:
    if isinstance(block, ToolResult):
        content = block.content if isinstance(block.content, str) else ""
        return content[:_FIRST_LIMIT]
    if isinstance(block, Text):
        return block.text[:_FIRST_LIMIT].removeprefix(wording.REMINDER)
    return ""
