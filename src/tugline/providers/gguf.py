"""What a GGUF file says of its model, read without loading it."""

import mmap
import os
import stat
import struct
from functools import lru_cache
from typing import Any

from msgspec import Struct

_STRING = 8
_ARRAY = 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_FIELD_LIMIT = 100_000
_TEXT_LIMIT = 4 * 1024 * 1024


class GgufError(Exception):
    """A file that is no GGUF model, or is damaged; the text says which, without the path."""


class GgufHeader(Struct, frozen=True):
    """`context` is the number of tokens that the model was made for, `template` the Jinja source that lays out a
    conversation; 0 and empty where the file does not say."""

    architecture: str
    name: str
    context: int
    template: str

    @property
    def tools(self) -> bool:
        """Whether the template tells the model of tools; where it does not, the model never hears of them."""
        return "tools" in self.template


def read_header(path: str) -> GgufHeader:
    """Read the header of the model at `path`; `GgufError` if there is none, `OSError` if it cannot be opened."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise GgufError("it is a folder; name the .gguf file in it")
    if not stat.S_ISREG(status.st_mode):
        raise GgufError("it is no regular file")
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: str, size: int, mtime_ns: int) -> GgufHeader:
    if size < 24:
        raise GgufError("it is too short for a GGUF file")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise GgufError("it is no GGUF file")
        try:
            fields = _fields(data)
        except (struct.error, OverflowError, IndexError, UnicodeDecodeError):
            raise GgufError("its header is damaged or incomplete") from None
    architecture = _text(fields, "general.architecture")
    context = fields.get(f"{architecture}.context_length", 0)
    return GgufHeader(
        architecture=architecture,
        name=_text(fields, "general.name"),
        context=context if isinstance(context, int) and 0 < context < 2**31 else 0,
        template=_text(fields, "tokenizer.chat_template"),
    )


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key, "")
    return value if isinstance(value, str) else ""


def _fields(data: mmap.mmap) -> dict[str, Any]:
    """All scalars and strings by name; arrays are passed over."""
    version, _, count = struct.unpack_from("<IQQ", data, 4)
    if not 2 <= version <= 3:
        raise GgufError(f"it is GGUF of version {version}; 2 and 3 are understood")
    if count > _FIELD_LIMIT:
        raise GgufError("its header is damaged or incomplete")
    place = 24
    fields: dict[str, Any] = {}
    for _ in range(count):
        key, place = _string(data, place)
        (kind,) = struct.unpack_from("<I", data, place)
        place += 4
        if kind == _STRING:
            fields[key], place = _string(data, place)
        elif kind == _ARRAY:
            place = _past_array(data, place)
        elif kind in _SCALARS:
            form = "<" + _SCALARS[kind]
            (fields[key],) = struct.unpack_from(form, data, place)
            place += struct.calcsize(form)
        else:
            raise GgufError("its header is damaged or incomplete")
    return fields


def _string(data: mmap.mmap, place: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, place)
    place += 8
    if length > _TEXT_LIMIT or place + length > len(data):
        raise GgufError("its header is damaged or incomplete")
    return data[place : place + length].decode("utf-8", "replace"), place + length


def _past_array(data: mmap.mmap, place: int) -> int:
    kind, length = struct.unpack_from("<IQ", data, place)
    place += 12
    if kind in _SCALARS:
        place += struct.calcsize("<" + _SCALARS[kind]) * length
    elif kind == _STRING:
        # hundreds of thousands of words: as little as possible for each
        read, end = struct.Struct("<Q").unpack_from, len(data)
        for _ in range(length):
            place += 8 + read(data, place)[0]
            if place > end:
                break
    else:
        raise GgufError("its header is damaged or incomplete")
    if place > len(data):
        raise GgufError("its header is damaged or incomplete")
    return place
