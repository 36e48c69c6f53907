"""GGUF files for tests: a header, and no tensors."""

import struct
from collections.abc import Sequence


def gguf(*fields: bytes) -> bytes:
    """A file with these fields in its header."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + b"".join(fields)


def _text(words: str) -> bytes:
    data = words.encode()
    return struct.pack("<Q", len(data)) + data


def string(key: str, value: str) -> bytes:
    """A field with words."""
    return _text(key) + struct.pack("<I", 8) + _text(value)


def number(key: str, value: int) -> bytes:
    """A field with a 32-bit number."""
    return _text(key) + struct.pack("<II", 4, value)


def array(key: str, values: Sequence[str] | Sequence[float]) -> bytes:
    """A field with many words or numbers."""
    kind = 8 if isinstance(values[0], str) else 6
    items = b"".join(_text(item) if isinstance(item, str) else struct.pack("<f", item) for item in values)
    return _text(key) + struct.pack("<IIQ", 9, kind, len(values)) + items
