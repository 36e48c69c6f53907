"""One process against one server, measured from outside."""

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from bench.server import expected

ROOT = Path(__file__).parent.parent
PATIENCE = 300.0
"""Seconds before a run counts as stuck."""

Found = dict[str, float]


class Server:
    """A bench server in a process of its own."""

    def __init__(self, workload: str) -> None:
        argv = [sys.executable, "-m", "bench.server", workload]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0, cwd=ROOT)
        assert self.process.stdout is not None
        self._pipe: IO[bytes] = self.process.stdout
        self.url = f"http://127.0.0.1:{int(self._pipe.readline())}"

    def first_request(self) -> float:
        """When the first byte of a request arrived, by the wall clock; `nan` if none came."""
        ready, _, _ = select.select([self._pipe], [], [], 0)
        return float(self._pipe.readline().split()[1]) if ready else float("nan")

    def stop(self) -> int:
        """End it; how many requests it answered."""
        self.process.send_signal(signal.SIGTERM)
        with self._pipe:
            served = self._pipe.read().split()
        self.process.wait()
        return int(served[-1]) if served else 0


def run(
    argv: Sequence[str], workload: str, environ: Mapping[str, str], cwd: str, server: Server | None = None
) -> Found:
    """One process: wall, CPU and peak memory, its children's included, and when its first request came.

    `URL` in `argv` stands for the server's address. Ends the bench if the process fails, is stuck, or did not make the
    requests that the workload has.
    """
    if server is None and workload:
        server = Server(workload)
    url = server.url if server else ""
    whole = {**os.environ, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "k", "PYTHONPATH": str(ROOT), **environ}
    whole.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        began = time.time()
        process = subprocess.Popen(
            [part.replace("URL", url) for part in argv],
            stdout=out,
            stderr=complaints,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            env=whole,
            start_new_session=True,
        )
        found, status = _end(process, began)
        out.seek(0)
        output = out.read()
        served = 0
        if server is not None:
            found["first"] = server.first_request() - began
            served = server.stop()
        wanted = expected(workload, int(whole.get("AGENTS", "100"))) if workload else 0
        if status or served < wanted:
            complaints.seek(0)
            print((output + complaints.read())[-2000:].decode(errors="replace"), file=sys.stderr)
            raise SystemExit(f"{' '.join(argv)}: status {status}, {served} requests of {wanted}")
    if output.startswith(b'{"cpu"'):
        found |= json.loads(output)
    return found


def _end(process: "subprocess.Popen[bytes]", began: float) -> tuple[Found, int]:
    """Wait for it, at most `PATIENCE` seconds; what it used, and how it ended."""
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    found = {
        "wall": time.time() - began,
        "process_cpu": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss / 1024,
    }
    return found, process.returncode


def median(rounds: list[Found]) -> Found:
    """The medians of what all rounds measured."""
    return {key: statistics.median(found[key] for found in rounds) for key in rounds[0]}
