"""Which proxy a request goes through, as the environment says: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY."""

import ipaddress
from collections.abc import Mapping

from msgspec import Struct

from tugline.net.errors import HttpError
from tugline.net.url import Url, parse_url


class Proxies(Struct, frozen=True):
    """The proxies by scheme, as text, and the hosts that none is used for."""

    http: str = ""
    https: str = ""
    bypass: tuple[str, ...] = ()

    def choose(self, url: Url) -> Url | None:
        """The proxy for this URL, or `None`; `HttpError("invalid")` if the one named cannot be used."""
        text = self.https if url.scheme == "https" else self.http
        if not text or any(_matches(entry, url) for entry in self.bypass):
            return None
        if "://" not in text:
            text = "http://" + text
        if text.lower().startswith("socks"):
            raise HttpError(
                "invalid", "SOCKS proxies are not supported: set HTTPS_PROXY to an http:// proxy, or NO_PROXY"
            )
        try:
            return parse_url(text)
        except HttpError as error:
            raise HttpError("invalid", f"the proxy named in the environment is no use: {error}") from None


def proxies_from(environ: Mapping[str, str]) -> Proxies:
    """Read the variables; the lower-case name wins, as everywhere."""

    def look(name: str) -> str:
        return (environ.get(name) or environ.get(name.upper()) or "").strip()

    everything = look("all_proxy")
    # inside CGI, HTTP_PROXY is a request header of whoever asks ("httpoxy")
    http = environ.get("http_proxy", "").strip() if "REQUEST_METHOD" in environ else look("http_proxy")
    bypass = tuple(entry.strip().lower() for entry in look("no_proxy").split(",") if entry.strip())
    return Proxies(http=http or everything, https=look("https_proxy") or everything, bypass=bypass)


def _matches(entry: str, url: Url) -> bool:
    if entry == "*":
        return True
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and ("]" in name or ":" not in name):
        if int(port) != url.port:
            return False
        entry = name
    entry = entry.strip("[]")
    try:
        address = ipaddress.ip_address(url.host)
    except ValueError:
        entry = entry.removeprefix("*").lstrip(".")
        return bool(entry) and (url.host == entry or url.host.endswith("." + entry))
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
