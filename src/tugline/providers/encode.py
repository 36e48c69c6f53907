"""Messages as bytes for the wire: each is serialised once, requests are joined from what was kept.

A conversation's messages become entries; neighbouring entries of one role become one group, in which results stand
before everything else, as all providers demand.
"""

import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from tugline.protocol import codec
from tugline.protocol.blocks import Document, Image, Text, ToolResult, ToolUse
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.specs import ModelCard, ModelRequest, ToolSpec

KEPT_CONVERSATIONS = 1024
KEPT_BYTES = 32 * 1024 * 1024
"""How much is kept for conversations other than the one at hand."""

NO_OUTPUT = "(no output)"
TAIL_GROUPS = 6
"""Groups at the end of a conversation that markers may still move among."""

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_NOT_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Entry(Struct, frozen=True, eq=False):
    """One message on the wire: comma-joined JSON values, results of calls apart from the rest.

    `text` is the rest as one JSON string without its quotes, for protocols that have such a form, where it is nothing
    but text. `calls` are the ids of the calls the message asks for, as the conversation has them.
    """

    message: Message
    user: bool
    results: bytes
    content: bytes
    text: bytes | None = None
    calls: tuple[str, ...] = ()


class Group(Struct, frozen=True, eq=False):
    """Neighbouring entries of one role; `first` is the index of the first."""

    user: bool
    entries: list[Entry]
    first: int


Spot = tuple[str, bool]
"""A place that a cache marker stands at: the id of a message, and whether it is behind its content (else behind its
results)."""


class Conversation:
    """What is kept of one conversation between its requests."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.calls: set[str] = set()
        self.size = 0
        self.marked: tuple[Spot | None, Spot | None] = (None, None)
        self._tools: tuple[tuple[ToolSpec, ...], bytes] = ((), b"")
        self._folded = 0
        self._parts: list[bytes] = []

    def update(self, messages: Sequence[Message], encode: Callable[[Message], Entry]) -> None:
        """Make `entries` those of `messages`; only messages that were not there before are encoded."""
        old = self.entries
        same = 0
        for entry, message in zip(old, messages, strict=False):
            if entry.message is not message:
                break
            same += 1
        if same < self._folded:
            self.unfold()
        kept = {entry.message.id: entry for entry in old[same:]} if same < len(old) else {}
        fresh: list[Entry] = []
        for message in messages[same:]:
            entry_or_none = kept.get(message.id)
            if entry_or_none is None or entry_or_none.message is not message:
                entry_or_none = encode(message)
            fresh.append(entry_or_none)
        if same < len(old):
            self.entries = old[:same] + fresh
            self.calls = {call for entry in self.entries for call in entry.calls}
            self.size = sum(map(_size, self.entries))
        else:
            old.extend(fresh)
            self.calls.update(call for entry in fresh for call in entry.calls)
            self.size += sum(map(_size, fresh))

    def tools(self, specs: tuple[ToolSpec, ...], encode: Callable[[ToolSpec], bytes]) -> bytes:
        """The tools, comma-joined; encoded again only when they are others."""
        known, made = self._tools
        if known is not specs and known != specs:
            made = b",".join(map(encode, specs))
        self._tools = (specs, made)
        return made

    def fold(self, render: Callable[[Group], bytes]) -> tuple[list[bytes], list[Group]]:
        """What stands for good, as comma-joined values, and the groups behind it.

        `render` makes the value of a group that carries no marker. So a request costs what is new in it, and not the
        whole conversation.
        """
        groups = list(self.groups(self._folded))
        if len(groups) > 2 * TAIL_GROUPS:
            done, groups = groups[:-TAIL_GROUPS], groups[-TAIL_GROUPS:]
            self._parts.append(b",".join(map(render, done)))
            self._folded = groups[0].first
        return self._parts, groups

    def unfold(self) -> None:
        """Nothing stands for good: all is looked at again."""
        self._folded = 0
        self._parts = []

    def groups(self, start: int = 0) -> Iterator[Group]:
        """Neighbours of one role together, in order; entries without anything on the wire are left out."""
        run: list[Entry] = []
        first = start
        for index, entry in enumerate(islice(self.entries, start, None), start):
            if not entry.content and not entry.results and entry.text is None:
                continue
            if run and run[0].user is not entry.user:
                yield Group(run[0].user, run, first)
                run = []
            if not run:
                first = index
            run.append(entry)
        if run:
            yield Group(run[0].user, run, first)


class ConversationCache:
    """The conversations of one adapter; those longest unused go first when there are too many."""

    def __init__(self, kept: int = KEPT_CONVERSATIONS, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._size = 0
        self._all: OrderedDict[tuple[str, ...], Conversation] = OrderedDict()

    def update(self, request: ModelRequest, encode: Callable[[Message], Entry]) -> Conversation:
        """The conversation of that request, brought up to its messages."""
        # all requests of one agent are its one conversation: that for a summary finds what its steps have left
        key = (request.session, request.agent, "" if request.agent else request.purpose, request.model)
        found = self._all.get(key)
        if found is None:
            found = self._all[key] = Conversation()
        else:
            self._all.move_to_end(key)
        self._size -= found.size
        found.update(request.messages, encode)
        while len(self._all) > 1 and (len(self._all) > self._kept or self._size > self._kept_bytes):
            _, gone = self._all.popitem(last=False)
            self._size -= gone.size
        self._size += found.size
        return found

    def __len__(self) -> int:
        return len(self._all)


def dumps(value: Any) -> bytes:
    """Compact JSON; halves of surrogate pairs become U+FFFD."""
    try:
        return codec.encode(value)
    except UnicodeEncodeError:
        return codec.encode(codec.mended(value))


def inner(text: str) -> bytes:
    """The text as a JSON string without its quotes."""
    return dumps(text)[1:-1]


def wire_name(name: str, limit: int = 64) -> str:
    """The name of a tool in letters that every provider accepts, also for calls of tools that never were."""
    return _NOT_NAME.sub("_", name)[:limit] or "unknown"


def wire_id(call: str, limit: int = 64) -> str:
    """A call's id in letters that every provider accepts. Different ids stay different."""
    clean = _NOT_NAME.sub("_", call)
    if clean == call and 0 < len(call) <= limit:
        return call
    return f"{clean[: limit - 9]}_{zlib.crc32(call.encode('utf-8', 'surrogatepass')):08x}"


def shown_results(content: str | tuple[Text | Image | Document, ...]) -> tuple[Text | Image | Document, ...]:
    """A result's parts; never empty."""
    parts = (Text(content),) if isinstance(content, str) else content
    kept = tuple(part for part in parts if not isinstance(part, Text) or part.text.strip())
    return kept or (Text(NO_OUTPUT),)


def seen(part: Text | Image | Document, card: ModelCard, documents: frozenset[str]) -> Text | Image | Document:
    """The part itself, or a note in its place if the model cannot take it. `documents`: types that can be sent."""
    if isinstance(part, Image):
        if not card.images:
            return Text(f"[image left out ({part.media_type}): this model cannot see images]")
        if part.media_type not in _PICTURES:
            return Text(f"[image left out: {part.media_type} cannot be sent to this model]")
    if isinstance(part, Document) and (not card.documents or part.media_type not in documents):
        title = f" {part.title!r}" if part.title else ""
        count = f", {part.pages} pages" if part.pages > 1 else ""
        return Text(f"[document{title} left out ({part.media_type}{count}): this model cannot read it]")
    return part


def user_parts(message: User) -> tuple[list[ToolResult], list[Text | Image | Document]]:
    """Results, and the rest without empty text."""
    results: list[ToolResult] = []
    rest: list[Text | Image | Document] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            results.append(block)
        elif not isinstance(block, Text) or block.text.strip():
            rest.append(block)
    return results, rest


def calls_of(message: Assistant) -> tuple[str, ...]:
    """The ids of the calls that the message asks for."""
    return tuple(block.id for block in message.content if isinstance(block, ToolUse))


def joined(values: Iterable[bytes]) -> bytes:
    """Comma-joined, without the empty ones."""
    return b",".join([value for value in values if value])


def _size(entry: Entry) -> int:
    return len(entry.results) + len(entry.content) + len(entry.text or b"")
