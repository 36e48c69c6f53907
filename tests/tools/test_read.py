"""Read: text of any size and encoding, pictures, PDF; and what it refuses."""

import base64
import contextlib
import io
import os
import socket
from pathlib import Path

import anyio
import pytest
from desk import Desk

from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.errors import ToolError
from tugline.protocol.specs import FileSeen, Footprint, PathSubject, Seen
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.read import Read, ReadInput
from tugline.tools.files import fingerprint

READ = Read()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def refusal(desk: Desk, **data: object) -> str:
    with anyio.fail_after(10), pytest.raises(ToolError) as caught:
        await desk.call(READ, **data)
    return str(caught.value)


async def test_lines_come_with_their_numbers(desk: Desk) -> None:
    desk.file("a.txt", "one\ntwo\n")
    result = await desk.call(READ, file_path="a.txt")
    assert result.for_model == "     1\tone\n     2\ttwo"
    assert result.is_error is False


async def test_what_was_seen_is_a_change_and_not_a_mutation(desk: Desk) -> None:
    path = desk.file("a.txt", "one\n")
    before = desk.state
    result = await READ.run(READ.parse({"file_path": "a.txt"}), desk.context())
    stat = path.stat()
    seen = FileSeen(stat.st_mtime_ns, 4, fingerprint(b"one\n"), whole=True, view="1:")
    assert result.changes == (Seen(str(path), seen),)
    assert desk.state is before
    assert desk.state.files == {}


async def test_offset_and_limit_show_a_part_and_say_how_to_go_on(desk: Desk) -> None:
    desk.file("a.txt", "".join(f"line {n}\n" for n in range(1, 11)))
    text = await desk.text(READ, file_path="a.txt", offset=4, limit=2)
    assert text == "     4\tline 4\n     5\tline 5\n\n[Lines 4 to 5 of 10; go on with offset 6.]"
    assert desk.state.files[str(desk.root / "a.txt")].whole is False


async def test_an_offset_past_the_end_says_how_long_the_file_is(desk: Desk) -> None:
    desk.file("a.txt", "one\n")
    assert "has only 1 lines; line 5 is past its end" in await refusal(desk, file_path="a.txt", offset=5)


async def test_two_thousand_lines_are_shown_by_default(desk: Desk) -> None:
    desk.file("a.txt", "x\n" * 2_500)
    text = await desk.text(READ, file_path="a.txt")
    assert text.splitlines()[1_999] == "  2000\tx"
    assert text.endswith("[Lines 1 to 2,000 of 2,500; go on with offset 2001.]")


async def test_a_long_line_is_cut_and_says_so(desk: Desk) -> None:
    desk.file("a.txt", "é" * 5_000 + "\nnext\n")
    first, second = (await desk.text(READ, file_path="a.txt")).splitlines()
    assert first == "     1\t" + "é" * 2_000 + "… [3,000 more characters in this line]"
    assert second == "     2\tnext"


@pytest.mark.parametrize("size", [1_000_000, 18_000_000])
async def test_what_is_collected_does_not_depend_on_the_limit_that_is_asked_for(desk: Desk, size: int) -> None:
    desk.file("a.txt", "\n" * size)
    text = await refusal(desk, file_path="a.txt", limit=10**15)
    assert "about 25,001 tokens at least, more than the 25,000" in text


async def test_too_many_tokens_are_an_error_that_says_how_much_fits(desk: Desk) -> None:
    desk.file("a.txt", ("x" * 992 + "\n") * 500)
    text = await refusal(desk, file_path="a.txt")
    assert "about 124,999 tokens at least, more than the 25,000" in text
    assert "about 100 lines fit" in text
    assert desk.state.files == {}
    await desk.call(READ, file_path="a.txt", limit=100)


async def test_an_empty_file_is_said_to_be_empty(desk: Desk) -> None:
    desk.file("a.txt", "")
    assert "exists but is empty" in await desk.text(READ, file_path="a.txt")


async def test_a_missing_file_names_what_comes_close(desk: Desk) -> None:
    desk.file("config.yaml")
    desk.file("readme.md")
    text = await refusal(desk, file_path="confg.yaml")
    assert f"Did you mean {desk.root}/config.yaml?" in text
    beyond = await refusal(desk, file_path="config.yaml/deep/x")
    assert beyond.endswith(f"/deep/x: {desk.root}/config.yaml is no folder that can be read.")
    assert "config.yaml" in await refusal(desk, file_path="config.yml")
    assert str(desk.root) in await refusal(desk, file_path="other/deep/zzz.txt")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"\xef\xbb\xbfa\xc3\xa9\n", "     1\taé"),
        ("aé\n€".encode("utf-16"), "     1\taé\n     2\t€"),
        (b"\xfe\xff" + "aé\n".encode("utf-16-be"), "     1\taé"),
        (b"\xff\xfe\0\0" + "aé\n".encode("utf-32-le"), "     1\taé"),
        ("café\n".encode("latin-1"), "     1\tcafé"),
        (b"one\r\ntwo\r\n", "     1\tone\n     2\ttwo"),
        (b"no end", "     1\tno end"),
        ("a\u2028b\x0cc\n".encode(), "     1\ta\u2028b\x0cc"),
    ],
)
async def test_encodings_and_line_ends_are_understood(desk: Desk, content: bytes, shown: str) -> None:
    desk.file("a.txt", content)
    assert await desk.text(READ, file_path="a.txt") == shown


@pytest.mark.parametrize("content", [b"\x7fELF\0\0\0", bytes(range(256)) * 4, b"\xff\xfe\x00", b"\0"])
async def test_a_binary_file_is_refused_by_name(desk: Desk, content: bytes) -> None:
    desk.file("a.bin", content)
    assert "is a binary file" in await refusal(desk, file_path="a.bin")


async def test_the_same_unchanged_file_is_not_shown_twice(desk: Desk) -> None:
    path = desk.file("a.txt", "one\n")
    first = await desk.text(READ, file_path="a.txt")
    assert "unchanged" in await desk.text(READ, file_path="a.txt")
    os.utime(path, ns=(1, 1))
    assert "unchanged" in await desk.text(READ, file_path=str(path))
    assert await desk.text(READ, file_path="a.txt", limit=1) == first
    path.write_text("two\n")
    assert await desk.text(READ, file_path="a.txt", limit=1) == "     1\ttwo"


async def test_a_file_that_was_edited_is_shown_in_full(desk: Desk) -> None:
    desk.file("a.txt", "one\n")
    await desk.call(READ, file_path="a.txt")
    await desk.call(Edit(), file_path="a.txt", old_string="one", new_string="two")
    assert await desk.text(READ, file_path="a.txt") == "     1\ttwo"


async def test_a_huge_file_is_read_by_offset_in_little_memory(desk: Desk) -> None:
    path = desk.root / "big.txt"
    with path.open("wb") as file:
        for start in range(0, 400_000, 1_000):
            file.write(b"".join(b"line %9d %s\n" % (n, b"x" * 60) for n in range(start, start + 1_000)))
    assert path.stat().st_size > 24 * 1024 * 1024
    text = await desk.text(READ, file_path="big.txt", offset=399_000, limit=2)
    assert text.startswith("399000\tline    398999 xxx")
    assert "[Lines 399,000 to 399,001 of a file of" in text
    assert "unchanged" in await desk.text(READ, file_path="big.txt", offset=399_000, limit=2)
    assert (await desk.text(READ, file_path="big.txt", limit=1)).startswith("     1\tline         0 ")
    assert "has only 400,000 lines" in await refusal(desk, file_path="big.txt", offset=400_001)
    await desk.call(Edit(), file_path="big.txt", old_string="line    123456 ", new_string="LINE ")


async def test_one_endless_line_is_cut_without_loading_it(desk: Desk) -> None:
    path = desk.root / "line.txt"
    with path.open("wb") as file:
        for _ in range(20):
            file.write(b"y" * (1024 * 1024))
    text = await desk.text(READ, file_path="line.txt")
    assert text.startswith("     1\t" + "y" * 2_000 + "… [20,969,520 more characters in this line]")


async def test_a_sparse_terabyte_is_refused_as_binary_at_once(desk: Desk) -> None:
    path = desk.file("sparse", "")
    os.truncate(path, 1 << 40)
    assert "is a binary file" in await refusal(desk, file_path="sparse")


async def test_devices_pipes_sockets_and_kernel_files_are_refused_without_hanging(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    (desk.root / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        # A socket's address must be short.
        folder = os.getcwd()
        os.chdir(desk.root)
        try:
            listener.bind("sock")
        finally:
            os.chdir(folder)
        assert "is a socket" in await refusal(desk, file_path="sock")
    assert "a named pipe, not a regular file" in await refusal(desk, file_path="pipe")
    for path in ("/dev/zero", "/dev/stdin", "/proc/self/environ", "/proc/kmsg", "/sys/kernel/uevent_seqnum", "zero"):
        assert "below /proc, /dev and /sys" in await refusal(desk, file_path=path)


async def test_a_folder_says_what_to_use(desk: Desk) -> None:
    desk.file("src/a.py")
    assert "is a folder. List it with Glob (path src, pattern *)" in await refusal(desk, file_path="src")


async def test_links_are_followed_and_remembered_by_their_target(desk: Desk) -> None:
    path = desk.file("real.txt", "one\n")
    (desk.root / "link").symlink_to("real.txt")
    assert await desk.text(READ, file_path="link") == "     1\tone"
    assert list(desk.state.files) == [str(path)]
    assert "unchanged" in await desk.text(READ, file_path="real.txt")


async def test_link_loops_and_dangling_links_are_plain_errors(desk: Desk) -> None:
    (desk.root / "a").symlink_to("b")
    (desk.root / "b").symlink_to("a")
    (desk.root / "gone").symlink_to("nowhere")
    assert "too many links" in await refusal(desk, file_path="a")
    gone = f"{desk.root}/gone: it is a link to {desk.root}/nowhere, which is not there."
    assert await refusal(desk, file_path="gone") == f"There is no file {gone}"


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 300, "\ud800", "/" + "d/" * 3000 + "f"])
async def test_paths_that_are_none_are_plain_errors(desk: Desk, path: str) -> None:
    assert await refusal(desk, file_path=path)


async def test_a_small_picture_is_sent_as_it_is(desk: Desk) -> None:
    data = picture("PNG", (20, 10))
    desk.file("a.png", data)
    result = await desk.call(READ, file_path="a.png")
    assert result.for_model == (Image("image/png", base64.b64encode(data).decode()),)
    assert result.for_person is not None
    assert result.for_person.line == "PNG picture, 20 x 10"
    assert "unchanged" in await desk.text(READ, file_path="a.png")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_large_picture_is_made_smaller(desk: Desk, form: str) -> None:
    import PIL.Image

    desk.file("a.img", picture(form, (4_000, 1_000)))
    block, note = await desk.blocks(READ, file_path="a.img")
    assert isinstance(block, Image)
    assert isinstance(note, Text)
    assert note.text == "[Shown at 1568 x 392; the file has 4000 x 1000 pixels.]"
    with PIL.Image.open(io.BytesIO(base64.b64decode(block.data))) as shown:
        assert shown.size == (1_568, 392)
        assert f"image/{(shown.format or '').lower()}" == block.media_type


async def test_a_cut_off_picture_is_a_plain_error(desk: Desk) -> None:
    for form in ("PNG", "JPEG", "GIF", "WEBP"):
        whole = picture(form, (200, 200))
        desk.file("a.img", whole[: len(whole) // 2])
        assert "is no whole" in await refusal(desk, file_path="a.img")
    desk.file("a.img", b"\x89PNG\r\n\x1a\n")
    assert (await refusal(desk, file_path="a.img")).rstrip(".").endswith("it is no whole PNG picture")


async def test_a_decompression_bomb_is_not_opened(desk: Desk) -> None:
    import struct
    import zlib

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    desk.file("bomb.png", b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IDAT" + b"\0" * 8)
    assert "60000 x 60000 pixels are too many" in await refusal(desk, file_path="bomb.png")


async def test_a_model_that_sees_no_pictures_gets_a_note(tmp_path: Path) -> None:
    desk = Desk(tmp_path, images=False)
    desk.file("a.png", picture("PNG", (20, 10)))
    assert "cannot see pictures" in await desk.text(READ, file_path="a.png")


async def test_a_pdf_is_text_by_page_or_a_document(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.file("a.pdf", pdf(["first words", "second words"]))
    text = await desk.text(READ, file_path="a.pdf")
    assert text == "[Page 1 of 2]\nfirst words\n\n[Page 2 of 2]\nsecond words"
    assert await desk.text(READ, file_path="a.pdf", pages="2") == "[Page 2 of 2]\nsecond words"
    able = Desk(tmp_path, documents=True)
    (document,) = await able.blocks(READ, file_path="a.pdf")
    assert document == Document(
        "application/pdf", base64.b64encode(pdf(["first words", "second words"])).decode(), "a.pdf", 2
    )
    (part,) = await able.blocks(READ, file_path="a.pdf", pages="2")
    assert isinstance(part, Document)
    assert part.pages == 1


async def test_a_long_pdf_wants_pages(desk: Desk) -> None:
    desk.file("a.pdf", pdf([f"page {n}" for n in range(1, 31)]))
    assert "has 30 pages. Say which to read" in await refusal(desk, file_path="a.pdf")
    assert (await desk.text(READ, file_path="a.pdf", pages="29-")).count("[Page") == 2
    assert (await desk.text(READ, file_path="a.pdf", pages="1,3-4")).count("[Page") == 3
    for pages, words in (
        ("1-30", "more than 20 pages"),
        ("31", "only 30 pages"),
        ("0", "counts from 1"),
        ("5-2", "counts from 1"),
        ("a", "must be like"),
        ("", "must be like"),
    ):
        assert words in await refusal(desk, file_path="a.pdf", pages=pages)


async def test_broken_pdfs_are_plain_errors(desk: Desk) -> None:
    desk.file("a.pdf", b"%PDF-1.7\nnothing more")
    assert "cannot be read as a PDF" in await refusal(desk, file_path="a.pdf")
    whole = pdf(["words"])
    for cut in range(20, len(whole), 97):
        desk.file("a.pdf", whole[:cut])
        # Some cuts leave a PDF that can still be read.
        with contextlib.suppress(ToolError):
            await desk.call(READ, file_path="a.pdf")


async def test_pages_of_what_is_no_pdf(desk: Desk) -> None:
    desk.file("a.txt", "one")
    assert "`pages` does not apply" in await refusal(desk, file_path="a.txt", pages="1")


async def test_permission_denied_is_a_plain_error(desk: Desk) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = desk.file("a.txt", "one")
    path.chmod(0)
    assert "permission denied" in await refusal(desk, file_path="a.txt")


def test_it_says_what_it_touches() -> None:
    data = READ.parse({"file_path": "a.txt", "offset": "3"})
    assert data == ReadInput("a.txt", offset=3)
    assert READ.footprint(data) == Footprint.READS
    assert READ.subjects(data) == (PathSubject("a.txt", "read"),)
    assert READ.title(data) == "Read a.txt (from 3)"


def picture(form: str, size: tuple[int, int]) -> bytes:
    import PIL.Image

    out = io.BytesIO()
    image = PIL.Image.linear_gradient("L").resize(size).convert("RGB")
    image.save(out, form)
    return out.getvalue()


def pdf(pages: list[str]) -> bytes:
    """A PDF made by hand: one line of text per page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {len(objects)} 0 R /Resources {font} >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    out = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    return out + f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
