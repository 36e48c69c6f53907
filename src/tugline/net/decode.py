"""Content encodings of answers: gzip and deflate, with a cap on what comes out."""

import zlib
from typing import Protocol

from tugline.net.errors import HttpError

_PIECE = 256 * 1024


class Decoder(Protocol):
    """Turns the bytes of a body into content, piece by piece."""

    def feed(self, data: bytes) -> None: ...

    def take(self) -> bytes:
        """The next piece, at most a few hundred kB of it; nothing when more input is needed."""
        ...

    def finish(self) -> None:
        """The body has ended; `HttpError("cut")` if the content has not."""
        ...


def decoder_for(encoding: str, place: str) -> Decoder | None:
    """The decoder for a `Content-Encoding`; `None` for plain content; `HttpError` for one that nobody asked for.
    `place` is how the server is called in errors."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip", "deflate"):
        return Inflate(place, gzip=encoding != "deflate")
    raise HttpError("protocol", f"{place} answers in the encoding {encoding[:40]!r}, which was not asked for")


class Inflate:
    """gzip (also several members in a row) and deflate (with or without the zlib wrapper)."""

    def __init__(self, place: str, *, gzip: bool) -> None:
        self._place = place
        self._gzip = gzip
        self._inner = zlib.decompressobj(31) if gzip else None
        self._input = b""
        self._started = False
        self._more = False

    def feed(self, data: bytes) -> None:
        """More of the encoded body."""
        self._input += data

    def take(self) -> bytes:
        """The next piece of content."""
        while self._input or self._more:
            if self._inner is None:
                if len(self._input) < 2:
                    return b""
                self._inner = zlib.decompressobj(15 if _has_zlib_header(self._input) else -15)
            if self._inner.eof:
                if not self._gzip or not self._input.strip(b"\0"):
                    self._input = b""
                    return b""
                self._inner = zlib.decompressobj(31)
            if content := self._inflate(self._inner):
                return content
        return b""

    def finish(self) -> None:
        """The body has ended."""
        if self._input or (self._started and self._inner is not None and not self._inner.eof):
            raise HttpError("cut", f"{self._place} sent compressed content that ends in the middle")

    def _inflate(self, inner: "zlib._Decompress") -> bytes:
        self._started = True
        try:
            content = inner.decompress(self._input, _PIECE)
        except zlib.error as error:
            raise HttpError("protocol", f"{self._place} sent compressed content that is damaged ({error})") from None
        self._input = inner.unused_data if inner.eof else inner.unconsumed_tail
        self._more = len(content) == _PIECE and not inner.eof  # zlib may hold more, though its input is used up
        return content


def _has_zlib_header(data: bytes) -> bool:
    return data[0] & 15 == 8 and (data[0] * 256 + data[1]) % 31 == 0
