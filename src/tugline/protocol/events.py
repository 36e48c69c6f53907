"""What is told outwards: past tense, data only, one stream for every frontend.

Order within a turn: `TurnStarted`, then per step `RequestStarted`, `ReplyBegan`, blocks and deltas, `ReplyFinished`
(or `Tombstone`: all that was said of that reply is void), interleaved with the calls' `CallStarted`, `CallProgress`,
`CallFinished` as they happen, while `ResultAdded` comes in the order of the calls; at the end exactly one
`TurnFinished`. `seq` grows by one per event of a session; a subscriber that is too slow gets neighbouring deltas
merged (the merged event carries the last one's `seq`), and loses nothing else.
"""

from typing import Any, Literal

from msgspec import Struct

from tugline.protocol.blocks import AssistantBlock, ToolResult
from tugline.protocol.chunks import BlockKind
from tugline.protocol.errors import Failure
from tugline.protocol.ids import AgentId, CallId, MessageId, QuestionId, ReplyId, SessionId, TaskId
from tugline.protocol.instructions import LoadedFile
from tugline.protocol.messages import Assistant, User
from tugline.protocol.permissions import PermissionQuestion, PlanQuestion, UserQuestion
from tugline.protocol.specs import Display, FileStep, Footprint, Mode, Progress, Purpose
from tugline.protocol.tasks import Task
from tugline.protocol.trust import TrustQuestion
from tugline.protocol.usage import Spend, Usage

EndReason = Literal[
    "completed",
    "interrupted",
    "hook_stopped",
    "denied_stopped",
    "max_budget",
    "max_steps",
    "refused",
    "prompt_too_long",
    "api_error",
    "failed",
]

Trigger = Literal["auto", "manual", "forced"]
"""Why a history is compacted: it had grown, a person asked for it, or the provider found it too long."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where an event comes from. `depth` is 0 for the main agent; `parent_call` is the call that started the agent."""

    session: SessionId
    agent: AgentId
    chain: str = ""
    depth: int = 0
    parent_call: CallId | None = None


class Event(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """What every event has."""

    seq: int
    origin: Origin


class SessionStarted(Event, frozen=True, tag="session_started"):
    """The session is open: what it works with. `resumed`: the conversation goes on where it was. `sandbox`: `on`, why
    it does not work, or nothing where the settings ask for none."""

    cwd: str
    model: str
    mode: Mode
    tools: tuple[str, ...]
    key_source: str = "none"
    transcript: str = ""
    resumed: bool = False
    sandbox: str = ""


class TurnStarted(Event, frozen=True, tag="turn_started"):
    """A prompt begins to be worked on; it is durable."""

    message: User


class UserAdded(Event, frozen=True, tag="user_added"):
    """Something else than the prompt or results joined the conversation: letters, words of the loop."""

    message: User


class InstructionsLoaded(Event, frozen=True, tag="instructions_loaded"):
    """Files of instructions joined the conversation: at its start, because they had changed when it was resumed, again
    after a compaction, or because a call touched what they hold for."""

    reason: Literal["started", "resumed", "compacted", "touched"]
    files: tuple[LoadedFile, ...]


class RequestStarted(Event, frozen=True, tag="request_started"):
    """A request is about to go out. `context_tokens` is the estimate of its size."""

    step: int
    model: str
    purpose: Purpose
    context_tokens: int


class ReplyBegan(Event, frozen=True, tag="reply_began"):
    """The model began to answer."""

    reply: ReplyId
    model: str
    usage: Usage


class BlockBegan(Event, frozen=True, tag="block_began"):
    """A block of the reply opened."""

    reply: ReplyId
    index: int
    kind: BlockKind
    call: CallId = CallId("")
    name: str = ""


class TextDelta(Event, frozen=True, tag="text_delta", gc=False):
    """More text."""

    reply: ReplyId
    index: int
    text: str


class ThinkingDelta(Event, frozen=True, tag="thinking_delta", gc=False):
    """More thinking."""

    reply: ReplyId
    index: int
    text: str


class InputDelta(Event, frozen=True, tag="input_delta", gc=False):
    """More of a call's JSON input."""

    reply: ReplyId
    index: int
    text: str


class BlockFinished(Event, frozen=True, tag="block_finished"):
    """A block of the reply is complete."""

    reply: ReplyId
    index: int
    block: AssistantBlock


class ReplyFinished(Event, frozen=True, tag="reply_finished"):
    """The reply ended properly and is part of the conversation, durably."""

    message: Assistant


class Tombstone(Event, frozen=True, tag="tombstone"):
    """What was said of this reply is void; drop it."""

    reply: ReplyId
    reason: str


class RetryWaiting(Event, frozen=True, tag="retry_waiting"):
    """A request failed and is tried again after `delay` seconds."""

    failure: Failure
    attempt: int
    limit: int
    delay: float


class ModelChanged(Event, frozen=True, tag="model_changed"):
    """Another model answers from here on."""

    before: str
    after: str
    reason: str


class CallStarted(Event, frozen=True, tag="call_started"):
    """A call runs."""

    call: CallId
    tool: str
    input: dict[str, Any]
    title: str
    footprint: Footprint


class CallProgress(Event, frozen=True, tag="call_progress"):
    """A running call gives a sign of life."""

    call: CallId
    progress: Progress


class CallFinished(Event, frozen=True, tag="call_finished"):
    """A call has ended, in whatever way; its place in the conversation may still have to wait."""

    call: CallId
    tool: str
    is_error: bool
    display: Display
    duration: float


class ResultAdded(Event, frozen=True, tag="result_added"):
    """A result has its place in the conversation. Comes in the order of the calls."""

    result: ToolResult
    tool: str


class PermissionAsked(Event, frozen=True, tag="permission_asked"):
    """A question that the command `Reply` with its id answers."""

    question: PermissionQuestion


class InquiryAsked(Event, frozen=True, tag="inquiry_asked"):
    """The model asks the person; the command `Reply` with its id answers."""

    question: UserQuestion


class PlanAsked(Event, frozen=True, tag="plan_asked"):
    """The model presents a plan; the command `Reply` with its id answers."""

    question: PlanQuestion


class TrustAsked(Event, frozen=True, tag="trust_asked"):
    """The folder has parts that nobody has approved; the command `Reply` with its id answers. They count from the next
    session on."""

    question: TrustQuestion


class QuestionClosed(Event, frozen=True, tag="question_closed"):
    """A question is answered or withdrawn."""

    question: QuestionId
    outcome: Literal["answered", "withdrawn"]


class PermissionDecided(Event, frozen=True, tag="permission_decided"):
    """Whether a call may run, and who or what decided."""

    call: CallId
    tool: str
    input: dict[str, Any]
    allowed: bool
    reason: str


class TaskStarted(Event, frozen=True, tag="task_started"):
    """A task runs that can be looked at: nobody waits for it any more, or it is an agent."""

    task: Task


class TaskProgress(Event, frozen=True, tag="task_progress"):
    """A running task that nobody waits for gives a sign of life."""

    task: TaskId
    progress: Progress


class TaskFinished(Event, frozen=True, tag="task_finished"):
    """Such a task has come to its final state."""

    task: Task


class ModeChanged(Event, frozen=True, tag="mode_changed"):
    """The permission mode is another one now."""

    mode: Mode


class DirectoryAdded(Event, frozen=True, tag="directory_added"):
    """A further folder counts as the working folder."""

    path: str


class SessionRenamed(Event, frozen=True, tag="session_renamed"):
    """The session has that name now."""

    title: str


class SessionBranched(Event, frozen=True, tag="session_branched"):
    """The session goes on in a copy, `transcript`, under the id that `origin` names from now on; `before` is the id
    that it had, whose transcript stays as it is."""

    before: SessionId
    transcript: str


class CommandAnswered(Event, frozen=True, tag="command_answered"):
    """A slash command was answered without the model; `text` is Markdown for the person."""

    prompt: MessageId
    name: str
    text: str


class ConversationRewound(Event, frozen=True, tag="conversation_rewound"):
    """The conversation goes on from before the person's words `prompt`; all that came after is out of it."""

    prompt: MessageId | None
    text: str


class CompactionStarted(Event, frozen=True, tag="compaction_started"):
    """A summary of the history is being made, which takes a request; `CompactionFinished` follows in any case.
    `words`: what the person asked to be kept."""

    trigger: Trigger
    context_tokens: int
    words: str = ""


class CompactionFinished(Event, frozen=True, tag="compaction_finished"):
    """The model sees less of the history, or (`undo`) more again. `how` says by which way, `tokens_before` and
    `tokens_after` how large the context was and is, `boundary` is the id of a summary or cut. `failure`: why nothing
    came of it, and all is as before."""

    trigger: Trigger
    how: Literal["summary", "snip", "trim", "fold", "undo"]
    tokens_before: int
    tokens_after: int
    boundary: MessageId = MessageId("")
    failure: str = ""


class FilesRewound(Event, frozen=True, tag="files_rewound"):
    """Files were put back to what they were before the person's words `prompt`; `None`: that was taken back. `files`
    says of each what was done, or why not."""

    prompt: MessageId | None
    files: tuple[FileStep, ...]


class UsageReported(Event, frozen=True, tag="usage_reported"):
    """What a request cost, and the session's sum so far. `cache_miss`: which section had changed, where the prompt
    cache was missed."""

    model: str
    purpose: Purpose
    usage: Usage
    cost_usd: float
    total_cost_usd: float
    context_tokens: int
    cache_miss: str = ""


class LimitReached(Event, frozen=True, tag="limit_reached"):
    """A limit ended the turn; the results of the last step are kept."""

    kind: Literal["max_steps", "max_budget"]
    limit: float
    count: float


class HookStarted(Event, frozen=True, tag="hook_started"):
    """A hook of the user's began to run. `hook` is an id of its own; `name` says what occasioned it."""

    hook: str
    name: str
    event: str
    status: str = ""


class HookFinished(Event, frozen=True, tag="hook_finished"):
    """A hook has ended. `exit_code` is a command's; `stdout` is empty where the hook wants it so."""

    hook: str
    name: str
    event: str
    outcome: Literal["success", "blocking", "error", "timeout", "cancelled"]
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    duration: float = 0.0


class Notice(Event, frozen=True, tag="notice"):
    """A line for the person."""

    level: Literal["info", "warning", "error"]
    text: str


class Crashed(Event, frozen=True, tag="crashed"):
    """Something raised that should not have; the log keeps the traceback."""

    where: str
    error: str
    traceback: str


class TurnFinished(Event, frozen=True, tag="turn_finished"):
    """The turn is at rest. `spend` is this turn's, `models` and `total_cost_usd` the session's so far; `also` names
    endings that coincided with `reason`; `message` is a line for the person where it did not simply complete."""

    reason: EndReason
    text: str
    steps: int
    spend: Spend
    models: dict[str, Spend]
    total_cost_usd: float
    duration: float
    api_duration: float
    failure: Failure | None = None
    message: str = ""
    interrupted_during: Literal["", "request", "tools"] = ""
    stop: str = ""
    also: tuple[EndReason, ...] = ()
    prompt: MessageId = MessageId("")
    denials: tuple[dict[str, Any], ...] = ()


AnyEvent = (
    SessionStarted
    | TurnStarted
    | UserAdded
    | InstructionsLoaded
    | RequestStarted
    | ReplyBegan
    | BlockBegan
    | TextDelta
    | ThinkingDelta
    | InputDelta
    | BlockFinished
    | ReplyFinished
    | Tombstone
    | RetryWaiting
    | ModelChanged
    | CallStarted
    | CallProgress
    | CallFinished
    | ResultAdded
    | PermissionAsked
    | InquiryAsked
    | PlanAsked
    | TrustAsked
    | QuestionClosed
    | PermissionDecided
    | TaskStarted
    | TaskProgress
    | TaskFinished
    | ModeChanged
    | DirectoryAdded
    | SessionRenamed
    | SessionBranched
    | CommandAnswered
    | ConversationRewound
    | CompactionStarted
    | CompactionFinished
    | FilesRewound
    | UsageReported
    | LimitReached
    | HookStarted
    | HookFinished
    | Notice
    | Crashed
    | TurnFinished
)
