"""A whole session with real tools, its model played by aimock."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from partner import MODELS, Aimock, Start

import tugline

pytest_plugins = ["partner_programs"]

pytestmark = pytest.mark.partner

CALLS: list[dict[str, Any]] = [
    {"name": "Read", "arguments": '{"file_path": "greet.py"}', "id": "call_read"},
    {
        "name": "Edit",
        "arguments": '{"file_path": "greet.py", "old_string": "Helo", "new_string": "Hello"}',
        "id": "call_edit",
    },
    {"name": "Bash", "arguments": '{"command": "python3 greet.py"}', "id": "call_bash"},
]


def script(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each call is asked for after the result of the one before; the output of the last is quoted."""
    last = {"toolCallId": "call_bash", "toolResultContains": "Hello, you"}
    steps: list[dict[str, Any]] = [{"match": last, "response": {"content": "It greets."}}]
    for before, call in pairwise(calls):
        steps.append({"match": {"toolCallId": before["id"]}, "response": {"content": "Next.", "toolCalls": [call]}})
    first = {"match": {"userMessage": "greeting", "hasToolResult": False}, "response": {"toolCalls": calls[:1]}}
    return [*steps, first]


def session(protocol: str, server: Aimock, folder: Path, **options: Any) -> tugline.Session:
    home = folder / "home"
    home.mkdir()
    (folder / "work").mkdir()
    api = "responses" if protocol == "responses" else "chat"
    options.setdefault("settings", {"providers": {"openai": {"api": api}}, "network": {"retryBase": 0.01}})
    return tugline.Session(
        model=MODELS[protocol],
        base_url=server.url if protocol == "messages" else server.url + "/v1",
        api_key="k",
        cwd=str(folder / "work"),
        permission_mode="bypassPermissions",
        environ={"HOME": str(home), "TUGLINE_HOME": str(home / "tugline"), "PATH": os.environ["PATH"]},
        **options,
    )


async def test_a_job_with_real_tools_gets_done(aimock: Start, protocol: str, tmp_path: Path) -> None:
    server = await aimock(script(CALLS))
    agent = session(protocol, server, tmp_path)
    program = tmp_path / "work" / "greet.py"
    program.write_text('print("Helo, you")\n')
    async with agent:
        end = await agent.run("Mend the greeting.")
    assert (end.reason, end.text) == ("completed", "It greets.")
    assert program.read_text() == 'print("Hello, you")\n'
    assert [entry["response"]["status"] for entry in await server.journal()] == [200] * 4


async def test_an_error_and_a_broken_stream_are_outlived(aimock: Start, protocol: str, tmp_path: Path) -> None:
    first = {"userMessage": "hello"}
    cut = {"truncateAfterChunks": 4, "chunkSize": 5}
    words = "a long enough answer to be cut in its middle"
    server = await aimock(
        [
            {"match": first | {"sequenceIndex": 0}, "response": {"error": {"message": "later"}, "status": 503}},
            {"match": first | {"sequenceIndex": 1}, "response": {"content": words}} | cut,
            {"match": first | {"sequenceIndex": 2}, "response": {"content": words}},
        ]
    )
    async with session(protocol, server, tmp_path) as agent:
        end = await agent.run("hello")
        assert (end.reason, end.text) == ("completed", words)
    assert len(await server.journal()) == 3
