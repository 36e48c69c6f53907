"""The real process, ended or failed at each write of its transcript in turn: nothing that was told is lost, no tool
runs twice, and every session can be gone on with."""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command import Desk, Ended, assert_clean

from tugline.testing import Match, ModelServer, call, reply

FAULTY = str(Path(__file__).parent.parent / "kit" / "faulty_disk.py")
STREAM = ["-p", "--output-format", "stream-json", "--verbose", "--allowed-tools", "Bash,Write"]
WRITES = 48
"""More than the run has; a run that comes to its end is the last one."""
SHARES = 4

SCRIPT = [
    reply("I look.", call("Read", file_path="a.txt"), call("Bash", command="echo one >> marks")),
    reply("I write.", call("Write", file_path="b.txt", content="b\n"), call("Bash", command="cat marks")),
    reply("All done."),
]


def desk_at(folder: Path) -> Desk:
    for name in ("work", "home"):
        (folder / name).mkdir(parents=True)
    (folder / "work" / "a.txt").write_text("the text of a\n")
    return Desk(
        folder,
        {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TUGLINE_HOME": str(folder / "state"),
            "ANTHROPIC_API_KEY": "sk-ant-canary-0123456789abcdef",
        },
    )


async def on_faulty_disk(desk: Desk, what: str, number: int, server: ModelServer) -> Ended:
    process = await desk.start(
        what, str(number), *STREAM, "Do it", program=[sys.executable, "-P", FAULTY],
        env={"ANTHROPIC_BASE_URL": server.url},
    )  # fmt: skip
    return await desk.end(process)


async def gone_on_with(desk: Desk) -> tuple[Ended, list[Any]]:
    """The session resumed by an ordinary process: how that ended, and the messages that the model was sent."""
    async with ModelServer([reply("Resumed.")], lenient=True) as server:
        ended = await desk.run("-c", *STREAM, "Go on", env={"ANTHROPIC_BASE_URL": server.url})
        assert server.problems == []
        return ended, server.bodies[0]["messages"] if server.bodies else []


def told(ended: Ended) -> list[dict[str, Any]]:
    """The blocks that the first process told of, as far as its last line is whole."""
    lines = [json.loads(line) for line in ended.out.splitlines(keepends=True) if line.endswith("\n")]
    return [block for line in lines if line["type"] in ("assistant", "user") for block in line["message"]["content"]]


def assert_nothing_lost(first: Ended, messages: list[Any], desk: Desk) -> None:
    sent = [block for message in messages for block in message["content"] if isinstance(block, dict)]
    uses = {block["id"]: block for block in sent if block["type"] == "tool_use"}
    results = {block["tool_use_id"]: json.dumps(block["content"]) for block in sent if block["type"] == "tool_result"}
    words = "\n".join(block["text"] for block in sent if block["type"] == "text")
    for block in told(first):
        if block["type"] == "text":
            assert block["text"] in words
        elif block["type"] == "tool_use":
            assert block["id"] in uses
        elif block["type"] == "tool_result":
            assert json.dumps(block["content"])[1:40] in results[block["tool_use_id"]]
    if first.out:
        assert "Do it" in words
    assert "Go on" in words
    marks = desk.cwd / "marks"
    if marks.exists():
        assert marks.read_text() == "one\n"  # not run again
        told_of = [results[key] for key, use in uses.items() if use["input"].get("command") == "echo one >> marks"]
        assert len(told_of) == 1
        assert "was not run" not in told_of[0]


async def check(folder: Path, what: str, number: int) -> Ended:
    desk = desk_at(folder)
    async with ModelServer(SCRIPT, lenient=True) as server:
        first = await on_faulty_disk(desk, what, number, server)
    await assert_gone_on_with(desk, first)
    return first


async def assert_gone_on_with(desk: Desk, first: Ended) -> None:
    """The session that a process left behind goes on with all that was told; or nothing was told, and there is none."""
    second, messages = await gone_on_with(desk)
    if second.code != 0:
        assert_clean(second)
        assert "There is no session" in second.err or "is empty" in second.err, second.err
        assert first.out == ""
        return
    assert second.result["result"] == "Resumed."
    assert_nothing_lost(first, messages, desk)
    for records in desk.transcripts():
        numbers = [record["n"] for record in records]
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("what", ["before", "half", "after"])
@pytest.mark.parametrize("share", range(SHARES))
async def test_a_process_killed_at_any_write_is_gone_on_with(what: str, share: int, tmp_path: Path) -> None:
    killed = 0
    for number in range(1 + share, WRITES, SHARES):
        first = await check(tmp_path / str(number), what, number)
        if first.code == 0:
            break
        assert first.code == -signal.SIGKILL
        killed += 1
    else:
        pytest.fail("the run has more writes than were tried")
    assert killed >= 4


@pytest.mark.parametrize("what", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("share", range(SHARES))
async def test_a_write_that_fails_at_any_point_is_told_and_loses_nothing(what: str, share: int, tmp_path: Path) -> None:
    for number in range(1 + share, WRITES, SHARES):
        first = await check(tmp_path / str(number), what, number)
        if first.code != 0:
            assert_clean(first)
            assert "cannot be recorded" in first.err


@pytest.mark.soak
async def test_a_process_killed_at_random_moments_is_gone_on_with(tmp_path: Path) -> None:
    for number in range(250):
        await check(tmp_path / str(number), random.choice(["before", "half", "after"]), random.randrange(1, WRITES))


@pytest.mark.soak
async def test_a_process_killed_at_a_thousand_instants_is_gone_on_with(tmp_path: Path) -> None:
    """Not at writes, but at any instant of its life, as measured at a run that was left alone."""
    loop = asyncio.get_running_loop()
    desk = desk_at(tmp_path / "whole")
    began = loop.time()
    async with ModelServer(SCRIPT, lenient=True) as server:
        assert (await desk.run(*STREAM, "Do it", env={"ANTHROPIC_BASE_URL": server.url})).code == 0
    life = loop.time() - began
    killed = 0
    for number in range(1_000):
        desk = desk_at(tmp_path / str(number))
        async with ModelServer(SCRIPT, lenient=True) as server:
            process = await desk.start(*STREAM, "Do it", env={"ANTHROPIC_BASE_URL": server.url})
            loop.call_later(random.uniform(0, life), kill, process)
            first = await desk.end(process)
        killed += first.code == -signal.SIGKILL
        await assert_gone_on_with(desk, first)
        shutil.rmtree(tmp_path / str(number))
    assert killed > 500


def kill(process: asyncio.subprocess.Process) -> None:
    """As the kernel does it, without a word; it may be over already."""
    with suppress(ProcessLookupError):
        process.kill()


# -- while the conversation is compacted

AROUND = range(9, 15)
"""The writes from the results before a compaction to the reply behind it."""
SMALL = ["--settings", '{"compaction": {"threshold": 6000, "trim": false}}']
COMPACTED = [
    reply("I look.", call("Read", file_path="big.txt")),
    reply("<summary>The big file was read; it has nothing but words that fill it.</summary>",
          when=Match(last="has become too long"), repeat=None),
    reply("All done."),
]  # fmt: skip


async def check_compaction(folder: Path, what: str, number: int) -> tuple[Ended, bool]:
    """Ended or failed at that write, and gone on with: nothing that was recorded is lost, and the model is sent either
    the whole history or the summary."""
    desk = desk_at(folder)
    (desk.cwd / "big.txt").write_text("words that fill a file\n" * 800)
    async with ModelServer(COMPACTED, lenient=True) as server:
        process = await desk.start(
            what, str(number), *STREAM, *SMALL, "Do it", program=[sys.executable, "-P", FAULTY],
            env={"ANTHROPIC_BASE_URL": server.url},
        )  # fmt: skip
        first = await desk.end(process)
        assert server.problems == []
    second, messages = await gone_on_with(desk)
    if second.code != 0:
        assert first.out == ""
        return first, False
    sent = json.dumps(messages)
    assert "Go on" in sent
    assert ("Do it" in sent) or not first.out
    compacted = "nothing but words that fill it" in sent
    assert compacted != ("I look." in sent and "I look." in first.out) or "I look." not in first.out
    (records,) = desk.transcripts()
    kept = json.dumps(records)
    assert ("I look." in kept) or "I look." not in first.out
    assert compacted == any(record["kind"] == "compacted" for record in records)
    return first, compacted


@pytest.mark.parametrize("what", ["half", "after"])
async def test_a_process_killed_at_any_write_of_a_compaction_is_gone_on_with(what: str, tmp_path: Path) -> None:
    outcomes = []
    for number in AROUND:
        first, compacted = await check_compaction(tmp_path / str(number), what, number)
        assert first.code == -signal.SIGKILL
        outcomes.append(compacted)
    assert (outcomes[0], outcomes[-1]) == (False, True)  # the compaction's own writes are among those that were tried
    assert outcomes == sorted(outcomes)


async def test_a_compaction_on_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    for number in AROUND:
        first, _ = await check_compaction(tmp_path / str(number), "ENOSPC", number)
        if first.code != 0:
            assert "cannot be recorded" in first.err
