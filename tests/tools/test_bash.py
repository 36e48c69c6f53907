"""Bash, with real shells."""

import os
import re
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from tugline.ports import Confinement, Process, ToolContext, Workspace
from tugline.protocol.errors import ToolError
from tugline.protocol.ids import AgentId, CallId
from tugline.protocol.specs import AgentState, CommandSubject, Cwd, Display, Footprint, ModelCard, Progress, Result
from tugline.tools.builtin.bash import Bash
from tugline.workspaces.processes import run_process

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb"}


class Folder:
    """As much of a workspace as a shell needs."""

    def __init__(self, root: Path) -> None:
        self.roots = (str(root.resolve()),)
        self.pids: list[int] = []
        self.confined: list[Confinement | None] = []

    @asynccontextmanager
    async def process(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        confine: Confinement | None = None,
        **options: Any,
    ) -> AsyncIterator[Process]:
        self.confined.append(confine)
        spill = os.path.join(self.roots[0], "spill")
        async with run_process(argv, cwd=cwd, env={**ENV, **(env or {})}, spill_dir=spill, **options) as process:
            self.pids.append(process.pid)
            yield process


class Shell:
    """Calls one after the other, each with the directory that the former left."""

    def __init__(self, root: Path) -> None:
        self.tool = Bash()
        self.folder = Folder(root)
        self.cwd = self.folder.roots[0]
        self.reports: list[Progress] = []

    async def result(self, command: str, **options: object) -> Result:
        context = ToolContext(
            call=CallId("c1"),
            agent=AgentId("a1"),
            state=AgentState(cwd=self.cwd),
            workspace=cast(Workspace, self.folder),
            model=ModelCard(name="m"),
            report=self.reports.append,
        )
        result = await self.tool.run(self.tool.parse({"command": command, **options}), context)
        for change in result.changes:
            assert isinstance(change, Cwd)
            self.cwd = change.path
        return result

    async def __call__(self, command: str, **options: object) -> str:
        return cast(str, (await self.result(command, **options)).for_model)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_schema_offers_no_background_and_the_text_is_there() -> None:
    spec = Bash().spec
    assert list(spec.input_schema["properties"]) == ["command", "timeout", "description"]
    assert spec.input_schema["required"] == ["command"]
    assert "working directory persists" in spec.description


@pytest.mark.parametrize(
    ("command", "footprint"),
    [
        ("sleep 3", Footprint.NOTHING),
        ("sleep 0.2", Footprint.NOTHING),
        ("sleep $(rm -rf x)", Footprint.CHANGES),
        ("sleep 1; rm x", Footprint.CHANGES),
        ("sleep 1\nrm x", Footprint.CHANGES),
        ("ls", Footprint.READS),
        ("touch x", Footprint.CHANGES),
    ],
)
def test_the_footprint_follows_the_command(command: str, footprint: Footprint) -> None:
    tool = Bash(is_read_only=lambda text: text == "ls")
    assert tool.footprint(tool.parse({"command": command})) == footprint


def test_without_an_analysis_everything_but_sleep_changes() -> None:
    tool = Bash()
    assert tool.footprint(tool.parse({"command": "ls"})) == Footprint.CHANGES
    assert tool.subjects(tool.parse({"command": "ls -l"})) == (CommandSubject("ls -l"),)
    assert tool.title(tool.parse({"command": "ls -l\nrm \x1b[31mx"})) == "ls -l …"


@pytest.mark.parametrize("data", [{}, {"command": ""}, {"command": "ls", "timeout": 0}, {"command": "ls", "x": 1}])
def test_wrong_input_is_a_clear_error(data: dict[str, object]) -> None:
    with pytest.raises(ToolError):
        Bash().parse(data)


# -- results -------------------------------------------------------------------------------------------------------


async def test_a_command_that_prints_is_told_in_full(shell: Shell) -> None:
    assert await shell.result("echo hello; echo again >&2") == Result(
        "hello\nagain", Display("2 lines", "hello\nagain\n")
    )


async def test_silence_is_said(shell: Shell) -> None:
    assert await shell.result("true") == Result("(no output)", Display("No output"))


async def test_output_without_an_end_of_line(shell: Shell) -> None:
    assert await shell.result("printf hi") == Result("hi", Display("hi", "hi"))


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo out; exit 3", "out\n\n[exit code 3]"),
        ("false", "(no output)\n\n[exit code 1]"),
        ("kill -KILL $$", "(no output)\n\n[ended by signal 9, SIGKILL]"),
        ("set -e; false; echo never", "(no output)\n\n[exit code 1]"),
        ("true\nnosuchcommand", "bash: line 2: nosuchcommand: command not found\n\n[exit code 127]"),
        ("(exit 4)", "(no output)\n\n[exit code 4]"),
        ("exec false", "(no output)\n\n[exit code 1]"),
    ],
)
async def test_failures_are_errors_with_their_output_and_code(command: str, text: str, shell: Shell) -> None:
    result = await shell.result(command)
    assert (result.for_model, result.is_error, result.changes) == (text, True, ())


async def test_a_child_ended_by_a_signal_is_named(shell: Shell) -> None:
    assert "[exit code 143 (signal 15, SIGTERM)]" in await shell("bash -c 'kill $$'; exit $?")


@pytest.mark.parametrize(
    "command",
    [
        "grep nothing file",
        "cat file | grep -q nothing",
        "cd . && grep nothing file 2>&1",
        "true; diff file other",
        "[ a = b ]",
        "test -e nothing",
        "X=1 grep nothing file > found",
    ],
)
async def test_no_as_an_answer_is_no_error(command: str, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\n")
    (tmp_path / "other").write_text("b\n")
    result = await shell.result(command)
    assert (result.is_error, "[exit code 1]" in str(result.for_model)) == (False, True)


@pytest.mark.parametrize(
    "command",
    [
        "false && grep a file",
        "grep a nofile",
        "grep a file | false",
        "grep x file\nfalse",
        "false # grep",
        "grep a file || false",
    ],
)
async def test_other_failures_beside_grep_are_errors(command: str, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("b\n")
    assert (await shell.result(command)).is_error


async def test_a_syntax_error_names_itself_after_what_ran_before_it(shell: Shell) -> None:
    result = await shell.result("echo first\nif\necho second")
    text = str(result.for_model)
    assert result.is_error
    assert text.startswith("first\n")
    assert "syntax error" in text
    assert "second" not in text.replace("second'", "")
    assert "TUGLINE" not in text


@pytest.mark.parametrize("command", ["echo 'abc", 'echo "abc', "echo $(ls", "echo `ls", "{ ls", "( ls", "case x in"])
async def test_what_is_not_closed_cannot_swallow_anything_of_ours(command: str, shell: Shell) -> None:
    result = await shell.result(command, timeout=5000)
    assert result.is_error
    assert "exit code" in str(result.for_model)
    assert "pwd" not in str(result.for_model)


@pytest.mark.parametrize("command", ["}; echo out", ") ; echo out", '"; echo out', "' ; echo out", "\\", "$1", "EOF"])
async def test_text_that_tries_to_break_out_stays_data(command: str, shell: Shell) -> None:
    text = str((await shell.result(command, timeout=5000)).for_model)
    assert not re.search(r"^out$", text, re.MULTILINE)


async def test_heredocs_and_many_lines_behave_as_in_a_script(shell: Shell) -> None:
    command = (
        "x=1\ncat <<EOF\nvalue $x $((1+1))\nEOF\ncat <<'EOF'\nraw $x\nEOF\nfor i in 1 2\ndo echo $i\ndone # done\n"
    )
    assert await shell(command) == "value 1 2\nraw $x\n1\n2"


async def test_the_command_sees_no_arguments_and_no_name_of_ours(shell: Shell) -> None:
    assert await shell('echo "$# $0 [$*]"; env | grep -c TUGLINE_REPORT; ls /proc/$$/fd | wc -w') != ""
    text = await shell('echo "$# $0 [$*]"; env | grep -c TUGLINE_REPORT')
    assert text == "0 bash []\n0\n\n[exit code 1]"


async def test_a_child_does_not_inherit_the_report(shell: Shell) -> None:
    text = await shell("ls -l /proc/self/fd | grep -c pipe")
    assert text == "2"  # stdout into grep, stderr to us


async def test_a_command_of_200_kb_runs(shell: Shell, tmp_path: Path) -> None:
    words = "é" * 100_000
    result = await shell.result(f"printf %s '{words}' > big; wc -m < big")
    assert (result.for_model, (tmp_path / "big").read_text()) == ("100000", words)


async def test_a_command_beyond_the_systems_limit_is_refused_clearly(shell: Shell) -> None:
    with pytest.raises(ToolError, match="longer than this system allows"):
        await shell("true " + "x" * 3_000_000)


async def test_a_command_with_nul_is_refused_clearly(shell: Shell) -> None:
    with pytest.raises(ToolError, match="cannot be started"):
        await shell("echo a\0b")


# -- state ---------------------------------------------------------------------------------------------------------


async def test_the_working_directory_persists(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "a b" / "c").mkdir(parents=True)
    result = await shell.result("cd 'a b'")
    assert result == Result("(no output)", Display("No output"), changes=(Cwd(str(tmp_path / "a b")),))
    assert await shell("pwd; cd c") == str(tmp_path / "a b")
    assert await shell("pwd; (cd ..)") == str(tmp_path / "a b" / "c")
    assert await shell("pwd") == str(tmp_path / "a b" / "c")


@pytest.mark.parametrize(
    "ending",
    [
        "exit 0",
        "exit 3",
        "set -e; false",
        "set -euxo pipefail; true",
        "false",
        "trap 'echo bye' EXIT",
        "exec 3>&-",
        "nosuch",
    ],
)
async def test_the_directory_is_kept_however_the_command_ends(ending: str, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    await shell(f"cd sub; {ending}")
    assert shell.cwd == str(tmp_path / "sub")


async def test_a_name_with_a_line_end_is_a_directory_too(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "a\nb").mkdir()
    await shell("cd a*")
    assert shell.cwd == str(tmp_path / "a\nb")


async def test_exec_leaves_the_directory_as_it_was(shell: Shell, tmp_path: Path) -> None:
    assert await shell("cd /; exec echo hi") == "hi"
    assert shell.cwd == str(tmp_path)


async def test_leaving_the_allowed_directories_resets(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    await shell("cd sub")
    text = await shell("cd /usr; pwd")
    assert text == f"/usr\n\n[/usr is outside the allowed directories: working directory reset to {tmp_path}]"
    assert shell.cwd == str(tmp_path)


async def test_a_neighbour_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj-evil").mkdir()
    shell = Shell(tmp_path / "proj")
    assert "outside the allowed directories" in await shell("cd ../proj-evil")


async def test_a_link_that_leads_out_is_seen_through(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/usr")
    assert "[/usr is outside" in await shell("cd out")


async def test_a_directory_that_is_gone_stops_the_command_and_is_replaced(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    await shell("cd sub")
    (tmp_path / "sub").rmdir()
    result = await shell.result("touch made")
    assert result.is_error
    assert "does not exist any more" in str(result.for_model)
    assert not (tmp_path / "made").exists()
    assert await shell("pwd") == str(tmp_path)


async def test_functions_variables_and_options_do_not_leak_into_the_next_call(shell: Shell) -> None:
    await shell("f() { echo leak; }; export X=leak; alias a=leak; set -e; shopt -s nullglob; umask 0")
    assert await shell('f 2>/dev/null; echo "[$X]"; false; echo no*such') == "[]\nno*such"


async def test_what_a_command_traces_shows_nothing_of_the_wrapper(shell: Shell) -> None:
    assert await shell("set -x; echo hi") == "++ echo hi\nhi"


# -- time ----------------------------------------------------------------------------------------------------------


async def test_a_timeout_is_an_error_with_what_came_so_far(shell: Shell) -> None:
    result = await shell.result("echo begun; sleep 100", timeout=200)
    assert result == Result(
        "begun\n\n[timed out after 0.2 s; the command and all that it started were ended]",
        Display("Timed out", "begun\n"),
        is_error=True,
    )


async def test_a_prompt_that_waits_is_named(shell: Shell) -> None:
    text = await shell("printf 'ok\\nOverwrite file? [y/N] '; sleep 100", timeout=200)
    assert "waited for an answer to 'Overwrite file? [y/N]'" in text
    text = await shell("read -rp 'Password: ' x < <(sleep 100)", timeout=300)
    assert "Password" not in text or "waited" in text


async def test_reading_from_standard_input_ends_at_once(shell: Shell) -> None:
    assert await shell("cat; read -r x; echo $?", timeout=500_000) == "1"


async def test_there_is_no_terminal_to_steal(shell: Shell) -> None:
    assert "No such device" in await shell("echo x > /dev/tty")


async def test_progress_comes_each_second_after_the_second_one(shell: Shell) -> None:
    await shell("for i in 1 2 3 4 5 6 7; do echo line $i; sleep 0.5; done")
    assert [round(report.elapsed) for report in shell.reports][:2] == [2, 3]
    assert shell.reports[0].text.splitlines()[:2] == ["line 1", "line 2"]
    assert shell.reports[0].lines in (3, 4, 5)
    assert shell.reports[0].bytes == 7 * shell.reports[0].lines


async def test_an_interrupt_ends_the_command(shell: Shell) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(shell.result, "sleep 100 & sleep 100")
        with anyio.fail_after(5):
            while not shell.folder.pids:
                await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    found = subprocess.run(["ps", "-o", "stat=", "-s", str(shell.folder.pids[0])], capture_output=True, text=True)
    assert [state for state in found.stdout.split() if not state.startswith("Z")] == []


async def test_ten_at_once_do_not_disturb_each_other(shell: Shell) -> None:
    texts: dict[int, str] = {}

    async def call(n: int) -> None:
        texts[n] = await shell(f"sleep 0.1; echo {n}")

    async with anyio.create_task_group() as group:
        for n in range(10):
            group.start_soon(call, n)
    assert texts == {n: str(n) for n in range(10)}


async def test_the_background_is_refused_by_running_in_the_foreground(shell: Shell) -> None:
    text = await shell("echo hi", run_in_background=True)
    assert text == "hi\n\n[ran in the foreground: commands in the background are not available here]"


# -- output --------------------------------------------------------------------------------------------------------


async def test_long_output_is_cut_in_the_middle_and_kept_whole_in_a_file(shell: Shell) -> None:
    text = await shell("seq 1 100000")
    assert len(text) <= shell.tool.result_limit
    found = re.search(r"\[(\d+) bytes left out of 588895 bytes in 100000 lines; all of it is in (\S+), to be", text)
    assert found is not None
    assert int(found[1]) == 588_895 - 28_000
    assert Path(found[2]).read_text().splitlines() == [str(n) for n in range(1, 100_001)]
    assert text.startswith("1\n2\n")
    assert text.endswith("99999\n100000")


async def test_binary_output_is_a_note(shell: Shell) -> None:
    text = await shell("head -c 5000 /bin/ls")
    assert text == "[5000 bytes of binary output are not shown; redirect it to a file to keep it]"


async def test_a_few_odd_bytes_are_shown(shell: Shell) -> None:
    assert await shell(r"printf 'a\0b\0\xff'") == "a␀b␀�"


async def test_control_sequences_reach_no_person(shell: Shell) -> None:
    result = await shell.result(r"printf '\033[31mred\033[0m \033]0;title\007 \b\r\n10%%\r20%%\r100%%\n'")
    assert result.for_person == Display("2 lines", "red  \\x08\n100%\n")
