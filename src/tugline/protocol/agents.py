"""Definitions of agents: what an agent type is told and may use."""

from typing import Any, Literal

from msgspec import Struct

from tugline.protocol.specs import Effort, Mode

AgentScope = Literal["builtin", "plugin", "user", "project", "given", "managed"]
"""Where a definition comes from, weakest first; `given`: on the command line or by the library."""


class AgentDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One type of agent. `tools` of `None` means all that the session has; `model` of `inherit` the parent's.

    `fork`: it begins with the parent's conversation, system prompt and tools. `prompt` is its system prompt,
    `initial_prompt` stands before each task, `reminder` behind each of its requests.
    """

    name: str
    description: str
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    model: str = "inherit"
    permission_mode: Mode | Literal["bubble"] | None = None
    max_turns: int | None = None
    skills: tuple[str, ...] = ()
    mcp_servers: tuple[Any, ...] = ()
    hooks: dict[str, Any] = {}
    memory: Literal["user", "project", "local"] | None = None
    background: bool = False
    effort: Effort | None = None
    thinking_tokens: int = 0
    isolation: Literal["none", "worktree", "remote"] = "none"
    color: str = ""
    fork: bool = False
    initial_prompt: str = ""
    reminder: str = ""
    allow_prompts: tuple[str, ...] = ()
    context: bool = True
    """Whether it is told the instruction files and the state of the repository."""
    scope: AgentScope = "given"
    source: str = ""


class SkippedAgent(Struct, frozen=True, omit_defaults=True):
    """A file that defines no agent, and why."""

    source: str
    reason: str
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}" if self.line else self.source
        return f"{where}: {self.reason}"
