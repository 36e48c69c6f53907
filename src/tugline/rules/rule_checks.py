"""Rules that can be read and will never speak of anything: what a person should know at the start."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from tugline.rules.names import names
from tugline.rules.rule import Rule

KNOWN = names(
    "Read Write Edit MultiEdit NotebookEdit NotebookRead Glob Grep LS Bash BashOutput KillShell TaskOutput TaskStop"
    " Monitor Agent SendMessage TeamCreate TeamDelete TaskCreate TaskGet TaskList TaskUpdate TodoWrite TodoRead"
    " EnterPlanMode ExitPlanMode EnterWorktree ExitWorktree Skill SlashCommand ToolSearch AskUserQuestion WebFetch"
    " WebSearch LSP ListMcpResources ReadMcpResource CronCreate CronList CronDelete Sleep"
)
"""Tools that people write rules for, also those that are not there in every session."""
TOLD = 5
"""Rules that are named; of more, the number."""


def doubtful(rules: Iterable[Rule], tools: Collection[str]) -> tuple[str, ...]:
    """A line for each rule whose tool does not exist, with the nearest name that does."""
    lines: list[str] = []
    for rule in rules:
        if "*" in rule.tool or rule.tool.startswith("mcp__") or rule.tool in KNOWN or rule.tool in tools:
            continue
        near = get_close_matches(rule.tool, [*KNOWN, *tools], 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        lines.append(f"The {rule.kind} rule {rule} speaks of no tool: there is no {rule.tool}.{hint}")
    if len(lines) > TOLD:
        lines[TOLD:] = [f"And {len(lines) - TOLD} more rules that speak of no tool."]
    return tuple(lines)
