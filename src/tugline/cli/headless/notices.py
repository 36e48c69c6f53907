"""What stands on stderr of a headless run: one line each, and few of them. Pure."""

from collections.abc import Sequence
from typing import Any

from tugline.cli.headless.ending import error_text, is_good
from tugline.protocol.events import (
    CompactionFinished,
    Crashed,
    Event,
    ModelChanged,
    Notice,
    RequestStarted,
    TurnFinished,
)
from tugline.rules.terminal import clean, clean_line

WIDTH = 400
LIST_LIMIT = 30
_WAYS = {
    "summary": "the conversation was compacted",
    "snip": "the oldest part of the conversation was cut",
    "trim": "old results gave way to a line each",
    "fold": "finished work was folded to its outcome",
}


class Notices:
    """Folds events into lines for stderr."""

    def __init__(self, *, debug: bool = False) -> None:
        self._debug = debug
        self._said: set[str] = set()
        self._folded: list[CompactionFinished] = []

    def take(self, event: Event) -> str:
        """What is to be said of this event."""
        match event:
            case Notice(level=level, text=text):
                return self._once(text if level == "info" else f"{level}: {text}")
            case ModelChanged(before=before, after=after, reason=reason):
                return self._once(f"{after} answers instead of {before}: {reason}")
            case CompactionFinished():
                return self._compacted(event)
            case RequestStarted() if self._folded:
                return self._tell_folded()
            case Crashed():
                return self._crash(event)
            case TurnFinished():
                return self._denials(event.denials) + _end(event)
            case _:
                return ""

    def _once(self, text: str) -> str:
        if text in self._said:
            return ""
        self._said.add(text)
        return _line(text)

    def _compacted(self, event: CompactionFinished) -> str:
        if event.how == "fold":
            self._folded.append(event)
            return ""
        said = self._tell_folded()
        if event.trigger == "manual":
            return said  # the command that asked for it says what came of it
        sizes = f"{event.tokens_before:,} -> {event.tokens_after:,} tokens"
        if event.failure:
            return said + _line(f"warning: the conversation was not compacted: {event.failure}")
        return said + _line(f"{_WAYS[event.how]} ({sizes})")

    def _tell_folded(self) -> str:
        folded, self._folded = self._folded, []
        if not folded:
            return ""
        return _line(f"{_WAYS['fold']} ({folded[0].tokens_before:,} -> {folded[-1].tokens_after:,} tokens)")

    def _crash(self, event: Crashed) -> str:
        if self._debug:
            return _line(f"{event.where}: {event.error}") + clean(event.traceback).rstrip("\n") + "\n"
        if event.where == "turn":
            return ""  # the end of the turn says it
        return self._once(f"a defect in {event.where}: {event.error}; run again with --debug for the traceback")

    def _denials(self, denials: Sequence[dict[str, Any]]) -> str:
        if not denials:
            return ""
        names = list(dict.fromkeys(str(denial.get("tool_name", "?")) for denial in denials))
        count = "1 call was" if len(denials) == 1 else f"{len(denials)} calls were"
        hint = "To permit: --allowed-tools RULE or --permission-mode MODE."
        return _line(f"{count} not permitted ({', '.join(names)}). {hint}")


def _line(text: str) -> str:
    return f"tugline: {clean_line(text, WIDTH)}\n"


def _end(event: TurnFinished) -> str:
    """Why it did not simply complete."""
    if event.reason == "hook_stopped":
        return _line(f"a hook ended the turn: {error_text(event)}")
    return "" if is_good(event) else _error(error_text(event))


def _error(text: str) -> str:
    """An error keeps its line breaks: it has up to three lines that say what to do, and indented ones that list what
    there is."""
    lines = text.strip().split("\n")
    shown = [line for at, line in enumerate(lines[:LIST_LIMIT]) if at < 4 or line.startswith("  ")]
    cleaned = [("  " if line.startswith("  ") else "") + clean_line(line, WIDTH) for line in shown]
    return "tugline: " + "\n".join(cleaned) + "\n"


def error_lines(text: str) -> str:
    """The lines of an error that ended the run."""
    return _error(text)
