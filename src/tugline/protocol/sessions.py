"""What is told of sessions that are on the disk: one in a list, what was said in it, and where words were found."""

from typing import Literal, get_args

from msgspec import Struct

from tugline.protocol.ids import SessionId
from tugline.protocol.messages import Message
from tugline.protocol.records import Compacted

ExportFormat = Literal["markdown", "json", "html"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
"""What a conversation can be exported as."""


class SessionSummary(Struct, frozen=True, omit_defaults=True):
    """What a list of sessions shows of one. `changed` and `started` are seconds since 1970; `problem` says why it
    cannot be read."""

    session: SessionId
    path: str
    archived: bool
    size: int
    changed: float
    started: float = 0.0
    cwd: str = ""
    branch: str = ""
    title: str = ""
    prompt: str = ""
    cost_usd: float = 0.0
    busy: bool = False
    problem: str = ""


class Passage(Struct, frozen=True):
    """A message or a boundary of a conversation, in the order of its transcript.

    `n` is its record's number. `turn` counts the person's prompts, as `/rewind` does; 0 stands before the first.
    `aside`: a rewind took it out of the conversation."""

    n: int
    time: float
    turn: int
    said: Message | Compacted
    aside: bool = False


class Hit(Struct, frozen=True):
    """Where words were found. `who` says it: `person`, `model`, or `title`; `n` is the record's number."""

    session: SessionId
    title: str
    n: int
    time: float
    who: str
    excerpt: str
