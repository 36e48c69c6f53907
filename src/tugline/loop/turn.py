"""A turn: steps until rest. Every way it ends leaves a conversation that a provider accepts."""

import traceback
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio
from msgspec import Struct, structs

from tugline.loop.agent import Agent, window_failure
from tugline.loop.executor import innermost, is_cancelled
from tugline.loop.inbox import Letter
from tugline.loop.step import Step
from tugline.protocol.blocks import Text
from tugline.protocol.errors import Failure, SessionError, TuglineError
from tugline.protocol.events import (
    Crashed,
    EndReason,
    LimitReached,
    ModelChanged,
    Notice,
    RequestStarted,
    TurnFinished,
    TurnStarted,
    UsageReported,
    UserAdded,
)
from tugline.protocol.messages import Source, User
from tugline.protocol.specs import ModelCard
from tugline.protocol.usage import Spend, Usage
from tugline.rules import tokens, wording
from tugline.rules.cache import marks
from tugline.rules.price import difference
from tugline.rules.turn import RESTING, STOP_HOOK_LIMIT, Tally, after_reply, endings

SHRINKS = 200
"""How many ways of shrinking may be tried before one request: each finished stretch is folded by itself."""
SAVE_LIMIT = 5.0
"""Seconds that the last records of a turn may take to reach the disk."""


class Ending(Struct, frozen=True):
    """Why a turn came to rest."""

    reason: EndReason
    message: str = ""
    failure: Failure | None = None
    also: tuple[EndReason, ...] = ()


Prepare = Callable[[User], Awaitable[User]]
"""What a prompt becomes before it is recorded: with the files that it mentions. Raises `PromptRefused`."""


class PromptRefused(Exception):
    """The prompt is not to be sent, nor recorded; the text says why."""


class Turn:
    """From one prompt to rest."""

    def __init__(self, agent: Agent, prompt: User, prepare: Prepare | None = None) -> None:
        self._agent = agent
        self._prompt = prompt
        self._prepare = prepare
        self._recorded = False
        self._scope = anyio.CancelScope()
        self._step: Step | None = None
        self._model = ""
        self._fallback = ""
        self._steps = 0
        self._cuts = 0
        self._hook_blocks = 0
        self._forced = False
        self._raised_output: int | None = None
        self._api_seconds = 0.0
        self._began = 0.0
        self._before = Spend()
        self._denials: list[dict[str, Any]] = []
        self._stop = ""
        self._text = ""
        self._carried = ""
        self._during: Literal["", "request", "tools"] = ""

    def interrupt(self) -> None:
        """End the turn at its next await; running calls are cancelled and get a result."""
        self._scope.cancel()

    async def run(self) -> TurnFinished:
        """Work until rest; the event that says how it ended has been published."""
        voice = self._agent.gear.voice
        voice.origin = structs.replace(voice.origin, chain=self._agent.ids.new("chain"))
        self._began = self._agent.gear.clock.monotonic()
        self._before = self._agent.ledger.total()
        ending: Ending | None = None
        try:
            with self._scope:
                ending = await self._work()
        except anyio.get_cancelled_exc_class():
            self._break_off()
            finished = self._finish(Ending("interrupted"))
            if is_cancelled():
                raise
            return finished  # a hook of the user's has cancelled itself
        if ending is None:
            self._break_off()
            ending = Ending("interrupted", "Interrupted by the user.")
        finished = self._finish(ending)
        with anyio.move_on_after(SAVE_LIMIT, shield=True):
            await self._save_rest()
        return finished

    def crash(self, error: Exception) -> TurnFinished:
        """After `run` has raised: the conversation is made valid again, and the end is told."""
        cause = innermost(error)
        text = f"{type(cause).__name__}: {cause}"[:2_000]
        if isinstance(cause, TuglineError):
            message = str(cause)
        else:
            trace = "".join(traceback.format_exception(error))[-20_000:]
            self._agent.gear.voice.say(Crashed, where="turn", error=text, traceback=trace)
            message = f"An unexpected error ended the turn: {text}. Run again with --debug for the traceback."
        self._record_prompt()
        if self._step is not None:
            self._step.give_up()
            self._close_step()
        return self._finish(Ending("failed", message))

    # -- the way of a turn

    async def _work(self) -> Ending:
        try:
            if self._agent.briefing is not None:
                await self._agent.briefing.give()
            if self._prepare is not None:
                try:
                    self._prompt = await self._prepare(self._prompt)
                except PromptRefused as refused:
                    self._recorded = True
                    self._agent.gear.transcript.withdraw(self._prompt.id)
                    return Ending("hook_stopped", str(refused))
            self._record_prompt()
            await self._agent.gear.transcript.durable()
            self._agent.gear.voice.say(TurnStarted, message=self._prompt)
            while True:
                ending = await self._one_step()
                if ending is not None:
                    return ending
        except SessionError as error:
            self._close_step()
            return Ending("failed", str(error))

    async def _one_step(self) -> Ending | None:
        agent, transcript = self._agent, self._agent.gear.transcript
        self._deliver_letters()
        card = self._choose_model()
        await self._shrink(card, force=False)
        if agent.briefing is not None:
            agent.briefing.recall()
        size = transcript.gauge.tokens()
        if size >= tokens.blocking_limit(card):
            failure = window_failure(size, card)
            return Ending("prompt_too_long", failure.message, failure)
        await transcript.durable()
        name = f"{self._prompt.id}/{self._steps}/{self._cuts}"
        request = agent.request(self._model, step=name, max_output_tokens=self._raised_output)
        agent.gear.voice.say(
            RequestStarted, step=self._steps + 1, model=self._model, purpose=request.purpose, context_tokens=size
        )
        agent.watch.sent(
            marks(
                request, agent.spec.system, epoch=transcript.epoch, change=transcript.change,
                time=agent.gear.clock.monotonic(),
            )
        )  # fmt: skip
        step = self._step = Step(agent.provider, agent.gear, agent.ids, card)
        await step.run(request)
        self._api_seconds += step.seconds
        if step.model_switch is not None:
            # a fallback serves until the turn ends; the next one begins with the chosen model
            self._model = self._fallback = step.model_switch.after
            self._raised_output = None
        self._account(step)
        if step.error is not None:
            return await self._after_error(step.error.failure, step.card)
        return await self._after_reply(step)

    async def _after_error(self, failure: Failure, card: ModelCard) -> Ending | None:
        self._step = None
        if failure.kind == "prompt_too_long":
            if not self._forced:
                self._forced = True
                if await self._shrink(card, force=True):
                    return None
            size = self._agent.gear.transcript.gauge.tokens()
            if size >= tokens.blocking_limit(card):
                failure = window_failure(size, card)
            else:
                # the provider counts otherwise than we do: its own words say how
                message = f"{failure.message.rstrip('.')}. Shrink it with /compact, or begin anew with /clear."
                failure = structs.replace(failure, message=message)
            return Ending("prompt_too_long", failure.message, failure)
        if failure.kind == "refusal":
            return Ending("refused", failure.message, failure)
        return Ending("api_error", failure.message, failure)

    async def _after_reply(self, step: Step) -> Ending | None:
        reply = step.reply
        assert reply is not None
        self._stop = reply.stop
        texts = [block.text for block in reply.content if isinstance(block, Text)]
        self._text = self._carried + "".join(texts)
        self._carried = ""
        results = step.results()
        action = after_reply(reply.stop, calls=len(results), cuts=self._cuts)
        if action in ("continue_cut", "resume_pause"):
            self._carried = self._text
        else:
            self._steps += 1
        self._close_step()
        match action:
            case "run_calls":
                self._cuts = 0
                await self._settle_batch(step)
                return self._check_limits(step)
            case "continue_cut":
                self._cuts += 1
                self._raise_output(step.card)
                self._add(wording.CONTINUE_CUT, hidden=True)
                return self._check_limits(step)
            case "stand_cut":
                self._say_notice("The reply was cut off at the output limit several times and stands as it is.")
                return Ending("completed")
            case "resume_pause":
                self._cuts += 1
                return self._check_limits(step)
            case "refused":
                failure = Failure("refusal", "The model refused to answer. Put the request in other words.")
                return Ending("refused", failure.message, failure)
            case "window_full":
                return await self._after_error(Failure("prompt_too_long", "The window is full."), step.card)
        return await self._rest(step)

    async def _settle_batch(self, step: Step) -> None:
        """All calls of the reply have their results: what hooks have to say of them."""
        if step.executor is None or step.executor.stop is not None:
            return
        after = await self._agent.gear.gate.batch()
        for words in after.context:
            self._agent.gear.inbox.put(Letter((Text(wording.reminder(words)),), hidden=True))
        if after.stop is not None:
            step.executor.end_turn(after.stop)

    async def _rest(self, step: Step) -> Ending | None:
        """The reply asks for no tool: the end, unless a stop hook has a reason to go on."""
        if self._stop not in RESTING:
            self._say_notice(f"The reply ended for a reason that is not known here: {self._stop[:100]}.")
        elif not self._text.strip():
            self._say_notice("The model ended its reply without a word.")
        hook = self._agent.stop_hook
        if hook is None:
            return Ending("completed")
        reason = await hook.on_stop(self._text, self._hook_blocks > 0)
        if reason is None:
            return Ending("completed")
        if self._hook_blocks >= STOP_HOOK_LIMIT:
            self._say_notice(f"Stop hooks blocked {STOP_HOOK_LIMIT} times in a row; the turn ends all the same.")
            return Ending("completed")
        self._hook_blocks += 1
        self._add(reason)
        return self._check_limits(step)

    # -- what stands between steps

    def _choose_model(self) -> ModelCard:
        """The model of the next request, found anew each time; a change is told."""
        agent = self._agent
        model = self._fallback or agent.resolve(agent.model, agent.gear.transcript.gauge.tokens())
        if self._model and model != self._model:
            agent.gear.voice.say(ModelChanged, before=self._model, after=model, reason="resolved anew")
            self._raised_output = None
        self._model = model
        return agent.card(model)

    def _check_limits(self, step: Step) -> Ending | None:
        """Whether something ends the turn although another request would follow."""
        agent, executor = self._agent, step.executor
        spec = agent.spec
        tally = Tally(
            hook_stop=executor is not None and executor.stop is not None and not executor.stopped_by_denial,
            denied_stop=executor is not None and executor.stop is not None and executor.stopped_by_denial,
            cost_usd=agent.ledger.total().cost_usd - agent.ledger.brought,
            max_cost_usd=spec.max_cost_usd,
            steps=self._steps,
            max_steps=spec.max_steps,
        )
        found = endings(tally)
        if not found:
            return None
        reason, also = found[0], found[1:]
        message = (executor.stop or "") if executor is not None else ""
        if reason == "max_steps" and spec.max_steps is not None:
            agent.gear.voice.say(LimitReached, kind="max_steps", limit=spec.max_steps, count=self._steps)
            message = f"Reached the limit of {spec.max_steps} turns (--max-turns); the work may be unfinished."
        if reason == "max_budget" and spec.max_cost_usd is not None:
            agent.gear.voice.say(LimitReached, kind="max_budget", limit=spec.max_cost_usd, count=tally.cost_usd)
            message = f"Reached the budget of ${spec.max_cost_usd:g} (--max-budget-usd): spent ${tally.cost_usd:.4f}."
        return Ending(reason, message, None, also)

    def _deliver_letters(self) -> None:
        for letter in self._agent.gear.inbox.drain():
            message = User(letter.id or self._agent.ids.message(), letter.content, letter.source, letter.hidden)
            self._agent.gear.transcript.add(message)
            self._agent.gear.voice.say(UserAdded, message=message)

    async def _shrink(self, card: ModelCard, *, force: bool) -> bool:
        compactor, transcript = self._agent.compactor, self._agent.gear.transcript
        if compactor is None:
            return False
        shrunk = False
        for _ in range(SHRINKS):
            size = transcript.gauge.tokens()
            shrink = await compactor.before_step(transcript.messages, size, card, force=force and not shrunk)
            if shrink is None:
                break
            await self._agent.shrink(shrink)
            shrunk = True
        return shrunk

    def _raise_output(self, card: ModelCard) -> None:
        ceiling = max(card.output_ceiling, card.output_limit)
        now = self._raised_output or self._agent.spec.max_output_tokens or card.output_limit
        if ceiling > now:
            self._raised_output = ceiling

    def _account(self, step: Step) -> None:
        for card, usage in step.lost:
            self._agent.ledger.enter(card, usage, self._agent.spec.purpose)
        step.lost.clear()
        reply = step.reply
        if reply is None or reply.usage == Usage():
            return
        miss = self._agent.watch.answered(reply.usage)
        spend = self._agent.ledger.enter(step.card, reply.usage, self._agent.spec.purpose, miss)
        self._agent.gear.voice.say(
            UsageReported,
            model=step.card.name,
            purpose=self._agent.spec.purpose,
            usage=reply.usage,
            cost_usd=spend.cost_usd,
            total_cost_usd=self._agent.ledger.total().cost_usd,
            context_tokens=self._agent.gear.transcript.gauge.tokens(),
            cache_miss=miss,
        )

    def _add(self, text: str, *, source: Source = "loop", hidden: bool = False) -> None:
        message = User(self._agent.ids.message(), (Text(text),), source, hidden)
        self._agent.gear.transcript.add(message)
        self._agent.gear.voice.say(UserAdded, message=message)

    def _say_notice(self, text: str) -> None:
        self._agent.gear.voice.say(Notice, level="warning", text=text)

    # -- ends

    def _close_step(self) -> None:
        """The results of the step's calls take their place: one message after the reply."""
        step, self._step = self._step, None
        if step is None:
            return
        if step.executor is not None:
            self._denials.extend(step.executor.denials)
        results = step.results()
        if results:
            message = User(self._agent.ids.message(), results, "results")
            self._agent.gear.transcript.add(message)

    def _record_prompt(self) -> None:
        if not self._recorded:
            self._recorded = True
            self._deliver_letters()
            self._agent.gear.transcript.add(self._prompt)

    def _break_off(self) -> None:
        self._record_prompt()
        step = self._step
        if step is None:
            self._during = self._during or "request"
        else:
            self._during = "request" if step.streaming else "tools"
            self._steps += not step.streaming
            self._api_seconds += step.seconds
            step.break_off()
            self._account(step)
            self._close_step()
        text = wording.INTERRUPTED_TOOLS if self._during == "tools" else wording.INTERRUPTED_REQUEST
        self._add(text)

    def _finish(self, ending: Ending) -> TurnFinished:
        agent = self._agent
        total = agent.ledger.total()
        agent.gear.transcript.turn_ended(ending.reason, self._steps, total.cost_usd, dict(agent.ledger.models))
        if agent.gear.transcript.trouble not in ("", ending.message):
            agent.gear.voice.say(Notice, level="error", text=agent.gear.transcript.trouble)
        finished = TurnFinished(
            seq=agent.gear.voice.number(),
            origin=agent.gear.voice.origin,
            reason=ending.reason,
            text=self._text if ending.reason == "completed" else "",
            steps=self._steps,
            spend=difference(total, self._before),
            models=dict(agent.ledger.models),
            total_cost_usd=total.cost_usd,
            duration=agent.gear.clock.monotonic() - self._began,
            api_duration=self._api_seconds,
            failure=ending.failure,
            message=ending.message,
            interrupted_during=self._during,
            stop=self._stop,
            also=ending.also,
            prompt=self._prompt.id,
            denials=tuple(self._denials),
        )
        agent.gear.voice.publish(finished)
        return finished

    async def _save_rest(self) -> None:
        try:
            await self._agent.gear.transcript.durable()
        except SessionError as error:
            if self._agent.gear.transcript.trouble:
                return  # told already
            self._agent.gear.voice.say(Notice, level="error", text=str(error))
