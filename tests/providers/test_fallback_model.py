"""Another model steps in for an overloaded one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tugline.protocol.chunks import Chunk, ModelSwitched, ReplyEnded, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.ids import ReplyId
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.protocol.usage import Usage
from tugline.providers.fallback import Fallback

STARTED = ReplyStarted(ReplyId("r"), "m")
ENDED = ReplyEnded("end_turn", Usage())
OVERLOADED = Failure("overloaded", "busy", status=529, retryable=True)
KEY = Failure("authentication", "the key was not accepted", status=401)


class ByModel:
    """Fails for some models: while opening, or after it has begun to speak."""

    def __init__(self, failures: dict[str, Failure], *, late: bool = False) -> None:
        self.failures = failures
        self.late = late
        self.log: list[str] = []

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        return self._stream(request.model)

    @asynccontextmanager
    async def _stream(self, model: str) -> AsyncIterator[AsyncIterator[Sequence[Chunk]]]:
        self.log.append(f"open {model}")
        try:
            if model in self.failures and not self.late:
                raise ProviderError(self.failures[model])
            yield self._play(model)
        finally:
            self.log.append(f"close {model}")

    async def _play(self, model: str) -> AsyncIterator[Sequence[Chunk]]:
        yield [STARTED]
        if model in self.failures:
            raise ProviderError(self.failures[model])
        yield [ENDED]

    def card(self, model: str) -> ModelCard:
        return ModelCard(name=model)

    async def aclose(self) -> None:
        self.log.append("closed")


async def collect(provider: Fallback, model: str) -> list[Chunk]:
    chunks: list[Chunk] = []
    async with provider.stream(ModelRequest(model, ())) as batches:
        async for batch in batches:
            chunks.extend(batch)
    return chunks


@pytest.mark.parametrize("late", [False, True])
async def test_an_overloaded_model_is_replaced_and_both_are_named(late: bool) -> None:
    inner = ByModel({"big": OVERLOADED}, late=late)
    said = [STARTED] if late else []
    switched = ModelSwitched("big", "small", "busy")
    assert await collect(Fallback(inner, "small"), "big") == [*said, switched, STARTED, ENDED]
    assert inner.log == ["open big", "close big", "open small", "close small"]


async def test_other_failures_are_no_reason_to_switch() -> None:
    inner = ByModel({"big": KEY})
    with pytest.raises(ProviderError) as caught:
        await collect(Fallback(inner, "small"), "big")
    assert caught.value.failure == KEY
    assert inner.log == ["open big", "close big"]


async def test_a_fallback_that_is_overloaded_too_is_the_end() -> None:
    inner = ByModel({"big": OVERLOADED, "small": OVERLOADED})
    with pytest.raises(ProviderError) as caught:
        await collect(Fallback(inner, "small"), "big")
    assert caught.value.failure == OVERLOADED
    assert inner.log == ["open big", "close big", "open small", "close small"]


async def test_the_fallback_has_no_fallback_of_its_own() -> None:
    inner = ByModel({"small": OVERLOADED})
    with pytest.raises(ProviderError):
        await collect(Fallback(inner, "small"), "small")
    assert inner.log == ["open small", "close small"]


async def test_without_trouble_nothing_is_said() -> None:
    inner = ByModel({})
    assert await collect(Fallback(inner, "small"), "big") == [STARTED, ENDED]


async def test_the_other_model_may_live_with_another_provider() -> None:
    inner, other = ByModel({"big": OVERLOADED}), ByModel({})
    provider = Fallback(inner, "small", other=other)
    assert (await collect(provider, "big"))[-1] == ENDED
    await provider.aclose()
    assert inner.log == ["open big", "close big", "closed"]
    assert other.log == ["open small", "close small", "closed"]
    assert provider.card("small") == ModelCard(name="small")


async def test_leaving_early_closes_the_stream() -> None:
    inner = ByModel({})
    async with Fallback(inner, "small").stream(ModelRequest("big", ())) as batches:
        assert await batches.__anext__() == [STARTED]
    assert inner.log == ["open big", "close big"]
