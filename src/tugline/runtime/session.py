"""A session: commands in, events out, one turn at a time."""

import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Protocol, Self, get_args

import anyio
from anyio.abc import TaskGroup
from msgspec import structs

from tugline.loop.agent import Agent
from tugline.loop.inbox import Letter
from tugline.loop.turn import SAVE_LIMIT, Turn
from tugline.protocol.blocks import Document, Image, Text
from tugline.protocol.commands import (
    AddDirectory,
    Background,
    Clear,
    Command,
    Compact,
    Interrupt,
    Prompt,
    PromptContent,
    Rename,
    Reply,
    Rewind,
    RewindWhat,
    SetMode,
    SetModel,
    Snip,
    Steer,
    StopTask,
    Uncompact,
)
from tugline.protocol.errors import SessionError, TuglineError, UsageError
from tugline.protocol.events import (
    CommandAnswered,
    Crashed,
    EndReason,
    Event,
    ModelChanged,
    Notice,
    SessionRenamed,
    SessionStarted,
    TurnFinished,
)
from tugline.protocol.ids import MessageId, QuestionId, SessionId, TaskId
from tugline.protocol.messages import User
from tugline.protocol.permissions import Answer
from tugline.protocol.records import Compacted, Titled
from tugline.protocol.sessions import ExportFormat
from tugline.protocol.specs import FileStep, Mode
from tugline.protocol.tasks import Task
from tugline.protocol.trust import TrustAnswer, TrustQuestion
from tugline.protocol.usage import Spend
from tugline.rules import wording
from tugline.rules.costs import Costs
from tugline.rules.filling import Filling
from tugline.rules.history import Spoken
from tugline.runtime.attendant import Attendant, InquiryCallback, PermissionCallback, PlanCallback
from tugline.runtime.bus import Bus, Subscription
from tugline.runtime.copies import Copies
from tugline.runtime.interlude import Interlude, Outcome
from tugline.runtime.mentions import Mentions
from tugline.runtime.notes import Notes
from tugline.runtime.past import Past, Rewinding, RewindPreview
from tugline.runtime.questions import Questions
from tugline.runtime.session_commands import session_commands
from tugline.runtime.shortening import Shortening
from tugline.runtime.slash import SlashCommand, SlashCommands
from tugline.runtime.standing import Standing
from tugline.runtime.standing_commands import Place, standing_commands
from tugline.runtime.tasks import Tasks
from tugline.runtime.titles import Titles


class Occasions(Protocol):
    """Hears what happens to a session."""

    def begin(self, tasks: TaskGroup, wake: Callable[[str], None], rename: Callable[[str], Any]) -> None:
        """It is open. `wake` tells the model something that does not wait for a prompt."""
        ...

    async def prompt(self, prompt: User) -> None:
        """A turn is about to begin with this. Raises `PromptRefused`."""
        ...

    async def cleared(self) -> None:
        """The conversation begins anew."""
        ...

    async def branched(self) -> None:
        """It goes on in a copy, under a new id."""
        ...

    async def closing(self) -> None:
        """It is about to be closed; what runs is broken off behind this."""
        ...

    async def ended(self, reason: str) -> None:
        """It is closed, and nothing of it runs any more."""
        ...

    def hear(self, event: Event) -> None: ...


class Session:
    """One conversation. Enter it, send commands, hear events; leaving it ends what runs and closes the transcript."""

    def __init__(
        self,
        agent: Agent,
        bus: Bus,
        questions: Questions,
        *,
        started: Callable[[], SessionStarted],
        standing: Standing,
        notices: Sequence[str] = (),
        mentions: Mentions | None = None,
        past: Past,
        copies: Copies,
        notes: Notes,
        titles: Titles | None = None,
        shortening: Shortening,
        place: Place,
        tasks: Tasks,
        occasions: Occasions | None = None,
        list_hooks: Callable[[], str] = lambda: "There are no hooks.",
        title: str = "",
        resources: AsyncExitStack,
    ) -> None:
        self.agent = agent
        self.bus = bus
        self.questions = questions
        self._started = started
        self.standing = standing
        """Mode, rules and folders as they are now."""
        self._mentions = mentions
        self.notices = tuple(notices)
        """What the person should know at the start."""
        self.past = past
        self.secrets: tuple[str, ...] = ()
        """Values that no log may hold."""
        self.copies = copies
        self.notes = notes
        self._titles = titles
        self.shortening = shortening
        self.tasks = tasks
        self.occasions = occasions
        """What hooks hear of; `None` where there are none."""
        self.list_hooks = list_hooks
        """The configured hooks, as text for a person."""
        self._title = title
        self.place = place
        """What is known of the folder that it works in."""
        self.commands = SlashCommands([*session_commands(self), *standing_commands(self)])
        """What prompts that begin with `/` call."""
        self._resources = resources
        self._waiting: deque[User | Interlude[Any]] = deque()
        self._awaited: dict[MessageId, list[anyio.Event]] = {}
        self._endings: dict[MessageId, TurnFinished] = {}
        self._wake = anyio.Event()
        self._turn: Turn | Interlude[Any] | None = None
        self._current: MessageId | None = None
        self._group: TaskGroup | None = None
        self._letters_start = not agent.gear.inbox.rouses  # what an earlier process left waits for a prompt
        agent.gear.inbox.bell = self._ring
        self._closed = False
        self.wakes = True
        """Whether what happens beside the conversation begins a turn when none runs."""
        self.opening: SessionStarted | None = None
        """What the session began with; subscribers of later hours find it here."""

    async def __aenter__(self) -> Self:
        await self.tasks.__aenter__()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self.opening = self._started()
        self.bus.publish(self.opening)
        for text in self.notices:
            self.agent.gear.voice.say(Notice, level="warning", text=text)
        if self._title:
            self.rename(self._title)
        if self.occasions is not None:
            self.past.cleared = self.occasions.cleared
            self.copies.branched = self.occasions.branched
            self.bus.attach(self.occasions.hear)
            self.occasions.begin(self._group, self._tell_at_once, self.rename)
        self._group.start_soon(self._serve)
        if self.place.trust_question is not None:
            self._group.start_soon(self._ask_trust, self.place.trust_question)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        assert self._group is not None
        if self.occasions is not None:
            with anyio.CancelScope(shield=True):
                await self.occasions.closing()
        self._group.cancel_scope.cancel()
        try:
            try:
                await self._group.__aexit__(None, None, None)
            finally:
                await self.tasks.__aexit__(None, None, None)
            if self.occasions is not None:
                with anyio.CancelScope(shield=True):
                    await self.occasions.ended("other")
        finally:
            self.bus.close()
            for waiting in self._waiting:
                if isinstance(waiting, Interlude):
                    waiting.give_up()
            for waiters in self._awaited.values():
                for waiter in waiters:
                    waiter.set()
            with anyio.CancelScope(shield=True):
                await self._save_rest()
                await self._resources.aclose()

    async def _save_rest(self) -> None:
        """What a full disk did not take may fit by now."""
        with anyio.move_on_after(SAVE_LIMIT):
            try:
                await self.agent.gear.transcript.durable()
            except SessionError:
                pass  # told when it happened; closing cannot mend it

    def _tell_at_once(self, text: str) -> None:
        """Something beside the turn has words for the model that do not wait for a prompt."""
        self.agent.gear.inbox.put(Letter((Text(wording.reminder(text)),)), ring=True)

    def attend(
        self,
        *,
        permission: PermissionCallback | None,
        inquiry: InquiryCallback | None,
        plan: PlanCallback | None = None,
    ) -> None:
        """Let these callbacks answer what is asked."""
        assert self._group is not None, "attend() comes after entering the session"
        attendant = Attendant(
            self.questions, self.agent.gear.voice, self._group, permission=permission, inquiry=inquiry, plan=plan
        )
        self.bus.attach(attendant.hear)
        self.questions.attended = True

    async def _ask_trust(self, question: TrustQuestion) -> None:
        """Ask for as long as the session goes on; nothing waits for the answer."""
        await self.questions.trust(question)

    def _reply(self, question: QuestionId, answer: Answer) -> None:
        if self.questions.answer(question, answer) and isinstance(answer, TrustAnswer):
            self._settle_trust(answer)

    def _settle_trust(self, answer: TrustAnswer) -> None:
        try:
            self.place.settle_trust(answer)
        except TuglineError as error:
            self.agent.gear.voice.say(Notice, level="warning", text=f"The folder is not trusted: {error}")
        else:
            if answer.trusted:
                text = f"{self.place.project_root} is trusted. What was approved counts from the next session on."
                self.agent.gear.voice.say(Notice, level="info", text=text)

    # -- the past

    async def prompts(self) -> tuple[Spoken, ...]:
        """What the person said in this conversation, oldest first: what `rewind` can go back to."""
        return await self.between(self.past.prompts)

    async def rewind(self, prompt: MessageId, what: RewindWhat = "conversation", *, force: bool = False) -> Rewinding:
        """Go back to before these words of the person; they are returned. The transcript keeps what was."""
        return await self.between(lambda: self.past.rewind(prompt, what, force=force))

    async def rewind_preview(self, prompt: MessageId) -> RewindPreview:
        """What a rewind of files to before these words would do."""
        return await self.between(lambda: self.past.preview(prompt))

    async def undo_rewind(self, *, force: bool = False) -> tuple[FileStep, ...]:
        """Take the last rewind of files back."""
        return await self.between(lambda: self.past.undo_rewind(force=force))

    async def clear(self) -> None:
        """Begin the conversation anew."""
        await self.between(self.past.clear)

    async def compact(self, words: str = "") -> Compacted:
        """Put a summary in place of the conversation so far; `words` say what it is to keep."""
        return await self.between(lambda: self.shortening.compact(words))

    async def snip(self) -> Compacted:
        """Cut the oldest rounds of the conversation, without a summary."""
        return await self.between(self.shortening.snip)

    async def uncompact(self) -> str:
        """Bring back the history before the last summary or cut; returns what was done, in a line."""
        return await self.between(self.shortening.uncompact)

    def context(self) -> Filling:
        """What fills the context now."""
        return self.shortening.filling()

    async def costs(self) -> Costs:
        """What the session has cost so far, by model and purpose, with hits and misses of the prompt cache."""
        return await self.past.costs()

    async def export(self, path: str | None = None, form: ExportFormat | None = None) -> str:
        """Write the conversation as one document; returns its path."""
        return await self.between(lambda: self.copies.export(path, form))

    async def branch(self) -> SessionId:
        """Go on in a copy, under a new id, which is returned; what was up to here stays as it is."""
        return await self.between(self.copies.branch)

    async def note(self, text: str) -> str:
        """Add a line to the project's file of instructions; returns its path."""
        return await self.between(lambda: self.notes.add(text))

    def rename(self, title: str) -> str:
        """Give the session a name; returns it as it is kept."""
        name = wording.session_name(title)
        self.agent.gear.transcript.rename(Titled(title=name))
        self.agent.gear.voice.say(SessionRenamed, title=name)
        return name

    # -- work beside the conversation

    def background(self, task: TaskId | None = None) -> tuple[Task, ...]:
        """Stop waiting for what runs in the foreground, or for that task; which those were. The work goes on."""
        return self.tasks.table.release(task)

    async def stop_task(self, task: TaskId) -> Task:
        """End a task; the model is told."""
        self._require_task(task)
        return await self.tasks.end(task)

    def _require_task(self, task: TaskId) -> None:
        if self.tasks.find(task) is None:
            raise UsageError(f"There is no task {task}.")

    def _ring(self) -> None:
        if self.wakes:
            self._letters_start = True
            self._wake.set()

    # -- commands

    def send(self, command: Command) -> None:
        """Ask the session to do something; never waits. What comes of it is told as events."""
        if self._closed:
            raise SessionError("The session is closed.")
        match command:
            case Prompt(content, given):
                prompt = User(given or self.agent.ids.message(), as_content(content))
                if self.busy:
                    self.agent.gear.transcript.queue(prompt)
                self._take_up(prompt)
            case Steer(content):
                words = User(self.agent.ids.message(), as_content(content), "letter")
                if self.busy:
                    self.agent.gear.transcript.queue(words)
                self.agent.gear.inbox.put(Letter(as_content(content), id=words.id), ring=True)
            case Interrupt():
                self.interrupt()
            case Reply(question, answer):
                self._reply(question, answer)
            case Rewind() | Clear() | Compact() | Snip() | Uncompact():
                self._take_up(self._told(self._work_of(command)))
            case _:
                self._change(command)

    def _change(self, command: SetMode | AddDirectory | SetModel | Rename | Background | StopTask) -> None:
        """What takes effect at once, also in a running turn."""
        match command:
            case Background(task):
                self.background(task)
            case StopTask(task):
                self._require_task(task)
                assert self._group is not None
                self._group.start_soon(self.stop_task, task)
            case SetMode(mode):
                if mode not in get_args(Mode):
                    raise UsageError(f"The mode must be one of {', '.join(get_args(Mode))}, not {mode!r}.")
                self.standing.set_mode(mode)
            case AddDirectory(path):
                self.standing.add_directory(path)
            case SetModel(model):
                before, self.agent.model = self.agent.model, model
                self.agent.gear.voice.say(ModelChanged, before=before, after=model, reason="chosen")
            case Rename(title):
                self.rename(title)
            case _:
                raise UsageError(f"A session takes commands such as Prompt or Interrupt, not {type(command).__name__}.")

    def interrupt(self) -> bool:
        """End the running turn, if there is one."""
        if self._turn is None:
            return False
        self._turn.interrupt()
        return True

    @property
    def busy(self) -> bool:
        """Whether a turn runs or waits to run."""
        return self._turn is not None or bool(self._waiting)

    def subscribe(self, limit: int | None = None) -> Subscription:
        """Hear every event from now on."""
        return self.bus.subscribe() if limit is None else self.bus.subscribe(limit)

    async def run(self, prompt: str | PromptContent) -> TurnFinished:
        """Send a prompt and wait for the end of its turn. If the wait is cancelled, the turn is interrupted."""
        message = self.agent.ids.message()
        done = anyio.Event()
        self._awaited.setdefault(message, []).append(done)
        try:
            self.send(Prompt(as_content(prompt), message))
            await done.wait()
            if message not in self._endings:
                raise SessionError("The session was closed before the turn was at rest.")
            return self._endings[message]
        except anyio.get_cancelled_exc_class():
            self.withdraw(message)
            raise
        finally:
            self._awaited.pop(message, None)
            self._endings.pop(message, None)

    def prompt(self, prompt: str | PromptContent) -> MessageId:
        """Send a prompt; returns the id that its `TurnFinished` will carry."""
        message = self.agent.ids.message()
        self.send(Prompt(as_content(prompt), message))
        return message

    def withdraw(self, message: MessageId) -> None:
        """Take a prompt back: it is not begun, or its turn is interrupted."""
        for waiting in self._waiting:
            if isinstance(waiting, User) and waiting.id == message:
                self._waiting.remove(waiting)
                self.agent.gear.transcript.withdraw(message)
                return
        if self._current == message:
            self.interrupt()

    async def between(self, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Do this while no turn runs, in its place behind what waits already; what came of it. If the wait is
        cancelled, it is interrupted."""
        if self._closed:
            raise SessionError("The session is closed.")
        interlude = Interlude(work)
        self._take_up(interlude)
        try:
            return await interlude.outcome()
        except anyio.get_cancelled_exc_class():
            interlude.interrupt()
            raise

    # -- turns

    def _take_up(self, next_one: User | Interlude[Any]) -> None:
        self._waiting.append(next_one)
        self._wake.set()

    def _work_of(self, command: Rewind | Clear | Compact | Snip | Uncompact) -> Callable[[], Awaitable[object]]:
        match command:
            case Rewind(prompt, what, force):
                return lambda: self.past.rewind(prompt, what, force=force)
            case Clear():
                return self.past.clear
            case Compact(words):
                return lambda: self.shortening.compact(words)
            case Snip():
                return self.shortening.snip
            case Uncompact():
                return self.shortening.uncompact

    def _told(self, work: Callable[[], Awaitable[object]]) -> Interlude[None]:
        """Work that nobody waits for: why nothing came of it is a notice."""

        async def run() -> None:
            try:
                await work()
            except TuglineError as error:
                self.agent.gear.voice.say(Notice, level="warning", text=str(error))

        return Interlude(run)

    async def _serve(self) -> None:
        while True:
            if not self._waiting and not (self._letters_start and self.agent.gear.inbox.rouses):
                self._wake = anyio.Event()
                await self._wake.wait()
                continue
            next_one = self._waiting.popleft() if self._waiting else self._prompt_from_letters()
            if isinstance(next_one, User):
                await self._run_turn(next_one)
                continue
            self._turn = next_one
            try:
                await next_one.run()
            finally:
                self._turn = None

    async def _run_turn(self, prompt: User) -> None:
        try:
            called = self.commands.find(_plain(prompt))
        except UsageError as error:
            self._settle(prompt, self._answered(prompt, "failed", message=str(error)))
            return
        if called is not None:
            self._settle(prompt, await self._answer(prompt, *called))
            return
        turn = self._turn = Turn(self.agent, prompt, self._prepared)
        self._current = prompt.id
        try:
            finished = await turn.run()
        except Exception as error:  # frontend top: a defect ends the turn, not the session
            finished = turn.crash(error)
        finally:
            self._turn = self._current = None
        # letters left behind by an interrupt or a limit wait for the next prompt
        self._letters_start = finished.reason == "completed" and self.wakes
        self._settle(prompt, finished)
        self._find_title(prompt, finished)

    def _find_title(self, prompt: User, finished: TurnFinished) -> None:
        """On the side: no turn and no end of the session waits for it."""
        if self._titles is None or finished.reason != "completed" or not self._titles.due():
            return
        words = "\n".join(block.text for block in prompt.content if isinstance(block, Text))
        if words.strip() and self._group is not None:
            self._group.start_soon(self._titles.make, words, finished.text)

    def _settle(self, prompt: User, finished: TurnFinished) -> None:
        if prompt.id in self._awaited:
            self._endings[prompt.id] = finished
            for waiter in self._awaited[prompt.id]:
                waiter.set()

    async def _answer(self, prompt: User, command: SlashCommand, words: str) -> TurnFinished:
        """A slash command, run as a turn of its own without a request."""
        interlude = self._turn = Interlude(lambda: command.answer(words))
        self._current = prompt.id
        try:
            await interlude.run()
            text = await interlude.outcome()
        except TuglineError as error:
            reason: EndReason = "interrupted" if interlude.interrupted else "failed"
            return self._answered(prompt, reason, message=str(error))
        except Exception as error:  # frontend top: a defect of a command ends the command
            trace = "".join(traceback.format_exception(error))[-20_000:]
            said = f"{type(error).__name__}: {error}"[:2_000]
            self.agent.gear.voice.say(Crashed, where=f"/{command.name}", error=said, traceback=trace)
            return self._answered(prompt, "failed", message=f"/{command.name} failed inside: {said}")
        finally:
            self._turn = self._current = None
        self.agent.gear.voice.say(CommandAnswered, prompt=prompt.id, name=command.name, text=text)
        return self._answered(prompt, "completed", text)

    def _answered(self, prompt: User, reason: EndReason, text: str = "", message: str = "") -> TurnFinished:
        gear, ledger = self.agent.gear, self.agent.ledger
        gear.transcript.withdraw(prompt.id)
        finished = TurnFinished(
            seq=gear.voice.number(),
            origin=gear.voice.origin,
            reason=reason,
            text=text,
            steps=0,
            spend=Spend(),
            models=dict(ledger.models),
            total_cost_usd=ledger.total().cost_usd,
            duration=0.0,
            api_duration=0.0,
            message=message,
            prompt=prompt.id,
        )
        gear.voice.publish(finished)
        return finished

    async def _prepared(self, prompt: User) -> User:
        self.place.refresh()
        if self.occasions is not None:
            await self.occasions.prompt(prompt)
        if self._mentions is None or prompt.source != "person":
            return prompt
        blocks = tuple(part for part in prompt.content if isinstance(part, Text | Image | Document))
        card = self.agent.card(self.agent.model)
        return structs.replace(prompt, content=await self._mentions.expand(blocks, card))

    def _prompt_from_letters(self) -> User:
        """Letters that nobody's prompt has taken along begin a turn of their own."""
        first, *rest = self.agent.gear.inbox.drain()
        for letter in rest:
            self.agent.gear.inbox.put(letter)
        return User(first.id or self.agent.ids.message(), first.content, first.source, first.hidden)


def as_content(prompt: str | PromptContent) -> PromptContent:
    """A prompt as blocks, without characters that can be neither kept nor sent; `UsageError` if it is none."""
    parts: Any = (Text(prompt),) if isinstance(prompt, str) else prompt
    if not isinstance(parts, list | tuple) or not all(isinstance(part, Text | Image | Document) for part in parts):
        raise UsageError("A prompt is text, or a list of Text, Image and Document.")
    if not any(not isinstance(part, Text) or part.text.strip() for part in parts):
        raise UsageError("The prompt is empty.")
    return tuple(Text(wording.sound(part.text)) if isinstance(part, Text) else part for part in parts)


def _plain(prompt: User) -> str:
    """The prompt, if it is nothing but words of a person."""
    if prompt.source != "person" or len(prompt.content) != 1 or not isinstance(prompt.content[0], Text):
        return ""
    return prompt.content[0].text
