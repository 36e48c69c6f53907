"""The sandbox as users meet it: by settings, at the real command and in the library."""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from command import Desk
from sandboxing import needs_sandbox

import tugline
from tugline import Allow, Deny, PermissionQuestion
from tugline.testing import ModelServer, call, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]


def settings(**sandbox: Any) -> tuple[str, str]:
    return "--settings", json.dumps({"sandbox": {"enabled": True, **sandbox}})


def results(server: ModelServer) -> list[str]:
    """What the model read of each call, in order."""
    found = []
    for message in server.requests[-1].body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_result":
                content = block["content"]
                found.append(content if isinstance(content, str) else content[0]["text"])
    return found


def bash(command: str, **more: Any) -> Any:
    return reply(call("Bash", command=command, **more))


@needs_sandbox
async def test_commands_run_inside_without_a_question(desk: Desk, serve: Serve) -> None:
    server = await serve(
        [
            bash("mkdir made && cd made && echo one > file"),
            bash("pwd; cat file; echo two > /tmp/note"),
            bash("cat /tmp/note; touch /usr/evil"),
            reply("Done."),
        ]
    )
    ended = await desk.run("-p", "Go", *settings())
    assert (ended.code, ended.err) == (0, "")
    first, second, third = results(server)
    assert first == "(no output)"
    assert second == f"{desk.cwd}/made\none"
    assert third.startswith("two\n")
    assert "Read-only file system" in third
    assert not Path("/usr/evil").exists()
    assert sorted(path.name for path in desk.cwd.iterdir()) == ["made"]
    assert "They can write below" in json.dumps(server.requests[0].body["tools"])
    assert list((desk.folder / "state" / "cache" / "sandbox").iterdir()) == []


@needs_sandbox
async def test_what_a_monitor_watches_runs_inside_too(desk: Desk, serve: Serve) -> None:
    outside = desk.folder / "outside"
    await serve(
        [
            reply(call("ToolSearch", query="select:Monitor")),
            reply(call("Monitor", command=f"touch {outside}; touch inside; echo tried", description="a try")),
            reply(call("TaskOutput", task_id="{{found task id: (\\S+)}}")),
            reply("Done."),
        ]
    )
    ended = await desk.run("-p", "Go", *settings())
    assert (ended.code, ended.err) == (0, "")
    assert (desk.cwd / "inside").exists()
    assert not outside.exists()


@needs_sandbox
async def test_what_is_protected_is_denied_by_the_rules_too(desk: Desk, serve: Serve) -> None:
    server = await serve([bash("echo evil > .tugline/settings.json"), bash("rm -rf ~"), reply("Done.")])
    await desk.run("-p", "Go", *settings())
    assert all("permission" in result.lower() or "refused" in result.lower() for result in results(server))


@needs_sandbox
async def test_outside_only_with_a_question(desk: Desk, serve: Serve) -> None:
    outside = [bash("touch ../file", dangerouslyDisableSandbox=True), bash("touch ../file"), reply("Done.")]
    server = await serve(outside)
    ended = await desk.run("-p", "Go", *settings(), "--dangerously-skip-permissions")
    assert ended.code == 0
    first, second = results(server)
    assert "it asks to run outside of the sandbox" in first
    assert "denied" not in second
    assert not (desk.folder / "file").exists()


@needs_sandbox
async def test_excluded_commands_run_outside_by_the_usual_rules(desk: Desk, serve: Serve) -> None:
    server = await serve([bash("touch ../file"), bash("touch ../file && rm -f x"), reply("Done.")])
    given = settings(excludedCommands=["touch"])
    await desk.run("-p", "Go", *given)
    first, second = results(server)
    assert "no rule allows" in first
    assert "no rule allows" not in second
    assert not (desk.folder / "file").exists()
    server = await serve([bash("touch ../file"), reply("Done.")])
    await desk.run("-p", "Go", *given, "--allowed-tools", "Bash(touch *)")
    assert (desk.folder / "file").exists()


@needs_sandbox
async def test_a_deny_rule_for_reading_holds_for_programs(desk: Desk, serve: Serve) -> None:
    (desk.cwd / "deep").mkdir()
    for name in (".env", "deep/key.pem", "shown"):
        (desk.cwd / name).write_text("canary " + name)
    program = "import glob; [print(open(n).read()) for n in ['shown', 'deep/k'+'ey.p'+'em', *glob.glob('.e*')]]"
    server = await serve([bash(f'python3 -c "{program}"'), reply("Done.")])
    rules = ["--disallowed-tools", "Read(./.env),Read(**/*.pem)", "--allowed-tools", "Bash"]
    await desk.run("-p", "Go", *settings(autoAllow=False), *rules)
    (told,) = results(server)
    assert "canary shown" in told
    assert "canary .env" not in told
    assert "canary deep" not in told


@needs_sandbox
async def test_a_host_is_reached_through_the_proxy_if_it_is_allowed(desk: Desk, serve: Serve) -> None:
    server = await serve([])
    port = server.url.rpartition(":")[2]
    fetch = "env -u no_proxy -u NO_PROXY python3 fetch.py"
    (desk.cwd / "fetch.py").write_text("import urllib.request as u, sys\nprint(u.urlopen(sys.argv[1]).status)\n")
    script = [
        bash(f"{fetch} http://127.0.0.1:{port}/health"),
        bash(f"{fetch} http://127.0.0.1:9/ 2>/dev/null; {fetch} http://example.com/ 2>/dev/null"),
        reply("Done."),
    ]
    model = await serve(script)
    given = settings(network={"allowedDomains": [f"127.0.0.1:{port}"]})
    await desk.run("-p", "Go", *given)
    first, second = results(model)
    assert "404" in first or "200" in first or "HTTPError" in first, first
    why = "sandbox.network.allowedDomains does not name it"
    assert f"[the sandbox refused 127.0.0.1:9: {why}" in second
    assert f"the sandbox refused example.com:80: {why}]" in second


@needs_sandbox
async def test_a_person_is_asked_about_a_host(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    asked: list[PermissionQuestion] = []

    def answer(question: PermissionQuestion) -> Allow | Deny:
        asked.append(question)
        if question.input.get("host") == "yes.invalid":
            return Allow(remember="session", rules=question.suggestions)
        return Deny()

    ask = "curl -s -o /dev/null -w '%{http_code} ' http://$h/"
    curl = f"for h in yes.invalid no.invalid yes.invalid no.invalid; do {ask}; done"
    script = [bash(curl), bash("curl -s http://yes.invalid/"), reply("Done.")]
    environ = {"TUGLINE_HOME": str(tmp_path / "state"), "PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    async with ModelServer(script) as server:
        async with tugline.Session(
            base_url=server.url,
            api_key="k" * 20,
            cwd=str(tmp_path / "work"),
            environ=environ,
            settings={"sandbox": {"enabled": True}},
            permission=answer,
        ) as session:
            await session.run("Go")
            status = (await session.run("/sandbox")).text
        told = results(server)
    assert [(question.tool, question.input) for question in asked] == [
        ("SandboxNetworkAccess", {"host": "yes.invalid", "port": 80}),
        ("SandboxNetworkAccess", {"host": "no.invalid", "port": 80}),
    ]
    assert asked[0].suggestions == ("WebFetch(domain:yes.invalid)",)
    assert told[0].startswith("502 403 502 403")
    assert "the sandbox refused no.invalid:80" in told[0]
    assert "cannot find http://yes.invalid" in told[1]
    assert status.startswith("Shell commands run in the sandbox.")


@pytest.fixture
def broken(desk: Desk) -> Desk:
    """Where no user namespace can be had: what every container without rights looks like."""
    desk.environ["TUGLINE_HOME"] = str(desk.folder / "state")
    (desk.folder / "state").mkdir()
    (desk.folder / "state" / "cache").write_text("a file in the way of the sandbox's folder")
    return desk


async def test_without_a_sandbox_that_is_said_and_commands_are_asked_about(broken: Desk, serve: Serve) -> None:
    server = await serve([bash("touch file"), bash("ls"), reply("Done.")])
    ended = await broken.run("-p", "Go", *settings())
    assert ended.code == 0
    assert ended.err.splitlines()[0].startswith("tugline: No sandbox: commands run without it")
    touch, ls = results(server)
    assert "no rule allows" in touch
    assert ls == "(no output)"


async def test_without_a_sandbox_that_is_required_no_command_runs(broken: Desk, serve: Serve) -> None:
    server = await serve([bash("touch file"), bash("ls"), reply("Done.")])
    ended = await broken.run("-p", "Go", *settings(required=True), "--dangerously-skip-permissions", "--verbose")
    assert "shell commands are refused (sandbox.required)" in ended.err
    assert all("sandbox.required is set" in result for result in results(server))
    assert not (broken.cwd / "file").exists()
