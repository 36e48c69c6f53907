"""An agent's conversation: append-only, durable, always fit to be sent."""

from collections import deque
from collections.abc import Iterable, Sequence

from tugline.ports import Clock, Log
from tugline.protocol.blocks import Text, ToolResult, ToolUse
from tugline.protocol.errors import SessionError
from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.messages import Assistant, Message
from tugline.protocol.records import AnyRecord, Finished, Said, Started, TurnEnded, Voided
from tugline.protocol.usage import Usage
from tugline.rules import tokens
from tugline.rules.tokens import Gauge


class Transcript:
    """The messages of one agent, their size, and their record on disk. Only that agent's turn writes it."""

    def __init__(self, log: Log, clock: Clock, history: Sequence[Message] = ()) -> None:
        self.messages: list[Message] = []
        self.gauge = Gauge()
        self.call_ids: set[CallId] = set()
        self.trouble = ""
        """Why something is not written yet; empty: all is."""
        self._unsaved: deque[AnyRecord] = deque()
        self._log = log
        self._clock = clock
        for message in history:
            self._keep(message)

    def _keep(self, message: Message) -> None:
        self.messages.append(message)
        self.gauge = tokens.add(self.gauge, tokens.weigh(message))
        if isinstance(message, Assistant):
            self.call_ids.update(block.id for block in message.content if isinstance(block, ToolUse))

    def _write(self, record: AnyRecord) -> None:
        self._unsaved.append(record)
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

    def add(self, message: Message) -> None:
        """A message joins the conversation; it is written, and durable after the next `durable()`."""
        parent = self.messages[-1].id if self.messages else None
        self._write(Said(message=message, parent=MessageId(parent) if parent else None, time=self._clock.time()))
        self._keep(message)

    def add_reply(self, reply: Assistant) -> None:
        """A reply joins; its usage tells how large the context really is."""
        self.add(reply)
        if reply.usage != Usage():
            self.gauge = tokens.report(self.gauge, reply.usage)

    def weigh_fixed(self, characters: int) -> None:
        """Count what stands in every request beside the messages (system prompt, tool schemas), once."""
        self.gauge = tokens.add(self.gauge, tokens.Weight(characters))

    def call_started(self, call: CallId, tool: str, reply: str) -> None:
        """A call is about to run."""
        self._write(Started(call=call, tool=tool, reply=reply, time=self._clock.time()))

    def call_finished(self, result: ToolResult, reply: str) -> None:
        """A call's result, before it has its place in a message."""
        self._write(Finished(result=result, reply=reply, time=self._clock.time()))

    def void(self, reply: str) -> None:
        """What was started for this reply does not count."""
        self._write(Voided(reply=reply, time=self._clock.time()))

    def turn_ended(self, reason: str, steps: int, cost_usd: float) -> None:
        """The turn came to rest."""
        self._write(TurnEnded(reason=reason, steps=steps, cost_usd=cost_usd, time=self._clock.time()))

    def replace(self, messages: Iterable[Message]) -> None:
        """Go on with a shorter history (compaction); the record keeps the former one."""
        gauge = self.gauge
        self.messages = []
        self.gauge = Gauge(ratio=gauge.ratio)
        for message in messages:
            self._keep(message)

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
