"""Read: a file as the model can use it. Text with line numbers, pictures, PDF, notebooks."""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import FileStat, ToolContext, WorkspaceError
from tugline.protocol.blocks import Text
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Content, Display, FileSeen, Footprint, PathSubject, Result, Seen, Subject
from tugline.tools import media, notebook
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.files import Place, aside, fingerprint, locate, missing, shown_path
from tugline.tools.text import Encoding, LineScanner, encoding_of, encoding_of_start

LINES = 2_000
"""Lines of text without `limit`."""
WIDTH = 2_000
"""Characters of a line."""
TOKENS = 25_000
"""Estimated tokens of one result."""
WHOLE = 16 * 1024 * 1024
"""Bytes up to which a file is looked at whole; a larger one is read up to the lines that are wanted."""
_PIECE = 4 * 1024 * 1024
_PER_TOKEN = 4
_MOST = TOKENS * _PER_TOKEN // 8 + 1
"""Lines that are too many in any case: each is shown with a number, a tab and its end. What is collected must not
depend on the limit that a model thought of."""


class ReadInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What Read takes."""

    file_path: Annotated[str, Meta(description="The file to read: an absolute path, or one from the working directory")]
    offset: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="The line (notebooks: cell) to begin at, counted from 1")
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="How many lines (notebooks: cells) to read")
    ] = None
    pages: Annotated[str | None, Meta(description='PDF only: the pages to read, such as "3" or "1-5", 20 at most')] = (
        None
    )


class Read(BuiltinTool[ReadInput]):
    """Reads one file."""

    name = "Read"
    input = ReadInput
    # What is too much is an error that says how to read less; nothing is cut silently afterwards.
    result_limit = TOKENS * _PER_TOKEN + 20_000

    def footprint(self, data: ReadInput) -> Footprint:
        """It reads."""
        return Footprint.READS

    def subjects(self, data: ReadInput) -> tuple[Subject, ...]:
        """The file."""
        return (PathSubject(data.file_path),)

    def title(self, data: ReadInput) -> str:
        """The file, and the part of it."""
        if data.pages:
            return cut_line(f"Read {data.file_path} (pages {data.pages})")
        if data.offset or data.limit:
            first = max(data.offset or 1, 1)
            part = f"{first}-{first + data.limit - 1}" if data.limit else f"from {first}"
            return cut_line(f"Read {data.file_path} ({part})")
        return cut_line(f"Read {data.file_path}")

    async def run(self, data: ReadInput, context: ToolContext) -> Result:
        """Read it."""
        place = locate(data.file_path, context)
        try:
            start, stat = await context.workspace.read(place.name, limit=WHOLE + 1)
        except WorkspaceError as error:
            raise await _refused(error, place, context) from None
        kind = media.kind_of(start)
        if data.pages is not None and kind != "pdf":
            raise ToolError(f"{place.name} is no PDF: `pages` does not apply.")
        if kind is not None:
            return await self._read_media(kind, data, place, context, start, stat)
        if len(start) > WHOLE:
            return await self._read_huge(data, place, context, start, stat)
        return await self._read_whole(data, place, context, start, stat)

    async def _read_whole(
        self, data: ReadInput, place: Place, context: ToolContext, content: bytes, stat: FileStat
    ) -> Result:
        digest = await aside(len(content), lambda: fingerprint(content))
        view = f"{data.offset or 1}:{data.limit or ''}"
        seen = FileSeen(stat.mtime_ns, stat.size, digest, view=view)
        if _known(seen, place, context):
            return _unchanged(place, seen, context)
        if not content:
            return Result(
                f"The file {place.name} exists but is empty.",
                Display("empty file"),
                changes=(Seen(place.target, seen),),
            )
        if notebook.is_notebook(place.name, content):
            shown = await aside(
                len(content), lambda: notebook.show(content, data.offset or 1, data.limit, context.model.images)
            )
            _within_limit(shown.content, "Read fewer cells with offset and limit.")
            return _result(shown.content, place, seen, shown.line, whole=shown.whole)
        text, line, whole = await aside(len(content), lambda: _text(content, data, place))
        return _result(text, place, seen, line, whole=whole)

    async def _read_huge(
        self, data: ReadInput, place: Place, context: ToolContext, start: bytes, stat: FileStat
    ) -> Result:
        """Only as far as the lines that are wanted. Whether it changes is seen by size and time alone."""
        first, count = max(data.offset or 1, 1), min(data.limit or LINES, _MOST)
        seen = FileSeen(stat.mtime_ns, stat.size, "", whole=False, view=f"{first}:{count}")
        if _known(seen, place, context):
            return _unchanged(place, seen, context)
        encoding = encoding_of_start(start)
        if encoding is None:
            raise _binary(place, stat.size)
        scanner = LineScanner(encoding, first, count, WIDTH)
        at, piece = 0, start
        while piece:
            at += len(piece)
            await aside(len(piece), partial(scanner.feed, piece))
            if scanner.done:
                break
            try:
                piece, _ = await context.workspace.read(place.name, offset=at, limit=_PIECE)
            except WorkspaceError as error:
                raise await _refused(error, place, context) from None
        if not scanner.done:
            scanner.end()
        if not scanner.lines:
            raise ToolError(f"{place.name} has only {scanner.skipped:,} lines; line {first:,} is past its end.")
        text = _numbered(scanner.lines, first)
        _within_limit(text, _fewer_lines(scanner.lines))
        last = first + len(scanner.lines) - 1
        note = f"\n\n[Lines {first:,} to {last:,} of a file of {stat.size:,} bytes; go on with offset {last + 1}.]"
        return _result(text + note, place, seen, f"{len(scanner.lines):,} lines", whole=False)

    async def _read_media(
        self, kind: str, data: ReadInput, place: Place, context: ToolContext, start: bytes, stat: FileStat
    ) -> Result:
        if stat.size > media.LIMIT:
            raise ToolError(f"{place.name} has {stat.size:,} bytes; a file of this kind may have {media.LIMIT:,}.")
        content = start
        if len(start) > WHOLE:
            try:
                content, stat = await context.workspace.read(place.name)
            except WorkspaceError as error:
                raise await _refused(error, place, context) from None
        digest = await aside(len(content), lambda: fingerprint(content))
        sees = context.model.documents if kind == "pdf" else context.model.images
        view = f"{kind}:{data.pages or ''}:{sees}"
        seen = FileSeen(stat.mtime_ns, stat.size, digest, view=view)
        if _known(seen, place, context):
            return _unchanged(place, seen, context)
        if kind == "pdf":
            shown = await media.show_pdf(content, place.name, data.pages, as_document=sees)
        else:
            shown = await media.show_image(content, kind, place.name, visible=sees)
        _within_limit(shown.content, "Read fewer pages at once with `pages`.")
        return _result(shown.content, place, seen, shown.line, whole=True)


def _text(content: bytes, data: ReadInput, place: Place) -> tuple[str, str, bool]:
    """The wanted lines with their numbers, a line for the person, and whether that is all of it."""
    encoding = encoding_of(content)
    if encoding is None:
        raise _binary(place, len(content))
    first = max(data.offset or 1, 1)
    total = _line_count(content, encoding)
    if first > total:
        raise ToolError(f"{place.name} has only {total:,} lines; line {first:,} is past its end.")
    scanner = LineScanner(encoding, first, min(data.limit or LINES, _MOST), WIDTH)
    scanner.feed(content)
    if not scanner.done:
        scanner.end()
    last = first + len(scanner.lines) - 1
    text = _numbered(scanner.lines, first)
    _within_limit(text, _fewer_lines(scanner.lines))
    if last < total:
        text += f"\n\n[Lines {first:,} to {last:,} of {total:,}; go on with offset {last + 1}.]"
    count = len(scanner.lines)
    return text, f"{count:,} line{'s' if count != 1 else ''}", first == 1 and last == total


def _line_count(content: bytes, encoding: Encoding) -> int:
    if encoding.name in ("utf-8", "latin-1"):
        body = content[len(encoding.bom) :]
        return body.count(b"\n") + (not body.endswith(b"\n") and bool(body))
    text = content[len(encoding.bom) :].decode(encoding.name)
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, start=first))


def _fewer_lines(lines: list[str]) -> str:
    room = TOKENS * _PER_TOKEN
    fit = 0
    for line in lines:
        room -= len(line) + 8
        if room < 0:
            break
        fit += 1
    return (
        f"Read a part with offset and limit (about {max(fit, 1):,} lines fit from here), or look for what matters with "
        "Grep."
    )


def _within_limit(content: Content, advice: str) -> None:
    parts = (Text(content),) if isinstance(content, str) else content
    tokens = sum(len(part.text) for part in parts if isinstance(part, Text)) // _PER_TOKEN
    if tokens > TOKENS:
        raise ToolError(f"That is about {tokens:,} tokens at least, more than the {TOKENS:,} of one call. {advice}")


def _known(seen: FileSeen, place: Place, context: ToolContext) -> bool:
    before = context.state.files.get(place.target)
    if before is None or before.view != seen.view or before.size != seen.size or before.digest != seen.digest:
        return False
    return bool(seen.digest) or before.mtime_ns == seen.mtime_ns


def _unchanged(place: Place, seen: FileSeen, context: ToolContext) -> Result:
    before = context.state.files[place.target]
    kept = FileSeen(seen.mtime_ns, seen.size, seen.digest, before.whole, seen.view)
    text = f"{place.name} is unchanged since it was last read; what was shown then still holds."
    return Result(text, Display("unchanged"), changes=(Seen(place.target, kept),))


def _result(content: Content, place: Place, seen: FileSeen, line: str, *, whole: bool) -> Result:
    known = FileSeen(seen.mtime_ns, seen.size, seen.digest, whole, seen.view)
    return Result(content, Display(line), changes=(Seen(place.target, known),))


def _binary(place: Place, size: int) -> ToolError:
    return ToolError(
        f"{place.name} is a binary file ({size:,} bytes), not text. A shell command such as file, xxd or strings can "
        "look into it."
    )


async def _refused(error: WorkspaceError, place: Place, context: ToolContext) -> ToolError:
    if error.kind == "missing":
        return await missing(place, context)
    if error.kind == "folder":
        shown = shown_path(place.name, context.state.cwd)
        return ToolError(f"{place.name} is a folder. List it with Glob (path {shown}, pattern *) or with ls in Bash.")
    return ToolError(str(error))
