"""What changed in a work tree between two looks at it.

A look lists the files that are not ignored, compares what the system says of each with the look before, and has git
write the contents of those that are new or other ones into our store, by an index of our own. What stands in the
repository's own store already is not written again; when such a content is needed for a way back, it is copied.
"""

import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from msgspec import Struct

from tugline.ports import Moved, Unlookable
from tugline.protocol.errors import SessionError
from tugline.protocol.records import FileState
from tugline.workspaces.git import GitError, PrivateGit, git_folder, own_excludes

RACY = 50_000_000
"""Nanoseconds: a file that was changed so shortly before a look is looked into again, as its times may not tell."""
NESTED_LIMIT = 20
"""Repositories inside of a work tree that are looked at too."""
_FEW = 100
_OURS = "running"


class Limits(Struct, frozen=True):
    """What a look may cost. `seconds` are for one look, `total_bytes` for all that is written into the store."""

    files: int = 50_000
    file_bytes: int = 32 << 20
    total_bytes: int = 1 << 30
    seconds: float = 10.0


class Shelf(Struct, frozen=True):
    """The store of contents, as far as a look needs it: `objects` is its folder, `put` keeps a content, `own` makes
    what git has written there private. `make` makes a folder. `data` is our own data folder, which no look shows;
    `excludes` are the person's rules for files to ignore everywhere; git is looked for in `search`."""

    data: str
    excludes: bytes
    search: str
    objects: str
    put: Callable[[bytes], str]
    has: Callable[[str], bool]
    own: Callable[[str], None]
    make: Callable[[str], object]


_Signature = tuple[int, int, int, int, int]
_Seen = dict[bytes, tuple[os.stat_result, _Signature | None]]


class WorkTree:
    """The work tree at `root`, with what is remembered of it in `folder`, which is one session's. Used by one thread at
    a time; `stop` may be called by any."""

    def __init__(self, root: str, folder: str, shelf: Shelf, limits: Limits) -> None:
        self.root = root
        self.folder = folder
        self.trouble = ""
        """What is missing in the last look; empty: nothing."""
        self._shelf = shelf
        self._limits = limits
        self._git = PrivateGit(root, folder, shelf.objects, shelf.search)
        self._next = os.path.join(folder, "index.next")
        self._states: dict[bytes, FileState] | None = None
        self._signatures: dict[bytes, _Signature] = {}
        self._tracked: tuple[tuple[int, int, int] | None, list[bytes]] = (None, [])
        self._began = 0
        self._listed: set[bytes] = set()
        self._unread: dict[bytes, _Signature] = {}
        self._nested: dict[bytes, WorkTree] = {}
        self._unlookable: set[bytes] = set()
        self._written = 0
        self._untold: list[Moved] = []
        self._lock = threading.Lock()

    def look(self) -> list[Moved]:
        """What changed since the last look that was settled; at the first one, nothing. Raises `Unlookable`; whatever a
        look that was broken off had found, the next one tells."""
        with self._lock:
            self._git.resume()
            self.trouble = ""
            try:
                self._look(time.monotonic() + self._limits.seconds)
            except GitError as error:
                raise Unlookable(str(error), final=error.final) from error
            except OSError as error:
                raise Unlookable(f"{error.filename or self.folder}: {error.strerror}") from error
            return list(self._untold)

    def settle(self) -> None:
        """What the last look told has been written down: neither the next one nor a process after this need tell it."""
        self._untold.clear()
        with suppress(OSError):
            os.replace(self._next, self._git.index)
        for tree in self._nested.values():
            tree.settle()

    def stop(self) -> None:
        """Break off a look that runs in another thread."""
        self._git.stop()
        for tree in list(self._nested.values()):
            tree.stop()

    def close(self) -> None:
        """Forget all of it, unless nobody has looked yet at what another process left here."""
        if self._states is None:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            os.rmdir(os.path.dirname(self.folder))  # the session's, once it is empty

    # -- which calls run, in case that this process does not see their end

    def mark(self, calls: Iterable[str]) -> None:
        """Write down the calls whose changes the next look will show."""
        path = os.path.join(self.folder, _OURS)
        with suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.writelines(f"{call}\n" for call in calls)

    def marked(self) -> list[str]:
        """The calls that a process before this one wrote down and did not see the end of."""
        try:
            with open(os.path.join(self.folder, _OURS), encoding="utf-8", errors="replace") as file:
                return [line.rstrip("\n") for line in file if line.strip()]
        except OSError:
            return []

    # -- a look

    def _look(self, until: float) -> None:
        first = False
        if self._states is None:
            hidden = _hidden(self.root, self._shelf.data)
            self._git.prepare(b"\n".join((self._shelf.excludes, own_excludes(self.root), hidden)), self._shelf.make)
            first = not os.path.exists(self._git.index)
        states = self._index(until) if self._states is None else self._states
        started = time.time_ns()
        names, nested = self._names(until)
        fresh, gone = self._compare(names, states, started)
        digests = self._digests(fresh, gone, until)
        # nothing is remembered before here: a look that was broken off is as if it had not been
        moved = self._take(fresh, gone, digests, states)
        if not first and self._reveals(fresh, gone, nested):
            moved = [one for one in moved if one[1] is not None or not self._was_there(one[0], fresh)]
        self._states, self._began, self._listed = states, started, set(nested)
        if not first:
            self._untold += [Moved(os.path.join(self.root, os.fsdecode(name)), *rest) for name, *rest in moved]
        self._copy_former(moved, until)
        self._untold += self._look_inside(nested)

    def _names(self, until: float) -> tuple[set[bytes], list[bytes]]:
        """The files of the tree, and the repositories in it."""
        listed = self._git.run(["ls-files", "-z", "-c", "-o", "--exclude-standard"], until=until).split(b"\0")
        names = {name for name in listed if name and not name.endswith(b"/")}
        names.update(self._tracked_ignored(until))
        if len(names) > self._limits.files:
            raise GitError(f"it has more than {self._limits.files:,} files (checkpoints.maxFiles)", final=True)
        return names, [name for name in listed if name.endswith(b"/")]

    def _tracked_ignored(self, until: float) -> list[bytes]:
        """Files that the repository tracks though its rules would ignore them."""
        folder = git_folder(self.root)
        index = os.path.join(folder, "index") if folder is not None else ""
        try:
            found = os.stat(index)
        except OSError:
            return []
        signature = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._tracked[0] != signature:
            words = ["ls-files", "-z", "-c", "-i", "--exclude-standard"]
            try:
                listed = self._git.run(words, until=until, index=index).split(b"\0")
            except GitError:
                listed = []  # an index that only the repository's own git can read, or a damaged one
            self._tracked = (signature, [name for name in listed if name])
        return self._tracked[1]

    def _compare(self, names: set[bytes], states: dict[bytes, FileState], started: int) -> tuple[_Seen, list[bytes]]:
        """Of which files the system says that they are other ones now, and which are gone."""
        root = os.fsencode(self.root) + b"/"
        fresh: _Seen = {}
        gone = [name for name in states if name not in names]
        for name in names:
            try:
                found = os.lstat(root + name)
            except (FileNotFoundError, NotADirectoryError):
                gone.append(name)
                continue
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                gone.append(name)
                continue
            signature = _signature(found)
            if self._signatures.get(name) != signature:
                settled = max(found.st_mtime_ns, found.st_ctime_ns) < started - RACY
                fresh[name] = (found, signature if settled else None)
        return fresh, gone

    def _reveals(self, fresh: _Seen, gone: list[bytes], nested: list[bytes]) -> bool:
        """Whether a look may show files that were there before and hidden: other rules say what is ignored, or a
        repository inside is none any more."""
        rules = any(os.path.basename(name) == b".gitignore" for name in (*fresh, *gone))
        return rules or bool(self._listed - set(nested)) or any(name in fresh for name in self._tracked[1])

    def _was_there(self, name: bytes, fresh: _Seen) -> bool:
        """Whether a file that is new to us has not been touched since the look before: a rewind must not remove it."""
        return name in fresh and fresh[name][0].st_ctime_ns < self._began

    def _digests(self, fresh: _Seen, gone: list[bytes], until: float) -> dict[bytes, str]:
        """Have git take in what is other now: the digests of the contents, which are in the store then. Without those
        of files that are too large, or that we may not read."""
        root = os.fsencode(self.root) + b"/"
        limit = self._limits.file_bytes
        takable = {n: found for n, (found, _) in fresh.items() if found.st_size <= limit and _readable(root + n, found)}
        size = sum(found.st_size for found in takable.values())
        self._written += size if self._states is not None else 0
        if max(size, self._written) > self._limits.total_bytes:
            raise GitError("too much of it changes (checkpoints.sessionBytes)", final=True)
        # what is fresh is dropped before it is added: git compares whole seconds only, and would take it for unchanged
        dropped = [*gone, *fresh]
        if not dropped:
            return {}
        if os.path.exists(self._git.index) and not os.path.exists(self._next):
            shutil.copyfile(self._git.index, self._next)
            os.chmod(self._next, 0o600)
        words = ["update-index", "-z", "--add", "--remove", "--replace"]
        for option, names in (("--force-remove", dropped), ("--add", list(takable))):
            if names:
                data = b"".join(name + b"\0" for name in names)
                self._git.run([*words, option, "--stdin"], until=until, data=data, index=self._next)
        if not takable:
            return {}
        few = [os.fsdecode(name) for name in takable] if len(takable) <= _FEW else []
        entries = dict(self._entries(self._next, few, until))
        return {name: entries[name][1] for name in takable if name in entries}

    def _take(
        self, fresh: _Seen, gone: list[bytes], digests: dict[bytes, str], states: dict[bytes, FileState]
    ) -> list[tuple[bytes, FileState | None, FileState | None]]:
        """Bring `states` up to date; what it said otherwise."""
        moved: list[tuple[bytes, FileState | None, FileState | None]] = []
        for name in gone:
            self._signatures.pop(name, None)
            if (was := states.pop(name, None)) is not None:
                moved.append((name, was, None))
        for name, (found, signature) in fresh.items():
            was, link = states.get(name), stat.S_ISLNK(found.st_mode)
            now = FileState(digests.get(name, ""), 0o777 if link else stat.S_IMODE(found.st_mode), link)
            if now.digest:
                self._shelf.own(now.digest)
            if signature is None:
                self._signatures.pop(name, None)
            else:
                self._signatures[name] = signature
            touched = False
            if not now.digest:  # too large, or not for us to read: what the system says of it has to do
                touched = self._unread.get(name) != _signature(found)
                self._unread[name] = _signature(found)
            if now != was or touched:
                states[name] = now
                moved.append((name, was, now))
        return moved

    def _entries(self, index: str, only: list[str], until: float) -> Iterator[tuple[bytes, tuple[int, str]]]:
        """What an index of ours has: mode and digest by name."""
        words = ["ls-files", "-z", "-s", *(["--", *only] if only else [])]
        for entry in self._git.run(words, until=until, index=index).split(b"\0"):
            head, tab, name = entry.partition(b"\t")
            if tab:
                mode, digest, _ = head.split(b" ")
                yield name, (int(mode, 8), digest.decode())

    def _index(self, until: float) -> dict[bytes, FileState]:
        """What a process before this one saw last."""
        if not os.path.exists(self._git.index):
            return {}
        root, states = os.fsencode(self.root) + b"/", {}
        for name, (mode, digest) in self._entries(self._git.index, [], until):
            link = stat.S_ISLNK(mode)
            rights = 0o777 if link else mode & 0o777
            with suppress(OSError):
                found = os.lstat(root + name)
                if stat.S_ISREG(found.st_mode) and not link and (found.st_mode ^ mode) & 0o100 == 0:
                    rights = stat.S_IMODE(found.st_mode)  # git knows no more of it than whether it can be run
            states[name] = FileState(digest, rights, link)
        return states

    # -- contents

    def _copy_former(self, moved: list[tuple[bytes, FileState | None, FileState | None]], until: float) -> None:
        """Copy the contents before into our store, where only the repository has them."""
        wanted = {was.digest for _, was, _ in moved if was is not None and was.digest}
        wanted = {digest for digest in wanted if not self._shelf.has(digest)}
        if not wanted:
            return
        asked = b"".join(digest.encode() + b"\n" for digest in sorted(wanted))
        try:
            for data in _blobs(self._git.run(["cat-file", "--batch"], until=until, data=asked)):
                self._shelf.put(data)
        except (GitError, SessionError) as error:
            self.trouble = str(error)

    # -- repositories inside

    def _look_inside(self, nested: list[bytes]) -> list[Moved]:
        for name in nested:
            if name not in self._nested and name not in self._unlookable and len(self._nested) < NESTED_LIMIT:
                root = os.path.join(self.root, os.fsdecode(name).rstrip("/"))
                folder = os.path.join(self.folder, "nested", os.urandom(4).hex())
                self._nested[name] = WorkTree(root, folder, self._shelf, self._limits)
        found: list[Moved] = []
        for name, tree in list(self._nested.items()):
            try:
                if os.path.isdir(tree.root):
                    found.extend(tree.look())
                    self.trouble = self.trouble or tree.trouble
                    continue
            except Unlookable as error:
                self._unlookable.add(name)
                self.trouble = f"{tree.root}: {error}"
            del self._nested[name]
            tree.close()
        return found


def _signature(found: os.stat_result) -> _Signature:
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode)


def _readable(path: bytes, found: os.stat_result) -> bool:
    return stat.S_ISLNK(found.st_mode) or os.access(path, os.R_OK)


def _blobs(output: bytes) -> Iterator[bytes]:
    """The contents in what `cat-file --batch` prints."""
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        words = output[at:end].split(b" ")
        at = end + 1
        if len(words) == 3 and words[1] == b"blob":
            size = int(words[2])
            yield output[at : at + size]
            at += size + 1


def _hidden(root: str, data: str) -> bytes:
    """The rule that keeps our own folder out where it lies in the tree."""
    relative = os.path.relpath(data, root)
    return b"" if relative.split("/")[0] == ".." else b"/" + os.fsencode(relative) + b"/\n"
