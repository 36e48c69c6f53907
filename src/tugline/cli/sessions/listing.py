"""Sessions in lines: for `list`, and for whoever has to choose one."""

import os
from collections.abc import Iterable, Iterator, Sequence

from tugline.cli.ansi import Palette
from tugline.protocol.sessions import SessionSummary
from tugline.rules.telling import age, as_json, size
from tugline.rules.terminal import clean_line, clip

ID = 8
"""Characters of an id that are shown, if no other session begins with them."""
NUMBERS = (2, 3)
FOLDER = 40
BRANCH = 24


def rows(
    found: Sequence[SessionSummary], now: float, width: int, palette: Palette, *, folders: bool = False
) -> Iterator[str]:
    """A line for each session: id, age, size, cost, branch, the folder if wanted, name and first prompt."""
    ids = short_ids([one.session for one in found])
    columns = [
        [
            ids[one.session],
            "in use" if one.busy else age(now - one.changed),
            size(one.size),
            f"${one.cost_usd:.2f}" if one.cost_usd else "",
            clean_line(one.branch, BRANCH),
            *([_folder(one.cwd)] if folders else []),
        ]
        for one in found
    ]
    wide = [max((len(row[at]) for row in columns), default=0) for at in range(len(columns[0]) if columns else 0)]
    for one, row in zip(found, columns, strict=True):
        cells = [
            cell.rjust(n) if at in (2, 3) else cell.ljust(n) for at, (cell, n) in enumerate(zip(row, wide, strict=True))
        ]
        head = "  ".join(cells)
        words = clip(_words(one), max(20, width - len(head) - 2))
        yield f"{palette.paint(cells[0], 'cyan')}{palette.paint(head[len(cells[0]) :], 'dim')}  {words}\n"


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Each id's beginning that no other of them has."""
    shown: dict[str, str] = {}
    ordered = sorted(set(ids))
    for at, one in enumerate(ordered):
        near = [ordered[n] for n in (at - 1, at + 1) if 0 <= n < len(ordered)]
        shared = max((_shared(one, other) for other in near), default=0)
        shown[one] = one[: max(ID, shared + 1)]
    return shown


def _shared(one: str, other: str) -> int:
    """How many characters they begin with in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _folder(path: str) -> str:
    home = os.path.expanduser("~")
    short = f"~{path[len(home) :]}" if path == home or path.startswith(home + "/") else path
    line = clean_line(short, 400)
    return line if len(line) <= FOLDER else "…" + line[1 - FOLDER :]


def _words(one: SessionSummary) -> str:
    """Name and first prompt, or what is wrong with it."""
    if one.problem:
        return clean_line(f"({one.problem})", 400)
    title, prompt = clean_line(one.title, 200), clean_line(one.prompt, 300)
    archived = "(archived) " if one.archived else ""
    return archived + (f"{title} · {prompt}" if title and prompt else title or prompt or "(no prompt)")


def json_lines(found: Iterable[SessionSummary]) -> str:
    """The same for programs, one object per line."""
    return "".join(f"{as_json(one)}\n" for one in found)
