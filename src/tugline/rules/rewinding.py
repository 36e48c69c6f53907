"""What it takes to have files as they were before a prompt. Decided here from the records and from what stands there
now; done elsewhere.

Files know no branches: all that was recorded after the prompt has happened, whatever the conversation went back to
meanwhile. What the agent's calls did is undone, back to how a file was before the first of them; what somebody else did
in between, or since, is not ours to undo, and makes a conflict.
"""

from collections.abc import Callable, Sequence
from hashlib import sha1
from typing import Literal

from msgspec import Struct

from tugline.protocol.ids import MessageId
from tugline.protocol.messages import User
from tugline.protocol.records import AnyRecord, FileChange, FilesChanged, FileState, Said
from tugline.protocol.specs import FileStep
from tugline.rules.changes import file_path, same


class Target(Struct, frozen=True):
    """A file that the agent changed, as it is to be, and as it should be now. `was` is how it stood before the last
    change on record, which may not have come about."""

    path: str
    change: FileChange
    wanted: FileState | None
    now: FileState | None
    was: FileState | None
    kept: bool = True
    foreign: bool = False


class Found(Struct, frozen=True):
    """What stands at a path: a file, or something that cannot be replaced (`obstacle` says what)."""

    state: FileState | None = None
    obstacle: str = ""


def digest_of(data: bytes) -> str:
    """What a content is called: as git calls it."""
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def since(records: Sequence[AnyRecord], prompt: MessageId) -> tuple[FilesChanged, ...]:
    """The changes that were recorded after a prompt."""
    found: list[FilesChanged] = []
    said = False
    for record in records:
        if isinstance(record, Said) and isinstance(record.message, User) and record.message.id == prompt:
            said = True
        elif said and isinstance(record, FilesChanged):
            found.append(record)
    return tuple(found)


def last_rewind(records: Sequence[AnyRecord]) -> tuple[FilesChanged, ...]:
    """The changes of the last time that files were put back."""
    made = [record for record in records if isinstance(record, FilesChanged) and record.rewind]
    return tuple(record for record in made if record.rewind == made[-1].rewind)


def targets(records: Sequence[FilesChanged], place: Callable[[str], str]) -> tuple[Target, ...]:
    """The files to be put back to how they were before these changes. `place` says where the project of a record is
    now, given where it was."""
    chains: dict[str, list[tuple[FileChange, bool]]] = {}
    for record in records:
        root = place(record.root)
        ours = bool(record.calls) or bool(record.rewind)
        for change in record.files:
            chains.setdefault(file_path(change, root), []).append((change, ours))
    return tuple(target for path, chain in chains.items() if (target := _target(path, chain)) is not None)


def _target(path: str, chain: list[tuple[FileChange, bool]]) -> Target | None:
    while chain and not chain[0][1]:
        chain = chain[1:]  # what somebody else did before the agent's first change stays
    if not chain:
        return None
    foreign = False
    before = after = chain[0][0].before
    for change, ours in chain:
        if not ours and same(change.after, after):
            continue  # our own change, seen again after a crash
        # by somebody else, or after something that nobody recorded; what was recorded may not have come about
        foreign = foreign or not ours or not (same(change.before, after) or same(change.before, before))
        before, after = change.before, change.after
    first = chain[0][0]
    return Target(path, first, first.before, after, before, first.kept, foreign)


def step(target: Target, found: Found, *, have: bool, force: bool = False) -> FileStep | None:
    """What is to be done with a file, given what stands there; `None`: nothing. `have`: its content is in the store."""
    wanted, now = target.wanted, found.state
    path = target.change.path
    if not found.obstacle and _fits(wanted, now):
        return None
    if found.obstacle:
        return FileStep(path, "conflict", found.obstacle)
    if wanted is not None and not target.kept:
        return FileStep(path, "lost", "its former content was too large to be kept")
    if wanted is not None and not have:
        return FileStep(path, "lost", "its former content is missing in the store, or damaged")
    ours = not target.foreign and (same(now, target.now) or same(now, target.was))
    if not ours and not force:
        return FileStep(path, "conflict", "somebody else has changed it")
    do: Literal["restore", "delete", "recreate"] = (
        "delete" if wanted is None else "recreate" if now is None else "restore"
    )
    return FileStep(path, do)


def _fits(wanted: FileState | None, now: FileState | None) -> bool:
    if wanted is None or now is None:
        return wanted is now
    return same(wanted, now) and (wanted.link or wanted.mode == now.mode)
