"""Bytes of a file as text, with what is needed to write it back as it was; and lines out of files of any size."""

import codecs

from msgspec import Struct

from tugline.protocol.errors import ToolError

SNIFF = 8_192
"""Bytes at the start that tell text from binary."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r\f\b\x1b") + b"\x7f"
_CONTINUATIONS = bytes(range(0x80, 0xC0))


class Encoding(Struct, frozen=True):
    """How text stands in a file."""

    name: str = "utf-8"
    bom: bytes = b""


def encoding_of(data: bytes) -> Encoding | None:
    """The encoding of a whole file; `None` if it is not text."""
    marked = _marked(data)
    if marked is not None:
        return marked if _decodes(data[len(marked.bom) :], marked.name) else None
    if b"\0" in data[:SNIFF]:
        return None
    if _decodes(data, "utf-8"):
        return Encoding()
    return Encoding("latin-1") if _looks_like_text(data[:SNIFF]) else None


def encoding_of_start(data: bytes) -> Encoding | None:
    """The same from the start of a file that is too big to look at whole."""
    marked = _marked(data)
    if marked is not None:
        return marked
    if b"\0" in data[:SNIFF]:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=False)
    except UnicodeDecodeError:
        return Encoding("latin-1") if _looks_like_text(data[:SNIFF]) else None
    return Encoding()


def decode(data: bytes, encoding: Encoding) -> str:
    """The text, without its byte order mark and with its line ends as they are."""
    return data[len(encoding.bom) :].decode(encoding.name)


def encode(text: str, encoding: Encoding) -> bytes:
    """The bytes of a text in the encoding that its file has."""
    try:
        return encoding.bom + text.encode(encoding.name)
    except UnicodeEncodeError as error:
        character = text[error.start]
        if encoding.name != "latin-1":
            raise ToolError(f"The text has a character that no file can hold: {character!a}.") from None
        raise ToolError(
            f"The file is written in Latin-1, which has no {character!r} (U+{ord(character):04X}). "
            "Use other words, or convert the file to UTF-8 first."
        ) from None


class LineScanner:
    """Takes the bytes of a text in pieces of any size and keeps only the lines that are wanted.

    Bytes in memory depend on what is wanted, not on the file: `width` is how many characters of a line are kept.
    """

    def __init__(self, encoding: Encoding, first: int, count: int, width: int) -> None:
        self.lines: list[str] = []
        self._count = count
        self._width = width
        self._skip = first - 1
        self._line = bytearray()
        self._dropped = 0
        self._begun = False
        self._bom = len(encoding.bom)
        self._decoder = None if encoding.name == "utf-8" else codecs.getincrementaldecoder(encoding.name)("replace")
        self.skipped = 0
        """Lines before the first that is wanted."""

    @property
    def done(self) -> bool:
        """All that was wanted is there."""
        return len(self.lines) >= self._count

    def feed(self, data: bytes) -> None:
        """More of the file."""
        if self._bom:
            data, self._bom = data[self._bom :], max(self._bom - len(data), 0)
        if self._decoder is not None:
            data = self._decoder.decode(data).encode("utf-8", "replace")
        at = self._pass_over(data) if self._skip else 0
        while at < len(data) and not self.done:
            end = data.find(b"\n", at)
            self._take(data[at : end if end >= 0 else len(data)])
            if end < 0:
                return
            self._close()
            at = end + 1

    def end(self) -> None:
        """The file has ended: a last line needs no newline."""
        if self._begun and not self.done:
            self._close()

    def _pass_over(self, data: bytes) -> int:
        """Where the first wanted line begins in `data`, or its end."""
        newlines = data.count(b"\n")
        if newlines < self._skip:
            self._skip -= newlines
            self.skipped += newlines
            self._begun = False
            return len(data)
        at = 0
        while self._skip:
            at = data.index(b"\n", at) + 1
            self._skip -= 1
            self.skipped += 1
        return at

    def _take(self, piece: bytes) -> None:
        self._begun = True
        # Four bytes a character at most, and one for a carriage return.
        room = 4 * self._width + 1 - len(self._line)
        self._line += piece[: max(room, 0)]
        if len(piece) > room:
            # Characters, not bytes: those that only go on with one do not count.
            self._dropped += len(piece[max(room, 0) :].translate(None, _CONTINUATIONS))

    def _close(self) -> None:
        text = self._line.decode("utf-8", "replace").removesuffix("\r").replace("\0", "�")
        if len(text) > self._width or self._dropped:
            more = max(len(text) - self._width, 0) + self._dropped
            text = f"{text[: self._width]}… [{more:,} more characters in this line]"
        self.lines.append(text)
        self._line.clear()
        self._dropped, self._begun = 0, False


def _marked(data: bytes) -> Encoding | None:
    return next((Encoding(name, bom) for bom, name in _BOMS if data.startswith(bom)), None)


def _decodes(data: bytes, name: str) -> bool:
    try:
        data.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _looks_like_text(head: bytes) -> bool:
    return len(head) - len(head.translate(None, _CONTROLS)) <= len(head) // 20
