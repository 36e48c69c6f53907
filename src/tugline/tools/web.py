"""Where a fetch may go: which URLs are proper, and which addresses are the public internet."""

from collections.abc import Collection

from tugline.net.client import AddressCheck, HttpError
from tugline.net.url import Url, parse_url
from tugline.rules.addresses import as_address, is_disguised, is_local_name, is_public

_URL_LIMIT = 4_000


def read_url(text: str) -> Url:
    """Take a URL apart, or `HttpError`: no user or password, and no address that is written to look like a name."""
    if len(text) > _URL_LIMIT:
        raise HttpError("invalid", f"the URL is longer than {_URL_LIMIT} characters")
    url = parse_url(text)
    if url.user or url.password:
        raise HttpError("invalid", "the URL holds a user or a password, which are not sent; leave them out")
    if not 0 < url.port < 65_536:
        raise HttpError("invalid", "the URL's port is none")
    if is_disguised(url.host):
        raise HttpError("invalid", f"{url.host} is not a name; write an address as four decimal numbers")
    return url


def secured(url: Url, private: Collection[str] = ()) -> Url:
    """The same over TLS, where it is a public host's usual place; addresses and hosts allowed by name stay."""
    if url.scheme != "http" or url.port != 80 or as_address(url.host) is not None or _named(url.host, private):
        return url
    return Url(scheme="https", host=url.host, port=443, target=url.target)


def public_only(private: Collection[str] = ()) -> AddressCheck:
    """A check for the client that refuses hosts of which any address is not public.

    `private`: hosts that are allowed all the same; `.name` also stands for what is below that name, `*` for all.
    """

    def check(host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if _named(host, private):
            return addresses
        if not addresses and is_local_name(host):
            raise HttpError("connect", _refusal(host, "a local name"))
        for address in addresses:
            if not is_public(address):
                raise HttpError("connect", _refusal(host, "not a public address", address))
        return addresses

    return check


def _named(host: str, private: Collection[str]) -> bool:
    for entry in private:
        name = entry.lower().removeprefix("*") if entry != "*" else "*"
        if name == "*" or host == name.lstrip(".") or (name.startswith(".") and host.endswith(name)):
            return True
    return False


def _refusal(host: str, what: str, address: str = "") -> str:
    at = f" ({address})" if address and address != host else ""
    return f"{host}{at} is {what}: only the public internet is fetched unless the settings allow this host"
