"""Sessions on a disk: real ones, made by the library with a scripted model, and odd ones, written line by line."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import tugline
from tugline.stores.sessions import project_folder
from tugline.testing import ScriptedProvider, Step, reply

_ORDER = count()


class Shelf:
    """The sessions of one project, `work`, below a folder of their own."""

    def __init__(self, folder: Path, environ: Mapping[str, str] = {}) -> None:
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TUGLINE_HOME": str(folder / "state"),
            **environ,
        }

    @property
    def sessions(self) -> tugline.Sessions:
        return tugline.Sessions(self.work, environ=self.environ)

    @property
    def place(self) -> Path:
        """Where this project's are."""
        return Path(project_folder(self.sessions.folder, self.sessions.project))

    def session(self, *script: Step, **options: Any) -> tugline.Session:
        """One that is not open yet."""
        options = {"cwd": str(self.work), "environ": self.environ, "model": "m"} | options
        return tugline.Session(provider=ScriptedProvider(list(script)), **options)

    async def talk(self, *said: tuple[str, str], **options: Any) -> str:
        """A session of these prompts and replies; its id."""
        async with self.session(*(reply(text) for _, text in said), **options) as session:
            for prompt, _ in said:
                await session.run(prompt)
            opening = session.opening
        # the file system's clock may not tell two sessions apart that follow each other so quickly
        used = time.time() - 1_000 + next(_ORDER)
        os.utime(opening.transcript, (used, used))
        return opening.origin.session

    def write(self, name: str, lines: Sequence[dict[str, Any] | bytes]) -> Path:
        """A transcript of these lines, numbered."""
        self.place.mkdir(parents=True, exist_ok=True)
        path = self.place / f"{name}.jsonl"
        path.write_bytes(
            b"".join(
                line if isinstance(line, bytes) else json.dumps({**line, "n": n}).encode() + b"\n"
                for n, line in enumerate(lines, 1)
            )
        )
        return path


def opened(session: str = "odd-1", **more: Any) -> dict[str, Any]:
    return {"kind": "opened", "format": 1, "session": session, "agent": "main", "cwd": "/w", "version": "0", **more}


def said(name: str, text: str, parent: str | None = None, role: str = "user", **more: Any) -> dict[str, Any]:
    message = {"role": role, "id": name, "content": [{"type": "text", "text": text}]}
    return {"kind": "said", "message": message, "parent": parent, **more}
