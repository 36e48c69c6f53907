"""Hooks that are questions to a model, requests, agents, and functions of the library's caller."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hook_desk import HookDesk, sent

import tugline
from tugline.testing import Lane, Match, ModelServer, Script, call, reply


@pytest.fixture
def desk(tmp_path: Path) -> HookDesk:
    return HookDesk(tmp_path)


def entry(**fields: Any) -> dict[str, Any]:
    return {"hooks": [fields]}


# -- functions


async def run(desk: HookDesk, hooks: Any, *steps: Any, **options: Any) -> tuple[ModelServer, Any]:
    async with ModelServer(list(steps), lenient=True) as server:
        async with desk.session(server, hooks=hooks, **options) as session:
            finished = await session.run("Go")
        return server, finished


async def test_a_function_sees_the_call_and_may_deny_it(desk: HookDesk) -> None:
    seen: list[tugline.HookInput] = []

    async def guard(given: tugline.HookInput) -> tugline.HookOutput | None:
        seen.append(given)
        if "rm" in given.tool_input["command"]:
            return tugline.HookOutput(decision="deny", reason="not here")
        return None

    hooks = {"PreToolUse": tugline.HookMatch(guard, matcher="Bash")}
    steps = [reply(call("Bash", command="rm x")), reply(call("Glob", pattern="*")), reply("Done.")]
    server, _ = await run(desk, hooks, *steps)
    assert "was denied: not here" in sent(server)
    assert [(one.event, one.tool_name, one.tool_input, one.cwd) for one in seen] == [
        ("PreToolUse", "Bash", {"command": "rm x"}, str(desk.repo))
    ]
    assert seen[0].data["permission_mode"] == "acceptEdits"


async def test_a_plain_function_may_answer_as_json_does(desk: HookDesk) -> None:
    def context(given: tugline.HookInput) -> dict[str, Any]:
        return {"hookSpecificOutput": {"additionalContext": f"asked: {given.prompt}"}}

    server, _ = await run(desk, {"UserPromptSubmit": [context]}, reply("Done."))
    assert "asked: Go" in sent(server)


async def test_functions_run_in_a_folder_that_is_not_trusted_and_without_the_settings_hooks(desk: HookDesk) -> None:
    desk.settings({"UserPromptSubmit": [entry(type="command", command="echo from the project")]})
    hooks = {"UserPromptSubmit": lambda given: tugline.HookOutput(context="from the program")}
    server, _ = await run(desk, hooks, reply("Done."), trust=False)
    assert "from the program" in sent(server)
    assert "from the project" not in sent(server)


async def _hang(given: tugline.HookInput) -> None:
    await anyio.sleep_forever()


async def _swallow(given: tugline.HookInput) -> None:
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        await asyncio.sleep(600)


async def _cancel_itself(given: tugline.HookInput) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def _raise(given: tugline.HookInput) -> None:
    raise ZeroDivisionError("nothing to divide")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_hang, "longer than 0.1 s"),
        (_swallow, "longer than 0.1 s"),
        (_cancel_itself, "cancelled itself"),
        (_raise, "nothing to divide"),
        (lambda given: 3, "returned a int"),
        (lambda given: {"continue": 3}, "continue is not of type boolean"),
    ],
)
async def test_a_function_that_misbehaves_is_a_warning(desk: HookDesk, function: Any, said: str) -> None:
    hooks = {"PreToolUse": tugline.HookMatch(function, timeout=0.1)}
    _, finished = await run(desk, hooks, reply(call("Bash", command="pwd")), reply("Done."))
    assert finished.text == "Done."
    assert said in desk.notices()[0]


async def test_a_function_may_block_where_it_fails(desk: HookDesk) -> None:
    hooks = {"PreToolUse": tugline.HookMatch(_raise, block_on_failure=True)}
    server, _ = await run(desk, hooks, reply(call("Bash", command="touch x")), reply("Done."))
    assert "a hook failed: ZeroDivisionError" in sent(server)
    assert not (desk.repo / "x").exists()


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ({"PreToolUsed": print}, "Did you mean PreToolUse?"),
        ({"Stop": "echo"}, "takes functions"),
        ([print], "a dict from events"),
        ({"Stop": tugline.HookMatch(print, timeout=0)}, "a number above 0"),
        ({"PreToolUse": tugline.HookMatch(print, matcher="[")}, "cannot be read"),
        ({"PreToolUse": tugline.HookMatch(print, rule="Bash((")}, "permission rule"),
        ({"Stop": tugline.HookMatch(print, rule="Bash")}, "no meaning for Stop"),
    ],
)
def test_wrong_functions_are_refused_with_the_right_word(hooks: Any, said: str) -> None:
    with pytest.raises(tugline.UsageError, match=said.replace("?", r"\?")):
        tugline.Session(hooks=hooks)


# -- models


def judging(answer: str, *steps: Any) -> Script:
    lane = Lane(match=Match(last="You judge an event"), steps=[reply(answer)] * 3)
    return Script(list(steps), lanes={"judge": lane})


async def test_a_small_model_may_deny_a_call(desk: HookDesk) -> None:
    hook = entry(type="prompt", prompt="Only reading commands. The call: $ARGUMENTS")
    desk.settings({"PreToolUse": [{"matcher": "Bash", **hook}]})
    script = judging('{"ok": false, "reason": "it writes"}', reply(call("Bash", command="touch x")), reply("Done."))
    async with ModelServer(script, lenient=True) as server:
        async with desk.session(server) as session:
            assert (await session.run("Go")).text == "Done."
            costs = await session.costs()
    assert "was denied: it writes" in sent(server)
    assert not (desk.repo / "x").exists()
    assert "touch x" in sent(server, 1)
    assert "hook" in str(costs)


async def test_a_model_that_talks_nonsense_decides_nothing(desk: HookDesk) -> None:
    desk.settings({"Stop": [entry(type="prompt", prompt="Is all done?")]})
    async with ModelServer(judging("Well...", reply("Done.")), lenient=True) as server, desk.session(server) as session:
        assert (await session.run("Go")).text == "Done."
    assert "the model's answer is no judgement: Well..." in desk.notices()[0]


async def test_an_agent_looks_before_it_judges_and_has_no_hooks(desk: HookDesk) -> None:
    desk.file("notes.txt", "two tests fail")
    desk.settings(
        {
            "Stop": [entry(type="agent", prompt="Does notes.txt say that all tests pass?")],
            "PreToolUse": [entry(type="command", command=f"cat >> {desk.log}/calls")],
        }
    )
    steps = [
        reply(call("Read", file_path=str(desk.repo / "notes.txt"))),
        reply('{"ok": false, "reason": "two tests fail"}'),
        reply('{"ok": true}'),
    ]
    lanes = {"judge": Lane(match=Match(system="You judge an event"), steps=steps)}
    script = Script([reply("Done?"), reply("Done.")], lanes=lanes)
    async with ModelServer(script, lenient=True) as server, desk.session(server) as session:
        finished = await session.run("Go")
        assert finished.text == "Done."
        assert "two tests fail" in sent(server, 3)
        names = [tool["name"] for tool in server.requests[1].body["tools"]]
    assert names == ["Read", "Grep", "Glob"]
    assert not (desk.log / "calls").exists()


# -- requests


class Receiver:
    """A server that keeps what is posted, and answers as told."""

    def __init__(self, status: int = 200, body: str = "") -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self._answer = (
            f"HTTP/1.1 {status} X\r\nContent-Length: {len(body.encode())}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((head[0], headers, json.loads(body)))
        writer.write(self._answer)
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Receiver"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
            yield self


async def test_a_request_posts_the_json_and_its_answer_counts(desk: HookDesk) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}, "systemMessage": "!"}
    async with Receiver(body=json.dumps(answer)).open() as receiver:
        headers = {"Authorization": "Bearer $TEAM_TOKEN", "X-Other": "${HOME}-$TEAM_TOKEN"}
        hook = entry(type="http", url=receiver.url, headers=headers, allowedEnvVars=["TEAM_TOKEN"])
        desk.settings({"PreToolUse": [hook]})
        async with ModelServer([reply(call("Bash", command="touch x")), reply("Done.")], lenient=True) as server:
            async with desk.session(server, environ={"TEAM_TOKEN": "abc"}) as session:
                await session.run("Go")
            assert "a hook denied it" in sent(server)
    line, got, body = receiver.requests[0]
    assert line == "POST /hook HTTP/1.1"
    assert (got["authorization"], got["x-other"], got["content-type"]) == ("Bearer abc", "-abc", "application/json")
    assert (body["hook_event_name"], body["tool_input"]) == ("PreToolUse", {"command": "touch x"})
    assert "!" in desk.notices()


@pytest.mark.parametrize(("status", "body", "said"), [(500, "no", "status 500"), (200, "{oops", "begins like JSON")])
async def test_a_request_that_fails_is_a_warning(desk: HookDesk, status: int, body: str, said: str) -> None:
    async with Receiver(status, body).open() as receiver:
        desk.settings({"PreToolUse": [entry(type="http", url=receiver.url)]})
        _, finished = await run(desk, {}, reply(call("Bash", command="pwd")), reply("Done."))
    assert finished.text == "Done."
    assert said in desk.notices()[0]


@pytest.mark.parametrize(
    ("url", "more", "said"),
    [
        ("http://127.0.0.1:1/x", {}, "127.0.0.1"),
        ("http://10.0.0.1/x", {}, "not a public address"),
        ("http://169.254.169.254/latest", {}, "not a public address"),
        ("http://127.0.0.1:1/x", {"allowedHttpHookUrls": ["https://hooks.example.com/*"]}, "allowedHttpHookUrls"),
    ],
)
async def test_requests_go_only_where_they_may(desk: HookDesk, url: str, more: dict[str, Any], said: str) -> None:
    desk.settings({"UserPromptSubmit": [entry(type="http", url=url)]}, **more)
    _, finished = await run(desk, {}, reply("Done."))
    assert finished.text == "Done."
    assert said in desk.notices()[0]
