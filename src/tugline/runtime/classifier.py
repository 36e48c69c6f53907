"""The mode auto: a small model decides what a person would be asked about."""

from collections.abc import Callable, Sequence

import anyio

from tugline.loop.voice import Voice
from tugline.ports import SideModel
from tugline.protocol.errors import TuglineError
from tugline.protocol.events import Notice
from tugline.protocol.messages import Message
from tugline.protocol.permissions import Allow, Deny, PermissionAnswer, PermissionQuestion
from tugline.rules import classify
from tugline.rules.classify import Denials
from tugline.rules.permission import Query


class Classifier:
    """Answers questions by a model that sees the person's words and the call, and nothing that a tool has said.

    `small` names another model than the usual one for errands. No answer in time, or none that can be read, is no
    opinion: then a person is asked. So is one after `in_row` denials in a row or `total` in all, until the person
    allows something.
    """

    name = "the classifier of the mode auto"

    def __init__(
        self,
        model: SideModel,
        messages: Callable[[], Sequence[Message]],
        voice: Voice,
        *,
        small: str = "",
        seconds: float,
        in_row: int,
        total: int,
    ) -> None:
        self._model = model
        self._small = small
        self._messages = messages
        self._voice = voice
        self._seconds = seconds
        self._in_row = in_row
        self._total = total
        self._denials = Denials()

    async def respond(self, question: PermissionQuestion, query: Query) -> PermissionAnswer | None:
        """Its ruling on the call; `None`: it has none."""
        if self._denials.too_many(self._in_row, self._total):
            return None
        prompt = classify.prompt(classify.persons_words(self._messages()), question.tool, question.input)
        if prompt is None:
            return None
        answer = ""
        try:
            with anyio.move_on_after(self._seconds):
                answer = await self._model.complete(prompt, purpose="classifier", model=self._small)
        except TuglineError as error:
            self._voice.say(Notice, level="warning", text=f"The classifier gave no answer: {error}")
            return None
        ruling = classify.read_ruling(answer)
        if ruling is None:
            return None
        self._denials = self._denials.after(ruling)
        if ruling.allowed:
            return Allow()
        if self._denials.too_many(self._in_row, self._total):
            text = f"The mode auto has denied {self._denials.in_row} calls in a row ({self._denials.total} in all)."
            self._voice.say(Notice, level="warning", text=f"{text} What follows is asked about.")
        return Deny(ruling.reason or "it does not plainly serve what was asked for")

    def allowed_by_person(self) -> None:
        """The person has allowed a call: the count begins anew."""
        self._denials = Denials()
