"""What the loop needs from outside, as protocols. One page; every adapter answers one of these."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from msgspec import Struct

from tugline.protocol.chunks import Chunk
from tugline.protocol.commands import PromptContent
from tugline.protocol.ids import AgentId, CallId, MessageId, TaskId
from tugline.protocol.messages import Message
from tugline.protocol.permissions import Inquiry, InquiryAnswer, PermissionAnswer, PermissionQuestion
from tugline.protocol.records import AnyRecord, Compacted, FileState, Folded, Trimmed
from tugline.protocol.specs import (
    AgentState,
    Content,
    Footprint,
    ModelCard,
    ModelRequest,
    Progress,
    Purpose,
    Result,
    Subject,
    ToolSpec,
)
from tugline.protocol.tasks import Released, Task, TaskKind, TaskState
from tugline.rules.permission import Query


class Provider(Protocol):
    """Answers requests. Wrappers (retry, fallback, record) are providers too."""

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        """Send the request; inside, iterate batches of chunks (`protocol.chunks` states their order).

        Raises `ProviderError`. A stream that ends without `ReplyEnded` is an error, never a short reply. Leaving the
        context closes the connection.
        """
        ...

    def card(self, model: str) -> ModelCard:
        """What is known of a model; safe defaults for an unknown one."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class ToolContext(Struct, frozen=True, eq=False):
    """What one call gets to see."""

    call: CallId
    agent: AgentId
    state: AgentState
    workspace: "Workspace"
    model: ModelCard
    report: Callable[[Progress], None]


class Tool(Protocol):
    """Something the model can call. `footprint` and `subjects` are pure: they decide without running anything.

    A tool that has `filtered = True` leaves out of its results what deny rules for reading name.
    """

    name: str
    spec: ToolSpec
    deferred: bool
    """Only its name stands in the prompt until ToolSearch loads it."""
    result_limit: int
    """Characters for the model before the full text goes to a file instead."""
    interrupt: str
    """`cancel`: an interrupt ends the call; `block`: it may finish."""
    family: str
    """Calls of one family are cancelled when a changing sibling of it fails (`shell`); empty for most."""

    def parse(self, data: dict[str, Any]) -> Any:
        """The typed input, or `ToolError` that names the field and what was expected."""
        ...

    def footprint(self, data: Any) -> Footprint: ...

    def subjects(self, data: Any) -> tuple[Subject, ...]:
        """What permission rules match."""
        ...

    def title(self, data: Any) -> str:
        """One short line that tells a person what this call does."""
        ...

    async def run(self, data: Any, context: ToolContext) -> Result:
        """Do it. `ToolError` for what the model should read; anything else that escapes becomes an error result."""
        ...


class ToolWrapper:
    """A tool that does what another one does. What is put around it stands in `run`."""

    def __init__(self, tool: Tool) -> None:
        self.name = tool.name
        self.spec = tool.spec
        self.deferred = tool.deferred
        self.result_limit = tool.result_limit
        self.interrupt = tool.interrupt
        self.family = tool.family
        self.filtered: bool = getattr(tool, "filtered", False)
        self._tool = tool

    def parse(self, data: dict[str, Any]) -> Any:
        """The tool's."""
        return self._tool.parse(data)

    def footprint(self, data: Any) -> Footprint:
        """The tool's."""
        return self._tool.footprint(data)

    def subjects(self, data: Any) -> tuple[Subject, ...]:
        """The tool's."""
        return self._tool.subjects(data)

    def title(self, data: Any) -> str:
        """The tool's."""
        return self._tool.title(data)

    async def run(self, data: Any, context: ToolContext) -> Result:
        """The tool's."""
        return await self._tool.run(data, context)


class FileStat(Struct, frozen=True):
    """A file as the system knows it. `path` is the resolved one; `kind` is `file`, `folder` or `other`."""

    path: str
    kind: str
    size: int
    mtime_ns: int
    mode: int


class ProcessEnd(Struct, frozen=True):
    """How a process ended. `status` is negative for a signal; `report` is what it wrote to the descriptor for that."""

    status: int
    timed_out: bool = False
    flooded: bool = False
    report: bytes = b""
    notes: tuple[str, ...] = ()
    """What the sandbox refused, each in one line for the model."""


class Output(Struct, frozen=True):
    """What a process printed so far: the first and the last part, sizes, and the file that has all of it (to 64 MiB),
    if any. `whole`: nothing is missing between head and tail."""

    head: str
    tail: str
    size: int
    lines: int
    spill: str | None = None
    whole: bool = True


class Confinement(Struct, frozen=True):
    """How the workspace's sandbox, where it has one, holds a process. `call` is the call that it runs for. `read_only`:
    it writes nowhere but in its own temporary folder; without a sandbox it is not started."""

    call: CallId = CallId("")
    read_only: bool = False


class Process(Protocol):
    """A running process. Its stdout and stderr are one stream, unless it was started with `apart`. It dies with the
    context that it was started in."""

    pid: int

    def output(self) -> Output: ...

    def errors(self) -> Output:
        """What it wrote to stderr; only where that is `apart`."""
        ...

    async def wait(self) -> ProcessEnd:
        """Until it has ended and its output is read; at most half a second longer than its exit."""
        ...

    def unbound(self) -> str | None:
        """From now on it has no time limit, and a file has all that it has printed and prints (to 64 MiB): its path,
        or `None` where it cannot be kept."""
        ...


class Workspace(Protocol):
    """Files and processes that an agent may touch. Paths are absolute. Raises `WorkspaceError`."""

    roots: tuple[str, ...]
    """The allowed directories, resolved; the first is the main one."""

    def resolve(self, path: str, cwd: str) -> tuple[str, str]:
        """The absolute path by name (`~` and `.` and `..` resolved component-wise), and what it really points to."""
        ...

    async def stat(self, path: str) -> FileStat | None: ...

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> tuple[bytes, FileStat]:
        """Bytes of a regular file; devices, pipes and the like are refused."""
        ...

    async def write(self, path: str, data: bytes, *, expect: FileStat | None) -> FileStat:
        """Replace or create atomically, mode and links kept, parents made. `expect`: the file must still be that one
        (`None`: must not exist), else `WorkspaceError("changed")`."""
        ...

    async def entries(self, path: str) -> Sequence[tuple[str, str]]:
        """Names and kinds in a folder, sorted."""
        ...

    def process(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        spill: bool = True,
        report: bool = False,
        apart: bool = False,
        keep: int = 15_000,
        on_output: Callable[[Output], None] | None = None,
        confine: Confinement | None = None,
    ) -> AbstractAsyncContextManager[Process]:
        """Start a process in a group of its own; leaving the context ends all that it started (TERM, 2 s, KILL).

        `stdin`: what it reads, else `/dev/null`. `report`: it gets one more descriptor to write to, whose number is in
        its environment as `TUGLINE_REPORT`. `apart`: stderr is kept by itself, for `Process.errors`. `keep`:
        characters kept at each end in memory. `env`: added to the workspace's own. `on_output` is told of more output,
        ten times a second at most. `confine`: it is what the model asked for, and belongs into the sandbox; without, it
        is a program of ours.
        """
        ...


class WorkspaceError(Exception):
    """`kind`: missing, denied, changed, exists, folder, irregular, full, gone, invalid. The text is for the model."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Moved(Struct, frozen=True):
    """A file that is not as it was at the look before. `path` is absolute."""

    path: str
    before: FileState | None
    after: FileState | None


class Unlookable(Exception):
    """The tree cannot be looked at; the text is for a person. `final`: it is no use to try again."""

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


class Log(Protocol):
    """A transcript file. One writer."""

    path: str

    def append(self, record: AnyRecord) -> None:
        """Write the line now (it survives the process); raises `SessionError` if it cannot be written."""
        ...

    def read(self, *, whole: bool = False) -> Sequence[AnyRecord]:
        """What is in it, in order: the first record and those from the last boundary on, or all."""
        ...

    async def durable(self) -> None:
        """Until all that was appended so far is on the disk."""
        ...

    async def aclose(self) -> None: ...


class Spill(Protocol):
    """Keeps what is too big for the conversation."""

    def keep(self, name: str, text: str) -> str:
        """Store it; returns the path that the model is told. Quick: a local write."""
        ...


class Questioner(Protocol):
    """Asks the person in front, if there is one."""

    async def inquire(self, call: CallId, inquiries: tuple[Inquiry, ...]) -> InquiryAnswer | None:
        """`None`: there is nobody to ask."""
        ...


class Planner(Protocol):
    """Plan mode, for the tools that begin and end it."""

    def enter(self) -> str:
        """Begin it; what the model is told. `ToolError` where it cannot."""
        ...

    async def present(self, call: CallId, plan: str) -> Result:
        """Ask the person whether the plan (or what its file says, where it is empty) is to be carried out."""
        ...


class Responder(Protocol):
    """Answers a permission question before a person is bothered with it: a classifier, hooks, a tool of a server, a
    host's function. They are asked in their order, and the first answer counts."""

    name: str
    """What is said to have decided, such as `the classifier`."""

    async def respond(self, question: PermissionQuestion, query: Query) -> PermissionAnswer | None:
        """`query` is the call as the rules see it. `None`: no opinion. Never raises."""
        ...


class Tether(Protocol):
    """What work that may be let go of knows of itself."""

    @property
    def task(self) -> TaskId:
        """Its id."""
        ...

    def begun(self, on_release: Callable[[], str]) -> None:
        """It is under way: a call that asked for the background has its result now. `on_release` is called once nobody
        waits any more, and returns the path of the file in which its output can be read."""
        ...

    def report(self, progress: Progress) -> None:
        """Give a sign of life, to whoever is told."""
        ...

    def release(self, why: Released) -> bool:
        """Let whoever waits go; false where that is not allowed, or nobody waits."""
        ...

    @property
    def released(self) -> bool:
        """Whether nobody waits any more."""
        ...


class TaskEnd(Struct, frozen=True):
    """What came of work: the result for whoever waited, and how a task that nobody waited for ended."""

    result: Result
    state: TaskState = "completed"
    summary: str = ""
    exit_code: int | None = None


Work = Callable[[Tether], Awaitable[TaskEnd]]


class TaskRunner(Protocol):
    """Runs work beside its call, so that the call can end before it."""

    async def run(
        self, work: Work, context: "ToolContext", *, kind: TaskKind, description: str, background: bool = False
    ) -> Result:
        """The work's own result; or, once somebody has let go of it, that it goes on. `background`: at once. If the
        call is cancelled while it waits, the work is."""
        ...


class TaskDesk(Protocol):
    """Looks at tasks that nobody waits for."""

    def find(self, task: str) -> Task | None: ...

    def all(self) -> tuple[Task, ...]: ...

    async def wait(self, task: TaskId, seconds: float) -> Task:
        """Until it is over, or that long. Who waits is told of its end by that, and by nothing else."""
        ...

    def news(self, task: TaskId) -> str:
        """What it has said since the last look; of much the end."""
        ...

    async def stop(self, task: TaskId) -> Task:
        """End it; the model is told by that."""
        ...


class SideModel(Protocol):
    """A small model for errands."""

    async def complete(self, prompt: str, *, purpose: Purpose, model: str = "") -> str:
        """The answer's text; `model` where it is to be another one. Raises `ProviderError`."""
        ...


class Clock(Protocol):
    def time(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float: ...


class Ids(Protocol):
    def message(self) -> MessageId: ...

    def new(self, kind: str) -> str:
        """A fresh id; `kind` is a short prefix."""
        ...


class StopHook(Protocol):
    """Runs when a reply asks for no tool. The contents come from `extensions`."""

    async def on_stop(self, text: str, active: bool) -> str | None:
        """A reason to go on, or `None`. `active`: the loop goes on because of such a reason already."""
        ...


class ToolHooks(Responder, Protocol):
    """What of the user's own runs around calls, and may answer the question about one. `query` is the call as the rules
    see it. None of these raises."""

    async def before(self, call: CallId, query: Query) -> "HookVerdict":
        """A call is about to be judged."""
        ...

    async def denied(self, call: CallId, query: Query, reason: str) -> tuple[str, ...]:
        """A call was denied, but not by a person or a hook; words for the model."""
        ...

    async def after(self, call: CallId, query: Query, result: Result, duration: float) -> "HookAfter":
        """A call has run."""
        ...

    async def batch(self) -> "HookAfter":
        """All calls of a reply have ended, and another request would follow."""
        ...


class HookVerdict(Struct, frozen=True, omit_defaults=True):
    """What hooks say before a call: `allow`, `ask`, `deny` or nothing. `stop` ends the turn with that reason."""

    decision: str = ""
    reason: str = ""
    input: dict[str, Any] | None = None
    context: tuple[str, ...] = ()
    stop: str | None = None


class HookAfter(Struct, frozen=True, omit_defaults=True):
    """What hooks say after a call. `output` takes the place of what the model would read."""

    context: tuple[str, ...] = ()
    stop: str | None = None
    output: Content | None = None


class Briefing(Protocol):
    """What an agent is told from files of instructions."""

    async def give(self) -> None:
        """Before a prompt is recorded: what is due joins the conversation."""
        ...

    async def anew(self, room: int | None = None) -> PromptContent:
        """What is told at the start, from the disk, in at most so many tokens: for a conversation that is compacted."""
        ...

    def recall(self) -> None:
        """Before a request: know what of it the conversation still tells, which may be another one by now."""
        ...


Shrink = Compacted | Trimmed | Folded
"""A way to show the model less of the history, as the record that says so."""


class Compactor(Protocol):
    """The seam before each step: what the model sees of the history."""

    async def before_step(
        self, messages: Sequence[Message], tokens: int, card: ModelCard, *, force: bool
    ) -> Shrink | None:
        """What is to be done next so that the history fits; asked again with what came of it, until `None`.

        `force`: the provider has said that it is too long. What is returned takes effect at once, and is recorded; the
        agent adds where it stood."""
        ...


class CompactionVerdict(Struct, frozen=True, omit_defaults=True):
    """What hooks say before a compaction: further instructions for the summary, or why there is to be none."""

    instructions: tuple[str, ...] = ()
    block: str | None = None


class CompactionHooks(Protocol):
    """Runs around a compaction. `trigger` is `manual` or `auto`, `words` what the person asked to be kept."""

    async def before_compaction(self, trigger: str, words: str) -> CompactionVerdict: ...

    async def additions(self) -> tuple[str, ...]:
        """What is to be told at the beginning of the conversation that is left (`SessionStart` with `compact`)."""
        ...

    async def after_compaction(self, trigger: str, summary: str) -> None:
        """It has taken effect."""
        ...


class Keepsake(Protocol):
    """Something that a conversation takes along through a compaction: files, todos, skills, a plan, running tasks."""

    async def recall(self, room: int, card: ModelCard) -> str:
        """As it stands now, in at most so many tokens; empty: there is nothing."""
        ...
