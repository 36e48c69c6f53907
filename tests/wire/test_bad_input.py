"""Whatever is wrong: one or two clear lines, the right exit code, no traceback, no hang, nothing lost."""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from command import TUGLINE, Desk, assert_clean

from tugline.protocol.script import SayCall
from tugline.testing import ModelServer, call, cut, fail, raw_call, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]
UUID = "4f0c3b5e-8a52-4c5d-9d6b-0f5c7d1c2b3a"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--modell", "x"], "There is no flag --modell. Did you mean --model?"),
        (["-p", "x", "--max-turns", "many"], "--max-turns must be a whole number of at least 1, not 'many'."),
        (["-p", "x", "--max-turns=0"], "--max-turns must be a whole number of at least 1, not '0'."),
        (["-p", "x", "--max-budget-usd", "nan"], "--max-budget-usd must be an amount in USD above 0, not 'nan'."),
        (["-p", "x", "--model"], "--model needs a value (MODEL)."),
        (["-p", "x", "--model", "--debug"], "If the value begins with a dash: --model=VALUE"),
        (["-p", "x", "--output-format", "jsn"], "one of text, json, stream-json, not 'jsn'. Did you mean json?"),
        (["-p", "x", "--input-format", "stream-json"], "--input-format stream-json is not available in this version."),
        (["-p", "x", "--permission-mode", "yolo"], "--permission-mode must be one of default,"),
        (["-p", "x", "--session-id", "7"], "--session-id must be a UUID"),
        (["-p", "x", "--setting-sources", "usr"], "separated by commas, not 'usr'. Did you mean user?"),
        (["-p", "x", "--continue", "--resume", "y"], "--resume and --continue cannot both be given."),
        (["-p", "x", "--fork-session"], "--fork-session needs --resume or --continue."),
        (["-p", "x", "-c", "--session-id", UUID], "needs --fork-session: a session keeps its id."),
        (["-p", "x", "--name"], "--name needs a value (NAME)."),
        (["-p", "x", "--name", ""], "--name needs a value (NAME), not an empty one."),
        (["-p", "x", "--detach"], "--detach is not available in this version."),
        (["-p", "x", "--mcp-config", "{}"], "--mcp-config is not available in this version."),
        (["-p", "x", "y"], "There are two prompts, 'x' and 'y'. Put quotes around the whole prompt."),
        (["-p", "x", "--include-partial-messages"], "--include-partial-messages needs --output-format stream-json."),
        (["-p", "x", "--system-prompt", "a", "--system-prompt-file", "b"], "cannot both be given"),
        (["-p", "x", "--system-prompt-file", "nowhere"], "nowhere cannot be read: No such file or directory."),
        (["-p", "x", "--system-prompt-file", "/dev"], "/dev cannot be read: Is a directory."),
        (["-p", "x", "--add-dir", "nowhere"], "nowhere"),
        (["-p", "x", "--dangerously-skip-permissions", "--permission-mode", "plan"], "contradict each other"),
        (["-p", "x", "--tools", "Reed"], "Reed"),
        (["-p", "x", "--allowed-tools", "Bash("], "--allowed-tools: permission rule 'Bash(' cannot be used"),
        (["-p", "x", "--disallowedTools", "Read,WebFetch(x)"], "--disallowed-tools: permission rule 'WebFetch(x)'"),
        (["mcp", "list"], "`tugline mcp` is not available in this version."),
        (["config", "chow"], "There are: config show, config context, config schema."),
        (["completion", "csh"], "takes one of bash, zsh, fish."),
        (["demo", "--fast"], "takes no arguments but --keep."),
        (["-p"], "There is no prompt."),
        (["-p", "  "], "There is no prompt."),
    ],
)  # fmt: skip
async def test_wrong_usage_is_named_and_ends_with_2(desk: Desk, argv: list[str], says: str) -> None:
    ended = await desk.run(*argv, env={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    assert_clean(ended)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


async def test_no_key_says_in_three_lines_what_to_set(desk: Desk) -> None:
    ended = await desk.run("-p", "Go")
    assert_clean(ended, lines=3)
    assert (ended.code, ended.out) == (1, "")
    for words in ("ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "tugline demo"):
        assert words in ended.err
    refused = await desk.run("-p", "Go", "--output-format", "stream-json", "--session-id", UUID)
    assert refused.code == 1
    assert [line["type"] for line in refused.lines] == ["result"]
    assert (refused.result["subtype"], refused.result["session_id"]) == ("error_during_execution", UUID)
    assert "ANTHROPIC_API_KEY" in refused.result["errors"][0]


async def test_a_broken_rule_is_named_with_its_place_and_only_one_that_forbids_stops_the_run(
    desk: Desk, serve: Serve
) -> None:
    await serve([reply("Done.")])
    path = desk.folder / "state" / "config" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"permissions":\n  {"allow": ["Edit", "Bash("]}}')
    allowed = await desk.run("-p", "Go")
    assert (allowed.code, allowed.out) == (0, "Done.\n")
    assert_clean(allowed, lines=1)
    assert f"{path}:2:22: permission rule 'Bash(' cannot be used: the closing ) is missing" in allowed.err
    path.write_text('{"permissions":\n  {"deny": ["Bash("]}}')
    denied = await desk.run("-p", "Go")
    assert (denied.code, denied.out) == (1, "")
    assert_clean(denied, lines=1)
    assert f"{path}:2:13: permission rule 'Bash('" in denied.err


@pytest.mark.parametrize("text", ['{"model": }', '{"permissions": {"allow": ["Bash("]}}'])
async def test_settings_that_cannot_be_used_are_named_with_their_place(desk: Desk, serve: Serve, text: str) -> None:
    await serve([reply("Done.")])
    path = desk.cwd / "mine.json"
    path.write_text(text)
    ended = await desk.run("-p", "Go", "--settings", "mine.json")
    assert_clean(ended)
    assert "mine.json" in ended.err
    inline = await desk.run("-p", "Go", "--settings", text)
    assert_clean(inline)


async def test_a_settings_file_that_is_not_there_ends_the_start(desk: Desk, serve: Serve) -> None:
    await serve([reply("Done.")])
    ended = await desk.run("-p", "Go", "--settings", "nowhere.json")
    assert_clean(ended)
    assert (ended.code, ended.out) == (1, "")
    assert "nowhere.json" in ended.err


async def test_a_wrong_key_in_the_settings_is_a_warning_with_the_right_one(desk: Desk, serve: Serve) -> None:
    await serve([reply("Done.")])
    ended = await desk.run("-p", "Go", "--settings", '{"modell": "x"}')
    assert_clean(ended, lines=1)
    assert (ended.code, ended.out) == (0, "Done.\n")
    assert "modell" in ended.err
    assert "did you mean" in ended.err.lower()


async def test_a_wrong_api_key_is_said_once_and_is_final(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("never")], require_key="another")
    ended = await desk.run("-p", "Go", "--output-format", "json")
    assert_clean(ended)
    assert (ended.code, len(server.requests)) == (1, 1)
    result = ended.result
    assert (result["subtype"], result["is_error"], result["api_error_status"]) == ("success", True, 401)
    assert result["result"].startswith("API Error: ")
    assert result["terminal_reason"] == "api_error"
    assert "canary" not in ended.err + ended.out


@pytest.mark.parametrize(("status", "code"), [(529, 75), (503, 75), (429, 75), (400, 1), (404, 1)])
async def test_what_is_worth_trying_again_ends_with_75(desk: Desk, serve: Serve, status: int, code: int) -> None:
    await serve([fail(status, repeat=None)])
    ended = await desk.run("-p", "Go")
    assert_clean(ended)
    assert (ended.code, ended.out) == (code, "")


async def test_a_failure_shows_as_a_message_before_its_result(desk: Desk, serve: Serve) -> None:
    await serve([fail(529, repeat=None)])
    ended = await desk.run("-p", "Go", "--output-format", "stream-json")
    *_, said, result = ended.lines
    assert (said["type"], said["error"], said["message"]["model"]) == ("assistant", "rate_limit", "<synthetic>")
    assert (result["subtype"], result["is_error"], result["api_error_status"]) == ("success", True, 529)
    assert said["message"]["content"][0]["text"] == result["result"]


async def test_nobody_listening_is_worth_trying_again(desk: Desk) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        ended = await desk.run("-p", "Go", env={"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "k"})
    assert_clean(ended)
    assert ended.code == 75
    assert address.removeprefix("http://") in ended.err


async def test_a_stream_that_always_breaks_off_leaves_nothing_half_said(desk: Desk, serve: Serve) -> None:
    await serve([reply("A long answer that never ends", call("Bash", command="echo"), cut=cut(events=5), repeat=None)])
    ended = await desk.run("-p", "Go", "--output-format", "stream-json")
    assert_clean(ended)
    assert ended.code == 75
    said = [line for line in ended.lines if line["type"] == "assistant" and "error" not in line]
    assert (said, [line for line in ended.lines if line["type"] == "user"]) == ([], [])


async def test_a_hundred_broken_calls_of_unknown_tools_each_get_a_result(desk: Desk, serve: Serve) -> None:
    calls: list[SayCall] = []
    for number in range(50):
        calls += [raw_call(f"Nothing{number}", '{"a": '), raw_call("Read", '{"file_path": [1, "\\ud83d"]}')]
    await serve([reply(*calls), reply("I give up.")])
    ended = await desk.run("-p", "Go", "--output-format", "stream-json")
    assert (ended.code, ended.result["result"]) == (0, "I give up.")
    asked = [block["id"] for block in ended.lines[1]["message"]["content"]]
    answers = [line["message"]["content"][0] for line in ended.lines if line["type"] == "user"]
    assert [answer["tool_use_id"] for answer in answers] == asked
    assert len(asked) == 100
    assert all(answer["is_error"] for answer in answers)


async def test_a_gigabyte_of_output_is_shortened_and_does_not_fill_the_line(desk: Desk, serve: Serve) -> None:
    command = "head -c 1000000000 /dev/zero | tr '\\0' 'x'"
    await serve([reply(call("Bash", command=command)), reply("Much.")])
    ended = await desk.run("-p", "Go", "--output-format", "stream-json", "--allowed-tools", "Bash", limit=60)
    assert ended.result["result"] == "Much."
    (result,) = [line for line in ended.out.splitlines() if '"tool_result"' in line]
    assert len(result) < 1 << 20


async def test_a_huge_input_is_cut_in_its_line_and_says_so(desk: Desk, serve: Serve) -> None:
    big = "é" * 1_500_000
    await serve([reply(call("Write", file_path="x.txt", content=big), chunk=100_000), reply("ok")])
    ended = await desk.run(
        "-p", "Go", "--allowed-tools", "Write", "--output-format", "stream-json", "--include-partial-messages"
    )
    assert ended.result["terminal_reason"] == "prompt_too_long"  # and the run ended as it should have
    assert max(len(line.encode()) for line in ended.out.split("\n")) < 1 << 20
    (said,) = [line for line in ended.lines if line["type"] == "assistant" and "Write" in json.dumps(line)[:2_000]]
    assert "left out: line too long" in said["message"]["content"][0]["input"]["content"]
    assert (desk.cwd / "x.txt").read_text() == big


async def test_binary_and_endless_stdin_are_refused(desk: Desk) -> None:
    binary = await desk.run("-p", "Go", stdin=b"\x00\x01\x02")
    broken = await desk.run("-p", "Go", stdin=b"caf\xe9")
    endless = await desk.run("-p", "Go", shell="< /dev/zero")
    cases = ((binary, "binary"), (broken, "not UTF-8 text (byte 3)"), (endless, "More than 10 MB"))
    for ended, says in cases:
        assert_clean(ended)
        assert (ended.code, says in ended.err) == (2, True), ended.err


async def test_a_script_that_cannot_be_read_is_named(desk: Desk) -> None:
    (desk.cwd / "bad.yaml").write_text("steps:\n  - repply: {text: x}\n")
    for words in (["-p", "x", "--replay", "bad.yaml"], ["model-server", "bad.yaml"]):
        ended = await desk.run(*words)
        assert_clean(ended)
        assert ended.code in (1, 2)
        assert "bad.yaml:2:" in ended.err
    missing = await desk.run("-p", "x", "--replay", "nowhere.yaml")
    assert_clean(missing)


async def test_a_transcript_that_cannot_be_written_ends_the_start(desk: Desk, serve: Serve) -> None:
    await serve([reply("never")])
    Path(desk.environ["TUGLINE_HOME"]).write_text("a file in the way")
    ended = await desk.run("-p", "Go", "--output-format", "json")
    assert_clean(ended)
    assert (ended.code, ended.result["is_error"]) == (1, True)


async def test_a_folder_that_is_gone_is_an_error_line(desk: Desk, serve: Serve) -> None:
    await serve([reply("never")])
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$0" -p Go < /dev/null', TUGLINE),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=desk.cwd, env=desk.environ,
    )  # fmt: skip
    ended = await desk.end(process)
    assert_clean(ended)
    assert (ended.code, "folder" in ended.err) == (1, True), ended.err


async def test_a_folder_whose_name_is_no_text_is_an_error_line(desk: Desk, serve: Serve) -> None:
    await serve([reply("Fine.")])
    Path(os.fsdecode(os.fsencode(desk.cwd) + b"/caf\xe9")).mkdir()
    ended = await desk.end(await desk.start(program=("bash", "-c", 'cd caf*; exec "$0" -p Go', TUGLINE)))
    assert_clean(ended)
    assert (ended.code, ended.out) == (2, "")
    assert "caf\ufffd is not UTF-8 text" in ended.err


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("ANTHROPIC_BASE_URL", "localhost:1234", "the URL must begin with http:// or https://; check the base URL"),
        ("HTTPS_PROXY", "socks5://127.0.0.1:9", "SOCKS proxies are not supported"),
        ("SSL_CERT_FILE", "/no/such/file.pem", "SSL_CERT_FILE names /no/such/file.pem, which does not exist"),
    ],
)
async def test_a_network_that_is_set_up_wrongly_is_not_tried_again(
    desk: Desk, variable: str, value: str, says: str
) -> None:
    given = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "https://127.0.0.1:9", variable: value}
    ended = await desk.run("-p", "Go", env=given)
    assert_clean(ended)
    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err
    assert "gave up" not in ended.err


async def test_a_prompt_that_is_no_utf8_is_sent_with_replacements(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("ok")])
    ended = await desk.run("-p", shell="$'caf\\xe9'")
    assert (ended.code, ended.err) == (0, "")
    assert "caf\ufffd" in json.dumps(server.bodies[0], ensure_ascii=False)
