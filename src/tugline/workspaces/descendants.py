"""Who a process left behind: its group, its session, and what carries its mark though it moved out of both."""

import os
import signal
from collections.abc import Iterable

MARK = "TUGLINE_LINEAGE"
"""The environment variable by which a daemon is still known to be a call's."""

_FEW = 256


def find_descendants(leader: int, mark: str) -> list[int]:
    """The living processes that `leader` started, directly or not, and that still run; without `leader` itself.

    Reads `/proc`; elsewhere nothing is found, and the process group has to do.
    """
    return [pid for pid in _younger(leader) if _belongs(pid, leader, mark)]


def signal_descendants(leader: int, mark: str, signum: int) -> bool:
    """Send a signal to all of them; says whether there were any."""
    found = find_descendants(leader, mark)
    for pid in found:
        _signal(pid, leader, mark, signum)
    return bool(found)


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


def _belongs(pid: int, leader: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    if len(fields) < 4 or fields[0] in b"ZX":
        return False
    if leader in (int(fields[2]), int(fields[3])):
        return True
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark.encode() in file.read()
    except OSError:
        return False


def _signal(pid: int, leader: int, mark: str, signum: int) -> None:
    """Through a descriptor, and looked at once more: the id may have become another process's."""
    try:
        handle = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return
    try:
        if _belongs(pid, leader, mark):
            signal.pidfd_send_signal(handle, signum)
    except OSError:
        pass
    finally:
        os.close(handle)
