"""The processes that this one started: those that nobody looks after any more, and all of them where there is no time
left to end them gently."""

import os
import signal
import sys
from contextlib import suppress

ROUNDS = 10
"""Looks for more: a process may start another one while it is being ended."""

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> frozenset[int]:
    """From now on what a command leaves behind is our child, however it hides. Linux only; for the command only: it
    holds for the whole process. Returns the children that are there already: `server & exec tugline` has some."""
    if sys.platform != "linux":
        return frozenset()
    import ctypes  # noqa: PLC0415  imported here: start-up cost

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return frozenset(descendants(os.getpid()))


def kill_orphans(others: frozenset[int]) -> None:
    """Kill what commands have left behind: each was started in a session of its own. `others` are none of ours."""
    own = os.getsid(0)

    def is_orphan(pid: int) -> bool:
        with suppress(OSError):
            return os.getsid(pid) != own
        return False

    for _ in range(ROUNDS):
        found = [pid for pid in descendants(os.getpid(), others) if is_orphan(pid)]
        if not found:
            return
        _kill(found)


def kill_children() -> None:
    """Kill every descendant that `/proc` shows, and the groups that they lead. Elsewhere than on Linux: nothing."""
    for _ in range(ROUNDS):
        found = descendants(os.getpid())
        if not found:
            return
        _kill(found)


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(OSError):
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def descendants(root: int, but: frozenset[int] = frozenset()) -> list[int]:
    """All living processes below `root`, parents before their children, without `but` and what is below them."""
    children: dict[int, list[tuple[int, bool]]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdecimal() or int(name) in but:
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split(None, 2)[:2]
        except (OSError, ValueError):
            continue
        children.setdefault(int(parent), []).append((int(name), state not in (b"Z", b"X")))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += [pid for pid, alive in below if alive]
        waiting += [pid for pid, _ in below]
    return found
