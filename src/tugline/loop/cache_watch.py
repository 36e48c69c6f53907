"""Watches whether the requests of an agent find their beginning in the provider's prompt cache."""

from tugline.protocol.usage import Usage
from tugline.rules import cache
from tugline.rules.cache import Marks


class CacheWatch:
    """Compares each answered request with the one before."""

    def __init__(self) -> None:
        self._before: Marks | None = None
        self._usage = Usage()
        self._now: Marks | None = None

    def sent(self, marks: Marks) -> None:
        """A request goes out."""
        self._now = marks

    def answered(self, usage: Usage) -> str:
        """It was answered. Which section had changed if the cache was missed, else nothing."""
        before, now = self._before, self._now
        miss = before is not None and now is not None and cache.is_miss(self._usage, usage)
        self._before, self._usage = now, usage
        return cache.explain(before, now) if miss and before is not None and now is not None else ""
