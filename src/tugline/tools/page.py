"""From what a server sent to text: decoding, HTML to Markdown, PDF.

Conversion runs in a process of its own (`python -m tugline.tools.page`), as a hostile page can make any parser slow: it
has limits for time and memory, and can be ended.
"""

import codecs
import html.parser
import io
import os
import re
import resource
import signal
import subprocess
import sys
from types import FrameType
from urllib.parse import urljoin

import anyio

TEXT_LIMIT = 100_000
"""Characters of a page that are used."""

_MARKUP_LIMIT = 1_000_000
_PAGES = 200
_SECONDS = 6
_MEMORY = 1536 * 1024 * 1024
_REFUSED = 3

_TEXT_TYPES = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml)|application/(x-)?(javascript|ecmascript|typescript|ndjson|yaml|toml|sh"
    r"|shellscript|sql|graphql|jsonl|x-sh|x-python|x-php)"
)
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_NO_PAGE_ENCODING = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf-7"})
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_UNSHOWN = ("script", "style", "noscript", "template", "svg", "iframe", "object")


class PageError(Exception):
    """A page that cannot be turned into text; says why."""


def kind_of(content_type: str, body: bytes) -> str:
    """`html`, `pdf`, `text`, or nothing for what is none of these."""
    media = content_type.partition(";")[0].strip().lower()
    start = body[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"%pdf-"):
        return "pdf"
    if media in ("text/html", "application/xhtml+xml"):
        return "html"
    if _TEXT_TYPES.fullmatch(media):
        return "text"
    if media not in ("", "application/octet-stream", "binary/octet-stream"):
        return ""
    if start.startswith((b"<!doctype html", b"<html")):
        return "html"
    return "text" if b"\0" not in body and _is_utf8(body) else ""


def decode(body: bytes, content_type: str, *, markup: bool = False) -> str:
    """The text: by its mark, the header, the page itself; else UTF-8, or what browsers take where it is not that."""
    for bom, name in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(name, "replace")
    said = re.search(r"""charset\s*=\s*["']?([^\s;"']+)""", content_type, re.IGNORECASE)
    found = _META_CHARSET.search(body[:2048]) if markup and not said else None
    name = said[1] if said else found[1].decode("ascii") if found else ""
    if name and (usable := _codec(name)):
        return body.decode(usable, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("cp1252" if markup else "utf-8", "replace")


async def page_text(body: bytes, content_type: str, url: str) -> str:
    """At most `TEXT_LIMIT` characters of the page's text; `PageError` if it has none that can be read."""
    kind = kind_of(content_type, body)
    if not kind:
        media = content_type.partition(";")[0].strip() or "data of an unknown kind"
        raise PageError(f"it is {media}, {len(body)} bytes, which cannot be read as text")
    if kind == "text":
        return cut_text(decode(body, content_type))
    if kind == "html":
        body = decode(body, content_type, markup=True).encode("utf-8", "replace")
    done = await anyio.run_process(
        [sys.executable, "-P", "-m", "tugline.tools.page", kind, url],
        input=body,
        check=False,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,
    )
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode == 0:
        return text
    raise PageError(text if done.returncode == _REFUSED and text else f"its {kind.upper()} could not be read")


def cut_text(text: str) -> str:
    """At most `TEXT_LIMIT` characters, and a word of it where some are missing."""
    if len(text) <= TEXT_LIMIT:
        return text
    return f"{text[:TEXT_LIMIT]}\n\n[the page goes on for {len(text) - TEXT_LIMIT} more characters]"


def _codec(name: str) -> str:
    try:
        found = codecs.lookup(name.strip().lower())
        b"a".decode(found.name, "replace")
    except (LookupError, ValueError, UnicodeError):
        return ""
    if found.name in ("iso8859-1", "ascii"):
        return "cp1252"
    return "" if found.name in _NO_PAGE_ENCODING else found.name


def _is_utf8(body: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True


# -- in the process of its own -------------------------------------------------------------------------------------


def html_to_markdown(markup: str, url: str) -> str:
    """The page as Markdown, its links made absolute."""
    from bs4 import BeautifulSoup  # noqa: PLC0415  # imported here: start-up cost
    from markdownify import MarkdownConverter  # noqa: PLC0415  # imported here: start-up cost

    soup = BeautifulSoup(shown_markup(markup), "html.parser")
    for tag in soup(list(_UNSHOWN)):
        tag.decompose()
    for tag in soup.find_all("a", href=True):
        tag["href"] = _absolute(url, str(tag["href"]))
    for tag in soup.find_all("img", src=True):
        if str(tag["src"]).lstrip().lower().startswith("data:"):
            tag["src"] = ""
    text: str = MarkdownConverter(heading_style="ATX").convert_soup(soup)
    return re.sub(r"\n\s*\n\s*\n+", "\n\n", text).strip()


def shown_markup(markup: str) -> str:
    """Without what is never shown (scripts, styles, comments), and not longer than a converter can bear."""
    for opening, closing in (("<!--", "-->"), *((f"<{name}", f"</{name}") for name in ("script", "style", "svg"))):
        markup = _without(markup, opening, closing)
    return markup[:_MARKUP_LIMIT]


def bare_text(markup: str) -> str:
    """The words alone: for pages that are nested too deep or take too long."""
    reader = _Words()
    reader.feed(shown_markup(markup))
    reader.close()
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"[^\S\n]+", " ", "".join(reader.words))).strip()


def pdf_to_text(body: bytes) -> str:
    """The text of a PDF's pages."""
    from pypdf import PdfReader  # noqa: PLC0415  # imported here: start-up cost
    from pypdf.errors import PyPdfError  # noqa: PLC0415  # imported here: start-up cost

    pages: list[str] = []
    try:
        reader = PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise PageError("the PDF asks for a password")
        size = 0
        for number, page in enumerate(reader.pages, 1):
            text = page.extract_text().strip()
            pages.append(f"[page {number}]\n{text}")
            size += len(text)
            if size > TEXT_LIMIT or number >= _PAGES:
                break
    except (PyPdfError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        if not pages:
            raise PageError(f"the PDF cannot be read: {type(error).__name__}") from None
    return "\n\n".join(pages)


def _without(markup: str, opening: str, closing: str) -> str:
    lowered = markup.lower()
    if len(lowered) != len(markup):
        return markup
    pieces: list[str] = []
    place = 0
    while (start := lowered.find(opening, place)) >= 0:
        pieces.append(markup[place:start])
        end = lowered.find(closing, start + len(opening))
        after = lowered.find(">", end) if end >= 0 else -1
        if after < 0:
            # What is never closed hides the rest, as in a browser.
            return "".join(pieces)
        place = after + 1
    pieces.append(markup[place:])
    return "".join(pieces)


def _absolute(url: str, href: str) -> str:
    try:
        return urljoin(url, href)
    except ValueError:
        return href


class _Words(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _UNSHOWN
        if tag not in ("a", "b", "i", "em", "strong", "span", "code"):
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in _UNSHOWN))

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)


class _TooSlow(BaseException):
    """Not an `Exception`: no parser may take it for one of its own."""


def _on_alarm(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def _html_text(body: bytes, url: str) -> str:
    markup = body.decode("utf-8", "replace")
    try:
        return html_to_markdown(markup, url)
    except (_TooSlow, RecursionError, AssertionError, ValueError, AttributeError):
        signal.alarm(_SECONDS)
        return bare_text(markup)


def main(kind: str, url: str) -> int:
    """Reads a page from standard input and writes its text; 3 with a reason if that cannot be done."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (3 * _SECONDS, 3 * _SECONDS))
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.alarm(_SECONDS)
    body = sys.stdin.buffer.read()
    code = 0
    try:
        text = cut_text(pdf_to_text(body) if kind == "pdf" else _html_text(body, url))
    except PageError as error:
        text, code = str(error), _REFUSED
    except (_TooSlow, MemoryError, RecursionError):
        text, code = f"its {kind.upper()} takes too long or too much memory to read", _REFUSED
    signal.alarm(0)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
