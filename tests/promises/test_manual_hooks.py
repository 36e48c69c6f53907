"""The manual of hooks: its examples are run, its tables are those of the code."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hook_desk import HookDesk, sent
from manual import blocks, codes, page, sections, tables

from tugline.config.settings import HookEntry
from tugline.rules.hook_events import EVENTS, MATCHED, OCCASIONS
from tugline.testing import ModelServer, call, reply

HOW_TO, REFERENCE = page("how-to/hooks.md"), page("reference/hooks.md")


@pytest.fixture
def desk(tmp_path: Path) -> HookDesk:
    return HookDesk(tmp_path)


async def play(desk: HookDesk, example: str, *steps: Any) -> str:
    desk.file(".tugline/settings.json", example)
    async with ModelServer(list(steps), lenient=True) as server, desk.session(server) as session:
        await session.run("Go")
        assert [text for text in desk.notices() if "settings" in text] == []
        return sent(server)


async def test_the_example_that_forbids_something(desk: HookDesk) -> None:
    said = await play(desk, blocks(HOW_TO, "json")[0], reply(call("Bash", command="rm -rf x")), reply("Done."))
    assert "No recursive deletes here." in said


async def test_the_example_that_does_something_after_an_edit(desk: HookDesk) -> None:
    path = str(desk.repo / "a")
    await play(desk, blocks(HOW_TO, "json")[1], reply(call("Write", file_path=path, content="x")), reply("Done."))
    assert (desk.repo / "edited.txt").read_text() == f"{path}\n"


async def test_the_example_that_tells_the_model_something(desk: HookDesk) -> None:
    assert re.search("Branch: (none|\\w*)", await play(desk, blocks(HOW_TO, "json")[2], reply("Done.")))


async def test_the_example_that_lets_nobody_stop_too_early(desk: HookDesk) -> None:
    run = reply(call("Bash", command="touch tests-passed"))
    said = await play(desk, blocks(HOW_TO, "json")[3], reply("Done."), run, reply("Done."))
    assert said.count("Run the tests first.") == 1


def test_every_example_is_json() -> None:
    assert [list(json.loads(block)) for block in blocks(HOW_TO, "json")] == [["hooks"]] * 4


def test_every_field_of_a_hook_is_in_the_table() -> None:
    (rows, *_) = tables(sections(REFERENCE, 2)["Where they stand"])
    assert {name for row in rows for name in codes(row[0])} == set(HookEntry.__struct_encode_fields__)


def test_every_event_is_in_the_table_with_its_matcher() -> None:
    text = sections(REFERENCE, 2)["Events"]
    listed = {codes(row[0])[0]: codes(row[1]) for row in tables(text)[0]}
    for event, matched in listed.items():
        expected = [MATCHED[event]] if event in MATCHED and event != "FileChanged" else []
        assert matched == expected, event
    later = codes(text.split("without an occasion in this version")[1].split("\n\n")[0])
    assert set(listed) | set(later) == EVENTS
    assert set(listed) == OCCASIONS
