"""What a run prints when all goes well."""

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import Awaitable, Callable

import pytest
from command import Desk

from tugline.testing import ModelServer, call, fail, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]


async def test_text_prints_the_answer_and_nothing_but_the_answer(desk: Desk, serve: Serve) -> None:
    await serve([reply("Let me see.", call("Bash", command="echo hi")), reply("It says hi.")])
    ended = await desk.run("-p", "What does echo say?")
    assert (ended.code, ended.out, ended.err) == (0, "It says hi.\n", "")


async def test_json_prints_the_result_alone(desk: Desk, serve: Serve) -> None:
    await serve([reply("Done.")])
    ended = await desk.run("-p", "Go", "--output-format=json", "--model", "claude-sonnet-4-5")
    assert (ended.code, ended.err) == (0, "")
    assert [line["type"] for line in ended.lines] == ["result"]
    result = ended.result
    assert (result["subtype"], result["is_error"], result["result"]) == ("success", False, "Done.")
    assert (result["num_turns"], result["stop_reason"], result["terminal_reason"]) == (1, "end_turn", "completed")
    assert result["total_cost_usd"] > 0
    assert set(result["modelUsage"]) == {"claude-sonnet-4-5"}
    assert result["modelUsage"]["claude-sonnet-4-5"]["contextWindow"] == 200_000


async def test_stream_json_shows_each_message_once_and_in_order(desk: Desk, serve: Serve) -> None:
    (desk.cwd / "a.txt").write_text("alpha\n")
    await serve(
        [
            reply("Reading.", call("Read", file_path="a.txt"), call("Nonsense", x=1)),
            reply("alpha it is \u2028 really."),
        ]
    )
    ended = await desk.run("-p", "Go", "--output-format", "stream-json", "--verbose")
    assert (ended.code, ended.err) == (0, "")
    assert [(line["type"], line.get("subtype")) for line in ended.lines] == [
        ("system", "init"), ("assistant", None), ("user", None), ("user", None), ("assistant", None),
        ("result", "success"),
    ]  # fmt: skip
    init, said, first, second, answer, result = ended.lines
    assert init["cwd"] == str(desk.cwd)
    assert init["apiKeySource"] == "ANTHROPIC_API_KEY"
    assert re.match(r"\d+\.\d+\.\d+", init["claude_code_version"])
    assert "Read" in init["tools"]
    asked = [block["id"] for block in said["message"]["content"] if block["type"] == "tool_use"]
    answers = [line["message"]["content"][0] for line in (first, second)]
    assert [block["tool_use_id"] for block in answers] == asked
    assert [block["is_error"] for block in answers] == [False, True]
    assert "alpha" in answers[0]["content"]
    assert answer["message"]["content"] == [{"type": "text", "text": "alpha it is \u2028 really."}]
    assert result["result"] == "alpha it is \u2028 really."
    assert len({line["uuid"] for line in ended.lines}) == len(ended.lines)
    assert {line["session_id"] for line in ended.lines} == {init["session_id"]}


async def test_partial_messages_add_up_to_the_messages(desk: Desk, serve: Serve) -> None:
    await serve([reply("One two three four.", call("Bash", command="true"), chunk=3), reply("Five.", chunk=1)])
    ended = await desk.run("-p", "Go", "--output-format", "stream-json", "--include-partial-messages")
    events = [line["event"] for line in ended.lines if line["type"] == "stream_event"]
    kinds = [event["type"] for event in events]
    assert kinds.count("message_start") == kinds.count("message_stop") == 2
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3
    texts = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    assert texts == "One two three four.Five."
    pieces = "".join(
        event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta"
    )
    assert json.loads(pieces) == {"command": "true"}
    assert ended.result["result"] == "Five."


async def test_a_broken_attempt_is_never_shown_as_a_message(desk: Desk, serve: Serve) -> None:
    from tugline.testing import cut

    await serve([reply("This part is ", call("Bash", command="echo one"), cut=cut(events=4)), reply("Whole.")])
    ended = await desk.run("-p", "Go", "--output-format", "stream-json", "--include-partial-messages")
    assert ended.code == 0
    said = [line["message"]["content"] for line in ended.lines if line["type"] == "assistant"]
    assert said == [[{"type": "text", "text": "Whole."}]]
    assert not [line for line in ended.lines if line["type"] == "user"]
    assert [line["subtype"] for line in ended.lines if line["type"] == "system"] == ["init", "tombstone", "api_retry"]


async def test_a_retry_is_told_with_its_status(desk: Desk, serve: Serve) -> None:
    await serve([fail(529), reply("Done.")])
    ended = await desk.run("-p", "Go", "--output-format", "stream-json")
    (retry,) = [line for line in ended.lines if line.get("subtype") == "api_retry"]
    assert (retry["attempt"], retry["max_retries"], retry["error_status"], retry["error"]) == (1, 1, 529, "rate_limit")
    assert ended.code == 0


async def test_stdin_is_appended_to_the_prompt(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("ok"), reply("ok")])
    await desk.run("-p", "Sum this up:", stdin=b"one\ntwo\n")
    await desk.run(stdin="Grüße".encode())
    texts = [body["messages"][-1]["content"] for body in server.bodies]
    assert [part["text"] for part in texts[0]] == ["Sum this up:", "one\ntwo\n"]
    assert "Grüße" in json.dumps(texts[1], ensure_ascii=False)


async def test_what_is_piped_in_cannot_have_files_attached(desk: Desk, serve: Serve) -> None:
    (desk.cwd / "mine.txt").write_text("I meant this one")
    (desk.cwd / "key.txt").write_text("canary")
    server = await serve([reply("ok")])
    await desk.run("-p", "Compare with @mine.txt:", stdin=b"+ thanks to @key.txt\n")
    sent = server.requests[0].raw
    assert (b"I meant this one" in sent, b"canary" in sent) == (True, False)


async def test_a_denied_call_is_listed_and_explained(desk: Desk, serve: Serve) -> None:
    await serve([reply(call("Write", file_path="x", content="y")), reply("I may not."), reply("again")])
    ended = await desk.run("-p", "Go", "--output-format", "json")
    (denial,) = ended.result["permission_denials"]
    assert (denial["tool_name"], denial["tool_input"]) == ("Write", {"file_path": "x", "content": "y"})
    assert ended.err == (
        "tugline: 1 call was not permitted (Write). To permit: --allowed-tools RULE or --permission-mode MODE.\n"
    )
    assert (ended.code, (desk.cwd / "x").exists()) == (0, False)


async def test_allowed_tools_let_a_call_through(desk: Desk, serve: Serve) -> None:
    await serve([reply(call("Write", file_path="x", content="y")), reply("Written.")])
    ended = await desk.run("-p", "--allowed-tools", "Write", "Edit", "Go")
    assert (ended.code, ended.out, ended.err) == (0, "Written.\n", "")
    assert (desk.cwd / "x").read_text() == "y"


async def test_what_the_agent_makes_has_the_users_own_modes_and_what_tugline_keeps_is_private(
    desk: Desk, serve: Serve
) -> None:
    made = call("Write", file_path="deep/written.txt", content="x")
    await serve([reply(made, call("Bash", command="umask; touch touched.txt")), reply("Done.")])
    before = os.umask(0o027)
    try:
        process = await desk.start("-p", "Go", "--debug", "--allowed-tools", "Write", "Bash")
    finally:
        os.umask(before)
    assert (await desk.end(process)).code == 0
    modes = {
        name: stat.S_IMODE((desk.cwd / name).stat().st_mode) for name in ("deep", "deep/written.txt", "touched.txt")
    }
    assert modes == {"deep": 0o750, "deep/written.txt": 0o640, "touched.txt": 0o640}
    kept = [desk.folder / "state", *(desk.folder / "state").rglob("*")]
    assert len(kept) > 4
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


async def test_max_turns_ends_with_its_own_result(desk: Desk, serve: Serve) -> None:
    await serve([reply("a", call("Bash", command="echo 1"), repeat=None)])
    ended = await desk.run("-p", "Go", "--max-turns", "2", "--output-format", "stream-json")
    result = ended.result
    assert (ended.code, result["subtype"], result["is_error"]) == (1, "error_max_turns", True)
    assert (result["num_turns"], result["terminal_reason"]) == (2, "max_turns")
    assert "--max-turns" in result["errors"][0]
    assert "--max-turns" in ended.err


async def test_system_prompts_come_from_flags_and_files(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("ok"), reply("ok"), reply("ok")])
    (desk.cwd / "more.md").write_text("Speak Latin.")
    await desk.run("-p", "a", "--system-prompt=- be short", "--append-system-prompt-file", "more.md")
    await desk.run("-p", "b", "--system-prompt", "")
    await desk.run("-p", "c", "--tools", "", "--model=claude-haiku-4-5")
    first, second, third = server.bodies
    assert "- be short" in json.dumps(first["system"])
    assert "Speak Latin." in json.dumps(first["system"])
    assert not second.get("system")
    assert (third.get("tools", []), third["model"]) == ([], "claude-haiku-4-5")


async def test_a_recorded_run_can_be_replayed(desk: Desk, serve: Serve) -> None:
    await serve([reply("Looking.", call("Bash", command="echo seven")), reply("It is seven.")])
    first = await desk.run("-p", "Which?", "--record", "run.yaml")
    second = await desk.run(
        "-p", "Which?", "--replay", "run.yaml", env={"ANTHROPIC_BASE_URL": "", "HTTP_PROXY": "http://x"}
    )
    assert (first.code, first.out) == (0, "It is seven.\n")
    assert (second.code, second.out, second.err) == (0, "It is seven.\n", "")


async def test_verbose_tells_on_stderr_what_goes_on(desk: Desk, serve: Serve) -> None:
    await serve([reply("I look.", call("Bash", command="echo seven; echo eight")), reply("Done.")])
    ended = await desk.run("-p", "Go", "--verbose")
    assert ended.out == "Done.\n"
    assert ended.err == "\nI look.\n● Bash echo seven; echo eight\n  └ 2 lines\n    seven\n    eight\n"


async def test_control_sequences_of_the_model_do_not_reach_the_output(desk: Desk, serve: Serve) -> None:
    await serve([reply("a\x1b]0;title\x07b\x1b[31mc\x9b2Jd\x00")])
    ended = await desk.run("-p", "Go")
    assert ended.out == "abcd\\x00\n"


async def test_the_debug_log_has_all_but_the_key(desk: Desk, serve: Serve) -> None:
    await serve([reply("Done: sk-ant-canary-0123456789abcdef.")])
    ended = await desk.run("-p", "Go", "--debug")
    log = desk.folder / "state" / "data" / "logs" / "debug.log"
    assert ended.err == f"tugline: debug log: {log}\n"
    kinds = [json.loads(line)["event"]["type"] for line in log.read_text().splitlines()]
    assert kinds[:2] == ["session_started", "turn_started"]
    assert kinds[-1] == "turn_finished"
    assert "canary" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


async def test_the_model_server_command_serves_the_command(desk: Desk) -> None:
    (desk.folder / "script.yaml").write_text("steps:\n  - reply: {text: From the command.}\n")
    server = await desk.start("model-server", str(desk.folder / "script.yaml"))
    assert server.stdout is not None
    greeting = (await server.stdout.readline()).decode()
    found = dict(part.split("=", 1) for part in greeting.split() if "=" in part)
    anthropic = {name: found[name] for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")}
    ended = await desk.run("-p", "Go", env=anthropic)
    server.terminate()
    served = await desk.end(server)
    assert (ended.code, ended.out) == (0, "From the command.\n")
    assert served.code == 0, served.err


async def test_an_openai_address_is_spoken_to_in_its_own_way(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("Hello from chat.")])
    env = {"ANTHROPIC_BASE_URL": "", "ANTHROPIC_API_KEY": "", "OPENAI_BASE_URL": server.openai_url}
    ended = await desk.run("-p", "Go", "--model", "qwen3", env=env)
    assert (ended.code, ended.out, ended.err) == (0, "Hello from chat.\n", "")
    assert server.requests[0].path.endswith("/v1/chat/completions")


@pytest.mark.parametrize("flag", ["--version", "-v"])
async def test_the_version_leads_with_the_protocol_level_for_hosts(desk: Desk, flag: str) -> None:
    plain, hosted = await asyncio.gather(desk.run(flag), desk.run(flag, env={"CLAUDE_CODE_ENTRYPOINT": "sdk-py"}))
    assert (plain.code, plain.out, plain.err) == (0, "0.1.0 (tugline)\n", "")
    assert (hosted.code, hosted.out, hosted.err) == (0, "2.1.265 (tugline 0.1.0)\n", "")


async def test_python_m_tugline_is_the_command(desk: Desk) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tugline", "--version", stdout=asyncio.subprocess.PIPE, env=desk.environ
    )
    out, _ = await process.communicate()
    assert out == b"0.1.0 (tugline)\n"


async def test_the_demo_mends_the_sample_and_leaves_nothing_behind(desk: Desk) -> None:
    tmp = desk.folder / "tmp"
    tmp.mkdir()
    ended = await desk.run("demo", env={"TMPDIR": str(tmp), "ANTHROPIC_API_KEY": "real", "TUGLINE_MODEL": "other"})
    assert (ended.code, ended.err) == (0, "")
    assert "if quantity >= BULK:" in ended.out
    assert "AssertionError: 800 != 680" in ended.out
    assert "The tests were run once more and pass." in ended.out
    assert "\x1b" not in ended.out
    assert list(tmp.iterdir()) == []
    assert not (desk.folder / "state").exists()


async def test_the_demo_can_keep_its_copy(desk: Desk) -> None:
    tmp = desk.folder / "tmp"
    tmp.mkdir()
    ended = await desk.run("demo", "--keep", env={"TMPDIR": str(tmp)})
    assert ended.code == 0
    (copy,) = tmp.iterdir()
    assert ">= BULK" in (copy / "shop" / "prices.py").read_text()
    assert sorted(path.name for path in copy.iterdir()) == ["README.md", "shop", "tests"]


async def test_config_shows_settings_and_where_they_come_from(desk: Desk) -> None:
    shown = await desk.run("config", "show", "--origin", "--settings", '{"effort": "low"}')
    assert (shown.code, shown.err) == (0, "")
    assert any(line.startswith("effort ") and "command line" in line for line in shown.out.splitlines())
    plain = await desk.run("config", "show", "--json")
    retries = json.loads(plain.out)["settings"]["network.maxRetries"]
    assert (retries["value"], retries["origin"].startswith("environment")) == (1, True)
    schema = await desk.run("config", "schema")
    assert "permissions" in json.loads(schema.out)["properties"]
