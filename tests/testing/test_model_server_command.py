"""`tugline model-server` as a process of its own."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["raw_wire"]

Connect = Callable[[int], Any]

BODY = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@asynccontextmanager
async def command(*args: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tugline.testing.server", *args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def greeting(process: asyncio.subprocess.Process) -> dict[str, str]:
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("model server ready: ")
    return dict(word.split("=", 1) for word in line.removeprefix("model server ready: ").split())


async def end(process: asyncio.subprocess.Process, number: int) -> tuple[int | None, str, str]:
    process.send_signal(number)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_says_what_to_set_and_ends_well_when_all_went_as_scripted(
    tmp_path: Path, wire: Connect, number: int
) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("- hello\n")
    async with command(str(script)) as process:
        variables = await greeting(process)
        port = int(variables["ANTHROPIC_BASE_URL"].rsplit(":", 1)[1])
        assert variables == {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "ANTHROPIC_API_KEY": "scripted",
            "OPENAI_API_KEY": "scripted",
        }
        answer = await wire(port).ask("/v1/messages", BODY)
        assert answer.json["content"] == [{"type": "text", "text": "hello"}]
        assert await end(process, number) == (0, "", "")


@pytest.mark.parametrize(("flags", "status"), [((), 1), (("--lenient",), 0)])
async def test_it_names_at_the_end_what_was_not_as_scripted(
    tmp_path: Path, wire: Connect, flags: tuple[str, ...], status: int
) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("- {text: hello, when: please}\n")
    async with command(str(script), *flags) as process:
        port = int((await greeting(process))["ANTHROPIC_BASE_URL"].rsplit(":", 1)[1])
        assert (await wire(port).ask("/v1/messages", BODY)).status == 500
        code, _, err = await end(process, signal.SIGTERM)
    assert (code, err.splitlines()) == (
        status,
        [
            "unexpected request: no step is left for a request (model m, user 'hi')",
            "never asked for: step 1: text 'hello'",
        ],
    )


async def test_it_records_requests_without_their_keys(tmp_path: Path, wire: Connect) -> None:
    script, record = tmp_path / "s.yaml", tmp_path / "r.jsonl"
    script.write_text("- hello\n")
    async with command(str(script), "--record-requests", str(record), "--require-key", "geheim") as process:
        port = int((await greeting(process))["ANTHROPIC_BASE_URL"].rsplit(":", 1)[1])
        headers = {"anthropic-version": "1", "x-api-key": "geheim", "authorization": "Bearer geheim"}
        assert (await wire(port).ask("/v1/messages", BODY, headers=headers)).status == 200
        await wire(port).ask("/v1/messages", b"\xff", headers=headers)
        await end(process, signal.SIGTERM)
    first, second = [json.loads(line) for line in record.read_text().splitlines()]
    assert (first["n"], first["method"], first["path"], first["body"]) == (1, "POST", "/v1/messages", BODY)
    assert second["body"] == "\ufffd"
    assert "geheim" not in record.read_text()


async def test_it_ends_while_a_reply_waits_at_a_gate(tmp_path: Path, wire: Connect) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("- {gate: never, text: hello}\n")
    async with command(str(script)) as process:
        port = int((await greeting(process))["ANTHROPIC_BASE_URL"].rsplit(":", 1)[1])
        asking = asyncio.create_task(wire(port).ask("/v1/messages", BODY))
        await wire(port).ask("/control/gates/never", method="GET")
        assert (await end(process, signal.SIGTERM))[0] == 0
        assert not (await asking).whole


async def test_what_it_cannot_use_is_one_line_and_status_2(tmp_path: Path) -> None:
    script, good = tmp_path / "s.yaml", tmp_path / "good.yaml"
    script.write_text("- txt: hello\n")
    good.write_text("- hello\n")
    cases = {
        (str(script),): "s.yaml:1:3: step 1, txt: a step has no key 'txt'; did you mean 'text'?",
        (str(tmp_path / "none.yaml"),): "none.yaml: no such file",
        (str(good), "--port", "99999"): "cannot listen on 127.0.0.1:99999",
        (str(good), "--host", "nowhere.invalid"): "cannot listen on nowhere.invalid:0",
        (str(good), "--record-requests", str(tmp_path)): "Is a directory",
        (str(good), "--port", "x"): "invalid int value",
        (): "the following arguments are required: script",
    }
    for args, reason in cases.items():
        async with command(*args) as process:
            out, err = await process.communicate()
            assert (process.returncode, out) == (2, b"")
            assert reason in err.decode()
            assert "Traceback" not in err.decode()
