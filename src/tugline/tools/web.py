"""Where a fetch may go: which URLs are proper, and which addresses are the public internet."""

import ipaddress
import re
from collections.abc import Callable, Collection

from tugline.net.client import AddressCheck, HttpError
from tugline.net.url import Url, parse_url

_URL_LIMIT = 4_000
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def read_url(text: str) -> Url:
    """Take a URL apart, or `HttpError`: no user or password, and no address that is written to look like a name."""
    if len(text) > _URL_LIMIT:
        raise HttpError("invalid", f"the URL is longer than {_URL_LIMIT} characters")
    url = parse_url(text)
    if url.user or url.password:
        raise HttpError("invalid", "the URL holds a user or a password, which are not sent; leave them out")
    if not 0 < url.port < 65_536:
        raise HttpError("invalid", "the URL's port is none")
    # `127.1`, `0x7f000001` and `2130706433` mean 127.0.0.1 to some resolvers and proxies.
    if ":" not in url.host and _NUMBER.fullmatch(url.host.rpartition(".")[2]) and _address(url.host) is None:
        raise HttpError("invalid", f"{url.host} is not a name; write an address as four decimal numbers")
    return url


def secured(url: Url, private: Collection[str] = ()) -> Url:
    """The same over TLS, where it is a public host's usual place; addresses and hosts allowed by name stay."""
    if url.scheme != "http" or url.port != 80 or _address(url.host) is not None or _named(url.host, private):
        return url
    return Url(scheme="https", host=url.host, port=443, target=url.target)


def public_only(private: Collection[str] = ()) -> AddressCheck:
    """A check for the client that refuses hosts of which any address is not public.

    `private`: hosts that are allowed all the same; `.name` also stands for what is below that name, `*` for all.
    """

    def check(host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if _named(host, private):
            return addresses
        if not addresses and _is_local_name(host):
            raise HttpError("connect", _refusal(host, "a local name"))
        for address in addresses:
            if not is_public(address):
                raise HttpError("connect", _refusal(host, "not a public address", address))
        return addresses

    return check


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, also by the IPv4 address that it may hold inside."""
    address = _address(text)
    if address is None:
        return False
    inner = _inner(address)
    if inner is not None:
        return is_public(str(inner))
    allowed: Callable[[_Address], bool] = lambda one: (  # noqa: E731 - one expression for both kinds of address
        one.is_global and not (one.is_multicast or one.is_reserved or one.is_loopback or one.is_link_local)
    )
    return allowed(address) and not (isinstance(address, ipaddress.IPv6Address) and address.is_site_local)


def _inner(address: _Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_local_name(host: str) -> bool:
    """Of a name that a proxy will look up: whether it can only be one of its own network."""
    return "." not in host or host.endswith(_LOCAL_ENDINGS)


def _named(host: str, private: Collection[str]) -> bool:
    for entry in private:
        name = entry.lower().removeprefix("*") if entry != "*" else "*"
        if name == "*" or host == name.lstrip(".") or (name.startswith(".") and host.endswith(name)):
            return True
    return False


def _refusal(host: str, what: str, address: str = "") -> str:
    at = f" ({address})" if address and address != host else ""
    return f"{host}{at} is {what}: only the public internet is fetched unless the settings allow this host"
