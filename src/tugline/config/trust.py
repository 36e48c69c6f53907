"""The folders that a person trusts, and what of each was approved: one file of the user's own."""

import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec
from msgspec import Struct, structs

from tugline.config.folders import make_private, write_privately
from tugline.protocol.errors import ConfigError
from tugline.protocol.trust import TrustItem
from tugline.rules.trust import Approval, Trust, approvals, approve, key

FORMAT = 1
SIZE_LIMIT = 20_000_000
LOCK_LIMIT = 5.0
"""Seconds to wait for another process that writes."""


class TrustedFolder(Struct, frozen=True, omit_defaults=True):
    """A folder by its real path and inode, since when it is trusted, and what in it was approved."""

    path: str
    inode: int
    since: float
    items: tuple[Approval, ...] = ()


class _File(Struct, frozen=True):
    format: int
    folders: tuple[TrustedFolder, ...] = ()


class TrustStore:
    """Reads and changes the file. A file that is damaged, or that others may write, trusts nothing."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self) -> tuple[dict[str, TrustedFolder], str]:
        """The folders by path, and what is wrong with the file; empty if nothing is."""
        try:
            raw = self._raw()
            if raw is None:
                return {}, ""
            held = msgspec.json.decode(raw, type=_File)
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return {}, f"{self.path}: {reason}; no folder counts as trusted. Mend or remove it, then: tugline trust"
        if held.format != FORMAT:
            said = f"was written by another version (format {held.format})"
            return {}, f"{self.path}: {said}; no folder counts as trusted."
        return {folder.path: folder for folder in held.folders}, ""

    def _raw(self) -> bytes | None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise ValueError("is no regular file")
            if found.st_mode & 0o022 or found.st_uid not in (os.geteuid(), 0):
                raise ValueError("can be written by others (chmod 600)")
            if found.st_size > SIZE_LIMIT:
                raise ValueError("is too big")
            return file.read(SIZE_LIMIT + 1)

    def of(self, root: str) -> tuple[TrustedFolder | None, str]:
        """What is known of a folder (real path), and what is wrong with the file."""
        folders, problem = self.read()
        known = folders.get(root)
        return (known if known is not None and known.inode == inode(root) else None), problem

    def trust(self, root: str, items: Mapping[TrustItem, bool]) -> None:
        """Trust the folder. Of the items those marked true are approved as they are, the others are not; what was
        approved before of items that are not named stays so. Raises `ConfigError`."""
        with self._locked() as folders:
            known = folders.get(root)
            if known is None or known.inode != inode(root):
                known = TrustedFolder(root, inode(root), time.time())
            held = approvals(known.items)
            for item, good in items.items():
                if good:
                    held[key(item)] = approve(item)
                else:
                    held.pop(key(item), None)
            folders[root] = structs.replace(known, items=tuple(held.values()))

    def forget(self, root: str) -> bool:
        """Trust the folder no more; whether it was. Raises `ConfigError`."""
        with self._locked() as folders:
            return folders.pop(root, None) is not None

    @contextmanager
    def _locked(self) -> Iterator[dict[str, TrustedFolder]]:
        try:
            make_private(os.path.dirname(self.path))
            lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}.") from error
        try:
            self._await_lock(lock)
            folders, problem = self.read()
            if problem:
                raise ConfigError(problem)
            before = dict(folders)
            yield folders
            if folders != before:
                self._write(folders)
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}.") from error
        finally:
            os.close(lock)

    def _await_lock(self, lock: int) -> None:
        until = time.monotonic() + LOCK_LIMIT
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ConfigError(f"{self.path} is in use by another process. Try again.") from None
                time.sleep(0.02)
            else:
                return

    def _write(self, folders: Mapping[str, TrustedFolder]) -> None:
        raw = msgspec.json.format(msgspec.json.encode(_File(FORMAT, tuple(folders.values()))), indent=1)
        write_privately(self.path, raw)


def inode(root: str) -> int:
    """What tells a folder from another one that took its name later; 0 where there is none."""
    try:
        return os.stat(root).st_ino
    except OSError:
        return 0


def standing_trust(folder: TrustedFolder | None) -> Trust:
    """The trust that an entry of the store stands for."""
    return Trust() if folder is None else Trust("approved", approvals(folder.items))
