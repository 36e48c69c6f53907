"""What lies below our data folder belongs to its user alone, whatever the umask was (figure 18)."""

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from command import Desk

from tugline.protocol.messages import User
from tugline.sessions import Sessions
from tugline.testing import ModelServer, call, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]
CANARY = "sk-ant-canary-0123456789abcdef"


@pytest.mark.parametrize("umask", [0o000, 0o277])
async def test_every_file_is_private_and_no_key_is_in_one(umask: int, desk: Desk, serve: Serve) -> None:
    (desk.cwd / "a.txt").write_text("alpha\n")
    await serve(
        [
            reply(call("Read", file_path="a.txt"), call("Bash", command="seq 30000")),
            reply(call("Write", file_path="b.txt", content="b\n")),
            reply(call("Edit", file_path="a.txt", old_string="alpha", new_string="beta")),
            reply("Done."),
            reply("More."),
        ]
    )
    allowed = ["--debug", "--allowed-tools", "Bash,Write,Edit", "--permission-mode", "acceptEdits"]
    before = os.umask(umask)
    try:
        first = await desk.run("-p", *allowed, "-n", "First", "Do it")
        second = await desk.run("-p", *allowed, "-c", "--fork-session", "And more")
        for words in (["/branch Another"], ["/rename It"], ["/rewind 1"]):
            assert (await desk.run("-p", "-c", *words)).code == 0
        one = next(s for s in Sessions(desk.cwd, environ=desk.environ).summaries() if s.title == "First")
        assert (await desk.run("sessions", "archive", one.session)).code == 0
    finally:
        os.umask(before)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    state = desk.folder / "state"
    found = [path for path in state.rglob("*") if not path.is_symlink()]
    kinds = {path.suffix for path in found if path.is_file()}
    assert {".jsonl", ".txt", ".log"} <= kinds
    assert {(str(path), oct(mode(path))) for path in [state, *found] if mode(path) & 0o077} == set()
    for path in found:
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
    for session in Sessions(desk.cwd, environ=desk.environ).summaries():
        assert any(isinstance(p.said, User) for p in Sessions(desk.cwd, environ=desk.environ).passages(session.session))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)
