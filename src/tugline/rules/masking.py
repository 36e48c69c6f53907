"""Secrets in what is logged or exported: values that are known, and known shapes of keys, give way to `***`."""

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from tugline.protocol.codec import encode

MASK = "***"

_SHAPES = "|".join(
    (
        r"sk-[A-Za-z0-9_-]{16,}",
        r"sk_live_[A-Za-z0-9]{16,}",
        r"gh[pousr]_[A-Za-z0-9]{20,}",
        r"github_pat_\w{20,}",
        r"glpat-[\w-]{20,}",
        r"A[KS]IA[0-9A-Z]{16}",
        r"xox[abeprs]-[\w-]{10,}",
        r"AIza[\w-]{30,}",
        r"hf_[A-Za-z0-9]{30,}",
        r"npm_[A-Za-z0-9]{36}",
        r"(?<=Bearer )[\w.~+/=-]{16,}",
        r"(?<=://)[^/\s:@\"]*:[^/\s@\"]+(?=@)",
        r"(?<=-----BEGIN )[A-Z ]{0,20}PRIVATE KEY-----.{1,20000}?(?=-----END)",
    )
)
_IN_TEXT = re.compile(_SHAPES, re.ASCII | re.DOTALL)
_IN_BYTES = re.compile(_SHAPES.encode(), re.DOTALL)
_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSPHRASE", "PASSWD", "CREDENTIAL")
_WITH_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s]*@")

SHORTEST = 8
"""Characters; a shorter value may be any word, and is left alone."""


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values that must not be written down, by the names of their variables, and passwords in URLs such as a proxy's;
    the longest first."""
    found: set[str] = set()
    for name, value in environ.items():
        if any(word in name.upper() for word in _WORDS):
            found.add(value)
        if _WITH_USER.match(value):
            found.update(_passwords(value))
    return tuple(sorted((one for one in found if len(one) >= SHORTEST), key=lambda value: (-len(value), value)))


def _passwords(url: str) -> tuple[str, ...]:
    try:
        password = urlsplit(url).password or ""
    except ValueError:
        return ()
    return (password, unquote(password))


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without these values, and without what looks like a key."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return _IN_TEXT.sub(MASK, text)


def mask_bytes(data: bytes, secrets: Iterable[bytes] = ()) -> bytes:
    """The same for encoded text."""
    for secret in secrets:
        data = data.replace(secret, MASK.encode())
    return _IN_BYTES.sub(MASK.encode(), data)


class MaskSet:
    """Secrets that are known so far, for text that is encoded as JSON."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._forms: tuple[bytes, ...] = ()
        self.learn(values)

    def learn(self, values: Iterable[str]) -> None:
        """Further ones."""
        plain = [value.encode("utf-8", "replace") for value in values if len(value) >= SHORTEST]
        forms = {*self._forms, *plain, *(encode(value.decode())[1:-1] for value in plain)}
        # the longer first: one may be a part of another
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def data(self, data: bytes) -> bytes:
        """The data without them."""
        return mask_bytes(data, self._forms)
