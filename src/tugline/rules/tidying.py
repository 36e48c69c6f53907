"""Which sessions are to be put away, by age and size. Pure: what is in use, and what is done, is for the caller."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tugline.rules.telling import age, size

_UNITS = {"h": 3_600.0, "d": 86_400.0, "w": 604_800.0, "m": 30 * 86_400.0, "y": 365 * 86_400.0}
_SIZES = {"": 1, "b": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}


class Kept(Struct, frozen=True):
    """A session as it is kept: what it takes on the disk with all that belongs to it, when it was last used."""

    key: str
    bytes: int
    changed: float


class Due(Struct, frozen=True):
    """A session to be put away, and why."""

    kept: Kept
    why: str


class Limits(Struct, frozen=True):
    """What is put away: what was not used for `older_than` seconds, what is larger than `larger_than` bytes, and the
    longest unused ones until all together take no more than `keep_size` bytes."""

    older_than: float | None = None
    larger_than: int | None = None
    keep_size: int | None = None


def due(sessions: Sequence[Kept], limits: Limits, now: float) -> list[Due]:
    """The sessions that the limits name, the longest unused first."""
    found: dict[str, Due] = {}
    oldest_first = sorted(sessions, key=lambda kept: (kept.changed, kept.key))
    for kept in oldest_first:
        idle = now - kept.changed
        if limits.older_than is not None and idle > limits.older_than:
            found[kept.key] = Due(kept, f"last used {age(idle)}")
        elif limits.larger_than is not None and kept.bytes > limits.larger_than:
            found[kept.key] = Due(kept, f"it takes {size(kept.bytes)}")
    if limits.keep_size is not None:
        left = sum(kept.bytes for kept in sessions if kept.key not in found)
        for kept in oldest_first:
            if left <= limits.keep_size:
                break
            if kept.key not in found:
                found[kept.key] = Due(kept, f"all together take more than {size(limits.keep_size)}")
                left -= kept.bytes
    return [found[kept.key] for kept in oldest_first if kept.key in found]


def read_age(text: str) -> float | None:
    """Seconds of `12h`, `30d`, `6w`, `3m` (of 30 days), `1y`, or of a number of days; `None` where it is none."""
    match = re.fullmatch(r"([0-9]{1,6})([hdwmy]?)", text.strip().lower())
    return None if match is None else int(match[1]) * _UNITS[match[2] or "d"]


def read_size(text: str) -> int | None:
    """Bytes of `500MB`, `2G`, `100k`, or a plain number; `None` where it is none."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) ?([kmgt]?)i?b?", text.strip().lower())
    return None if match is None else int(float(match[1]) * _SIZES[match[2]])
