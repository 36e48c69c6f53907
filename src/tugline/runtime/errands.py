"""Small requests beside the conversation: a page to be read, a title to be found."""

from collections.abc import Callable

from tugline.loop.ledger import Ledger
from tugline.ports import Ids, Provider
from tugline.protocol.blocks import Text
from tugline.protocol.chunks import AttemptFailed, BlockClosed, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.messages import User
from tugline.protocol.specs import ModelRequest, Purpose


class Errands:
    """A small model that answers one prompt at a time; what it costs is booked like all else."""

    def __init__(
        self, provider: Provider, model: Callable[[str], str], ids: Ids, ledger: Ledger, session: Callable[[], str]
    ) -> None:
        self._provider = provider
        self._model = model
        self._ids = ids
        self._ledger = ledger
        self._session = session

    async def complete(self, prompt: str, *, purpose: Purpose, model: str = "") -> str:
        """The answer's text; raises `ProviderError`."""
        model = self._model(model)
        request = ModelRequest(
            model=model,
            messages=(User(self._ids.message(), (Text(prompt),)),),
            purpose=purpose,
            session=self._session(),
            step=self._ids.new("errand"),
        )
        texts: list[str] = []
        ended = False
        async with self._provider.stream(request) as batches:
            async for batch in batches:
                for chunk in batch:
                    ended = self._take(chunk, texts, model, purpose) or ended
        if not ended:
            raise ProviderError(Failure("stream_broken", "The answer ended before it was whole."))
        return "".join(texts)

    def _take(self, chunk: Chunk, texts: list[str], model: str, purpose: Purpose) -> bool:
        match chunk:
            case ReplyStarted() | AttemptFailed():
                texts.clear()
            case BlockClosed(block=Text(text)):
                texts.append(text)
            case ReplyEnded(usage=usage):
                self._ledger.enter(self._provider.card(model), usage, purpose)
                return True
            case _:
                pass
        return False
