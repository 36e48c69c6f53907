"""The lines of a transcript file: append-only, one JSON object per line (`docs/reference/transcript.md`).

A conversation is a tree in the order of its growth. Its nodes are messages (`Said`) and boundaries (`Compacted`); each
names its parent. The last node, or where a `Rewound` points to, is the head; the way from the head to the root, or to
the first boundary that is not undone, is what the model sees. All other records say something about these nodes.
"""

from typing import Literal

from msgspec import Struct

from tugline.protocol.blocks import ToolResult
from tugline.protocol.ids import AgentId, CallId, MessageId, SessionId, TaskId
from tugline.protocol.messages import Message, User
from tugline.protocol.specs import Change, FileSeen, Purpose, Surroundings, Todo
from tugline.protocol.tasks import Task, TaskState
from tugline.protocol.usage import Spend, Usage

FORMAT = 1
"""Raised when an older reader would misunderstand a file."""


class Record(Struct, frozen=True, tag_field="kind", omit_defaults=True, kw_only=True):
    """What every line has. `n` counts the records of a file from 1; `time` is seconds since the epoch."""

    n: int = 0
    time: float = 0.0


class Opened(Record, frozen=True, tag="opened"):
    """The first line: what this file is. `around` is what the system prompt says of the place."""

    format: int
    session: SessionId
    agent: AgentId
    cwd: str
    version: str
    around: Surroundings | None = None


class Resumed(Record, frozen=True, tag="resumed"):
    """A process went on with the conversation. `around` is there where it differs from what was recorded before."""

    cwd: str
    version: str
    around: Surroundings | None = None


class Forked(Record, frozen=True, tag="forked"):
    """From here on the file is this session; all above is a copy of another one."""

    session: SessionId
    origin: SessionId


class Said(Record, frozen=True, tag="said"):
    """A message joined the conversation, after the node `parent`."""

    message: Message
    parent: MessageId | None = None


class Queued(Record, frozen=True, tag="queued"):
    """Words that a person sent while a turn ran. A message with that id means that they have been said."""

    message: User


class Withdrawn(Record, frozen=True, tag="withdrawn"):
    """Queued words that were taken back before they were said."""

    message: MessageId


class Started(Record, frozen=True, tag="started"):
    """A call is about to run. A start without a result means: outcome unknown."""

    call: CallId
    tool: str
    reply: str


class Finished(Record, frozen=True, tag="finished"):
    """A call's result, before it takes its place in a message."""

    result: ToolResult
    reply: str


class Voided(Record, frozen=True, tag="voided"):
    """Starts and results of this reply do not count: its stream broke."""

    reply: str


class StateChanged(Record, frozen=True, tag="state_changed"):
    """The agent's state moved, when `node` was the head."""

    changes: tuple[Change, ...]
    node: MessageId | None = None


class FileState(Struct, frozen=True, omit_defaults=True):
    """A file as it was. `digest` names its content in the store of checkpoints, as git names it; empty: too large to be
    looked at. The content of a `link` is where it leads."""

    digest: str
    mode: int = 0o644
    link: bool = False


class FileChange(Struct, frozen=True, omit_defaults=True):
    """A file before and after; `None`: there was no file.

    `path` counts from the record's `root`, or is absolute. A path that is no UTF-8 text has its
    bytes in `raw`, in hexadecimal. `kept` is
    false where the content before is not in the store: it was too large, or already gone.
    """

    path: str
    before: FileState | None = None
    after: FileState | None = None
    kept: bool = True
    raw: str = ""


class FilesChanged(Record, frozen=True, tag="files_changed"):
    """Calls are about to change files, or have changed them, when `node` was the head. Several calls where they ran at
    the same time.

    `calls` is empty where something else than the agent changed them between two looks, or where they were put back:
    `rewind` is the id of what did that. `root` is the project's folder."""

    files: tuple[FileChange, ...]
    calls: tuple[CallId, ...] = ()
    node: MessageId | None = None
    root: str = ""
    rewind: str = ""


class TaskReleased(Record, frozen=True, tag="task_released"):
    """Nobody waits for this task any more; its end will be told."""

    task: Task


class TaskEnded(Record, frozen=True, tag="task_ended"):
    """A task that nobody waited for has come to its final state. It has been told once a message with the id
    `rules.tasks.told_id` stands in the conversation, or a `TaskTold` follows."""

    task: TaskId
    state: TaskState
    summary: str = ""
    exit_code: int | None = None


class TaskTold(Record, frozen=True, tag="task_told"):
    """The model has learned of the task's end by the result of a call."""

    task: TaskId


class Paid(Record, frozen=True, tag="paid"):
    """A request was answered: what it used and cost. `cache_miss` names what changed since the one before."""

    model: str
    purpose: Purpose
    usage: Usage
    cost_usd: float
    cache_miss: str = ""


class Standing(Struct, frozen=True, omit_defaults=True):
    """Where an agent stood: what a reader needs that does not go back beyond a boundary."""

    cwd: str
    files: dict[str, FileSeen] = {}
    todos: tuple[Todo, ...] = ()
    loaded_tools: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    title: str = ""
    models: dict[str, Spend] = {}
    compactions: int = 0
    queued: tuple[User, ...] = ()
    ratio: float = 0.0
    """Characters per token, as learned so far; 0: not yet."""
    tasks: tuple[Task, ...] = ()
    """Those that were let go of and whose end the model has not been told."""


class Compacted(Record, frozen=True, tag="compacted"):
    """A boundary: the model goes on with `messages` in place of all that led to `parent`."""

    id: MessageId
    messages: tuple[Message, ...]
    parent: MessageId | None = None
    how: Literal["summary", "snip"] = "summary"
    trigger: Literal["auto", "manual", "forced"] = "auto"
    words: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    standing: Standing | None = None


class Uncompacted(Record, frozen=True, tag="uncompacted"):
    """That boundary does not count any more: the history before it is back."""

    boundary: MessageId


class Stub(Struct, frozen=True):
    """What stands in place of an old result."""

    call: CallId
    text: str


class Trimmed(Record, frozen=True, tag="trimmed"):
    """Old results gave way to one line each; the originals stay in their messages in this file."""

    stubs: tuple[Stub, ...]
    freed: int = 0


class Folded(Record, frozen=True, tag="folded"):
    """A finished stretch of the conversation is shown to the model as `text`, from message `first` to `last`."""

    id: MessageId
    first: MessageId
    last: MessageId
    text: str
    freed: int = 0


class Unfolded(Record, frozen=True, tag="unfolded"):
    """That fold does not count any more."""

    fold: MessageId


class Rewound(Record, frozen=True, tag="rewound"):
    """The conversation goes on after the node `to`; `None`: from its beginning."""

    to: MessageId | None = None


class Titled(Record, frozen=True, tag="titled"):
    """The session has a name."""

    title: str
    by: Literal["person", "model"] = "person"


class TurnEnded(Record, frozen=True, tag="turn_ended"):
    """A turn came to rest. `models` is what the session has spent so far."""

    reason: str
    steps: int
    cost_usd: float
    title: str = ""
    models: dict[str, Spend] = {}


AnyRecord = (
    Opened
    | Resumed
    | Forked
    | Said
    | Queued
    | Withdrawn
    | Started
    | Finished
    | Voided
    | StateChanged
    | FilesChanged
    | TaskReleased
    | TaskEnded
    | TaskTold
    | Paid
    | Compacted
    | Uncompacted
    | Trimmed
    | Folded
    | Unfolded
    | Rewound
    | Titled
    | TurnEnded
)
