"""Another model steps in where the chosen one's provider is overloaded."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import msgspec

from tugline.ports import Provider
from tugline.protocol.chunks import Chunk, ModelSwitched
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.specs import ModelCard, ModelRequest


class Fallback:
    """A provider that, once the one inside gives up for overload, says `ModelSwitched` and asks the fallback model.

    It belongs outside the retries. It serves one request: that the fallback stays until the turn ends is for whoever
    hears `ModelSwitched` and makes the next request.
    """

    def __init__(self, inner: Provider, model: str, *, other: Provider | None = None) -> None:
        self.inner = inner
        self.model = model
        self.other = other or inner

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        """Send the request, and to the fallback model where needed."""
        if not self.model or request.model == self.model:
            return self.inner.stream(request)
        return _Switch(self, request)

    def card(self, model: str) -> ModelCard:
        """What the provider of that model knows of it."""
        return (self.other if model == self.model else self.inner).card(model)

    async def aclose(self) -> None:
        """Close the providers inside."""
        await self.inner.aclose()
        if self.other is not self.inner:
            await self.other.aclose()


class _Switch(AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]):
    """The chosen model's stream, and after it perhaps the other's."""

    def __init__(self, fallback: Fallback, request: ModelRequest) -> None:
        self._fallback = fallback
        self._request = request
        self._open: AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]] | None = None
        self._batches: AsyncIterator[Sequence[Chunk]] | None = None
        self._switched = False

    async def __aenter__(self) -> AsyncIterator[Sequence[Chunk]]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            opened, self._open = self._open, None
            await opened.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Sequence[Chunk]]:
        return self

    async def __anext__(self) -> Sequence[Chunk]:
        try:
            if self._batches is None:
                await self._begin()
            assert self._batches is not None
            return await self._batches.__anext__()
        except ProviderError as error:
            if self._switched or error.failure.kind != "overloaded":
                raise
            await self._leave(error)
            return (self._switch(error.failure),)

    async def _begin(self) -> None:
        provider = self._fallback.other if self._switched else self._fallback.inner
        opened = provider.stream(self._request)
        self._batches = await opened.__aenter__()
        self._open = opened

    async def _leave(self, error: ProviderError) -> None:
        opened, self._open, self._batches = self._open, None, None
        if opened is not None:
            try:
                await opened.__aexit__(type(error), error, error.__traceback__)
            except ProviderError:
                pass  # the stream has failed already; closing it may say so once more

    def _switch(self, failure: Failure) -> ModelSwitched:
        before, after = self._request.model, self._fallback.model
        most = self._request.max_output_tokens
        if most is not None:
            card = self._fallback.card(after)
            most = min(most, max(card.output_limit, card.output_ceiling))
        self._request = msgspec.structs.replace(self._request, model=after, max_output_tokens=most)
        self._switched = True
        return ModelSwitched(before, after, failure.message)
