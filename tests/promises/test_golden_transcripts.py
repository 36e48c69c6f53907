"""Transcripts that earlier versions wrote load for ever, and mean what they meant."""

import json
import re
import shutil
from pathlib import Path
from typing import get_args

import pytest
from home import Home

from tugline.protocol.codec import to_plain
from tugline.protocol.records import AnyRecord
from tugline.rules.compactions import compactions
from tugline.rules.history import fold
from tugline.stores.reading import Reading, read_file
from tugline.testing import ModelServer, reply

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.jsonl"))


def whole(path: Path) -> Reading:
    return read_file(str(path), whole=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_transcript_of_an_earlier_version_means_what_it_meant(path: Path) -> None:
    reading = read_file(str(path))
    assert (reading.damaged, reading.unknown) == (0, 0)
    meant = json.loads(path.with_suffix(".expected.json").read_text())
    means = to_plain(fold(reading.records))
    assert {name: json.loads(json.dumps(means[name])) for name in meant} == meant
    of_all = to_plain(fold(whole(path).records))
    assert of_all["messages"] == means["messages"]  # from the boundary on, or from the beginning


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_a_transcript_of_an_earlier_version_can_be_gone_on_with(path: Path, tmp_path: Path) -> None:
    home = Home(tmp_path)
    await home.talk(reply("One."))
    (own,) = home.transcripts()
    shutil.copy(path, own.with_name(path.name))
    async with ModelServer([reply("It goes on.")]) as server:
        async with home.session(server, resume=path.stem) as session:
            assert (await session.run("Go on")).text == "It goes on."
    found = fold(whole(own.with_name(path.name)).records)
    assert found.messages[-2].content[0].text == "Go on"  # type: ignore[union-attr]


def test_every_kind_of_record_is_among_them() -> None:
    kinds = {type(record) for path in FILES for record in whole(path).records}
    assert kinds == set(get_args(AnyRecord))


def test_their_compactions_are_listed() -> None:
    (undone,) = compactions(whole(GOLDEN / "undone.jsonl").records)
    assert (undone.undone, undone.words, undone.summary) == (True, "the numbers", "## Goal\nTo mend cart.py.")
    assert [one.how for one in compactions(whole(GOLDEN / "forked.jsonl").records)] == ["summary", "snip"]


def test_each_has_its_meaning_beside_it_and_is_of_format_1() -> None:
    assert FILES
    for path in FILES:
        assert path.with_suffix(".expected.json").exists()
        assert re.match(r'\{"kind":"opened","format":1,', path.read_text())
