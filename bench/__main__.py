"""`make bench`: the workloads of the specification, for library and command, with the floors in the same run.

Rounds alternate between the subjects; the table shows medians. `python -m bench --help` lists the options.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from bench import peers
from bench.measure import ROOT, Found, Server, median, run
from bench.server import DELTAS, STEPS

PLACE = re.compile(r"(?<=<!-- bench -->\n).*(?=<!-- /bench -->)", re.DOTALL)
"""Where a page keeps the tables."""

LIBRARY = ("tugline", "aiohttp", "httpx")


class Case(NamedTuple):
    """A row. `argv` is for the command only."""

    name: str
    title: str
    workload: str
    aim: str
    subjects: tuple[str, ...] = LIBRARY
    argv: tuple[str, ...] = ()
    environ: tuple[tuple[str, str], ...] = ()


LIBRARY_CASES = (
    Case("a", "cold start to the first request byte", "hello", "300 ms, 60 MB", (*LIBRARY, "pydantic-ai")),
    Case("b", f"{STEPS} steps, one trivial call each", "steps", "1.5 ms, growth 1.0x", (*LIBRARY, "pydantic-ai")),
    Case("c", "the same with 4 KB per result", "steps-4k", "3.5 ms"),
    Case("d", "ten calls of 200 ms in one message", "ten", "10 ms"),
    Case("d2", "the same, their blocks 100 ms apart", "ten-apart", "none waits for the end of the message"),
    Case("e", f"a reply of {DELTAS} deltas", "burst", "15 µs", (*LIBRARY, "pydantic-ai")),
    Case("f", "100 agents x 10 steps in one process", "agents", "1.5 s CPU, 2 s, 100 MB"),
    Case("g", "a permission decision on a routine command", "decisions", "1 ms, 5 ms at p99", LIBRARY[:1]),
    Case("i", "from an interrupt of a shell command to the prompt", "interrupts", "300 ms at p99", LIBRARY[:1]),
    Case("r", "resume of a compacted transcript of 100 MB", "resume", "1 s", LIBRARY[:1]),
    Case("r2", "the same, never compacted: all of it is read", "resume-whole", "2 s, 400 MB", LIBRARY[:1]),
    Case("f2", "1000 agents x 10 steps", "agents", "linear, 1 GB", LIBRARY[:2], environ=(("AGENTS", "1000"),)),
)
_STREAM = ("-p", "Go", "--output-format", "stream-json", "--include-partial-messages", "--verbose")
COMMAND_CASES = (
    Case("v", "`--version`", "", "60 ms CPU", ("tugline", "codex", "pi"), ("--version",)),
    Case("h", "`--help`", "", "60 ms CPU", ("tugline",), ("--help",)),
    Case(
        "a", "cold start to the first request byte", "hello", "0.8 of codex, 70 MB",
        ("tugline", "codex", "pi"), ("-p", "Go"),
    ),
    Case("b", f"{STEPS} steps with Read", "steps-read", "2 ms", ("tugline",), ("-p", "Go")),
    Case(
        "b2", f"{STEPS} steps with the shell command `true`", "steps-shell", "less than pi",
        ("tugline", "codex", "pi"), ("-p", "Go"),
    ),
    Case("e", f"{DELTAS} deltas, as JSON lines", "burst", "25 µs", ("tugline", "codex", "pi"), _STREAM),
)  # fmt: skip


def figures(case: str, found: Found) -> str:
    """What the table shows of a case."""
    memory = f"{found['memory']:.0f} MB"
    cpu = found.get("cpu", found["process_cpu"])
    if case == "a":
        return f"{found['first'] * 1e3:.0f} ms, {found['process_cpu'] * 1e3:.0f} ms CPU, {memory}"
    if case in ("b", "b2", "c"):
        growth = f", growth {found['growth']:.1f}x" if "growth" in found else ""
        return f"{cpu / STEPS * 1e3:.2f} ms CPU per step{growth}, {memory}"
    if case in ("d", "d2"):
        ideal = 0.2 if case == "d" else 1.1
        return f"{(found['wall'] - ideal) * 1e3:.0f} ms over the ideal {ideal} s"
    if case == "e":
        return f"{cpu / DELTAS * 1e6:.1f} µs CPU per delta, {memory}"
    if case == "g":
        return (
            f"{found['p50'] * 1e3:.2f} ms, {found['p99'] * 1e3:.2f} ms at p99, "
            f"{found['worst'] * 1e3:.0f} ms for the worst of 60 kB (parsing alone {found['floor'] * 1e3:.3f} ms)"
        )
    if case == "i":
        return (
            f"{found['p50'] * 1e3:.0f} ms, {found['p99'] * 1e3:.0f} ms at most (killing alone "
            f"{found['floor'] * 1e3:.0f} ms)"
        )
    if case in ("r", "r2"):
        return (
            f"{found['wall'] * 1e3:.0f} ms, {found['grown']:.0f} MB more (reading it as JSON alone "
            f"{found['floor'] * 1e3:.0f} ms)"
        )
    if case in ("f", "f2"):
        return f"{cpu:.2f} s CPU, {found['wall']:.2f} s, {memory}"
    return f"{cpu * 1e3:.0f} ms CPU, {found['wall'] * 1e3:.0f} ms"


def library_run(case: Case, subject: str) -> Found:
    """The library, a floor or a peer, once."""
    python = str(peers.PYTHON) if subject == "pydantic-ai" else sys.executable
    environ = {**dict(case.environ), **(peers.QUIET if subject == "pydantic-ai" else {})}
    return run([python, "-m", "bench.cases", subject, case.workload, "URL"], case.workload, environ, str(ROOT))


def command_run(case: Case, subject: str) -> Found:
    """The command or a peer, once, in a folder and with a home of its own."""
    with tempfile.TemporaryDirectory(dir=peers.FOLDER if subject in peers.MAKERS else None) as folder:
        work = Path(folder, "work")
        work.mkdir()
        (work / "note.txt").write_text("a line\n" * 20)
        if subject == "tugline":
            argv, environ = [sys.executable, "-m", "tugline", *case.argv], {"TUGLINE_HOME": f"{folder}/home"}
            return run(argv, case.workload, environ, str(work))
        make = peers.MAKERS[subject]
        workload = peers.WORKLOADS[subject][case.name]
        server = Server(workload) if workload else None
        peer = make(Path(folder, "home"), server.url if server else "")
        environ = {**peers.QUIET, **peers.NO_WAY_OUT, **peer.environ}
        return run([*peer.argv, *peers.arguments(subject, case.name)], workload, environ, str(work), server)


def rows(
    cases: tuple[Case, ...], columns: list[str], measure: Callable[[Case, str], Found], options: argparse.Namespace
) -> list[tuple[str, ...]]:
    """One row per case; in every other round the subjects run in the opposite order."""
    made: list[tuple[str, ...]] = []
    wanted = {name for name in options.only.split(",") if name}
    for case in cases:
        if wanted and case.name not in wanted:
            continue
        found: dict[str, list[Found]] = {name: [] for name in columns if name in case.subjects}
        for number in range(options.rounds):
            for subject in list(found) if number % 2 == 0 else reversed(found):
                found[subject].append(measure(case, subject))
        cells = [figures(case.name, median(found[name])) if name in found else "" for name in columns]
        made.append((f"({case.name}) {case.title}", cells[0], case.aim, *cells[1:]))
        print(" | ".join(made[-1]), file=sys.stderr)
    return made


def table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    """Rows as Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, tuple("---" for _ in head), *lines])


def conditions(load: float, with_peers: bool) -> str:
    """Where and with what it was measured."""
    packages = []
    for name in ("msgspec", "anyio", "httptools", "aiohttp", "httpx2", "orjson"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            packages.append(f"{name} missing")
    if with_peers:
        packages.append(peers.versions())
    return (
        f"{time.strftime('%Y-%m-%d')}, {platform.platform()}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {load:.1f} before and {os.getloadavg()[0]:.1f} after; {', '.join(packages)}."
    )


def read_options() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds per case (default: 5)")
    parser.add_argument("--only", default="", help="cases, e.g. a,b,e")
    parser.add_argument("--part", choices=("library", "command"), help="only this part")
    parser.add_argument("--peers", action="store_true", help="codex, pi and pydantic-ai too; installs them in .peers/")
    parser.add_argument("--output", help="also write the tables to this file, between its marks if it has them")
    return parser.parse_args()


def main() -> None:
    """Run what was asked for and print the tables."""
    options = read_options()
    if options.peers:
        peers.install()
    for path in (ROOT / "bench", ROOT / "src"):
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(path)], check=False)
    load = os.getloadavg()[0]
    parts = [f"Medians of {options.rounds} alternating rounds."]
    if options.part != "command":
        columns = [*LIBRARY, *(["pydantic-ai"] if options.peers else [])]
        head = ("library", "tugline", "aim", "floor aiohttp", "floor httpx", *columns[3:])
        parts.append(table(head, rows(LIBRARY_CASES, columns, library_run, options)))
    if options.part != "library":
        columns = ["tugline", *(peers.MAKERS if options.peers else [])]
        head = ("command", "tugline", "aim", *columns[1:])
        parts.append(table(head, rows(COMMAND_CASES, columns, command_run, options)))
    parts.append(conditions(load, options.peers))
    report = "\n\n".join(parts) + "\n"
    print(report)
    if options.output:
        page = Path(options.output)
        old = page.read_text() if page.exists() else ""
        page.write_text(PLACE.sub(lambda _: f"\n{report}\n", old) if PLACE.search(old) else report)


if __name__ == "__main__":
    main()
