"""What a format has to do: fold events into what goes to stdout. No format does input or output itself."""

from typing import Protocol

from tugline.cli.headless.ending import Cards, Failed, result_of, result_of_failure
from tugline.cli.headless.shapes import line
from tugline.protocol.events import Event, SessionBranched, SessionStarted, TurnFinished


class Printer(Protocol):
    """A format. Every run ends with exactly one `TurnFinished` heard, or one call of `fail`."""

    def take(self, event: Event, out: bytearray) -> None:
        """Hear an event; append to `out` what is to be printed of it."""
        ...

    def fail(self, failed: Failed, out: bytearray) -> None:
        """The run ends without a turn's end."""
        ...


class Uuids:
    """Ids of lines: one random one, then counted on. Each costs next to nothing."""

    def __init__(self, first: str) -> None:
        self.prefix = first[:24].encode()
        self._count = int(first[24:], 16)

    def next(self) -> bytes:
        """A fresh id."""
        self._count = (self._count + 1) & 0xFFFF_FFFF_FFFF
        return b"%s%012x" % (self.prefix, self._count)

    def text(self) -> str:
        """A fresh id, as text."""
        return self.next().decode()


class JsonResult:
    """The format `json`: the result line alone."""

    def __init__(self, session: str, uuids: Uuids, cards: Cards) -> None:
        self.session = session
        self._uuids = uuids
        self._cards = cards
        self._over = False

    def take(self, event: Event, out: bytearray) -> None:
        """Only the end of the turn matters."""
        if isinstance(event, SessionStarted | SessionBranched):
            self.session = event.origin.session
        if isinstance(event, TurnFinished) and not self._over:
            self._over = True
            out += line(result_of(event, self.session, self._uuids.text(), self._cards))

    def fail(self, failed: Failed, out: bytearray) -> None:
        """The result line of a run without a turn's end."""
        if not self._over:
            self._over = True
            out += line(result_of_failure(failed, self.session, self._uuids.text()))


class PlainText:
    """The format `text`: the answer, and nothing but the answer."""

    def __init__(self, clean: "Cleaning") -> None:
        self._clean = clean

    def take(self, event: Event, out: bytearray) -> None:
        """The answer of a turn that completed."""
        if isinstance(event, TurnFinished) and event.text:
            text = self._clean(event.text)
            out += text.encode("utf-8", "replace")
            if not text.endswith("\n"):
                out += b"\n"

    def fail(self, failed: Failed, out: bytearray) -> None:
        """Nothing: why it failed stands on stderr."""


class Cleaning(Protocol):
    """Makes text fit for where it goes."""

    def __call__(self, text: str, /) -> str: ...
