"""Who changed which files: what a transcript tells of it, turn by turn."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from tugline.protocol.blocks import Text, ToolUse
from tugline.protocol.ids import AgentId, CallId, MessageId
from tugline.protocol.messages import Assistant, User
from tugline.protocol.records import AnyRecord, FileChange, FilesChanged, FileState, Opened, Said, Started

Lines = tuple[int, int]
"""Added, removed."""
CountLines = Callable[[FileState | None, FileState | None], Lines | None]


class MadeBy(Struct, frozen=True):
    """A call that changed files, or ran while they changed. `title` is its path or the first line of its command."""

    call: CallId
    tool: str = ""
    title: str = ""
    input: dict[str, Any] = {}


class ChangedFile(Struct, frozen=True):
    """What became of a file. `path` is relative to the project, or absolute; `lines` where both contents are kept."""

    path: str
    kind: Literal["created", "changed", "deleted"]
    before: FileState | None
    after: FileState | None
    kept: bool = True
    lines: Lines | None = None


class ChangeSet(Struct, frozen=True):
    """Files that were changed together: by these calls, by a rewind, or by somebody else (`others`)."""

    by: Literal["calls", "rewind", "others"]
    calls: tuple[MadeBy, ...]
    files: tuple[ChangedFile, ...]
    time: float
    agent: AgentId


class TurnChanges(Struct, frozen=True):
    """What was changed from a prompt to the next one; `None`: before the first."""

    prompt: MessageId | None
    text: str
    time: float
    sets: tuple[ChangeSet, ...]


def changes(records: Sequence[AnyRecord], lines: CountLines = lambda before, after: None) -> tuple[TurnChanges, ...]:
    """The changes of a transcript in the order in which they were made, also those of turns that were taken back.
    Turns without any are left out. `lines` counts lines where it can look at contents."""
    agent = next((record.agent for record in records if isinstance(record, Opened)), AgentId("main"))
    uses = _uses(records)
    found: list[TurnChanges] = []
    prompt: User | None = None
    began = 0.0
    sets: list[FilesChanged] = []

    def close() -> None:
        made = tuple(one for record in _joined(sets) if (one := _change_set(record, uses, agent, lines)).files)
        if made:
            found.append(TurnChanges(prompt.id if prompt else None, _words(prompt), began, made))

    left: dict[str, FileState | None] = {}
    for record in records:
        match record:
            case Said(message=User(source="person") as message, time=time):
                close()
                prompt, began, sets = message, time, []
            case FilesChanged():
                sets.append(_news(record, left))
            case _:
                pass
    close()
    return tuple(found)


def file_path(change: FileChange, root: str) -> str:
    """Where the file of a change is, `root` being the project's folder now."""
    return os.path.join(root, os.fsdecode(bytes.fromhex(change.raw)) if change.raw else change.path)


def same(one: FileState | None, other: FileState | None) -> bool:
    """Whether it is the same content; of what was too large nobody knows."""
    if one is None or other is None:
        return one is other
    return bool(one.digest) and (one.digest, one.link) == (other.digest, other.link)


def _news(record: FilesChanged, left: dict[str, FileState | None]) -> FilesChanged:
    """The record without what it only tells again: after a crash, a look may find our own changes. `left` is how each
    file was left."""
    told = tuple(
        change
        for change in record.files
        if record.calls or record.rewind or (path := file_path(change, record.root)) not in left
        or not same(left[path], change.after)
    )  # fmt: skip
    left.update((file_path(change, record.root), change.after) for change in record.files)
    return record if len(told) == len(record.files) else structs.replace(record, files=told)


def _joined(records: Sequence[FilesChanged]) -> Iterator[FilesChanged]:
    """Neighbouring records of the same calls as one: a call may change many files one by one, or one many times."""
    last: FilesChanged | None = None
    for record in records:
        if last is not None and (last.calls, last.rewind, last.root) == (record.calls, record.rewind, record.root):
            last = FilesChanged(
                files=(*last.files, *record.files), calls=last.calls, root=last.root, rewind=last.rewind, time=last.time
            )
            continue
        if last is not None:
            yield last
        last = record
    if last is not None:
        yield last


def _change_set(record: FilesChanged, uses: dict[CallId, MadeBy], agent: AgentId, lines: CountLines) -> ChangeSet:
    first: dict[tuple[str, str], FileChange] = {}
    last: dict[tuple[str, str], FileChange] = {}
    for change in record.files:
        first.setdefault((change.path, change.raw), change)
        last[change.path, change.raw] = change
    files = []
    for key, begun in first.items():
        before, after = begun.before, last[key].after
        if before == after or (same(before, after) and (before and before.mode) == (after and after.mode)):
            continue  # it did not come to it, or was put back at once
        kind: Literal["created", "changed", "deleted"] = (
            "created" if before is None else "deleted" if after is None else "changed"
        )
        files.append(ChangedFile(begun.path, kind, before, after, begun.kept, lines(before, after)))
    by: Literal["calls", "rewind", "others"] = "calls" if record.calls else "rewind" if record.rewind else "others"
    calls = tuple(uses.get(call) or MadeBy(call) for call in record.calls)
    return ChangeSet(by, calls, tuple(files), record.time, agent)


def _uses(records: Sequence[AnyRecord]) -> dict[CallId, MadeBy]:
    """The calls of all replies."""
    found: dict[CallId, MadeBy] = {}
    for record in records:
        match record:
            case Started(call=call, tool=tool):
                found.setdefault(call, MadeBy(call, tool))
            case Said(message=Assistant(content=content)):
                for block in content:
                    if isinstance(block, ToolUse):
                        found[block.id] = MadeBy(block.id, block.name, _title(block.input), block.input)
            case _:
                pass
    return found


def _title(given: dict[str, Any]) -> str:
    for name in ("command", "file_path", "notebook_path", "path"):
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip().splitlines()[0]
    return ""


def _words(prompt: User | None) -> str:
    if prompt is None:
        return ""
    return "\n".join(block.text for block in prompt.content if isinstance(block, Text))
