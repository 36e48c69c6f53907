"""Who a process left behind: its group, its session, and what carries its mark though it moved out of both."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

MARK = "TUGLINE_LINEAGE"
"""The environment variable by which a daemon is still known to be a call's."""

_FEW = 256


class Descendants:
    """What one process started, directly or not, without that process itself.

    Reads `/proc`; elsewhere nothing is found, and the process group has to do.
    """

    def __init__(self, leader: int, mark: str) -> None:
        self._leader = leader
        self._mark = mark.encode()
        self._known: set[int] = set()
        self._told: set[int] = set()

    def alive(self) -> list[int]:
        """Those that still run."""
        found = [pid for pid in _younger(self._leader) if self._is_one(pid)]
        self._known.update(found)
        return found

    def signal(self, signum: int) -> None:
        """Send a signal to all of them."""
        for pid in self.alive():
            self._told.add(pid)
            self._signal(pid, signum)

    def signal_again(self, signum: int) -> None:
        """The same for those that missed it: started while it was on its way, or not yet what they were to become (a
        shell's child loses a signal that comes before its `exec`). Who has a way of its own to take it is not asked
        twice."""
        for pid in self.alive():
            if pid not in self._told or _falls_to(pid, signum):
                self._told.add(pid)
                self._signal(pid, signum)

    def reap(self) -> None:
        """Where orphans become our children (the first process of a container, a subreaper), let none stay a zombie."""
        for pid in _younger(self._leader):
            stat = _stat(pid)
            if stat is None or stat.state != b"Z" or stat.parent != os.getpid():
                continue
            if pid in self._known or stat.session == self._leader:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _is_one(self, pid: int) -> bool:
        stat = _stat(pid)
        if stat is None or stat.state in (b"Z", b"X"):
            return False
        if self._leader in (stat.group, stat.session):
            return True
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                data = file.read()
        except OSError:
            data = b""
        # one that is just dying has lost its environment already, but is not gone
        return self._mark in data or (not data and pid in self._known)

    def _signal(self, pid: int, signum: int) -> None:
        """Through a descriptor, and looked at once more: the id may have become another process's."""
        try:
            handle = os.pidfd_open(pid)
        except (OSError, AttributeError):
            return
        try:
            if self._is_one(pid):
                signal.pidfd_send_signal(handle, signum)
        except OSError:
            pass
        finally:
            os.close(handle)


class _Stat(NamedTuple):
    state: bytes
    parent: int
    group: int
    session: int


def _stat(pid: int) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split(None, 4)
        return _Stat(fields[0], int(fields[1]), int(fields[2]), int(fields[3]))
    except (OSError, ValueError, IndexError):
        return None


def _falls_to(pid: int, signum: int) -> bool:
    """Whether the signal simply ends this process."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith((b"SigBlk:", b"SigIgn:", b"SigCgt:"))]
    return len(masks) == 3 and not any(mask >> (signum - 1) & 1 for mask in masks)


def _younger(leader: int) -> Iterable[int]:
    """Ids that were given out after `leader`'s: what it started can only be among them."""
    try:
        with open("/proc/loadavg", "rb") as file:
            newest = int(file.read().rsplit(None, 1)[-1])
    except (OSError, ValueError, IndexError):
        newest = 0
    if leader <= newest <= leader + _FEW:
        return range(leader + 1, newest + 1)
    try:
        listed = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return ()
    if newest > leader:
        return [pid for pid in listed if leader < pid <= newest]
    # The ids began anew since.
    return [pid for pid in listed if pid > leader or pid <= newest]


def start_time(pid: int) -> int:
    """When a process started, in ticks since the machine did; 0 where that cannot be told or it is dead. With it, an id
    is not mistaken for one that was given out again."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0


def marked(marks: set[str]) -> dict[int, str]:
    """Living processes of this user that carry one of the marks, with it."""
    found: dict[int, str] = {}
    wanted = {mark.encode(): mark for mark in marks}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                data = file.read()
        except OSError:
            continue
        if MARK.encode() not in data:
            continue
        for mark, text in wanted.items():
            if mark in data:
                found[int(name)] = text
    return found
