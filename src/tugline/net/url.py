"""URLs, as far as a client needs them: taken apart once, strictly."""

import base64
import re
from urllib.parse import quote, unquote, urljoin, urlsplit

from msgspec import Struct

from tugline.net.errors import HttpError

_DEFAULT_PORTS = {"http": 80, "https": 443}
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_SAFE = "/?:@!$&'()*+,;=-._~%[]"


class Url(Struct, frozen=True):
    """A URL of a server or a proxy. `host` is ASCII and without brackets; `target` is path and query."""

    scheme: str
    host: str
    port: int
    target: str = "/"
    user: str = ""
    password: str = ""

    @property
    def authority(self) -> str:
        """What stands in `Host`: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port; fit to be shown, as it holds no secret."""
        return f"{self.scheme}://{self.authority}"

    @property
    def basic_auth(self) -> str:
        """The value of an authorization header for user and password, or nothing."""
        if not self.user and not self.password:
            return ""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")


def parse_url(text: str, *, schemes: tuple[str, ...] = ("http", "https")) -> Url:
    """Take a URL apart, or `HttpError("invalid")`; the fragment is dropped."""
    if _FORBIDDEN.search(text):
        raise HttpError("invalid", "the URL holds a space, a backslash or a control character")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise HttpError("invalid", "the URL cannot be understood: its host or port is malformed") from None
    scheme = parts.scheme.lower()
    if scheme not in schemes:
        raise HttpError("invalid", f"the URL must begin with {' or '.join(one + '://' for one in schemes)}")
    if not parts.hostname:
        raise HttpError("invalid", "the URL names no host")
    target = quote(parts.path or "/", safe=_SAFE) + ("?" + quote(parts.query, safe=_SAFE) if parts.query else "")
    return Url(
        scheme=scheme,
        host=_ascii_host(parts.hostname),
        port=_DEFAULT_PORTS.get(scheme, 0) if port is None else port,
        target=target,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def join_url(base: Url, location: str) -> Url:
    """Where a `Location` header leads to."""
    try:
        text = urljoin(base.origin + base.target, location.strip())
    except ValueError:
        raise HttpError("invalid", "the URL cannot be understood: its host or port is malformed") from None
    return parse_url(text)


def _ascii_host(host: str) -> str:
    host = host.rstrip(".") or host
    if ":" in host:
        return host
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise HttpError("invalid", "the URL's host is not a valid name") from None
    if len(host) > 253 or not all(character.isalnum() or character in "-._" for character in host):
        raise HttpError("invalid", "the URL's host is not a valid name")
    return host.lower()
