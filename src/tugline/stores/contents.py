"""Former contents of files, by digest: what a rewind puts back.

<checkpoints>/<project>/objects/ab/cdef…    one content each, as git keeps a loose object
<checkpoints>/<project>/work/<session>/…    what a running session's looks at its work trees need

The format and the digest are git's, so that git writes what it finds in a work tree into the same store, and a content
that came by both ways is kept once. Nothing else of git is needed to read or write it.
"""

import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct

from tugline.protocol.errors import SessionError
from tugline.protocol.records import FilesChanged
from tugline.rules.rewinding import digest_of
from tugline.stores.jsonl import is_busy
from tugline.stores.reading import open_regular, records_backward, sync_folder
from tugline.stores.sessions import ARCHIVE, ENDING

OBJECTS = "objects"
WORK = "work"
USED = ("HEAD", "index", "running")
"""Of a work tree's folder: the first is as old as the folder, the others are written by each look."""
GRACE = 3_600.0
"""Seconds for which nothing is removed that was just written: its record may not be there yet."""
LEFT_BEHIND = 7 * 86_400.0
"""Seconds for which a session that was killed keeps what its looks need, to be gone on with."""
_NAME = re.compile(r"[0-9a-f]{40}")


def checkpoints_folder(checkpoints: str, transcript: str) -> str:
    """Where the contents of a session's project are, beside the project's sessions by name."""
    folder = os.path.dirname(transcript)
    if os.path.basename(folder) == ARCHIVE:
        folder = os.path.dirname(folder)
    return os.path.join(checkpoints, os.path.basename(folder))


def _make_folder(path: str) -> None:
    os.makedirs(path, 0o700, exist_ok=True)


class Contents:
    """A project's store. Many sessions may use it at once: a content is written whole, under a name of its own first.

    `folder` is the project's; nothing is made before something is kept. `make` makes folders."""

    def __init__(self, folder: str, make: Callable[[str], object] = _make_folder) -> None:
        self.folder = folder
        self._make = make
        self.objects = os.path.join(folder, OBJECTS)

    def put(self, data: bytes, *, durable: bool = True) -> str:
        """Keep a content; returns its digest. `durable`: it is on the disk then. `SessionError` if that fails."""
        digest = digest_of(data)
        try:
            self._put(digest, data, durable)
        except OSError as error:
            raise SessionError(
                f"What the file was cannot be kept in {self.objects}: {error.strerror}. "
                "Make room there, or switch checkpoints.enabled off."
            ) from error
        return digest

    def _put(self, digest: str, data: bytes, durable: bool) -> None:
        path = self._path(digest)
        if self._read(digest) == data:
            os.utime(path)  # `prune` must not take it for old
            if not durable:
                return
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            return
        folder = os.path.dirname(path)
        self._make(folder)
        temp = os.path.join(folder, f"tmp_{os.urandom(8).hex()}")
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(zlib.compress(b"blob %d\0" % len(data) + data, 1))
                file.flush()
                if durable:
                    os.fsync(fd)
            os.replace(temp, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temp)
            raise
        if durable:
            sync_folder(folder)

    def get(self, digest: str) -> bytes | None:
        """A content; `None` where it is missing, or is not what its name says."""
        data = self._read(digest)
        return data if data is not None and digest_of(data) == digest else None

    def has(self, digest: str) -> bool:
        """Whether there is a content of that name, sound or not."""
        return bool(_NAME.fullmatch(digest)) and os.path.isfile(self._path(digest))

    def own(self, digest: str) -> None:
        """What git has written is for the user alone, like all that is ours."""
        with suppress(OSError):
            os.chmod(self._path(digest), 0o600)

    def _path(self, digest: str) -> str:
        return os.path.join(self.objects, digest[:2], digest[2:])

    def _read(self, digest: str) -> bytes | None:
        if not _NAME.fullmatch(digest):
            return None
        try:
            with open(self._path(digest), "rb") as file:
                head, zero, data = zlib.decompress(file.read()).partition(b"\0")
        except (OSError, zlib.error):
            return None
        return data if zero and head.startswith(b"blob ") else None


# -- what nobody needs any more ------------------------------------------------------------------------------------


class Pruned(Struct, frozen=True):
    """What was removed, or would be. `problems`: projects that were left alone, and why."""

    contents: int = 0
    bytes: int = 0
    problems: tuple[str, ...] = ()


def prune(checkpoints: str, sessions: str, *, dry_run: bool = False, now: float | None = None) -> Pruned:
    """Remove contents that no transcript below `sessions` names any more, and what ended sessions left behind. What a
    running session may need stays; so does all of a project that has a transcript which cannot be read."""
    total, size, problems = 0, 0, []
    moment = time.time() if now is None else now
    for project in _folders(checkpoints):
        kept = os.path.join(sessions, os.path.basename(project))
        try:
            named = _named(kept)
        except (OSError, SessionError) as error:
            problems.append(f"{project}: {error}")
            continue
        limit = min(moment - GRACE, _oldest_need(os.path.join(project, WORK), kept, moment, dry_run))
        for path, found in _unneeded(os.path.join(project, OBJECTS), named, limit):
            if not dry_run:
                with suppress(FileNotFoundError):
                    os.unlink(path)
            total, size = total + 1, size + found
        if not dry_run:
            _remove_empty(project)
    return Pruned(total, size, tuple(problems))


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as items:
            return sorted(item.path for item in items if item.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _transcripts(project: str) -> Iterator[str]:
    for folder in (project, os.path.join(project, ARCHIVE)):
        if not os.path.isdir(folder):
            continue
        with os.scandir(folder) as items:
            yield from (item.path for item in items if item.name.endswith(ENDING))


def _named(project: str) -> set[str]:
    """The digests in all transcripts of a project."""
    named: set[str] = set()
    for path in _transcripts(project):
        fd = open_regular(path, os.O_RDONLY)
        try:
            for record in records_backward(fd):
                if isinstance(record, FilesChanged):
                    states = (state for change in record.files for state in (change.before, change.after))
                    named.update(state.digest for state in states if state is not None)
        finally:
            os.close(fd)
    return named


def _oldest_need(work: str, sessions: str, now: float, dry_run: bool) -> float:
    """Since when running sessions have written what their snapshots refer to. What ended ones left is removed."""
    oldest = now
    for folder in _folders(work):
        transcript = os.path.join(sessions, os.path.basename(folder) + ENDING)
        times = [_mtime(os.path.join(tree, name), 0.0) for tree in _folders(folder) for name in USED]
        since, used = min([now, *filter(None, times)]), max([0.0, *times])
        # by its time, too: a session that went on as a branch has another name than its folder
        if is_busy(transcript) or now - used < LEFT_BEHIND:
            oldest = min(oldest, since)
        elif not dry_run:
            import shutil  # noqa: PLC0415  imported here: start-up cost

            shutil.rmtree(folder, ignore_errors=True)
    return oldest


def _mtime(path: str, otherwise: float) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return otherwise


def _unneeded(objects: str, named: set[str], before: float) -> Iterator[tuple[str, int]]:
    for folder in _folders(objects):
        if os.path.basename(folder).startswith("tmp_"):  # of a git that was killed
            yield from _unneeded(folder, set(), before)
        with suppress(OSError), os.scandir(folder) as items:
            for item in items:
                if os.path.basename(folder) + item.name in named or item.is_dir(follow_symlinks=False):
                    continue
                with suppress(FileNotFoundError):
                    stat = item.stat(follow_symlinks=False)
                    if stat.st_mtime < before:
                        yield item.path, stat.st_size


def _remove_empty(project: str) -> None:
    objects = os.path.join(project, OBJECTS)
    halves = [half for temp in _folders(objects) for half in _folders(temp)]
    for folder in (*halves, *_folders(objects), objects, os.path.join(project, WORK), project):
        with suppress(OSError):
            os.rmdir(folder)
