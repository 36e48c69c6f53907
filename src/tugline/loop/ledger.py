"""What an agent's requests cost: usage and money, per model and in all."""

from collections.abc import Callable

from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Spend, Usage


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


class Ledger:
    """Sums of what was spent, by model. A ledger may pass its entries on to that of a wider circle (the session)."""

    def __init__(self, price: Callable[[ModelCard, Usage], float], parent: "Ledger | None" = None) -> None:
        self._price = price
        self._parent = parent
        self.models: dict[str, Spend] = {}

    def enter(self, card: ModelCard, usage: Usage) -> Spend:
        """Book one request; returns what it cost."""
        spend = Spend(usage, self._price(card, usage), 1)
        self._book(card.name, spend)
        return spend

    def _book(self, model: str, spend: Spend) -> None:
        self.models[model] = add_spend(self.models.get(model, Spend()), spend)
        if self._parent is not None:
            self._parent._book(model, spend)

    def total(self) -> Spend:
        """All models together."""
        result = Spend()
        for spend in self.models.values():
            result = add_spend(result, spend)
        return result
