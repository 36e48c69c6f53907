"""The TLS context: made when first needed (it costs 10-20 ms), and then shared by all clients that were given it."""

import os
import ssl
from collections.abc import Mapping

from tugline.net.errors import HttpError


class Tls:
    """Makes one context from `SSL_CERT_FILE`, `SSL_CERT_DIR` or `REQUESTS_CA_BUNDLE`, else from the system's store."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The context, or `HttpError("invalid")` if a variable names something unreadable."""
        if self._context is None:
            self._context = self._make()
        return self._context

    def _make(self) -> ssl.SSLContext:
        file, folder = self._named("SSL_CERT_FILE"), self._named("SSL_CERT_DIR")
        name = "SSL_CERT_FILE" if file else "SSL_CERT_DIR"
        if not file and not folder and (bundle := self._named("REQUESTS_CA_BUNDLE")):
            name = "REQUESTS_CA_BUNDLE"
            file, folder = (None, bundle) if os.path.isdir(bundle) else (bundle, None)
        try:
            context = ssl.create_default_context(cafile=file, capath=folder)
        except (OSError, ssl.SSLError) as error:
            reason = (
                error.strerror if not isinstance(error, ssl.SSLError) and error.strerror else "no certificates in it"
            )
            raise HttpError("invalid", f"{name} names {file or folder}, which cannot be used: {reason}") from None
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _named(self, name: str) -> str | None:
        path = self._environ.get(name)
        if not path:
            return None
        if not os.path.exists(path):
            raise HttpError("invalid", f"{name} names {path}, which does not exist")
        return path
