"""Asks the model for a summary of an agent's conversation."""

from collections.abc import Sequence

from msgspec import structs

from tugline.loop.agent import Agent
from tugline.loop.asking import Asking
from tugline.protocol.chunks import AttemptFailed
from tugline.protocol.errors import Failure, ProviderError, SessionError
from tugline.protocol.events import RetryWaiting, UsageReported
from tugline.protocol.messages import Message
from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Usage
from tugline.rules import summary, tokens

PURPOSE = "compaction"
SHORTENINGS = 4
"""How often a request that is too long itself is tried again with less."""
SHARE_LEFT = 0.7
"""What is kept of it each time."""


class Summarising:
    """Requests for summaries. Each is that of the agent's next step with another end, so that all before it is found in
    the prompt cache."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def ask(self, messages: Sequence[Message], asked: str, card: ModelCard, room: int | None) -> str:
        """The summary of these messages; `room`: characters that they may have, where that is known to be too much. One
        that the provider finds too long is tried again without its oldest rounds. Raises `ProviderError`, or
        `SessionError` where the answer is no summary."""
        left = SHORTENINGS
        while True:
            kept, gone = (messages, []) if room is None else summary.without_oldest(messages, room)
            try:
                return await self._request(summary.left_out(self._agent.ids.message(), kept, len(gone)), asked, card)
            except ProviderError as error:
                size = summary.characters(kept)
                room = int((size if room is None else min(room, size)) * SHARE_LEFT)
                least = len(summary.without_oldest(messages, room)[1]) == len(gone)
                if error.failure.kind != "prompt_too_long" or least or not left:
                    raise
                left -= 1

    async def _request(self, messages: Sequence[Message], asked: str, card: ModelCard) -> str:
        agent = self._agent
        limit = min(card.output_limit, agent.spec.thinking_tokens + tokens.reserve(card))
        request = agent.request(card.name, step=agent.ids.new(PURPOSE), max_output_tokens=limit)
        request = structs.replace(request, messages=messages, tail=asked, purpose=PURPOSE)
        answer = await Asking(agent.provider, self._book, self._say_waiting).ask(request)
        if answer.stop == "context_exceeded":
            raise ProviderError(Failure("prompt_too_long", "The window is full."))
        if answer.stop == "refusal":
            raise SessionError("the model refused.")
        text = summary.read_reply(answer.text)
        if not text:
            raise SessionError("the model gave no summary.")
        return f"{text}\n[The summary was cut off here.]" if answer.stop == "max_tokens" else text

    def _say_waiting(self, chunk: AttemptFailed) -> None:
        self._agent.gear.voice.say(
            RetryWaiting, failure=chunk.failure, attempt=chunk.attempt, limit=chunk.limit, delay=chunk.delay
        )

    def _book(self, card: ModelCard, usage: Usage) -> None:
        agent = self._agent
        spend = agent.ledger.enter(card, usage, PURPOSE)
        agent.gear.voice.say(
            UsageReported,
            model=card.name,
            purpose=PURPOSE,
            usage=usage,
            cost_usd=spend.cost_usd,
            total_cost_usd=agent.ledger.total().cost_usd,
            context_tokens=agent.gear.transcript.gauge.tokens(),
        )
