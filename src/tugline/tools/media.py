"""Pictures and PDF, brought into a form and size that a model takes."""

import base64
import io
import logging
import struct
import zlib
from typing import Any

import anyio
import anyio.to_thread
from msgspec import Struct

from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Content

LIMIT = 64 * 1024 * 1024
"""Bytes of a file that is looked at."""
EDGE = 1_568
"""Pixels of the longer edge that a picture keeps."""
PIXELS = 60_000_000
"""A picture with more is not opened: it would take too much memory."""
IMAGE_BYTES = 3_750_000
"""Bytes of a picture as it is sent; a third more in base64."""
DOCUMENT_BYTES = 10 * 1024 * 1024
PAGES_UNASKED = 10
PAGES_AT_ONCE = 20
PDF_SECONDS = 60.0

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"%PDF-", "pdf"),
)
_PDF_TROUBLE = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError, ArithmeticError,
    AssertionError, NotImplementedError, zlib.error, struct.error, ImportError,
)  # fmt: skip


class Shown(Struct, frozen=True):
    """What the model gets, a line for the person, and whether it is all of the file."""

    content: Content
    line: str
    whole: bool = True


class Fitted(Struct, frozen=True):
    """A picture that can be sent, and how large it was."""

    media_type: str
    data: bytes
    size: tuple[int, int]
    was: tuple[int, int]

    def block(self) -> Image:
        """As part of a message."""
        return Image(self.media_type, base64.b64encode(self.data).decode())


def kind_of(start: bytes) -> str | None:
    """`png`, `jpeg`, `gif`, `webp` or `pdf` by the first bytes; `None` for anything else."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "webp"
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), None)


async def show_image(content: bytes, kind: str, name: str, *, visible: bool) -> Shown:
    """The picture, small enough; a note for a model that sees none."""
    try:
        fitted = await anyio.to_thread.run_sync(lambda: fit_image(content, kind), abandon_on_cancel=True)
    except ValueError as error:
        raise ToolError(f"{name} cannot be shown: {error}.") from None
    width, height = fitted.was
    line = f"{kind.upper()} picture, {width} x {height}"
    if not visible:
        return Shown(f"{name} is a {line}. This model cannot see pictures.", line)
    if fitted.size == fitted.was:
        return Shown((fitted.block(),), line)
    note = f"[Shown at {fitted.size[0]} x {fitted.size[1]}; the file has {width} x {height} pixels.]"
    return Shown((fitted.block(), Text(note)), line)


def fit_image(content: bytes, kind: str) -> Fitted:
    """Check that the picture can be decoded, and make it smaller where it has to be; `ValueError` says why not.

    Decoding it is not only for the size: a broken one would be refused by the provider with the whole conversation.
    """
    from PIL import Image as Pictures  # noqa: PLC0415  # imported here: start-up cost
    from PIL import ImageOps  # noqa: PLC0415  # imported here: start-up cost

    try:
        picture = _open(content, kind)
        was = picture.size
        if was[0] * was[1] > PIXELS:
            raise ValueError(f"{was[0]} x {was[1]} pixels are too many")
        if kind == "jpeg" and max(was) > 2 * EDGE:
            picture.draft("RGB", (EDGE, EDGE))
        picture.load()
        if max(was) <= EDGE and len(content) <= IMAGE_BYTES and picture.mode != "CMYK":
            return Fitted(f"image/{kind}", content, was, was)
        picture = ImageOps.exif_transpose(picture)
        if picture.mode in ("P", "PA", "CMYK", "LAB", "HSV", "YCbCr"):
            picture = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
        picture.thumbnail((EDGE, EDGE), Pictures.Resampling.LANCZOS)
        return _encoded(picture, kind, was)
    except ValueError:
        raise
    except (OSError, SyntaxError, EOFError, struct.error, zlib.error, IndexError, KeyError, TypeError) as error:
        why = f" ({error})" if isinstance(error, OSError) else ""
        raise ValueError(f"it is no whole {kind.upper()} picture{why}") from None


def _open(content: bytes, kind: str) -> Any:
    # The classes themselves: `Image.open` warns about large pictures, through machinery that all threads share.
    file = io.BytesIO(content)
    match kind:
        case "png":
            from PIL.PngImagePlugin import PngImageFile  # noqa: PLC0415  # imported here: start-up cost

            return PngImageFile(file)
        case "jpeg":
            from PIL.JpegImagePlugin import JpegImageFile  # noqa: PLC0415  # imported here: start-up cost

            return JpegImageFile(file)
        case "gif":
            from PIL.GifImagePlugin import GifImageFile  # noqa: PLC0415  # imported here: start-up cost

            return GifImageFile(file)
        case _:
            from PIL.WebPImagePlugin import WebPImageFile  # noqa: PLC0415  # imported here: start-up cost

            return WebPImageFile(file)


def _encoded(picture: Any, kind: str, was: tuple[int, int]) -> Fitted:
    if kind != "jpeg":
        data = _saved(picture, "PNG")
        if len(data) <= IMAGE_BYTES:
            return Fitted("image/png", data, picture.size, was)
    # 1,568 pixels square at this quality stay far below the limit.
    return Fitted("image/jpeg", _saved(picture.convert("RGB"), "JPEG", quality=80), picture.size, was)


def _saved(picture: Any, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


async def show_pdf(content: bytes, name: str, pages: str | None, *, as_document: bool) -> Shown:
    """The pages that are asked for: as a document where the model reads such, else their text."""
    try:
        with anyio.fail_after(PDF_SECONDS):
            return await anyio.to_thread.run_sync(
                lambda: _pdf(content, name, pages, as_document), abandon_on_cancel=True
            )
    except TimeoutError:
        raise ToolError(f"{name} could not be read within {PDF_SECONDS:.0f} s; try fewer pages.") from None


def _pdf(content: bytes, name: str, pages: str | None, as_document: bool) -> Shown:
    from pypdf import PdfReader  # noqa: PLC0415  # imported here: start-up cost
    from pypdf.errors import PyPdfError  # noqa: PLC0415  # imported here: start-up cost

    log = logging.getLogger("pypdf")
    if not log.handlers:
        # Without any handler, its complaints about broken files would go to the terminal.
        log.addHandler(logging.NullHandler())
    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ToolError(f"{name} is protected by a password.")
        count = len(reader.pages)
        wanted = _wanted(pages, count, name)
        line = f"PDF, {len(wanted)} of {count} page{'s' if count != 1 else ''}"
        whole = len(wanted) == count
        if as_document:
            data = content if whole and not reader.is_encrypted else _excerpt(reader, wanted)
            if len(data) <= DOCUMENT_BYTES:
                title = name.rsplit("/", 1)[-1]
                document = Document("application/pdf", base64.b64encode(data).decode(), title, len(wanted))
                return Shown((document,), line, whole)
        texts = [f"[Page {number} of {count}]\n{_page_text(reader, number)}" for number in wanted]
        return Shown("\n\n".join(texts), line, whole)
    except (PyPdfError, *_PDF_TROUBLE) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ToolError(f"{name} cannot be read as a PDF: {reason}") from None


def _page_text(reader: Any, number: int) -> str:
    text = str(reader.pages[number - 1].extract_text() or "").strip()
    return text or "(no text on this page: it may be a scan or a drawing)"


def _excerpt(reader: Any, wanted: list[int]) -> bytes:
    from pypdf import PdfWriter  # noqa: PLC0415  # imported here: start-up cost

    writer = PdfWriter()
    for number in wanted:
        writer.add_page(reader.pages[number - 1])
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _wanted(pages: str | None, count: int, name: str) -> list[int]:
    if count == 0:
        raise ToolError(f"{name} has no pages.")
    if pages is None:
        if count > PAGES_UNASKED:
            raise ToolError(
                f'{name} has {count} pages. Say which to read with `pages`, such as "1-{PAGES_UNASKED}"; '
                f"{PAGES_AT_ONCE} at most at once."
            )
        return list(range(1, count + 1))
    wanted: list[int] = []
    for part in pages.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        if not first.isdecimal() or not (last.isdecimal() or (dash and not last) or not dash):
            raise ToolError(f'`pages` must be like "3", "1-5" or "2,4-6", not {pages!r}.')
        end = int(last) if last.isdecimal() else count if dash else int(first)
        if not 1 <= int(first) <= end:
            raise ToolError(f"`pages` counts from 1 upwards; {part.strip()!r} does not.")
        if int(first) > count:
            raise ToolError(f"{name} has only {count} pages; there is no page {int(first)}.")
        wanted += range(int(first), min(end, count) + 1)
        if len(wanted) > PAGES_AT_ONCE:
            raise ToolError(f"{pages!r} are more than {PAGES_AT_ONCE} pages; read them in several calls.")
    return wanted
