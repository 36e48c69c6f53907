"""Sessions on the disk: one folder per project, one transcript per session, and beside it what was too big for it.

<sessions>/<project>/<session>.jsonl
<sessions>/<project>/<session>/
<sessions>/<project>/archive/…     the same, put aside
"""

import os
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Literal

from msgspec import Struct

from tugline.protocol.blocks import Text
from tugline.protocol.errors import SessionError
from tugline.protocol.ids import SessionId
from tugline.protocol.messages import User
from tugline.protocol.records import AnyRecord, Opened, Resumed, Said, Titled, TurnEnded
from tugline.protocol.sessions import SessionSummary
from tugline.rules.terminal import clean_line
from tugline.stores.lines import lines_backward, lines_forward
from tugline.stores.locks import is_busy
from tugline.stores.reading import decode, open_regular, opening

ARCHIVE = "archive"
ENDING = ".jsonl"
HEAD = 256
"""Records at a file's beginning among which the first prompt is looked for."""
BEGINNING = 32 << 20
"""Bytes of it: a prompt may have pictures."""
TAIL = 4_000
"""Records at its end among which the title is looked for."""
END = 4 << 20
"""Bytes of them."""
NIBBLE = 64 << 10
"""Bytes that are read at once: most sessions tell what is needed in the first and the last of them."""
SHOWN = 20
"""How many sessions are named where several fit."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Entry(Struct, frozen=True):
    """A session that is on the disk. `folder` is its project's."""

    session: SessionId
    path: str
    folder: str
    archived: bool
    size: int
    changed: float

    @property
    def beside(self) -> str:
        """The folder with what was too big for the transcript."""
        return self.path.removesuffix(ENDING)


def project_folder(sessions: str, project: str) -> str:
    """Where a project's sessions are: a readable name, and a digest so that no two projects share one."""
    name = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in project)[-100:].strip("-")
    return os.path.join(sessions, f"{name or 'root'}-{sha256(os.fsencode(project)).hexdigest()[:10]}")


def entries(sessions: str, project: str | None = None, *, archived: bool = False) -> list[Entry]:
    """The sessions of a project, or of all, the last used first; what cannot be looked at is left out."""
    folders = [project_folder(sessions, project)] if project is not None else _folders(sessions)
    found: list[Entry] = []
    for folder in folders:
        found.extend(_entries(folder, folder, archived=False))
        if archived:
            found.extend(_entries(os.path.join(folder, ARCHIVE), folder, archived=True))
    return sorted(found, key=lambda entry: (-entry.changed, entry.session))


def _folders(sessions: str) -> list[str]:
    try:
        with os.scandir(sessions) as items:
            return sorted(item.path for item in items if item.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _entries(place: str, folder: str, *, archived: bool) -> Iterator[Entry]:
    try:
        with os.scandir(place) as items:
            for item in items:
                stem = item.name.removesuffix(ENDING)
                if stem == item.name or not _NAME.fullmatch(stem) or not item.is_file(follow_symlinks=False):
                    continue
                stat = item.stat(follow_symlinks=False)
                yield Entry(SessionId(stem), item.path, folder, archived, stat.st_size, stat.st_mtime)
    except OSError:
        return


def entry_at(path: str) -> Entry:
    """The session whose transcript this is. `SessionError` where there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError as error:
        raise SessionError(f"The session {path} cannot be looked at: {error.strerror}.") from error
    folder = os.path.dirname(path)
    archived = os.path.basename(folder) == ARCHIVE
    session = SessionId(os.path.basename(path).removesuffix(ENDING))
    return Entry(
        session, path, os.path.dirname(folder) if archived else folder, archived, found.st_size, found.st_mtime
    )


def summarize(entry: Entry) -> SessionSummary:
    """What the beginning and the end of the transcript tell; never more than a part of it is read."""
    known: dict[str, Any] = {
        "session": entry.session,
        "path": entry.path,
        "archived": entry.archived,
        "size": entry.size,
        "changed": entry.changed,
    }
    try:
        fd = open_regular(entry.path, os.O_RDONLY)
    except SessionError as error:
        return SessionSummary(**known, problem=str(error))
    try:
        opening(fd, entry.path)
        known |= _beginning(fd)
        known |= _end(fd)
    except SessionError as error:
        known["problem"] = str(error)
    except OSError as error:
        known["problem"] = f"{entry.path} cannot be read: {error.strerror}."
    finally:
        os.close(fd)
    if not known.keys() & {"started", "prompt", "title", "cost_usd"}:
        known.setdefault("problem", f"{entry.path} is {'no transcript of tugline' if entry.size else 'empty'}.")
    return SessionSummary(**known, busy=is_busy(entry.path))


def _beginning(fd: int) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for record in _first(fd):
        match record:
            case Opened(time=time, cwd=cwd, around=around):
                known |= {"started": time, "cwd": cwd, "branch": around.git_branch if around else ""}
            case Titled(title=title):
                known["title"] = title
            case Said(message=User(source="person") as message):
                known["prompt"] = _words(message)
                return known
            case _:
                pass
    return known


def _end(fd: int) -> dict[str, Any]:
    known: dict[str, Any] = {}
    size = 0
    for count, line in enumerate(lines_backward(fd, block=NIBBLE, longest=END)):
        record = decode(line)
        match record:
            case Titled(title=title):
                known.setdefault("title", title)
            case TurnEnded(title=title, cost_usd=cost):
                # it repeats the title that counts, so nobody has to look further back
                known.setdefault("title", title)
                known.setdefault("cost_usd", cost)
            case Resumed(cwd=cwd, around=around):
                known.setdefault("cwd", cwd)
                if around is not None:
                    known.setdefault("branch", around.git_branch)
            case _:
                pass
        size += len(line or b"")
        if count >= TAIL or size > END or {"title", "cost_usd"} <= known.keys():
            break
    return known


def _first(fd: int) -> Iterator[AnyRecord]:
    """The records at the beginning, where the first prompt is."""
    for line in islice(lines_forward(fd, end=BEGINNING, block=NIBBLE), HEAD):
        record = decode(line)
        if not isinstance(record, str):
            yield record


def _has_words(entry: Entry) -> bool:
    try:
        fd = open_regular(entry.path, os.O_RDONLY)
    except SessionError:
        return False
    try:
        return any(isinstance(record, Said) for record in _first(fd))
    except OSError:
        return False
    finally:
        os.close(fd)


def _words(message: User) -> str:
    text = " ".join(block.text for block in message.content if isinstance(block, Text))
    return " ".join(text.split())[:300]


# -- which one is meant

Among = Literal["live", "archived", "any"]
"""Sessions that are in use or could be, those that were put aside, or both."""


class Ambiguous(SessionError):
    """Several sessions fit; `found` are they, the last used first."""

    def __init__(self, text: str, found: Sequence[SessionSummary]) -> None:
        super().__init__(text)
        self.found = tuple(found)


def find(sessions: str, words: str, project: str, among: Among = "any") -> Entry:
    """The session that is meant: an id or its beginning, of any project; else the name, or words of the name or the
    first prompt, of this project. Archived ones count where no other fits. `SessionError` says what there is."""
    everywhere = [one for one in entries(sessions, archived=True) if _belongs(one, among)]
    exact = [entry for entry in everywhere if entry.session == words]
    if exact:
        return exact[0]
    if len(words) >= 4:
        begun = [entry for entry in everywhere if entry.session.startswith(words)]
        if begun:
            return _one(begun, words)
    wanted = words.casefold().split()
    if not wanted:
        raise SessionError("Which session? Give an id, or words of its name or first prompt.")
    _refuse_odd(sessions, words)
    here = [one for one in entries(sessions, project, archived=True) if _belongs(one, among)]
    for archived in (False, True):
        fitting = _fitting([entry for entry in here if entry.archived == archived], wanted)
        if fitting:
            return _one(fitting, words)
    shown = clean_line(words, 80)
    raise SessionError(f"No session of this project fits {shown!r}. See: tugline sessions list --all")


def _belongs(entry: Entry, among: Among) -> bool:
    return among == "any" or entry.archived == (among == "archived")


def _refuse_odd(sessions: str, words: str) -> None:
    """Say why, where there is something of that id that is no plain file."""
    if _NAME.fullmatch(words):
        for folder in _folders(sessions):
            path = os.path.join(folder, words + ENDING)
            if os.path.lexists(path):
                os.close(open_regular(path, os.O_RDONLY))


def _fitting(found: Sequence[Entry], wanted: Sequence[str]) -> list[Entry]:
    """Those whose name is these words; else those in whose name or first prompt all of the words are."""
    named, fitting = [], []
    for entry in found:
        summary = summarize(entry)
        if summary.title.casefold().split() == wanted:
            named.append(entry)
        text = f"{summary.title} {summary.prompt}".casefold()
        if all(word in text for word in wanted):
            fitting.append(entry)
    return named or fitting


def _one(found: Sequence[Entry], words: str) -> Entry:
    if len(found) == 1:
        return found[0]
    known = [summarize(entry) for entry in found[:SHOWN]]
    shown = [f"  {one.session}  {clean_line(one.title or one.prompt or '(no prompt)', 60)}" for one in known]
    more = f"\n  … and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    text = f"{len(found)} sessions fit {clean_line(words, 80)!r}; say which:\n" + "\n".join(shown) + more
    raise Ambiguous(text, known)


def last(sessions: str, project: str) -> Entry:
    """The session of this project that was used last and has anything said in it."""
    for entry in entries(sessions, project):
        if _has_words(entry):
            return entry
    raise SessionError("There is no session of this project to go on with. See: tugline sessions list --all")
