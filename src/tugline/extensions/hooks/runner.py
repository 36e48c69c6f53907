"""Runs the hooks of an event side by side and folds what they say. Nothing that a hook does ends a session."""

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from tugline.ports import Clock, Ids, Spill
from tugline.protocol.codec import encode
from tugline.protocol.errors import SessionError
from tugline.protocol.events import Crashed, Event, HookFinished, HookStarted, Notice
from tugline.protocol.hooks import NOTHING, Hook, HookOutput, HookReply, Outcome
from tugline.protocol.specs import Mode
from tugline.rules import wording
from tugline.rules.hook_events import BLOCKABLE, MATCHED
from tugline.rules.hook_matching import chosen
from tugline.rules.hook_replies import read_reply
from tugline.rules.hooks import fold
from tugline.rules.permission import Query

TEXT_LIMIT = 10_000
"""Characters of one text of a hook's; what is longer goes to a file, and its beginning stands for it."""
_SHOWN = 2_000
_FIELD_LIMIT = 100_000
"""Characters of what a hook printed that its event carries."""


class Performer(Protocol):
    """Runs hooks of one kind."""

    async def perform(self, hook: Hook, given: "Given") -> HookReply:
        """Run it. What it raises counts as the hook's failure; it is cancelled when its time is over."""
        ...


class Given(Struct, frozen=True):
    """What a hook is told: as plain data, and as the JSON that it reads."""

    event: str
    data: Mapping[str, Any]
    json: bytes
    cwd: str


class Voice(Protocol):
    """Says events."""

    def say(self, kind: type[Event], /, **fields: Any) -> None: ...


class Scene(Struct, frozen=True, eq=False, kw_only=True):
    """Where hooks run, and whose they are. `fits` says whether a permission rule speaks of a call."""

    session: Callable[[], str]
    transcript: Callable[[], str]
    cwd: Callable[[], str]
    mode: Callable[[], Mode]
    fits: Callable[[str, Query], bool] = lambda rule, query: True
    agent: str = ""
    agent_type: str = ""


class Limits(Struct, frozen=True, kw_only=True):
    """Seconds for hooks that do not say so themselves."""

    command: float = 600.0
    agent: float = 60.0
    callback: float = 60.0
    prompt: float = 30.0
    user_prompt_submit: float = 30.0
    session_end: float = 1.5

    def of(self, hook: Hook) -> float:
        """Seconds until this hook is ended."""
        if hook.timeout is not None:
            return hook.timeout
        if hook.event == "SessionEnd":
            return self.session_end
        kinds = {"prompt": self.prompt, "agent": self.agent, "callback": self.callback}
        usual = kinds.get(hook.kind, self.command)
        return min(usual, self.user_prompt_submit) if hook.event == "UserPromptSubmit" else usual


class Hooks:
    """The hooks of one session."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        performers: Mapping[str, Performer],
        scene: Scene,
        *,
        voice: Voice,
        spill: Spill,
        clock: Clock,
        ids: Ids,
        limits: Limits,
    ) -> None:
        self.all = tuple(hooks)
        self._by_event: dict[str, list[Hook]] = {}
        for hook in hooks:
            self._by_event.setdefault(hook.event, []).append(hook)
        self._performers = performers
        self._scene = scene
        self._voice = voice
        self._spill = spill
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._tasks: TaskGroup | None = None
        self._wake: Callable[[str], None] = lambda text: None
        self._done: set[int] = set()
        self._later: list[str] = []
        self._stop: str | None = None
        self._running = 0
        self._ended = anyio.Event()
        self.prompt = ""
        """The id of the prompt that is worked on."""

    def begin(self, tasks: TaskGroup, wake: Callable[[str], None]) -> None:
        """Hooks beside the turn run in these tasks; `wake` tells the model something at once."""
        self._tasks, self._wake = tasks, wake

    async def settle(self) -> None:
        """The session is about to be closed: hooks beside the turn may come to their end, as long as those of the end
        may take. From here on none is beside anything."""
        with anyio.move_on_after(self._limits.session_end):
            while self._running:
                self._ended = anyio.Event()
                await self._ended.wait()
        self._tasks = None

    def wants(self, event: str) -> bool:
        """Whether any hook is configured for the event."""
        return event in self._by_event

    @property
    def cwd(self) -> str:
        """Where the agent is now."""
        return self._scene.cwd()

    def matchers(self, event: str) -> tuple[str, ...]:
        """What the event's hooks have as matchers."""
        return tuple(hook.matcher for hook in self._by_event.get(event, ()))

    def later(self) -> tuple[str, ...]:
        """What hooks beside the turn have left for the model, once."""
        found, self._later = tuple(self._later), []
        return found

    def stopped(self) -> str | None:
        """Why a hook beside the turn wants it to end, once."""
        found, self._stop = self._stop, None
        return found

    async def run(self, event: str, fields: Mapping[str, Any], query: Query | None = None) -> Outcome:
        """Run the event's hooks that match and give what they say together. Never raises."""
        listed = self._by_event.get(event)
        if not listed:
            return NOTHING
        subject = str(fields.get(MATCHED.get(event, ""), ""))
        fits = self._scene.fits
        hooks = chosen(listed, event, subject, lambda rule: query is None or fits(rule, query))
        hooks = tuple(hook for hook in hooks if id(hook) not in self._done)
        if not hooks:
            return NOTHING
        self._done.update(id(hook) for hook in hooks if hook.once)
        given = self._given(event, fields)
        said: list[HookOutput] = [HookOutput()] * len(hooks)
        noted: list[str] = [""] * len(hooks)
        async with anyio.create_task_group() as tasks:
            for index, hook in enumerate(hooks):
                if hook.background and self._tasks is not None:
                    self._running += 1
                    self._tasks.start_soon(self._beside, hook, given)
                else:
                    tasks.start_soon(self._into, hook, given, said, noted, index)
        outcome = fold(said, (note for note in noted if note))
        self._tell(outcome)
        return outcome

    def start(
        self,
        event: str,
        fields: Mapping[str, Any],
        then: Callable[[Outcome], Awaitable[None]] | None = None,
    ) -> None:
        """Run the event's hooks beside the turn; what they have for the model waits for its next request."""
        if self.wants(event) and self._tasks is not None:
            self._tasks.start_soon(self._run_beside, event, fields, then)

    async def _run_beside(
        self, event: str, fields: Mapping[str, Any], then: Callable[[Outcome], Awaitable[None]] | None
    ) -> None:
        outcome = await self.run(event, fields)
        self._later.extend(self.context(event, outcome))
        self._stop = self._stop or outcome.stop
        if then is not None:
            await then(outcome)

    def context(self, event: str, outcome: Outcome) -> tuple[str, ...]:
        """What the hooks of an event have for the model, fit for the conversation."""
        return tuple(f"{event} hook additional context: {self.fit(text)}" for text in outcome.context)

    def fit(self, text: str) -> str:
        """A hook's text for the model: not too long, and without tags that are the engine's."""
        text = wording.escape(text)
        if len(text) <= TEXT_LIMIT:
            return text
        try:
            where = f"the whole text of {len(text)} characters is in {self._spill.keep('hook', text)}"
        except SessionError as error:
            where = f"{len(text) - _SHOWN} more characters are lost: {error}"
        return f"{text[:_SHOWN]}\n[cut: {where}]"

    # -- one hook

    def _given(self, event: str, fields: Mapping[str, Any]) -> Given:
        scene = self._scene
        data: dict[str, Any] = {
            "session_id": scene.session(),
            "prompt_id": self.prompt,
            "transcript_path": scene.transcript(),
            "cwd": scene.cwd(),
            "permission_mode": scene.mode(),
            "hook_event_name": event,
        }
        if scene.agent:
            data |= {"agent_id": scene.agent, "agent_type": scene.agent_type}
        data |= fields
        return Given(event, data, encode(data), data["cwd"])

    async def _into(self, hook: Hook, given: Given, said: list[HookOutput], noted: list[str], index: int) -> None:
        said[index], noted[index], _ = await self._one(hook, given)

    async def _beside(self, hook: Hook, given: Given) -> None:
        """A hook that nobody waits for: what it has for the model is told later, or at once where it says so."""
        try:
            said, note, reply = await self._one(hook, given)
        finally:
            self._running -= 1
            self._ended.set()
        outcome = fold((said,), (note,) if note else ())
        self._tell(outcome)
        if hook.rewake and reply.status == 2 and not reply.failure:
            self._wake(self.fit(f"{hook.event} hook: {reply.stderr.strip() or reply.stdout.strip()}"))
        else:
            self._later.extend(self.context(hook.event, outcome))
            self._stop = self._stop or said.stop

    async def _one(self, hook: Hook, given: Given) -> tuple[HookOutput, str, HookReply]:
        name = f"{hook.event}:{given.data.get(MATCHED.get(hook.event, ''), '')}".rstrip(":")
        about = {"hook": self._ids.new("hook"), "name": name, "event": hook.event}
        self._voice.say(HookStarted, **about, status=wording.sound(hook.status))
        began = self._clock.monotonic()
        try:
            reply = await self._reply(hook, given)
        except anyio.get_cancelled_exc_class():
            self._voice.say(HookFinished, **about, outcome="cancelled", duration=self._clock.monotonic() - began)
            raise
        said, note = read_reply(hook.event, reply, block_on_failure=hook.block_on_failure)
        hidden = said.hide_output
        self._voice.say(
            HookFinished,
            **about,
            outcome=_outcome(hook, reply),
            stdout="" if hidden else wording.sound(reply.stdout)[:_FIELD_LIMIT],
            stderr=wording.sound(reply.stderr)[:_FIELD_LIMIT],
            exit_code=reply.status if hook.kind == "command" and not reply.failure else None,
            duration=self._clock.monotonic() - began,
        )
        return said, f"The hook {_short(hook.label)} of {hook.event}{_where(hook)}: {note}" if note else "", reply

    async def _reply(self, hook: Hook, given: Given) -> HookReply:
        limit = self._limits.of(hook)
        performer = self._performers.get(hook.kind)
        if performer is None:
            return HookReply(failure=f"hooks of type {hook.kind} cannot run here")
        with anyio.move_on_after(limit) as scope:
            try:
                return await performer.perform(hook, given)
            except Exception as error:  # hook boundary: whatever it does, the session goes on
                trace = "".join(traceback.format_exception(error))[-20_000:]
                said = f"{type(error).__name__}: {error}"[:2_000]
                self._voice.say(Crashed, where=f"hook {hook.event}", error=said, traceback=trace)
                return HookReply(failure=said)
        assert scope.cancelled_caught
        return HookReply(failure=f"it took longer than {limit:g} s and was ended", timed_out=True)

    def _tell(self, outcome: Outcome) -> None:
        """What is for the person."""
        for text in outcome.messages:
            self._voice.say(Notice, level="info", text=wording.sound(text)[:TEXT_LIMIT])
        for text in outcome.warnings:
            self._voice.say(Notice, level="warning", text=wording.sound(text)[:TEXT_LIMIT])


def _outcome(hook: Hook, reply: HookReply) -> str:
    if reply.timed_out:
        return "timeout"
    if reply.failure:
        return "error"
    if reply.status == 2 and hook.event in BLOCKABLE:
        return "blocking"
    return "error" if reply.status else "success"


def _where(hook: Hook) -> str:
    return f" ({hook.source})" if hook.source else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:77] + "..."
