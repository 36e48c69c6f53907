"""Hooks as people publish them for other tools, unchanged, against a real session."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hook_desk import HookDesk, group, sent, words

import tugline
from tugline.testing import ModelServer, call, reply


@pytest.fixture
def desk(tmp_path: Path) -> HookDesk:
    return HookDesk(tmp_path)


def results(server: ModelServer, index: int = -1) -> list[dict[str, Any]]:
    """The results that a request carries, in order."""
    messages = server.requests[index].body["messages"]
    return [
        block
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


async def run(desk: HookDesk, *steps: Any, prompt: str = "Go", **options: Any) -> tuple[ModelServer, Any]:
    async with ModelServer(list(steps), lenient=True) as server:
        async with desk.session(server, **options) as session:
            finished = await session.run(prompt)
        return server, finished


async def test_a_blocker_of_dangerous_commands(desk: HookDesk) -> None:
    script = desk.script(
        "block_rm.py",
        """
        #!/usr/bin/env python3
        import json, re, sys
        data = json.load(sys.stdin)
        if data.get("tool_name") != "Bash":
            sys.exit(0)
        command = data.get("tool_input", {}).get("command", "")
        if re.search(r"\\brm\\s+-[a-z]*r[a-z]*f", command):
            print("BLOCKED: recursive deletes are not allowed here", file=sys.stderr)
            sys.exit(2)
        """,
    )
    desk.settings({"PreToolUse": [group(script, "Bash")]})
    desk.file("build/a", "")
    server, finished = await run(desk, reply(call("Bash", command="rm -rf build")), reply("Done."))
    assert "BLOCKED: recursive deletes" in results(server)[0]["content"]
    assert (desk.repo / "build/a").exists()
    assert (finished.reason, len(finished.denials)) == ("completed", 1)


async def test_a_formatter_after_an_edit(desk: HookDesk) -> None:
    script = desk.script(
        "format.sh",
        """
        #!/bin/bash
        # strips trailing blanks from every file that was written
        input=$(cat)
        path='import json,sys; print(json.load(sys.stdin)["tool_response"]["filePath"])'
        file=$(printf '%s' "$input" | python3 -c "$path")
        case "$file" in
          *.py) sed -i 's/[[:space:]]*$//' "$file"; echo "formatted $file" ;;
        esac
        """,
    )
    desk.settings({"PostToolUse": [group(script, "Write|Edit|MultiEdit")]})
    path = desk.repo / "a.py"
    await run(desk, reply(call("Write", file_path=str(path), content="x = 1   \ny = 2\n")), reply("Done."))
    assert path.read_text() == "x = 1\ny = 2\n"


async def test_a_linter_that_feeds_back(desk: HookDesk) -> None:
    script = desk.script(
        "lint.py",
        """
        #!/usr/bin/env python3
        import json, sys
        data = json.load(sys.stdin)
        with open(data["tool_input"]["file_path"]) as f:
            if "TODO" in f.read():
                print(json.dumps({"decision": "block", "reason": "lint: TODO left in the file"}))
        """,
    )
    desk.settings({"PostToolUse": [group(script, "Write")]})
    path = str(desk.repo / "a.py")
    server, _ = await run(desk, reply(call("Write", file_path=path, content="# TODO\n")), reply("Done."))
    assert "lint: TODO left in the file" in sent(server)
    assert not results(server)[0].get("is_error")


async def test_an_injector_of_context_into_prompts(desk: HookDesk) -> None:
    desk.settings({"UserPromptSubmit": [group("echo \"Current branch: trunk\"; echo 'Sprint: 12'")]})
    server, _ = await run(desk, reply("Hi."))
    assert "Current branch: trunk\\nSprint: 12" in sent(server)


async def test_a_guard_of_prompts_that_hold_secrets(desk: HookDesk) -> None:
    script = desk.script(
        "secrets.py",
        """
        #!/usr/bin/env python3
        import json, re, sys
        prompt = json.load(sys.stdin)["prompt"]
        if re.search(r"(?i)\\b(password|secret|token)\\s*[:=]", prompt):
            print(json.dumps({"decision": "block", "reason": "Security policy: your prompt holds a secret."}))
        """,
    )
    desk.settings({"UserPromptSubmit": [group(script)]})
    async with ModelServer([reply("Fine.")], lenient=True) as server, desk.session(server) as session:
        refused = await session.run("my password: hunter2")
        assert (refused.reason, refused.message) == ("hook_stopped", "Security policy: your prompt holds a secret.")
        assert server.requests == []
        assert (await session.run("hello")).text == "Fine."
        assert "hunter2" not in sent(server)
        assert "hunter2" not in Path(session.opening.transcript).read_text()


async def test_a_loader_of_context_at_the_start(desk: HookDesk) -> None:
    script = desk.script(
        "start.sh",
        """
        #!/usr/bin/env bash
        set -euo pipefail
        cat <<EOF
        {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "Open issues: #4, #7"}}
        EOF
        """,
    )
    desk.settings({"SessionStart": [group(script, "startup|resume"), group("echo only after clear", "clear")]})
    server, _ = await run(desk, reply("Hi."))
    assert "Open issues: #4, #7" in sent(server)
    assert "only after clear" not in sent(server)


async def test_variables_for_the_shell_from_the_start_of_a_session(desk: HookDesk) -> None:
    line = 'export NODE_ENV="pro"duction'
    command = f'if [ -n "$CLAUDE_ENV_FILE" ]; then echo \'{line}\' >> "$CLAUDE_ENV_FILE"; fi'
    desk.settings({"SessionStart": [group(command)]})
    server, _ = await run(
        desk, reply(call("Bash", command="echo env is $NODE_ENV")), reply("Done."), allowed_tools=("Bash",)
    )
    assert results(server)[0]["content"] == "env is production"


async def test_a_logger_of_commands(desk: HookDesk) -> None:
    log = desk.log / "commands.txt"
    desk.settings(
        {
            "PreToolUse": [
                group(
                    'python3 -c \'import json,sys; d=json.load(sys.stdin); print(d["tool_input"].get("command"), '
                    f'd["tool_input"].get("description", "No description"), sep=" - ")\' >> {log}',
                    "Bash",
                )
            ]
        }
    )
    await run(desk, reply(call("Bash", command="pwd", description="Where")), reply("Done."))
    assert log.read_text() == "pwd - Where\n"


async def test_a_notifier(desk: HookDesk) -> None:
    desk.settings({"Notification": [group(desk.keeping("note"), "permission_prompt")]})
    told = asyncio.Event()

    async def ask(question: Any) -> bool:
        await told.wait()
        return True

    async with ModelServer([reply(call("Bash", command="touch x")), reply("Done.")], lenient=True) as server:
        async with desk.session(server, permission=ask, permission_mode="default") as session:

            def hear(event: tugline.Event) -> None:
                if isinstance(event, tugline.HookFinished):
                    told.set()

            session.inside.bus.attach(hear)
            await session.run("Go")
    assert desk.told("note")["notification_type"] == "permission_prompt"
    assert "permission to use Bash" in desk.told("note")["message"]


async def test_a_guard_of_a_git_branch(desk: HookDesk) -> None:
    script = desk.script(
        "branch.sh",
        """
        #!/bin/sh
        # protect the main branch: no commits there
        cd "$CLAUDE_PROJECT_DIR" || exit 0
        if grep -q 'refs/heads/main' .git/HEAD; then
          echo "Commits to main are not allowed. Make a branch." >&2
          exit 2
        fi
        """,
    )
    desk.settings({"PreToolUse": [group(script, "Bash", **{"if": "Bash(git commit *)"})]})
    (desk.repo / ".git/HEAD").write_text("ref: refs/heads/main\n")
    commit = reply(call("Bash", command="cd . && git commit -m x"))
    server, _ = await run(desk, commit, reply(call("Bash", command="pwd")), reply("Done."))
    assert "Make a branch" in results(server)[0]["content"]
    assert not results(server)[1].get("is_error")


async def test_a_guard_of_files_by_path(desk: HookDesk) -> None:
    command = (
        "python3 -c \"import json, sys; data=json.load(sys.stdin); path=data.get('tool_input',{}).get('file_path',''); "
        "sys.exit(2 if any(p in path for p in ['.env', 'package-lock.json', '.git/']) else 0)\""
    )
    desk.settings({"PreToolUse": [group(command, "Edit|Write")]})
    write = reply(call("Write", file_path=str(desk.repo / ".env"), content="A=1"))
    server, _ = await run(desk, write, reply("Done."))
    assert "a hook blocked it without a word" in results(server)[0]["content"]
    assert not (desk.repo / ".env").exists()


async def test_an_approver_of_reading_documentation(desk: HookDesk) -> None:
    script = desk.script(
        "approve.py",
        """
        #!/usr/bin/env python3
        import json, sys
        data = json.load(sys.stdin)
        if data["tool_name"] == "Bash" and data["tool_input"]["command"].startswith("touch "):
            print(json.dumps({
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "allow",
                    "permissionDecisionReason": "Auto-approved",
                },
                "suppressOutput": True,
            }))
        """,
    )
    desk.settings({"PreToolUse": [group(script)]})
    await run(desk, reply(call("Bash", command="touch made")), reply("Done."), permission_mode="default")
    assert (desk.repo / "made").exists()
    assert [event.stdout for event in desk.said(tugline.HookFinished)] == [""]


async def test_a_checker_that_lets_nobody_stop_before_the_tests_pass(desk: HookDesk) -> None:
    script = desk.script(
        "tests.py",
        """
        #!/usr/bin/env python3
        import json, os, sys
        data = json.load(sys.stdin)
        if data["stop_hook_active"]:
            sys.exit(0)
        if not os.path.exists(os.path.join(data["cwd"], "passed")):
            print("Tests fail. Fix them before you finish.", file=sys.stderr)
            sys.exit(2)
        """,
    )
    desk.settings({"Stop": [group(script)]})
    server, finished = await run(desk, reply("Done?"), reply("Now really."))
    assert (finished.text, len(server.requests)) == ("Now really.", 2)
    assert "Tests fail. Fix them" in sent(server)


async def test_a_rewriter_of_commands(desk: HookDesk) -> None:
    script = desk.script(
        "rewrite.py",
        """
        #!/usr/bin/env python3
        import json, sys
        data = json.load(sys.stdin)
        changed = dict(data["tool_input"], command=data["tool_input"]["command"].replace("npm", "echo pnpm"))
        print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
                                                 "updatedInput": changed}}))
        """,
    )
    desk.settings({"PreToolUse": [group(script, "Bash")]})
    server, _ = await run(desk, reply(call("Bash", command="npm install")), reply("Done."))
    assert results(server)[0]["content"] == "pnpm install"
    assert [event.input["command"] for event in desk.said(tugline.CallStarted)] == ["echo pnpm install"]


async def test_a_redactor_of_output(desk: HookDesk) -> None:
    script = desk.script(
        "redact.py",
        """
        #!/usr/bin/env python3
        import json, re, sys
        data = json.load(sys.stdin)
        response = dict(data["tool_response"])
        response["stdout"] = re.sub(r"AKIA[A-Z0-9]{16}", "[redacted]", response["stdout"])
        print(json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": response}}))
        """,
    )
    desk.settings({"PostToolUse": [group(script, "Bash")]})
    desk.file("keys", "id AKIAABCDEFGHIJKLMNOP\n")
    server, _ = await run(desk, reply(call("Bash", command="cat keys")), reply("Done."))
    assert results(server)[0]["content"] == "id [redacted]"
    assert "AKIA" not in sent(server)


async def test_a_budget_guard_that_ends_the_turn(desk: HookDesk) -> None:
    answer = json.dumps({"continue": False, "stopReason": "Budget is used up"})
    desk.settings({"PostToolUse": [group(f"echo '{answer}'", "Bash")]})
    server, finished = await run(desk, reply(call("Bash", command="pwd")), reply("More."))
    assert (finished.reason, finished.message, len(server.requests)) == ("hook_stopped", "Budget is used up", 1)


async def test_an_archive_at_the_end_of_a_session(desk: HookDesk) -> None:
    path = "python3 -c 'import json,sys; print(json.load(sys.stdin)[\"transcript_path\"])'"
    command = f'cp "$({path})" {desk.log}/copy'
    desk.settings({"SessionEnd": [group(command, timeout=20)]})
    await run(desk, reply("Hi."))
    assert "Hi." in (desk.log / "copy").read_text()


async def test_an_answerer_of_permission_questions(desk: HookDesk) -> None:
    answer = {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest",
            "decision": {
                "behavior": "allow",
                "updatedPermissions": [
                    {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash", "ruleContent": "touch b"}]}
                ],
            },
        }
    }
    desk.settings({"PermissionRequest": [group(f"cat > {desk.log}/$$.json; echo '{json.dumps(answer)}'", "Bash")]})
    steps = [reply(call("Bash", command="touch a")), reply(call("Bash", command="touch b")), reply("Done.")]
    await run(desk, *steps, permission_mode="default")
    assert ((desk.repo / "a").exists(), (desk.repo / "b").exists()) == (True, True)
    assert len(os.listdir(desk.log)) == 1, "the rule that came with the first answer allows the second call"


async def test_a_program_with_arguments_gets_them_as_they_are(desk: HookDesk) -> None:
    script = desk.script("args.py", "#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n")
    entry = {"type": "command", "command": script, "args": ["a b", "$HOME;`id`", "${CLAUDE_PROJECT_DIR}/x"]}
    desk.settings({"UserPromptSubmit": [{"hooks": [entry]}]})
    server, _ = await run(desk, reply("Hi."))
    assert f"['a b', '$HOME;`id`', '{desk.repo}/x']" in sent(server)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
async def test_a_one_liner_with_jq(desk: HookDesk) -> None:
    desk.settings({"PreToolUse": [group(f"jq -r '.tool_input.command' >> {desk.log}/jq.txt", "Bash")]})
    await run(desk, reply(call("Bash", command="pwd")), reply("Done."))
    assert (desk.log / "jq.txt").read_text() == "pwd\n"


async def test_a_hook_beside_the_turn_wakes_the_model_when_it_fails(desk: HookDesk) -> None:
    gate = desk.top / "gate"
    os.mkfifo(gate)
    entry = group(f"read line < {gate}; echo 'the build broke' >&2; exit 2", "Write", asyncRewake=True)
    desk.settings({"PostToolUse": [entry]})
    write = reply(call("Write", file_path=str(desk.repo / "a"), content="1"))
    async with ModelServer([write, reply("Done."), reply("I mend it.")], lenient=True) as server:
        async with desk.session(server) as session:
            events = session.events()
            assert (await session.run("Go")).text == "Done."
            await asyncio.to_thread(gate.write_text, "go\n")
            async for event in events:
                if isinstance(event, tugline.TurnFinished) and event.text == "I mend it.":
                    break
            assert any("the build broke" in text for text in words(session))


async def test_what_a_hook_beside_the_turn_says_is_told_with_the_next_request(desk: HookDesk) -> None:
    out = json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "deployed"}})
    desk.settings({"PostToolUse": [group(f"echo '{out}'", "Write", **{"async": True})]})
    write = reply(call("Write", file_path=str(desk.repo / "a"), content="1"))
    async with ModelServer([write, reply("Done."), reply("Yes.")], lenient=True) as server:
        async with desk.session(server) as session:
            over = asyncio.Event()
            session.inside.bus.attach(lambda event: over.set() if isinstance(event, tugline.HookFinished) else None)
            await session.run("Go")
            await over.wait()
            await session.run("And?")
        assert "deployed" in sent(server)
