"""Network addresses: which are the public internet's, and which names only look like names."""

import ipaddress
import re

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def as_address(text: str) -> Address | None:
    """The address that the text is, or `None`."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, also by the IPv4 address that it may hold inside."""
    address = as_address(text)
    if address is None:
        return False
    inner = inner_address(address)
    if inner is not None:
        return is_public(str(inner))
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if address.is_loopback or address.is_link_local:
        return False
    return not (isinstance(address, ipaddress.IPv6Address) and address.is_site_local)


def inner_address(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one stands for: mapped, 6to4, NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def is_disguised(host: str) -> bool:
    """Whether some resolvers read the name as an address: `127.1`, `0x7f000001` and `2130706433` are 127.0.0.1."""
    return ":" not in host and _NUMBER.fullmatch(host.rpartition(".")[2]) is not None and as_address(host) is None


def is_local_name(host: str) -> bool:
    """Of a name that somebody else will look up: whether it can only be one of their own network."""
    return "." not in host or host.endswith(_LOCAL_ENDINGS)
