"""Secrets kept out of what is written down or shown: by their exact value, and by the patterns that keys have."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from tugline.protocol.codec import encode

MASK = "***"
SHORTEST = 8
"""Characters; a shorter value would blot out ordinary words."""

_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSPHRASE", "PASSWD", "CREDENTIAL", "AUTH")
_URL_VALUE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s]*@")
_PATTERNS = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}"
    r"|AIza[\w-]{30,}|(?<=Bearer )[\w.~+/=-]{16,}|(?<=://)[^/\s:@\"]*:[^/\s@\"]+(?=@)"
)
_PATTERN_BYTES = re.compile(_PATTERNS.pattern.encode())


class Mask:
    """Puts `***` in the place of secrets. `values` are those that are known; each also as JSON writes it."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._texts: tuple[str, ...] = ()
        self._bytes: tuple[bytes, ...] = ()
        self.learn(values)

    def learn(self, values: Iterable[str]) -> None:
        """Further values."""
        known = {*self._texts, *(value for value in values if len(value) >= SHORTEST)}
        # the longer first: one may be a part of another
        self._texts = tuple(sorted(known, key=len, reverse=True))
        written = {form for value in known for form in (value.encode("utf-8", "replace"), _as_json(value))}
        self._bytes = tuple(sorted(written, key=len, reverse=True))

    def text(self, text: str) -> str:
        """The text without them."""
        for value in self._texts:
            if value in text:
                text = text.replace(value, MASK)
        return _PATTERNS.sub(MASK, text)

    def data(self, data: bytes) -> bytes:
        """The same of text as bytes, also inside JSON."""
        for value in self._bytes:
            data = data.replace(value, MASK.encode())
        return _PATTERN_BYTES.sub(MASK.encode(), data)


def _as_json(value: str) -> bytes:
    return encode(value.encode("utf-8", "replace").decode())[1:-1]


def secret_values(named: Mapping[str, str]) -> list[str]:
    """Values of variables, headers or the like that their names or their own look give away: the password in the URL of
    a proxy, too."""
    found: list[str] = []
    for name, value in named.items():
        if any(word in name.upper() for word in _WORDS):
            found.append(value.strip())
        if _URL_VALUE.match(value):
            found.extend(_userinfo(value))
    return found


def _userinfo(url: str) -> list[str]:
    try:
        password = urlsplit(url).password or ""
    except ValueError:
        return []
    return [password, unquote(password)]
