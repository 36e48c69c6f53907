"""What an agent's requests cost: usage and money, per model and in all."""

from collections.abc import Callable, Mapping

from tugline.protocol.specs import ModelCard, Purpose
from tugline.protocol.usage import Spend, Usage
from tugline.rules.price import add_spend

Note = Callable[[str, Purpose, Usage, float, str], None]
"""Hears of each entry: model, purpose, usage, cost, why the prompt cache was missed."""


class Ledger:
    """Sums of what was spent, by model. A ledger may pass its entries on to that of a wider circle (the session)."""

    def __init__(
        self,
        price: Callable[[ModelCard, Usage], float],
        parent: "Ledger | None" = None,
        *,
        note: Note = lambda model, purpose, usage, cost, miss: None,
    ) -> None:
        self._price = price
        self._parent = parent
        self.note = note
        self.models: dict[str, Spend] = {}
        self.brought = 0.0
        """What the session had cost before this process went on with it."""

    def restore(self, models: Mapping[str, Spend]) -> None:
        """Go on from these sums."""
        self.models = dict(models)
        self.brought = self.total().cost_usd

    def enter(self, card: ModelCard, usage: Usage, purpose: Purpose, cache_miss: str = "") -> Spend:
        """Book one request; returns what it cost."""
        spend = Spend(usage, self._price(card, usage), 1)
        self._book(card.name, spend)
        self.note(card.name, purpose, usage, spend.cost_usd, cache_miss)
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
