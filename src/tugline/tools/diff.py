"""What changed between two texts, for the person (unified) and for the model (with line numbers). Always bounded."""

import difflib
from collections.abc import Iterator, Sequence

from msgspec import Struct

_COMPARED = 4_000
"""Lines that are compared properly; beyond that a change is shown as coarse blocks."""
_WIDTH = 300
_Opcode = tuple[str, int, int, int, int]
_NO_NEWLINE = "\\ No newline at end of file"


class Hunk(Struct, frozen=True):
    """Lines that changed, with a few around them. `lines` are pairs of a mark (space, `-`, `+`) and the line."""

    old: int
    new: int
    lines: tuple[tuple[str, str], ...]


def hunks(before: str, after: str, context: int = 3) -> list[Hunk]:
    """The differences, in order."""
    old, new = _lines(before), _lines(after)
    groups: list[list[_Opcode]] = []
    last = 0
    for code in _opcodes(old, new):
        if groups and code[1] - last <= 2 * context:
            groups[-1].append(code)
        else:
            groups.append([code])
        last = code[2]
    return [_hunk(group, old, new, context) for group in groups]


def counts(found: Sequence[Hunk]) -> tuple[int, int]:
    """Lines added and removed."""
    marks = [mark for hunk in found for mark, _ in hunk.lines]
    return marks.count("+"), marks.count("-")


def unified(found: Sequence[Hunk], limit: int = 400) -> str:
    """As `diff -u` shows it, without the file names; at most `limit` lines."""
    lines: list[str] = []
    for hunk in found:
        old = sum(mark != "+" for mark, _ in hunk.lines)
        new = sum(mark != "-" for mark, _ in hunk.lines)
        lines.append(f"@@ -{hunk.old if old else hunk.old - 1},{old} +{hunk.new if new else hunk.new - 1},{new} @@")
        for mark, line in hunk.lines:
            lines.append(mark + _shown(line))
            if not line.endswith("\n"):
                lines.append(_NO_NEWLINE)
    return _bounded(lines, limit)


def numbered(found: Sequence[Hunk], limit: int = 120) -> str:
    """With the line numbers that the lines have now (removed lines: that they had); at most `limit` lines."""
    lines: list[str] = []
    for hunk in found:
        if lines:
            lines.append("   ...")
        old, new = hunk.old, hunk.new
        for mark, line in hunk.lines:
            lines.append(f"{old if mark == '-' else new:>6} {mark} {_shown(line)}".rstrip())
            old += mark != "+"
            new += mark != "-"
    return _bounded(lines, limit)


def _lines(text: str) -> list[str]:
    """Lines with their ends. Only LF ends one: other separators are part of a line, as for every other tool."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _opcodes(old: list[str], new: list[str]) -> Iterator[_Opcode]:
    start = 0
    least = min(len(old), len(new))
    while start < least and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < least - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle_old, middle_new = old[start : len(old) - tail], new[start : len(new) - tail]
    if len(middle_old) + len(middle_new) <= _COMPARED:
        matcher = difflib.SequenceMatcher(None, middle_old, middle_new)
        codes: Sequence[_Opcode] = matcher.get_opcodes()
    elif len(middle_old) == len(middle_new):
        codes = list(_line_by_line(middle_old, middle_new))
    else:
        codes = [("replace", 0, len(middle_old), 0, len(middle_new))]
    for tag, i1, i2, j1, j2 in codes:
        if tag != "equal":
            yield tag, i1 + start, i2 + start, j1 + start, j2 + start


def _line_by_line(old: list[str], new: list[str]) -> Iterator[_Opcode]:
    start = None
    for index, (left, right) in enumerate(zip(old, new, strict=True)):
        if left != right and start is None:
            start = index
        elif left == right and start is not None:
            yield "replace", start, index, start, index
            start = None
    if start is not None:
        yield "replace", start, len(old), start, len(old)


def _hunk(codes: list[_Opcode], old: list[str], new: list[str], context: int) -> Hunk:
    first, last = codes[0], codes[-1]
    before = min(context, first[1])
    lines = [(" ", line) for line in old[first[1] - before : first[1]]]
    at = first[1]
    for _, i1, i2, j1, j2 in codes:
        lines += [(" ", line) for line in old[at:i1]]
        lines += [("-", line) for line in old[i1:i2]]
        lines += [("+", line) for line in new[j1:j2]]
        at = i2
    lines += [(" ", line) for line in old[last[2] : last[2] + context]]
    return Hunk(first[1] - before + 1, first[3] - before + 1, tuple(lines))


def _shown(line: str) -> str:
    plain = line.removesuffix("\n").removesuffix("\r")
    return plain if len(plain) <= _WIDTH else plain[:_WIDTH] + "…"


def _bounded(lines: list[str], limit: int) -> str:
    if len(lines) <= limit:
        return "\n".join(lines)
    return "\n".join([*lines[:limit], f"... {len(lines) - limit:,} more lines"])
