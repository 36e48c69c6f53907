"""Models in GGUF files, run on this machine without a server of the user's: `local:/path/model.gguf`."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from types import TracebackType
from typing import Any

import anyio

from tugline.protocol.chunks import Chunk
from tugline.protocol.errors import ConfigError, Failure, ProviderError
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.providers.catalog import Catalog
from tugline.providers.gguf import GgufError, GgufHeader, read_header
from tugline.providers.llama import INSTALL, Llama, LlamaChat

NAME = "local"
PREFIX = "local:"
WINDOW = 32_768
"""Tokens of context at most, unless the settings say otherwise: its memory is taken at the start."""
OUTPUT = 8_192
SIGN_OF_LIFE = 1.0
"""Seconds between empty batches while the model is loaded or the request waits."""

Overrides = Mapping[str, Mapping[str, Any]]


def model_path(model: str) -> str:
    """The absolute path in a model's name, given with or without `local:`."""
    return os.path.abspath(os.path.expanduser(model.removeprefix(PREFIX)))


def check_local_model(model: str) -> None:
    """Raise `ConfigError` where a local model plainly cannot be used: no extra, no file, no model in it."""
    if (problem := _problem(model)) is not None:
        raise ConfigError(problem)


def local_card(model: str, overrides: Overrides | None = None) -> ModelCard:
    """What the file says of its model; safe defaults where it says nothing. `overrides` are the settings' `models`."""
    try:
        header = read_header(model_path(model))
    except (GgufError, OSError, ValueError):
        header = GgufHeader("", "", 0, "")
    return _catalog(model, header, overrides or {}).card(model)


class LocalProvider:
    """Runs each model that is asked for in a process of its own, from its first request on until it is closed.

    A request's model is a path, with or without `local:` before it. `overrides`: the settings' `models`, where an
    entry may be named like the model, with or without the prefix; a `window` there is what the model is started with.
    """

    def __init__(self, overrides: Overrides | None = None) -> None:
        self._overrides = overrides or {}
        self._models: dict[str, Llama] = {}
        self._cards: dict[str, ModelCard] = {}

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        """Send the request to its model, started if need be. Empty batches are signs of life until it answers."""
        return _LocalStream(self, request)

    def card(self, model: str) -> ModelCard:
        """What is known of a model, as its file was when first asked for."""
        card = self._cards.get(model)
        if card is None:
            card = self._cards[model] = local_card(model, self._overrides)
        return card

    async def aclose(self) -> None:
        """End all models."""
        models = list(self._models.values())
        self._models.clear()
        for model in models:
            await model.aclose()

    def model(self, name: str) -> Llama:
        """The model of that name, running or not. `ProviderError` if there is none."""
        if (problem := _problem(name)) is not None:
            raise ProviderError(Failure("invalid_model", problem))
        llama = self._models.get(name)
        if llama is None:
            path = model_path(name)
            catalog = _catalog(name, read_header(path), self._overrides)
            llama = self._models[name] = Llama(path, catalog.card(name).window, catalog)
        return llama


class _LocalStream(AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]):
    """A stream that gives signs of life while its model is loaded and the answer has not begun.

    A model that was silent until the reader's patience was at its end is ended, unless it spoke to somebody else.
    """

    def __init__(self, provider: LocalProvider, request: ModelRequest) -> None:
        self._provider = provider
        self._request = request
        self._opening: asyncio.Task[AsyncIterator[Sequence[Chunk]]] | None = None
        self._opened: AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]] | None = None
        self._llama: Llama | None = None
        self._chat: LlamaChat | None = None
        self._heard = 0

    async def __aenter__(self) -> AsyncIterator[Sequence[Chunk]]:
        self._llama = self._provider.model(self._request.model)
        # a task, not a scope: it goes on while the reader does other things between two batches
        self._opening = asyncio.create_task(self._open(self._llama), name="local model")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opening is not None:
            self._opening.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.gather(self._opening, return_exceptions=True)
        try:
            if self._opened is not None:
                await self._opened.__aexit__(kind, error, trace)
        finally:
            if isinstance(error, ProviderError) and error.failure.kind == "timeout":
                await self._give_up()

    def __aiter__(self) -> AsyncIterator[Sequence[Chunk]]:
        return self

    async def __anext__(self) -> Sequence[Chunk]:
        if self._opening is None:
            raise RuntimeError("the stream is used outside its context")
        if not self._opening.done():
            await asyncio.wait({self._opening}, timeout=SIGN_OF_LIFE)
            if not self._opening.done():
                return ()
        batch = await self._opening.result().__anext__()
        if batch and self._chat is not None:
            self._chat.said += 1
            self._heard = self._chat.said
        return batch

    async def _open(self, llama: Llama) -> AsyncIterator[Sequence[Chunk]]:
        self._chat = await llama.chat()
        self._heard = self._chat.said
        stream = self._chat.stream(self._request)
        batches = await stream.__aenter__()
        self._opened = stream
        return batches

    async def _give_up(self) -> None:
        if self._llama is not None and self._chat is not None and self._chat.said == self._heard:
            await self._llama.give_up(self._chat)


def _problem(model: str) -> str | None:
    path = model_path(model)
    if find_spec("xllamacpp") is None:
        return INSTALL
    try:
        read_header(path)
    except FileNotFoundError:
        return f"there is no model file {path}"
    except OSError as error:
        return f"the model file {path} cannot be read: {error.strerror or error}"
    except (GgufError, ValueError) as error:
        return f"{path} cannot be used as a model: {error}"
    return None


def _catalog(model: str, header: GgufHeader, overrides: Overrides) -> Catalog:
    """A catalogue that knows this one model."""
    window = min(header.context or WINDOW, WINDOW)
    fields: dict[str, Any] = {
        "provider": NAME,
        "window": window,
        "output_limit": min(OUTPUT, max(256, window // 4)),
        "price": {"input": 0, "output": 0},
        "images": False,
        "tools": header.tools,
        # small models often write their calls as text, whatever their template says
        "text_calls": header.tools,
    }
    bare = model.removeprefix(PREFIX)
    for name in (bare, PREFIX + bare):
        fields.update(overrides.get(name, {}))
    return Catalog({model: fields})
