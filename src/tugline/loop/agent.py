"""An agent: who it is, what it works with, and how its next request looks."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from tugline.loop.cache_watch import CacheWatch
from tugline.loop.executor import Gear
from tugline.loop.ledger import Ledger
from tugline.ports import Briefing, CompactionHooks, Compactor, Ids, Provider, Shrink, StopHook
from tugline.protocol.codec import encode
from tugline.protocol.errors import Failure
from tugline.protocol.events import CompactionFinished
from tugline.protocol.records import Compacted, Folded, Standing, Trimmed
from tugline.protocol.specs import Effort, ModelCard, ModelRequest, Purpose, Section, ToolSpec
from tugline.rules import tokens
from tugline.rules.compactions import summary_text
from tugline.rules.filling import Filling, filling
from tugline.rules.history import from_state
from tugline.rules.state import forget_views


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
        compaction_hooks: CompactionHooks | None = None,
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
        self.compaction_hooks = compaction_hooks
        self.briefing = briefing
        self.resolve = resolve
        self.watch = CacheWatch()
        self._specs = specs
        self._system = tuple(section.text for section in spec.system)
        tools = specs(frozenset())
        schemas = encode([tool.input_schema for tool in tools]).decode()
        told = sum(tokens.size_of(tool.description) for tool in tools)
        gear.transcript.weigh_fixed(sum(map(tokens.size_of, self._system)) + told + tokens.size_of(schemas))

    def standing(self) -> Standing:
        """Where it stands, for a reader who does not go back further."""
        transcript = self.gear.transcript
        return structs.replace(
            from_state(self.gear.state.now),
            title=transcript.title,
            models=dict(self.ledger.models),
            compactions=transcript.compactions,
            queued=tuple(transcript.queued.values()),
            ratio=round(transcript.gauge.ratio, 3),
            tasks=tuple(transcript.tasks.values()),
        )

    async def shrink(self, shrink: Shrink) -> None:
        """Show the model less of the history from now on."""
        transcript, state = self.gear.transcript, self.gear.state
        before = transcript.gauge.tokens()
        state.now = forget_views(state.now)
        match shrink:
            case Compacted(how=how, trigger=trigger, id=boundary):
                standing = structs.replace(self.standing(), compactions=transcript.compactions + 1)
                transcript.compact(structs.replace(shrink, standing=standing))
                self._say_shrunk(before, how=how, trigger=trigger, boundary=boundary)
                if self.compaction_hooks is not None:
                    hook_trigger = "manual" if trigger == "manual" else "auto"
                    await self.compaction_hooks.after_compaction(hook_trigger, summary_text(shrink.messages))
            case Trimmed(stubs=stubs, freed=freed):
                transcript.trim(stubs, freed)
                self._say_shrunk(before, how="trim", trigger="auto")
            case Folded():
                transcript.fold(shrink)
                self._say_shrunk(before, how="fold", trigger="auto")

    def _say_shrunk(self, before: int, **fields: Any) -> None:
        after = self.gear.transcript.gauge.tokens()
        self.gear.voice.say(CompactionFinished, tokens_before=before, tokens_after=after, **fields)

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
