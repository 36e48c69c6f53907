"""Glob: files by name, the newest first."""

import os.path
from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, PathSubject, Result, Subject
from tugline.rules.globs import expand_braces, matcher, search_base, split_base
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.files import locate, missing, plain_errors, shown_path
from tugline.tools.search import SECONDS, Hides, Query, names, nothing_hidden, quoted, search

LIMIT = 200
"""Files that are named."""


class GlobInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What Glob takes."""

    pattern: Annotated[str, Meta(description='The glob, such as "**/*.py" or "src/**/*.{ts,tsx}"')]
    path: Annotated[str | None, Meta(description="The folder to look in; the working directory if left out")] = None


class Glob(BuiltinTool[GlobInput]):
    """Finds files by name."""

    name = "Glob"
    input = GlobInput
    filtered = True

    def __init__(self, hides: Hides = nothing_hidden) -> None:
        super().__init__()
        self._hides = hides

    def footprint(self, data: GlobInput) -> Footprint:
        """It reads."""
        return Footprint.READS

    def subjects(self, data: GlobInput) -> tuple[Subject, ...]:
        """The folder that is looked through."""
        return (PathSubject(search_base(data.pattern, data.path or ".")),)

    def title(self, data: GlobInput) -> str:
        """The glob, and where."""
        return cut_line(f"Glob {data.pattern}" + (f" in {data.path}" if data.path else ""))

    async def run(self, data: GlobInput, context: ToolContext) -> Result:
        """Find them."""
        if not data.pattern.strip():
            raise ToolError("The pattern is empty.")
        rest = split_base(data.pattern)[1] or "*"
        place = locate(search_base(data.pattern, data.path or "."), context)
        with plain_errors():
            stat = await context.workspace.stat(place.name)
        if stat is None:
            raise await missing(place, context, "folder")
        if stat.kind != "folder":
            raise ToolError(f"{place.name} is not a folder; Read shows a file, Grep searches in one.")
        glob = rest if rest == data.pattern and "/" not in rest else f"/{rest}"
        globs = tuple(expand_braces(glob))
        fits = matcher(globs)
        hits = await search(Query("files", globs=globs), place.target, context)
        found = [
            name
            for name in names(hits.text)
            if fits(name) and not self._hides(os.path.join(place.name, name), os.path.join(place.target, name))
        ]
        if not found:
            text = f"No files match {cut_line(data.pattern)} in {place.name} (files that git ignores are left out)."
            if "[" in data.pattern:
                text += r" A bracket in a name is written \[ and \], for [ab] stands for one letter."
            return Result(text, Display("no files"))
        shown = [quoted(shown_path(os.path.join(place.name, name), context.state.cwd)) for name in found[:LIMIT]]
        count = f"{len(found):,} file{'s' if len(found) != 1 else ''}" if hits.whole else f"over {len(found):,} files"
        text = "\n".join(shown)
        if len(found) > LIMIT:
            text += f"\n\n[The {LIMIT} newest of {count}; a narrower pattern or path shows the others.]"
        if hits.late:
            text += f"\n[The search was ended after {SECONDS:.0f} s; there may be more.]"
        return Result(text, Display(count, text))
