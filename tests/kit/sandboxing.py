"""A real sandbox over a folder, for tests; a named skip where this machine has none."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tugline.net.relay import Hosts
from tugline.ports import Confinement
from tugline.protocol.ids import CallId
from tugline.rules.hosts import HostPolicy, Target, read_policy
from tugline.workspaces.environment import child_environment
from tugline.workspaces.layout import Grounds
from tugline.workspaces.sandbox import Sandbox, SandboxWorkspace, find_bwrap


@lru_cache
def why_no_sandbox() -> str:
    """Why this machine cannot run bubblewrap; empty where it can. `make test` has installed it where that was
    possible."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap is for Linux"
    program = find_bwrap(os.environ.get("PATH", ""), ())
    if program is None:
        return "bubblewrap is not installed, and scripts/environment.sh installs system packages only as root"
    words = [
        program,
        "--unshare-all",
        "--unshare-user",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "true",
    ]
    tried = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    return "" if tried.returncode == 0 else f"bubblewrap does not work here: {tried.stderr.strip()}"


needs_sandbox = pytest.mark.skipif(bool(why_no_sandbox()), reason=why_no_sandbox())


class FixedHosts:
    """Hosts by a fixed policy; `answers` are a person's."""

    def __init__(self, *allowed: str, denied: tuple[str, ...] = (), answers: Mapping[str, bool] | None = None) -> None:
        self.policy: HostPolicy = read_policy(allowed, denied)
        self.asked: list[str] = []
        self._answers = dict(answers or {})

    async def ask(self, target: Target) -> bool:
        self.asked.append(str(target))
        return self._answers.get(target.host, False)


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    status: int
    text: str
    notes: tuple[str, ...]


class Cell:
    """A sandbox over the folder `work`, beside which `outside` and `home` lie."""

    def __init__(self, folder: Path, hosts: Hosts | None = None, **more: Any) -> None:
        self.folder = folder
        self.work, self.home, self.outside = (folder / name for name in ("work", "home", "outside"))
        for place in (self.work, self.home, self.outside):
            place.mkdir(exist_ok=True)
        unix_sockets = more.pop("unix_sockets", False)
        grounds = Grounds(roots=(str(self.work), *more.pop("roots", ())), home=str(self.home), **more)
        of_call = None if hosts is None else (lambda call: hosts)
        self.sandbox = Sandbox(
            grounds, above=str(folder / "state"), hosts=of_call, unix_sockets=unix_sockets, environ={}
        )
        self.workspace = SandboxWorkspace(
            grounds.roots,
            self.sandbox,
            spill_dir=str(folder / "spill"),
            environment=child_environment({**os.environ, "HOME": str(self.home)}),
        )

    async def run(self, command: str, *, read_only: bool = False, timeout: float = 30, **how: Any) -> Ran:
        """Run a line of bash inside."""
        confine = Confinement(CallId("call_1"), read_only=read_only)
        async with self.workspace.process(
            ["bash", "--noprofile", "--norc", "-c", command],
            cwd=how.pop("cwd", str(self.work)),
            timeout=timeout,
            confine=confine,
            **how,
        ) as process:
            end = await process.wait()
            return Ran(end.status, process.output().head, end.notes)

    async def python(self, program: str) -> Ran:
        """Run a Python program inside."""
        (self.work / "program.py").write_text(program)
        return await self.run(f"{sys.executable} -I program.py")


@asynccontextmanager
async def cell(folder: Path, hosts: Hosts | None = None, **more: Any) -> AsyncIterator[Cell]:
    """A sandbox, which must work, until the end."""
    made = Cell(folder, hosts, **more)
    condition = await made.sandbox.probe()
    assert condition.works, str(condition)
    try:
        yield made
    finally:
        await made.sandbox.aclose()
