"""Where a provider is reached, and with what key."""

from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

Auth = Literal["", "x-api-key", "api-key", "bearer", "none"]

_OPENAI_HOSTS = ("api.openai.com", ".openai.azure.com")


class Endpoint(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One server of one wire protocol.

    `base_url`: Anthropic's without `/v1`, OpenAI's with it; a path prefix is kept. `auth`: the header that carries the
    key; empty means the protocol's own. `version`: the value of `anthropic-version`, or `api-version` in the query for
    the OpenAI protocols. `provider`: the name under which cards and messages know it.
    """

    base_url: str
    key: str = ""
    auth: Auth = ""
    provider: str = ""
    version: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    betas: tuple[str, ...] = ()
    user_agent: str = "tugline"

    def __repr__(self) -> str:
        return f"Endpoint({self.origin}, {self.provider or 'no name'}, {'with' if self.key else 'without'} a key)"

    @property
    def origin(self) -> str:
        """The host as a person may read it: no user, no password, no query."""
        try:
            parts = urlsplit(self.base_url)
            host = parts.hostname or self.base_url
            return f"{host}:{parts.port}" if parts.port else host
        except ValueError:
            return "the given base URL"

    @property
    def openai_itself(self) -> bool:
        """Whether this is OpenAI's own API (or Azure's copy), not a server that speaks like it."""
        try:
            host = urlsplit(self.base_url).hostname or ""
        except ValueError:
            return False
        return any(host == name or (name[0] == "." and host.endswith(name)) for name in _OPENAI_HOSTS)

    def url(self, path: str, **query: str) -> str:
        """The URL of `path` below the base URL."""
        base, mark, old_query = self.base_url.strip().partition("?")
        pairs = [old_query] if mark and old_query else []
        pairs += [f"{name}={value}" for name, value in query.items() if value]
        return base.rstrip("/") + path + ("?" + "&".join(pairs) if pairs else "")

    def auth_headers(self, usual: Auth) -> list[tuple[str, str]]:
        """The header that carries the key, if there is one."""
        style = self.auth or usual
        if not self.key or style == "none":
            return []
        if style == "bearer":
            return [("authorization", f"Bearer {self.key}")]
        return [(style, self.key)]

    def redact(self, text: str) -> str:
        """The text without the key and without the values of extra headers."""
        # a shorter key is a stand-in for a server that wants none, and would blot out ordinary words
        key = self.key if len(self.key) >= 4 else ""
        for secret in (key, *(value for _, value in self.headers if len(value) >= 8)):
            if secret and secret in text:
                text = text.replace(secret, "***")
        return text
