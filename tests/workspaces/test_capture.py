"""Both ends of an output, whatever the pieces in which it came."""

import resource
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.ports import Output
from tugline.workspaces import capture
from tugline.workspaces.capture import Capture


def captured(pieces: list[bytes], keep: int, spill: str | None = None) -> Output:
    kept = Capture(keep, spill)
    for piece in pieces:
        kept.feed(piece)
    kept.end()
    return kept.output()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if end > start]


text = st.text(st.sampled_from("ab\né€😀\0"), max_size=60)
places = st.lists(st.integers(0, 300), max_size=10)


@given(text, places, st.integers(0, 12))
def test_any_split_of_a_text_gives_its_first_and_last_characters(words: str, cuts: list[int], keep: int) -> None:
    data = words.encode()
    output = captured(cut(data, cuts), keep)
    whole = len(words) <= 2 * keep
    head, tail = (words[:keep], words[keep:]) if whole else (words[:keep], words[len(words) - keep :])
    lines = len(words.split("\n")) - (words.endswith("\n") or not words)
    assert output == Output(head=head, tail=tail, size=len(data), lines=lines, whole=whole)


@given(st.binary(max_size=200), places, st.integers(1, 12))
def test_any_split_of_any_bytes_gives_the_same(data: bytes, cuts: list[int], keep: int) -> None:
    assert captured(cut(data, cuts), keep) == captured([data] if data else [], keep)


@given(st.binary(min_size=1, max_size=300), places, st.integers(0, 12))
def test_the_file_holds_everything_or_is_not_made(data: bytes, cuts: list[int], keep: int) -> None:
    with TemporaryDirectory() as folder:
        output = captured(cut(data, cuts), keep, f"{folder}/deep/spill")
        if output.spill is None:
            assert output.whole
            assert not Path(folder, "deep").exists()
        else:
            assert Path(output.spill).read_bytes() == data


def test_the_file_stops_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "SPILL_LIMIT", 100)
    data = bytes(range(256))
    output = captured([data[:90], data[90:]], 10, str(tmp_path / "spill"))
    assert output.spill is not None
    assert Path(output.spill).read_bytes() == data[:100]
    assert output.size == 256


def test_where_no_file_can_be_made_both_ends_are_kept() -> None:
    output = captured([b"a" * 100, b"b" * 100], 10, "/dev/null/no")
    assert output == Output(head="a" * 10, tail="b" * 10, size=200, lines=1, whole=False)


def test_when_no_more_can_be_written_what_is_there_stays(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, limit[1]))
    try:
        output = captured([b"a" * 100, b"b" * 100, b"c" * 100], 10, str(tmp_path / "spill"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert output == Output(head="a" * 10, tail="c" * 10, size=300, lines=1, spill=str(tmp_path / "spill"), whole=False)
    assert (tmp_path / "spill").read_bytes() == b"a" * 100 + b"b" * 50
