"""Rules that a person said "always" to are kept in the project's local settings."""

import json
import os
from pathlib import Path

import pytest

from tugline.config.load import load
from tugline.config.save import save
from tugline.protocol.errors import ConfigError
from tugline.protocol.permissions import PermissionUpdate


def save_rules(root: Path, rules: list[str]) -> str:
    path = str(local(root))
    save(path, PermissionUpdate("addRules", rules=tuple(rules)), ignored=True)
    return path


def local(root: Path) -> Path:
    return root / ".tugline" / "settings.local.json"


def test_a_saved_rule_counts_in_the_next_session_of_a_trusted_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert save_rules(tmp_path, ["Bash(npm test)"]) == str(local(tmp_path))
    config = load(cwd=str(tmp_path), environ={"HOME": str(tmp_path / "home")}, trusted=True, managed=())
    assert [rule.text for rule in config.allow] == ["Bash(npm test)"]


def test_what_else_stands_in_the_file_is_kept_and_no_rule_is_doubled(tmp_path: Path) -> None:
    local(tmp_path).parent.mkdir()
    local(tmp_path).write_text('{"model": "opus", "permissions": {"allow": ["Read"], "deny": ["WebFetch"]}}')
    save_rules(tmp_path, ["Read", "Edit(src/**)"])
    save_rules(tmp_path, ["Edit(src/**)"])
    permissions = {"allow": ["Read", "Edit(src/**)"], "deny": ["WebFetch"]}
    assert json.loads(local(tmp_path).read_text()) == {"model": "opus", "permissions": permissions}


def test_git_ignores_the_file(tmp_path: Path) -> None:
    save_rules(tmp_path, ["Read"])
    assert "settings.local.json" in (local(tmp_path).parent / ".gitignore").read_text().split()


@pytest.mark.parametrize("text", ["{", "[]", '{"permissions": []}', '{"permissions": {"allow": "Read"}}', "\x00"])
def test_a_file_that_is_broken_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    local(tmp_path).parent.mkdir()
    local(tmp_path).write_text(text)
    with pytest.raises(ConfigError, match=r"settings\.local\.json"):
        save_rules(tmp_path, ["Read"])
    assert local(tmp_path).read_text() == text


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / ".tugline").write_text("a file")
    with pytest.raises(ConfigError, match="settings"):
        save_rules(tmp_path, ["Read"])


def test_nothing_is_saved_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    project = tmp_path / "project"
    project.mkdir()
    (project / ".tugline").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="link"):
        save_rules(project, ["Read"])
    assert list(elsewhere.iterdir()) == []


def test_a_pipe_in_place_of_the_file_is_said_and_holds_nobody_up(tmp_path: Path) -> None:
    local(tmp_path).parent.mkdir()
    os.mkfifo(local(tmp_path))
    with pytest.raises(ConfigError, match="cannot be read"):
        save_rules(tmp_path, ["Read"])


def test_a_rule_that_was_kept_can_be_replaced_and_taken_back(tmp_path: Path) -> None:
    path = save_rules(tmp_path, ["Read", "Edit"])
    for update, left in (
        (PermissionUpdate("removeRules", rules=("Read", "Bash")), ["Edit"]),
        (PermissionUpdate("replaceRules", rules=("WebFetch",)), ["WebFetch"]),
        (PermissionUpdate("addRules", rules=("WebFetch", "Bash(x)")), ["WebFetch", "Bash(x)"]),
    ):
        save(path, update)
        assert json.loads(local(tmp_path).read_text())["permissions"]["allow"] == left
