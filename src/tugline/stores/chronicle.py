"""A transcript from its beginning, in the order of its file and in bounded memory: for those who read or export it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, structs
from msgspec.json import Decoder

from tugline.protocol.blocks import ToolUse
from tugline.protocol.errors import SessionError
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import Assistant, User
from tugline.protocol.records import (
    AnyRecord,
    Compacted,
    FilesChanged,
    Opened,
    Rewound,
    Said,
    Started,
    Uncompacted,
)
from tugline.protocol.sessions import Passage
from tugline.rules.history import Tree
from tugline.stores.lines import last_line_start, lines_forward
from tugline.stores.reading import UNREADABLE, decode, open_regular, opening


class _Message(Struct):
    id: MessageId


class _Said(Struct, tag_field="kind", tag="said"):
    message: _Message
    parent: MessageId | None = None


class _Compacted(Struct, tag_field="kind", tag="compacted"):
    id: MessageId
    parent: MessageId | None = None


_read_shape = Decoder(_Said | _Compacted | Uncompacted | Rewound).decode


class Chronicle:
    """What stands in a transcript. Its length is that of the moment when it was opened; somebody may be writing it.

    `damaged` lines cannot be read, and `unknown` ones are a newer version's; both are known when it has been read.
    """

    def __init__(self, fd: int) -> None:
        self.damaged = 0
        self.unknown = 0
        self._fd = fd
        self._end = last_line_start(fd, os.fstat(fd).st_size)

    def records(self) -> Iterator[tuple[int, AnyRecord]]:
        """Each record that can be read, with its number: its own, or that of its line."""
        self.damaged = self.unknown = 0
        for count, line in enumerate(lines_forward(self._fd, end=self._end), 1):
            record = decode(line)
            if isinstance(record, str):
                self.damaged += record == "damaged"
                self.unknown += record == "unknown"
            else:
                yield record.n or count, record

    def boundaries(self) -> list[AnyRecord]:
        """The compactions, and what undid them."""
        return [record for _, record in self.records() if isinstance(record, Compacted | Uncompacted)]

    def changing(self) -> list[AnyRecord]:
        """What tells who changed which files: the changes, the prompts, the calls; not the results, which are most."""
        return [kept for _, record in self.records() if (kept := _of_changes(record)) is not None]

    def passages(self) -> Iterator[Passage]:
        """The conversation, with what was taken out of it."""
        way = self._way()
        seen: set[MessageId] = set()
        turn = 0
        for n, record in self.records():
            if not isinstance(record, Said | Compacted):
                continue
            said = record.message if isinstance(record, Said) else record
            if said.id in seen:
                continue
            seen.add(said.id)
            aside = said.id not in way
            if isinstance(said, User) and said.source == "person" and not aside:
                turn += 1
            yield Passage(n, record.time, turn, said, aside)

    def _way(self) -> set[MessageId]:
        """The nodes that lead to the head, through all boundaries. Reads shapes only, not what was said."""
        shapes: list[AnyRecord] = []
        for line in lines_forward(self._fd, end=self._end):
            if line is None:
                continue
            try:
                shape = _read_shape(line)
            except UNREADABLE:
                continue
            match shape:
                case _Said(message=message, parent=parent):
                    shapes.append(Said(message=User(message.id, ()), parent=parent))
                case _Compacted(id=identity, parent=parent):
                    shapes.append(Compacted(id=identity, messages=(), parent=parent))
                case Uncompacted() | Rewound():
                    shapes.append(shape)
        tree = Tree(shapes)
        return tree.chain(tree.head, through=True).ids


def _of_changes(record: AnyRecord) -> AnyRecord | None:
    """The record, if it tells of changes."""
    match record:
        case FilesChanged() | Opened() | Started():
            return record
        case Said(message=User(source="person")):
            return record
        case Said(message=Assistant(content=content) as message):
            uses = tuple(block for block in content if isinstance(block, ToolUse))
            return Said(message=structs.replace(message, content=uses), time=record.time) if uses else None
        case _:
            return None


@contextmanager
def open_chronicle(path: str) -> Iterator[Chronicle]:
    """Read a transcript; `SessionError` where it cannot be read, or is none of ours."""
    fd = open_regular(path, os.O_RDONLY)
    try:
        opening(fd, path)
        yield Chronicle(fd)
    except OSError as error:
        raise SessionError(f"The session {path} cannot be read: {error.strerror}.") from error
    finally:
        os.close(fd)
