"""`tugline policy`: verdicts without a session, for people and for programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Desk, assert_clean
from hypothesis import given
from hypothesis import strategies as st

from tugline.app.calls import query_of
from tugline.app.policy import answer_row
from tugline.protocol.errors import TuglineError, UsageError
from tugline.tools.builtin.bash import Bash
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep
from tugline.tools.builtin.notebook_edit import NotebookEdit
from tugline.tools.builtin.read import Read
from tugline.tools.builtin.todo_write import TodoWrite
from tugline.tools.builtin.write import Write


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "work").mkdir()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TUGLINE_HOME": str(tmp_path / "state")}
    return Desk(tmp_path, environ)


def decided(**row: Any) -> str:
    return answer_row(json.dumps({"id": 1, **row}).encode()).decision


async def test_rows_are_answered_in_their_order_whatever_they_hold(desk: Desk) -> None:
    rows = [
        b'{"id": "a", "tool": "Bash", "input": {"command": "git status"}}',
        b"no JSON",
        b"",
        b'{"id": "b", "tool": "Bash", "input": {"command": 5}}',
        b'{"id": "c", "tool": ["Bash"], "input": {}}',
        b'{"id": "d", "tool": "Bash"}',
        b"[]",
        b"\xff\xfe",
        b'{"id": "e", "tool": "Unheard", "input": {"x": "\\u0000"}}',
        b'{"id": "f", "tool": "Bash", "input": {"command": "ls \\u0000"}}',
        b'{"id": "g", "tool": "Read", "input": {"file_path": "a\\u0000b"}}',
        b'{"id": "h", "tool": "Bash", "input": {"command": "ls"}, "rules": {"deny": ["Bash("]}}',
        b"[" * 100_000,
        b'{"id": "i", "tool": "Bash", "input": {"command": "' + b"x" * 300_000 + b'"}}',
        b'{"id": "j", "tool": "Bash", "input": {"command": "rm x"}, "rules": {"deny": ["Bash(rm *)"]}, "mode": null}',
        b'{"id": "k", "tool": "Bash", "input": {"command": "ls"}, "cwd": 7}',
        b"x" * 17_000_000,
        b'{"id": "l", "tool": "Write", "input": {"file_path": "a", "content": ""}, "mode": "acceptEdits"}',
    ]
    ended = await desk.run("policy", "check", "--jsonl", stdin=b"\n".join(rows))
    assert (ended.code, ended.err) == (0, "")
    found = [(line["id"], line["decision"]) for line in ended.lines]
    assert found == [
        ("a", "allow"), (None, "deny"), ("b", "deny"), ("c", "deny"), ("d", "deny"), (None, "deny"), (None, "deny"),
        ("e", "ask"), ("f", "ask"), ("g", "ask"), ("h", "deny"), (None, "deny"), ("i", "ask"), ("j", "deny"),
        ("k", "deny"), (None, "deny"), ("l", "allow"),
    ]  # fmt: skip
    assert all(line["reason"] for line in ended.lines)


async def test_a_row_is_answered_before_the_next_one_comes(desk: Desk) -> None:
    process = await desk.start("policy", "check", "--jsonl", stdin=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(3):
        process.stdin.write(json.dumps({"id": number, "tool": "Bash", "input": {"command": "ls"}}).encode() + b"\n")
        await process.stdin.drain()
        assert json.loads(await process.stdout.readline())["id"] == number
    process.stdin.close()
    assert await process.wait() == 0


async def test_settings_do_not_count_for_rows(desk: Desk) -> None:
    (desk.cwd / ".tugline").mkdir()
    (desk.cwd / ".tugline" / "settings.json").write_text('{"permissions": {"deny": ["Bash"]}}')
    row = b'{"id": 1, "tool": "Bash", "input": {"command": "ls"}}'
    assert (await desk.run("policy", "check", "--jsonl", stdin=row)).lines[0]["decision"] == "allow"
    assert "DENY: denied by the rule Bash" in (await desk.run("policy", "explain", "Bash(ls)")).out


def test_home_and_folder_of_a_row_stand_for_the_real_ones(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "out").symlink_to(tmp_path / "other")
    at = {"cwd": str(tmp_path / "p"), "home": str(tmp_path / "h")}
    assert decided(tool="Read", input={"file_path": "a"}, **at) == "allow"
    assert decided(tool="Read", input={"file_path": "out/x"}, **at) == "ask"
    assert decided(tool="Read", input={"file_path": "~/x"}, **at) == "ask"
    assert decided(tool="Bash", input={"command": "cat ~/.ssh/id"}, rules={"allow": ["Bash(cat *)"]}, **at) == "ask"
    assert decided(tool="Read", input={"file_path": f"{tmp_path}/p-evil/x"}, **at) == "ask"
    assert decided(tool="Bash", input={"command": "rm -rf ~"}, rules={"allow": ["Bash"]}, **at) == "deny"


def test_a_repository_further_down_is_not_obeyed_unasked(tmp_path: Path) -> None:
    at = {"cwd": str(tmp_path), "home": "/nowhere"}
    for name in ("plain", "nested"):
        (tmp_path / name).mkdir()
    (tmp_path / "nested" / ".git").mkdir()
    for command in ("cd {} && git status", "git -C {} log -1", "(cd {}; git diff)"):
        assert decided(tool="Bash", input={"command": command.format("plain")}, **at) == "allow"
        assert decided(tool="Bash", input={"command": command.format("nested")}, **at) == "ask"


def test_files_that_choose_a_program_are_looked_for(tmp_path: Path) -> None:
    at = {"cwd": str(tmp_path), "home": "/nowhere"}
    assert decided(tool="Bash", input={"command": "cargo --version"}, **at) == "allow"
    (tmp_path / "rust-toolchain.toml").write_text("")
    assert decided(tool="Bash", input={"command": "cargo --version"}, **at) == "ask"


def test_what_a_search_hands_on_is_looked_at(tmp_path: Path) -> None:
    at = {"cwd": str(tmp_path), "home": "/nowhere"}
    commands = [
        "find . -name '*.txt' | xargs cat",
        "cat $(git ls-files)",
        'git ls-files | while read -r f; do cat "$f"; done',
    ]
    (tmp_path / "a.txt").write_text("")
    assert [decided(tool="Bash", input={"command": c}, **at) for c in commands] == ["allow"] * 3
    (tmp_path / "b.txt").symlink_to("/etc/passwd")
    assert [decided(tool="Bash", input={"command": c}, **at) for c in commands] == ["ask"] * 3
    (tmp_path / "b.txt").unlink()
    (tmp_path / "x ").mkdir()
    assert [decided(tool="Bash", input={"command": c}, **at) for c in commands] == ["ask"] * 3


def test_rules_speak_of_tools_that_are_not_part_of_this_version() -> None:
    assert decided(tool="Agent", input={"prompt": "x", "subagent_type": "Explore"}) == "ask"
    assert decided(tool="Agent", input={"subagent_type": "Explore"}, rules={"deny": ["Agent(Explore)"]}) == "deny"
    assert decided(tool="Skill", input={"skill": "pdf"}, rules={"allow": ["Skill(pdf *)", "Skill(pdf)"]}) == "allow"
    assert decided(tool="mcp__a__b", input={}, rules={"allow": ["mcp__a"]}) == "allow"
    assert (
        decided(
            tool="WebFetch",
            input={"url": "https://a.example.com/x"},
            rules={"allow": ["WebFetch(domain:*.example.com)"]},
        )
        == "allow"
    )
    assert decided(tool="WebFetch", input={"url": "https://example.com@evil/"}) == "deny"


async def test_explain_names_the_steps_in_their_order_up_to_the_one_that_decides(desk: Desk) -> None:
    ended = await desk.run("policy", "explain", "Bash(git push --force)", "--json")
    found = json.loads(ended.out)
    assert found["decision"] == "ask"
    assert found["suggestions"] == ["Bash(git push --force)"]
    assert [step["step"] for step in found["steps"]] == [
        "deny rules", "removals that no mode permits", "hooks", "ask rules", "safety checks", "mode",
        "allow rules, known reads, accepted edits", "ask",
    ]  # fmt: skip
    assert found["steps"][-1]["verdict"] == "ask"
    said = await desk.run("policy", "explain", "Edit", '{"file_path": ".git/config"}', "--allowed-tools", "Edit")
    assert ".git/ is protected" in said.out
    assert "hooks" in said.out
    for words in ([], ["Bash(ls"], ["{"], ["Edit", "{}"], ["a", "b", "c"]):
        wrong = await desk.run("policy", "explain", *words)
        assert wrong.code == 2
        assert_clean(wrong)


async def test_cases_hold_or_say_what_became_of_them(desk: Desk) -> None:
    file = desk.cwd / "cases.yaml"
    file.write_text(
        "rules: {allow: ['Bash(npm run *)'], deny: ['Read(./.env)']}\n"
        "allow: ['Bash(npm run test)', 'Bash(git status)']\nask: ['Bash(npm publish)']\ndeny: ['Bash(cat .env)']\n"
        "match: {'Bash(npm run *)': ['Bash(npm run x)']}\nno-match: {'Bash(npm run *)': ['Bash(npm runs)']}\n"
    )
    ended = await desk.run("policy", "test", "cases.yaml")
    assert (ended.code, ended.out) == (0, "6 of 6 cases hold\n")
    file.write_text("allow: ['Bash(npm publish)']\n")
    ended = await desk.run("policy", "test", "cases.yaml")
    assert ended.code == 1
    assert ended.out.startswith("Bash(npm publish): expected allow, is ask")
    for text in ("[", "[]", "alow: []", "allow: 5", "rules: {allow: ['Bash(']}", "mode: x"):
        file.write_text(text)
        wrong = await desk.run("policy", "test", "cases.yaml")
        assert wrong.code == 1
        assert_clean(wrong)


async def test_replay_shows_which_calls_a_new_policy_would_decide_differently(desk: Desk) -> None:
    log = desk.cwd / "log.jsonl"
    opened = {
        "kind": "opened",
        "n": 1,
        "format": 1,
        "session": "s",
        "agent": "main",
        "cwd": str(desk.cwd),
        "version": "0",
    }
    uses = [
        {"type": "tool_use", "id": f"c{n}", "name": "Bash", "input": {"command": command}}
        for n, command in enumerate(("npm test", "ls"))
    ]
    said = {"kind": "said", "n": 2, "message": {"role": "assistant", "id": "m", "content": uses}}
    log.write_text(json.dumps(opened) + "\n" + json.dumps(said) + "\n")
    ended = await desk.run(
        "policy", "replay", "log.jsonl", "--settings", '{"permissions": {"allow": ["Bash(npm test)"]}}'
    )
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[0] == "1. Bash npm test"
    assert "ask -> allow" in ended.out
    assert ended.out.endswith("1 of 2 calls would be decided differently\n")
    missing = await desk.run("policy", "replay", "nothing", "--settings", "{}")
    assert missing.code == 1
    assert_clean(missing)


_ALL: tuple[Any, ...] = (Read(), Write(), Edit(), NotebookEdit(), Glob(), Grep(), Bash(), TodoWrite())
TOOLS = {tool.name: tool for tool in _ALL}
FIELDS = {
    "Read": ("file_path",),
    "Write": ("file_path", "content"),
    "Edit": ("file_path", "old_string", "new_string"),
    "NotebookEdit": ("notebook_path", "new_source"),
    "Glob": ("pattern", "path"),
    "Grep": ("pattern", "path"),
    "Bash": ("command",),
    "TodoWrite": (),
}


@given(st.sampled_from(sorted(FIELDS)), st.lists(st.text("ab/.*~{}, ", min_size=1, max_size=8), min_size=3, max_size=3))
def test_a_call_of_an_outsider_is_judged_as_the_tool_itself_would_have_it(name: str, values: list[str]) -> None:
    given_ = dict(zip(FIELDS[name], values, strict=False))
    tool = TOOLS[name]
    try:
        data = tool.parse({**given_, "todos": []} if name == "TodoWrite" else given_)
    except Exception:
        return
    try:
        query = query_of(name, given_, "/w")
    except TuglineError:
        pytest.fail(f"{name} {given_}")
    assert query.subjects == tuple(tool.subjects(data))
    assert query.filtered == tool.filtered
    assert name == "Bash" or query.footprint == tool.footprint(data)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_row_has_an_answer(row: bytes) -> None:
    assert answer_row(row).decision in ("allow", "ask", "deny")


def test_a_call_without_what_rules_speak_of_cannot_be_judged() -> None:
    with pytest.raises(UsageError):
        query_of("Bash", {}, "/w")
