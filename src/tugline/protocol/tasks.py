"""Tasks: work that goes on whether or not somebody waits for it."""

from typing import Literal

from msgspec import Struct

from tugline.protocol.ids import AgentId, CallId, TaskId

TaskKind = Literal["local_bash", "local_agent", "remote_agent", "in_process_teammate", "monitor", "dream"]
TaskState = Literal["pending", "running", "completed", "failed", "killed"]
"""The last three are final: a task that has one never has another."""
Released = Literal["", "asked", "user", "timeout"]
"""Why nobody waits for a task: it was asked for, the person let go of it, it took too long. Empty: somebody waits."""


class Task(Struct, frozen=True, omit_defaults=True):
    """A task as it stands. `owner` is the agent that started it, with `call`; `output` the file in which all that it
    says can be read."""

    id: TaskId
    kind: TaskKind
    owner: AgentId
    description: str
    started: float
    call: CallId | None = None
    state: TaskState = "running"
    released: Released = ""
    output: str = ""
    summary: str = ""
    exit_code: int | None = None
    ended: float | None = None
    child: AgentId | None = None

    @property
    def over(self) -> bool:
        """Whether its state is final."""
        return self.state in ("completed", "failed", "killed")
