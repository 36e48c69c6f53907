"""The lines of a transcript file: append-only, one JSON object per line (`docs/reference/transcript.md`)."""

from msgspec import Struct

from tugline.protocol.blocks import ToolResult
from tugline.protocol.ids import AgentId, CallId, MessageId, SessionId
from tugline.protocol.messages import Message

FORMAT = 1


class Record(Struct, frozen=True, tag_field="kind", omit_defaults=True, kw_only=True):
    """What every line has. `n` counts the lines of a file from 1; `time` is seconds since the epoch."""

    n: int = 0
    time: float = 0.0


class Opened(Record, frozen=True, tag="opened"):
    """The first line: what this file is."""

    format: int
    session: SessionId
    agent: AgentId
    cwd: str
    version: str


class Said(Record, frozen=True, tag="said"):
    """A message joined the conversation, after the message `parent`."""

    message: Message
    parent: MessageId | None = None


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


class TurnEnded(Record, frozen=True, tag="turn_ended"):
    """A turn came to rest."""

    reason: str
    steps: int
    cost_usd: float


AnyRecord = Opened | Said | Started | Finished | Voided | TurnEnded
