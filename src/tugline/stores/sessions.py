"""Sessions on the disk: one folder per project, one transcript per session, and beside it what was too big for it.

<sessions>/<project>/<session>.jsonl
<sessions>/<project>/<session>/
<sessions>/<project>/archive/…     the same, put aside
"""

import os
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from tugline.protocol.blocks import Text
from tugline.protocol.errors import SessionError
from tugline.protocol.ids import SessionId
from tugline.protocol.messages import User
from tugline.protocol.records import AnyRecord, Opened, Resumed, Said, Titled, TurnEnded
from tugline.stores.jsonl import is_busy
from tugline.stores.lines import lines_backward
from tugline.stores.reading import decode, open_regular

ARCHIVE = "archive"
ENDING = ".jsonl"
HEAD = 256
"""Records at a file's beginning among which the first prompt is looked for."""
TAIL = 4_000
"""Records at its end among which the title is looked for."""
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


class Summary(Struct, frozen=True):
    """What a list of sessions shows of one."""

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


def summarize(entry: Entry) -> Summary:
    """What the beginning and the end of the transcript tell."""
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
        return Summary(**known, problem=str(error))
    try:
        known |= _beginning(fd)
        known |= _end(fd)
    except OSError as error:
        known["problem"] = f"it cannot be read: {error.strerror}"
    finally:
        os.close(fd)
    if "started" not in known:
        known["problem"] = "it is no transcript of tugline"
    return Summary(**known, busy=is_busy(entry.path))


def _beginning(fd: int) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for record in _forward(fd, HEAD):
        match record:
            case Opened(time=time, cwd=cwd, around=around):
                known |= {"started": time, "cwd": cwd, "branch": around.git_branch if around else ""}
            case Said(message=User(source="person") as message):
                known["prompt"] = _words(message)
                return known
            case _:
                pass
    return known


def _end(fd: int) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for count, line in enumerate(lines_backward(fd)):
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
        if count >= TAIL or {"title", "cost_usd"} <= known.keys():
            break
    return known


def _forward(fd: int, limit: int) -> Iterator[AnyRecord]:
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        for _ in range(limit):
            line = file.readline(16 << 20)
            if not line.endswith(b"\n"):
                return
            record = decode(line)
            if not isinstance(record, str):
                yield record


def _has_words(entry: Entry) -> bool:
    try:
        fd = open_regular(entry.path, os.O_RDONLY)
    except SessionError:
        return False
    try:
        return any(isinstance(record, Said) for record in _forward(fd, HEAD))
    except OSError:
        return False
    finally:
        os.close(fd)


def _words(message: User) -> str:
    text = " ".join(block.text for block in message.content if isinstance(block, Text))
    return " ".join(text.split())[:300]


def find(sessions: str, words: str, project: str) -> Entry:
    """The session that is meant: an id or its beginning, of any project; else words of the title or the first prompt,
    of this project. `SessionError` says what there is where it is not clear."""
    everywhere = entries(sessions, archived=True)
    exact = [entry for entry in everywhere if entry.session == words]
    if exact:
        return exact[0]
    if len(words) >= 4:
        begun = [entry for entry in everywhere if entry.session.startswith(words)]
        if begun:
            return _one(begun, words)
    wanted = words.casefold().split()
    if not wanted:
        raise SessionError("Which session? Give an id, or words of its title or first prompt.")
    here = entries(sessions, project)
    fitting = []
    for entry in here:
        summary = summarize(entry)
        text = f"{summary.title} {summary.prompt}".casefold()
        if all(word in text for word in wanted):
            fitting.append(entry)
    if not fitting:
        raise SessionError(f"No session of this project fits {words!r}. See: tugline sessions list")
    return _one(fitting, words)


def _one(found: Sequence[Entry], words: str) -> Entry:
    if len(found) == 1:
        return found[0]
    shown = []
    for entry in found[:5]:
        summary = summarize(entry)
        shown.append(f"  {entry.session}  {(summary.title or summary.prompt or '(no prompt)')[:60]}")
    more = f"\n  … and {len(found) - 5} more" if len(found) > 5 else ""
    raise SessionError(f"{len(found)} sessions fit {words!r}; say which:\n" + "\n".join(shown) + more)


def last(sessions: str, project: str) -> Entry:
    """The session of this project that was used last and has anything said in it."""
    for entry in entries(sessions, project):
        if _has_words(entry):
            return entry
    raise SessionError("There is no session of this project to go on with. See: tugline sessions list --all")
