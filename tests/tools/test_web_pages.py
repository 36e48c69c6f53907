"""From what a server sent to text."""

import io

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.tools.page import PageError, bare_text, decode, html_to_markdown, kind_of, page_text, shown_markup

URL = "https://example.com/docs/page"


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html; charset=utf-8", b"x", "html"),
        ("application/xhtml+xml", b"x", "html"),
        ("text/plain", b"x", "text"),
        ("text/markdown", b"x", "text"),
        ("application/json", b"{}", "text"),
        ("application/ld+json", b"{}", "text"),
        ("application/rss+xml", b"<rss/>", "text"),
        ("application/x-yaml", b"a: 1", "text"),
        ("application/pdf", b"%PDF-1.4", "pdf"),
        ("text/html", b"%PDF-1.4", "pdf"),
        ("image/png", b"\x89PNG", ""),
        ("application/zip", b"PK", ""),
        ("", b"<!DOCTYPE html><p>", "html"),
        ("", b"plain words", "text"),
        ("application/octet-stream", b"plain", "text"),
        ("application/octet-stream", b"\0\1", ""),
        ("", b"\xff\xfe\xfd", ""),
    ],
)
def test_the_kind_of_a_page(content_type: str, body: bytes, kind: str) -> None:
    assert kind_of(content_type, body) == kind


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("é".encode(), "text/plain", "é"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        ("“é”".encode("cp1252"), "text/plain; charset=latin1", "“é”"),
        ("日本".encode("shift_jis"), 'text/plain; charset="Shift_JIS"', "日本"),
        ("日本".encode("euc-jp"), "text/plain;charset=euc-jp", "日本"),
        ("é".encode("utf-8-sig"), "text/plain; charset=latin1", "é"),
        ("é".encode("utf-16"), "text/plain", "é"),
        (b"a\xffb", "text/plain", "a�b"),
        (b"a\xffb", "text/plain; charset=no-such-thing", "a�b"),
        (b"YQ==", "text/plain; charset=base64", "YQ=="),
        (b"a", "text/plain; charset=punycode", "a"),
        (b"a", "text/plain; charset=zlib", "a"),
        (b"a", "text/plain; charset=undefined", "a"),
    ],
)
def test_text_is_decoded_as_the_server_says(body: bytes, content_type: str, text: str) -> None:
    assert decode(body, content_type) == text


def test_a_page_may_say_its_encoding_itself() -> None:
    assert "é" in decode('<meta charset="latin1">é'.encode("latin-1"), "text/html", markup=True)
    assert "é" in decode("<p>é".encode("latin-1"), "text/html", markup=True)
    assert "é" in decode('<meta charset="latin1">é'.encode(), "text/html; charset=utf-8", markup=True)


@given(st.binary(max_size=200), st.text(max_size=30))
def test_any_bytes_and_any_header_give_some_text(body: bytes, content_type: str) -> None:
    decode(body, f"text/html; charset={content_type}", markup=True)
    kind_of(content_type, body)


def test_html_becomes_markdown_with_whole_links_and_nothing_hidden() -> None:
    markup = (
        "<html><head><title>T</title><style>p{}</style><script>if (a<b) alert('</p>')</script></head><body>"
        "<h1>Head</h1><!-- hidden <p>no</p> --><p>Some <b>bold</b> <a href='../x'>link</a></p>"
        "<ul><li>one<li>two</ul><svg><text>no</text></svg><noscript>no</noscript>"
        "<pre>code\n  here</pre><img alt='pic' src='data:image/png;base64,AAAA'></body></html>"
    )
    text = html_to_markdown(markup, URL)
    assert "# Head" in text
    assert "**bold** [link](https://example.com/x)" in text
    assert "* one" in text
    assert "code\n  here" in text
    assert "AAAA" not in text
    assert not any(hidden in text for hidden in ("no</p>", "alert", "p{}"))


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        ("a<script>b</script>c", "ac"),
        ("a<SCRIPT x=1>b</script >c", "ac"),
        ("a<!-- b -->c", "ac"),
        ("a<!-- b", "a"),
        ("a<style>b", "a"),
        ("a<b>c", "a<b>c"),
    ],
)
def test_what_is_never_shown_is_cut_out(markup: str, shown: str) -> None:
    assert shown_markup(markup) == shown


@given(st.text(alphabet="<>/!-scriptyle ab\"'=", max_size=200))
def test_any_markup_gives_some_text(markup: str) -> None:
    bare_text(markup)
    html_to_markdown(markup, URL)


def pdf(pages: int, password: str = "") -> bytes:
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    for number in range(pages):
        page = writer.add_blank_page(200, 200)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 100 Td (Words of page {number + 1}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if password:
        writer.encrypt(password)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_a_pdf_becomes_its_text() -> None:
    assert await page_text(pdf(2), "application/pdf", URL) == "[page 1]\nWords of page 1\n\n[page 2]\nWords of page 2"


async def test_a_pdf_that_cannot_be_read_says_why() -> None:
    with pytest.raises(PageError, match="cannot be read"):
        await page_text(b"%PDF-1.4\n" + b"junk" * 100, "application/pdf", URL)
    with pytest.raises(PageError, match="password"):
        await page_text(pdf(1, "secret"), "application/pdf", URL)


async def test_html_is_converted_aside() -> None:
    assert await page_text("<h1>Überschrift</h1>".encode("latin-1"), "text/html", URL) == "# Überschrift"


async def test_other_things_are_named() -> None:
    with pytest.raises(PageError, match="image/png, 3 bytes"):
        await page_text(b"abc", "image/png", URL)


async def test_a_long_page_is_cut_and_says_so() -> None:
    text = await page_text(b"x" * 200_000, "text/plain", URL)
    assert text == "x" * 100_000 + "\n\n[the page goes on for 100000 more characters]"


@pytest.mark.parametrize(
    "markup",
    ["<div>" * 50_000 + "deep", "<a>" * 20_000 + "</b>" * 20_000 + "deep", "<table><tr><td>" * 20_000 + "deep"],
)
async def test_hostile_nesting_ends_in_time_with_some_text(markup: str) -> None:
    with anyio.fail_after(25):
        text = await page_text(markup.encode(), "text/html", URL)
    assert "deep" in text


async def test_giving_up_ends_the_conversion() -> None:
    with anyio.move_on_after(0.3) as scope:
        await page_text(("<p>word <b>x</b>" * 3_000_000).encode(), "text/html", URL)
    assert scope.cancelled_caught
