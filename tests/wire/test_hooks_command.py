"""Hooks at the command: trust, `--bare`, `/hooks`, `config show`, and the lines of stream-json."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from command import Desk

from tugline.testing import ModelServer, call, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]


def lay(desk: Desk, **hooks: str) -> None:
    groups = {event: [{"hooks": [{"type": "command", "command": command}]}] for event, command in hooks.items()}
    (desk.cwd / ".claude").mkdir(exist_ok=True)
    (desk.cwd / ".claude/settings.json").write_text(json.dumps({"hooks": groups}))


async def test_a_cloned_folder_starts_no_program_before_it_is_trusted(desk: Desk, serve: Serve) -> None:
    lay(desk, SessionStart="touch started", UserPromptSubmit="touch submitted", SessionEnd="touch ended")
    await serve([reply("Done.")])
    ended = await desk.run("-p", "Go")
    assert (ended.code, ended.out) == (0, "Done.\n")
    assert "hooks.SessionEnd, hooks.SessionStart, hooks.UserPromptSubmit do not count" in ended.err
    assert sorted(path.name for path in desk.cwd.iterdir()) == [".claude"]


async def test_bare_runs_none(desk: Desk, serve: Serve) -> None:
    lay(desk, SessionStart="touch started")
    await serve([reply("Done.")])
    ended = await desk.run("-p", "Go", "--bare", "--trust")
    assert (ended.code, ended.err) == (0, "")
    assert not (desk.cwd / "started").exists()


async def test_a_prompt_that_a_hook_refuses_ends_with_its_reason(desk: Desk, serve: Serve) -> None:
    lay(desk, UserPromptSubmit="echo 'not on a Friday' >&2; exit 2")
    server = await serve([])
    ended = await desk.run("-p", "Go", "--trust", "--output-format", "stream-json")
    assert ended.result["terminal_reason"] == "hook_stopped"
    assert ended.err == "tugline: a hook ended the turn: not on a Friday\n"
    assert server.requests == []


async def test_lines_of_hooks_come_with_the_flag_only(desk: Desk, serve: Serve) -> None:
    lay(desk, PreToolUse="echo seen", SessionEnd="echo over")
    await serve([reply(call("Bash", command="pwd")), reply("Done.")] * 2)
    plain = await desk.run("-p", "Go", "--trust", "--output-format", "stream-json")
    assert [line for line in plain.lines if line.get("subtype", "").startswith("hook")] == []
    ended = await desk.run("-p", "Go", "--trust", "--output-format", "stream-json", "--include-hook-events")
    started, finished = (line for line in ended.lines if line.get("subtype", "").startswith("hook"))
    about: dict[str, Any] = {"hook_name": "PreToolUse:Bash", "hook_event": "PreToolUse"}
    assert started["hook_id"] == finished["hook_id"]
    assert {name: started[name] for name in about} == about
    assert (started["subtype"], finished["subtype"]) == ("hook_started", "hook_response")
    assert (finished["stdout"], finished["exit_code"], finished["outcome"]) == ("seen\n", 0, "success")
    assert ended.result["result"] == "Done."


async def test_hooks_are_listed_with_where_they_come_from(desk: Desk, serve: Serve) -> None:
    lay(desk, PreToolUse="guard\x1b[2J", WorktreeCreate="later")
    await serve([])
    listed = await desk.run("-p", "/hooks", "--trust")
    assert listed.out.splitlines()[0] == f"project: {desk.cwd}/.claude/settings.json"
    assert "- PreToolUse: command guard" in listed.out
    assert "has no occasion in this version" in listed.out
    assert "\x1b" not in listed.out
    held = await desk.run("-p", "/hooks")
    assert held.out.startswith("Not run, because nobody has approved them (tugline trust):\n- PreToolUse in ")
    shown = await desk.run("config", "show", "--trust")
    assert "hook PreToolUse: command guard" in shown.out
    plain = json.loads((await desk.run("config", "show", "--trust", "--json")).out)
    assert [hook["event"] for hook in plain["hooks"]] == ["PreToolUse", "WorktreeCreate"]
    off = await desk.run("-p", "/hooks", "--trust", "--settings", '{"disableAllHooks": true}')
    assert off.out == "Hooks do not run: disableAllHooks in --settings.\n"


async def test_the_standard_streams_are_not_the_hooks(desk: Desk, serve: Serve) -> None:
    lay(desk, Stop="cat > told; echo noise; echo noise >&2")
    await serve([reply("Done.")])
    ended = await desk.run("-p", "Go", "--trust", stdin=b"piped words")
    assert (ended.out, ended.err) == ("Done.\n", "")
    assert json.loads((desk.cwd / "told").read_text())["hook_event_name"] == "Stop"
