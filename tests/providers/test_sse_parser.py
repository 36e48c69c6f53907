"""Event streams: any split of the bytes gives the same events."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tugline.providers.sse import SseError, SseParser

Events = list[tuple[str, bytes]]


def parse(pieces: list[bytes], *, end: bool = True) -> Events:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + (parser.end() if end else [])


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b'event: a\ndata: {"x": 1}\n\n', [("a", b'{"x": 1}')]),
        (b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\ndata: 3\n\n", [("a", b"1"), ("b", b"2"), ("message", b"3")]),
        (b"event:a\ndata:1\n\n", [("a", b"1")]),
        (b"data: 1\nevent: a\n\n", [("a", b"1")]),
        (b"event: a\ndata: 1\ndata: 2\n\n", [("a", b"1\n2")]),
        (b"event: a\nid: 1\ndata: 2\n\n", [("a", b"2")]),
        (b"data:  1\n\n", [("message", b" 1")]),
        (b"data: 1\ndata\ndata: 2\n\n", [("message", b"1\n\n2")]),
        (b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\n", [("b", b"1"), ("message", b"2")]),
        (b"event: a\n\ndata: 1\n\n", [("message", b"1")]),
        (b": comment\n\n:\n\nevent: ping\n\n", []),
        (b"event: a\n: comment\nid: 7\nretry: 5\nother: x\ndata: 1\n\n", [("a", b"1")]),
        (b"data:\n\ndata: \n\n", []),
        (b"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", [("a", b"1"), ("message", b"2")]),
        (b"event: a\rdata: 1\r\rdata: 2\r\r", [("a", b"1"), ("message", b"2")]),
        (b"event: a\ndata: 1\r\n\ndata: 2\r\r\n", [("a", b"1"), ("message", b"2")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [("message", b"1")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\n", []),
        ("data: a\u2028b\u0085c\x0b\x0c\n\n".encode(), [("message", "a\u2028b\u0085c\x0b\x0c".encode())]),
        (b"event: \xff\ndata: \xff\n\n", [("\ufffd", b"\xff")]),
        (b"event: a\ndata: 1\n\n\n\ndata: 2\n\n", [("a", b"1"), ("message", b"2")]),
    ],
)
def test_an_event_stream_is_read_as_the_standard_says(data: bytes, events: Events) -> None:
    assert parse([data], end=False) == events
    assert parse([bytes([byte]) for byte in data], end=False) == events


@pytest.mark.parametrize("tail", [b"data: 1", b"data: 1\n", b"data: 1\r", b"data: 1\r\n"])
def test_a_last_event_without_its_blank_line_comes_at_the_proper_end(tail: bytes) -> None:
    assert parse([tail], end=False) == []
    assert parse([b"data: 0\n\n", tail]) == [("message", b"0"), ("message", b"1")]


def reference(data: bytes) -> Events:
    """The standard, word by word, over the whole text."""
    events: Events = []
    name = b""
    lines: list[bytes] = []
    for line in [*re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf")), b""]:
        if not line:
            text = b"\n".join(lines)
            if text:
                events.append((name.decode("utf-8", "replace") or "message", text))
            name, lines = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value
    return events


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(marks)]


PIECES = st.sampled_from(
    [
        b"event: a",
        b"event:b",
        b"data: 1",
        b"data:",
        b"data: {}",
        b"data",
        b": ping",
        b":",
        b"id: 1",
        b"x",
        b"\xef\xbb\xbf",
    ]
    + [b"event: a\ndata: 1\n\n"] * 3
    + [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n"] * 2
)


@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 10_000), max_size=12))
@example(b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\n", [9])
@example(b"\xef\xbb\xbfdata: 1\r\n\r\n", [1, 2, 11, 12])
def test_any_split_gives_the_events_of_the_standard(data: bytes, places: list[int]) -> None:
    assert parse(cut(data, places)) == reference(data)


@given(st.binary(max_size=300), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_bytes_give_the_events_of_the_standard(data: bytes, places: list[int]) -> None:
    assert parse(cut(data, places)) == reference(data)


def feed_until_refused(parser: SseParser, piece: bytes, most: int) -> int:
    """Bytes that went in before it refused."""
    for count in range(most // len(piece)):
        try:
            parser.feed(piece)
        except SseError:
            return count * len(piece)
    raise AssertionError("it took everything")


@pytest.mark.parametrize("piece", [b"x" * 65536, b"data: " + b"x" * 500 + b"\n", b"data: x\r\n" * 1000])
def test_a_line_or_event_without_end_is_refused_and_not_kept(piece: bytes) -> None:
    limit = 1024 * 1024
    assert feed_until_refused(SseParser(limit), piece, 8 * limit) <= 4 * limit


@pytest.mark.parametrize("data", [b"data: %s\n\n", b"event: a\ndata: %s\n\n", b"data: %s\r\n\r\n"])
def test_a_line_that_comes_whole_is_held_to_the_limit_too(data: bytes) -> None:
    limit = 1024 * 1024
    assert len(SseParser(limit).feed(data % (b"x" * (limit - 10)))) == 1
    with pytest.raises(SseError, match="longer than 1 MB"):
        SseParser(limit).feed(data % (b"x" * (limit + 10)))


def test_a_long_line_in_small_pieces_costs_no_more_than_its_length() -> None:
    parser = SseParser()
    for _ in range(400_000):  # were each piece to cost as much as the line, this would not end in time
        parser.feed(b"x" * 40)
    assert parser.feed(b"\n") == []


def test_names_in_any_number_are_not_kept_for_ever() -> None:
    parser = SseParser()
    for i in range(1000):
        assert parser.feed(b"event: n%d\ndata: 1\n\n" % i) == [(f"n{i}", b"1")]
    assert len(parser._names) <= 64
