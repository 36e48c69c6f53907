"""Where a fetch may go."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.net.client import HttpError
from tugline.rules.addresses import is_public
from tugline.tools.web import public_only, read_url, secured

PRIVATE = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "192.0.0.1",
    "192.168.1.1", "198.18.0.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1",
    "::127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1",
    "ff02::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "", "example.com", "1.2.3", "0x7f.1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_the_public_internet(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_what_is(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_no_form_of_a_private_address_is_public(address: ipaddress.IPv4Address) -> None:
    if is_public(str(address)):
        return
    number = int(address)
    for text in (f"::ffff:{address}", f"64:ff9b::{address}", f"::{address}"):
        assert not is_public(text)
    assert not is_public(str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80))))


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/",
        "http://127.0.0.01/", "http://a.b.1/", "http://256.1.1.1/", "http://1.2.3.4.5/", "http://user@example.com/",
        "http://user:pass@example.com/", "http://example.com:0/", "http://example.com:99999/", "file:///etc/passwd",
        "ftp://example.com/", "//example.com/", "example.com", "http://", "http:///x", "http://exa mple.com/",
        "http://example.com\\@evil.com/", "http://example.com\x00.evil.com/", "http://[::1/", "http://[fe80::1",
        "http://example.com/" + "x" * 5000,
        "http://example.com%2f.evil.com/", "javascript:alert(1)", "data:text/html,x", "gopher://a/", "http://a\nb/",
    ],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(HttpError):
        read_url(url)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Example.COM./x", "example.com"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("http://１２７.0.0.1/", "127.0.0.1"),
        ("http://[::ffff:127.0.0.1]:80/", "::ffff:127.0.0.1"),
        ("https://a.b-c.example:8443/?q=1#x", "a.b-c.example"),
        ("https://1.example.x1/", "1.example.x1"),
    ],
)
def test_the_host_is_read_as_it_will_be_used(url: str, host: str) -> None:
    assert read_url(url).host == host


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("http://example.com/a?b", "https://example.com/a?b"),
        ("http://example.com:8080/", "http://example.com:8080/"),
        ("http://127.0.0.1/", "http://127.0.0.1/"),
        ("http://93.184.216.34/", "http://93.184.216.34/"),
        ("http://[::1]/", "http://[::1]/"),
        ("http://wiki.corp.example/", "http://wiki.corp.example/"),
        ("https://example.com/", "https://example.com/"),
    ],
)
def test_public_hosts_are_fetched_over_tls(before: str, after: str) -> None:
    url = secured(read_url(before), private=[".corp.example"])
    assert url.origin + url.target == after


def test_every_address_must_be_public() -> None:
    check = public_only()
    assert check("example.com", ("8.8.8.8", "2606:4700::1111")) == ("8.8.8.8", "2606:4700::1111")
    with pytest.raises(HttpError, match=r"example\.com \(10\.0\.0\.1\) is not a public address"):
        check("example.com", ("8.8.8.8", "10.0.0.1"))
    with pytest.raises(HttpError, match=r"^127\.0\.0\.1 is not a public address"):
        check("127.0.0.1", ("127.0.0.1",))


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "printer.local", "metadata.google.internal", "intranet"])
def test_behind_a_proxy_local_names_are_refused(host: str) -> None:
    with pytest.raises(HttpError, match="local name"):
        public_only()(host, ())
    assert public_only()("example.com", ()) == ()


@pytest.mark.parametrize(
    ("entry", "host", "allowed"),
    [
        ("wiki.corp", "wiki.corp", True),
        ("wiki.corp", "a.wiki.corp", False),
        ("wiki.corp", "evilwiki.corp", False),
        (".corp", "wiki.corp", True),
        ("*.corp", "a.wiki.corp", True),
        (".corp", "wiki.corp.evil", False),
        (".corp", "evilcorp", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("*", "anything", True),
    ],
)
def test_settings_allow_hosts_by_name(entry: str, host: str, allowed: bool) -> None:
    check = public_only([entry])
    if allowed:
        assert check(host, ("10.0.0.1",)) == ("10.0.0.1",)
    else:
        with pytest.raises(HttpError):
            check(host, ("10.0.0.1",))
