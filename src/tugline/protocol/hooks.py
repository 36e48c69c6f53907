"""Hooks: what users have configured to run at which event, what a hook is told, and what it may answer."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from tugline.protocol.permissions import PermissionUpdate

HookKind = Literal["command", "prompt", "http", "agent", "callback"]
Decision = Literal["", "allow", "ask", "defer", "deny"]


class Hook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One configured hook. `layer` and `source` say who wrote it, `root` is the folder of its plugin.

    `rule` is the permission rule that a call has to fit (`if` in files). `rewake`: it runs beside the turn, and exit
    status 2 tells the model. `block_on_failure`: where it fails, what it was asked about is blocked.
    """

    event: str
    kind: HookKind
    matcher: str = ""
    command: str = ""
    args: tuple[str, ...] | None = None
    shell: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    allowed_env: tuple[str, ...] = ()
    prompt: str = ""
    model: str = ""
    rule: str = ""
    timeout: float | None = None
    background: bool = False
    rewake: bool = False
    once: bool = False
    block_on_failure: bool = False
    status: str = ""
    callback: str = ""
    layer: str = ""
    source: str = ""
    root: str = ""
    data: str = ""

    @property
    def label(self) -> str:
        """What it runs, in one line for a person."""
        match self.kind:
            case "command":
                return " ".join((self.command, *(self.args or ())))
            case "http":
                return self.url
            case "callback":
                return self.callback
            case _:
                return self.prompt


class HookReply(Struct, frozen=True, omit_defaults=True):
    """What came back from a hook, before it is read. `failure`: why it gave no answer at all."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0
    failure: str = ""
    timed_out: bool = False
    answer: "dict[str, Any] | HookOutput | None" = None


class HookInput(Struct, frozen=True, kw_only=True):
    """What a Python hook is told: the fields that every event has, and in `data` all that other kinds read as JSON."""

    event: str
    session_id: str = ""
    prompt_id: str = ""
    transcript_path: str = ""
    cwd: str = ""
    permission_mode: str = ""
    agent_id: str = ""
    agent_type: str = ""
    tool_name: str = ""
    tool_input: Mapping[str, Any] = field(default_factory=dict)
    tool_use_id: str = ""
    tool_response: Any = None
    prompt: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class HookOutput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a hook answers.

    `decision` is about a call (PreToolUse) or a question (PermissionRequest: `allow` or `deny`); `block` is the reason
    why what happened is not to be, or why the agent is not done yet; `stop` ends the turn with that reason; `message`
    is for the person, `context` for the model. `input` replaces a call's input, `output` what the model reads of its
    result. `updates` and `interrupt` go with an answer to a question. `retry`: a denied call may be tried again.
    """

    decision: Decision = ""
    reason: str = ""
    block: str | None = None
    stop: str | None = None
    message: str = ""
    context: str = ""
    input: dict[str, Any] | None = None
    output: Any = None
    updates: tuple[PermissionUpdate, ...] = ()
    interrupt: bool = False
    retry: bool = False
    title: str = ""
    watch: tuple[str, ...] = ()
    hide_output: bool = False
    background: bool = False


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all hooks of one event say together."""

    decision: Decision = ""
    reason: str = ""
    block: str | None = None
    stop: str | None = None
    messages: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    input: dict[str, Any] | None = None
    output: Any = None
    updates: tuple[PermissionUpdate, ...] = ()
    interrupt: bool = False
    retry: bool = False
    title: str = ""
    watch: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


NOTHING = Outcome()
"""No hook had anything to say."""
