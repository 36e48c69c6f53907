"""Which provider serves a model."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from tugline.ports import Provider
from tugline.protocol.chunks import Chunk
from tugline.protocol.specs import ModelCard, ModelRequest


class Router:
    """A provider that passes each request to the one its model belongs to.

    `providers` makes each of them when it is first needed. `lookup` is the catalogue: it knows a model's provider, or
    gives a card with an empty one. `cards` are catalogues of providers that know their models themselves.
    `reachable` names those that have a key or a base URL.
    """

    def __init__(
        self,
        providers: Mapping[str, Callable[[], Provider]],
        lookup: Callable[[str], ModelCard],
        *,
        cards: Mapping[str, Callable[[str], ModelCard]] | None = None,
        reachable: Collection[str] = (),
        default: str = "anthropic",
    ) -> None:
        self._makers = providers
        self._lookup = lookup
        self._cards = cards or {}
        self._reachable = tuple(name for name in providers if name in reachable)
        self._default = default
        self._made: dict[str, Provider] = {}

    def choose(self, model: str) -> tuple[str, str]:
        """The provider's name, and the model's as that provider knows it.

        `provider/model` says it outright, and so does `provider:model` (`local:/path`); else the catalogue does; else
        it is the only reachable provider, or the default one.
        """
        for mark in ":/":
            prefix, _, rest = model.partition(mark)
            if rest and prefix in self._makers:
                return prefix, rest
        provider = self._lookup(model).provider
        if provider in self._makers:
            return provider, model
        if len(self._reachable) == 1:
            return self._reachable[0], model
        return self._default, model

    def prepare(self, model: str) -> None:
        """Make the provider of this model now, so that the first request need not."""
        self._provider(self.choose(model)[0])

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        """Send the request to its provider, the model's name without the prefix."""
        name, model = self.choose(request.model)
        if model != request.model:
            request = msgspec.structs.replace(request, model=model)
        return self._provider(name).stream(request)

    def card(self, model: str) -> ModelCard:
        """What the catalogue knows of a model; no provider is made for that."""
        name, bare = self.choose(model)
        card = self._cards.get(name, self._lookup)(bare)
        return card if card.provider else msgspec.structs.replace(card, provider=name)

    async def aclose(self) -> None:
        """Close the providers that were made."""
        made = list(self._made.values())
        self._made.clear()
        for provider in made:
            await provider.aclose()

    def _provider(self, name: str) -> Provider:
        provider = self._made.get(name)
        if provider is None:
            provider = self._made[name] = self._makers[name]()
        return provider
