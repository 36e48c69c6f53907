"""Which provider serves a model."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from tugline.ports import Provider
from tugline.protocol.chunks import Chunk
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.providers.router import Router

CATALOGUE = {"claude-x": "anthropic", "gpt-x": "openai"}


class Named:
    """A provider that notes what it is asked for."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        log.append(f"make {name}")

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        self.log.append(f"{self.name} <- {request.model}")
        return self._stream()

    @asynccontextmanager
    async def _stream(self) -> AsyncIterator[AsyncIterator[Sequence[Chunk]]]:
        async def nothing() -> AsyncIterator[Sequence[Chunk]]:
            yield []

        yield nothing()

    def card(self, model: str) -> ModelCard:
        raise AssertionError("the catalogue knows")

    async def aclose(self) -> None:
        self.log.append(f"close {self.name}")


def lookup(model: str) -> ModelCard:
    return ModelCard(name=model, provider=CATALOGUE.get(model, ""), known=model in CATALOGUE)


def router(*reachable: str) -> tuple[Router, list[str]]:
    log: list[str] = []

    def maker(name: str) -> Provider:
        return Named(name, log)

    providers = {name: (lambda name=name: maker(name)) for name in ("anthropic", "openai", "local")}
    return Router(providers, lookup, reachable=reachable), log


@pytest.mark.parametrize(
    ("model", "reachable", "chosen"),
    [
        ("claude-x", ("openai",), ("anthropic", "claude-x")),
        ("gpt-x", (), ("openai", "gpt-x")),
        ("openai/claude-x", (), ("openai", "claude-x")),
        ("openai/meta/llama", (), ("openai", "meta/llama")),
        ("meta/llama", ("openai",), ("openai", "meta/llama")),
        ("local:/models/a:b/x.gguf", ("openai",), ("local", "/models/a:b/x.gguf")),
        ("local:~/x.gguf", (), ("local", "~/x.gguf")),
        ("openai/llama:7b", (), ("openai", "llama:7b")),
        ("llama:7b", ("openai",), ("openai", "llama:7b")),
        ("openai/", ("local",), ("local", "openai/")),
        ("llama", ("openai",), ("openai", "llama")),
        ("llama", ("openai", "anthropic"), ("anthropic", "llama")),
        ("llama", (), ("anthropic", "llama")),
        ("llama", ("unheard-of",), ("anthropic", "llama")),
        ("", ("openai",), ("openai", "")),
    ],
)
def test_the_provider_follows_from_the_models_name(model: str, reachable: tuple[str, ...], chosen: object) -> None:
    assert router(*reachable)[0].choose(model) == chosen


def test_a_provider_that_knows_its_models_is_asked_for_their_cards() -> None:
    own = Router(
        {"openai": lambda: Named("openai", [])}, lookup, cards={"openai": lambda name: ModelCard(name=name, window=7)}
    )
    assert own.card("openai:x") == ModelCard(name="x", provider="openai", window=7)


async def test_a_provider_is_made_once_and_when_it_is_needed() -> None:
    provider, log = router()
    assert provider.card("openai/gpt-x") == ModelCard(name="gpt-x", provider="openai")
    assert provider.card("local/llama") == ModelCard(name="llama", provider="local", known=False)
    assert log == []
    for model in ("openai/gpt-x", "gpt-x", "claude-x"):
        async with provider.stream(ModelRequest(model, ())):
            pass
    await provider.aclose()
    await provider.aclose()
    assert log == [
        "make openai",
        "openai <- gpt-x",
        "openai <- gpt-x",
        "make anthropic",
        "anthropic <- claude-x",
        "close openai",
        "close anthropic",
    ]
