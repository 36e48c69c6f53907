"""Everything that the command shows, on a real terminal, with a corpus of sequences that would take it over."""

import asyncio
import json
import os
import pty
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyte
import pytest
from command import TUGLINE, Desk

from tugline.testing import ModelServer, call, fail, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]

CORPUS = (
    "\x1b]0;pwned\x07", "\x1b]2;pwned\x1b\\", "\x9d0;pwned\x9c", "\x1b]52;c;cHduZWQ=\x07",
    "\x1b]8;;http://evil\x07x\x1b]8;;\x07",
    "\x1b[2J\x1b[H", "\x9b2J", "\x1b[31;5m", "\x1b[?1049h", "\x1b[?25l", "\x1b[6n", "\x1b[c", "\x1b[1000D", "\x1b[10A",
    "\x1bPq#0;2;0;0;0\x1b\\", "\x90+q\x9c", "\x1b_Gi=1;AAAA\x1b\\", "\x1b^pm\x1b\\", "\x1bXsos\x1b\\", "\x1bc",
    "\x1b7\x1b8",
    "\x1b#8", "\x1b(0", "\x0e\x0f", "\b\b\b\b", "\x07", "\r\roverwritten", "\x7f", "\x0b\x0c", "\x85", "\u202egnp.exe",
    "\u2066x\u2069", "\u200b\u200d", "\U000e0041\U000e0042", "\x1b", "\x1b[", "\x1b]0;cut", "\x1b[38;2;1;2;3", "\x00",
)  # fmt: skip
HOSTILE = "begin " + " ".join(CORPUS) + " end"
ALLOWED = re.compile(r"[\n\r\t\x20-\x7e\xa0-\U0010ffff]*")
INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f\ufeff]")


async def on_terminal(desk: Desk, *argv: str) -> str:
    """What the command writes to a terminal, both streams, without colours of our own."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    environ = {**desk.environ, "NO_COLOR": "1", "TERM": "xterm"}
    process = await asyncio.create_subprocess_exec(
        TUGLINE, *argv, stdin=asyncio.subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=desk.cwd, env=environ
    )
    os.close(theirs)
    written = bytearray()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def read() -> None:
        try:
            data = os.read(ours, 65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        written.extend(data)
        if not data:
            loop.remove_reader(ours)
            ended.set()

    loop.add_reader(ours, read)
    async with asyncio.timeout(60):
        await ended.wait()
        await process.wait()
    os.close(ours)
    return written.decode()


def assert_harmless(shown: str) -> None:
    assert ALLOWED.fullmatch(shown), sorted({hex(ord(c)) for c in shown if not ALLOWED.fullmatch(c)})
    assert INVISIBLE.search(shown) is None
    screen = pyte.Screen(200, 400)
    pyte.Stream(screen).feed(shown)
    assert (screen.title, screen.icon_name) == ("", "")
    lines = [line.rstrip() for line in screen.display]
    # nothing moved the cursor: all stands where it was written
    flat = "".join(shown.replace("\r", "").replace("\t", "").split())
    assert "".join("".join(lines).split())[:2_000] == flat[:2_000]


async def test_what_a_model_and_its_tools_say(desk: Desk, serve: Serve) -> None:
    name = "".join(c for c in HOSTILE if c not in "/\0")[:80]
    (desk.cwd / name).write_text(HOSTILE)
    (desk.cwd / "print.py").write_text(f"import sys; sys.stdout.write({HOSTILE!r})")
    script = [
        reply(HOSTILE, call("Bash", command=f"{sys.executable} print.py # {HOSTILE}", description=HOSTILE)),
        reply(call("Bash", command=f"{sys.executable} print.py")),
        reply(call("Read", file_path=str(desk.cwd / name)), call("Glob", pattern="*"), call("Read", file_path=HOSTILE)),
        reply(call("TodoWrite", todos=[{"content": HOSTILE, "status": "pending", "activeForm": HOSTILE}])),
        reply(call("Edit", file_path=str(desk.cwd / name), old_string="begin", new_string=HOSTILE)),
        reply(HOSTILE),
    ]
    await serve(script)
    shown = await on_terminal(desk, "-p", "Go", "--verbose", "--allowed-tools", "Bash,Read,Edit,Glob,TodoWrite")
    assert "begin" in shown
    assert_harmless(shown)


@pytest.mark.parametrize("status", [400, 401, 429])
async def test_what_a_provider_says_of_an_error(desk: Desk, serve: Serve, status: int) -> None:
    await serve([fail(status, HOSTILE), fail(status, HOSTILE), fail(status, HOSTILE)])
    shown = await on_terminal(desk, "-p", "Go", "--verbose")
    assert "begin" in shown
    assert_harmless(shown)


async def test_what_files_and_arguments_say(desk: Desk, serve: Serve) -> None:
    await serve([reply("Hello.")] * 3)
    (desk.cwd / ".tugline").mkdir()
    settings = {HOSTILE: 1, "theme": HOSTILE, "permissions": {"deny": [HOSTILE]}, "sandbox": {"denyRead": [HOSTILE]}}
    (desk.cwd / ".tugline" / "settings.json").write_text(json.dumps(settings))
    text = HOSTILE.replace("\0", "")
    folder = Path(desk.cwd) / "".join(c for c in text if c != "/")[:60]
    folder.mkdir()
    (folder / "AGENTS.md").write_text("@" + text)
    commands = (
        ("-p", "Go", "--trust"), ("-p", "Go", f"--{text}"), ("-p", "Go", "--model", text), ("-p", "Go", "-n", text),
        ("-p", f"/{text}"), ("-p", "Go", "--resume", text), ("-p", "Go", "--settings", text),
        ("config", "show", "--origin", "--trust"), ("config", "context", "--trust"), ("config", text),
        ("doctor", "--trust"), ("doctor", text),
    )  # fmt: skip
    for words in commands:
        assert_harmless(await on_terminal(desk, *words))
