"""Searching files: one query, run by ripgrep where there is one, else by `tugline.tools.walk` in a process of its own.

Both print the same: names end with a NUL, lines have the name, a NUL, the number, `:` or `-`, and the text.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable
from typing import Literal

import anyio
import msgspec
from msgspec import Struct

from tugline.ports import Output, Process, ToolContext, WorkspaceError
from tugline.protocol.errors import ToolError

SECONDS = 30.0
KEEP = 2_000_000
"""Characters of output that are looked at."""
WIDTH = 500
"""Characters of a line that are shown."""
SKIPPED = (".git", ".hg", ".svn", ".jj")

Hides = Callable[[str, str], bool]
"""Whether a file, by its name and by what it really is, is not to be shown."""


def nothing_hidden(name: str, target: str) -> bool:
    """Shows all."""
    return False


Mode = Literal["files", "content", "files_with_matches", "count"]
_LINE = re.compile(r"(?P<path>[^\0]+)\0(?P<number>\d+)(?P<mark>[:-])(?P<text>[^\n]*)(?:\n|\Z)")
_COUNT = re.compile(r"(?P<path>[^\0]+)\0(?P<count>\d+)(?:\n|\Z)")
_WALK = "import sys; sys.path[:] = sys.argv.pop(1).split(':'); from tugline.tools.walk import main; sys.exit(main())"
_OLD_RIPGREP = ("unrecognized flag", "wasn't expected", "unexpected argument")


class Query(Struct, frozen=True, omit_defaults=True):
    """What to look for, below the folder it is run in. `globs` narrow down what git does not ignore anyway."""

    mode: Mode
    target: str = "./"
    pattern: str = ""
    globs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    type: str = ""
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0


class Hits(Struct, frozen=True):
    """What was printed. `whole`: nothing is missing at its end; `late`: because time ran out; `partial`: some files
    could not be read."""

    text: str
    whole: bool = True
    late: bool = False
    partial: bool = False


class Line(Struct, frozen=True):
    """A line that matches, or stands beside one. `path` is empty between groups."""

    path: str
    number: int
    text: str
    matches: bool


async def search(query: Query, folder: str, context: ToolContext) -> Hits:
    """Run the query; `ToolError` for what is wrong with it."""
    for program in _programs(query):
        try:
            status, output, stopped, late = await _run(program, query, folder, context)
        except WorkspaceError as error:
            if not os.path.isdir(folder):
                raise ToolError(str(error)) from None
            continue
        text = output.head + output.tail if output.whole else output.head
        if late and not text:
            raise ToolError(f"The search did not end within {SECONDS:.0f} s. Narrow it down with path, glob or type.")
        if stopped or late or status == 0:
            return Hits(text, output.whole and not stopped and not late, late)
        if status == 1 and not text:
            return Hits("")
        if status == 2 and not any(words in text for words in _OLD_RIPGREP):
            if text and "\0" not in text:
                raise ToolError(_complaint(text))
            return Hits(text, output.whole, partial=True)
        # Whatever that was, it was no search: an ancient version, a library that is missing.
    raise ToolError("Nothing to search with: ripgrep does not work here, and no Python interpreter could be started.")


def lines(text: str) -> list[Line]:
    """The lines of a `content` query."""
    found: list[Line] = []
    at = 0
    while at < len(text):
        if text.startswith("--\n", at):
            found.append(Line("", 0, "--", False))
            at += 3
            continue
        record = _LINE.match(text, at)
        if record is None:
            found += _remarks(text[at:])
            break
        remarks, path = _parted(record["path"])
        found += _remarks(remarks)
        found.append(Line(_shown(path), int(record["number"]), record["text"].rstrip("\r"), record["mark"] == ":"))
        at = record.end()
    return found


def names(text: str) -> list[str]:
    """The names of a `files` or `files_with_matches` query."""
    return [_shown(_parted(name)[1]) for name in text.split("\0") if name.startswith("./") or "\n./" in name]


def tallies(text: str) -> list[tuple[str, int]]:
    """Names and numbers of a `count` query."""
    return [(_shown(_parted(found["path"])[1]), int(found["count"])) for found in _COUNT.finditer(text)]


def quoted(path: str) -> str:
    """A path as it is shown: one with control characters in JSON's way."""
    return path if path.isprintable() else msgspec.json.encode(path.encode("utf-8", "replace").decode()).decode()


async def _run(program: list[str], query: Query, folder: str, context: ToolContext) -> tuple[int, Output, bool, bool]:
    scope = anyio.CancelScope()

    def watch(output: Output) -> None:
        if not output.whole:
            scope.cancel()

    stdin = _only(query.globs) if query.globs else None
    async with context.workspace.process(
        program, cwd=folder, stdin=stdin, timeout=SECONDS, spill=False, keep=KEEP // 2, on_output=watch
    ) as process:
        with scope:
            end = await process.wait()
            return end.status, process.output(), False, end.timed_out
        return _stopped(process)


def _stopped(process: Process) -> tuple[int, Output, bool, bool]:
    """There is more than anybody wants to see."""
    return 0, process.output(), True, False


def _programs(query: Query) -> list[list[str]]:
    found = [[path, *_arguments(query)] for path in _ripgreps()]
    if sys.executable:
        # It finds what this process found, wherever that came from, but nothing in the folder it runs in.
        path = os.pathsep.join(folder for folder in sys.path if folder.startswith("/"))
        found.append([sys.executable, "-I", "-W", "ignore", "-c", _WALK, path, msgspec.json.encode(query).decode()])
    return found


def _ripgreps() -> list[str]:
    """`rg` on the path (never one that lies relative to where we happen to be), else that of the wheel."""
    path = os.pathsep.join(folder for folder in os.get_exec_path() if folder.startswith("/"))
    beside = os.path.dirname(os.path.abspath(sys.executable)) if sys.executable else ""
    candidates = [shutil.which("rg", path=path), shutil.which("rg", path=beside) if beside else None]
    return list(dict.fromkeys(found for found in candidates if found))


def _arguments(query: Query) -> list[str]:
    arguments = ["--no-config", "--hidden", "--no-require-git", "--no-messages", "--color=never", "--null"]
    arguments += [f"--glob=!{name}" for name in SKIPPED]
    arguments += [f"--glob=!{glob}" for glob in query.without]
    if query.globs:
        # As an ignore file it ranks below .gitignore; as --glob it would bring back what git ignores.
        arguments.append("--ignore-file=/dev/stdin")
    if query.type:
        arguments.append(f"--type={query.type}")
    if query.mode in ("files", "files_with_matches"):
        arguments.append("--sortr=modified")
    else:
        arguments.append("--sort=path")
    if query.mode == "files":
        return [*arguments, "--files", "--", query.target]
    arguments += ["--engine=auto", "--with-filename", f"--regexp={query.pattern}"]
    if query.ignore_case:
        arguments.append("--ignore-case")
    if query.multiline:
        arguments += ["--multiline", "--multiline-dotall"]
    match query.mode:
        case "files_with_matches":
            arguments.append("--files-with-matches")
        case "count":
            arguments.append("--count")
        case _:
            arguments += ["--no-heading", "--line-number", f"--max-columns={WIDTH}", "--max-columns-preview"]
            arguments += [f"--before-context={query.before}", f"--after-context={query.after}"]
    return [*arguments, "--", query.target]


def _only(globs: tuple[str, ...]) -> bytes:
    """An ignore file that leaves only what matches one of the globs."""
    return "\n".join(["*", "!*/", *(f"!{glob}" for glob in globs), ""]).encode("utf-8", "replace")


def _complaint(text: str) -> str:
    """What ripgrep says of a wrong pattern, a type or a glob that it does not know."""
    plain = text.strip().removeprefix("rg: ")
    if "default regex engine error:" in plain:
        # Both engines complain; the first one says it better.
        plain = plain.split("~\n", 1)[-1].split("\n~", 1)[0]
    return plain[:2_000]


def _parted(path: str) -> tuple[str, str]:
    """Remarks that stand between records have no NUL at their end, and so get in front of the next name."""
    if path.startswith("./"):
        cut = path.rfind("binary file matches (found ")
        cut = cut if cut >= 0 else path.rfind("WARNING: stopped searching binary file")
        if cut < 0:
            return "", path
    start = path.rfind("\n./")
    return (path[:start], path[start + 1 :]) if start >= 0 else ("", path)


def _remarks(text: str) -> list[Line]:
    found: list[Line] = []
    for line in text.split("\n"):
        path, known, _ = line.partition(": binary file matches")
        if not known:
            path, known, _ = line.partition(": WARNING: stopped searching binary file")
        if known:
            found.append(Line(_shown(path), 0, "a binary file matches", True))
    return found


def _shown(path: str) -> str:
    return path.removeprefix("./")
