"""Bash: one command, in a shell that is new each time but for its working directory."""

import os
import re
import shlex
import signal
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import anyio
from msgspec import Meta, Struct, field, structs

from tugline.ports import (
    Confinement,
    Output,
    Process,
    ProcessEnd,
    TaskEnd,
    TaskRunner,
    Tether,
    ToolContext,
    WorkspaceError,
)
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import (
    Change,
    CommandSubject,
    Cwd,
    Display,
    Footprint,
    Progress,
    Result,
    Subject,
    ToolSpec,
)
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.in_place import InPlace
from tugline.tools.plain import plain_text
from tugline.tools.schema import read_input
from tugline.tools.shell_argv import shell_argv

DEFAULT_TIMEOUT = 120.0
MAX_TIMEOUT = 600.0
"""Seconds."""

_FIRST_REPORT = 2.0
_NEXT_REPORT = 1.0
_KEEP = 14_000
"""Characters at each end; both and the notices fit into the result's limit."""
_SLEEP = re.compile(r"\s*sleep [0-9]+(\.[0-9]+)?[smh]?\s*")

_NO_ERROR_AT_1 = frozenset({"[", "cmp", "diff", "egrep", "fgrep", "grep", "pgrep", "rg", "test"})
"""Commands that say "no" with exit code 1."""

_PROMPT = re.compile(
    r"(password|passphrase|passcode|username|login|continue|proceed|overwrite|replace|are you sure|do you want"
    r"|press (any|enter|return)|\[?\(?\by(es)?/no?\b(/[^)\]]*)?\]?\)?|otp|verification code).{0,80}$",
    re.IGNORECASE,
)


class BashInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says."""

    command: Annotated[str, Meta(description="The command to run", min_length=1)]
    timeout: Annotated[Annotated[float, Meta(gt=0)] | None, Meta(description="Milliseconds, 600000 at most")] = None
    description: Annotated[str, Meta(description="What the command does, in five to ten words")] = ""
    run_in_background: Annotated[
        bool, Meta(description="Do not wait for it: for servers, watchers, and what takes long")
    ] = False
    outside_sandbox: Annotated[
        bool, Meta(description="Ask to run it outside of the sandbox; a person is asked about it")
    ] = field(default=False, name="dangerouslyDisableSandbox")


class InSandbox(Struct, frozen=True):
    """That commands run in a sandbox, and what of it concerns them. `network`: in words for the model. `escape`: it may
    ask to run a command outside. `excludes` says which commands run outside anyway."""

    network: str
    writable: tuple[str, ...] = ()
    escape: bool = True
    excludes: Callable[[str], bool] = lambda command: False


class Bash(BuiltinTool[BashInput]):
    """Runs shell commands. `is_read_only` says of a command whether it changes nothing; the limits are seconds.

    `tasks` runs them beside their calls; without it, or with `background` off, every call waits for its command.
    `release_late`: a command that reaches its limit goes on in the background. `sandbox`: what to tell of the sandbox,
    where there is one.
    """

    name = "Bash"
    input = BashInput
    family = "shell"

    def __init__(
        self,
        is_read_only: Callable[[str], bool] | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        max_timeout: float = MAX_TIMEOUT,
        tasks: TaskRunner | None = None,
        background: bool = True,
        release_late: bool = False,
        sandbox: InSandbox | None = None,
    ) -> None:
        super().__init__()
        self._sandbox = sandbox
        self._is_read_only = is_read_only
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._tasks: TaskRunner = tasks or InPlace()
        self._background = background and tasks is not None
        self._release_late = release_late and self._background
        self._accepted = self.spec.input_schema
        held_back = set() if self._background else {"run_in_background"}
        if sandbox is None or not sandbox.escape:
            held_back.add("dangerouslyDisableSandbox")
        offered = {name: about for name, about in self._accepted["properties"].items() if name not in held_back}
        words = self.spec.description if sandbox is None else f"{self.spec.description.rstrip()}\n{_about(sandbox)}"
        self.spec = ToolSpec(self.name, words, {**self._accepted, "properties": offered})

    def parse(self, data: dict[str, object]) -> BashInput:
        """The typed input; `run_in_background` is understood though it is not offered."""
        parsed: BashInput = read_input(self.input, self._accepted, data)
        return parsed

    def footprint(self, data: BashInput) -> Footprint:
        """Changes, unless it only sleeps or was found to read only."""
        if _SLEEP.fullmatch(data.command):
            return Footprint.NOTHING
        if self._is_read_only is not None and self._is_read_only(data.command):
            return Footprint.READS
        return Footprint.CHANGES

    def subjects(self, data: BashInput) -> tuple[Subject, ...]:
        """The command as it will run."""
        return (CommandSubject(data.command, self._outside(data)),)

    def _outside(self, data: BashInput) -> Literal["", "excluded", "asked"]:
        if self._sandbox is None:
            return ""
        if self._sandbox.excludes(data.command):
            return "excluded"
        return "asked" if data.outside_sandbox and self._sandbox.escape else ""

    def title(self, data: BashInput) -> str:
        """The command's first line."""
        lines = data.command.strip().splitlines() or [""]
        return cut_line(plain_text(lines[0] + (" …" if len(lines) > 1 else "")))

    async def run(self, data: BashInput, context: ToolContext) -> Result:
        """Run it to its end, or until nobody waits for it any more."""
        wanted = data.timeout / 1000 if data.timeout else self._timeout
        seconds = min(wanted, self._max_timeout)

        async def work(tether: Tether) -> TaskEnd:
            return await self._work(data, context, seconds, tether)

        result = await self._tasks.run(
            work,
            context,
            kind="local_bash",
            description=data.description or self.title(data),
            background=data.run_in_background and self._background,
        )
        if data.run_in_background and not self._background:
            told = "ran in the foreground: commands in the background are not available here"
            result = structs.replace(result, for_model=f"{result.for_model}\n\n[{told}]")
        return result

    async def _work(self, data: BashInput, context: ToolContext, seconds: float, tether: Tether) -> TaskEnd:
        limit = None if self._release_late else seconds
        confine = None if self._outside(data) else Confinement(context.call)
        try:
            async with context.workspace.process(
                shell_argv(data.command),
                cwd=context.state.cwd,
                timeout=limit,
                report=True,
                keep=_KEEP,
                confine=confine,
            ) as process:
                tether.begun(lambda: process.unbound() or "")
                end = await _watch(process, tether, seconds if self._release_late else None)
                output = process.output()
        except WorkspaceError as error:
            if error.kind == "gone":
                return TaskEnd(_no_directory(error, context), "failed", str(error))
            raise ToolError(str(error)) from None
        cwd, moved = _directory(end, context)
        notices = [*_how_it_ended(end, output, seconds), *end.notes, *moved]
        failed = end.timed_out or end.flooded or (end.status != 0 and not _says_no(end.status, data.command))
        result = Result(
            _for_model(output, notices),
            Display(_line(end, output), plain_text(output.head + _gap(output) + output.tail)),
            is_error=failed,
            changes=cwd,
        )
        return TaskEnd(result, "failed" if failed else "completed", _last_words(output), end.status)


def _about(sandbox: InSandbox) -> str:
    writable = ", ".join(sandbox.writable)
    lines = [
        f"- Commands run in a sandbox. They can write below {writable} and in /tmp, which is the session's own and "
        "which other tools do not see; git's hooks and config, and settings of editors and agents, stay as they are. "
        f"Credentials cannot be read. {sandbox.network}",
        "- What the sandbox refuses shows as `Read-only file system`, `Permission denied`, `Operation not permitted` "
        "or a refused connection. Say so instead of looking for a way round.",
    ]
    if sandbox.escape:
        lines.append(
            "- `dangerouslyDisableSandbox`: only where a command cannot work inside; the user is asked each time."
        )
    return "\n".join(lines)


async def _watch(process: Process, tether: Tether, release_after: float | None) -> ProcessEnd:
    """Wait for the end, with a sign of life each second after the second one."""
    start = anyio.current_time()
    pause = _FIRST_REPORT
    while True:
        with anyio.move_on_after(pause):
            return await process.wait()
        output = process.output()
        last = "\n".join(plain_text(output.tail or output.head).splitlines()[-5:])
        elapsed = anyio.current_time() - start
        tether.report(Progress(text=last[-2000:], elapsed=elapsed, lines=output.lines, bytes=output.size))
        pause = _NEXT_REPORT
        if release_after is not None and elapsed >= release_after:
            tether.release("timeout")
            release_after = None


def _last_words(output: Output) -> str:
    """The end of what it printed, for who has not read it."""
    if _is_binary(output):
        return ""
    return plain_text(output.tail or output.head)[-1_000:].strip()


# -- the working directory -----------------------------------------------------------------------------------------


def _directory(end: ProcessEnd, context: ToolContext) -> tuple[tuple[Change, ...], list[str]]:
    """Where the shell was at its end, as a change, and what to say of it."""
    now = os.fsdecode(end.report.rpartition(b"\0")[2].removesuffix(b"\n"))
    roots = context.workspace.roots
    if not now.startswith("/") or now == context.state.cwd:
        return (), []
    if not any(_is_inside(now, root) for root in roots):
        return (Cwd(roots[0]),), [f"{now} is outside the allowed directories: working directory reset to {roots[0]}"]
    return (Cwd(now),), []


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _no_directory(error: WorkspaceError, context: ToolContext) -> Result:
    """Not run at all: what was meant for one directory must not happen in another."""
    root = context.workspace.roots[0]
    text = f"{error} The command was not run; the working directory is {root} now."
    return Result(text, Display(cut_line(text)), is_error=True, changes=(Cwd(root),))


# -- what is told --------------------------------------------------------------------------------------------------


def _for_model(output: Output, notices: Sequence[str]) -> str:
    if _is_binary(output):
        body = f"[{output.size} bytes of binary output are not shown; redirect it to a file to keep it]"
    else:
        body = (output.head + _gap(output) + output.tail).replace("\0", "␀").rstrip("\n")
    parts = [body or "(no output)"]
    if notices:
        parts.append("\n".join(f"[{notice}]" for notice in notices))
    return "\n\n".join(parts)


def _gap(output: Output) -> str:
    if output.whole:
        return ""
    missing = max(
        1, output.size - len(output.head.encode(errors="replace")) - len(output.tail.encode(errors="replace"))
    )
    where = f"; all of it is in {output.spill}, to be read in parts or searched" if output.spill else ""
    if output.spill and output.size > 64 * 1024 * 1024:
        where = f"; the first 64 MiB are in {output.spill}"
    return f"\n\n[{missing} bytes left out of {output.size} bytes in {output.lines} lines{where}]\n\n"


def _is_binary(output: Output) -> bool:
    text = output.head + output.tail
    odd = sum(text.count(character) for character in "\0\1\2\3\4\5\6\ufffd")
    return odd >= 16 and odd * 10 > len(text)


def _how_it_ended(end: ProcessEnd, output: Output, seconds: float) -> list[str]:
    notices = []
    if end.flooded:
        notices.append("ended because it printed more than 1 GiB")
    elif end.timed_out:
        notices.append(f"timed out after {seconds:g} s; the command and all that it started were ended")
    elif end.status < 0:
        notices.append(f"ended by {_signal_name(-end.status)}")
    elif end.status > 128:
        notices.append(f"exit code {end.status} ({_signal_name(end.status - 128)})")
    elif end.status:
        notices.append(f"exit code {end.status}")
    if notices and (prompt := _prompt(output)):
        notices.append(f"it seems to have waited for an answer to {prompt!r}, which nobody can give; use an option")
    return notices


def _signal_name(number: int) -> str:
    try:
        return f"signal {number}, {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def _prompt(output: Output) -> str:
    """The line without an end that stands last, if it reads like a question."""
    line = plain_text((output.tail or output.head)[-1000:]).rpartition("\n")[2].strip()
    return line if line and len(line) < 200 and _PROMPT.search(line) else ""


def _says_no(status: int, command: str) -> bool:
    """Whether exit code 1 is an answer (no match, not equal), going by the last command of the line."""
    if status != 1 or len(command) > 4_000:
        return False
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        for word in lexer:
            if word.strip("();<>|&\n"):
                words.append(word)
            elif words and not set(word) & set("<>"):
                if word in ("&&", "||") and words[0] != "cd":
                    # Which of the two ended with 1 cannot be told.
                    return False
                words = [] if word.strip("()\n") or "\n" in word else words
    except ValueError:
        return False
    program = next((word for word in words if "=" not in word and word != "!"), "")
    return os.path.basename(program) in _NO_ERROR_AT_1


def _line(end: ProcessEnd, output: Output) -> str:
    if end.timed_out:
        return "Timed out"
    if end.flooded:
        return "Ended: too much output"
    lines = f"{output.lines} line{'' if output.lines == 1 else 's'}" if output.size else "no output"
    if end.status:
        how = f"Ended by {_signal_name(-end.status)}" if end.status < 0 else f"Exit code {end.status}"
        return f"{how}, {lines}"
    first = plain_text(output.head.strip().partition("\n")[0])
    if output.lines <= 1 and first:
        return cut_line(first)
    return lines.capitalize()
