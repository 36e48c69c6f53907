"""Whatever happens in a session, each request begins with the bytes of the one before, also after it was left and gone
on with (cache markers aside)."""

import asyncio
import re
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tugline
from tugline.protocol.specs import ModelRequest
from tugline.providers.anthropic import AnthropicEncoder
from tugline.providers.catalog import Catalog
from tugline.providers.openai_chat import ChatEncoder
from tugline.testing import ScriptedProvider, call, fail, reply

MARK = b',"cache_control":{"type":"ephemeral"}'
TODO = {"content": "Think", "status": "pending", "activeForm": "Thinking"}
CALLS: dict[str, list[Any]] = {
    "talk": [],
    "read": [call("Read", file_path="a.txt")],
    "several": [call("Read", file_path="b.txt"), call("Glob", pattern="*"), call("Read", file_path="none.txt")],
    "edit": [call("Write", file_path="c.txt", content="new\n")],
    "shell": [call("Bash", command="date; cd sub; echo x >> log")],
    "plan": [call("TodoWrite", todos=[TODO])],
    "unknown": [call("Wish", for_="rain")],
    "denied": [call("WebFetch", url="http://127.0.0.1:9/", prompt="look")],
}
MOVES = st.sampled_from([*CALLS, "steer", "mode", "leave", "broken", "rename", "change"])


def begins(body: bytes) -> bytes:
    """What the next request has to begin with: all up to the end of the last content."""
    plain = body.replace(MARK, b"")
    cut = re.search(rb'(?:\]\}|"\})?\](?:,"max_tokens"|,"stream")', plain)
    assert cut is not None
    return plain[: cut.start()]


class Story:
    """A session that is played by moves, and the requests that it made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[ModelRequest] = []
        (folder / "work" / "sub").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(folder / "work")], check=True)
        for name in ("a", "b"):
            (folder / "work" / f"{name}.txt").write_text(f"{name}\n" * 20)

    async def play(self, moves: list[str]) -> None:
        part: list[str] = []
        for move in [*moves, "talk", "leave"]:
            if move != "leave":
                part.append(move)
            elif part:
                await self._sit(part)
                part = []

    async def _sit(self, moves: list[str]) -> None:
        steps: list[Any] = []
        for move in moves:
            if move == "broken":
                steps += [fail(400, "no such thing")]
            elif move in CALLS:
                steps += [reply(f"I {move}.", *CALLS[move]), *([reply("Done.")] if CALLS[move] else [])]
        provider = ScriptedProvider(steps)
        session = tugline.Session(
            provider=provider, model="claude-sonnet-4-5", cwd=str(self.folder / "work"),
            allowed_tools=["Bash", "Write"],
            environ={"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "TUGLINE_HOME": str(self.folder / "state")},
            continue_session=bool(self.requests),
        )  # fmt: skip
        async with session:
            for number, move in enumerate(moves):
                await self._move(session, move, number)
        provider.check()
        self.requests += provider.requests

    async def _move(self, session: tugline.Session, move: str, number: int) -> None:
        match move:
            case "steer":
                session.inside.agent.gear.inbox.put(tugline_letter(f"by the way {number}"))
            case "mode":
                session.set_mode("acceptEdits" if number % 2 else "default")
            case "rename":
                session.rename(f"name {number}")
            case "change":
                (self.folder / "work" / "a.txt").write_text(f"changed {number}\n")
            case _:
                await session.run(f"Please {move}, {number}")


def tugline_letter(words: str) -> Any:
    from tugline.loop.inbox import Letter

    return Letter((tugline.Text(words),))


@pytest.mark.parametrize("encoder", [AnthropicEncoder, ChatEncoder])
@given(moves=st.lists(MOVES, min_size=2, max_size=9))
@settings(max_examples=25)
def test_requests_of_any_session_only_grow_at_their_end(encoder: Any, moves: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder))
        asyncio.run(story.play(moves))
        bodies = [encoder(Catalog()).encode(request)[1].replace(MARK, b"") for request in story.requests]
        for before, after in pairwise(bodies):
            assert after.startswith(begins(before))
