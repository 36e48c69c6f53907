"""Small requests beside the conversation: a page to be read, a title to be found."""

from collections.abc import Callable

from tugline.loop.asking import Asking
from tugline.loop.ledger import Ledger
from tugline.ports import Ids, Provider
from tugline.protocol.blocks import Text
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
        asking = Asking(self._provider, lambda card, usage: self._ledger.enter(card, usage, purpose))
        return (await asking.ask(request)).text
