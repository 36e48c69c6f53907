"""What a reply costs."""

from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Spend, Usage


def cost(card: ModelCard, usage: Usage) -> float:
    """The price of that usage in USD."""
    price = card.price
    cached = usage.cache_write * price.cache_write + usage.cache_read * price.cache_read
    return ((usage.input + cached) * price.input + usage.output * price.output) / 1_000_000


def add_usage(a: Usage, b: Usage) -> Usage:
    """The sum of two usages."""
    return Usage(a.input + b.input, a.output + b.output, a.cache_read + b.cache_read, a.cache_write + b.cache_write)


def add_spend(a: Spend, b: Spend) -> Spend:
    """The sum of two spends."""
    return Spend(add_usage(a.usage, b.usage), a.cost_usd + b.cost_usd, a.requests + b.requests)


def difference(later: Spend, earlier: Spend) -> Spend:
    """What was spent in between."""
    a, b = later.usage, earlier.usage
    usage = Usage(a.input - b.input, a.output - b.output, a.cache_read - b.cache_read, a.cache_write - b.cache_write)
    return Spend(usage, later.cost_usd - earlier.cost_usd, later.requests - earlier.requests)
