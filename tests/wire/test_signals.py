"""Signals, closed descriptors and readers that go away."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from command import TUGLINE, Desk, Ended, assert_clean
from living import alive

from tugline.testing import ModelServer, call, gate, reply

pytest_plugins = ["wire_desk"]

Serve = Callable[..., Awaitable[ModelServer]]

STUBBORN = "trap '' TERM INT; echo $BASHPID > pid; while :; do sleep 1; done"
STREAM = ("-p", "Go", "--output-format", "stream-json")


async def until_written(path: Path) -> str:
    """The text of a file that a tool writes, as soon as there is any."""
    async with asyncio.timeout(20):
        while not (path.exists() and path.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
    return path.read_text().strip()


def hears(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for the signal."""
    caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
async def test_a_signal_during_a_reply_ends_with_one_result(
    desk: Desk, serve: Serve, number: signal.Signals, code: int
) -> None:
    server = await serve([reply("The beginning", gate("middle"), "and the end.")])
    process = await desk.start(*STREAM)
    await server.reached("middle")
    process.send_signal(number)
    ended = await desk.end(process, limit=4)
    assert_clean(ended)
    assert (ended.code, ended.result["subtype"]) == (code, "error_during_execution")
    assert ended.result["terminal_reason"] == "aborted_streaming"
    (records,) = desk.transcripts()
    assert [record["kind"] for record in records][-1] == "turn_ended"


@pytest.mark.parametrize(("number", "code"), SIGNALS)
async def test_a_signal_during_a_tool_takes_its_children_along_and_answers_the_call(
    desk: Desk, serve: Serve, number: signal.Signals, code: int
) -> None:
    (desk.cwd / "stubborn.sh").write_text(f"({STUBBORN}) & wait\n")
    await serve([reply("Running.", call("Bash", command="bash stubborn.sh"))])
    process = await desk.start(*STREAM, "--allowed-tools", "Bash")
    child = int(await until_written(desk.cwd / "pid"))
    process.send_signal(number)
    ended = await desk.end(process, limit=20)
    assert not alive(child)
    assert ended.code == code
    kinds = [line["type"] for line in ended.lines]
    assert kinds == ["system", "assistant", "user", "result"]
    assert ended.result["terminal_reason"] == "aborted_tools"


async def test_what_runs_under_nohup_outlives_its_terminal(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("The beginning ", gate("middle"), "and the end.")])
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which is all that nohup does
    try:
        process = await desk.start("-p", "Go")
    finally:
        signal.signal(signal.SIGHUP, before)
    await server.reached("middle")
    process.send_signal(signal.SIGHUP)
    server.open("middle")
    ended = await desk.end(process)
    assert (ended.code, ended.out) == (0, "The beginning and the end.\n")


async def test_a_second_sigint_ends_at_once_and_leaves_no_child(desk: Desk, serve: Serve) -> None:
    (desk.cwd / "stubborn.sh").write_text(STUBBORN)
    await serve([reply("Running.", call("Bash", command="bash stubborn.sh"))])
    process = await desk.start(*STREAM, "--allowed-tools", "Bash")
    child = int(await until_written(desk.cwd / "pid"))
    ending = asyncio.create_task(desk.end(process, limit=20))
    while process.returncode is None:  # one alone asks for a tidy end, which takes 2 s here
        process.send_signal(signal.SIGINT)
        await asyncio.sleep(0.1)
    ended = await ending
    async with asyncio.timeout(20):
        while alive(child):
            await asyncio.sleep(0.01)
    assert (ended.code, ended.result["is_error"]) == (130, True)
    (records,) = desk.transcripts()
    assert records[-1]["kind"] == "started"  # a tidy end would have recorded how the turn ended


async def signal_until_over(process: asyncio.subprocess.Process, number: signal.Signals, pause: float) -> None:
    """Again and again; not through `process`, which would take the end away from the loop that waits for it."""
    while process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        await asyncio.sleep(pause)


HIDING = "env -i setsid bash -c 'echo $$ > pid; exec sleep 60' > log 2>&1 & until [ -s pid ]; do :; done\n"


async def test_what_a_command_leaves_behind_ends_with_the_run_however_it_hides(desk: Desk, serve: Serve) -> None:
    (desk.cwd / "hiding.sh").write_text(HIDING)
    await serve([reply(call("Bash", command="bash hiding.sh")), reply("Done.")])
    process = await desk.start(
        *("Go", "--allowed-tools", "Bash"),
        program=("bash", "-c", 'sleep 60 > log 2>&1 & echo $! > other; exec "$0" -p "$@"', TUGLINE),
    )
    ended = await desk.end(process)
    hidden, other = (int((desk.cwd / name).read_text()) for name in ("pid", "other"))
    is_other_alive = alive(other)
    os.kill(other, signal.SIGKILL)
    assert (ended.code, ended.out, alive(hidden)) == (0, "Done.\n", False)
    assert is_other_alive  # what was there before is none of ours


async def test_a_second_sigint_finds_what_hides(desk: Desk, serve: Serve) -> None:
    (desk.cwd / "hiding.sh").write_text(HIDING + "trap '' TERM INT; while :; do sleep 1; done")
    await serve([reply(call("Bash", command="bash hiding.sh"))])
    process = await desk.start(*STREAM, "--allowed-tools", "Bash")
    hidden = int(await until_written(desk.cwd / "pid"))
    ending = asyncio.create_task(desk.end(process, limit=20))
    await signal_until_over(process, signal.SIGINT, 0.05)
    ended = await ending
    assert (ended.code, ended.result["is_error"]) == (130, True)
    async with asyncio.timeout(20):
        while alive(hidden):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
async def test_signals_that_come_again_do_not_change_how_it_ends(
    desk: Desk, serve: Serve, number: signal.Signals, code: int
) -> None:
    server = await serve([reply("The beginning", gate("middle"), "and the end.")])
    process = await desk.start(*STREAM)
    await server.reached("middle")
    ending = asyncio.create_task(desk.end(process, limit=20))
    await signal_until_over(process, number, 0.002)
    ended = await ending
    assert (ended.code, ended.result["is_error"]) == (code, True)


EARLY = """
import _thread, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where what runs in the background ignores it
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "tugline.cli.start":
            _thread.interrupt_main()
sys.meta_path.insert(0, Interrupting())
sys.argv = ["tugline", "-p", "x"]
from tugline.__main__ import main
sys.exit(main())
"""


async def test_an_interrupt_while_it_still_starts_has_no_traceback(desk: Desk) -> None:
    ended = await desk.end(await desk.start(program=(sys.executable, "-c", EARLY)))
    assert (ended.code, ended.out, ended.err) == (130, "", "")


async def test_a_signal_before_anything_is_there_ends_quietly(desk: Desk) -> None:
    process = await desk.start("-p", stdin=asyncio.subprocess.PIPE)
    async with asyncio.timeout(20):
        while not hears(process.pid, signal.SIGTERM):  # a signal any earlier meets Python's own start
            await asyncio.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert (await desk.end(process, limit=3)).code == 143


async def test_kill_9_leaves_a_transcript_that_can_be_read(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("One.", call("Bash", command="echo 1")), reply("Two", gate("middle"))])
    process = await desk.start(*STREAM)
    await server.reached("middle")
    process.kill()
    ended = await desk.end(process)
    assert ended.code == -signal.SIGKILL
    (records,) = desk.transcripts()
    kinds = [record["kind"] for record in records]
    assert [kind for kind in kinds if kind not in ("paid", "state_changed")] == [
        "opened", "said", "said", "started", "finished", "said",
    ]  # fmt: skip
    assert kinds.count("paid") == 1


async def test_a_reader_who_goes_away_ends_the_run_quietly(desk: Desk, serve: Serve) -> None:
    await serve([reply("a", call("Bash", command="echo 1"), repeat=500), reply("end")])
    ended = await desk.run(*STREAM, shell="| head -1; echo ${PIPESTATUS[0]}")
    first, code = ended.out.splitlines()
    assert json.loads(first)["subtype"] == "init"
    assert (code, ended.err) == ("141", "")


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["config", "show"], ["completion", "bash"]])
async def test_a_reader_who_is_gone_gets_no_traceback(desk: Desk, words: list[str]) -> None:
    ended = await desk.run(*words, shell="| true; echo ${PIPESTATUS[0]}")
    assert ended.err == ""
    assert ended.out.strip() in ("0", "141")


async def test_an_answer_on_a_full_disk_is_one_line(desk: Desk, serve: Serve) -> None:
    await serve([reply("Done."), reply("Done.")])
    for words in (["-p", "Go"], [*STREAM], ["--version"]):
        ended = await desk.run(*words, shell="> /dev/full")
        assert_clean(ended, lines=1)
        assert (ended.code, "No space left on device" in ended.err) == (1, True)


async def test_closed_descriptors_are_survived(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("Done."), reply("Done."), reply("Done.")])
    no_in = await desk.run("-p", "Go", shell="<&-")
    no_err = await desk.run("-p", "Go", shell="2>&-")
    no_out = await desk.run("-p", "Go", shell=">&-")
    neither = await desk.run("-p", "Go", shell="<&- >&- 2>&-")
    assert (no_in.code, no_in.out, no_in.err) == (0, "Done.\n", "")
    assert (no_err.code, no_err.out) == (0, "Done.\n")
    assert no_out == Ended(1, "", "tugline: stdout is closed, so no answer can be shown. Add: > /dev/null\n")
    assert neither == Ended(1, "", "")
    assert len(server.requests) == 2


async def test_a_closed_stdin_without_a_prompt_is_wrong_usage(desk: Desk) -> None:
    ended = await desk.run("-p", shell="<&-")
    assert_clean(ended, lines=1)
    assert ended.code == 2


async def test_a_tool_does_not_eat_our_stdin_nor_write_to_our_stdout(desk: Desk, serve: Serve) -> None:
    command = "cat; ls -l /proc/self/fd | wc -l; echo out >&2"
    await serve([reply(call("Bash", command=command)), reply("ok")])
    ended = await desk.run(*STREAM, "--allowed-tools", "Bash")
    assert ended.result["result"] == "ok"


async def test_a_reader_who_takes_his_time_gets_all_of_it(desk: Desk, serve: Serve) -> None:
    words = "word " * 40_000
    await serve([reply(words, chunk=5)])
    process = await desk.start(*STREAM, "--include-partial-messages")
    assert process.stdout is not None
    first = await process.stdout.readline()
    await asyncio.sleep(0.5)  # meanwhile the pipe is full
    rest = await process.stdout.read()
    await process.wait()
    await desk.end(process)
    lines = [json.loads(line) for line in (first + rest).decode().split("\n") if line]
    said = "".join(
        line["event"]["delta"]["text"] for line in lines if line.get("event", {}).get("type") == "content_block_delta"
    )
    assert said == words
    assert lines[-1]["result"] == words


async def on_terminal(desk: Desk, *words: str, **env: str) -> tuple[int, str]:
    """Run on a terminal; the exit code, and all that was seen."""
    import pty

    parent, child = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(TUGLINE, *words), stdin=child, stdout=child, stderr=child, cwd=desk.cwd,
        env={**desk.environ, "TERM": "xterm", **env}, start_new_session=True,
    )  # fmt: skip
    os.close(child)
    seen = b""
    while True:
        try:
            seen += await asyncio.to_thread(os.read, parent, 4096)
        except OSError:  # nobody has the other end any more
            break
    os.close(parent)
    return await process.wait(), seen.decode().replace("\r\n", "\n")


async def test_a_reader_who_has_stopped_reading_does_not_keep_a_signal_from_working(desk: Desk, serve: Serve) -> None:
    server = await serve([reply("word " * 60_000, gate("all said"), chunk=5)])
    reader, writer = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(TUGLINE, *STREAM, "--include-partial-messages"), stdin=asyncio.subprocess.DEVNULL, stdout=writer,
        cwd=desk.cwd, env=desk.environ,
    )  # fmt: skip
    os.close(writer)
    await server.reached("all said")
    process.send_signal(signal.SIGTERM)
    code = await asyncio.wait_for(process.wait(), 4)
    os.close(reader)
    assert code == 143
    (records,) = desk.transcripts()
    assert [record["kind"] for record in records][-1] == "turn_ended"


async def test_a_terminal_gets_progress_and_no_colour_where_none_is_wanted(desk: Desk, serve: Serve) -> None:
    steps = [reply("I look.", call("Bash", command="echo 1; echo 2")), reply("Done\x1b[2J.")]
    await serve(steps * 3)
    code, coloured = await on_terminal(desk, "-p", "Go")
    assert (code, "\x1b[1mBash\x1b[0m" in coloured, "Done.\n" in coloured, "\x1b[2J" in coloured) == (
        0,
        True,
        True,
        False,
    )
    for plain in (await on_terminal(desk, "-p", "Go", NO_COLOR="1"), await on_terminal(desk, "-p", "Go", TERM="dumb")):
        assert (plain[0], "\x1b" in plain[1], "Bash echo 1" in plain[1]) == (0, False, True)


async def test_an_app_for_the_terminal_is_not_there_yet(desk: Desk) -> None:
    code, said = await on_terminal(desk)
    assert (code, "tugline -p" in said, "tugline demo" in said) == (2, True, True)
    code, said = await on_terminal(desk, "dmeo")
    assert (code, "Did you mean demo?" in said) == (2, True)
