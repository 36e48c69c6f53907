"""The parts of a headless run: exit codes, notices, the story, stdin, the writer."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tugline.cli.ansi import Palette
from tugline.cli.children import descendants
from tugline.cli.debug import report_defect
from tugline.cli.headless.ending import exit_code
from tugline.cli.headless.notices import Notices
from tugline.cli.headless.output import Output, OutputFailed, OutputGone
from tugline.cli.headless.prompt import read_piped, read_prompt
from tugline.cli.story import Story
from tugline.observe.debug_log import DebugLog
from tugline.protocol.blocks import Text, ToolUse
from tugline.protocol.errors import Failure, UsageError
from tugline.protocol.events import (
    BlockFinished,
    CallFinished,
    CallStarted,
    Crashed,
    ModelChanged,
    Notice,
    Origin,
    ReplyFinished,
    RetryWaiting,
    Tombstone,
    TurnFinished,
)
from tugline.protocol.ids import AgentId, CallId, MessageId, ReplyId, SessionId
from tugline.protocol.messages import Assistant
from tugline.protocol.specs import Display, Footprint
from tugline.protocol.usage import Spend

AT: dict[str, Any] = {"seq": 1, "origin": Origin(SessionId("s"), AgentId("main"))}
R = ReplyId("r")


def ended(reason: Any, **fields: Any) -> TurnFinished:
    given: dict[str, Any] = {"text": "", "steps": 1, "spend": Spend(), "models": {}, "total_cost_usd": 0.0}
    return TurnFinished(**AT, reason=reason, duration=1.0, api_duration=1.0, **(given | fields))


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (ended("completed"), 0),
        (ended("hook_stopped"), 0),
        (ended("max_steps"), 1),
        (ended("refused", failure=Failure("refusal", "no")), 1),
        (ended("api_error", failure=Failure("authentication", "no")), 1),
        (ended("api_error", failure=Failure("billing", "no")), 1),
        (ended("api_error", failure=Failure("overloaded", "no")), 75),
        (ended("api_error", failure=Failure("rate_limit", "no")), 75),
        (ended("api_error", failure=Failure("network", "no", retryable=True)), 75),
        (ended("api_error", failure=Failure("network", "a certificate that is not trusted")), 1),
        (ended("api_error", failure=Failure("timeout", "no")), 75),
        (ended("api_error", failure=Failure("stream_broken", "no")), 75),
        (ended("failed"), 1),
        (ended("interrupted"), 1),
    ],
)
def test_an_ending_has_its_exit_code(event: TurnFinished, code: int) -> None:
    assert exit_code(event) == code


def test_notices_are_single_clean_lines_said_once() -> None:
    notices = Notices()
    note = Notice(**AT, level="warning", text="odd\x1b[2J\nthing")
    assert notices.take(note) == "tugline: warning: odd thing\n"
    assert notices.take(note) == ""
    assert notices.take(ModelChanged(**AT, before="a", after="b", reason="overloaded")) == (
        "tugline: b answers instead of a: overloaded\n"
    )
    crash = Crashed(**AT, where="tool X", error="KeyError: 1", traceback="Traceback …")
    assert "Traceback" not in notices.take(crash)
    assert "Traceback" in Notices(debug=True).take(crash)


def call(name: str, title: str) -> CallStarted:
    return CallStarted(**AT, call=CallId(name), tool=title.split()[0], input={}, title=title, footprint=Footprint.READS)


def done(name: str, tool: str, display: Display, *, error: bool = False) -> CallFinished:
    return CallFinished(**AT, call=CallId(name), tool=tool, is_error=error, display=display, duration=0.1)


def block(item: Any) -> BlockFinished:
    return BlockFinished(**AT, reply=R, index=0, block=item)


def tell(*events: Any, on: bool = False) -> str:
    story = Story(Palette(on), 40)
    return "".join(story.take(event) for event in events)


def test_the_story_tells_calls_that_run_side_by_side_by_their_titles() -> None:
    assert tell(
        block(Text("I look.")), block(ToolUse(CallId("a"), "Read", {})),
        call("a", "Read a.py"), call("b", "Read b.py"),
        done("b", "Read", Display("3 lines")), done("a", "Read", Display("9 lines")),
        call("c", "Grep x"), done("c", "Grep", Display("no match")),
        done("d", "Nope", Display("unknown tool"), error=True),
    ) == (
        "\nI look.\n● Read a.py\n● Read b.py\n  └ 3 lines\n  └ Read a.py: 9 lines\n● Grep x\n  └ no match\n"
        "  └ Nope: unknown tool\n"
    )  # fmt: skip


def test_the_story_leaves_the_answer_and_void_words_out() -> None:
    answer = ReplyFinished(**AT, message=Assistant(MessageId("m"), (Text("Answer."),)))
    assert tell(block(Text("Answer.")), answer) == ""
    assert tell(block(Text("Void.")), Tombstone(**AT, reply=R, reason="x"), call("a", "Read a")) == "● Read a\n"


def test_the_story_shows_diffs_in_colour_and_long_ones_in_part() -> None:
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-    old\n+    new\x1b[0m\n" + "".join(f" {n}\n" for n in range(30))
    told = tell(call("a", "Edit a"), done("a", "Edit", Display("+1 -1 lines", diff, "diff")), on=True)
    assert "\x1b[31m    -    old\x1b[0m\n\x1b[32m    +    new\x1b[0m\n" in told
    assert "… 17 lines more" in told
    assert "--- a" not in told


def test_the_story_cuts_what_is_wider_than_the_window() -> None:
    told = tell(
        call("a", "Bash " + "x" * 300), done("a", "Bash", Display("y" * 300, "\n".join("z" * 90 for _ in range(9)))),
        RetryWaiting(**AT, failure=Failure("overloaded", "Overloaded. " * 20), attempt=1, limit=3, delay=2.0),
    )  # fmt: skip
    assert max(map(len, told.split("\n"))) <= 42
    assert told.count("z…") == 6


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            pass


def feed(pipe: tuple[int, int], data: bytes) -> int:
    def write() -> None:
        os.write(pipe[1], data)
        os.close(pipe[1])

    threading.Thread(target=write).start()
    return pipe[0]


def test_stdin_stands_below_the_prompt(pipe: tuple[int, int]) -> None:
    assert read_prompt("Sum up:", fd=feed(pipe, b"\xef\xbb\xbfone\n")) == (Text("Sum up:"), Text("one\n"))


def test_stdin_alone_is_the_prompt(pipe: tuple[int, int]) -> None:
    assert read_prompt(None, fd=feed(pipe, "grüß\x1b[1m".encode())) == (Text("grüß\x1b[1m"),)


def test_a_terminal_is_never_waited_for() -> None:
    import pty

    parent, child = pty.openpty()
    try:
        assert read_piped(child, optional=False) == ""
    finally:
        os.close(parent)
        os.close(child)


def test_a_socket_that_says_nothing_is_left_alone_where_there_is_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr("tugline.cli.headless.prompt.PATIENCE", 0.01)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert read_prompt("Go", fd=ours.fileno()) == (Text("Go"),)


@pytest.mark.parametrize("data", [b"", b" \n"])
def test_an_empty_prompt_is_wrong_usage(pipe: tuple[int, int], data: bytes) -> None:
    with pytest.raises(UsageError, match="no prompt"):
        read_prompt(" ", fd=feed(pipe, data))


async def test_the_writer_waits_for_its_reader_and_not_the_loop(pipe: tuple[int, int]) -> None:
    output = Output(pipe[1])
    output.buffer += bytes(range(256)) * 2_000
    expected = bytes(output.buffer)
    drain = asyncio.create_task(output.drain())
    await asyncio.sleep(0)
    seen = b""
    while len(seen) < len(expected):
        seen += os.read(pipe[0], 10_000)
        await asyncio.sleep(0)  # the loop is free although the pipe is full
    await drain
    assert seen == expected
    assert not output.buffer


async def test_the_writer_says_when_nobody_reads_or_nothing_fits(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    output = Output(pipe[1])
    output.buffer += b"x"
    with pytest.raises(OutputGone):
        await output.drain()
    with open("/dev/full", "wb", buffering=0) as full:
        failing = Output(full.fileno())
        failing.buffer += b"x"
        with pytest.raises(OutputFailed, match="No space left"):
            await failing.drain()


async def test_the_writer_writes_to_files(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb", buffering=0) as file:
        output = Output(file.fileno())
        output.buffer += b"x" * 10_000
        await output.drain()
        output.buffer += b"end"
        output.drain_now()
    assert (tmp_path / "out").read_bytes() == b"x" * 10_000 + b"end"


async def test_descendants_are_found_through_generations() -> None:
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        "setsid bash -c 'echo; exec sleep 60' & wait",
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    assert len(descendants(process.pid)) == 1
    assert process.pid in descendants(os.getpid())
    for pid in [process.pid, *descendants(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    await process.communicate()


def test_a_defect_is_one_line_and_a_traceback_only_for_those_who_ask(tmp_path: Path) -> None:
    said: list[str] = []
    log = DebugLog(str(tmp_path / "debug.log"))
    try:
        raise KeyError("which")
    except KeyError as error:
        report_defect(error, debug=False, log=None, tell=said.append)
        report_defect(error, debug=True, log=log, tell=said.append)
    log.close()
    assert said[0] == "tugline: A defect in tugline: KeyError: 'which'; run again with --debug.\n"
    assert said[1].startswith("Traceback")
    assert "KeyError" in (tmp_path / "debug.log").read_text()
