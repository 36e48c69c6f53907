"""What a reply costs."""

from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Usage


def cost(card: ModelCard, usage: Usage) -> float:
    """The price of that usage in USD."""
    price = card.price
    cached = usage.cache_write * price.cache_write + usage.cache_read * price.cache_read
    return ((usage.input + cached) * price.input + usage.output * price.output) / 1_000_000
