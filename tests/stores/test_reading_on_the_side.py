"""Transcripts that are looked at without being gone on with: lines, passages, summaries, searches."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shelf import Shelf, opened, said

from tugline.protocol.blocks import Text
from tugline.protocol.codec import encode
from tugline.protocol.ids import AgentId, MessageId, SessionId
from tugline.protocol.messages import Assistant, User
from tugline.protocol.records import FORMAT, AnyRecord, Compacted, Opened, Rewound, Said, Uncompacted
from tugline.rules.history import spoken
from tugline.stores.chronicle import open_chronicle
from tugline.stores.lines import lines_forward
from tugline.stores.searching import Wanted


def in_memory(data: bytes) -> int:
    fd = os.memfd_create("lines")
    os.write(fd, data)
    return fd


@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b""))), st.binary(max_size=5), st.integers(1, 9))
def test_lines_are_those_of_the_file_whatever_the_size_of_a_block(lines: list[bytes], rest: bytes, block: int) -> None:
    rest = rest.replace(b"\n", b"")
    fd = in_memory(b"".join(line + b"\n" for line in lines) + rest)
    try:
        assert list(lines_forward(fd, block=block)) == lines
        short = [line if len(line) <= 4 else None for line in lines]
        assert list(lines_forward(fd, block=block, longest=4)) == short
    finally:
        os.close(fd)


@st.composite
def transcripts(draw: st.DrawFn) -> list[AnyRecord]:
    """A conversation with rewinds, boundaries and some of them undone."""
    records: list[AnyRecord] = [
        Opened(format=FORMAT, session=SessionId("s"), agent=AgentId("main"), cwd="/", version="0")
    ]
    nodes: list[MessageId] = []
    head: MessageId | None = None
    for number in range(draw(st.integers(1, 14))):
        what = draw(st.sampled_from(["person", "person", "model", "rewind", "compact", "undo"]))
        name = MessageId(f"m{number}")
        if what == "rewind" and nodes:
            head = draw(st.sampled_from([None, *nodes]))
            records.append(Rewound(to=head))
            continue
        if what == "undo" and nodes:
            records.append(Uncompacted(boundary=draw(st.sampled_from(nodes))))
            continue
        if what == "compact":
            records.append(Compacted(id=name, messages=(), parent=head))
        else:
            text = (Text(f"words {number}"),)
            records.append(Said(message=Assistant(name, text) if what == "model" else User(name, text), parent=head))
        head = name
        nodes.append(name)
    return records


@given(transcripts())
def test_passages_are_the_conversation_and_what_was_taken_out_of_it(records: list[AnyRecord]) -> None:
    lines = b"".join(encode(record) + b"\n" for record in records)
    fd = in_memory(lines)
    try:
        with open_chronicle_of(fd) as chronicle:
            found = list(chronicle.passages())
    finally:
        os.close(fd)
    prompts = [p for p in found if isinstance(p.said, User) and p.said.source == "person" and not p.aside]
    assert [p.said.id for p in prompts] == [one.id for one in spoken(records)]
    assert [p.turn for p in prompts] == list(range(1, len(prompts) + 1))
    nodes = [r.message.id if isinstance(r, Said) else r.id for r in records if isinstance(r, Said | Compacted)]
    assert [p.said.id for p in found] == nodes


def open_chronicle_of(fd: int) -> Any:
    from contextlib import nullcontext

    from tugline.stores.chronicle import Chronicle

    return nullcontext(Chronicle(fd))


words = st.text(st.sampled_from('aAbß"\\é k\u212aİ\n'), min_size=1, max_size=6).filter(lambda text: bool(text.split()))


@given(words, st.text(st.sampled_from('aAbß"\\é k\u212aİ\nxyz'), max_size=30))
def test_no_line_that_has_the_words_is_passed_over_before_it_is_decoded(wanted: str, text: str) -> None:
    looked_for = Wanted(wanted)
    record = Said(message=User(MessageId("m"), (Text(text),)))
    if looked_for.excerpt(text):
        assert looked_for.maybe(encode(record))


async def test_a_line_in_the_middle_of_being_written_is_no_line_yet(tmp_path: Path) -> None:
    path = Shelf(tmp_path).write("s-1", [opened(), said("m1", "Hello"), b'{"kind":"said","message":{"ro'])
    with open_chronicle(str(path)) as chronicle:
        assert len(list(chronicle.passages())) == 1
        assert (chronicle.damaged, chronicle.unknown) == (0, 0)


def test_damaged_and_newer_lines_are_counted_and_all_else_is_there(tmp_path: Path) -> None:
    newer = {"kind": "sung", "n": 3}
    path = Shelf(tmp_path).write(
        "s-1", [opened(), said("m1", "one"), newer, b"\x00" * 99 + b"\n", b"\xff\n", said("m2", "two", "gone"), b"{}\n"]
    )
    with open_chronicle(str(path)) as chronicle:
        texts = [p.said.content[0].text for p in chronicle.passages() if not isinstance(p.said, Compacted)]  # type: ignore[union-attr]
        assert texts == ["one", "two"]
        assert (chronicle.damaged, chronicle.unknown) == (3, 1)


async def test_a_summary_reads_the_ends_of_a_large_file_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path)
    filler = said("m2", "x" * 1_000_000, "m1", role="assistant")
    ended = {"kind": "turn_ended", "reason": "completed", "steps": 1, "cost_usd": 1.5, "title": "Named", "models": {}}
    shelf.write("s-1", [opened(), said("m1", "The first words"), *[filler] * 40, ended])
    read = 0
    real = os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        nonlocal read
        data = real(fd, size, at)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    (summary,) = shelf.sessions.summaries()
    assert (summary.title, summary.prompt, summary.cost_usd) == ("Named", "The first words", 1.5)
    assert read < 4_000_000


def test_what_is_no_transcript_is_listed_with_what_is_wrong(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    problems: dict[str, tuple[list[dict[str, Any] | bytes], str]] = {
        "empty-1": ([], "is empty"),
        "zeros-1": ([b"\x00" * 5000], "no transcript"),
        "newer-1": ([opened(format=99)], "newer tugline"),
        "other-1": ([{"type": "user"}], "no transcript"),
        "torn-1": ([b'{"kind":"opened","format":1,"sess'], "no transcript"),
    }
    for name, (lines, _) in problems.items():
        shelf.write(name, lines)
    found = {one.session: one.problem for one in shelf.sessions.summaries()}
    assert found.keys() == problems.keys()
    for name, (_, words) in problems.items():
        assert words in found[SessionId(name)], name


def test_a_transcript_whose_first_line_is_damaged_is_still_a_session(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.write("s-1", [b"\x00\x00\n", said("m1", "Still here")])
    (one,) = shelf.sessions.summaries()
    assert (one.prompt, one.problem) == ("Still here", "")
    assert [p.turn for p in shelf.sessions.passages("s-1")] == [1]
