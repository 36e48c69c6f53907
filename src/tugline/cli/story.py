"""What happens, told to a person line by line: words of the model, one line per call, its result, its diff. Pure."""

from collections.abc import Iterable

from tugline.cli.ansi import Palette
from tugline.protocol.blocks import Text, ToolUse
from tugline.protocol.events import (
    BlockFinished,
    CallFinished,
    CallStarted,
    Event,
    PermissionAsked,
    ReplyFinished,
    RetryWaiting,
    Tombstone,
)
from tugline.protocol.ids import CallId
from tugline.protocol.specs import Display
from tugline.rules.shown import question_lines
from tugline.rules.terminal import clean, clean_line, clip

DIFF_LINES = 16
OUTPUT_LINES = 6


class Story:
    """Folds events into lines for a terminal. The answer itself is left to whoever prints answers."""

    def __init__(self, palette: Palette, width: int) -> None:
        self._palette = palette
        self._width = width
        self._titles: dict[CallId, str] = {}
        self._last: CallId | None = None
        self._words: list[str] = []

    def take(self, event: Event) -> str:
        """What is to be printed of this event; whole lines, often none."""
        if event.origin.depth:
            return ""
        match event:
            case BlockFinished(block=Text(text)):
                self._words.append(text)
                return ""
            case BlockFinished(block=ToolUse()):
                return self._tell_words()
            case ReplyFinished():
                self._words.clear()  # what has no call after it is the answer
                return ""
            case CallStarted():
                return self._tell_words() + self._begin(event)
            case CallFinished():
                return self._end(event)
            case PermissionAsked(question=question):
                return self._tell_words() + "".join(self._line(line, "yellow") for line in question_lines(question))
            case Tombstone():
                self._words.clear()
                return ""
            case RetryWaiting(failure=failure, attempt=attempt, limit=limit, delay=delay):
                text = f"{failure.message} Trying again in {delay:.1f} s (try {attempt + 1} of {limit})."
                return self._line(clean_line(text, self._width), "yellow")
            case _:
                return ""

    def _tell_words(self) -> str:
        text = clean("\n".join(self._words)).strip()
        self._words.clear()
        self._last = None
        return f"\n{text}\n" if text else ""

    def _begin(self, event: CallStarted) -> str:
        title = _title(event)
        self._titles[event.call] = title
        self._last = event.call
        name, _, rest = clean_line(title, self._width - 2).partition(" ")
        paint = self._palette.paint
        return f"{paint(self._palette.dot, 'cyan')} {paint(name, 'bold')} {rest}".rstrip() + "\n"

    def _end(self, event: CallFinished) -> str:
        title = self._titles.pop(event.call, None)
        said = event.display.line
        if title is None:
            said = f"{event.tool}: {said}"
        elif self._last != event.call:
            said = f"{title}: {said}"
        self._last = None
        line = clean_line(said, self._width - 4)
        colour = "red" if event.is_error else "dim"
        head = f"  {self._palette.paint(self._palette.elbow, 'dim')} {self._palette.paint(line, colour)}\n"
        return head + "".join(self._details(event.display, event.tool))

    def _details(self, display: Display, tool: str) -> Iterable[str]:
        lines = [line for line in clean(display.detail).split("\n") if line.strip()]
        if display.detail_kind == "diff":
            lines = [line for line in lines if not line.startswith(("---", "+++"))]
            shown = lines[:DIFF_LINES]
        elif tool == "Bash" and lines != [display.line]:
            shown = lines[-OUTPUT_LINES:]
        else:
            return
        for line in shown:
            yield self._line("    " + clip(line.expandtabs(4), self._width - 4), *_colours(line, display))
        if len(shown) < len(lines):
            where = "more" if display.detail_kind == "diff" else "before"
            yield self._line(f"    … {len(lines) - len(shown)} lines {where}", "dim")

    def _line(self, text: str, *colours: str) -> str:
        return self._palette.paint(text, *colours) + "\n"


def _title(event: CallStarted) -> str:
    """The call in a line that begins with its tool's name."""
    return event.title if event.title.startswith(event.tool) else f"{event.tool} {event.title}"


def _colours(line: str, display: Display) -> tuple[str, ...]:
    if display.detail_kind == "diff":
        return {"+": ("green",), "-": ("red",), "@": ("cyan",)}.get(line[:1], ())
    return ("dim",)
