"""Processes that die with their call: one pipe for what they print, memory that does not depend on it."""

import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio

from tugline.ports import Output, Process, ProcessEnd, WorkspaceError
from tugline.workspaces.capture import Capture
from tugline.workspaces.descendants import MARK, Descendants
from tugline.workspaces.roster import Roster

REPORT = "TUGLINE_REPORT"
"""Where a process finds the number of the descriptor for its report."""

TERM_GRACE = 2.0
"""Seconds from TERM to KILL."""
PIPE_GRACE = 0.5
"""Seconds that a pipe may stay open after the exit."""
FLOOD_LIMIT = 1024 * 1024 * 1024
"""Bytes of output after which a process is ended."""

_READ = 64 * 1024
_REPORT_LIMIT = 64 * 1024
_TELL_EVERY = 0.1
_KILL_PATIENCE = 1.0
_UNKNOWN_STATUS = 255


@asynccontextmanager
async def run_process(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout: float | None = None,
    spill_dir: str | None = None,
    report: bool = False,
    apart: bool = False,
    keep: int = 15_000,
    on_output: Callable[[Output], None] | None = None,
    roster: Roster | None = None,
    passed: Sequence[int] = (),
    keeper: bool = False,
) -> AsyncIterator[Process]:
    """Start a process in a session of its own; leaving the context ends all of it. `env` is its whole environment.
    The `roster` is told of both.

    `spill_dir`: where the whole output goes once it is more than what `keep` characters at each end hold (`None`:
    nowhere). `apart`: stderr is kept by itself, and never spilled. `passed`: further descriptors that it inherits.
    `keeper`: it only keeps others, which die with it, so that TERM is for them alone. Raises `WorkspaceError` if it
    cannot be started.
    """
    mark = os.urandom(8).hex()
    spill = None if spill_dir is None else os.path.join(spill_dir, f"output-{mark}.txt")
    running = _Running(Capture(keep, spill), Capture(keep, None) if apart else None, mark, on_output, keeper=keeper)
    try:
        if roster is not None:
            roster.enter(mark)
        running.start(argv, cwd, env, stdin, report, passed)
        if roster is not None:
            roster.identify(mark, running.pid)
        running.limit(timeout)
        yield running
    finally:
        await running.close()
        if roster is not None:
            roster.leave(mark)


class _Stream:
    """One of its streams: the end of the pipe that is read, and what came out of it."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.pipe = -1
        self.drained = anyio.Event()


class _Running:
    """A started process. The leader stays a zombie until the end, so that neither its id nor its group's is reused."""

    def __init__(
        self,
        out: Capture,
        err: Capture | None,
        mark: str,
        on_output: Callable[[Output], None] | None,
        *,
        keeper: bool = False,
    ) -> None:
        self.pid = 0
        self._keeper = keeper
        self._out = _Stream(out)
        self._err = None if err is None else _Stream(err)
        self._streams = (self._out,) if self._err is None else (self._out, self._err)
        self._mark = mark
        self._on_output = on_output
        self._told = 0.0
        self._telling: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._started = Descendants(0, mark)
        self._child: subprocess.Popen[bytes] | None = None
        self._pidfd = self._report_pipe = -1
        self._report = bytearray()
        self._status: int | None = None
        self._exited_at = 0.0
        self._exited = anyio.Event()
        self._timed_out = self._flooded = False
        self._kill_at: float | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._limit: asyncio.TimerHandle | None = None

    # -- start -----------------------------------------------------------------------------------------------------

    def start(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes | None,
        report: bool,
        passed: Sequence[int] = (),
    ) -> None:
        """Launch it and begin to read."""
        environment = dict(env)
        environment[MARK] = f"{environment[MARK]}:{self._mark}" if MARK in environment else self._mark
        theirs: list[int] = []
        try:
            for stream in self._streams:
                stream.pipe, end = os.pipe2(os.O_CLOEXEC)
                theirs.append(end)
            out, err = theirs[0], theirs[-1]
            if report:
                self._report_pipe, low = os.pipe2(os.O_CLOEXEC)
                theirs.append(low)
                # Shells address single digits themselves: ours stays out of their way.
                high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 10)
                theirs.append(high)
                passed = (*passed, high)
                environment[REPORT] = str(high)
            source = subprocess.DEVNULL if stdin is None else memory_file(stdin)
            if source >= 0:
                theirs.append(source)
            self._child = subprocess.Popen(
                argv,
                cwd=cwd,
                env=environment,
                stdin=source,
                stdout=out,
                stderr=err,
                start_new_session=True,
                pass_fds=tuple(passed),
            )
        except (OSError, ValueError) as error:
            raise _not_started(error, argv, cwd) from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self.pid = self._child.pid
        self._started = Descendants(self.pid, self._mark)
        self._listen()

    def _listen(self) -> None:
        for stream in self._streams:
            os.set_blocking(stream.pipe, False)
            self._loop.add_reader(stream.pipe, self._on_readable, stream)
        if self._report_pipe >= 0:
            os.set_blocking(self._report_pipe, False)
            self._loop.add_reader(self._report_pipe, self._on_report)
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (OSError, AttributeError):
            self._look_for_exit()
        else:
            self._loop.add_reader(self._pidfd, self._on_exit)

    def limit(self, timeout: float | None) -> None:
        """End it after this many seconds."""
        if timeout is not None:
            self._limit = self._loop.call_later(timeout, self._on_timeout)
            self._timers.append(self._limit)

    # -- what the loop reports -------------------------------------------------------------------------------------

    def _on_readable(self, stream: _Stream) -> None:
        if not self._read(stream):
            return
        if stream.capture.size > FLOOD_LIMIT and not self._flooded:
            self._flooded = True
            self._finish_reading(stream)
            self._terminate()
        if self._on_output is not None and stream is self._out and self._telling is None:
            # the first of a burst at once, its end a moment later
            due = max(0.0, self._told + _TELL_EVERY - self._loop.time())
            if due:
                self._telling = self._loop.call_later(due, self._tell_output)
                self._timers.append(self._telling)
            else:
                self._tell_output()

    def _tell_output(self) -> None:
        if self._telling is not None:
            self._timers.remove(self._telling)
            self._telling = None
        self._told = self._loop.time()
        if self._on_output is not None:
            self._on_output(self._out.capture.output())

    def _read(self, stream: _Stream) -> bool:
        """One piece of output; `False`: there is none now."""
        if stream.pipe < 0:
            return False
        try:
            data = os.read(stream.pipe, _READ)
        except BlockingIOError:
            return False
        if not data:
            self._finish_reading(stream)
            return False
        stream.capture.feed(data)
        return True

    def _finish_reading(self, stream: _Stream) -> None:
        if not stream.drained.is_set():
            stream.pipe = self._unwatch(stream.pipe)
            stream.capture.end()
            stream.drained.set()

    def _on_report(self) -> None:
        try:
            data = os.read(self._report_pipe, _READ)
        except BlockingIOError:
            return
        if data:
            self._report += data[: _REPORT_LIMIT - len(self._report)]
        else:
            self._report_pipe = self._unwatch(self._report_pipe)

    def _on_exit(self) -> None:
        status = self._peek()
        if status is None:
            return
        self._status, self._exited_at = status, self._loop.time()
        self._pidfd = self._unwatch(self._pidfd)
        # Nobody but the process itself writes the report: all of it is there now.
        while self._report_pipe >= 0 and len(self._report) < _REPORT_LIMIT:
            before = len(self._report)
            self._on_report()
            if len(self._report) == before:
                break
        self._report_pipe = self._unwatch(self._report_pipe)
        self._exited.set()

    def _look_for_exit(self) -> None:
        """Where the system has no descriptors for processes."""
        self._on_exit()
        if self._status is None:
            self._timers.append(self._loop.call_later(0.02, self._look_for_exit))

    def _peek(self) -> int | None:
        """How it ended, without reaping it where that can be had."""
        assert self._child is not None
        if not hasattr(os, "waitid"):
            return self._child.poll()
        try:
            end = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return _UNKNOWN_STATUS
        if end is None:
            return None
        return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status

    # -- what callers see ------------------------------------------------------------------------------------------

    def output(self) -> Output:
        """What it printed so far."""
        return self._out.capture.output()

    def errors(self) -> Output:
        """What it wrote to stderr so far, where that is kept apart."""
        assert self._err is not None, "stderr is not kept apart"
        return self._err.capture.output()

    def unbound(self) -> str | None:
        """No time limit any more, and all that it prints is in a file."""
        if self._limit is not None:
            self._limit.cancel()
        return self._out.capture.keep_all()

    async def wait(self) -> ProcessEnd:
        """Until it has ended and its output is read; at most half a second longer than its exit."""
        await self._exited.wait()
        with anyio.move_on_after(self._exited_at + PIPE_GRACE - self._loop.time()):
            for stream in self._streams:
                if not stream.drained.is_set():
                    await stream.drained.wait()
        self._settle()
        return ProcessEnd(
            status=_UNKNOWN_STATUS if self._status is None else self._status,
            timed_out=self._timed_out,
            flooded=self._flooded,
            report=bytes(self._report),
        )

    def _settle(self) -> None:
        """Take what lies in the pipe, but do not wait for those who still hold it."""
        for stream in self._streams:
            for _ in range(16):
                if not self._read(stream):
                    break
            self._finish_reading(stream)

    # -- end -------------------------------------------------------------------------------------------------------

    def _on_timeout(self) -> None:
        if self._status is None:
            self._timed_out = True
            self._terminate()

    def _terminate(self) -> None:
        """TERM now, KILL in two seconds; only the first call counts."""
        if self._kill_at is None:
            self._kill_at = self._loop.time() + TERM_GRACE
            self._send(signal.SIGTERM)
            # One that was stopped has to go on to hear it.
            self._send(signal.SIGCONT)
            self._timers.append(self._loop.call_later(TERM_GRACE, self._send, signal.SIGKILL))

    def _send(self, signum: int) -> None:
        if not self._keeper or signum == signal.SIGKILL:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signum)
        self._started.signal(signum)

    async def close(self) -> None:
        """End whatever is left of it and tidy up, whether or not the caller was cancelled."""
        try:
            if self._child is not None:
                if self._remains():
                    with anyio.CancelScope(shield=True):
                        self._terminate()
                        await self._gone()
                self._started.reap()
        except BaseException:
            # Cancelled past the shield (a bare `Task.cancel`, the loop's end): no time left for manners.
            self._send(signal.SIGKILL)
            raise
        finally:
            self._release()

    def _remains(self) -> bool:
        return self._status is None or bool(self._started.alive())

    async def _gone(self) -> None:
        """Until nothing is left; what even KILL does not end in time (a hung disk) is given up."""
        assert self._kill_at is not None
        delay = 0.002
        while self._remains():
            late = self._loop.time() - self._kill_at
            if late > _KILL_PATIENCE:
                return
            if late > 0:
                self._send(signal.SIGKILL)
            else:
                self._started.signal_again(signal.SIGTERM)
            await anyio.sleep(delay)
            delay = min(delay * 2, 0.05)

    def _release(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._report_pipe = self._unwatch(self._report_pipe)
        self._pidfd = self._unwatch(self._pidfd)
        for stream in self._streams:
            stream.pipe = self._unwatch(stream.pipe)
            stream.capture.end()
        child, self._child = self._child, None
        if child is not None and child.poll() is None:
            # It outlived the patience for KILL: reaped whenever it goes.
            threading.Thread(target=child.wait, name="reap", daemon=True).start()

    def _unwatch(self, descriptor: int) -> int:
        if descriptor >= 0:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        return -1


def memory_file(data: bytes) -> int:
    """A descriptor that reads these bytes and then ends: a file, so that nobody has to feed it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("data", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _not_started(error: OSError | ValueError, argv: Sequence[str], cwd: str) -> WorkspaceError:
    if isinstance(error, ValueError):
        return WorkspaceError("invalid", f"The command cannot be started: {error}.")
    program = argv[0] if argv else ""
    if not os.path.isdir(cwd):
        return WorkspaceError("gone", f"The working directory {cwd} does not exist any more.")
    if error.errno == errno.E2BIG:
        return WorkspaceError(
            "invalid", "The command is longer than this system allows. Write it to a file and run that."
        )
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM):
        return WorkspaceError("full", f"No more processes can be started now: {error.strerror}.")
    if isinstance(error, FileNotFoundError):
        return WorkspaceError("missing", f"{program} was not found.")
    if isinstance(error, PermissionError):
        return WorkspaceError("denied", f"{program} may not be run, or {cwd} may not be entered: {error.strerror}.")
    return WorkspaceError("invalid", f"{program} cannot be started: {error.strerror}.")
