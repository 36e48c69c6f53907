"""A project that an agent changes, by tools and by commands, and that is put back."""

import os
import stat
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import tugline
from tugline.protocol.events import Event, Notice
from tugline.protocol.records import AnyRecord, FilesChanged
from tugline.protocol.script import Step
from tugline.stores.reading import read_file
from tugline.testing import ScriptedProvider, call, reply

File = tuple[bytes, int, bool]
"""Content, mode, and whether it is a link."""
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")


class Workshop:
    """A folder `work`, and the sessions in it; with git, its files are committed."""

    def __init__(self, folder: Path, *, git: bool = True, files: dict[str, str | bytes] | None = None) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.work = self.folder / "work"
        self.work.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TUGLINE_HOME": str(self.folder / "state"),
        }
        for name, content in (files or {}).items():
            self.write(name, content)
        if git:
            self.git("init", "-q")
            self.git("add", "-A")
            self.git("commit", "-q", "--allow-empty", "-m", "first")

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """What git says, as the person would be told."""
        done = subprocess.run([*GIT, *words], cwd=cwd or self.work, check=True, capture_output=True, env=self.environ)
        return done.stdout.decode()

    def write(self, name: str, content: str | bytes = "") -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def tree(self) -> dict[bytes, File]:
        """All files of the work tree but git's own, by their names as bytes."""
        found: dict[bytes, File] = {}
        top = os.fsencode(self.work)
        for folder, folders, names in os.walk(top):
            if b".git" in folders:
                folders.remove(b".git")
            for name in [*names, *(one for one in folders if os.path.islink(os.path.join(folder, one)))]:
                path = os.path.join(folder, name)
                if name == b".git":
                    continue
                mode = os.lstat(path).st_mode
                link = stat.S_ISLNK(mode)
                data = os.readlink(path) if link else Path(os.fsdecode(path)).read_bytes()
                found[os.path.relpath(path, top)] = (data, stat.S_IMODE(mode), link)
        return found

    @asynccontextmanager
    async def session(self, script: Sequence[Step] = (), **options: Any) -> AsyncIterator[tugline.Session]:
        given: dict[str, Any] = {
            "cwd": str(self.work),
            "environ": self.environ,
            "provider": ScriptedProvider([*script]),
            "model": "scripted",
            "permission_mode": "bypassPermissions",
            "instruction_files": (),
        } | options
        async with tugline.Session(**given) as session:
            yield session

    @property
    def transcript(self) -> Path:
        """The only one there is."""
        (found,) = (self.folder / "state").rglob("sessions/*/*.jsonl")
        return found

    def records(self) -> tuple[AnyRecord, ...]:
        return read_file(str(self.transcript), whole=True).records

    def changes(self) -> list[FilesChanged]:
        return [record for record in self.records() if isinstance(record, FilesChanged)]

    @property
    def checkpoints(self) -> Path:
        return self.folder / "state" / "data" / "checkpoints"


def doing(*calls: Any, answer: str = "Done.") -> list[Step]:
    """The model's part of a turn in which it makes these calls, one after the other."""
    return [*(reply(one) for one in calls), reply(answer)]


def shell(command: str) -> Any:
    return call("Bash", command=command)


def warnings(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
