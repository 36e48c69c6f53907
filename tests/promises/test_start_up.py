"""What a start imports, counted rather than timed: times depend on the machine, modules do not."""

import os
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from tugline.testing import ModelServer, Step, call, reply

ROOT = Path(__file__).parents[2]

CLIENTS = {"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "requests", "urllib3", "h11", "anthropic", "openai"}
"""HTTP is spoken by `tugline.net` alone."""
HEAVY = {
    "pydantic", "mcp", "acp", "textual", "rich", "prompt_toolkit", "click", "PIL", "pypdf", "markdownify", "bs4",
    "jsonschema", "yaml", "orjson", "sqlite3", "apsw", "email", "xml", "multiprocessing", "unittest", "pytest",
    "pygments", "opentelemetry", "uvicorn", "starlette",
}  # fmt: skip
"""Imported when something needs them."""
NEVER = CLIENTS | HEAVY
STANDARD = {
    "asyncio",
    "ssl",
    "json",
    "argparse",
    "subprocess",
    "inspect",
    "dataclasses",
    "logging",
    "socket",
    "pathlib",
}
"""Costs of the standard library that `--version` does not pay."""


def names(importtime: str) -> set[str]:
    """The modules in what `python -X importtime` wrote."""
    lines = [line for line in importtime.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def tops(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def imported(*argv: str, cwd: Path, environ: dict[str, str] | None = None) -> set[str]:
    """All that a run of Python imports, beyond what a bare one does."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *argv],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean({**os.environ, "TUGLINE_HOME": str(cwd / "home"), **(environ or {})}),
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return names(done.stderr) - bare()


def bare() -> set[str]:
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", ""], capture_output=True, text=True, timeout=60)
    return names(done.stderr)


def clean(environ: dict[str, str]) -> dict[str, str]:
    """Without what loads further modules into any Python."""
    return {name: value for name, value in environ.items() if not name.startswith(("COVERAGE", "COV_", "PYTHON"))}


async def imported_by_run(script: list[Step], cwd: Path, *argv: str) -> set[str]:
    """What `tugline -p` imports on its way through a script."""
    async with ModelServer(script) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "scripted"}
        words = ("-m", "tugline", "-p", "Go", *argv)
        return await anyio.to_thread.run_sync(lambda: imported(*words, cwd=cwd, environ=environ))


def test_importing_the_package_imports_next_to_nothing(tmp_path: Path) -> None:
    modules = imported("-c", "import tugline", cwd=tmp_path)
    assert tops(modules) & (NEVER | STANDARD | {"anyio", "msgspec", "httptools"}) == set()
    assert {name for name in modules if name.startswith("tugline.")} <= {"tugline.version"}
    assert len(modules) < 40


@pytest.mark.parametrize("flag", ["--version", "-v", "--help", "-h"])
def test_a_flag_that_only_prints_imports_next_to_nothing(flag: str, tmp_path: Path) -> None:
    modules = imported("-m", "tugline", flag, cwd=tmp_path)
    assert tops(modules) & (NEVER | STANDARD | {"anyio", "msgspec", "httptools"}) == set()
    assert len(modules) < 45


async def test_a_run_imports_no_other_client_and_nothing_heavy(tmp_path: Path) -> None:
    modules = await imported_by_run([reply("Hello.")], tmp_path)
    assert tops(modules) & (NEVER | {"tree_sitter", "tree_sitter_bash", "argparse"}) == set()
    assert len(modules) < 445


async def test_tools_that_read_and_write_import_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a line\n")
    script = [
        reply(call("Read", file_path="note.txt"), call("Glob", pattern="*.txt"), call("Grep", pattern="line")),
        reply(call("Edit", file_path="note.txt", old_string="a line", new_string="another line")),
        reply("Done."),
    ]
    modules = await imported_by_run(script, tmp_path, "--permission-mode", "acceptEdits")
    assert (tmp_path / "note.txt").read_text() == "another line\n"
    assert tops(modules) & (NEVER | {"tree_sitter", "tree_sitter_bash"}) == set()
    assert len(modules) < 460


async def test_events_as_json_lines_import_nothing_heavy(tmp_path: Path) -> None:
    modules = await imported_by_run([reply("Hello.")], tmp_path, "--output-format", "stream-json", "--verbose")
    assert tops(modules) & (NEVER | {"tree_sitter", "tree_sitter_bash"}) == set()


async def test_a_shell_command_brings_its_parser_and_no_more(tmp_path: Path) -> None:
    modules = await imported_by_run([reply(call("Bash", command="true")), reply("Done.")], tmp_path)
    assert tops(modules) & NEVER == set()
    assert "tree_sitter" in modules


def test_the_bench_runs() -> None:
    argv = [sys.executable, "-m", "bench", "--rounds", "1", "--part", "command", "--only", "v,a"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=clean(dict(os.environ)), timeout=100)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| (")]
    assert [row.count("ms CPU") for row in rows] == [2, 1], done.stdout


def test_the_bench_has_routine_commands_to_decide_on() -> None:
    argv = [sys.executable, "-c", "from bench.cases import routine_commands; print(len(routine_commands()))"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=clean(dict(os.environ)), timeout=100)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_the_library_is_benched_through_all_of_a_long_run() -> None:
    argv = [sys.executable, "-c", RUN_ONE]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, env=clean(dict(os.environ)), timeout=100)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"cpu", "first", "growth", "memory", "process_cpu", "wall"}


RUN_ONE = """
from bench.__main__ import LIBRARY_CASES, library_run
print(*library_run(LIBRARY_CASES[1], "tugline"))
"""
