"""Edit: exact, all or none, and nothing but what was asked for changes."""

import os
from pathlib import Path

import pytest
from desk import Desk
from hypothesis import assume, given
from hypothesis import strategies as st

from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, FileSeen, Footprint, PathSubject, Seen
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.read import Read
from tugline.tools.diff import hunks, numbered, unified
from tugline.tools.files import fingerprint
from tugline.tools.replace import Replacement, replace
from tugline.tools.text import decode, encode, encoding_of

EDIT = Edit()
READ = Read()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def opened(desk: Desk, content: str | bytes, name: str = "a.txt") -> Path:
    path = desk.file(name, content)
    await desk.call(READ, file_path=name)
    return path


async def refusal(desk: Desk, **data: object) -> str:
    with pytest.raises(ToolError) as caught:
        await desk.call(EDIT, **{"file_path": "a.txt", **data})
    return str(caught.value)


async def test_one_place_is_changed_and_shown_with_line_numbers(desk: Desk) -> None:
    path = await opened(desk, "one\ntwo\nthree\nfour\nfive\nsix\n")
    result = await desk.call(EDIT, file_path="a.txt", old_string="four", new_string="4\n4b")
    assert path.read_text() == "one\ntwo\nthree\n4\n4b\nfive\nsix\n"
    assert result.for_model == (
        f"Changed {path}.\n"
        "     1   one\n     2   two\n     3   three\n"
        "     4 - four\n     4 + 4\n     5 + 4b\n     6   five\n     7   six"
    )
    diff = "@@ -1,6 +1,7 @@\n one\n two\n three\n-four\n+4\n+4b\n five\n six"
    assert result.for_person == Display("+2 -1 lines", diff, "diff")
    data = path.read_bytes()
    seen = FileSeen(path.stat().st_mtime_ns, len(data), fingerprint(data))
    assert result.changes == (Seen(str(path), seen),)


async def test_the_text_must_be_unique(desk: Desk) -> None:
    path = await opened(desk, "x = 1\ny = 2\nx = 1\n")
    text = await refusal(desk, old_string="x = 1", new_string="z")
    assert "stands in two places (lines 1, 3)" in text
    assert "replace_all" in text
    await desk.call(EDIT, file_path="a.txt", old_string="x = 1", new_string="z", replace_all=True)
    assert path.read_text() == "z\ny = 2\nz\n"


async def test_overlapping_places_are_not_unique(desk: Desk) -> None:
    await opened(desk, "aaa\n")
    assert "two places" in await refusal(desk, old_string="aa", new_string="b")


async def test_several_edits_are_made_in_order(desk: Desk) -> None:
    path = await opened(desk, "a\nb\n")
    edits = [{"old_string": "a", "new_string": "c"}, {"old_string": "c\nb", "new_string": "d"}]
    await desk.call(EDIT, file_path="a.txt", edits=edits)
    assert path.read_text() == "d\n"


async def test_of_several_edits_all_are_made_or_none(desk: Desk) -> None:
    path = await opened(desk, "a\nb\n")
    edits = [{"old_string": "a", "new_string": "c"}, {"old_string": "zzz", "new_string": "d"}]
    text = await refusal(desk, edits=edits)
    assert text.startswith("Edit 2 of 2: old_string is not in the file.")
    assert "None of the edits was made." in text
    assert path.read_text() == "a\nb\n"


@pytest.mark.parametrize(
    "data",
    [
        {"edits": []},
        {"edits": [{"old_string": "a", "new_string": "b"}], "old_string": "x", "new_string": "y"},
        {"old_string": "a"},
        {"new_string": "a"},
        {},
        {"edits": [{"old_string": "a"}]},
        {"edits": "not json"},
    ],
)
def test_input_that_says_neither_one_edit_nor_several_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ToolError):
        EDIT.parse({"file_path": "a.txt", **data})


async def test_a_file_must_have_been_read(desk: Desk) -> None:
    desk.file("a.txt", "one\n")
    assert "has not been read yet" in await refusal(desk, old_string="one", new_string="two")


async def test_a_file_that_changed_since_is_not_edited(desk: Desk) -> None:
    path = await opened(desk, "one\n")
    stat = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "has changed since it was read" in await refusal(desk, old_string="two", new_string="three")
    assert path.read_text() == "two\n"


async def test_a_mere_touch_is_no_change(desk: Desk) -> None:
    path = await opened(desk, "one\n")
    os.utime(path, ns=(5, 5))
    await desk.call(EDIT, file_path="a.txt", old_string="one", new_string="two")
    assert path.read_text() == "two\n"


async def test_one_edit_after_another_needs_no_new_read(desk: Desk) -> None:
    path = await opened(desk, "one\n")
    await desk.call(EDIT, file_path="a.txt", old_string="one", new_string="two")
    await desk.call(EDIT, file_path="a.txt", old_string="two", new_string="three")
    assert path.read_text() == "three\n"


async def test_what_is_missing_or_a_folder_is_named(desk: Desk) -> None:
    desk.file("b.txt")
    (desk.root / "a.dir").mkdir()
    assert "There is no file" in await refusal(desk, old_string="a", new_string="b")
    assert "folder" in await refusal(desk, file_path="a.dir", old_string="a", new_string="b")


async def test_the_closest_place_is_shown_when_nothing_matches(desk: Desk) -> None:
    await opened(desk, "def f():\n    return 1\n\ndef g():\n\treturn  2\n")
    text = await refusal(desk, old_string="def g():\n    return 2\n", new_string="x")
    assert "The closest place; it differs in white space:\n     4\tdef g():\n     5\t\treturn  2" in text
    assert "     1\tdef f():" in await refusal(desk, old_string="def ff():", new_string="x")
    assert "Nothing in it comes close" in await refusal(desk, old_string="§§§§§§", new_string="x")


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        ("say “Hello” now\n", 'say "Hello" now', 'say "Bye" now', "say “Bye” now\n"),
        ('say "Hello"\n', "say “Hello”", "say “Bye”", 'say "Bye"\n'),
        ("it’s here\n", "it's here", "it's there", "it’s there\n"),
        ("one  \ntwo\n", "one\ntwo", "one\n2", "one  \n2\n"),
        ("one\ntwo\n", "one  \ntwo", "one\n2", "one\n2\n"),
        ("it’s  \r\ntwo\r\n", "it's\ntwo", "it's\n2", "it’s  \r\n2\r\n"),
    ],
)
async def test_quotes_and_trailing_space_are_taken_leniently_and_said(
    desk: Desk, content: str, old: str, new: str, after: str
) -> None:
    path = await opened(desk, content)
    text = await desk.text(EDIT, file_path="a.txt", old_string=old, new_string=new)
    assert path.read_bytes().decode() == after
    assert "Taken for the text at line 1, which differs from old_string in" in text


async def test_leniency_ends_where_it_would_be_a_guess(desk: Desk) -> None:
    path = await opened(desk, "“a”\n‟a”\n")
    assert "two places differ" in await refusal(desk, old_string='"a"', new_string="b")
    path = await opened(desk, "x == 3\n")
    assert "not in the file" in await refusal(desk, old_string="x =  ", new_string="y")
    assert path.read_text() == "x == 3\n"


async def test_crlf_is_kept_though_the_model_writes_plain_newlines(desk: Desk) -> None:
    path = await opened(desk, b"one\r\ntwo\r\nthree\r\n")
    await desk.call(EDIT, file_path="a.txt", old_string="one\ntwo\n", new_string="1\n2\n2b\n")
    assert path.read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"
    await desk.call(EDIT, file_path="a.txt", old_string="three", new_string="3\r\n4")
    assert path.read_bytes() == b"1\r\n2\r\n2b\r\n3\r\n4\r\n"


async def test_mixed_line_ends_stay_as_they_are_where_nothing_is_changed(desk: Desk) -> None:
    path = await opened(desk, b"a\r\nb\nc\r\nd\n\re\n")
    await desk.call(EDIT, file_path="a.txt", old_string="b\nc", new_string="B\nC")
    assert path.read_bytes() == b"a\r\nB\nC\r\nd\n\re\n"


@pytest.mark.parametrize(
    "start", [b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0"], ids=["plain", "8", "16le", "16be", "32"]
)
async def test_encoding_and_mark_are_kept(desk: Desk, start: bytes) -> None:
    names = {b"": "utf-8", b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
    name = names.get(start, "utf-32-le")
    path = await opened(desk, start + "héllo\r\nwörld\r\n".encode(name))
    await desk.call(EDIT, file_path="a.txt", old_string="wörld", new_string="€")
    assert path.read_bytes() == start + "héllo\r\n€\r\n".encode(name)


async def test_latin_1_is_kept_and_what_it_cannot_hold_is_refused(desk: Desk) -> None:
    path = await opened(desk, "café\n".encode("latin-1"))
    assert "Latin-1, which has no '€'" in await refusal(desk, old_string="café", new_string="€")
    await desk.call(EDIT, file_path="a.txt", old_string="café", new_string="thé")
    assert path.read_bytes() == "thé\n".encode("latin-1")


async def test_half_a_surrogate_is_refused(desk: Desk) -> None:
    await opened(desk, "a\n")
    assert "no file can hold" in await refusal(desk, old_string="a", new_string="\ud800")


async def test_nothing_to_change_is_said(desk: Desk) -> None:
    await opened(desk, "a\r\nb\n")
    assert "the same" in await refusal(desk, old_string="a", new_string="a")
    assert "differ only in line ends" in await refusal(desk, old_string="a\r\n", new_string="a\n")


async def test_an_empty_old_string_creates_a_file_but_overwrites_none(desk: Desk) -> None:
    await desk.call(EDIT, file_path="sub/new.txt", old_string="", new_string="hello\n")
    assert (desk.root / "sub/new.txt").read_text() == "hello\n"
    await desk.call(EDIT, file_path="sub/new.txt", old_string="hello", new_string="bye")
    assert "exists already" in await refusal(desk, file_path="sub/new.txt", old_string="", new_string="x")


async def test_a_link_stays_and_its_target_is_edited(desk: Desk) -> None:
    path = desk.file("real.txt", "one\n")
    (desk.root / "link").symlink_to("real.txt")
    await desk.call(READ, file_path="link")
    await desk.call(EDIT, file_path="link", old_string="one", new_string="two")
    assert (desk.root / "link").is_symlink()
    assert path.read_text() == "two\n"


async def test_a_rename_in_very_many_places_is_shown_within_bounds(desk: Desk) -> None:
    path = await opened(desk, "".join(f"name {n}\nother\nfoo\nbar\nbaz\nqux\nquux\n" for n in range(2_000)))
    result = await desk.call(EDIT, file_path="a.txt", old_string="name", new_string="NAME", replace_all=True)
    assert path.read_text().count("NAME") == 2_000
    assert isinstance(result.for_model, str)
    assert "in 2000 places" in result.for_model
    assert len(result.for_model) < 10_000
    assert result.for_person is not None
    assert len(result.for_person.detail) < 30_000


def test_it_says_what_it_touches() -> None:
    data = EDIT.parse({"file_path": "a.txt", "edits": '[{"old_string": "a", "new_string": "b"}]'})
    assert EDIT.footprint(data) == Footprint.CHANGES
    assert EDIT.subjects(data) == (PathSubject("a.txt", "edit"),)
    assert EDIT.title(data) == "Edit a.txt"
    assert EDIT.interrupt == "block"


line_ends = st.sampled_from(["\n", "\r\n"])
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=12)
texts = st.lists(st.tuples(words, line_ends)).map(lambda rows: "".join(word + end for word, end in rows))
pieces = st.text(st.sampled_from("ab \t\n'\"“”’"), max_size=8)


@given(texts, st.data())
def test_an_exact_edit_changes_that_place_and_no_other_character(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    # A cut between CR and LF is no place that a model can name.
    assume(text[start - 1 : start + 1] != "\r\n" and text[end - 1 : end + 1] != "\r\n")
    old = text[start:end].replace("\r\n", "\n")
    plain = text.replace("\r\n", "\n")
    assume(old and plain.find(old, plain.find(old) + 1) < 0)
    done = replace(text, [Replacement(old, "<new>")])
    assert done.text == text[:start] + "<new>" + text[end:]
    assert done.notes == ()
    assert replace(done.text, [Replacement("<new>", old)]).text.replace("\r\n", "\n") == plain


@given(pieces, pieces, pieces, st.booleans())
def test_an_edit_is_made_as_python_would_or_refused(text: str, old: str, new: str, everywhere: bool) -> None:
    try:
        done = replace(text, [Replacement(old, new, everywhere)])
    except ToolError:
        assert not old or old == new or text.count(old) != 1 or not everywhere
        return
    if not done.notes:
        assert done.text == text.replace(old, new)
    else:
        assert old not in text


@given(st.binary(max_size=60) | texts.map(str.encode) | texts.map(lambda text: text.encode("utf-16")))
def test_text_goes_back_to_the_very_bytes_it_came_from(data: bytes) -> None:
    encoding = encoding_of(data)
    if encoding is not None:
        assert encode(decode(data, encoding), encoding) == data


@given(pieces, pieces)
def test_a_diff_is_a_recipe_for_the_new_text(before: str, after: str) -> None:
    found = hunks(before, after)
    rows = [f"{line}\n" for line in before.split("\n")]
    rows[-1] = rows[-1][:-1]
    rows = rows if rows[-1] else rows[:-1]
    made: list[str] = []
    at = 0
    for hunk in found:
        made += rows[at : hunk.old - 1]
        made += [line for mark, line in hunk.lines if mark != "-"]
        at = hunk.old - 1 + sum(mark != "+" for mark, _ in hunk.lines)
    assert "".join(made + rows[at:]) == after
    assert bool(found) == (before != after)
    assert bool(unified(found)) == bool(numbered(found)) == bool(found)
