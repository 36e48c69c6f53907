"""Real processes: what they print, how they end, and that nothing of them stays."""

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from living import alive

from tugline.ports import Output, Process, ProcessEnd, WorkspaceError
from tugline.workspaces.processes import run_process

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


async def shell(script: str, cwd: Path, **options: object) -> tuple[ProcessEnd, Output]:
    async with run_process(["bash", "-c", script], cwd=str(cwd), env=ENV, **options) as process:  # type: ignore[arg-type]
        end = await process.wait()
        return end, process.output()


def our_zombies() -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] == b"Z" and int(fields[1]) == os.getpid():
                found.append(int(name))
    return found


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.005)


async def test_both_streams_are_one_in_the_order_of_writing(tmp_path: Path) -> None:
    end, output = await shell("echo out; echo err >&2; echo out again", tmp_path)
    assert end == ProcessEnd(status=0)
    assert output == Output(head="out\nerr\nout again\n", tail="", size=18, lines=3)


async def test_the_exit_code_is_told(tmp_path: Path) -> None:
    end, _ = await shell("exit 3", tmp_path)
    assert end == ProcessEnd(status=3)


async def test_a_signal_is_told_as_a_negative_status(tmp_path: Path) -> None:
    end, _ = await shell("kill -KILL $$", tmp_path)
    assert end == ProcessEnd(status=-signal.SIGKILL)


async def test_standard_input_is_empty(tmp_path: Path) -> None:
    end, output = await shell("cat; read x; echo $?", tmp_path, timeout=5)
    assert (end.status, output.head) == (0, "1\n")


async def test_standard_input_holds_the_bytes_given(tmp_path: Path) -> None:
    data = b"\x00\xff" * 200_000
    end, output = await shell("cksum", tmp_path, stdin=data, timeout=5)
    want = subprocess.run(["cksum"], input=data, capture_output=True, check=True).stdout.decode()
    assert (end.status, output.head) == (0, want)


async def test_it_runs_in_the_folder_and_with_nothing_but_the_environment_given(tmp_path: Path) -> None:
    async with run_process(["env"], cwd=str(tmp_path), env={"PATH": ENV["PATH"], "A": "1"}) as process:
        await process.wait()
    names = {line.partition("=")[0] for line in process.output().head.splitlines()}
    assert names == {"PATH", "A", "TUGLINE_LINEAGE"}
    _, output = await shell("pwd -P", tmp_path)
    assert output.head == f"{tmp_path.resolve()}\n"


async def test_it_inherits_no_other_descriptor(tmp_path: Path) -> None:
    with open(tmp_path / "secret", "w") as file:
        os.set_inheritable(file.fileno(), True)
        _, output = await shell("ls /proc/self/fd", tmp_path)
    assert output.head.split() == ["0", "1", "2", "3"]  # the last is the folder that ls reads


async def test_the_report_comes_through_a_descriptor_of_its_own(tmp_path: Path) -> None:
    end, output = await shell('echo seen; echo told >&"$TUGLINE_REPORT"; exit 4', tmp_path, report=True)
    assert end == ProcessEnd(status=4, report=b"told\n")
    assert output.head == "seen\n"


async def test_a_report_that_never_ends_is_cut_and_blocks_nobody(tmp_path: Path) -> None:
    end, _ = await shell('head -c 1000000 /dev/zero >&"$TUGLINE_REPORT"', tmp_path, report=True, timeout=10)
    assert end == ProcessEnd(status=0, report=bytes(64 * 1024))


@pytest.mark.parametrize(
    ("argv", "cwd", "kind"),
    [
        (["no-such-program-here"], ".", "missing"),
        (["true"], "not/there", "gone"),
        (["/"], ".", "denied"),
        (["echo", "a\0b"], ".", "invalid"),
        (["echo", "x" * 3_000_000], ".", "invalid"),
    ],
)
async def test_what_cannot_be_started_is_a_clear_error(argv: list[str], cwd: str, kind: str, tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(WorkspaceError) as caught:
        async with run_process(argv, cwd=str(tmp_path / cwd), env=ENV, stdin=b"x", report=True):
            pass
    assert caught.value.kind == kind
    assert "\n" not in str(caught.value)
    assert set(os.listdir("/proc/self/fd")) == before


# -- what holds the pipe, what stays behind ------------------------------------------------------------------------


async def test_a_background_child_that_holds_the_pipe_is_not_waited_for_and_is_ended(tmp_path: Path) -> None:
    end, output = await shell("sleep 1000 & echo $!", tmp_path)
    assert end.status == 0
    assert not alive(int(output.head))


async def test_a_daemon_in_a_session_of_its_own_is_found_and_ended(tmp_path: Path) -> None:
    script = "setsid bash -c 'echo $$ > pid; exec sleep 100' >/dev/null 2>&1 & until [ -s pid ]; do sleep 0.01; done"
    end, _ = await shell(script, tmp_path)
    assert end.status == 0
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_a_daemon_that_ignores_term_is_killed(tmp_path: Path) -> None:
    script = (
        "setsid bash -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.05; done' >/dev/null 2>&1 & "
        "until [ -s pid ]; do sleep 0.01; done"
    )
    await shell(script, tmp_path)
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_a_double_forked_daemon_is_ended_too(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "open('pid.new', 'w').write(str(os.getpid())); os.rename('pid.new', 'pid')\n"
        "time.sleep(100)\n"
    )
    (tmp_path / "daemon.py").write_text(program)
    await shell("python3 daemon.py >/dev/null 2>&1; until [ -e pid ]; do sleep 0.01; done", tmp_path)
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_a_stopped_process_is_ended(tmp_path: Path) -> None:
    async with run_process(["bash", "-c", "kill -STOP $$"], cwd=str(tmp_path), env=ENV) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        await until(lambda: stat.read_bytes().rpartition(b")")[2].split()[0] == b"T")
    assert not alive(process.pid)


async def test_orphans_that_become_our_children_are_reaped(tmp_path: Path) -> None:
    program = (
        "import asyncio, ctypes, os, sys\n"
        "from pathlib import Path\n"
        "from tugline.workspaces.processes import run_process\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
        "async def main():\n"
        "    for script in ('sleep 100 & setsid sleep 100 &', '(sleep 0.01 &); sleep 0.1'):\n"
        "        async with run_process(['bash', '-c', script], cwd='.', env=dict(os.environ)) as process:\n"
        "            await process.wait()\n"
        "    children = Path(f'/proc/self/task/{os.getpid()}/children').read_text()\n"
        "    print('children:', children.split())\n"
        "asyncio.run(main())\n"
    )
    end, output = await shell(f'exec "{sys.executable}" -c "{program}"', tmp_path, timeout=20)
    assert (end.status, output.head) == (0, "children: []\n")


async def test_another_process_of_ours_is_left_alone(tmp_path: Path) -> None:
    async with run_process(["sleep", "100"], cwd=str(tmp_path), env=ENV) as other:
        await shell("sleep 100 & setsid sleep 100 &", tmp_path)
        assert alive(other.pid)


# -- time, cancellation --------------------------------------------------------------------------------------------


async def test_a_timeout_ends_the_whole_group_and_keeps_the_output(tmp_path: Path) -> None:
    end, output = await shell("echo begun; (echo $BASHPID > pid; sleep 1000); sleep 1000", tmp_path, timeout=0.3)
    assert end == ProcessEnd(status=-signal.SIGTERM, timed_out=True)
    assert output.head == "begun\n"
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_what_ignores_term_is_killed_after_it_had_time_to_tidy_up(tmp_path: Path) -> None:
    script = "trap 'echo no; sleep 0.5; echo tidy' TERM; echo $$; while :; do sleep 0.05; done"
    end, output = await shell(script, tmp_path, timeout=1.0)
    assert end == ProcessEnd(status=-signal.SIGKILL, timed_out=True)
    assert output.head.splitlines()[-2:] == ["no", "tidy"]
    assert not alive(int(output.head.split()[0]))


async def test_the_timeout_holds_though_nobody_waits(tmp_path: Path) -> None:
    async with run_process(["sleep", "100"], cwd=str(tmp_path), env=ENV, timeout=0.05) as process:
        await until(lambda: not alive(process.pid))
        assert await process.wait() == ProcessEnd(status=-signal.SIGTERM, timed_out=True)


async def test_leaving_early_ends_it(tmp_path: Path) -> None:
    async with run_process(["sleep", "100"], cwd=str(tmp_path), env=ENV) as process:
        assert alive(process.pid)
    assert not alive(process.pid)


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.01, 0.1])
async def test_cancellation_at_any_moment_leaves_nothing(delay: float, tmp_path: Path) -> None:
    pids: list[int] = []
    before = set(os.listdir("/proc/self/fd"))

    async def run() -> None:
        script = "sleep 100 & sleep 100 | sleep 100"
        async with run_process(["bash", "-c", script], cwd=str(tmp_path), env=ENV, report=True) as process:
            pids.append(process.pid)
            await process.wait()

    task = asyncio.create_task(run())
    await until(lambda: bool(pids))
    await anyio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sessions_of(pids[0]) == []
    assert our_zombies() == []
    assert set(os.listdir("/proc/self/fd")) == before


def sessions_of(leader: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(leader)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in found.splitlines() if "Z" not in line.split()[1]]


async def test_a_second_cancellation_does_not_cut_the_clean_up_short(tmp_path: Path) -> None:
    started = anyio.Event()
    pids: list[int] = []

    async def run() -> None:
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        async with run_process(
            ["bash", "-c", script], cwd=str(tmp_path), env=ENV, on_output=lambda _: started.set()
        ) as process:
            pids.append(process.pid)
            await process.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await started.wait()
        group.cancel_scope.cancel()
    assert not alive(pids[0])


async def test_a_task_that_is_cancelled_again_and_again_leaves_nothing_either(tmp_path: Path) -> None:
    started = anyio.Event()
    pids: list[int] = []

    async def run() -> None:
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        async with run_process(
            ["bash", "-c", script], cwd=str(tmp_path), env=ENV, on_output=lambda _: started.set()
        ) as process:
            pids.append(process.pid)
            await process.wait()

    task = asyncio.create_task(run())
    await started.wait()
    for _ in range(3):
        task.cancel()
        await anyio.lowlevel.checkpoint()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not alive(pids[0]) and our_zombies() == [])


async def test_many_run_at_once(tmp_path: Path) -> None:
    results: dict[int, tuple[ProcessEnd, Output]] = {}
    all_run = "until [ $(ls running.* | wc -l) = 30 ]; do sleep 0.02; done"

    async def run(n: int) -> None:
        results[n] = await shell(f"touch running.{n}; {all_run}; echo {n}; exit {n}", tmp_path)

    async with anyio.create_task_group() as group:
        for n in range(30):
            group.start_soon(run, n)
    assert {n: (end.status, output.head) for n, (end, output) in results.items()} == {
        n: (n, f"{n}\n") for n in range(30)
    }
    assert our_zombies() == []


async def test_waiting_twice_gives_the_same_end(tmp_path: Path) -> None:
    async with run_process(["bash", "-c", "exit 5"], cwd=str(tmp_path), env=ENV) as process:
        ends: list[ProcessEnd] = []

        async def wait() -> None:
            ends.append(await process.wait())

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            group.start_soon(wait)
    assert ends == [ProcessEnd(status=5)] * 2


async def test_without_descriptors_for_processes_the_exit_is_still_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    end, output = await shell("echo there; exit 2", tmp_path)
    assert (end, output.head) == (ProcessEnd(status=2), "there\n")


# -- output --------------------------------------------------------------------------------------------------------


async def test_long_output_keeps_both_ends_and_all_of_it_in_a_private_file(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    _, output = await shell("seq 100000", tmp_path, spill_dir=str(spill), keep=100)
    whole = "".join(f"{n}\n" for n in range(1, 100_001))
    assert output.spill is not None
    assert output == Output(
        head=whole[:100], tail=whole[-100:], size=len(whole), lines=100_000, spill=output.spill, whole=False
    )
    assert Path(output.spill).read_text() == whole
    assert Path(output.spill).stat().st_mode & 0o777 == 0o600
    assert spill.stat().st_mode & 0o777 == 0o700


async def test_short_output_makes_no_file(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    _, output = await shell("printf '%200s' x", tmp_path, spill_dir=str(spill), keep=100)
    assert output == Output(head=" " * 100, tail=" " * 99 + "x", size=200, lines=1)
    assert not spill.exists()


async def test_where_no_file_can_be_made_the_ends_are_still_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _, output = await shell("seq 1000", tmp_path, spill_dir=str(tmp_path / "file" / "x"), keep=10)
    assert output == Output(head="1\n2\n3\n4\n5\n", tail="\n999\n1000\n", size=3893, lines=1000, whole=False)


async def test_odd_bytes_are_replaced_and_nul_is_kept(tmp_path: Path) -> None:
    _, output = await shell(r"printf 'a\xffb\0c\xe2\x82'", tmp_path)
    assert output.head == "a�b\0c�"


async def test_a_character_that_comes_in_two_pieces_is_one(tmp_path: Path) -> None:
    told: list[str] = []
    script = r"printf 'x\xe2\x82'; until [ -e go ]; do sleep 0.01; done; printf '\xac'"

    def on_output(output: Output) -> None:
        told.append(output.head)
        (tmp_path / "go").touch()

    _, output = await shell(script, tmp_path, on_output=on_output)
    assert told[0] == "x"
    assert output.head == "x€"


async def test_a_flood_is_drained_in_little_memory_and_then_ended(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    # One run first, so that what the interpreter needs once does not count.
    await shell("head -c 1000000 /dev/zero", tmp_path, spill_dir=str(spill))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    end, output = await shell("yes", tmp_path, spill_dir=str(spill), timeout=60)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 8 * 1024
    assert (end.flooded, end.timed_out) == (True, False)
    assert output.size > 1024**3
    assert (output.head, output.tail) == ("y\n" * 7_500, "y\n" * 7_500)
    assert output.spill is not None
    assert Path(output.spill).stat().st_size == 64 * 1024 * 1024


async def test_other_work_goes_on_during_a_flood(tmp_path: Path) -> None:
    ticks = 0
    async with run_process(["yes"], cwd=str(tmp_path), env=ENV) as process:
        while process.output().size < 50_000_000:
            await anyio.lowlevel.checkpoint()
            ticks += 1
    assert ticks > 100


async def test_news_come_ten_times_a_second_at_most(tmp_path: Path) -> None:
    told: list[int] = []
    await shell("for i in $(seq 50); do echo $i; sleep 0.005; done", tmp_path, on_output=lambda o: told.append(o.size))
    assert 2 <= len(told) <= 15
    assert told == sorted(told)


def test_process_is_what_the_port_says(tmp_path: Path) -> None:
    async def run() -> Process:
        async with run_process(["true"], cwd=str(tmp_path), env=ENV) as process:
            await process.wait()
            return process

    assert asyncio.run(run()).pid > 0
