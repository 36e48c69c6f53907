"""Write: new files and whole ones, never over what was not seen."""

import os
from pathlib import Path

import pytest
from desk import Desk

from tugline.protocol.errors import ToolError
from tugline.protocol.specs import Display, Footprint, PathSubject
from tugline.tools.builtin.read import Read
from tugline.tools.builtin.write import Write

WRITE = Write()
READ = Read()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def refusal(desk: Desk, **data: object) -> str:
    with pytest.raises(ToolError) as caught:
        await desk.call(WRITE, **data)
    return str(caught.value)


async def test_a_new_file_is_made_with_its_folders(desk: Desk) -> None:
    result = await desk.call(WRITE, file_path="a/b/c.txt", content="one\ntwo\n")
    path = desk.root / "a/b/c.txt"
    assert path.read_text() == "one\ntwo\n"
    assert result.for_model == f"Created {path} (2 lines)."
    assert result.for_person == Display("created, 2 lines", "@@ -0,0 +1,2 @@\n+one\n+two", "diff")
    assert sorted(os.listdir(path.parent)) == ["c.txt"]


async def test_what_was_just_written_may_be_written_again(desk: Desk) -> None:
    await desk.call(WRITE, file_path="a.txt", content="one\n")
    text = await desk.text(WRITE, file_path="a.txt", content="two\n")
    assert text == f"Wrote {desk.root}/a.txt.\n     1 - one\n     1 + two"
    assert "held the same before" in await desk.text(WRITE, file_path="a.txt", content="two\n")


async def test_a_file_that_was_not_read_is_not_overwritten(desk: Desk) -> None:
    path = desk.file("a.txt", "one\n")
    assert "has not been read yet" in await refusal(desk, file_path="a.txt", content="two")
    assert path.read_text() == "one\n"
    await desk.call(READ, file_path="a.txt")
    await desk.call(WRITE, file_path="a.txt", content="two")
    assert path.read_text() == "two"


async def test_a_file_that_changed_since_is_not_overwritten(desk: Desk) -> None:
    path = desk.file("a.txt", "one\n")
    await desk.call(READ, file_path="a.txt")
    path.write_text("1\n2\n")
    assert "has changed since it was read" in await refusal(desk, file_path="a.txt", content="two")
    assert path.read_text() == "1\n2\n"


async def test_an_empty_file_can_be_filled_unread(desk: Desk) -> None:
    desk.file("a.txt", "")
    await desk.call(WRITE, file_path="a.txt", content="two")
    assert (desk.root / "a.txt").read_text() == "two"


async def test_the_mode_is_kept(desk: Desk) -> None:
    path = desk.file("run.sh", "one\n")
    path.chmod(0o751)
    await desk.call(READ, file_path="run.sh")
    await desk.call(WRITE, file_path="run.sh", content="two\n")
    assert path.stat().st_mode & 0o7777 == 0o751


async def test_links_are_kept_symbolic_and_hard(desk: Desk) -> None:
    path = desk.file("real.txt", "one\n")
    (desk.root / "soft").symlink_to("real.txt")
    os.link(path, desk.root / "hard")
    await desk.call(READ, file_path="soft")
    await desk.call(WRITE, file_path="soft", content="two\n")
    assert (desk.root / "soft").is_symlink()
    assert path.read_text() == "two\n"
    assert (desk.root / "hard").read_text() == "two\n"


async def test_a_dangling_link_gets_its_target(desk: Desk) -> None:
    (desk.root / "link").symlink_to("sub/made.txt")
    await desk.call(WRITE, file_path="link", content="x")
    assert (desk.root / "sub/made.txt").read_text() == "x"
    assert (desk.root / "link").is_symlink()


async def test_line_ends_and_encoding_of_the_file_are_kept_and_said(desk: Desk) -> None:
    path = desk.file("a.txt", b"\xff\xfe" + "one\r\ntwo\r\n".encode("utf-16-le"))
    await desk.call(READ, file_path="a.txt")
    text = await desk.text(WRITE, file_path="a.txt", content="1\n€\n")
    assert path.read_bytes() == b"\xff\xfe" + "1\r\n€\r\n".encode("utf-16-le")
    assert "Its CRLF line ends were kept. Its encoding (utf-16-le with byte order mark) was kept." in text


async def test_latin_1_becomes_utf_8_only_where_it_must(desk: Desk) -> None:
    path = desk.file("a.txt", "café".encode("latin-1"))
    await desk.call(READ, file_path="a.txt")
    await desk.call(WRITE, file_path="a.txt", content="thé")
    assert path.read_bytes() == "thé".encode("latin-1")
    assert "it is UTF-8 now" in await desk.text(WRITE, file_path="a.txt", content="€")
    assert path.read_bytes() == "€".encode()


async def test_what_is_no_place_for_a_file_is_refused(desk: Desk) -> None:
    desk.file("folder/x")
    desk.file("plain", "x")
    os.mkfifo(desk.root / "pipe")
    assert "is a folder" in await refusal(desk, file_path="folder", content="x")
    assert "names a folder" in await refusal(desk, file_path="new/", content="x")
    assert "not a regular file" in await refusal(desk, file_path="pipe", content="x")
    assert "not a folder" in await refusal(desk, file_path="plain/x", content="x")
    for path in ("/dev/null", "/proc/self/mem", "/sys/new", "/dev/new/x"):
        assert await refusal(desk, file_path=path, content="x")
    (desk.root / "loop").symlink_to("loop")
    assert "too many links" in await refusal(desk, file_path="loop", content="x")


async def test_half_a_surrogate_is_refused_and_writes_nothing(desk: Desk) -> None:
    assert "no file can hold" in await refusal(desk, file_path="a.txt", content="\ud800")
    assert os.listdir(desk.root) == []


async def test_a_large_rewrite_is_shown_within_bounds(desk: Desk) -> None:
    desk.file("a.txt", "".join(f"old {n}\n" for n in range(9_000)))
    await desk.call(READ, file_path="a.txt")
    result = await desk.call(WRITE, file_path="a.txt", content="".join(f"new {n}\n" for n in range(8_000)))
    assert isinstance(result.for_model, str)
    assert len(result.for_model) < 10_000


def test_it_says_what_it_touches() -> None:
    data = WRITE.parse({"file_path": "a.txt", "content": ""})
    assert WRITE.footprint(data) == Footprint.CHANGES
    assert WRITE.subjects(data) == (PathSubject("a.txt", "edit"),)
    assert WRITE.title(data) == "Write a.txt"
    assert WRITE.interrupt == "block"
