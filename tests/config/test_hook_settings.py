"""Hooks in settings: what is wrong with one does not take the others along; layers, trust, switches."""

import json
from pathlib import Path
from typing import Any

import pytest

from tugline.config.load import Config, load
from tugline.config.trust import TrustStore

COMMAND = {"type": "command", "command": "true"}


def lay(path: Path, hooks: Any, **more: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": hooks, **more}))
    return str(path)


def loaded(folder: Path, **given: Any) -> Config:
    (folder / "repo/.git").mkdir(parents=True, exist_ok=True)
    environ = {"HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "xdg")}
    plain: dict[str, Any] = {"cwd": str(folder / "repo"), "environ": environ, "trusted": True, "managed": ()}
    return load(**{**plain, **given})


def stop(command: str) -> dict[str, Any]:
    return {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}


def commands(config: Config) -> list[str]:
    return [hook.command for hook in config.hooks]


@pytest.mark.parametrize(
    ("hooks", "level", "said"),
    [
        ({"PreToolUsed": []}, "warning", "unknown event; did you mean PreToolUse?"),
        ({"Stop": {}}, "error", "expected an array of groups"),
        ({"Stop": [3]}, "error", "expected an object with an array of hooks"),
        ({"Stop": [{"hooks": [{"type": "shell"}]}]}, "error", "this hook does not run"),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "error", "a hook of type command needs a command"),
        ({"Stop": [{"hooks": [{"type": "http", "url": "ftp://x"}]}]}, "error", "neither http:// nor https://"),
        ({"PreToolUse": [{"matcher": "(a+)+", "hooks": [COMMAND]}]}, "error", "a repeat inside a repeat"),
        ({"PreToolUse": [{"matcher": 3, "hooks": [COMMAND]}]}, "error", "expected text"),
        ({"Stop": [{"hooks": [{**COMMAND, "if": "Bash"}]}]}, "error", "`if` has no meaning for Stop"),
        ({"PreToolUse": [{"hooks": [{**COMMAND, "if": "Bash(("}]}]}, "error", "permission rule"),
        ({"Stop": [{"hooks": [{**COMMAND, "timeout": -1}]}]}, "error", "this hook does not run"),
        ({"Stop": [{"hooks": [{**COMMAND, "timeot": 1}]}]}, "warning", "did you mean timeout?"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_the_rest_counts(
    tmp_path: Path, hooks: Any, level: str, said: str
) -> None:
    good = {"SessionStart": [{"hooks": [{"type": "command", "command": "good"}]}]}
    path = lay(tmp_path / "repo/.tugline/settings.json", {**hooks, **good})
    config = loaded(tmp_path)
    assert "good" in commands(config)
    assert [(problem.level, problem.text.startswith(f"{path}:1:")) for problem in config.problems] == [(level, True)]
    assert said in config.problems[0].text


def test_all_sources_count_in_their_order(tmp_path: Path) -> None:
    lay(tmp_path / "home/.claude/settings.json", stop("a"))
    lay(tmp_path / "xdg/tugline/settings.json", stop("b"))
    lay(tmp_path / "xdg/tugline/hooks/mine.json", stop("c"))
    (tmp_path / "xdg/tugline/hooks/script.py").write_text("not settings")
    lay(tmp_path / "repo/.claude/settings.json", stop("d"))
    lay(tmp_path / "repo/.tugline/settings.json", stop("e"))
    lay(tmp_path / "repo/.claude/settings.local.json", stop("f"))
    managed = lay(tmp_path / "managed.json", stop("h"))
    config = loaded(tmp_path, settings=json.dumps({"hooks": stop("g")}), managed=(managed,))
    assert commands(config) == list("abcdefgh")
    assert [hook.layer for hook in config.hooks] == [
        "user", "user", "user", "project", "project", "local", "command line", "managed",
    ]  # fmt: skip
    assert config.problems == ()


def test_hooks_of_a_folder_that_is_not_trusted_are_withheld_by_name(tmp_path: Path) -> None:
    path = lay(tmp_path / "repo/.claude/settings.json", {**stop("d"), "PreToolUse": [{"hooks": [COMMAND]}]})
    lay(tmp_path / "home/.claude/settings.json", stop("a"))
    config = loaded(tmp_path, trusted=False)
    assert commands(config) == ["a"]
    assert set(config.withheld) == {("hooks.Stop", path), ("hooks.PreToolUse", path)}


def approve(folder: Path) -> None:
    config = loaded(folder, trusted=None)
    TrustStore(config.folders.trust).trust(config.project_root, dict.fromkeys(config.items, True))


def guard(*commands: str, matcher: str = "Bash") -> dict[str, Any]:
    return {"PreToolUse": [{"matcher": matcher, "hooks": [{"type": "command", "command": one} for one in commands]}]}


@pytest.mark.parametrize("name", [".claude/settings.json", ".tugline/settings.local.json"])
def test_each_hook_of_a_project_counts_only_as_it_was_approved(tmp_path: Path, name: str) -> None:
    path = lay(tmp_path / "repo" / name, {**guard("a", "b"), **stop("c")})
    approve(tmp_path)
    config = loaded(tmp_path, trusted=None)
    assert (commands(config), config.withheld) == (["a", "b", "c"], ())
    lay(tmp_path / "repo" / name, {**guard("a", "B", "new"), **stop("c")})
    config = loaded(tmp_path, trusted=None)
    assert commands(config) == ["a", "c"]
    assert config.withheld == (("hooks.PreToolUse(Bash) 2", path), ("hooks.PreToolUse(Bash) 3", path))
    lay(tmp_path / "repo" / name, {**guard("a", matcher="Write"), **stop("c")})
    assert commands(loaded(tmp_path, trusted=None)) == ["c"]


def test_what_else_a_project_says_of_hooks_takes_an_approval_too(tmp_path: Path) -> None:
    lay(tmp_path / "xdg/tugline/settings.json", stop("mine"))
    more = {"disableAllHooks": True, "hookLimits": {"command": 0.001}, "allowedHttpHookUrls": ["https://x/*"]}
    lay(tmp_path / "repo/.claude/settings.json", {}, **more)
    lay(tmp_path / "repo/.tugline/settings.json", stop("theirs"))
    (tmp_path / "repo/.claude").rename(tmp_path / "aside")
    approve(tmp_path)
    (tmp_path / "aside").rename(tmp_path / "repo/.claude")
    config = loaded(tmp_path, trusted=None)
    assert commands(config) == ["mine", "theirs"]
    assert (config.settings.hook_limits.command, config.settings.allowed_http_hook_urls) == (600.0, None)
    assert {name for name, _ in config.withheld} == {"disableAllHooks", "hookLimits.command", "allowedHttpHookUrls"}


@pytest.mark.parametrize(
    ("user", "managed", "run"),
    [
        ({"disableAllHooks": True}, {}, ["m"]),
        ({}, {"disableAllHooks": True}, []),
        ({}, {"allowManagedHooksOnly": True}, ["m"]),
        ({"allowManagedHooksOnly": True}, {}, ["u", "m"]),
    ],
)
def test_switches(tmp_path: Path, user: dict[str, Any], managed: dict[str, Any], run: list[str]) -> None:
    lay(tmp_path / "xdg/tugline/settings.json", stop("u"), **user)
    policy = lay(tmp_path / "managed.json", stop("m"), **managed)
    config = loaded(tmp_path, managed=(policy,))
    assert commands(config) == run
    assert bool(config.hooks_off) == (len(run) < 2)


def test_files_in_the_folder_of_hooks_hold_nothing_else(tmp_path: Path) -> None:
    lay(tmp_path / "xdg/tugline/hooks/mine.json", stop("c"), model="x")
    config = loaded(tmp_path)
    assert (commands(config), config.settings.model) == (["c"], None)
    assert "only hooks count in this folder" in config.problems[0].text
