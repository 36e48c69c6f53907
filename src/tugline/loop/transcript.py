"""An agent's conversation: append-only, durable, always fit to be sent."""

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec import structs

from tugline.ports import Clock, Log
from tugline.protocol.blocks import Text, ToolResult, ToolUse
from tugline.protocol.errors import SessionError
from tugline.protocol.ids import CallId, MessageId, TaskId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.records import (
    AnyRecord,
    Compacted,
    FilesChanged,
    Finished,
    Folded,
    Paid,
    Queued,
    Said,
    Started,
    StateChanged,
    Stub,
    TaskEnded,
    TaskReleased,
    TaskTold,
    Titled,
    Trimmed,
    TurnEnded,
    Voided,
    Withdrawn,
)
from tugline.protocol.specs import Change, Instructed, Purpose, Reminder
from tugline.protocol.tasks import Task
from tugline.protocol.usage import Spend, Usage
from tugline.rules import tokens
from tugline.rules.history import History, with_fold, with_stubs
from tugline.rules.outline import FOLDED
from tugline.rules.tasks import told_id
from tugline.rules.tokens import Gauge, Weight


class Transcript:
    """The messages of one agent, their size, and their record on disk. Only that agent's turn writes it."""

    def __init__(self, log: Log, clock: Clock, history: Sequence[Message] = ()) -> None:
        self.messages: list[Message] = []
        """What the model sees."""
        self.epoch = 0
        """Grows with each change of what stood there already; while it stays, messages are only added."""
        self.change = ""
        """What the last such change was."""
        self.head: MessageId | None = None
        self.gauge = Gauge()
        self.call_ids: set[CallId] = set()
        self.queued: dict[MessageId, User] = {}
        """What a person sent and no turn has taken up yet."""
        self.tasks: dict[TaskId, Task] = {}
        """Those that were let go of and whose end the model has not been told."""
        self.title = ""
        self.compactions = 0
        self.trouble = ""
        """Why something is not written yet; empty: all is."""
        self._fixed = Weight()
        self._unsaved: deque[AnyRecord] = deque()
        self._log = log
        self._clock = clock
        for message in history:
            self._keep(message)
            self.head = message.id

    @property
    def path(self) -> str:
        """The file, if there is one."""
        return self._log.path

    def _keep(self, message: Message) -> None:
        self.messages.append(message)
        self.gauge = tokens.add(self.gauge, tokens.weigh(message))
        if isinstance(message, Assistant):
            self.call_ids.update(block.id for block in message.content if isinstance(block, ToolUse))

    def _write(self, record: AnyRecord) -> None:
        self._unsaved.append(structs.replace(record, time=self._clock.time()))
        try:
            self._save()
        except SessionError as error:
            # kept, tried again with the next record, and raised by `durable`, where the turn can act on it
            self.trouble = str(error)

    def _save(self) -> None:
        while self._unsaved:
            self._log.append(self._unsaved[0])
            self._unsaved.popleft()
        self.trouble = ""

    # -- messages

    def add(self, message: Message) -> None:
        """A message joins the conversation; it is written, and durable after the next `durable()`."""
        self._write(Said(message=message, parent=self.head))
        self.head = message.id
        self.queued.pop(message.id, None)
        if self.tasks:
            for task in [task for task in self.tasks if told_id(task) == message.id]:
                del self.tasks[task]
        self._keep(message)

    def add_reply(self, reply: Assistant) -> None:
        """A reply joins; its usage tells how large the context really is."""
        self.add(reply)
        if reply.usage != Usage():
            self.gauge = tokens.report(self.gauge, reply.usage)

    def queue(self, message: User) -> None:
        """Words that a person sends while a turn runs: kept, so that they are not lost if it never comes to them."""
        self.queued[message.id] = message
        self._write(Queued(message=message))

    def withdraw(self, message: MessageId) -> None:
        """Queued words are taken back."""
        if self.queued.pop(message, None) is not None:
            self._write(Withdrawn(message=message))

    def weigh_fixed(self, characters: int) -> None:
        """Count what stands in every request beside the messages (system prompt, tool schemas), once."""
        self._fixed = Weight(self._fixed.characters + characters)
        if not self.gauge.reported:  # what was reported has it in
            self.gauge = tokens.add(self.gauge, Weight(characters))

    # -- calls

    def call_started(self, call: CallId, tool: str, reply: str) -> None:
        """A call is about to run."""
        self._write(Started(call=call, tool=tool, reply=reply))

    def call_finished(self, result: ToolResult, reply: str) -> None:
        """A call's result, before it has its place in a message."""
        self._write(Finished(result=result, reply=reply))

    def void(self, reply: str) -> None:
        """What was started for this reply does not count."""
        self._write(Voided(reply=reply))

    def state_changed(self, changes: Iterable[Change]) -> None:
        """The agent's state moved. Reminders and instructions are letters, and recorded as such."""
        lasting = tuple(change for change in changes if not isinstance(change, Reminder | Instructed))
        if lasting:
            self._write(StateChanged(changes=lasting, node=self.head))

    def files_changed(self, record: FilesChanged) -> None:
        """Calls, or something else, changed files."""
        self._write(structs.replace(record, node=self.head))

    # -- tasks

    def task_released(self, task: Task) -> None:
        """Nobody waits for the task any more; from now on its end is told."""
        self.tasks[task.id] = task
        self._write(TaskReleased(task=task))

    def task_ended(self, task: Task) -> None:
        """Such a task has come to its final state."""
        self.tasks[task.id] = task
        self._write(TaskEnded(task=task.id, state=task.state, summary=task.summary, exit_code=task.exit_code))

    def task_told(self, task: TaskId) -> None:
        """The model has learned of its end by the result of a call."""
        if self.tasks.pop(task, None) is not None:
            self._write(TaskTold(task=task))

    # -- turns

    def paid(self, model: str, purpose: Purpose, usage: Usage, cost_usd: float, cache_miss: str = "") -> None:
        """A request was answered and costs so much."""
        self._write(Paid(model=model, purpose=purpose, usage=usage, cost_usd=cost_usd, cache_miss=cache_miss))

    def turn_ended(self, reason: str, steps: int, cost_usd: float, models: dict[str, Spend]) -> None:
        """The turn came to rest."""
        self._write(TurnEnded(reason=reason, steps=steps, cost_usd=cost_usd, title=self.title, models=models))

    def rename(self, record: Titled) -> None:
        """The session has a name."""
        self.title = record.title
        self._write(record)

    # -- what the model sees of it

    def compact(self, boundary: Compacted) -> None:
        """Go on behind a boundary, with its messages in place of all before. The record keeps what was."""
        self._write(structs.replace(boundary, parent=self.head))
        self.head = boundary.id
        self.compactions += 1
        self._show(boundary.messages, "compaction" if boundary.how == "summary" else boundary.how)

    def trim(self, stubs: Sequence[Stub], freed: int) -> None:
        """Old results give way to a line each."""
        self._write(Trimmed(stubs=tuple(stubs), freed=freed))
        self._show(with_stubs(self.messages, stubs), "old results trimmed")

    def fold(self, folded: Folded) -> None:
        """A finished stretch is shown by its outcome."""
        self._write(folded)
        self._show(with_fold(self.messages, folded), FOLDED)

    def note(self, record: AnyRecord) -> None:
        """Write a record that changes nothing here: `restore` follows, or the file is only told of it."""
        self._write(record)

    def size_with(self, messages: Iterable[Message]) -> int:
        """The tokens of the context with these messages in place of its own."""
        parts = tokens.total([tokens.weigh(message) for message in messages])
        return tokens.add(tokens.add(Gauge(ratio=self.gauge.ratio), self._fixed), parts).tokens()

    def room_within(self, size: int) -> int:
        """The characters that messages may have in a context of so many tokens."""
        return max(0, int(size * self.gauge.ratio) - self._fixed.characters)

    def _show(self, messages: Iterable[Message], change: str) -> None:
        """Other messages stand there now; their size is an estimate until the next report."""
        shown = list(messages)
        self.epoch += 1
        self.change = change
        self.messages = []
        self.gauge = tokens.add(Gauge(ratio=self.gauge.ratio), self._fixed)
        for message in shown:
            self._keep(message)

    def restore(self, history: History) -> None:
        """Go on with what the file says. What it lacks at the end (results of calls that a crash cut off) is added."""
        mended = {message.id for message in history.mended}
        self.epoch += 1
        self.change = "rewound"
        self.messages = []
        self.gauge = tokens.add(Gauge(ratio=history.standing.ratio or self.gauge.ratio), self._fixed)
        self.head = history.head
        self.title = history.standing.title
        self.compactions = history.standing.compactions
        self.queued = {message.id: message for message in history.standing.queued}
        self.tasks = {task.id: task for task in history.standing.tasks}
        for index, message in enumerate(history.messages):
            if message.id in mended:
                self.add(message)
                continue
            self._keep(message)
            if index >= history.stale and isinstance(message, Assistant) and message.usage != Usage():
                self.gauge = tokens.report(self.gauge, message.usage)

    async def durable(self) -> None:
        """Until all that was added so far is on the disk; raises `SessionError` if it cannot be."""
        self._save()
        await self._log.durable()

    def last_text(self) -> str:
        """The text of the last reply."""
        for message in reversed(self.messages):
            if isinstance(message, Assistant):
                return "".join(block.text for block in message.content if isinstance(block, Text))
            if message.source == "person":
                break
        return ""
