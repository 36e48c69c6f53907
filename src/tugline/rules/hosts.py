"""Which hosts a sandboxed command may reach: names taken apart once, compared label by label, never as text."""

import ipaddress
import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tugline.rules.addresses import as_address, inner_address, is_disguised, is_local_name, is_public

Ruling = Literal["allow", "deny", "ask"]

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_PORT = re.compile(r"[0-9]{1,5}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f@/\\?#%,]")


class HostError(ValueError):
    """A text that is no host, or none that is taken. The message is one line."""


class Target(Struct, frozen=True):
    """A host, as name in lower-case ASCII or as address in its one spelling, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HostPattern(Struct, frozen=True):
    """What an entry of the settings means. `below`: what lies below that name; `port` 0: any; `host` empty: every
    name of the public internet, or the addresses of `network`."""

    host: str
    below: bool = False
    port: int = 0
    network: str = ""

    def matches(self, target: Target) -> bool:
        """Whether it speaks of this target."""
        if self.port and self.port != target.port:
            return False
        if self.network:
            address = as_address(target.host)
            return address is not None and address in ipaddress.ip_network(self.network)
        if not self.host:
            return True
        if not self.below:
            return self.host == target.host
        wanted, given = self.host.split("."), target.host.split(".")
        return len(given) > len(wanted) and given[-len(wanted) :] == wanted and as_address(target.host) is None


class HostPolicy(Struct, frozen=True):
    """The entries of the settings. What none of them names is asked about."""

    allowed: tuple[HostPattern, ...] = ()
    denied: tuple[HostPattern, ...] = ()

    def rule(self, target: Target) -> Ruling:
        """Deny wins, whatever the order."""
        if any(pattern.matches(target) for pattern in self.denied):
            return "deny"
        return "allow" if any(pattern.matches(target) for pattern in self.allowed) else "ask"

    def reachable(self, target: Target, address: str) -> bool:
        """Whether a name may lead to this address. One that is not of the public internet has to be listed itself, or
        the name has to be a local one that is listed as it is: else whoever owns a listed name could point it here."""
        place = Target(read_address(address), target.port)
        if any(pattern.matches(place) for pattern in self.denied):
            return False
        if is_public(address):
            return True
        exact = [pattern for pattern in self.allowed if not pattern.below and (pattern.host or pattern.network)]
        if any(pattern.matches(place) for pattern in exact):
            return True
        return is_local_name(target.host) and any(pattern.matches(target) for pattern in exact)


def read_address(text: str) -> str:
    """An address in the spelling that is compared: an IPv6 one that stands for an IPv4 one is that one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return str(inner_address(address) or address)


def read_target(text: str, default_port: int = 0) -> Target:
    """`host:port` as a proxy is told it; raises `HostError` for all that is not plainly that."""
    host, port = _split(text)
    number = default_port if port is None else int(port)
    if not 0 < number < 65_536:
        raise HostError(f"{_shown(text)} names no port" if port is None else f"{_shown(text)} has no proper port")
    return Target(_canonical(host, text), number)


def read_pattern(text: str) -> HostPattern:
    """An entry of `sandbox.network`: a host, `*.` and a name for what lies below it, or `*`, and `:port` may follow;
    or a network of addresses such as `10.0.0.0/8`."""
    if "/" in text:
        try:
            return HostPattern("", network=str(ipaddress.ip_network(text.strip())))
        except ValueError:
            raise HostError(f"{_shown(text)} is no host, and no network such as 10.0.0.0/8") from None
    host, port = _split(text.strip())
    number = 0 if port is None else int(port)
    if number > 65_535 or port == "0":
        raise HostError(f"{_shown(text)} has no proper port")
    if host == "*":
        return HostPattern("", port=number)
    if host.startswith("*."):
        below = _canonical(host[2:], text)
        if as_address(below) is not None:
            raise HostError(f"{_shown(text)}: nothing lies below an address")
        return HostPattern(below, below=True, port=number)
    if "*" in host:
        raise HostError(f"{_shown(text)}: a `*` may only stand alone or as the first label, as in *.example.com")
    return HostPattern(_canonical(host, text), port=number)


def read_policy(allowed: Sequence[str], denied: Sequence[str]) -> HostPolicy:
    """The whole policy, or `HostError`: one entry that cannot be read must not leave a wider one behind."""
    return HostPolicy(tuple(map(read_pattern, allowed)), tuple(map(read_pattern, denied)))


def _split(text: str) -> tuple[str, str | None]:
    if not text or len(text) > 300 or _FORBIDDEN.search(text):
        raise HostError(f"{_shown(text)} is not a host")
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or ":" not in host or (rest and not (rest[0] == ":" and _PORT.fullmatch(rest[1:]))):
            raise HostError(f"{_shown(text)} is not a host")
        return host, rest[1:] or None
    host, colon, port = text.partition(":")
    if colon and not _PORT.fullmatch(port):
        raise HostError(f"{_shown(text)} is not a host; an IPv6 address stands in brackets")
    return host, port if colon else None


def _canonical(host: str, text: str) -> str:
    """The one spelling of a host. An IPv6 address that stands for an IPv4 one is that one."""
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise HostError(f"{_shown(text)} is not a host") from None
    host = host.lower()
    address = as_address(host)
    if address is not None:
        if "%" in host:
            raise HostError(f"{_shown(text)} is not a host")
        return str(inner_address(address) or address)
    host = host.removesuffix(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise HostError(f"{_shown(text)} is not a host")
    if is_disguised(host):
        raise HostError(f"{_shown(text)} is not a name; write an address as four decimal numbers")
    return host


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
