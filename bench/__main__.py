"""`make bench`: the workloads of the specification, for library and command, with the floors in the same run.

Rounds alternate between the subjects; the table shows medians. `python -m bench --help` lists the options.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.server import DELTAS, STEPS

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "tugline"]
LIBRARY_SUBJECTS = ("tugline", "aiohttp", "httpx")

CASES: list[tuple[str, str, str, tuple[str, ...], dict[str, str]]] = [
    ("a", "cold start to the first request byte", "hello", LIBRARY_SUBJECTS, {}),
    ("b", f"{STEPS} steps, one trivial call each", "steps", LIBRARY_SUBJECTS, {}),
    ("c", "the same with 4 KB per result", "steps-4k", LIBRARY_SUBJECTS, {}),
    ("d", "ten calls of 200 ms in one message", "ten", LIBRARY_SUBJECTS, {}),
    ("d2", "the same, their blocks 100 ms apart", "ten-apart", LIBRARY_SUBJECTS, {}),
    ("e", f"a reply of {DELTAS} deltas", "burst", LIBRARY_SUBJECTS, {}),
    ("f", "100 agents x 10 steps in one process", "agents", LIBRARY_SUBJECTS, {}),
    ("f2", "1000 agents x 10 steps in one process", "agents", ("tugline", "aiohttp"), {"AGENTS": "1000"}),
]

COMMANDS: list[tuple[str, str, str, list[str]]] = [
    ("v", "tugline --version", "", ["--version"]),
    ("h", "tugline --help", "", ["--help"]),
    ("a", "tugline -p, cold start to the first request byte", "hello", ["-p", "Hi"]),
    ("b", f"tugline -p, {STEPS} steps with Read", "steps-read", ["-p", "Go"]),
    ("b2", f"tugline -p, {STEPS} steps with a shell command", "steps-shell", ["-p", "Go"]),
    (
        "e",
        f"tugline -p, {DELTAS} deltas as stream-json",
        "burst",
        ["-p", "Go", "--output-format", "stream-json", "--include-partial-messages", "--verbose"],
    ),
]


class Server:
    """A bench server in a process of its own."""

    def __init__(self, workload: str) -> None:
        argv = [sys.executable, "-m", "bench.server", workload]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def first_request(self) -> float:
        """When the first byte of a request arrived, by the wall clock."""
        assert self.process.stdout is not None
        return float(self.process.stdout.readline().split()[1])

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def run(argv: list[str], workload: str, environ: dict[str, str], cwd: str) -> dict[str, Any]:
    """One process, measured from outside: wall, CPU of it and its children, peak memory, first request."""
    server = Server(workload) if workload else None
    url = server.url if server else ""
    environ = {**os.environ, **environ, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        began = time.time()
        process = subprocess.Popen(
            [part.replace("URL", url) for part in argv],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            env={**environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if status:
            raise SystemExit(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
        found: dict[str, Any] = {
            "wall": time.time() - began,
            "process_cpu": usage.ru_utime + usage.ru_stime,
            "memory": usage.ru_maxrss / 1024,
        }
        if server is not None:
            found["first"] = server.first_request() - began
        if output.startswith(b'{"cpu"') or output.strip() == b"{}":
            found |= json.loads(output)
        return found
    finally:
        if server is not None:
            server.stop()


def median(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """The medians of what all rounds measured."""
    return {key: statistics.median(round_[key] for round_ in rounds) for key in rounds[0]}


def figures(case: str, found: dict[str, float]) -> str:
    """What the table shows of a case."""
    memory = f"{found['memory']:.0f} MB"
    if case == "a":
        return f"{found['first'] * 1e3:.0f} ms, {found['process_cpu'] * 1e3:.0f} ms CPU, {memory}"
    cpu = found.get("cpu", found["process_cpu"])
    if case in ("b", "b2", "c"):
        growth = f", growth {found['growth']:.1f}x" if "growth" in found else ""
        return f"{cpu / STEPS * 1e3:.2f} ms CPU per step{growth}, {memory}"
    if case == "d":
        return f"{(found['wall'] - 0.2) * 1e3:.0f} ms over the ideal"
    if case == "d2":
        return f"{(found['wall'] - 1.1) * 1e3:.0f} ms over the ideal (1.1 s)"
    if case == "e":
        return f"{cpu / DELTAS * 1e6:.1f} µs CPU per delta, {memory}"
    if case in ("f", "f2"):
        return f"{cpu:.2f} s CPU, {found['wall']:.2f} s, {memory}"
    return f"{found['process_cpu'] * 1e3:.0f} ms CPU"


def library(wanted: set[str], rounds: int) -> list[tuple[str, ...]]:
    """The rows of the library."""
    rows: list[tuple[str, ...]] = []
    for case, title, workload, subjects, environ in CASES:
        if wanted and case not in wanted:
            continue
        found: dict[str, list[dict[str, Any]]] = {subject: [] for subject in subjects}
        for _ in range(rounds):
            for subject in subjects:
                argv = [sys.executable, "-m", "bench.cases", subject, workload, "URL"]
                found[subject].append(run(argv, workload, environ, str(ROOT)))
        cells = [figures(case, median(found[subject])) if subject in found else "" for subject in LIBRARY_SUBJECTS]
        rows.append((f"({case}) {title}", *cells))
        print(" | ".join(rows[-1]), file=sys.stderr)
    return rows


def command(wanted: set[str], rounds: int) -> list[tuple[str, ...]]:
    """The rows of the command; peers that are on the PATH run beside it."""
    rows: list[tuple[str, ...]] = []
    for case, title, workload, arguments in COMMANDS:
        if wanted and case not in wanted:
            continue
        found: list[dict[str, Any]] = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "note.txt").write_text("a line\n" * 20)
                found.append(run([*COMMAND, *arguments], workload, {"TUGLINE_HOME": f"{folder}/home"}, folder))
        rows.append((f"({case}) {title}", figures(case, median(found))))
        print(" | ".join(rows[-1]), file=sys.stderr)
    return rows


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Rows as Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def conditions() -> str:
    """Where and with what it was measured."""
    packages = []
    for name in ("msgspec", "anyio", "httptools", "aiohttp", "httpx2", "orjson"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            packages.append(f"{name} missing")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{time.strftime('%Y-%m-%d')}, {platform.platform()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {load} at the end; {', '.join(packages)}"
    )


def main() -> None:
    """Run what was asked for and print the tables."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds per case (default: 5)")
    parser.add_argument("--only", default="", help="cases, e.g. a,b,e")
    parser.add_argument("--part", choices=("library", "command"), help="only this part")
    parser.add_argument("--output", help="also write the tables to this file")
    options = parser.parse_args()
    wanted = {case for case in options.only.split(",") if case}
    for path in (ROOT / "bench", ROOT / "src"):
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(path)], check=False)
    parts = [f"Medians of {options.rounds} alternating rounds."]
    if options.part != "command":
        head = ("library", "tugline", "floor aiohttp", "floor httpx")
        parts.append(table(head, library(wanted, options.rounds)))
    if options.part != "library":
        parts.append(table(("command", "tugline"), command(wanted, options.rounds)))
    parts.append(conditions())
    report = "\n\n".join(parts)
    print(report)
    if options.output:
        Path(options.output).write_text(report + "\n")


if __name__ == "__main__":
    main()
