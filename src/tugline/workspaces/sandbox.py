"""Commands of the workspace, held by the operating system: bubblewrap on Linux, sandbox-exec on macOS."""

import asyncio
import fcntl
import os
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Self

import anyio
import anyio.to_thread
from msgspec import Struct, structs

from tugline.net.relay import Hosts, Relay
from tugline.ports import Confinement, Output, Process, ProcessEnd, WorkspaceError
from tugline.protocol.ids import CallId
from tugline.rules.paths import inside
from tugline.workspaces import bridge
from tugline.workspaces.bubblewrap import bwrap_arguments
from tugline.workspaces.layout import PRIVATE, Grounds, Layout, lay_out
from tugline.workspaces.local import LocalWorkspace
from tugline.workspaces.placeholders import Placeholders
from tugline.workspaces.processes import memory_file, run_process
from tugline.workspaces.roster import Roster
from tugline.workspaces.sandbox_state import SandboxState
from tugline.workspaces.seatbelt import seatbelt_profile
from tugline.workspaces.seccomp import seccomp_filter

PROGRAMS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")
"""Where bubblewrap is looked for before the search path: some systems let it work only from its usual place."""
SEATBELT = "/usr/bin/sandbox-exec"
MARK = "TUGLINE_SANDBOX"
"""Set in the environment of what runs in the sandbox."""

INSTALL = "Install it: apt install bubblewrap, dnf install bubblewrap, or pacman -S bubblewrap."
APPARMOR = (
    "Use the package's own /usr/bin/bwrap with the AppArmor profile bwrap-userns-restrict (package apparmor-profiles), "
    "or allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
)
NAMESPACES = (
    "Allow them: sysctl kernel.unprivileged_userns_clone=1 (Debian), or user.max_user_namespaces above 0; "
    "in a container: run it with seccomp and AppArmor profiles that permit them."
)
CONTAINER = "In a container: docker run --security-opt systempaths=unconfined, or podman run --security-opt unmask=ALL."

_TRIAL_PATIENCE = 10.0
_EXCLUDE_LIMIT = 1 << 20
_CHILD = re.compile(rb'"child-pid": *([0-9]+)')
TASKS = 8_192
"""Processes and threads that a command may have."""
_SOCKETS = frozenset(
    ["SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
     "GPG_AGENT_INFO", "XDG_RUNTIME_DIR", "TMP", "TEMP"]
)  # fmt: skip
"""Variables that lead to what a command in the sandbox cannot reach."""

HostsOf = Callable[[CallId], Hosts | None]
"""Who decides about hosts for a call; `None`: it has no network at all."""


class Condition(Struct, frozen=True):
    """Whether the sandbox works here, as a real run has shown; why not, and what to do about it."""

    works: bool
    reason: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.reason, self.remedy) if part)


class Sandbox:
    """Starts commands that see the `grounds` and nothing else of this machine.

    `above`: where it keeps what it needs on the disk. `hosts`: who decides about hosts; `None`: there is no network.
    `environ`: this process's own, for the way of the proxy to the internet. `program`: bubblewrap, if it is not
    to be searched for.
    """

    def __init__(
        self,
        grounds: Grounds,
        *,
        above: str,
        hosts: HostsOf | None = None,
        environ: Mapping[str, str] | None = None,
        unix_sockets: bool = False,
        program: str | None = None,
    ) -> None:
        shared = dict.fromkeys(os.path.realpath(path) for path in PRIVATE if os.path.isdir(path))
        self._shared = tuple(path for path in shared if path not in grounds.roots)
        python = bridge.interpreter_folder()
        shown = (*grounds.shown, *((python,) if any(inside(python, path) for path in self._shared) else ()))
        self.grounds = structs.replace(grounds, shown=shown, hidden=(*grounds.hidden, above))
        self._above = above
        self._hosts = hosts
        self._environ = os.environ if environ is None else environ
        self._filter = seccomp_filter(unix_sockets=unix_sockets)
        self._program = program
        self._nested = True
        self._state: SandboxState | None = None
        self._condition: Condition | None = None
        self._one_at_a_time = anyio.Lock()

    @property
    def condition(self) -> Condition | None:
        """What the trial has shown; `None` before it."""
        return self._condition

    def fit(self, roots: Sequence[str], shown: str | None) -> None:
        """Let what starts from now on write in these folders and read that one. Only a person adds folders."""
        grounds = self.grounds
        more = grounds.shown if shown is None or shown in grounds.shown else (*grounds.shown, shown)
        if tuple(roots) != grounds.roots or more != grounds.shown:
            self.grounds = structs.replace(grounds, roots=tuple(roots), shown=more)

    async def probe(self) -> Condition:
        """Try it for real, once."""
        if self._condition is None:
            async with self._one_at_a_time:
                if self._condition is None:
                    self._condition = await self._try()
        return self._condition

    async def _try(self) -> Condition:
        why = self._impossible()
        if why is not None:
            return why
        try:
            self._state = await anyio.to_thread.run_sync(SandboxState, self._above)
        except OSError as error:
            return Condition(False, f"{self._above} cannot be used: {error.strerror}.", "Make it writable.")
        printed = await self._trial()
        if "--disable-userns" in printed and "nknown option" in printed:
            # an older bubblewrap; the filter of system calls forbids the same
            self._nested = False
            printed = await self._trial()
        if printed.strip() == "held":
            return Condition(True)
        return explain(printed, self._program or "")

    def _impossible(self) -> Condition | None:
        """Why it need not even be tried."""
        if "/" in self.grounds.roots:
            return Condition(False, "The working folder is /, which is everything.", "Work in a folder of its own.")
        if sys.platform == "darwin":
            self._program = self._program or SEATBELT
        elif not sys.platform.startswith("linux"):
            return Condition(False, f"There is no sandbox for {sys.platform}.")
        self._program = self._program or find_bwrap(self._environ.get("PATH", ""), self.grounds.roots)
        if not self._program or not os.access(self._program, os.X_OK):
            return Condition(False, "bubblewrap (bwrap) is not installed.", INSTALL)
        if self._filter is None and sys.platform != "darwin":
            return Condition(False, f"The system calls of this machine ({os.uname().machine}) are not known.")
        return None

    async def _trial(self) -> str:
        """What a command prints that tries to write outside and to leave through the network."""
        assert self._state is not None
        outside = os.path.join(self._state.folder, "written")
        script = (
            'if (: >"$1") 2>/dev/null; then echo "it can write outside"; exit; fi; '
            "if { exec 9<>/dev/tcp/192.0.2.1/9; } 2>/dev/null; then echo 'it has a network'; exit; fi; echo held"
        )
        argv = ["/bin/bash", "--noprofile", "--norc", "-c", script, "bash", outside]
        environment = {"PATH": "/usr/bin:/bin"}
        root = self.grounds.roots[0]
        try:
            async with self._started(argv, cwd=root, env=environment, timeout=_TRIAL_PATIENCE) as process:
                end = await process.wait()
                printed = process.output().head
        except (WorkspaceError, OSError) as error:
            return str(error)
        if end.timed_out:
            return f"it did not answer in {_TRIAL_PATIENCE:g} s"
        return printed or f"it ended with status {end.status}"

    # -- running ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def start(
        self, argv: Sequence[str], *, confine: Confinement, env: Mapping[str, str], **how: Any
    ) -> AsyncIterator[Process]:
        """Start a command inside; otherwise as `run_process`. Raises `WorkspaceError("denied")` where it cannot."""
        condition = await self.probe()
        if not condition.works:
            raise WorkspaceError("denied", f"The sandbox does not work here: {condition}")
        program = shutil.which(argv[0], path=env.get("PATH")) if argv else None
        if program is None:
            raise WorkspaceError("missing", f"{argv[0] if argv else 'The program'} was not found.")
        async with self._started([program, *argv[1:]], confine=confine, env=env, **how) as process:
            yield process

    @asynccontextmanager
    async def _started(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        confine: Confinement | None = None,
        **how: Any,
    ) -> AsyncIterator[Process]:
        """`confine`: `None` for the trial, which needs no way out."""
        read_only = confine is not None and confine.read_only
        layout = await anyio.to_thread.run_sync(lambda: lay_out(self.grounds, cwd, read_only=read_only))
        async with AsyncExitStack() as stack:
            layout = stack.enter_context(self._placeholders(layout))
            inheritance = stack.enter_context(Inheritance())
            relay: Relay | None = None
            hosts = self._hosts(confine.call) if confine is not None and self._hosts is not None else None
            if hosts is not None and sys.platform != "darwin":
                relay = Relay(hosts, self._environ)
                stack.push_async_callback(relay.aclose)
                way, theirs = socket.socketpair()
                relay.start(bridge.receive(way))
                argv = bridge.bridged(argv, inheritance.take(theirs.detach()))
            words = self._words(argv, layout, cwd, inheritance)
            running = run_process(
                words,
                cwd=cwd,
                env=inner_environment(env, network=relay is not None),
                passed=inheritance.numbers,
                keeper=sys.platform != "darwin",
                **how,
            )
            process = await stack.enter_async_context(running)
            inheritance.begun()
            yield _Held(process, relay, layout)

    @contextmanager
    def _placeholders(self, layout: Layout) -> Iterator[Layout]:
        """What is missing is there while the command runs, and what must not be there is not, afterwards."""
        assert self._state is not None
        held = Placeholders()
        try:
            self._state.note(layout.absent)
            there = held.hold(layout.absent)
        except OSError as error:
            held.release()
            raise WorkspaceError(
                "denied", f"The sandbox cannot be set up: {error.filename or self._above}: {error.strerror}."
            ) from error
        try:
            yield structs.replace(layout, absent=tuple(there))
        finally:
            held.release()
            mend(layout.watched)

    def _words(self, argv: Sequence[str], layout: Layout, cwd: str, inheritance: "Inheritance") -> list[str]:
        assert self._state is not None
        assert self._program is not None
        if sys.platform == "darwin":
            return [self._program, "-p", seatbelt_profile(layout, tmp=self._state.tmp), *argv]
        arguments = bwrap_arguments(
            layout,
            cwd=cwd,
            shared=self._shared,
            private=self._state.tmp,
            empty=self._state.empty,
            nested=self._nested,
        )
        for path, text in excluding(layout):
            arguments += ["--ro-bind-data", str(inheritance.take(memory_file(text))), path]
        assert self._filter is not None
        arguments += ["--seccomp", str(inheritance.take(memory_file(self._filter)))]
        arguments += inheritance.gate()
        # through a descriptor: arguments show in the list of processes, and there is a limit to them
        listed = memory_file(b"".join(os.fsencode(word) + b"\0" for word in arguments))
        return [self._program, "--args", str(inheritance.take(listed)), "--", *argv]

    async def aclose(self) -> None:
        """Take away what it kept on the disk."""
        state, self._state = self._state, None
        if state is not None:
            await anyio.to_thread.run_sync(state.close)
        self._condition = Condition(False, "The session has ended.")


class Inheritance:
    """Descriptors that a process inherits, and the gate that holds it back until its limits are set.

    The limits are for the child that bubblewrap tells of, from which all that runs inside comes.
    """

    def __init__(self) -> None:
        self._theirs: list[int] = []
        self._gate = self._told = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Those that it inherits."""
        return tuple(self._theirs)

    def take(self, descriptor: int) -> int:
        """Let it inherit this one, which is closed here afterwards; the number under which it does."""
        # shells address single digits themselves: ours stay out of their way
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
        os.close(descriptor)
        self._theirs.append(high)
        return high

    def gate(self) -> list[str]:
        """The arguments by which bubblewrap tells of its child, and lets it wait."""
        waits, self._gate = os.pipe2(os.O_CLOEXEC)
        self._told, tells = os.pipe2(os.O_CLOEXEC)
        return ["--info-fd", str(self.take(tells)), "--block-fd", str(self.take(waits))]

    def begun(self) -> None:
        """It has its copies: ours are closed, and what it tells is waited for."""
        theirs, self._theirs = self._theirs, []
        for descriptor in theirs:
            os.close(descriptor)
        if self._told >= 0:
            asyncio.get_running_loop().add_reader(self._told, self._limit)

    def _limit(self) -> None:
        told = os.read(self._told, 4_096)
        asyncio.get_running_loop().remove_reader(self._told)
        child = _CHILD.search(told)
        if child is not None:
            set_limits(int(child[1]))
        with suppress(BrokenPipeError):
            os.write(self._gate, b"1")

    def close(self) -> None:
        """Close all that is left."""
        if self._told >= 0:
            asyncio.get_running_loop().remove_reader(self._told)
        for descriptor in (*self._theirs, self._gate, self._told):
            if descriptor >= 0:
                os.close(descriptor)
        self._theirs, self._gate, self._told = [], -1, -1


def set_limits(pid: int) -> None:
    """The limits of what runs in a sandbox; a process that is gone has none."""
    import resource  # noqa: PLC0415  imported here: start-up cost

    with suppress(OSError, ValueError):
        # 1, not 0: a core dump is then not piped to a program outside either
        resource.prlimit(pid, resource.RLIMIT_CORE, (1, 1))
    with suppress(OSError, ValueError):
        hard = resource.prlimit(pid, resource.RLIMIT_NPROC)[1]
        most = TASKS if hard == resource.RLIM_INFINITY else min(hard, TASKS)
        resource.prlimit(pid, resource.RLIMIT_NPROC, (most, most))


class _Held:
    """A process in the sandbox; its end says what the sandbox had to refuse."""

    def __init__(self, process: Process, relay: Relay | None, layout: Layout) -> None:
        self.pid = process.pid
        self._process = process
        self._relay = relay
        self._layout = layout

    def output(self) -> Output:
        return self._process.output()

    def errors(self) -> Output:
        return self._process.errors()

    def unbound(self) -> str | None:
        return self._process.unbound()

    async def wait(self) -> ProcessEnd:
        end = await self._process.wait()
        notes = [f"the sandbox took away {path}, which programs outside would obey" for path in self._mended()]
        if self._relay is not None:
            notes += [f"the sandbox refused {host}: {why}" for host, why in self._relay.refused.items()]
        return structs.replace(end, notes=tuple(notes))

    def _mended(self) -> list[str]:
        return mend(self._layout.watched)


def excluding(layout: Layout) -> Iterator[tuple[str, bytes]]:
    """Git's lists of what it ignores, longer by the folders that stand in for what is missing: `git clean` would try to
    remove them."""
    for root, path in layout.excludes:
        names = [os.path.relpath(place, root) for place in layout.absent if os.path.dirname(place) == root]
        if names:
            with suppress(OSError), open(path, "rb") as file:
                yield path, file.read(_EXCLUDE_LIMIT) + b"".join(b"\n/" + os.fsencode(name) for name in names) + b"\n"


def mend(watched: Sequence[tuple[str, str | None]]) -> list[str]:
    """Put names back as they were that could not be mounted over; what stood there is moved aside. The names."""
    found: list[str] = []
    for path, link in watched:
        try:
            now = os.readlink(path) if os.path.islink(path) else None
            if now == link and (link is not None or not os.path.lexists(path)):
                continue
            if os.path.lexists(path):
                os.rename(path, f"{path}.from-sandbox-{os.urandom(4).hex()}")  # noqa: PTH104 - paths are str inside
            if link is not None:
                os.symlink(link, path)  # noqa: PTH211 - paths are str inside
        except OSError:
            continue
        found.append(path)
    return found


def inner_environment(env: Mapping[str, str], *, network: bool) -> dict[str, str]:
    """The environment of a command inside: less what leads outside, with the way to the proxy."""
    kept = {name: value for name, value in env.items() if name not in _SOCKETS and name not in bridge.PROXY_VARIABLES}
    if sys.platform != "darwin":
        kept["TMPDIR"] = "/tmp"
    return {**kept, MARK: "1", **(bridge.environment() if network else {})}


def find_bwrap(path: str, roots: Sequence[str]) -> str | None:
    """Where bubblewrap is. One that lies in a working folder is none: whoever writes there could have made it."""
    for program in PROGRAMS:
        if os.access(program, os.X_OK):
            return program
    found = shutil.which("bwrap", path=path)
    real = os.path.realpath(found) if found else ""
    return found if found and os.path.isabs(found) and not any(inside(real, root) for root in roots) else None


def explain(printed: str, program: str) -> Condition:
    """What to do about what the trial printed."""
    line = " ".join(printed.split())[:300]
    lower = line.lower()
    if "uid map" in lower or "no permissions to creat" in lower or "creating new namespace failed" in lower:
        if os.path.exists("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"):
            where = "" if program.startswith("/usr/bin/") else f" (bubblewrap is {program}, not /usr/bin/bwrap)"
            return Condition(False, f"AppArmor forbids user namespaces to bubblewrap{where}: {line}.", APPARMOR)
        return Condition(False, f"This system forbids user namespaces: {line}.", NAMESPACES)
    if "setuid" in lower:
        return Condition(False, f"This bubblewrap is installed setuid: {line}.", "Remove the bit: chmod u-s " + program)
    if "mount proc" in lower or "mount proc on" in lower:
        return Condition(False, f"/proc cannot be mounted: {line}.", CONTAINER)
    return Condition(False, f"A trial failed: {line}.", "`tugline doctor` looks closer.")


class SandboxWorkspace(LocalWorkspace):
    """A local workspace whose confined processes run in the sandbox.

    Where the sandbox does not work, they run without it, which the rules know of, unless `required`: then they are
    refused. One that may only read is refused in any case.
    """

    def __init__(
        self,
        roots: Sequence[str],
        sandbox: Sandbox,
        *,
        required: bool = False,
        spill_dir: str | None = None,
        environment: Mapping[str, str] | None = None,
        roster: Roster | None = None,
    ) -> None:
        super().__init__(roots, spill_dir=spill_dir, environment=environment, roster=roster)
        self.sandbox = sandbox
        self.required = required

    def process(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        spill: bool = True,
        report: bool = False,
        apart: bool = False,
        keep: int = 15_000,
        on_output: Callable[[Output], None] | None = None,
        confine: Confinement | None = None,
    ) -> AbstractAsyncContextManager[Process]:
        """Start a process that dies with the context."""
        how: dict[str, Any] = {
            "cwd": cwd, "stdin": stdin, "timeout": timeout, "report": report, "apart": apart, "keep": keep,
            "on_output": on_output,
        }  # fmt: skip
        if confine is None:
            return super().process(argv, env=env, spill=spill, **how)
        return self._confined(argv, confine, env, spill, how)

    @asynccontextmanager
    async def _confined(
        self,
        argv: Sequence[str],
        confine: Confinement,
        env: Mapping[str, str] | None,
        spill: bool,
        how: dict[str, Any],
    ) -> AsyncIterator[Process]:
        condition = await self.sandbox.probe()
        if not condition.works:
            if self.required or confine.read_only:
                why = "sandbox.required is set" if self.required else "it may only read here"
                raise WorkspaceError(
                    "denied", f"The command was not run: {why}, and the sandbox does not work here. {condition}"
                )
            async with super().process(argv, env=env, spill=spill, **how) as process:
                yield process
            return
        # a person may have added folders, and the outputs lie elsewhere in a copy of the session
        self.sandbox.fit(self.roots, self._spill_dir)
        environment = {**self._environment, **(env or {})}
        how |= {"spill_dir": self._spill_dir if spill else None, "roster": self._roster}
        async with self.sandbox.start(argv, confine=confine, env=environment, **how) as process:
            yield process
