"""Jupyter notebooks: shown cell by cell, changed cell by cell, written as Jupyter writes them."""

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any

from tugline.protocol.blocks import Image, Text
from tugline.protocol.errors import ToolError
from tugline.tools.media import Shown, fit_image
from tugline.tools.schema import closest

OUTPUT_LIMIT = 10_000
"""Characters of the outputs of one cell."""
IMAGE_LIMIT = 10
"""Pictures of one call."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_Part = Text | Image


def is_notebook(name: str, content: bytes) -> bool:
    """Whether it is a notebook by name and by content; a broken one is just text."""
    return name.lower().endswith(".ipynb") and _load(content) is not None


def load(name: str, content: bytes) -> dict[str, Any]:
    """The notebook; `ToolError` if it is none."""
    found = _load(content)
    if found is None:
        raise ToolError(f"{name} is not a notebook that can be understood: it should be JSON with a list of cells.")
    return found


def dump(notebook: dict[str, Any], before: bytes) -> bytes:
    """The file of a notebook, with the indentation and the last newline that it had."""
    indented = re.match(rb"\s*\{\r?\n( +|\t+)", before)
    indent: str | None = indented[1].decode() if indented else None
    separators = None if indent is not None or before[:400].count(b": ") else (",", ":")
    text = json.dumps(notebook, ensure_ascii=False, indent=indent, separators=separators)
    if before.endswith(b"\n"):
        text += "\n"
    if b"\r\n" in before:
        # no line end of JSON stands inside a string
        text = text.replace("\n", "\r\n")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(notebook, indent=indent, separators=separators).encode() + b"\n"


def cell_names(cells: list[dict[str, Any]]) -> list[str]:
    """How the cells are named: by their own id, or by their place where they have none, or that of an earlier cell."""
    names: list[str] = []
    taken: set[str] = set()
    for index, cell in enumerate(cells):
        own = cell.get("id")
        name = own if isinstance(own, str) and own and own not in taken else f"cell-{index}"
        while name in taken:
            name += "-again"
        taken.add(name)
        names.append(name)
    return names


def source_of(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return _joined(cell.get("source"))


def find_cell(cells: list[dict[str, Any]], wanted: str) -> int:
    """Where the cell of that id stands."""
    names = cell_names(cells)
    if wanted in names:
        return names.index(wanted)
    # Also by place, for a cell that has an id of its own.
    if (place := re.fullmatch(r"cell-(\d+)", wanted)) and int(place[1]) < len(cells):
        return int(place[1])
    near = closest(wanted, names)
    hint = f" Did you mean {' or '.join(near)}?" if near else f" It has: {', '.join(names[:20]) or 'no cells'}."
    raise ToolError(f"There is no cell {wanted!r}.{hint}")


def show(content: bytes, first: int, limit: int | None, images: bool) -> Shown:
    """The cells with their outputs. `images`: pictures as such, else a note."""
    cells = (_load(content) or {})["cells"]
    first = max(first, 1)
    if not cells:
        return Shown("The notebook has no cells.", "no cells")
    if first > len(cells):
        raise ToolError(f"The notebook has only {len(cells)} cells; there is no cell {first}.")
    last = min(len(cells), first - 1 + limit) if limit else len(cells)
    budget = [IMAGE_LIMIT if images else 0]
    parts: list[_Part] = []
    names = cell_names(cells)
    for index in range(first - 1, last):
        parts += _show_cell(cells[index], index, names[index], budget)
    if last < len(cells):
        parts.append(Text(f"[Cells {first} to {last} of {len(cells)}; go on with offset {last + 1}.]"))
    whole = first == 1 and last == len(cells)
    line = f"{last - first + 1} cells"
    merged = _merged(parts)
    if len(merged) == 1 and isinstance(merged[0], Text):
        return Shown(merged[0].text, line, whole)
    return Shown(merged, line, whole)


def _load(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    cells = found.get("cells") if isinstance(found, dict) else None
    return found if isinstance(cells, list) and all(isinstance(cell, dict) for cell in cells) else None


def _show_cell(cell: dict[str, Any], index: int, name: str, budget: list[int]) -> list[_Part]:
    kind = cell.get("cell_type", "code")
    parts: list[_Part] = [Text(f"[cell {index + 1}, id {name}, {kind}]\n{source_of(cell)}")]
    outputs = cell.get("outputs")
    room = OUTPUT_LIMIT
    for output in outputs if isinstance(outputs, list) else ():
        for part in _show_output(output, budget) if isinstance(output, dict) else ():
            if isinstance(part, Text):
                if room <= 0:
                    continue
                text = part.text
                if len(text) > room:
                    text = f"{text[:room]}\n… [{len(text) - room:,} more characters of output]"
                room -= len(part.text)
                part = Text(f"[output]\n{text}")
            parts.append(part)
    return parts


def _show_output(output: dict[str, Any], budget: list[int]) -> list[_Part]:
    kind = output.get("output_type")
    if kind == "stream":
        return _text(_joined(output.get("text")))
    if kind == "error":
        trace = output.get("traceback")
        lines = "\n".join(map(str, trace)) if isinstance(trace, list) and trace else ""
        return _text(lines or f"{output.get('ename', 'Error')}: {output.get('evalue', '')}")
    data = output.get("data")
    if not isinstance(data, dict):
        return []
    for media_type in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        if media_type in data:
            return [_picture(_joined(data[media_type]), media_type, budget)]
    for media_type in ("text/plain", "text/markdown", "text/html", "image/svg+xml"):
        if media_type in data:
            return _text(_joined(data[media_type]))
    return _text(f"(output of type {', '.join(map(str, data))})") if data else []


def _picture(data: str, media_type: str, budget: list[int]) -> _Part:
    kind = media_type.removeprefix("image/")
    if budget[0] <= 0:
        return Text(f"(a {kind.upper()} picture, not shown)")
    try:
        fitted = fit_image(base64.b64decode(data), kind)
    except (ValueError, binascii.Error) as error:
        return Text(f"(a {kind.upper()} picture that cannot be shown: {error})")
    budget[0] -= 1
    return fitted.block()


def _text(text: str) -> list[_Part]:
    plain = _ANSI.sub("", text).rstrip("\n")
    return [Text(plain)] if plain else []


def _merged(parts: list[_Part]) -> tuple[_Part, ...]:
    merged: list[_Part] = []
    for part in parts:
        if merged and isinstance(part, Text) and isinstance(before := merged[-1], Text):
            merged[-1] = Text(f"{before.text}\n{part.text}")
        else:
            merged.append(part)
    return tuple(merged)


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def with_source(cell: dict[str, Any], source: str) -> dict[str, Any]:
    """The cell with another text; what its code printed before no longer counts."""
    made = {**cell, "source": _as_before(cell.get("source"), source)}
    if made.get("cell_type") == "code":
        made |= {"execution_count": None, "outputs": []}
    return made


def as_kind(cell: dict[str, Any], kind: str) -> dict[str, Any]:
    """The cell as one of that kind."""
    made = {**cell, "cell_type": kind}
    if kind == "code":
        made.setdefault("execution_count", None)
        made.setdefault("outputs", [])
    else:
        made.pop("execution_count", None)
        made.pop("outputs", None)
    return made


def new_cell(notebook: dict[str, Any], kind: str, source: str, new_id: Callable[[], str]) -> dict[str, Any]:
    """A fresh cell. Only notebooks of format 4.5 and later give ids to cells."""
    cell: dict[str, Any] = {"cell_type": kind}
    if _has_ids(notebook):
        cell["id"] = new_id()
    cell |= {"metadata": {}, "source": _as_before([], source)}
    return as_kind(cell, kind)


def _has_ids(notebook: dict[str, Any]) -> bool:
    major, minor = notebook.get("nbformat"), notebook.get("nbformat_minor")
    return isinstance(major, int) and isinstance(minor, int) and (major, minor) >= (4, 5)


def _as_before(former: Any, source: str) -> Any:
    """A list of lines, as Jupyter writes it, unless the cell had one string."""
    if isinstance(former, str):
        return source
    lines = [f"{line}\n" for line in source.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
