"""How a request over HTTP fails."""

from typing import Literal

HttpErrorKind = Literal[
    "connect", "dns", "tls", "proxy", "timeout", "cut", "protocol", "too_large", "redirect", "invalid"
]


class HttpError(Exception):
    """A request failed below the level of HTTP statuses. The text is one clear line and never holds a key.

    `kind`: connect, dns, tls, proxy (the server was not reached), timeout, cut (ended early), protocol (not proper
    HTTP), too_large (a cap was hit), redirect (elsewhere; `location` says where to), invalid (what was given is no
    use: a URL, a header, a proxy, certificates; trying again does not help).
    """

    def __init__(self, kind: HttpErrorKind, message: str, *, location: str = "") -> None:
        super().__init__(message)
        self.kind: HttpErrorKind = kind
        self.location = location
