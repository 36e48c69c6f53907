"""Grep: files by what they contain."""

import os.path
import re
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from tugline.ports import ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, PathSubject, Result, Subject
from tugline.rules.globs import matcher
from tugline.rules.paths import KERNEL
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.files import locate, missing, plain_errors, shown_path
from tugline.tools.search import (
    SECONDS,
    Hides,
    Hits,
    Line,
    Query,
    lines,
    names,
    nothing_hidden,
    quoted,
    search,
    tallies,
)

HEAD_LIMIT = 250
"""Entries without `head_limit`."""
CHARACTERS = 20_000
"""Of one result."""
CONTEXT_LIMIT = 1_000

Count = Annotated[int, Meta(ge=0)]


class GrepInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What Grep takes."""

    pattern: Annotated[str, Meta(description="The regular expression to look for")]
    path: Annotated[
        str | None, Meta(description="The file or folder to search in; the working directory if left out")
    ] = None
    glob: Annotated[
        str | None, Meta(description='Only files that match, such as "*.py" or "src/**/*.{ts,tsx}"; "!*.min.js": not')
    ] = None
    type: Annotated[str | None, Meta(description="Only files of this type: py, js, ts, rust, go, java, md, …")] = None
    output_mode: Annotated[
        Literal["content", "files_with_matches", "count"],
        Meta(description="What to show: matching lines, file names (newest first), or numbers of matching lines"),
    ] = "files_with_matches"
    after: Annotated[Count | None, Meta(description="Lines to show after each match (content)")] = msgspec.field(
        default=None, name="-A"
    )
    before: Annotated[Count | None, Meta(description="Lines to show before each match (content)")] = msgspec.field(
        default=None, name="-B"
    )
    around: Annotated[Count | None, Meta(description="Lines to show before and after each match (content)")] = (
        msgspec.field(default=None, name="-C")
    )
    numbers: Annotated[bool, Meta(description="Show line numbers (content)")] = msgspec.field(default=True, name="-n")
    ignore_case: Annotated[bool, Meta(description="Upper and lower case are the same")] = msgspec.field(
        default=False, name="-i"
    )
    multiline: Annotated[bool, Meta(description="The pattern may span lines, and . matches a newline")] = False
    head_limit: Annotated[
        Count | None, Meta(description="At most that many lines or files (default 250; 0: as many as fit)")
    ] = None
    offset: Annotated[int, Meta(ge=0, description="Leave out that many lines or files at the beginning")] = 0


class Grep(BuiltinTool[GrepInput]):
    """Searches in files. What `hides` names is left out, so that a rule for one file does not forbid the search."""

    name = "Grep"
    input = GrepInput
    filtered = True

    def __init__(self, hides: Hides = nothing_hidden) -> None:
        super().__init__()
        self._hides = hides

    def footprint(self, data: GrepInput) -> Footprint:
        """It reads."""
        return Footprint.READS

    def subjects(self, data: GrepInput) -> tuple[Subject, ...]:
        """Where it searches."""
        return (PathSubject(data.path or "."),)

    def title(self, data: GrepInput) -> str:
        """The pattern, and where."""
        where = " ".join(
            word for word in (f"in {data.path}" if data.path else "", data.glob or data.type or "") if word
        )
        return cut_line(f"Grep {data.pattern!r} {where}")

    async def run(self, data: GrepInput, context: ToolContext) -> Result:
        """Search."""
        if not data.pattern:
            raise ToolError("The pattern is empty; Glob finds files by name.")
        if not data.multiline and _has_line_end(data.pattern):
            raise ToolError("The pattern has a line end in it, but lines are searched one by one. Set `multiline`.")
        place = locate(data.path or ".", context)
        with plain_errors():
            stat = await context.workspace.stat(place.name)
        if stat is None:
            raise await missing(place, context, "file or folder")
        if stat.kind == "other":
            raise ToolError(f"{place.name} is a device, a pipe or the like; it cannot be searched.")
        if any(place.target == top or place.target.startswith(f"{top}/") for top in KERNEL):
            raise ToolError(f"{place.name}: files below /proc, /dev and /sys are not searched.")
        if stat.kind == "folder":
            folder, target, base = place.target, "./", place.name
        else:
            folder, name = os.path.split(place.target)
            target, base = f"./{name}", os.path.dirname(place.name)
        wanted, unwanted = _split_globs(data.glob or "")
        if folder == "/":
            unwanted += tuple(f"{top}/**" for top in KERNEL)
        hits = await search(_query(data, target, wanted, unwanted), folder, context)
        fits = matcher(wanted) if wanted and target == "./" else None

        def kept(path: str) -> bool:
            if fits is not None and not fits(path):
                return False
            return target != "./" or not self._hides(os.path.join(base, path), os.path.join(folder, path))

        def shown(path: str) -> str:
            name = os.path.basename(place.name) if target != "./" else path
            return quoted(shown_path(os.path.join(base, name), context.state.cwd))

        match data.output_mode:
            case "content":
                entries = _content(hits, data, kept, shown)
                unit = "line"
            case "count":
                found = [(path, count) for path, count in tallies(hits.text) if kept(path)]
                entries = [f"{shown(path)}:{count}" for path, count in found]
                unit = "file"
            case _:
                entries = [shown(path) for path in names(hits.text) if kept(path)]
                unit = "file"
        return _answer(entries, unit, data, hits)


def _query(data: GrepInput, target: str, wanted: tuple[str, ...], unwanted: tuple[str, ...]) -> Query:
    around = data.around or 0
    before = data.before if data.before is not None else around
    after = data.after if data.after is not None else around
    return Query(
        data.output_mode,
        target=target,
        pattern=data.pattern,
        globs=wanted,
        without=unwanted,
        type=data.type or "",
        ignore_case=data.ignore_case,
        multiline=data.multiline,
        before=min(before, CONTEXT_LIMIT),
        after=min(after, CONTEXT_LIMIT),
    )


def _content(hits: Hits, data: GrepInput, kept: Callable[[str], bool], shown: Callable[[str], str]) -> list[str]:
    entries: list[str] = []
    for line in lines(hits.text):
        if not line.path:
            if entries and entries[-1] != "--":
                entries.append("--")
        elif kept(line.path):
            entries.append(_entry(line, shown(line.path), numbers=data.numbers))
    return entries[:-1] if entries and entries[-1] == "--" else entries


def _entry(line: Line, path: str, *, numbers: bool) -> str:
    if line.number == 0:
        return f"{path}: {line.text}"
    mark = ":" if line.matches else "-"
    return f"{path}{mark}{line.number}{mark}{line.text}" if numbers else f"{path}{mark}{line.text}"


def _answer(entries: list[str], unit: str, data: GrepInput, hits: Hits) -> Result:
    """The part that is asked for, within the limits, and what is not shown."""
    unread = "\n[Some files could not be read.]" if hits.partial else ""
    if not entries:
        return Result(f"No matches (files that git ignores are left out).{unread}", Display("no matches"))
    if data.offset >= len(entries):
        return Result(f"There are only {_counted(len(entries), unit)}; offset {data.offset} is past the end.{unread}")
    limit = HEAD_LIMIT if data.head_limit is None else data.head_limit or len(entries)
    picked: list[str] = []
    room = CHARACTERS
    for entry in entries[data.offset : data.offset + limit]:
        room -= len(entry) + 1
        if room < 0 and picked:
            break
        picked.append(entry)
    end = data.offset + len(picked)
    total = _counted(len(entries), unit) if hits.whole else f"over {_counted(len(entries), unit)}"
    text = "\n".join(picked)
    if end < len(entries) or not hits.whole:
        text += f"\n\n[{data.offset + 1:,} to {end:,} of {total}; go on with offset {end}, or narrow the search.]"
    if hits.late:
        text += f"\n[The search was ended after {SECONDS:.0f} s; there may be more.]"
    return Result(text + unread, Display(total, text))


def _counted(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'s' if count != 1 else ''}"


def _has_line_end(pattern: str) -> bool:
    """Whether it wants a line to end and another to follow. `[^\\n]` does not."""
    plain = re.sub(r"\\[^n]", "", pattern, flags=re.DOTALL)
    return bool(re.search(r"\n|\\n", re.sub(r"\[\^?\]?[^]]*\]", "", plain)))


def _split_globs(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The globs that files must match one of, and those they must not match. Several are separated by spaces, or by
    commas outside braces."""
    words: list[str] = [""]
    depth = 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if letter.isspace() or (letter == "," and depth <= 0):
            words.append("")
        else:
            words[-1] += letter
    globs = [word for word in words if word]
    wanted = tuple(glob for glob in globs if not glob.startswith("!"))
    return wanted, tuple(glob[1:] for glob in globs if glob.startswith("!") and glob[1:])
