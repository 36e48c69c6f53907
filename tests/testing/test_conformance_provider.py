"""Our own providers pass the suite that we give to others."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tugline.net.client import HttpClient
from tugline.ports import Provider
from tugline.protocol.blocks import Text
from tugline.protocol.chunks import BlockClosed, BlockStarted, Chunk, ReplyEnded
from tugline.protocol.errors import ProviderError
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.protocol.usage import Usage
from tugline.providers.anthropic import AnthropicProvider
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.openai_chat import OpenAIChatProvider
from tugline.providers.openai_responses import OpenAIResponsesProvider
from tugline.testing import ModelServer
from tugline.testing.conformance import ProviderConformance


def client() -> HttpClient:
    return HttpClient(environ={})


class TestAnthropic(ProviderConformance):
    def provider(self, server: ModelServer) -> Provider:
        return AnthropicProvider(Endpoint(base_url=server.url, key="k"), client(), Catalog())


class TestChat(ProviderConformance):
    def provider(self, server: ModelServer) -> Provider:
        return OpenAIChatProvider(Endpoint(base_url=server.openai_url, key="k"), client(), Catalog())


class TestResponses(ProviderConformance):
    def provider(self, server: ModelServer) -> Provider:
        return OpenAIResponsesProvider(Endpoint(base_url=server.openai_url, key="k"), client(), Catalog())


class Careless:
    """A provider that takes a broken stream for a short reply."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Sequence[Chunk]]]:
        async with self._inner.stream(request) as batches:
            yield self._patched(batches)

    async def _patched(self, batches: AsyncIterator[Sequence[Chunk]]) -> AsyncIterator[Sequence[Chunk]]:
        try:
            async for batch in batches:
                yield batch
        except ProviderError:
            yield [BlockStarted(9, "text"), BlockClosed(9, Text("?")), ReplyEnded("end_turn", Usage())]

    def card(self, model: str) -> ModelCard:
        return self._inner.card(model)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_the_suite_finds_a_careless_provider() -> None:
    class Suite(ProviderConformance):
        def provider(self, server: ModelServer) -> Provider:
            return Careless(AnthropicProvider(Endpoint(base_url=server.url, key="k"), client(), Catalog()))

    await Suite().test_text_and_calls_arrive_whole_and_in_order()
    with pytest.raises(AssertionError, match="a reply instead of an error"):
        await Suite().test_a_stream_that_breaks_is_an_error()
