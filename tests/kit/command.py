"""The real command as a process, and what came of it."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

TUGLINE = str(Path(sys.executable).parent / "tugline")


@dataclass(frozen=True)
class Ended:
    """A process that has ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def result(self) -> dict[str, Any]:
        """The one result line, which is the last line."""
        results = [line for line in self.lines if line["type"] == "result"]
        assert len(results) == 1, f"{len(results)} results"
        assert self.lines[-1] is not None
        assert self.lines[-1]["type"] == "result"
        return results[0]


@dataclass
class Desk:
    """Where the command is run: a folder, an environment of its own."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def cwd(self) -> Path:
        return self.folder / "work"

    async def start(
        self,
        *argv: str,
        shell: str = "",
        stdin: int | None = asyncio.subprocess.DEVNULL,
        env: Mapping[str, str] = {},
        program: Sequence[str] = (TUGLINE,),
    ) -> asyncio.subprocess.Process:
        """`shell` is the end of a line of bash that begins with the command, such as `<&-`."""
        words = [*program, *argv]
        if shell:
            words = ["bash", "-c", f'"$0" "$@" {shell}', *words]
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.cwd,
            env={**self.environ, **env},
            limit=1 << 26,
            start_new_session=True,
        )

    async def run(
        self, *argv: str, stdin: bytes | None = None, shell: str = "", env: Mapping[str, str] = {}, limit: float = 30
    ) -> Ended:
        """Run to the end, which comes within `limit` seconds."""
        source = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
        process = await self.start(*argv, shell=shell, stdin=source, env=env)
        return await self.end(process, stdin=stdin, limit=limit)

    async def end(self, process: asyncio.subprocess.Process, *, stdin: bytes | None = None, limit: float = 30) -> Ended:
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin), limit)
        except TimeoutError:
            process.kill()
            out, err = await process.communicate()
            pytest.fail(f"the command hangs\n{out.decode()[-2000:]}\n{err.decode()[-2000:]}")
        assert process.returncode is not None
        return Ended(process.returncode, out.decode(), err.decode())

    def transcripts(self) -> list[list[dict[str, Any]]]:
        """The records of every transcript; each line has to parse."""
        files = sorted((self.folder / "state").rglob("sessions/**/*.jsonl"))
        return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def assert_clean(ended: Ended, *, lines: int = 2) -> None:
    """What a person sees of a failure: one or two lines, no traceback."""
    assert "Traceback" not in ended.err
    assert 1 <= len(ended.err.strip().splitlines()) <= lines, ended.err
