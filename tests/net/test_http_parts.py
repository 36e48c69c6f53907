"""URLs, proxy variables, and the reader of answers, without any connection."""

import gzip
import itertools
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tugline.net.decode import decoder_for
from tugline.net.errors import HttpError
from tugline.net.http1 import Answers, Headers
from tugline.net.proxies import proxies_from
from tugline.net.url import Url, join_url, parse_url


@pytest.mark.parametrize(
    ("text", "url", "authority"),
    [
        ("http://Example.org", Url("http", "example.org", 80, "/"), "example.org"),
        ("https://example.org:443/a?b#c", Url("https", "example.org", 443, "/a?b"), "example.org"),
        ("https://example.org:8443/v1/", Url("https", "example.org", 8443, "/v1/"), "example.org:8443"),
        ("http://[::1]:8080/x", Url("http", "::1", 8080, "/x"), "[::1]:8080"),
        ("http://u:p%40@h/", Url("http", "h", 80, "/", "u", "p@"), "h"),
        ("http://bücher.example/ü%20", Url("http", "xn--bcher-kva.example", 80, "/%C3%BC%20"), "xn--bcher-kva.example"),
        ("http://host.example./", Url("http", "host.example", 80, "/"), "host.example"),
        ("http://my_host:11434/api", Url("http", "my_host", 11434, "/api"), "my_host:11434"),
    ],
)
def test_a_url_is_taken_apart(text: str, url: Url, authority: str) -> None:
    assert parse_url(text) == url
    assert parse_url(text).authority == authority


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.org",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "http://a b/",
        "http://a\\b/",
        "http://a\r\nHost: b/",
        "http://a/\x00",
        "http://a:99999/",
        "http://a:x/",
        "http://[::1/",
        "http://a%00b/",
        "http://" + "a" * 300 + "/",
        "http://\u2100.example/",
    ],
)
def test_what_is_no_url_is_refused_in_words(text: str) -> None:
    with pytest.raises(HttpError) as caught:
        parse_url(text)
    assert caught.value.kind == "invalid"


@given(st.text(max_size=60))
@example("http://a@b@c:80")
@example("http://[v1.x]/")
def test_any_text_is_a_url_or_refused(text: str) -> None:
    for candidate in (text, "http://" + text):
        try:
            url = parse_url(candidate)
        except HttpError:
            continue
        assert all(" " < character < "\x7f" for character in url.target + url.authority)


def test_a_location_is_joined_with_where_it_came_from() -> None:
    base = parse_url("https://a.example/x/y?z")
    assert join_url(base, "../w").target == "/w"
    assert join_url(base, "//b.example/q").origin == "https://b.example"


@pytest.mark.parametrize(
    ("environ", "url", "proxy"),
    [
        ({}, "http://a/", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://a/", "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, "https://a/", None),
        ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, "http://a/", None),
        ({"http_proxy": "p:1", "HTTP_PROXY": "http://q:2"}, "http://a/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, "https://a/", "http://p:1"),
        ({"ALL_PROXY": "socks5://p:1", "HTTPS_PROXY": "http://q:2"}, "https://a/", "http://q:2"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://a/", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "b, a.example"}, "https://x.a.example/", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": ".a.example"}, "https://a.example/", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*.a.example"}, "https://x.a.example/", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example"}, "https://evila.example/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example:8443"}, "https://a.example/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example:8443"}, "https://a.example:8443/", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "127.0.0.0/8"}, "http://127.0.0.1:5/", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "::1"}, "http://[::1]:5/", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "[::1]:5"}, "http://[::1]:5/", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8, not/a/net"}, "http://127.0.0.1/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "no_proxy": "localhost"}, "http://localhost:5/", None),
    ],
)
def test_the_proxy_is_chosen_as_the_environment_says(environ: dict[str, str], url: str, proxy: str | None) -> None:
    chosen = proxies_from(environ).choose(parse_url(url))
    assert (chosen.origin if chosen else None) == proxy


@pytest.mark.parametrize("proxy", ["socks5://p:1", "socks5h://p", "http://", "ftp://p:1", "http://p:x"])
def test_a_proxy_that_cannot_be_used_is_an_error_and_not_passed_by(proxy: str) -> None:
    with pytest.raises(HttpError) as caught:
        proxies_from({"ALL_PROXY": proxy}).choose(parse_url("https://a/"))
    assert caught.value.kind == "invalid"


PIECE = 256 * 1024


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 5 * PIECE + 7])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw"])
def test_unpacking_gives_all_of_it_in_pieces_of_bounded_size(size: int, encoding: str) -> None:
    plain = bytes(size)
    packed = {"gzip": gzip.compress(plain), "deflate": zlib.compress(plain), "raw": zlib.compress(plain)[2:-4]}
    decoder = decoder_for(encoding.replace("raw", "deflate"), "server")
    assert decoder is not None
    decoder.feed(packed[encoding])
    pieces = list(iter(decoder.take, b""))
    decoder.finish()
    assert b"".join(pieces) == plain
    assert max(map(len, pieces), default=0) <= PIECE


def test_headers_are_found_whatever_their_case() -> None:
    headers = Headers([("Retry-After", "5"), ("X", "1"), ("x", "2")])
    assert (headers.get("retry-AFTER"), headers.get("X"), headers.get("y"), headers.get("y", "z")) == (
        "5",
        "1",
        "",
        "z",
    )
    assert headers.items() == (("retry-after", "5"), ("x", "1"), ("x", "2"))


def read(pieces: list[bytes]) -> tuple[object, ...]:
    answers = Answers("server")
    answers.start("GET")
    body = b""
    try:
        for piece in pieces:
            answers.feed(piece)
            body += answers.take_body()
        if not answers.complete:
            answers.finish()
    except HttpError as error:
        return error.kind, body
    return answers.status, answers.headers.items(), body


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(marks)]


BODIES = st.lists(st.binary(min_size=1, max_size=40), max_size=6)


@given(BODIES, st.booleans(), st.lists(st.integers(0, 10_000), max_size=8))
def test_any_split_of_an_answer_is_the_same_answer(body: list[bytes], chunked: bool, places: list[int]) -> None:
    data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX: y z\r\n"
    if chunked:
        data += b"Transfer-Encoding: chunked\r\n\r\n"
        data += b"".join(b"%x;e\r\n%s\r\n" % (len(piece), piece) for piece in body) + b"0\r\nT: t\r\n\r\n"
        framing = ("transfer-encoding", "chunked")
    else:
        whole = b"".join(body)
        data += b"Content-Length: %d\r\n\r\n%s" % (len(whole), whole)
        framing = ("content-length", str(len(whole)))
    assert read(cut(data, places)) == (200, (("x", "y z"), framing), b"".join(body))


@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=8))
def test_any_bytes_are_an_answer_or_an_http_error(data: bytes, places: list[int]) -> None:
    read(cut(data, places))
    read(cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data, places))
