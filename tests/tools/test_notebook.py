"""Notebooks: read cell by cell, changed cell by cell."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from desk import Desk

from tugline.protocol.blocks import Image, Text
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Footprint, PathSubject
from tugline.tools.builtin.notebook_edit import NotebookEdit
from tugline.tools.builtin.read import Read

EDIT = NotebookEdit()
READ = Read()
PIXEL = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
).decode()


def cells() -> list[dict[str, Any]]:
    return [
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "words"]},
        {
            "cell_type": "code",
            "id": "calc",
            "metadata": {},
            "execution_count": 3,
            "source": "1/0",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["hello\n"]},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mboom\x1b[0m", "line"]},
            ],
        },
    ]


def book(content: list[Any], **extra: Any) -> str:
    return json.dumps({"cells": content, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **extra}, indent=1) + "\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def refusal(desk: Desk, **data: object) -> str:
    with pytest.raises(ToolError) as caught:
        await desk.call(EDIT, notebook_path="n.ipynb", **data)
    return str(caught.value)


async def test_cells_are_shown_with_their_outputs(desk: Desk) -> None:
    desk.file("n.ipynb", book(cells()))
    assert await desk.text(READ, file_path="n.ipynb") == (
        "[cell 1, id intro, markdown]\n# Title\nwords\n"
        "[cell 2, id calc, code]\n1/0\n[output]\nhello\n[output]\nboom\nline"
    )


async def test_offset_and_limit_count_cells(desk: Desk) -> None:
    desk.file("n.ipynb", book(cells()))
    text = await desk.text(READ, file_path="n.ipynb", limit=1)
    assert text.endswith("words\n[Cells 1 to 1 of 2; go on with offset 2.]")
    assert (await desk.text(READ, file_path="n.ipynb", offset=2)).startswith("[cell 2, id calc")
    with pytest.raises(ToolError, match="only 2 cells"):
        await desk.call(READ, file_path="n.ipynb", offset=3)


async def test_pictures_of_outputs_are_shown(desk: Desk) -> None:
    output = {"output_type": "display_data", "data": {"image/png": [PIXEL], "text/plain": "<Figure>"}, "metadata": {}}
    broken = {"output_type": "display_data", "data": {"image/png": "AAAA"}, "metadata": {}}
    cell = {"cell_type": "code", "metadata": {}, "source": [], "outputs": [output, broken]}
    desk.file("n.ipynb", book([cell]))
    head, image, rest = await desk.blocks(READ, file_path="n.ipynb")
    assert (head, image) == (Text("[cell 1, id cell-0, code]\n"), Image("image/png", PIXEL))
    assert isinstance(rest, Text)
    assert "cannot be shown" in rest.text


async def test_long_outputs_are_cut(desk: Desk) -> None:
    output = {"output_type": "stream", "text": "x" * 50_000}
    desk.file("n.ipynb", book([{"cell_type": "code", "source": "", "outputs": [output] * 3}]))
    text = await desk.text(READ, file_path="n.ipynb")
    assert "40,000 more characters of output" in text
    assert len(text) < 11_000


@pytest.mark.parametrize("content", ["{", '{"cells": 3}', '{"cells": [1]}', "[]", '"x"', "[" * 100_000])
async def test_a_broken_notebook_is_shown_as_text_and_not_edited(desk: Desk, content: str) -> None:
    desk.file("n.ipynb", content)
    assert (await desk.text(READ, file_path="n.ipynb")).startswith("     1\t")
    assert "not a notebook that can be understood" in await refusal(desk, cell_id="a", new_source="b")


async def test_odd_cells_do_not_break_reading(desk: Desk) -> None:
    odd = [{}, {"source": 3, "outputs": 4}, {"outputs": [1, {"output_type": 3}, {"data": []}, {"data": {"x/y": 1}}]}]
    desk.file("n.ipynb", book(odd))
    assert "output of type x/y" in await desk.text(READ, file_path="n.ipynb")
    desk.file("n.ipynb", book([]))
    assert "no cells" in await desk.text(READ, file_path="n.ipynb")


async def test_replacing_a_cell_clears_what_it_printed_and_leaves_the_rest(desk: Desk) -> None:
    path = desk.file("n.ipynb", book(cells(), extra="é"))
    await desk.call(READ, file_path="n.ipynb")
    text = await desk.text(EDIT, notebook_path="n.ipynb", cell_id="calc", new_source="1\n2")
    wanted = cells()
    wanted[1] |= {"source": "1\n2", "outputs": [], "execution_count": None}
    assert json.loads(path.read_text()) == json.loads(book(wanted, extra="é"))
    assert path.read_text().startswith('{\n "cells": [\n  {\n')
    assert path.read_text().endswith("}\n")
    assert "é" in path.read_text()
    assert text.startswith(f"Replaced cell calc of {path}.\n     1 - 1/0")


async def test_line_ends_stay_as_they_are(desk: Desk) -> None:
    path = desk.file("n.ipynb", book(cells()).replace("\n", "\r\n"))
    await desk.call(READ, file_path="n.ipynb")
    await desk.call(EDIT, notebook_path="n.ipynb", cell_id="intro", new_source="a\nb")
    raw = path.read_bytes()
    assert raw.count(b"\n") == raw.count(b"\r\n") > 10
    assert json.loads(raw)["cells"][0]["source"] == ["a\n", "b"]


async def test_cells_with_the_same_id_are_told_apart(desk: Desk) -> None:
    same: list[Any] = [
        {"cell_type": "raw", "id": "cell-1", "metadata": {}, "source": word} for word in ("one", "two", "three")
    ]
    path = desk.file("n.ipynb", book(same))
    shown = await desk.text(READ, file_path="n.ipynb")
    names = [line.split()[3].rstrip(",") for line in shown.splitlines() if line.startswith("[cell ")]
    assert len(set(names)) == 3
    await desk.call(EDIT, notebook_path="n.ipynb", cell_id=names[2], new_source="changed")
    assert [cell["source"] for cell in json.loads(path.read_text())["cells"]] == ["one", "two", "changed"]


async def test_a_cell_is_put_in_after_another_or_at_the_top(desk: Desk) -> None:
    path = desk.file("n.ipynb", book(cells()))
    await desk.call(READ, file_path="n.ipynb")
    insert = {"notebook_path": "n.ipynb", "edit_mode": "insert"}
    await desk.call(EDIT, **insert, cell_id="intro", cell_type="code", new_source="a\nb")
    await desk.call(EDIT, **insert, cell_type="markdown", new_source="top")
    found = json.loads(path.read_text())["cells"]
    assert [cell["source"] for cell in found] == [["top"], ["# Title\n", "words"], ["a\n", "b"], "1/0"]
    assert found[2]["outputs"] == []
    assert "outputs" not in found[0]
    assert len({cell["id"] for cell in found}) == 4


async def test_a_cell_is_taken_out(desk: Desk) -> None:
    path = desk.file("n.ipynb", book(cells()))
    await desk.call(READ, file_path="n.ipynb")
    await desk.call(EDIT, notebook_path="n.ipynb", cell_id="cell-0", edit_mode="delete")
    assert [cell["id"] for cell in json.loads(path.read_text())["cells"]] == ["calc"]


async def test_older_notebooks_get_no_ids(desk: Desk) -> None:
    path = desk.file("n.ipynb", json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 2}))
    await desk.call(READ, file_path="n.ipynb")
    await desk.call(EDIT, notebook_path="n.ipynb", edit_mode="insert", cell_type="code", new_source="x")
    (cell,) = json.loads(path.read_text())["cells"]
    assert "id" not in cell
    assert "\n" not in path.read_text()


async def test_the_kind_of_a_cell_can_be_changed(desk: Desk) -> None:
    path = desk.file("n.ipynb", book(cells()))
    await desk.call(READ, file_path="n.ipynb")
    await desk.call(EDIT, notebook_path="n.ipynb", cell_id="calc", cell_type="markdown", new_source="words")
    cell = json.loads(path.read_text())["cells"][1]
    assert cell == {"cell_type": "markdown", "id": "calc", "metadata": {}, "source": "words"}


async def test_what_is_wrong_is_said(desk: Desk) -> None:
    path = desk.file("n.ipynb", book(cells()))
    assert "has not been read yet" in await refusal(desk, cell_id="calc", new_source="x")
    await desk.call(READ, file_path="n.ipynb")
    assert "There is no cell 'cals'. Did you mean calc?" in await refusal(desk, cell_id="cals", new_source="x")
    assert "`cell_type` is missing" in await refusal(desk, edit_mode="insert", new_source="x")
    assert "`cell_id` is missing" in await refusal(desk, new_source="x")
    assert "`new_source` is missing" in await refusal(desk, cell_id="calc")
    path.write_text(book([]))
    assert "has changed since" in await refusal(desk, cell_id="calc", new_source="x")
    with pytest.raises(ToolError, match="not a notebook"):
        await desk.call(EDIT, notebook_path="a.py", cell_id="x", new_source="y")


def test_it_says_what_it_touches() -> None:
    data = EDIT.parse({"notebook_path": "n.ipynb", "cell_id": "a", "new_source": "b"})
    assert EDIT.footprint(data) == Footprint.CHANGES
    assert EDIT.subjects(data) == (PathSubject("n.ipynb", "edit"),)
    assert EDIT.interrupt == "block"
