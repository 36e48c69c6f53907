"""Edit: exact text in a file, replaced by other text."""

from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, PathSubject, Result, Subject
from tugline.tools import diff
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.files import Place, aside, locate, plain_errors, read_known, write_back
from tugline.tools.replace import Replaced, Replacement, replace
from tugline.tools.text import Encoding, decode, encode, encoding_of


class OneEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement of several."""

    old_string: Annotated[str, Meta(description="The exact text to replace")]
    new_string: Annotated[str, Meta(description="The text to put in its place")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence, not just the only one")] = False


class EditInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What Edit takes."""

    file_path: Annotated[
        str, Meta(description="The file to change: an absolute path, or one from the working directory")
    ]
    old_string: Annotated[
        str | None, Meta(description="The exact text to replace; empty to create a file that does not exist")
    ] = None
    new_string: Annotated[str | None, Meta(description="The text to put in its place")] = None
    replace_all: Annotated[bool, Meta(description="Replace every occurrence, not just the only one")] = False
    edits: Annotated[
        tuple[OneEdit, ...] | None,
        Meta(
            description="Several replacements in this file, in place of the three fields above: all are made, or none"
        ),
    ] = None


class Edit(BuiltinTool[EditInput]):
    """Replaces text in one file."""

    name = "Edit"
    input = EditInput
    interrupt = "block"

    def parse(self, data: dict[str, object]) -> EditInput:
        """The typed input; either one replacement or several."""
        parsed = super().parse(data)
        if parsed.edits is not None:
            if not parsed.edits:
                raise ToolError("`edits` is empty: say at least one replacement")
            if parsed.old_string is not None or parsed.new_string is not None:
                raise ToolError("give either `old_string` and `new_string`, or `edits`, not both")
            return parsed
        for name in ("old_string", "new_string"):
            if getattr(parsed, name) is None:
                raise ToolError(f"`{name}` is missing (text)")
        return parsed

    def footprint(self, data: EditInput) -> Footprint:
        """It changes."""
        return Footprint.CHANGES

    def subjects(self, data: EditInput) -> tuple[Subject, ...]:
        """The file."""
        return (PathSubject(data.file_path, "edit"),)

    def title(self, data: EditInput) -> str:
        """The file."""
        return cut_line(f"Edit {data.file_path}")

    async def run(self, data: EditInput, context: ToolContext) -> Result:
        """Make the replacements, all or none."""
        place = locate(data.file_path, context)
        edits = _replacements(data)
        if len(edits) == 1 and not edits[0].old:
            return await self._create(edits[0].new, place, context)
        before, stat = await read_known(place, context, "edited")
        encoding = encoding_of(before)
        if encoding is None:
            raise ToolError(f"{place.name} is a binary file; only text can be edited.")
        text = decode(before, encoding)
        done = await aside(len(text), lambda: replace(text, edits))
        _, seen = await write_back(place, encode(done.text, encoding), context, stat)
        found = await aside(len(text), lambda: diff.hunks(text, done.text))
        added, removed = diff.counts(found)
        shown = Display(f"+{added} -{removed} lines", diff.unified(found), "diff")
        return Result(f"{_said(place, done)}\n{diff.numbered(found)}", shown, changes=(seen,))

    async def _create(self, content: str, place: Place, context: ToolContext) -> Result:
        """An empty `old_string`: a file that is not there yet, or has nothing in it."""
        with plain_errors():
            stat = await context.workspace.stat(place.name)
        if stat is not None and (stat.kind != "file" or stat.size):
            raise ToolError(f"{place.name} exists already: old_string must say which text of it is to be replaced.")
        _, seen = await write_back(place, encode(content, Encoding()), context, stat)
        found = diff.hunks("", content)
        shown = Display(f"created, +{diff.counts(found)[0]} lines", diff.unified(found), "diff")
        return Result(f"Created {place.name}.", shown, changes=(seen,))


def _replacements(data: EditInput) -> list[Replacement]:
    if data.edits is not None:
        return [Replacement(edit.old_string, edit.new_string, edit.replace_all) for edit in data.edits]
    return [Replacement(data.old_string or "", data.new_string or "", data.replace_all)]


def _said(place: Place, done: Replaced) -> str:
    places = f" in {done.count} places" if done.count > 1 else ""
    return " ".join([f"Changed {place.name}{places}.", *done.notes])
