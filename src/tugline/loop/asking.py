"""One request whose answer is text: a summary, an errand. Calls in the answer are not run."""

from collections.abc import Callable

from msgspec import Struct

from tugline.ports import Provider
from tugline.protocol.blocks import Text
from tugline.protocol.chunks import AttemptFailed, BlockClosed, Chunk, ModelSwitched, ReplyEnded, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.messages import StopReason
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.protocol.usage import Usage

Book = Callable[[ModelCard, Usage], object]
"""Hears what a request used, also one that broke off: the provider has read it all the same."""


class Answer(Struct, frozen=True):
    """What was answered, and why it ended there."""

    text: str
    stop: StopReason


class Asking:
    """Sends one request and keeps the text of its answer. `told` hears of each attempt that failed."""

    def __init__(self, provider: Provider, book: Book, told: Callable[[AttemptFailed], object] | None = None) -> None:
        self._provider = provider
        self._book = book
        self._told = told
        self._texts: list[str] = []
        self._asked = Usage()
        self._stop: StopReason = ""
        self._over = False

    async def ask(self, request: ModelRequest) -> Answer:
        """The answer; raises `ProviderError`. An answer counts only when it ended properly."""
        self._texts, self._asked, self._over = [], Usage(), False
        card = self._provider.card(request.model)
        try:
            async with self._provider.stream(request) as batches:
                async for batch in batches:
                    for chunk in batch:
                        card = self._take(chunk, card)
        except ProviderError:
            if not self._ended():
                raise
        finally:
            self._settle(card)
        if not self._ended():
            raise ProviderError(Failure("stream_broken", "The answer ended before it was whole."))
        return Answer("".join(self._texts), self._stop)

    def _ended(self) -> bool:
        return self._over

    def _take(self, chunk: Chunk, card: ModelCard) -> ModelCard:
        match chunk:
            case ReplyStarted(usage=usage):
                self._texts.clear()
                self._asked = usage
            case AttemptFailed():
                self._settle(card)
                self._texts.clear()
                if self._told is not None:
                    self._told(chunk)
            case ModelSwitched(after=after):
                self._settle(card)
                self._texts.clear()
                return self._provider.card(after)
            case BlockClosed(block=Text(text)):
                self._texts.append(text)
            case ReplyEnded(stop=stop, usage=usage) if not self._over:
                self._over, self._stop, self._asked = True, stop, usage
            case _:
                pass
        return card

    def _settle(self, card: ModelCard) -> None:
        if self._asked != Usage():
            self._book(card, self._asked)
            self._asked = Usage()
