"""Which transcript a session writes: a new one, one that is gone on with, or a copy of one."""

import os
from collections.abc import Callable

from msgspec import Struct

from tugline.protocol.ids import SessionId
from tugline.rules.history import History, fold
from tugline.stores.jsonl import JsonlLog
from tugline.stores.locks import Busy
from tugline.stores.reading import Reading
from tugline.stores.sessions import ENDING, Entry, find, last
from tugline.stores.shelf import fork, take_back


class Wanted(Struct, frozen=True, kw_only=True):
    """Which session: a new one, unless `resume` (an id or words) or `last` says which to go on with; with `copy`, with
    a copy of it. `session` is the id of a new one."""

    session: str | None = None
    resume: str | None = None
    last: bool = False
    copy: bool = False


class Opening(Struct, frozen=True, eq=False):
    """A transcript that is ready to be written. `history` is there where it is gone on with; `notices` are for the
    person."""

    log: JsonlLog
    session: SessionId
    history: History | None = None
    notices: tuple[str, ...] = ()


class Shelf(Struct, frozen=True):
    """Where sessions are: all of them, those of this project, and the folder that theirs are in."""

    sessions: str
    project: str
    folder: str

    def path(self, session: SessionId) -> str:
        """A session's file in this project."""
        return os.path.join(self.folder, session + ENDING)


def open_transcript(wanted: Wanted, shelf: Shelf, *, new_id: Callable[[], str], now: float) -> Opening:
    """The transcript that is wanted. `SessionError` says what stands in the way."""
    origin = _origin(wanted, shelf)
    fresh = SessionId(wanted.session or new_id())
    if origin is None:
        return Opening(JsonlLog.create(shelf.path(fresh)), fresh)
    notices: tuple[str, ...] = ()
    if not wanted.copy:
        if origin.archived:
            origin = Entry(origin.session, take_back(origin), origin.folder, False, origin.size, origin.changed)
            notices = ("The session was archived; it is back among the others.",)
        try:
            return _resumed(origin.path, origin.session, notices)
        except Busy:
            notices = (*notices, f"The session {origin.session} is in use; this is a copy of it, {fresh}.")
    path = shelf.path(fresh)
    fork(origin.path, path, fresh, now)
    return _resumed(path, fresh, notices)


def _origin(wanted: Wanted, shelf: Shelf) -> Entry | None:
    if wanted.resume is not None:
        return find(shelf.sessions, wanted.resume, shelf.project)
    return last(shelf.sessions, shelf.project) if wanted.last else None


def _resumed(path: str, session: SessionId, notices: tuple[str, ...]) -> Opening:
    log, reading = JsonlLog.resume(path)
    history = fold(reading.records)
    return Opening(log, session, history, (*notices, *_damage(log, reading)))


def _damage(log: JsonlLog, reading: Reading) -> list[str]:
    lines = []
    if log.tail.torn:
        lines.append(
            f"The end of the transcript was not whole ({log.tail.torn} bytes): it is kept in {log.tail.kept_in}."
        )
    damaged = reading.damaged - bool(log.tail.torn)
    if damaged:
        what = "1 line" if damaged == 1 else f"{damaged} lines"
        lines.append(f"{what} of the transcript {log.path} cannot be read; the session goes on without.")
    if reading.unknown:
        what = "1 record" if reading.unknown == 1 else f"{reading.unknown} records"
        lines.append(f"{what} of a newer tugline cannot be understood; the session goes on without.")
    return lines
