"""The library: `Session` and `query`, over `app.open_session`."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio

from tugline.app.session import open_session
from tugline.options import make_options
from tugline.protocol.commands import (
    AddDirectory,
    Command,
    Interrupt,
    PromptContent,
    RewindWhat,
    SetMode,
    SetModel,
    Steer,
)
from tugline.protocol.errors import SessionError, UsageError
from tugline.protocol.events import Event, SessionStarted, TurnFinished
from tugline.protocol.ids import MessageId, SessionId, TaskId
from tugline.protocol.records import Compacted
from tugline.protocol.sessions import ExportFormat
from tugline.protocol.specs import FileStep, Mode
from tugline.protocol.tasks import Task
from tugline.rules.costs import Costs
from tugline.rules.filling import Filling
from tugline.rules.history import Spoken
from tugline.runtime import session as runtime
from tugline.runtime.attendant import InquiryCallback, PermissionCallback, PlanCallback
from tugline.runtime.bus import Subscription
from tugline.runtime.past import Rewinding, RewindPreview
from tugline.runtime.session import as_content


class Session:
    """A conversation with an agent.

    Enter it with `async with`. `run` sends a prompt and gives the result; `stream` gives the events of one prompt;
    `events` hears everything. The options are those of `options.Options`; `permission`, `inquiry` and `plan` answer
    questions.
    Sessions of one process do not see each other. Any task may enter, use and leave it.
    """

    def __init__(
        self,
        *,
        permission: PermissionCallback | None = None,
        inquiry: InquiryCallback | None = None,
        plan: PlanCallback | None = None,
        **options: Any,
    ) -> None:
        self.options = make_options(options)
        for name, callback in (("permission", permission), ("inquiry", inquiry)):
            if callback is not None and not callable(callback):
                raise UsageError(f"{name} must be a function that answers questions, not {callback!r:.60}.")
        self._permission = permission
        self._inquiry = inquiry
        self._plan = plan
        self._inside: runtime.Session | None = None
        self._owner: asyncio.Task[None] | None = None
        self._over: asyncio.Event | None = None
        self._home: tuple[int, asyncio.AbstractEventLoop] | None = None

    async def __aenter__(self) -> Self:
        if self._owner is not None:
            raise SessionError("The session is open already.")
        self._home = threading.get_ident(), asyncio.get_running_loop()
        self._over = asyncio.Event()
        opened: asyncio.Future[runtime.Session] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(opened, self._over), name="tugline.session")
        try:
            self._inside = await asyncio.shield(opened)
        except BaseException:  # it could not be opened, or nobody waits for it any more
            owner, self._owner = self._owner, None
            owner.cancel()
            await _until_over(owner)
            raise
        return self

    async def _own(self, opened: "asyncio.Future[runtime.Session]", over: asyncio.Event) -> None:
        """Hold the session open in a task of its own, so that any task may enter and leave it."""
        try:
            async with open_session(self.options) as inside:
                if self._permission is not None or self._inquiry is not None or self._plan is not None:
                    inside.attend(permission=self._permission, inquiry=self._inquiry, plan=self._plan)
                opened.set_result(inside)
                await over.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = None
        owner, self._owner = self._owner, None
        if owner is None or self._over is None:
            return
        self._over.set()
        await _until_over(owner)
        if not owner.cancelled():
            owner.result()

    @property
    def inside(self) -> runtime.Session:
        """The running session, for frontends."""
        if self._inside is None:
            raise SessionError("The session is not open: use it inside `async with`.")
        if self._home is not None and not _is_at_home(*self._home):
            raise SessionError(
                "A session is used from the thread and the event loop that it was opened in; "
                "asyncio.run_coroutine_threadsafe gets there from others."
            )
        return self._inside

    @property
    def opening(self) -> SessionStarted:
        """What the session began with: model, mode, tools, where its transcript is."""
        assert self.inside.opening is not None
        return self.inside.opening

    @property
    def notices(self) -> tuple[str, ...]:
        """What there was to say at the start: settings that do not count, and the like."""
        return self.inside.notices

    async def run(self, prompt: str | PromptContent) -> TurnFinished:
        """Send a prompt and wait until its turn is at rest."""
        return await self.inside.run(prompt)

    @asynccontextmanager
    async def stream(self, prompt: str | PromptContent) -> AsyncIterator[AsyncIterator[Event]]:
        """Send a prompt and iterate the session's events up to its `TurnFinished`. Leaving early interrupts it."""
        inside = self.inside
        events = inside.subscribe()
        message = inside.prompt(prompt)
        until = TurnEvents(events, message)
        try:
            yield until
        finally:
            if not until.finished:
                inside.withdraw(message)
            events.close()

    async def prompts(self) -> tuple[Spoken, ...]:
        """What the person said in this conversation, oldest first: what `rewind` can go back to."""
        return await self.inside.prompts()

    async def rewind(self, prompt: MessageId, what: RewindWhat = "conversation", *, force: bool = False) -> Rewinding:
        """Go back to before these words of the person; they are returned, with what became of the files.

        `what`: the `conversation` goes on from there (the transcript keeps what was), or the `files` that the agent
        changed are again what they were, or `both`. A file that somebody else has changed too is left alone, unless
        `force`."""
        return await self.inside.rewind(prompt, what, force=force)

    async def rewind_preview(self, prompt: MessageId) -> RewindPreview:
        """What a rewind of files to before these words would do with each."""
        return await self.inside.rewind_preview(prompt)

    async def undo_rewind(self, *, force: bool = False) -> tuple[FileStep, ...]:
        """Take the last rewind of files back: they are again what they were before it."""
        return await self.inside.undo_rewind(force=force)

    async def clear(self) -> None:
        """Begin the conversation anew; the file keeps what was."""
        await self.inside.clear()

    async def compact(self, words: str = "") -> Compacted:
        """Put a summary by the model in place of the conversation so far; `words` say what it is to keep. Raises
        `SessionError` where nothing comes of it, and the conversation is as it was."""
        return await self.inside.compact(words)

    async def snip(self) -> Compacted:
        """Cut the oldest rounds of the conversation, without a summary."""
        return await self.inside.snip()

    async def uncompact(self) -> str:
        """Bring back the history before the last summary or cut; returns what was done, in a line."""
        return await self.inside.uncompact()

    def tasks(self) -> tuple[Task, ...]:
        """The work that goes on or went on beside the conversation, oldest first."""
        return self.inside.tasks.all()

    def background(self, task: TaskId | None = None) -> tuple[Task, ...]:
        """Stop waiting for what runs in the foreground, or for that task; which those were. The work goes on."""
        return self.inside.background(task)

    async def stop_task(self, task: TaskId) -> Task:
        """End a task; the model is told."""
        return await self.inside.stop_task(task)

    def context(self) -> Filling:
        """What fills the context now."""
        return self.inside.context()

    async def costs(self) -> Costs:
        """What the session has cost so far, by model and purpose, with hits and misses of the prompt cache."""
        return await self.inside.costs()

    def rename(self, title: str) -> str:
        """Give the session a name; returns it as it is kept."""
        return self.inside.rename(title)

    async def export(self, path: str | None = None, form: ExportFormat | None = None) -> str:
        """Write the conversation as one document (`markdown`, `json`, `html`); returns its path."""
        return await self.inside.export(path, form)

    async def branch(self) -> SessionId:
        """Go on in a copy, under a new id, which is returned; what was up to here stays as it is."""
        return await self.inside.branch()

    async def note(self, text: str) -> str:
        """Add a line to the project's file of instructions; returns its path."""
        return await self.inside.note(text)

    def events(self) -> Subscription:
        """Every event from now on; close it when done."""
        return self.inside.subscribe()

    def send(self, command: Command) -> None:
        """Ask for something; what comes of it is told as events."""
        self.inside.send(command)

    def steer(self, words: str | PromptContent) -> None:
        """Tell the running turn something before its next request; begins a turn where none runs."""
        self.inside.send(Steer(as_content(words)))

    def interrupt(self) -> None:
        """End the running turn; the conversation goes on."""
        self.inside.send(Interrupt())

    def set_mode(self, mode: Mode) -> None:
        """Change the permission mode, also for the running turn."""
        self.inside.send(SetMode(mode))

    def add_directory(self, path: str) -> None:
        """Let a further folder count as the working folder, for the rest of the session."""
        self.inside.send(AddDirectory(path))

    def set_model(self, model: str) -> None:
        """Use this model from the next request on."""
        self.inside.send(SetModel(model))


class TurnEvents:
    """The events up to the end of one prompt's turn."""

    def __init__(self, events: Subscription, prompt: MessageId) -> None:
        self.finished = False
        self._events = events
        self._prompt = prompt

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self.finished:
            raise StopAsyncIteration
        event = await self._events.__anext__()
        if isinstance(event, TurnFinished) and event.prompt == self._prompt:
            self.finished = True
        return event


async def query(prompt: str | PromptContent, **options: Any) -> AsyncIterator[Event]:
    """One prompt in a session of its own, as events up to its `TurnFinished`; the options are those of `Session`.

    Leaving the loop early interrupts the turn and cleans up.
    """
    async with Session(**options) as session, session.stream(prompt) as events:
        assert session.inside.opening is not None
        yield session.inside.opening
        async for event in events:
            yield event


def _is_at_home(thread: int, loop: asyncio.AbstractEventLoop) -> bool:
    """Whether we are in this thread, and in no other event loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return threading.get_ident() == thread


async def _until_over(task: "asyncio.Task[None]") -> None:
    """Until it has ended. Whoever is cancelled while waiting still waits: nothing is left behind half closed."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
