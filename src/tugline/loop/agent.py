"""An agent: who it is, what it works with, and how its next request looks."""

from collections.abc import Callable

from msgspec import Struct, structs

from tugline.loop.cache_watch import CacheWatch
from tugline.loop.executor import Gear
from tugline.loop.ledger import Ledger
from tugline.ports import Briefing, Compactor, Ids, Provider, StopHook
from tugline.protocol.codec import encode
from tugline.protocol.errors import Failure
from tugline.protocol.records import Standing
from tugline.protocol.specs import Effort, ModelCard, ModelRequest, Purpose, Section, ToolSpec
from tugline.rules.filling import Filling, filling
from tugline.rules.history import from_state


class AgentSpec(Struct, frozen=True, kw_only=True):
    """What an agent is told and may spend; the same for its whole life."""

    system: tuple[Section, ...] = ()
    purpose: Purpose = "main"
    max_steps: int | None = None
    max_cost_usd: float | None = None
    thinking_tokens: int = 0
    effort: Effort | None = None
    max_output_tokens: int | None = None


ToolSpecs = Callable[[frozenset[str]], tuple[ToolSpec, ...]]
"""The tools' descriptions for a request, given which deferred tools are loaded; the order never changes."""


ResolveModel = Callable[[str, int], str]
"""The model that a name stands for now, given the tokens in the context; asked before each request."""


class Agent:
    """One agent and its ports. Its conversation is written by its turns only."""

    def __init__(
        self,
        spec: AgentSpec,
        *,
        model: str,
        provider: Provider,
        gear: Gear,
        specs: ToolSpecs,
        ids: Ids,
        ledger: Ledger,
        stop_hook: StopHook | None = None,
        compactor: Compactor | None = None,
        briefing: Briefing | None = None,
        resolve: ResolveModel = lambda model, tokens: model,
    ) -> None:
        self.spec = spec
        self.model = model
        self.provider = provider
        self.gear = gear
        self.ids = ids
        self.ledger = ledger
        self.stop_hook = stop_hook
        self.compactor = compactor
        self.briefing = briefing
        self.resolve = resolve
        self.watch = CacheWatch()
        self._specs = specs
        self._system = tuple(section.text for section in spec.system)
        schemas = encode([tool.input_schema for tool in specs(frozenset())])
        gear.transcript.weigh_fixed(sum(map(len, self._system)) + len(schemas))

    def standing(self) -> Standing:
        """Where it stands, for a reader who does not go back further."""
        transcript = self.gear.transcript
        return structs.replace(
            from_state(self.gear.state.now),
            title=transcript.title,
            models=dict(self.ledger.models),
            compactions=transcript.compactions,
            queued=tuple(transcript.queued.values()),
            tasks=tuple(transcript.tasks.values()),
        )

    def filling(self) -> Filling:
        """What fills its context now."""
        transcript = self.gear.transcript
        model = self.resolve(self.model, transcript.gauge.tokens())
        specs = self._specs(self.gear.state.now.loaded_tools)
        return filling(self.spec.system, specs, transcript.messages, transcript.gauge, self.card(model))

    def card(self, model: str) -> ModelCard:
        """What is known of a model."""
        return self.provider.card(model)

    def request(self, model: str, *, step: str, max_output_tokens: int | None) -> ModelRequest:
        """The next request. Its prefix is that of the one before."""
        origin = self.gear.voice.origin
        return ModelRequest(
            model=model,
            messages=self.gear.transcript.messages,
            system=self._system,
            tools=self._specs(self.gear.state.now.loaded_tools),
            purpose=self.spec.purpose,
            max_output_tokens=max_output_tokens or self.spec.max_output_tokens,
            thinking_tokens=self.spec.thinking_tokens,
            effort=self.spec.effort,
            session=origin.session,
            agent=origin.agent,
            step=step,
        )


def window_failure(tokens: int, card: ModelCard) -> Failure:
    """The conversation does not fit."""
    return Failure(
        "prompt_too_long",
        f"The conversation (about {tokens} tokens) no longer fits the window of {card.name} ({card.window}). "
        "Shrink it with /compact, or begin anew with /clear.",
    )
