"""Tokens and money."""

from msgspec import Struct


class Usage(Struct, frozen=True):
    """Tokens as the provider counted them. `input` leaves out what was read from or written to the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Spend(Struct, frozen=True):
    """Usage and its price at one model."""

    usage: Usage = Usage()
    cost_usd: float = 0.0
    requests: int = 0
