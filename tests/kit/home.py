"""A project with sessions of its own, several of which may talk in it one after the other."""

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import tugline
from tugline.testing import ModelServer


class Home:
    """A project, its sessions, and the scripted model of the moment."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TUGLINE_HOME": str(folder / "state"),
            "ANTHROPIC_API_KEY": "canary",
        }

    def session(self, server: ModelServer, **options: Any) -> tugline.Session:
        options = {"cwd": str(self.work), "environ": {**self.environ, "ANTHROPIC_BASE_URL": server.url}} | options
        return tugline.Session(**options)

    async def talk(
        self,
        *script: Any,
        say: Sequence[str] = ("Go",),
        then: Callable[..., Awaitable[Any]] | None = None,
        **options: Any,
    ) -> list[Any]:
        """One process's share of a conversation; the bodies of its requests."""
        async with ModelServer(script) as server:
            async with self.session(server, **options) as session:
                for words in say:
                    await session.run(words)
                if then is not None:
                    await then(session)
            return server.bodies

    def transcripts(self) -> list[Path]:
        return sorted((self.work.parent / "state").rglob("sessions/*/*.jsonl"))


def unmarked(value: Any) -> Any:
    """A request without its cache markers, which move forward."""
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value
