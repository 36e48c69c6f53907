"""What hooks say, read and folded: tables and properties."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tugline.protocol.blocks import Text
from tugline.protocol.hooks import Hook, HookOutput, HookReply
from tugline.protocol.permissions import PermissionUpdate
from tugline.protocol.specs import Result
from tugline.rules.hook_events import BLOCKABLE, DECIDING, EVENTS, MATCHED, OCCASIONS, nearest
from tugline.rules.hook_matching import MatcherError, check_matcher, chosen, matches
from tugline.rules.hook_replies import read_judgement, read_reply, read_updates
from tugline.rules.hook_tools import replaced, response
from tugline.rules.hooks import STRICTNESS, fold

outputs = st.builds(
    HookOutput,
    decision=st.sampled_from(STRICTNESS),
    reason=st.sampled_from(["", "because", "no"]),
    block=st.none() | st.sampled_from(["", "not yet"]),
    stop=st.none() | st.just("enough"),
    context=st.sampled_from(["", "a", "b"]),
    message=st.sampled_from(["", "m"]),
    input=st.none() | st.fixed_dictionaries({"command": st.sampled_from(["ls", "pwd"])}),
    retry=st.booleans(),
)


# -- the fold


@given(st.lists(outputs, max_size=6), st.randoms())
def test_the_order_of_hooks_changes_nothing_that_is_decided(said: list[HookOutput], random: Any) -> None:
    other = list(said)
    random.shuffle(other)
    one, two = fold(said), fold(other)
    assert one.decision == two.decision
    assert (one.block is None, one.stop, one.retry) == (two.block is None, two.stop, two.retry)
    assert set(one.context) == set(two.context)


@given(st.lists(outputs, max_size=5), outputs)
def test_one_hook_more_never_loosens_what_the_others_decided(said: list[HookOutput], more: HookOutput) -> None:
    before, after = fold(said), fold([*said, more])
    assert STRICTNESS.index(after.decision) >= STRICTNESS.index(before.decision)
    assert before.block is None or after.block is not None
    assert before.stop is None or after.stop is not None
    assert set(before.context) <= set(after.context)
    assert set(before.messages) <= set(after.messages)


@given(st.lists(outputs, min_size=1, max_size=5))
def test_the_last_changed_input_in_the_order_of_the_settings_counts(said: list[HookOutput]) -> None:
    inputs = [one.input for one in said if one.input is not None]
    outcome = fold(said)
    assert outcome.input == (inputs[-1] if inputs else None)
    assert bool(outcome.warnings) == any(one != inputs[-1] for one in inputs)


def test_reasons_of_the_strictest_decision_are_all_given_and_no_others() -> None:
    said = [
        HookOutput(decision="allow", reason="fine", updates=(PermissionUpdate("setMode", mode="acceptEdits"),)),
        HookOutput(decision="deny", reason="one"),
        HookOutput(decision="deny", reason="two"),
        HookOutput(decision="deny", reason="one"),
    ]
    outcome = fold(said)
    assert (outcome.decision, outcome.reason, outcome.updates) == ("deny", "one; two", ())


# -- one reply


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_exit_status_2_blocks_with_stderr_where_there_is_something_to_block(event: str) -> None:
    said, note = read_reply(event, HookReply(status=2, stderr="not this\n", stdout='{"decision": "approve"}'))
    if event in DECIDING:
        assert (said.decision, said.reason, note) == ("deny", "not this", "")
    elif event in BLOCKABLE:
        assert (said.block, note) == ("not this", "")
    else:
        assert (said, note) == (HookOutput(), "it says: not this")


def test_exit_status_2_beats_an_allow_on_stdout() -> None:
    out = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}})
    assert read_reply("PreToolUse", HookReply(status=2, stdout=out))[0].decision == "deny"


@pytest.mark.parametrize("status", [1, 3, 126, 127, 255])
def test_any_other_exit_status_is_a_warning_and_nothing_more(status: int) -> None:
    said, note = read_reply("PreToolUse", HookReply(status=status, stdout='{"continue": false}', stderr="oops\nmore"))
    assert (said, note) == (HookOutput(), f"it ended with exit status {status}: oops")


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_plain_stdout_is_context_where_the_convention_says_so(event: str) -> None:
    said, note = read_reply(event, HookReply(stdout="hello\n"))
    plain = event in ("SessionStart", "UserPromptSubmit", "UserPromptExpansion")
    assert (said.context, note) == ("hello" if plain else "", "")


def test_every_field_of_the_contract_is_read() -> None:
    data = {
        "continue": False,
        "stopReason": "over budget",
        "systemMessage": "look here",
        "suppressOutput": True,
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "ask",
            "permissionDecisionReason": "who knows",
            "updatedInput": {"command": "ls"},
            "additionalContext": "it is late",
        },
    }
    said, note = read_reply("PreToolUse", HookReply(stdout=json.dumps(data)))
    assert note == ""
    assert said == HookOutput(
        stop="over budget", message="look here", hide_output=True, decision="ask", reason="who knows",
        input={"command": "ls"}, context="it is late",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("event", "data", "expected"),
    [
        ("PreToolUse", {"decision": "approve", "reason": "ok"}, HookOutput(decision="allow", reason="ok")),
        ("PreToolUse", {"decision": "block", "reason": "no"}, HookOutput(decision="deny", reason="no")),
        ("Stop", {"decision": "block", "reason": "run the tests"}, HookOutput(block="run the tests")),
        ("PostToolUse", {"decision": "block", "reason": "lint"}, HookOutput(block="lint")),
        ("PostToolUse", {"hookSpecificOutput": {"updatedToolOutput": "x"}}, HookOutput(output="x")),
        ("PostToolUse", {"hookSpecificOutput": {"updatedMCPToolOutput": ["x"]}}, HookOutput(output=["x"])),
        ("SessionStart", {"hookSpecificOutput": {"watchPaths": ["/a", 3]}}, HookOutput(watch=("/a",))),
        ("UserPromptSubmit", {"hookSpecificOutput": {"sessionTitle": "t"}}, HookOutput(title="t")),
        ("PermissionDenied", {"hookSpecificOutput": {"retry": True}}, HookOutput(retry=True)),
        (
            "PermissionRequest",
            {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no", "interrupt": True}}},
            HookOutput(decision="deny", reason="no", interrupt=True),
        ),
        (
            "PermissionRequest",
            {
                "hookSpecificOutput": {
                    "decision": {
                        "behavior": "allow",
                        "updatedInput": {"a": 1},
                        "updatedPermissions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
                    }
                }
            },
            HookOutput(decision="allow", input={"a": 1}, updates=(PermissionUpdate("setMode", mode="acceptEdits"),)),
        ),
    ],
)
def test_answers_of_other_events(event: str, data: dict[str, Any], expected: HookOutput) -> None:
    assert read_reply(event, HookReply(stdout=json.dumps(data))) == (expected, "")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"hookSpecificOutput": {"hookEventName": "Stop"}}, "is for Stop"),
        ({"hookSpecificOutput": {"permissionDecision": "maybe"}}, "none of allow, ask, defer, deny"),
        ({"hookSpecificOutput": []}, "hookSpecificOutput is not of type object"),
        ({"systemMessage": 3}, "systemMessage is not of type string"),
        ({"continue": "no"}, "continue is not of type boolean"),
    ],
)
def test_a_field_that_is_wrong_is_named_and_decides_nothing(data: dict[str, Any], why: str) -> None:
    said, note = read_reply("PreToolUse", HookReply(stdout=json.dumps(data)))
    assert (said.decision, said.stop, said.message) == ("", None, "")
    assert why in note


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    ["continue", "stopReason", "systemMessage", "decision", "reason", "hookSpecificOutput", "suppressOutput", "async"]
)
inner_fields = st.sampled_from(
    [
        "hookEventName",
        "additionalContext",
        "permissionDecision",
        "updatedInput",
        "decision",
        "updatedPermissions",
        "retry",
        "watchPaths",
    ]
)
answers = st.dictionaries(fields, json_values | st.dictionaries(inner_fields, json_values, max_size=4), max_size=5)


@given(
    st.sampled_from(sorted(EVENTS)),
    st.integers(0, 3),
    st.text(max_size=30) | answers.map(json.dumps),
    st.text(max_size=20),
    st.booleans(),
)
def test_nothing_that_a_hook_prints_raises(event: str, status: int, out: str, err: str, strict: bool) -> None:
    said, note = read_reply(event, HookReply(stdout=out, stderr=err, status=status), block_on_failure=strict)
    assert isinstance(fold([said], [note]).context, tuple)


def test_a_failure_blocks_only_where_the_hook_says_so() -> None:
    failed = HookReply(failure="it is gone")
    assert read_reply("PreToolUse", failed) == (HookOutput(), "it is gone")
    said, _ = read_reply("PreToolUse", failed, block_on_failure=True)
    assert (said.decision, said.reason) == ("deny", "a hook failed: it is gone")
    assert read_reply("Notification", failed, block_on_failure=True)[0] == HookOutput()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"ok": true}', HookOutput()),
        ('Sure:\n```json\n{"ok": false, "reason": "tests fail"}\n```', HookOutput(block="tests fail")),
        ('{"ok": false}', HookOutput(block="a hook blocked it without a word")),
    ],
)
def test_a_models_judgement_is_found_in_what_it_says(text: str, expected: HookOutput) -> None:
    assert read_judgement("Stop", text).answer == expected


@pytest.mark.parametrize("text", ["", "yes", "{", '{"ok": "yes"}', "[]", '{"fine": true}'])
def test_what_is_no_judgement_is_a_failure(text: str) -> None:
    assert "no judgement" in read_judgement("Stop", text).failure


def test_a_judgement_about_a_call_denies_and_never_allows() -> None:
    assert read_judgement("PreToolUse", '{"ok": true}').answer == HookOutput()
    assert read_judgement("PreToolUse", '{"ok": false, "reason": "r"}').answer == HookOutput(
        decision="deny", reason="r"
    )


# -- matchers


@pytest.mark.parametrize(
    ("matcher", "subject", "fits"),
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("bash", "Bash", False),
        ("Edit|Write", "Write", True),
        ("Edit, Write", "Write", True),
        ("Edit|Write", "NotebookEdit", False),
        ("Task", "Agent", True),
        ("Agent", "Agent", True),
        ("Notebook.*", "NotebookEdit", True),
        (".*Edit", "NotebookEdit", True),
        ("mcp__.*__write.*", "mcp__fs__write_file", True),
        ("^(?!Bash$)", "Read", True),
        ("^(?!Bash$)", "Bash", False),
        ("mcp__memory", "mcp__memory__x", False),
        ("x.y", "a" * 200, True),
    ],
)
def test_matchers(matcher: str, subject: str, fits: bool) -> None:
    check_matcher("PreToolUse", matcher)
    assert matches("PreToolUse", matcher, subject) is fits


def test_events_without_a_matcher_run_every_hook() -> None:
    for event in sorted(EVENTS - set(MATCHED)):
        check_matcher(event, "[")
        assert matches(event, "[", "")


def test_matchers_of_changed_files_are_names() -> None:
    assert matches("FileChanged", ".envrc|.env", ".env")
    assert not matches("FileChanged", ".envrc|.env", "xenv")
    assert matches("FileChanged", "", "anything")


@pytest.mark.parametrize(
    "matcher",
    [
        "[",
        "(a+)+$",
        "(a|ab)*c",
        "(x{1,9}){1,9}",
        "(.{0,16}){0,16}",
        ".*.*.*.*x",
        "a?" * 9 + "b",
        "(a)(?(1)b|c)",
        "x" * 501 + ".",
    ],
)
def test_patterns_that_could_take_for_ever_are_refused(matcher: str) -> None:
    with pytest.raises(MatcherError):
        check_matcher("PreToolUse", matcher)


@settings(max_examples=60, deadline=None)
@given(st.text("ab.*+?()|{}1,2[]^$", max_size=14), st.sampled_from(["a" * 128, "ab" * 64, "a" * 127 + "!"]))
def test_no_accepted_pattern_takes_long(matcher: str, subject: str) -> None:
    try:
        check_matcher("PreToolUse", matcher)
    except MatcherError:
        return
    # one that took for ever would be ended by the time-out of the test
    assert matches("PreToolUse", matcher, subject) in (True, False)


def test_equal_hooks_run_once_and_in_their_order() -> None:
    one = Hook(event="Stop", kind="command", command="a", source="x")
    two = Hook(event="Stop", kind="command", command="b")
    again = Hook(event="Stop", kind="command", command="a", source="y", timeout=3)
    other = Hook(event="SessionEnd", kind="command", command="a")
    assert chosen([one, two, again, other], "Stop", "") == (one, two)


def test_a_hook_with_a_rule_runs_for_what_the_rule_speaks_of() -> None:
    hook = Hook(event="PreToolUse", kind="command", command="a", rule="Bash(git *)")
    assert chosen([hook], "PreToolUse", "Bash", lambda rule: rule == "Bash(git *)") == (hook,)
    assert chosen([hook], "PreToolUse", "Bash", lambda rule: False) == ()


@pytest.mark.parametrize(
    ("name", "near"), [("PreTooluse", "PreToolUse"), ("pre_tool_use", "PreToolUse"), ("stop", "Stop"), ("Quux", "")]
)
def test_a_misspelt_event_finds_the_right_one(name: str, near: str) -> None:
    assert nearest(name) == near


def test_every_occasion_is_a_known_event() -> None:
    assert OCCASIONS <= EVENTS
    assert BLOCKABLE <= EVENTS


# -- tools


def test_results_have_the_fields_that_people_look_at() -> None:
    assert response("Bash", {}, Result("out"))["stdout"] == "out"
    assert response("Write", {"file_path": "/a"}, Result("ok")) == {"success": True, "filePath": "/a", "message": "ok"}
    assert response("Edit", {"file_path": "/a", "new_string": "n"}, Result("ok"))["newString"] == "n"
    assert response("Read", {"file_path": "/a"}, Result("1"))["file"] == {"filePath": "/a", "content": "1"}
    assert response("mcp__x", {}, Result((Text("a"),))) == {"content": [{"type": "text", "text": "a"}]}


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("plain", "plain"),
        ({"stdout": "s", "stderr": ""}, "s"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"type": "text", "file": {"filePath": "/a", "content": "c"}}, "c"),
        ({"other": 1}, '{"other":1}'),
        (3, "3"),
    ],
)
def test_what_takes_the_place_of_a_result(output: Any, text: str) -> None:
    assert replaced(output) == text


# -- changes of permissions


@pytest.mark.parametrize(
    "update",
    [
        3,
        {"type": "addRule"},
        {"type": "addRules", "behavior": "allow", "rules": [{"ruleContent": "x"}]},
        {"type": "addRules", "behavior": "perhaps", "rules": []},
        {"type": "setMode", "mode": "root"},
        {"type": "addDirectories", "directories": "x"},
        {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash(("}]},
        {"type": "setMode", "mode": "plan", "destination": "everywhere"},
    ],
)
def test_one_malformed_change_voids_all_of_them(update: Any) -> None:
    with pytest.raises(ValueError):
        read_updates([{"type": "setMode", "mode": "plan"}, update])
