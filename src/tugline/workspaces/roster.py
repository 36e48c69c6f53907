"""The roster: which processes run, in a file, so that the next start can end those that a killed one has left."""

import fcntl
import json
import os
import signal
import time
from contextlib import suppress
from typing import NamedTuple

from tugline.workspaces.descendants import marked, start_time

PATIENCE = 0.5
"""Seconds from TERM to KILL for what was left behind."""
MARK_LENGTH = 16
_ENDING = ".roster"


class Roster:
    """The processes of this one. The file is made with the first of them, locked as long as this process lives, and
    gone when it is closed. What cannot be written is not worth a failure."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = ""
        self._file = -1

    def enter(self, mark: str) -> None:
        """A process is about to be started; it and all that it starts carry the mark in their environment."""
        self._write({"mark": mark})

    def identify(self, mark: str, pid: int) -> None:
        """It runs, with that id: so it is known even if it drops its environment."""
        self._write({"mark": mark, "pid": pid, "start": start_time(pid)})

    def leave(self, mark: str) -> None:
        """It has ended, with all that it started."""
        self._write({"gone": mark})

    def close(self) -> None:
        """Nothing runs any more."""
        if self._file >= 0:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(self._file)
            self._file = -1

    def _write(self, entry: dict[str, object]) -> None:
        with suppress(OSError):
            if self._file < 0:
                self._open()
            os.write(self._file, json.dumps(entry).encode() + b"\n")

    def _open(self) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._path = os.path.join(self._folder, f"{os.getpid()}-{os.urandom(4).hex()}{_ENDING}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._file, json.dumps({"boot": boot()}).encode() + b"\n")


def boot() -> str:
    """Which start of the machine this is: ids of processes mean nothing beyond it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def reap(folder: str) -> int:
    """End what processes that are no more have left running; how many commands that were."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(_ENDING)]
    except OSError:
        return 0
    return sum(_reap(os.path.join(folder, name)) for name in names)


def _reap(path: str) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left = _left(os.read(file, 1 << 24))
        with suppress(OSError):
            os.unlink(path)
    except OSError:
        return 0  # its process lives, or another one is at it
    finally:
        os.close(file)
    return _end(left) if left else 0


class _Left(NamedTuple):
    pid: int = 0
    start: int = 0


def _left(data: bytes) -> dict[str, _Left]:
    """What ran at the end, by mark. Of another start of the machine nothing is left."""
    running: dict[str, _Left] = {}
    here = boot()
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        match entry:
            case {"boot": str(other)} if other != here:
                return {}
            case {"mark": str(mark), "pid": int(pid), "start": int(start)} if len(mark) >= MARK_LENGTH:
                running[mark] = _Left(pid, start)
            case {"mark": str(mark)} if len(mark) >= MARK_LENGTH:
                running[mark] = _Left()
            case {"gone": str(mark)}:
                running.pop(mark, None)
            case _:
                pass
    return running


def _end(left: dict[str, _Left]) -> int:
    found = _alive(left)
    commands = len(set(found.values()))
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + PATIENCE
        for pid in found:
            with suppress(OSError):
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)
        while found and time.monotonic() < deadline:
            time.sleep(0.005)
            found = _alive(left)
        if not found:
            break
    return commands


def _alive(left: dict[str, _Left]) -> dict[int, str]:
    """What of them still runs, with its mark."""
    found = marked(set(left))
    for mark, (pid, start) in left.items():
        if start and start_time(pid) == start:
            found[pid] = mark
    return found
