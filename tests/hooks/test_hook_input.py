"""What hooks are told: the JSON on stdin of each event, whole."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hook_desk import HookDesk, group, sent

import tugline
from tugline.testing import Match, ModelServer, call, fail, reply

Json = dict[str, Any]


@pytest.fixture
def desk(tmp_path: Path) -> HookDesk:
    return HookDesk(tmp_path)


def keeper(desk: HookDesk, *events: str, **more: Any) -> None:
    """Hooks that keep what each event is told, one line each."""
    desk.settings(
        {event: [group(f"line=$(cat); printf '%s\\n' \"$line\" >> {desk.log}/all", **more)] for event in events}
    )


def kept(desk: HookDesk) -> list[Json]:
    return [json.loads(line) for line in (desk.log / "all").read_text().splitlines() if line]


async def play(desk: HookDesk, *steps: Any, prompt: str = "Go", **options: Any) -> tuple[Json, list[Json]]:
    """The fields that every event has, and what else each was told."""
    async with ModelServer(list(steps), lenient=True) as server:
        async with desk.session(server, **options) as session:
            finished = await session.run(prompt)
            common = {
                "session_id": session.opening.origin.session,
                "transcript_path": session.opening.transcript,
                "cwd": str(desk.repo),
                "permission_mode": options.get("permission_mode", "acceptEdits"),
            }
            ids = {"": "", finished.prompt: "prompt"}
    found = kept(desk)
    for one in found:
        assert {name: one.pop(name) for name in common} == common
        one["prompt_id"] = ids[one["prompt_id"]]
    return common, found


async def test_a_session_with_a_call(desk: HookDesk) -> None:
    keeper(desk, "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop", "SessionEnd")
    use = call("Bash", command="echo hi")
    _, found = await play(desk, reply(use), reply("Done."))
    duration = found[3].pop("duration_ms")
    assert isinstance(duration, int)
    about = {"tool_name": "Bash", "tool_input": {"command": "echo hi"}, "tool_use_id": found[2]["tool_use_id"]}
    response = {"tool_response": {"stdout": "hi", "stderr": "", "interrupted": False, "isImage": False}}
    assert found == [
        {"prompt_id": "", "hook_event_name": "SessionStart", "source": "startup", "model": found[0]["model"]},
        {"prompt_id": "prompt", "hook_event_name": "UserPromptSubmit", "prompt": "Go"},
        {"prompt_id": "prompt", "hook_event_name": "PreToolUse", **about},
        {"prompt_id": "prompt", "hook_event_name": "PostToolUse", **about, **response},
        {"prompt_id": "prompt", "hook_event_name": "PostToolBatch", "tool_calls": [{**about, **response}]},
        {
            "prompt_id": "prompt",
            "hook_event_name": "Stop",
            "stop_hook_active": False,
            "last_assistant_message": "Done.",
            "background_tasks": [],
            "session_crons": [],
        },
        {"prompt_id": "prompt", "hook_event_name": "SessionEnd", "reason": "other"},
    ]


async def test_a_call_that_fails(desk: HookDesk) -> None:
    keeper(desk, "PostToolUse", "PostToolUseFailure")
    _, found = await play(desk, reply(call("Read", file_path=str(desk.repo / "none"))), reply("Done."))
    assert isinstance(found[0].pop("duration_ms"), int)
    error = found[0].pop("error")
    assert "none" in error
    assert found == [
        {
            "prompt_id": "prompt",
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Read",
            "tool_input": {"file_path": str(desk.repo / "none")},
            "tool_use_id": found[0]["tool_use_id"],
            "is_interrupt": False,
        }
    ]


async def test_a_question_with_nobody_to_ask(desk: HookDesk) -> None:
    keeper(desk, "PermissionRequest", "PermissionDenied")
    _, found = await play(desk, reply(call("Bash", command="touch x")), reply("Done."), permission_mode="default")
    about = {"tool_name": "Bash", "tool_input": {"command": "touch x"}, "tool_use_id": found[0]["tool_use_id"]}
    rule = {"toolName": "Bash", "ruleContent": "touch x"}
    suggestion = {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"}
    reason = found[1].pop("reason")
    assert "nobody can be asked" in reason
    assert found == [
        {
            "prompt_id": "prompt",
            "hook_event_name": "PermissionRequest",
            **about,
            "permission_suggestions": [suggestion],
        },
        {"prompt_id": "prompt", "hook_event_name": "PermissionDenied", **about},
    ]


async def test_a_turn_that_the_service_ends(desk: HookDesk) -> None:
    keeper(desk, "StopFailure", "Stop")
    async with ModelServer([fail(401)], lenient=True) as server, desk.session(server) as session:
        over = asyncio.Event()
        session.inside.bus.attach(lambda event: over.set() if isinstance(event, tugline.HookFinished) else None)
        assert (await session.run("Go")).reason == "api_error"
        await over.wait()
    (found,) = kept(desk)
    assert (found["hook_event_name"], found["error"]) == ("StopFailure", "authentication_failed")


async def test_a_shell_that_moves(desk: HookDesk) -> None:
    keeper(desk, "CwdChanged")
    (desk.repo / "sub").mkdir()
    async with ModelServer([reply(call("Bash", command="cd sub")), reply("Done.")], lenient=True) as server:
        async with desk.session(server) as session:
            await session.run("Go")
    (found,) = kept(desk)
    assert (found["old_cwd"], found["new_cwd"], found["cwd"]) == (
        str(desk.repo), str(desk.repo / "sub"), str(desk.repo / "sub"),
    )  # fmt: skip


async def test_files_of_instructions(desk: HookDesk) -> None:
    desk.file("AGENTS.md", "Use tabs.")
    keeper(desk, "InstructionsLoaded")
    async with ModelServer([reply("Done.")], lenient=True) as server, desk.session(server) as session:
        over = asyncio.Event()
        session.inside.bus.attach(lambda event: over.set() if isinstance(event, tugline.HookFinished) else None)
        await session.run("Go")
        await over.wait()
    (found,) = kept(desk)
    assert (found["file_path"], found["memory_type"], found["load_reason"]) == (
        str(desk.repo / "AGENTS.md"), "Project", "session_start",
    )  # fmt: skip


async def test_files_that_change(desk: HookDesk) -> None:
    envrc = desk.file(".envrc", "A=1")
    start = json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": [str(desk.top / "far")]}})
    keep = f"line=$(cat); printf '%s\\n' \"$line\" >> {desk.log}/all"
    hooks = {
        "SessionStart": [group(f"echo '{start}'")],
        "FileChanged": [group(keep, ".envrc|.env"), group(keep + "; true")],
        "ConfigChange": [group(keep, "project_settings")],
    }
    desk.settings(hooks)
    async with ModelServer([reply("Done.")], lenient=True) as server, desk.session(server) as session:
        heard = session.events()
        await session.run("Go")

        async def next_hook() -> None:
            async for event in heard:
                if isinstance(event, tugline.HookFinished) and event.event in ("FileChanged", "ConfigChange"):
                    return

        envrc.write_text("A=22")
        await next_hook()
        await next_hook()
        (desk.top / "far").write_text("there")
        await next_hook()
        desk.settings({**hooks, "Stop": []})
        await next_hook()
    told = {(one["hook_event_name"], one["file_path"], one.get("event", one.get("source"))) for one in kept(desk)}
    assert told == {
        ("FileChanged", str(envrc), "change"),
        ("FileChanged", str(desk.top / "far"), "add"),
        ("ConfigChange", str(desk.repo / ".claude/settings.json"), "project_settings"),
    }


@pytest.mark.parametrize("way", ["resume", "fork", "clear", "branch"])
async def test_how_a_session_begins(desk: HookDesk, way: str) -> None:
    desk.settings({"SessionStart": [group(f"line=$(cat); printf '%s\\n' \"$line\" >> {desk.log}/all; echo how")]})
    async with ModelServer([reply("One."), reply("Two.")], lenient=True) as server:
        async with desk.session(server) as session:
            first = session.opening.origin.session
            await session.run("Go")
            if way in ("clear", "branch"):
                await session.run(f"/{way}")
                await session.run("Again")
        if way in ("resume", "fork"):
            async with desk.session(server, resume=first, fork_session=way == "fork") as session:
                await session.run("Again")
    told = kept(desk)
    assert [one["source"] for one in told] == ["startup", "fork" if way == "branch" else way]
    assert (told[1]["session_id"] == first) == (way in ("resume", "clear"))
    assert sent(server).count("additional context: how") == (1 if way == "clear" else 2)


async def test_hooks_see_the_environment_of_other_children_and_no_terminal(desk: HookDesk) -> None:
    command = f"env > {desk.log}/env; (: < /dev/tty) 2>/dev/null && echo tty >> {desk.log}/env; true"
    desk.settings({"SessionStart": [group(command)]})
    await play_quiet(desk)
    env = dict(line.partition("=")[::2] for line in (desk.log / "env").read_text().splitlines())
    assert env["CLAUDE_PROJECT_DIR"] == env["TUGLINE_PROJECT_DIR"] == str(desk.repo)
    assert "CLAUDE_ENV_FILE" in env
    assert "ANTHROPIC_API_KEY" not in env
    assert "tty" not in env


async def play_quiet(desk: HookDesk) -> None:
    async with ModelServer([reply("Done.")], lenient=True) as server, desk.session(server) as session:
        await session.run("Go")


async def test_a_compaction(desk: HookDesk) -> None:
    line = f"line=$(cat); printf '%s\\n' \"$line\" >> {desk.log}/all"
    words = json.dumps({"hookSpecificOutput": {"additionalContext": "keep the names of files"}})
    desk.settings(
        {
            "PreCompact": [group(f"{line}; echo '{words}'", "manual")],
            "SessionStart": [group(f"{line}; echo still in review", "compact")],
            "PostCompact": [group(line)],
        }
    )
    steps = [
        reply("One. " * 8000),
        reply("Two."),
        reply("<summary>" + "A short summary. " * 8 + "</summary>", when=Match(last="has become too long")),
        reply("Three."),
    ]
    async with ModelServer(steps, lenient=True) as server, desk.session(server) as session:
        await session.run("Go")
        await session.run("On")
        over = asyncio.Event()

        def hear(event: tugline.Event) -> None:
            if isinstance(event, tugline.HookFinished) and event.event == "PostCompact":
                over.set()

        session.inside.bus.attach(hear)
        assert (await session.run("/compact the plan")).message == ""
        await over.wait()
        assert "keep the names of files" in sent(server)
        await session.run("Further")
        assert "still in review" in sent(server)
    before, begun, after = kept(desk)
    assert (before["hook_event_name"], before["trigger"], before["custom_instructions"]) == (
        "PreCompact", "manual", "the plan",
    )  # fmt: skip
    assert begun["model"] != ""
    assert (begun["source"], after["trigger"]) == ("compact", "manual")
    assert "A short summary." in after["compact_summary"]


async def test_a_compaction_that_a_hook_forbids(desk: HookDesk) -> None:
    desk.settings({"PreCompact": [group("echo not now >&2; exit 2")]})
    steps = [reply("One. " * 8000), reply("Two.")]
    async with ModelServer(steps, lenient=True) as server, desk.session(server) as session:
        await session.run("Go")
        await session.run("On")
        finished = await session.run("/compact")
        assert finished.reason == "failed"
        assert "not now" in finished.message
        assert len(server.requests) == 2
