"""The compactions of a transcript: when they were made, why, and what came of them."""

from collections.abc import Sequence

from msgspec import Struct

from tugline.protocol.blocks import Text
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import Assistant, Message
from tugline.protocol.records import AnyRecord, Compacted, Uncompacted


class Compaction(Struct, frozen=True):
    """One compaction. `how` is `summary` or `snip`, `trigger` is `auto`, `manual` or `forced`; `words` are what the
    person asked to be kept; `undone`: the history before it was brought back; `summary` is what stands in its place."""

    id: MessageId
    time: float
    trigger: str
    how: str
    tokens_before: int
    tokens_after: int
    words: str
    undone: bool
    summary: str


def compactions(records: Sequence[AnyRecord]) -> tuple[Compaction, ...]:
    """All compactions among these records, oldest first. Takes all records of a file."""
    undone = {record.boundary for record in records if isinstance(record, Uncompacted)}
    return tuple(
        Compaction(
            id=record.id,
            time=record.time,
            trigger=record.trigger,
            how=record.how,
            tokens_before=record.tokens_before,
            tokens_after=record.tokens_after,
            words=record.words,
            undone=record.id in undone,
            summary=summary_text(record.messages),
        )
        for record in records
        if isinstance(record, Compacted)
    )


def summary_text(messages: Sequence[Message]) -> str:
    """The summary among the messages of a boundary. What the engine says of it stands in parts of its own before it."""
    found: list[str] = []
    for message in messages:
        if isinstance(message, Assistant):
            break  # what a cut has left is no summary, though it may hold folds
        if message.source == "summary":
            texts = [block.text for block in message.content if isinstance(block, Text)]
            found.extend(texts[-1:])
    return "\n\n".join(found)
