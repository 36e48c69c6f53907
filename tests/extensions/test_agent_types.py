"""Definitions of agents, as people have them on their disks."""

import os
from pathlib import Path
from typing import Any

import pytest

from tugline.extensions.agents import AgentFolders, agent_folders, find_agents
from tugline.protocol.agents import AgentDefinition

REVIEWER = """\
---
name: reviewer
description: Reviews a change. Context: use it after every edit
tools: Read, Grep, Bash(git diff *, git log *)
model: opus
permissionMode: plan
maxTurns: 7
color: blue
---
You review changes.
"""


def put(folder: Path, name: str, text: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_types_of_ours_are_there_without_any_file() -> None:
    found = find_agents(AgentFolders())
    assert set(found.types) == {"general-purpose", "Explore", "Plan", "Bash"}
    assert (found.skipped, found.warnings) == ((), ())
    assert found.types["Explore"].permission_mode == "plan"
    assert found.types["general-purpose"].tools is None


def test_a_file_of_another_tool_is_understood(tmp_path: Path) -> None:
    path = put(tmp_path, "reviewer.md", REVIEWER)
    found = find_agents(AgentFolders(project=(str(tmp_path),)))
    assert found.types["reviewer"] == AgentDefinition(
        name="reviewer",
        description="Reviews a change. Context: use it after every edit",
        prompt="You review changes.",
        tools=("Read", "Grep", "Bash(git diff *, git log *)"),
        model="opus",
        permission_mode="plan",
        max_turns=7,
        color="blue",
        scope="project",
        source=str(path),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("---\nname: x\n---\nbody", "description is missing"),
        ("---\nname: ../x\ndescription: d\n---\n", "name must be"),
        ("---\nname: x\ndescription: d\nmaxTurns: many\n---\n", "maxTurns"),
        ("---\nname: x\ndescription: d\npermissionMode: yolo\n---\n", "permissionMode must be one of"),
        ("---\nname: x\ndescription: d\ntools: 7\n---\n", "tools must be a list"),
        ("---\nname: x\n", "has no end"),
        (b"---\nname: \xff\n---\n", "UTF-8"),
        ("x" * 300_000, "larger than"),
    ],
)
def test_a_broken_file_is_reported_and_the_others_count(tmp_path: Path, text: str | bytes, reason: str) -> None:
    put(tmp_path, "broken.md", text)
    put(tmp_path, "reviewer.md", REVIEWER)
    found = find_agents(AgentFolders(user=(str(tmp_path),)))
    assert "reviewer" in found.types
    (skipped,) = found.skipped
    assert reason in str(skipped)
    assert str(tmp_path / "broken.md") in str(skipped)


def test_what_is_no_file_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "gone.md").symlink_to("nowhere")
    (tmp_path / "folder.md").mkdir()
    found = find_agents(AgentFolders(user=(str(tmp_path),)))
    assert len(found.skipped) == 3


def test_the_nearest_folder_of_the_project_wins_over_the_user_and_is_beaten_by_what_is_given(tmp_path: Path) -> None:
    root, below, home = tmp_path / "p", tmp_path / "p/a/b", tmp_path / "h"
    below.mkdir(parents=True)
    for folder, words in ((home / ".claude", "user"), (root / ".claude", "root"), (below / ".tugline", "near")):
        put(folder / "agents", "x.md", f"---\nname: x\ndescription: {words}\n---\n")
    places: dict[str, Any] = {
        "cwd": str(below), "root": str(root), "home": str(home), "claude": str(home / ".claude"),
        "config": str(home / "config"),
    }  # fmt: skip
    found = find_agents(agent_folders(**places, trusted=True))
    assert found.types["x"].description == "near"
    assert [one.description for one in found.hidden] == ["user", "root"]
    assert find_agents(agent_folders(**places, trusted=False)).types["x"].description == "user"
    given = {"x": {"description": "given", "prompt": "p"}, "y": "nothing", "z": {"prompt": "p"}}
    found = find_agents(agent_folders(**places, trusted=True), given)
    assert found.types["x"].description == "given"
    assert [one.source for one in found.skipped] == ["agents.y", "agents.z"]


def test_an_agent_of_a_plugin_may_not_widen_what_it_is(tmp_path: Path) -> None:
    put(tmp_path, "x.md", "---\nname: x\ndescription: d\npermissionMode: bypassPermissions\nhooks: {Stop: []}\n---\n")
    found = find_agents(AgentFolders(plugins=(str(tmp_path),)))
    assert (found.types["x"].permission_mode, found.types["x"].hooks) == (None, {})
    assert len(found.warnings) == 2


def test_an_unknown_key_is_a_warning_with_the_nearest_right_one(tmp_path: Path) -> None:
    put(tmp_path, "x.md", "---\nname: x\ndescription: d\nmaxTurn: 3\n---\n")
    found = find_agents(AgentFolders(user=(str(tmp_path),)))
    assert found.warnings == (f"{tmp_path / 'x.md'}: unknown key maxTurn; did you mean maxTurns?",)
