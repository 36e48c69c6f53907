"""`tugline doctor`: each thing is looked at for real, and what does not work has a remedy."""

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from command import Desk, Ended
from sandboxing import needs_sandbox

from tugline.testing import ModelServer
from tugline.workspaces.sandbox import explain, find_bwrap

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]


def findings(ended: Ended) -> dict[tuple[str, str], dict[str, Any]]:
    told = json.loads(ended.out)
    return {(each["part"], each["name"]): each for each in told["findings"]}


@needs_sandbox
async def test_where_all_works_it_says_so_and_asks_nothing_that_costs(desk: Desk, serve: Serve) -> None:
    server = await serve([])
    ended = await desk.run("doctor", "--json", limit=90)
    found = findings(ended)
    assert [name for name, each in found.items() if each["state"] in ("warning", "problem")] == []
    assert (ended.code, ended.err, json.loads(ended.out)["ok"]) == (0, "", True)
    assert server.requests == []
    promises = [name for part, name in found if part == "sandbox"]
    assert promises == [
        "setting",
        "writes in the working folder work",
        "writes outside are refused",
        "hidden files cannot be read",
        "connections past the proxy are refused",
        "user namespaces inside are refused",
        "what runs in the background ends with its command",
        "the proxy answers, and refuses what is not allowed",
        "cost of a command",
    ]
    assert [path.name for path in (desk.folder / "state" / "cache").rglob("*")] == ["sandbox"]


async def test_what_does_not_work_is_a_problem_with_a_remedy(desk: Desk) -> None:
    (desk.folder / "state").mkdir()
    (desk.folder / "state" / "cache").write_text("in the way")
    (desk.cwd / ".tugline").mkdir()
    (desk.cwd / ".tugline" / "settings.json").write_text('{"permissions": {"deny": ["Bash("]}}')
    desk.environ |= {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "k" * 20}
    desk.environ["PATH"] = str(desk.folder)
    ended = await desk.run("doctor", "--json", limit=60)
    problems = {name: each for name, each in findings(ended).items() if each["state"] == "problem"}
    assert ended.code == 1
    assert {("folders", "cache"), ("settings", "problem"), ("models", "anthropic"), ("programs", "bash")} <= set(
        problems
    )
    assert all(each["text"] for each in problems.values())
    assert "Traceback" not in ended.err


async def test_without_a_key_it_says_what_to_set(desk: Desk) -> None:
    ended = await desk.run("doctor", limit=60)
    assert ended.code == 1
    assert "ANTHROPIC_API_KEY" in ended.out
    assert "\x1b" not in ended.out


async def test_words_that_mean_nothing_are_wrong_usage(desk: Desk) -> None:
    assert (await desk.run("doctor", "--jsno")).code == 2
    assert (await desk.run("doctor", "--help")).out.startswith("tugline doctor")


@pytest.mark.parametrize(
    ("printed", "part"),
    [
        ("bwrap: setting up uid map: Permission denied", "namespaces"),
        ("bwrap: No permissions to create a new namespace, likely because the kernel does not allow it", "namespaces"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "/proc cannot be mounted"),
        ("bwrap: Unexpected capabilities but not setuid, old file caps config?", "setuid"),
        ("something else\nentirely", "something else entirely"),
        ("", "A trial failed"),
    ],
)
def test_what_bubblewrap_says_is_explained(printed: str, part: str) -> None:
    condition = explain(printed, "/usr/bin/bwrap")
    assert not condition.works
    assert part in str(condition)
    assert condition.remedy
    assert "\n" not in str(condition)


def test_a_bubblewrap_in_the_working_folder_is_none(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tugline.workspaces.sandbox.PROGRAMS", ())
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_bwrap(str(tmp_path), ()) == str(program)
    assert find_bwrap(str(tmp_path), (os.path.realpath(tmp_path),)) is None
