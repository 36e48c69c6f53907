"""Whether a request hit the provider's prompt cache, and if not, which part of it had changed."""

from collections.abc import Sequence

from msgspec import Struct

from tugline.protocol.specs import ModelRequest, Section, ToolSpec
from tugline.protocol.usage import Usage

LASTS = 300.0
"""Seconds that providers keep a prefix at least, unless asked for longer."""
SLACK = 0.1
"""The share of a prefix that may be counted anew: caches keep whole pieces only."""
SMALL = 1_024
"""Tokens under which no provider keeps a prefix."""


class Marks(Struct, frozen=True, eq=False):
    """What a request began with, as far as it matters to a cache."""

    model: str
    system: tuple[Section, ...]
    tools: tuple[ToolSpec, ...]
    options: tuple[object, ...]
    epoch: int
    change: str
    time: float


def marks(request: ModelRequest, system: Sequence[Section], *, epoch: int, change: str, time: float) -> Marks:
    """The marks of a request. `epoch` and `change`: how often, and by what, its history was last replaced."""
    options = (request.thinking_tokens, request.effort)
    return Marks(request.model, tuple(system), request.tools, options, epoch, change, time)


def is_miss(before: Usage, now: Usage) -> bool:
    """Whether what the request before left in the cache was not found there."""
    left = before.cache_read + before.cache_write
    if left < SMALL:
        return False
    findable = min(left, now.input + now.cache_read + now.cache_write)
    return now.cache_read < findable - max(SMALL, findable * SLACK)


def explain(before: Marks, now: Marks) -> str:
    """Which section of the request was another one, the first that counts."""
    if now.model != before.model:
        return f"model: {before.model} → {now.model}"
    if now.options != before.options:
        return "thinking or effort"
    if now.tools != before.tools:
        return _tools(before.tools, now.tools)
    changed = _system(before.system, now.system)
    if changed:
        return f"system prompt: {changed}"
    if now.epoch != before.epoch:
        return f"history: {now.change or 'replaced'}"
    if now.time - before.time > LASTS:
        return f"pause of {round((now.time - before.time) / 60)} minutes"
    return "nothing of ours: the provider did not keep it"


def _tools(before: Sequence[ToolSpec], now: Sequence[ToolSpec]) -> str:
    names, former = [tool.name for tool in now], [tool.name for tool in before]
    added = [name for name in names if name not in former]
    gone = [name for name in former if name not in names]
    words = [f"{'+' if name in added else '-'}{name}" for name in (*added, *gone)]
    return f"tools: {' '.join(words) or 'descriptions'}"


def _system(before: Sequence[Section], now: Sequence[Section]) -> str:
    former = {section.name: section.text for section in before}
    names = [section.name for section in now if former.pop(section.name, None) != section.text]
    return ", ".join((*names, *former))
