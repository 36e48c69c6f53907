"""Whether a sandbox holds what it promises on this machine: one real command for each promise."""

import os
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import anyio
from msgspec import Struct

from tugline.ports import Confinement, WorkspaceError
from tugline.workspaces.bridge import interpreter
from tugline.workspaces.processes import run_process
from tugline.workspaces.sandbox import Sandbox

PATIENCE = 10.0
_ROUNDS = 7
_CONFINED = Confinement()


class Trial(Struct, frozen=True):
    """One promise, and whether it was kept; `detail` is what was seen."""

    name: str
    kept: bool
    detail: str = ""


async def try_out(sandbox: Sandbox, root: str, environment: Mapping[str, str], marker: str) -> list[Trial]:
    """All promises, one after the other. `root` is a folder that may be written, `marker` a file outside that may
    not, and that holds a text which the sandbox hides."""
    ways = _Ways(sandbox, root, environment)
    return [
        await ways.writes_inside(),
        await ways.holds("writes outside are refused", f'echo x > "{_quoted(marker)}.new"', f"{marker}.new"),
        await ways.hides(marker),
        await ways.no_network(),
        await ways.no_nesting(),
        await ways.child_ends(),
        await ways.proxy_answers(),
    ]


async def overhead(sandbox: Sandbox, root: str, environment: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds of a command without and with the sandbox: medians of a few alternating runs."""
    plain: list[float] = []
    held: list[float] = []
    argv = ["bash", "--noprofile", "--norc", "-c", ":"]
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        async with run_process(argv, cwd=root, env=environment, timeout=PATIENCE) as process:
            await process.wait()
        between = time.perf_counter()
        async with sandbox.start(argv, confine=_CONFINED, cwd=root, env=environment, timeout=PATIENCE) as process:
            await process.wait()
        plain.append(between - begun)
        held.append(time.perf_counter() - between)
    return statistics.median(plain) * 1000, statistics.median(held) * 1000


class _Ways:
    def __init__(self, sandbox: Sandbox, root: str, environment: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        self._root = root
        self._environment = environment

    async def _run(self, command: str) -> tuple[int, str]:
        argv = ["bash", "--noprofile", "--norc", "-c", command]
        try:
            async with self._sandbox.start(
                argv, confine=_CONFINED, cwd=self._root, env=self._environment, timeout=PATIENCE
            ) as process:
                end = await process.wait()
                return (-1 if end.timed_out else end.status), process.output().head.strip()
        except WorkspaceError as error:
            return -1, str(error)

    async def writes_inside(self) -> Trial:
        status, printed = await self._run("echo works > written && cat written && rm written")
        return Trial("writes in the working folder work", (status, printed) == (0, "works"), _line(printed))

    async def holds(self, name: str, command: str, place: str) -> Trial:
        _, printed = await self._run(command)
        return Trial(name, not os.path.exists(place), _line(printed))

    async def hides(self, marker: str) -> Trial:
        text = await anyio.Path(marker).read_text()
        _, printed = await self._run(f'cat "{_quoted(marker)}" "/proc/self/root{_quoted(marker)}" 2>&1; env')
        return Trial("hidden files cannot be read", bool(text) and text not in printed)

    async def no_network(self) -> Trial:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            status, printed = await self._run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
            server.setblocking(False)
            try:
                server.accept()[0].close()
            except BlockingIOError:
                return Trial("connections past the proxy are refused", status > 0, _line(printed))
        return Trial("connections past the proxy are refused", False, "a port of this machine was reached")

    async def no_nesting(self) -> Trial:
        status, printed = await self._run("unshare -Ur true 2>&1")
        return Trial("user namespaces inside are refused", status > 0, _line(printed))

    async def child_ends(self) -> Trial:
        mark = f"tugline-trial-{os.urandom(6).hex()}"
        await self._run(f"setsid nohup bash -c 'exec -a {mark} sleep 60' >/dev/null 2>&1 & sleep 0.05")
        alive = await anyio.to_thread.run_sync(lambda: _runs(mark))
        return Trial("what runs in the background ends with its command", not alive)

    async def proxy_answers(self) -> Trial:
        program = (
            "import socket; s = socket.create_connection(('127.0.0.1', 3128), 5); "
            "s.sendall(b'CONNECT tugline.invalid:443 HTTP/1.0\\r\\n\\r\\n'); print(s.recv(20).decode())"
        )
        _, printed = await self._run(f'{interpreter()} -I -c "{program}"')
        return Trial("the proxy answers, and refuses what is not allowed", " 403 " in printed, _line(printed))


def _runs(mark: str) -> bool:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False, timeout=PATIENCE)
    return mark in found.stdout


def _quoted(path: str) -> str:
    """Inside double quotes of a shell."""
    return "".join("\\" + char if char in '"$`\\' else char for char in path)


def _line(text: str) -> str:
    return " ".join(text.split())[:200]


@contextmanager
def trial_folder(above: str) -> Iterator[tuple[str, str]]:
    """A folder to try things in, and a file beside it that is out of bounds."""
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=above) as folder:
        root, marker = os.path.join(folder, "work"), os.path.join(folder, "marker")
        os.makedirs(root)
        with open(marker, "w", encoding="utf-8") as file:
            file.write(f"secret-{os.urandom(12).hex()}")
        yield root, marker
