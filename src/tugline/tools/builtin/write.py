"""Write: a whole file, new or in place of what was there."""

from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import FileStat, ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, PathSubject, Result, Subject
from tugline.tools import diff
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.files import Place, aside, locate, plain_errors, read_known, write_back
from tugline.tools.text import Encoding, decode, encode, encoding_of


class WriteInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What Write takes."""

    file_path: Annotated[
        str, Meta(description="The file to write: an absolute path, or one from the working directory")
    ]
    content: Annotated[str, Meta(description="All that the file shall hold")]


class Write(BuiltinTool[WriteInput]):
    """Writes one file."""

    name = "Write"
    input = WriteInput
    interrupt = "block"

    def footprint(self, data: WriteInput) -> Footprint:
        """It changes."""
        return Footprint.CHANGES

    def subjects(self, data: WriteInput) -> tuple[Subject, ...]:
        """The file."""
        return (PathSubject(data.file_path, "edit"),)

    def title(self, data: WriteInput) -> str:
        """The file."""
        return cut_line(f"Write {data.file_path}")

    async def run(self, data: WriteInput, context: ToolContext) -> Result:
        """Write it."""
        place = locate(data.file_path, context)
        if place.name.rstrip("/") == "" or data.file_path.endswith("/"):
            raise ToolError(f"{data.file_path} names a folder, not a file.")
        with plain_errors():
            stat = await context.workspace.stat(place.name)
        if stat is None:
            return await self._create(data, place, context)
        if stat.kind == "folder":
            raise ToolError(f"{place.name} is a folder; give the path of a file.")
        if stat.kind != "file":
            raise ToolError(f"{place.name} is a device, a pipe or the like, not a regular file.")
        if stat.size == 0 and place.target not in context.state.files:
            # Nothing can be lost.
            return await self._over(data, place, context, b"", stat)
        before, stat = await read_known(place, context, "overwritten")
        return await self._over(data, place, context, before, stat)

    async def _create(self, data: WriteInput, place: Place, context: ToolContext) -> Result:
        content = encode(data.content, Encoding())
        _, seen = await write_back(place, content, context, None)
        count = data.content.count("\n") + (not data.content.endswith("\n") and bool(data.content))
        words = f"{count:,} line{'s' if count != 1 else ''}"
        found = await aside(len(content), lambda: diff.hunks("", data.content))
        shown = Display(f"created, {words}", diff.unified(found), "diff")
        return Result(f"Created {place.name} ({words}).", shown, changes=(seen,))

    async def _over(
        self, data: WriteInput, place: Place, context: ToolContext, before: bytes, stat: FileStat
    ) -> Result:
        old, new, content, notes = _as_the_file_is(before, data.content)
        _, seen = await write_back(place, content, context, stat)
        if old is None:
            return Result(
                f"Wrote {place.name} in place of a binary file.", Display("replaced a binary file"), changes=(seen,)
            )
        found = await aside(len(before) + len(content), lambda: diff.hunks(old, new))
        added, removed = diff.counts(found)
        said = "".join(f" {note}" for note in notes)
        if not found:
            return Result(f"Wrote {place.name}; it held the same before.{said}", Display("no change"), changes=(seen,))
        shown = Display(f"+{added} -{removed} lines", diff.unified(found), "diff")
        return Result(f"Wrote {place.name}.{said}\n{diff.numbered(found)}", shown, changes=(seen,))


def _as_the_file_is(before: bytes, content: str) -> tuple[str | None, str, bytes, list[str]]:
    """Old and new text, and the new bytes with the line ends and the encoding that the file has; and what to say."""
    encoding = encoding_of(before)
    if encoding is None:
        return None, content, encode(content, Encoding()), []
    old = decode(before, encoding)
    notes: list[str] = []
    returns = old.count("\r\n")
    if returns and 2 * returns > old.count("\n") and "\n" in content and "\r\n" not in content:
        content = content.replace("\n", "\r\n")
        notes.append("Its CRLF line ends were kept.")
    if encoding.name == "latin-1" and any(ord(character) > 255 for character in content):
        encoding = Encoding()
        notes.append("It was Latin-1, which cannot hold the new text: it is UTF-8 now.")
    elif encoding.bom or encoding.name not in ("utf-8", "latin-1"):
        notes.append(f"Its encoding ({encoding.name} with byte order mark) was kept.")
    content = content.removeprefix("\ufeff") if encoding.bom else content
    return old, content, encode(content, encoding), notes
