"""A project with hooks as people write them, and the real session that runs them."""

import json
import os
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import tugline
from tugline.protocol.blocks import Text
from tugline.protocol.messages import User
from tugline.testing import ModelServer

Said = TypeVar("Said", bound=tugline.Event)


class HookDesk:
    """`repo` is the project, `home` the person's; `log` is where hooks leave what they were told."""

    def __init__(self, folder: Path) -> None:
        self.top = Path(os.path.realpath(folder))
        self.repo, self.home, self.log = self.top / "repo", self.top / "home", self.top / "log"
        for path in (self.repo, self.home, self.log, self.top / "bin"):
            path.mkdir()
        (self.repo / ".git").mkdir()
        self.heard: list[tugline.Event] = []

    def script(self, name: str, text: str) -> str:
        """A program that hooks may run."""
        path = self.top / "bin" / name
        path.write_text(textwrap.dedent(text).lstrip())
        path.chmod(0o755)
        return str(path)

    def file(self, name: str, text: str) -> Path:
        path = self.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def settings(self, hooks: Mapping[str, Any], name: str = ".claude/settings.json", **more: Any) -> None:
        """Put settings with these hooks into the project."""
        self.file(name, json.dumps({"hooks": hooks, **more}))

    def keeping(self, name: str) -> str:
        """A command that keeps what it was told."""
        return f"cat > '{self.log}/{name}.json'"

    def told(self, name: str) -> dict[str, Any]:
        """What the command was told."""
        found = json.loads((self.log / f"{name}.json").read_text())
        assert isinstance(found, dict)
        return found

    @asynccontextmanager
    async def session(self, server: ModelServer, **options: Any) -> AsyncIterator[tugline.Session]:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TUGLINE_HOME": str(self.top / "state"),
            "TUGLINE_NETWORK_RETRY_BASE": "0.001",
            "TUGLINE_NETWORK_MAX_RETRIES": "0",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-ant-canary-0123456789abcdef",
            **options.pop("environ", {}),
        }
        given = {"trust": True, "permission_mode": "acceptEdits", **options}
        async with tugline.Session(cwd=str(self.repo), environ=environ, **given) as session:
            session.inside.bus.attach(self.heard.append)
            yield session

    def said(self, kind: type[Said]) -> list[Said]:
        return [event for event in self.heard if isinstance(event, kind)]

    def notices(self) -> list[str]:
        return [event.text for event in self.said(tugline.Notice)]


def group(command: str, matcher: str | None = None, **more: Any) -> dict[str, Any]:
    """A group of one command, as it stands in a settings file."""
    entry = {"type": "command", "command": command, **more}
    return {"hooks": [entry]} if matcher is None else {"matcher": matcher, "hooks": [entry]}


def sent(server: ModelServer, index: int = -1) -> str:
    """The messages of a request, as text."""
    return json.dumps(server.requests[index].body["messages"], ensure_ascii=False)


def words(session: tugline.Session) -> list[str]:
    """What stands in the conversation for the model, of the user's side."""
    messages = session.inside.agent.gear.transcript.messages
    return [
        block.text
        for message in messages
        if isinstance(message, User)
        for block in message.content
        if isinstance(block, Text)
    ]
