"""Replacing text in text: exact, or where only quotes and trailing white space differ and one place alone fits.

What is not replaced stays as it is, character by character; what is put in gets the line ends of its surroundings.
"""

import difflib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from tugline.protocol.errors import ToolError

_QUOTES = str.maketrans("‘’‚‛′“”„‟″", "'''''" + '"""""')
_CARRIAGE_RETURN = re.compile(r"\r(?=\n)")
_TRAILING = re.compile(r"[ \t\u00a0]+\r?(?=\n)|\r(?=\n)|[ \t\u00a0]+\Z")
_LENIENT = ((True, False), (False, True), (True, True))
_SEARCHED = 3_000
_SHOWN = 12


class Replacement(Struct, frozen=True):
    """Put `new` where `old` stands: in one place, or in all."""

    old: str
    new: str
    everywhere: bool = False


class Replaced(Struct, frozen=True):
    """The text afterwards, in how many places it was changed, and what was taken leniently."""

    text: str
    count: int
    notes: tuple[str, ...] = ()


def replace(text: str, edits: Sequence[Replacement]) -> Replaced:
    """All edits, each on what the former left, or `ToolError` and none."""
    notes: list[str] = []
    count = 0
    for number, edit in enumerate(edits, start=1):
        try:
            done = _replace_one(text, edit)
        except ToolError as error:
            if len(edits) == 1:
                raise
            raise ToolError(f"Edit {number} of {len(edits)}: {error} None of the edits was made.") from None
        text = done.text
        count += done.count
        notes += [note if len(edits) == 1 else f"Edit {number}: {note}" for note in done.notes]
    return Replaced(text, count, tuple(notes))


def _replace_one(text: str, edit: Replacement) -> Replaced:
    old, new = _plain(edit.old), _plain(edit.new)
    if not old:
        raise ToolError("old_string is empty: say which text is to be replaced.")
    if old == new:
        differ = edit.old != edit.new
        raise ToolError(
            "old_string and new_string differ only in line ends, which are kept as the file has them."
            if differ
            else "old_string and new_string are the same: there is nothing to change."
        )
    folded = _Folded(text, quotes=False, spaces=False)
    places = folded.find(old)
    if not places:
        return _replace_leniently(text, old, new)
    if edit.everywhere:
        spans = _apart(places, len(old))
    elif len(places) == 1:
        spans = places
    else:
        lines = ", ".join(str(folded.line(place)) for place in places[:10]) + (", …" if len(places) > 10 else "")
        raise ToolError(
            f"old_string stands in {_times(len(places))} places (lines {lines}). Add surrounding lines to say which "
            "one is meant, or set replace_all to change them all."
        )
    return Replaced(_put(text, [(folded.span(at, at + len(old)), new) for at in spans]), len(spans))


def _replace_leniently(text: str, old: str, new: str) -> Replaced:
    for quotes, spaces in _LENIENT:
        wanted = _Folded(old, quotes=quotes, spaces=spaces).text
        folded = _Folded(text, quotes=quotes, spaces=spaces)
        places = folded.find(wanted) if wanted.strip() else []
        if spaces and _cut_at_end(old, wanted):
            places = [at for at in places if folded.text[at + len(wanted) : at + len(wanted) + 1] in ("", "\n")]
        if len(places) > 1:
            raise ToolError(
                f"old_string is not in the file exactly as given, and {_times(len(places))} places differ from it "
                f"only in {_difference(quotes, spaces)}. Copy the text exactly as the file has it, with enough "
                "lines around it to make it unique."
            )
        if places:
            span, put = _inner(folded, places[0], wanted, new, quotes=quotes)
            line = folded.line(places[0])
            note = f"Taken for the text at line {line}, which differs from old_string in {_difference(quotes, spaces)}."
            return Replaced(_put(text, [(span, put)]), 1, (note,))
    raise ToolError("old_string is not in the file." + _nearest(text, old))


def _inner(folded: "_Folded", at: int, wanted: str, new: str, *, quotes: bool) -> tuple[tuple[int, int], str]:
    """What really has to change: where old and new agree, the file keeps its own quotes and white space."""
    compared = new.translate(_QUOTES) if quotes else new
    least = min(len(wanted), len(compared))
    start = next((i for i in range(least) if wanted[i] != compared[i]), least)
    end = next((i for i in range(least - start) if wanted[-1 - i] != compared[-1 - i]), least - start)
    return folded.span(at + start, at + len(wanted) - end), new[start : len(new) - end]


def _put(text: str, parts: Sequence[tuple[tuple[int, int], str]]) -> str:
    returns = text.count("\r\n")
    mostly = 2 * returns > text.count("\n")
    pieces: list[str] = []
    last = 0
    for (start, end), new in parts:
        here = text[start:end]
        windows = ("\r\n" in here) if "\n" in here else mostly
        pieces += (text[last:start], new.replace("\n", "\r\n") if windows else new)
        last = end
    return "".join([*pieces, text[last:]])


class _Folded:
    """A text as it is compared, whose positions lead back to the text itself."""

    def __init__(self, text: str, *, quotes: bool, spaces: bool) -> None:
        cut = [found.span() for found in (_TRAILING if spaces else _CARRIAGE_RETURN).finditer(text)]
        lengths = [end - start for start, end in cut]
        self._removed = [0, *accumulate(lengths)]
        # Where, in the folded text, something was left out.
        self._cuts = [start - gone for (start, _), gone in zip(cut, self._removed, strict=False)]
        if cut:
            starts = [0, *(end for _, end in cut)]
            ends = [*(start for start, _ in cut), len(text)]
            text = "".join(text[start:end] for start, end in zip(starts, ends, strict=True))
        self.text = text.translate(_QUOTES) if quotes else text

    def find(self, wanted: str) -> list[int]:
        """Where it stands, overlapping places too."""
        places: list[int] = []
        at = self.text.find(wanted)
        while at >= 0:
            places.append(at)
            at = self.text.find(wanted, at + 1)
        return places

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The same stretch of the text itself."""
        first = start + self._removed[bisect_left(self._cuts, start)]
        if start == end:
            return first, first
        return first, end + self._removed[bisect_right(self._cuts, end - 1)]

    def line(self, at: int) -> int:
        """The number of the line."""
        return self.text.count("\n", 0, at) + 1


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _apart(places: Sequence[int], length: int) -> list[int]:
    """Those that do not overlap, from the left."""
    kept: list[int] = []
    for place in places:
        if not kept or place >= kept[-1] + length:
            kept.append(place)
    return kept


def _cut_at_end(old: str, wanted: str) -> bool:
    """Whether white space at the very end was left out: what matches must then end its line."""
    return old[-1:] != wanted[-1:]


def _difference(quotes: bool, spaces: bool) -> str:
    names = [name for name, on in (("typographic quotes", quotes), ("white space at line ends", spaces)) if on]
    return " and ".join(names)


def _times(count: int) -> str:
    return "two" if count == 2 else str(count)


def _nearest(text: str, old: str) -> str:
    """The place that comes closest, with line numbers, to end an error with."""
    lines = _plain(text).split("\n")
    wanted = old.strip("\n").split("\n")
    start = _best_start([line.strip() for line in lines], [line.strip() for line in wanted])
    if start is None:
        return " Nothing in it comes close; read the file again."
    shown = lines[start : start + min(len(wanted), _SHOWN)]
    same = [line.split() for line in shown] == [line.split() for line in wanted]
    why = "; it differs in white space" if same else ""
    body = "\n".join(f"{start + 1 + index:>6}\t{line[:300]}" for index, line in enumerate(shown))
    return f" The closest place{why}:\n{body}\n"


def _best_start(lines: list[str], wanted: list[str]) -> int | None:
    """The line from which most of the wanted lines would agree."""
    positions: dict[str, list[int]] = {}
    for offset, line in enumerate(wanted):
        if len(line) > 2:
            positions.setdefault(line, []).append(offset)
    votes = Counter(index - offset for index, line in enumerate(lines) for offset in positions.get(line, ())[:20])
    if votes:
        return max(0, max(votes, key=lambda start: (votes[start], -start)))
    longest = max(range(len(wanted)), key=lambda offset: len(wanted[offset]))
    target = wanted[longest][:500]
    similar = [
        line for line in lines[:_SEARCHED] if len(target) < 2 * len(line) + 8 and len(line) < 2 * len(target) + 8
    ]
    hits = difflib.get_close_matches(target, similar, 1, 0.6) if target else []
    return max(0, lines.index(hits[0]) - longest) if hits else None
