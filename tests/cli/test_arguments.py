"""The words of the command line."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.cli.arguments import Arguments, read_arguments, split_rules
from tugline.cli.flags import BY_NAME, COMMANDS, FLAGS, LATER_COMMANDS, LATER_FLAGS
from tugline.cli.help import MAIN
from tugline.protocol.errors import UsageError


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Arguments()),
        ("-p 'fix it'", Arguments(headless=True, prompt="fix it")),
        ("'fix it' --print", Arguments(headless=True, prompt="fix it")),
        ("-p --model m 'fix it'", Arguments(headless=True, model="m", prompt="fix it")),
        ("-p --model=m x", Arguments(headless=True, model="m", prompt="x")),
        ("--model=a=b", Arguments(model="a=b")),
        ("--model a --model b", Arguments(model="b")),
        ("-p -- demo", Arguments(headless=True, prompt="demo")),
        ("-- --model", Arguments(prompt="--model")),
        ("-p demo", Arguments(headless=True, prompt="demo")),
        ("-", Arguments(prompt="-")),
        ("--system-prompt ''", Arguments(system_prompt="")),
        ("--system-prompt=-x", Arguments(system_prompt="-x")),
        ("--setting-sources=", Arguments(setting_sources=())),
        ("--setting-sources user,project", Arguments(setting_sources=("user", "project"))),
        ("--tools ''", Arguments(tools=())),
        ("--tools default", Arguments()),
        ("--tools Read,Edit", Arguments(tools=("Read", "Edit"))),
        ("--allowedTools 'Read Bash(npm test)'", Arguments(allowed_tools=("Read", "Bash(npm test)"))),
        ("--allowed-tools Read Edit 'Bash(git log:*)' go", Arguments(
            allowed_tools=("Read", "Edit", "Bash(git log:*)"), prompt="go")),
        ("--allowed-tools Read --allowed-tools Edit,Read", Arguments(allowed_tools=("Read", "Edit"))),
        ("--disallowedTools=Bash", Arguments(disallowed_tools=("Bash",))),
        ("--add-dir /tmp / 'a prompt'", Arguments(add_dirs=("/tmp", "/"), prompt="a prompt")),
        ("--add-dir nowhere --add-dir /tmp", Arguments(add_dirs=("nowhere", "/tmp"))),
        ("--permission-mode manual", Arguments(permission_mode="default")),
        ("--dangerously-skip-permissions", Arguments(skip_permissions=True, permission_mode="bypassPermissions")),
        ("--max-turns 3 --max-budget-usd .5", Arguments(max_turns=3, max_budget_usd=0.5)),
        ("--session-id 4F0C3B5E-8A52-4C5D-9D6B-0F5C7D1C2B3A", Arguments(
            session_id="4f0c3b5e-8a52-4c5d-9d6b-0f5c7d1c2b3a")),
        ("-c -p go", Arguments(continue_session=True, headless=True, prompt="go")),
        ("--resume 4f0c -p go", Arguments(resume="4f0c", headless=True, prompt="go")),
        ("-r -p go", Arguments(resume="", headless=True, prompt="go")),
        ("--resume='two words' go", Arguments(resume="two words", prompt="go")),
        ("-c --fork-session --session-id 4F0C3B5E-8A52-4C5D-9D6B-0F5C7D1C2B3A", Arguments(
            continue_session=True, fork_session=True, session_id="4f0c3b5e-8a52-4c5d-9d6b-0f5c7d1c2b3a")),
        ("-n 'A name' go", Arguments(name="A name", prompt="go")),
        ("config show --json", Arguments(command="config", rest=("show", "--json"))),
        ("demo", Arguments(command="demo")),
    ],
)  # fmt: skip
def test_words_become_arguments(line: str, expected: Arguments) -> None:
    assert read_arguments(shlex.split(line)) == expected


@pytest.mark.parametrize("name", sorted(name for name, flag in BY_NAME.items() if flag.kind == "switch"))
def test_a_switch_takes_no_value(name: str) -> None:
    with pytest.raises(UsageError, match="takes no value"):
        read_arguments([f"{name}=x"])


@pytest.mark.parametrize("flag", LATER_FLAGS)
def test_a_flag_of_a_later_version_says_so(flag: str) -> None:
    with pytest.raises(UsageError, match="not available in this version"):
        read_arguments(["-p", flag])


@pytest.mark.parametrize("command", LATER_COMMANDS)
def test_a_command_of_a_later_version_says_so(command: str) -> None:
    with pytest.raises(UsageError, match="not available in this version"):
        read_arguments([command])
    assert read_arguments(["--", command]).prompt == command


def test_every_flag_and_command_is_in_the_help() -> None:
    for flag in FLAGS:
        if flag.field != "input_format":
            assert flag.names[0] in MAIN
            assert all(name in MAIN for name in flag.names)
    for command in COMMANDS:
        assert command in MAIN


def test_no_flag_is_both_there_and_later() -> None:
    assert not set(BY_NAME) & set(LATER_FLAGS)
    assert not set(COMMANDS) & set(LATER_COMMANDS)


@given(st.lists(st.one_of(st.text(max_size=12), st.sampled_from(sorted(BY_NAME)), st.just("--")), max_size=8))
def test_any_words_give_arguments_or_a_usage_error(words: list[str]) -> None:
    try:
        arguments = read_arguments(words)
    except UsageError as error:
        said = str(error)
    else:
        said = repr(arguments)
    assert said.strip()
    assert len(said) < 3_000


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", []),
        ("A,B C", ["A", "B", "C"]),
        ("Bash(git log, all) Edit", ["Bash(git log, all)", "Edit"]),
        ("Bash(echo (x) y),Read", ["Bash(echo (x) y)", "Read"]),
        (" , ", []),
    ],
)
def test_rules_are_split_outside_parentheses(text: str, rules: list[str]) -> None:
    assert split_rules(text) == rules
