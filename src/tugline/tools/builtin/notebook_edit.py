"""NotebookEdit: one cell of a Jupyter notebook replaced, put in or taken out."""

import os
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tugline.ports import ToolContext
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, PathSubject, Result, Subject
from tugline.tools import diff
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.files import aside, locate, read_known, write_back
from tugline.tools.notebook import as_kind, cell_names, dump, find_cell, load, new_cell, source_of, with_source


class NotebookEditInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What NotebookEdit takes."""

    notebook_path: Annotated[
        str, Meta(description="The notebook to change: an absolute path, or one from the working directory")
    ]
    new_source: Annotated[str, Meta(description="The text of the cell; of no use for delete")] = ""
    cell_id: Annotated[
        str | None,
        Meta(description="The cell, by the id that Read shows; for insert, the cell to put it after (else at the top)"),
    ] = None
    cell_type: Annotated[
        Literal["code", "markdown"] | None, Meta(description="The kind of the cell; needed for insert")
    ] = None
    edit_mode: Annotated[Literal["replace", "insert", "delete"], Meta(description="What to do with the cell")] = (
        "replace"
    )


class NotebookEdit(BuiltinTool[NotebookEditInput]):
    """Changes one cell."""

    name = "NotebookEdit"
    input = NotebookEditInput
    interrupt = "block"

    def parse(self, data: dict[str, Any]) -> NotebookEditInput:
        """The typed input; what each mode needs is there."""
        parsed = super().parse(data)
        if parsed.edit_mode == "insert" and parsed.cell_type is None:
            raise ToolError("`cell_type` is missing: insert needs it ('code' or 'markdown')")
        if parsed.edit_mode != "insert" and parsed.cell_id is None:
            raise ToolError(f"`cell_id` is missing: {parsed.edit_mode} needs it (text)")
        if parsed.edit_mode != "delete" and "new_source" not in data:
            raise ToolError(f"`new_source` is missing: {parsed.edit_mode} needs it (text)")
        return parsed

    def footprint(self, data: NotebookEditInput) -> Footprint:
        """It changes."""
        return Footprint.CHANGES

    def subjects(self, data: NotebookEditInput) -> tuple[Subject, ...]:
        """The notebook."""
        return (PathSubject(data.notebook_path, "edit"),)

    def title(self, data: NotebookEditInput) -> str:
        """The notebook and the cell."""
        return cut_line(f"NotebookEdit {data.notebook_path}: {data.edit_mode} {data.cell_id or 'at the top'}")

    async def run(self, data: NotebookEditInput, context: ToolContext) -> Result:
        """Change the cell."""
        place = locate(data.notebook_path, context)
        if not place.name.lower().endswith(".ipynb"):
            raise ToolError(f"{place.name} is not a notebook (.ipynb); use Edit for other files.")
        before, stat = await read_known(place, context, "edited")
        notebook = load(place.name, before)
        name, old, new = _change(notebook, data)
        content = await aside(len(before), lambda: dump(notebook, before))
        _, seen = await write_back(place, content, context, stat)
        found = diff.hunks(old, new)
        shown = Display(f"{data.edit_mode} of cell {name}", diff.unified(found), "diff")
        done = {"replace": "Replaced", "insert": "Inserted", "delete": "Deleted"}[data.edit_mode]
        body = f"\n{diff.numbered(found)}" if found else ""
        return Result(f"{done} cell {name} of {place.name}.{body}", shown, changes=(seen,))


def _change(notebook: dict[str, Any], data: NotebookEditInput) -> tuple[str, str, str]:
    """Change the notebook in place; returns the cell's name, its old text and its new one."""
    cells: list[dict[str, Any]] = notebook["cells"]
    at = find_cell(cells, data.cell_id) if data.cell_id is not None else -1
    if data.edit_mode == "insert":
        taken = {cell.get("id") for cell in cells}
        cell = new_cell(notebook, data.cell_type or "code", data.new_source, lambda: _fresh_id(taken))
        cells.insert(at + 1, cell)
        return cell_names(cells)[at + 1], "", data.new_source
    name, old = cell_names(cells)[at], source_of(cells[at])
    if data.edit_mode == "delete":
        del cells[at]
        return name, old, ""
    kind = data.cell_type or str(cells[at].get("cell_type", "code"))
    cells[at] = with_source(as_kind(cells[at], kind) if data.cell_type else cells[at], data.new_source)
    return name, old, data.new_source


def _fresh_id(taken: set[Any]) -> str:
    while (made := os.urandom(4).hex()) in taken:
        pass
    return made
