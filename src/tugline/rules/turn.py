"""What follows a reply, and what follows its tools: the table of endings as pure decisions."""

from typing import Literal

from msgspec import Struct

from tugline.protocol.events import EndReason

CUT_LIMIT = 3
"""How often in a row a reply that was cut at the output limit is continued."""
STOP_HOOK_LIMIT = 8
"""How often in a row stop hooks may make the loop go on."""

RESTING = frozenset({"end_turn", "stop_sequence", "tool_use", "pause_turn"})
"""How a reply that asks for no tool may end without that being worth a word."""

AfterReply = Literal["run_calls", "continue_cut", "stand_cut", "refused", "window_full", "resume_pause", "rest"]


def after_reply(stop: str, *, calls: int, cuts: int) -> AfterReply:
    """What a reply that ended leads to. `calls`: whole tool calls in it; `cuts`: continuations so far."""
    if stop == "refusal":
        return "refused"
    if calls:
        return "run_calls"
    if stop == "max_tokens":
        return "continue_cut" if cuts < CUT_LIMIT else "stand_cut"
    if stop == "context_exceeded":
        return "window_full"
    if stop == "pause_turn":
        return "resume_pause" if cuts < CUT_LIMIT else "rest"
    return "rest"


class Tally(Struct, frozen=True, kw_only=True):
    """What may end a turn once a step's calls have run."""

    interrupted: bool = False
    hook_stop: bool = False
    denied_stop: bool = False
    cost_usd: float = 0.0
    max_cost_usd: float | None = None
    steps: int = 0
    max_steps: int | None = None


def endings(tally: Tally) -> tuple[EndReason, ...]:
    """All endings that apply, the one to report first; empty: the turn goes on."""
    found: list[EndReason] = []
    if tally.interrupted:
        found.append("interrupted")
    if tally.hook_stop:
        found.append("hook_stopped")
    if tally.denied_stop:
        found.append("denied_stopped")
    if tally.max_cost_usd is not None and tally.cost_usd >= tally.max_cost_usd:
        found.append("max_budget")
    if tally.max_steps is not None and tally.steps >= tally.max_steps:
        found.append("max_steps")
    return tuple(found)
