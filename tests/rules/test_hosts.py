"""Which hosts a sandboxed command may reach: what is a host, and what names it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.rules.hosts import HostError, HostPolicy, Target, read_pattern, read_policy, read_target

NO_HOSTS = [
    "", ":", ":443", "example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:999999",
    "example.com:-1", "example.com:80x", "example.com:٤٤٣", "a b.com:443", "a\tb:443", "a\0.allowed.com:443",
    "allowed.com\0.evil.com:443", "user@allowed.com:443", "allowed.com@evil.com:443", "evil.com/allowed.com:443",
    "evil.com#allowed.com:443", "evil.com?allowed.com:443", "evil.com\\allowed.com:443", "evil.com%00allowed.com:443",
    "evil.com,allowed.com:443", "a..b:443", ".allowed.com:443", "-a.com:443", "a-.com:443", "x" * 64 + ".com:443",
    "2130706433:80", "0x7f000001:80", "0x7f.1:80", "0177.0.0.1:80", "127.1:80", "127.0.1:80", "1.2.3.4.5:80",
    "::1:80", "[::1]", "[::1", "[127.0.0.1]:80", "[::1%lo]:80", "[::g]:80", "a:b:443", "*.com:443", "a.com:443:80",
    "a.com:443\r\nHost: b", "ex\u200dample.\u202ecom:443", "a" * 400 + ":1",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_HOSTS)
def test_what_is_not_plainly_a_host_and_a_port_is_none(text: str) -> None:
    with pytest.raises(HostError) as raised:
        read_target(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("Example.COM:443", "example.com", 443),
        ("example.com.:443", "example.com", 443),
        ("bücher.example:80", "xn--bcher-kva.example", 80),
        ("ＥＸＡＭＰＬＥ.com:80", "example.com", 80),
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("[::1]:80", "::1", 80),
        ("[0:0:0:0:0:0:0:1]:80", "::1", 80),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1", 80),
        ("[::ffff:a9fe:a9fe]:80", "169.254.169.254", 80),
        ("[64:ff9b::7f00:1]:80", "127.0.0.1", 80),
        ("localhost:3000", "localhost", 3000),
    ],
)
def test_a_host_has_one_spelling(text: str, host: str, port: int) -> None:
    assert read_target(text) == Target(host, port)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("example.com", ["example.com:443", "EXAMPLE.com.:80"], ["www.example.com:443", "example.com.evil.org:443",
         "notexample.com:443", "example.co:443"]),
        ("*.example.com", ["a.example.com:443", "a.b.example.com:1"], ["example.com:443", "evilexample.com:443",
         "a.example.com.evil.org:443"]),
        ("example.com:8443", ["example.com:8443"], ["example.com:443"]),
        ("*", ["example.com:443", "anything.org:1"], []),
        ("*:443", ["example.com:443"], ["example.com:80"]),
        ("10.0.0.0/8", ["10.1.2.3:22"], ["11.0.0.1:22", "example.com:22"]),
        ("127.0.0.1", ["127.0.0.1:1", "[::ffff:127.0.0.1]:1"], ["127.0.0.2:1", "localhost:1"]),
        ("*.1", [], ["10.0.0.1:80"]),
    ],
)  # fmt: skip
def test_an_entry_is_compared_label_by_label(pattern: str, yes: list[str], no: list[str]) -> None:
    try:
        policy = read_policy([pattern], [])
    except HostError:
        assert not yes
        return
    assert [policy.rule(read_target(text)) for text in yes] == ["allow"] * len(yes)
    assert [policy.rule(read_target(text)) for text in no] == ["ask"] * len(no)


@pytest.mark.parametrize(
    "text", ["", "a*.com", "*.*.com", "*a.com", "*.10.0.0.1", "http://a.com", "10.0.0.1/8", "a b", "a.com:0"]
)
def test_an_entry_that_cannot_be_read_stops_the_whole_policy(text: str) -> None:
    with pytest.raises(HostError):
        read_policy(["fine.com", text], [])
    with pytest.raises(HostError):
        read_policy(["*"], [text])


def test_a_name_may_not_lead_to_an_address_that_is_not_public() -> None:
    target = Target("example.com", 80)
    for entries in (["example.com"], ["*.com"], ["*"]):
        policy = read_policy(entries, [])
        assert policy.reachable(target, "93.184.216.34")
        for address in (
            "127.0.0.1",
            "10.0.0.1",
            "169.254.169.254",
            "::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "100.64.0.1",
            "0.0.0.0",
        ):
            assert not policy.reachable(target, address), address
    assert read_policy(["example.com", "10.0.0.0/8"], []).reachable(target, "10.0.0.1")
    assert read_policy(["localhost"], []).reachable(Target("localhost", 80), "127.0.0.1")
    assert not read_policy(["*"], []).reachable(Target("localhost", 80), "127.0.0.1")
    assert not read_policy(["example.com"], ["93.184.216.0/24"]).reachable(target, "93.184.216.34")


NAMES = st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,3}", fullmatch=True)
ENTRIES = st.lists(st.one_of(NAMES, NAMES.map(lambda name: f"*.{name}"), st.just("*")), max_size=4)


@given(ENTRIES, ENTRIES, NAMES)
def test_deny_wins_and_no_order_matters(allowed: list[str], denied: list[str], name: str) -> None:
    target = Target(name, 443)
    ruling = read_policy(allowed, denied).rule(target)
    assert ruling == read_policy(allowed[::-1], denied[::-1]).rule(target)
    if any(read_pattern(entry).matches(target) for entry in denied):
        assert ruling == "deny"
    # more that is forbidden never allows more
    if ruling != "allow":
        assert read_policy(allowed, [*denied, "more.org"]).rule(target) != "allow"
    assert HostPolicy().rule(target) == "ask"


@given(st.text(max_size=60))
def test_any_text_is_a_target_in_one_spelling_or_an_error(text: str) -> None:
    try:
        target = read_target(text)
    except HostError:
        return
    assert read_target(str(target)) == target
    assert target.host.isascii()
    assert not set(target.host) & set(" @/\\?#%\0\r\n")
