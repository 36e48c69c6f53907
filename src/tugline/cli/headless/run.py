"""One prompt, from the arguments to the exit code."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import anyio

from tugline.app.session import open_session
from tugline.cli import streams
from tugline.cli.children import adopt_orphans, kill_orphans
from tugline.cli.debug import defect_line, report_defect
from tugline.cli.headless.ending import EX_TEMPFAIL, Cards, Failed, exit_code, worth_retrying
from tugline.cli.headless.notices import Notices, error_lines
from tugline.cli.headless.output import Output, OutputFailed, OutputGone
from tugline.cli.headless.printer import Printer
from tugline.cli.stopping import Stopped, Stopping
from tugline.cli.story import Story
from tugline.observe.debug_log import DebugLog
from tugline.options import Options
from tugline.protocol.commands import PromptContent
from tugline.protocol.errors import ProviderError, TuglineError, UsageError
from tugline.protocol.events import Event, TurnFinished
from tugline.protocol.ids import MessageId
from tugline.protocol.specs import ModelCard
from tugline.protocol.tasks import TaskKind
from tugline.runtime.session import Session

QUEUE_LIMIT = 50_000
"""Events that may wait for a reader of stdout before neighbouring pieces of a reply come as one: about 10 MB."""
SHELLS: tuple[TaskKind, ...] = ("local_bash",)
"""What gets a moment to end once the answer is there."""
INTERRUPTED = Failed("Interrupted.", terminal_reason="aborted_streaming")
MakePrompt = Callable[[], str | PromptContent]
Around = Callable[[Options], AbstractAsyncContextManager[Options]]
"""What is there as long as the session, and changes what it works with: a scripted model."""


class HeadlessRun:
    """Runs one prompt and prints what the format wants. Every way it ends, there is one result and one exit code.

    `tell` says what is for the person beside the answer: notices, and the `story` while it goes on. `log` hears
    everything.
    """

    def __init__(
        self,
        options: Options,
        make_printer: Callable[[Cards], Printer],
        *,
        story: Story | None = None,
        around: Around | None = None,
        tell: Callable[[str], None] = streams.say,
        log: DebugLog | None = None,
    ) -> None:
        self._options = options
        self._printer = make_printer(self.card)
        self._around = around
        self._story = story
        self._tell = tell
        self._log = log
        self._notices = Notices(debug=options.debug)
        self._output = Output()
        self._stopping = Stopping(self._last_words)
        self._session: Session | None = None
        self._message = MessageId("")
        self._others: frozenset[int] | None = None
        self._scope: anyio.CancelScope | None = None
        self.finished: TurnFinished | None = None

    def card(self, model: str) -> ModelCard:
        """What is known of a model of this session."""
        return ModelCard(name=model) if self._session is None else self._session.agent.card(model)

    def run(self, make_prompt: MakePrompt) -> int:
        """Do it; the exit code."""
        self._stopping.install()
        try:
            prompt = make_prompt()
            return asyncio.run(self._guarded(prompt))
        except Stopped as stopped:
            return self._ended(INTERRUPTED, stopped.code)
        except UsageError as error:
            self._tell(error_lines(str(error)))
            return 2
        except Exception as error:  # frontend top: a defect ends with one line and a result
            return self._defect(error)
        finally:
            if self._others is not None:
                kill_orphans(self._others)  # what has hidden from its call
            self._stopping.restore()

    async def _guarded(self, prompt: str | PromptContent) -> int:
        loop = asyncio.get_running_loop()
        self._stopping.bind(lambda: loop.call_soon_threadsafe(self._stop))
        try:
            with anyio.CancelScope() as self._scope:
                await self._converse(prompt)
        except OutputGone:
            return self._stopping.code or streams.BROKEN_PIPE
        except OutputFailed as error:
            self._tell(error_lines(str(error)))
            return self._stopping.code or 1
        except UsageError as error:
            self._tell(error_lines(str(error)))
            return self._ended(Failed(str(error)), 2)
        except Exception as error:  # frontend top: a defect ends with one line and a result
            return self._stopping.code or self._failed(leaf(error))
        if self.finished is None:
            return self._ended(INTERRUPTED, self._stopping.code or 130)
        return self._stopping.code or exit_code(self.finished)

    async def _converse(self, prompt: str | PromptContent) -> None:
        async with self._around(self._options) if self._around else nullcontext(self._options) as options:
            await self._in_session(options, prompt)

    async def _in_session(self, options: Options, prompt: str | PromptContent) -> None:
        async with open_session(options) as session:
            self._session = session
            session.wakes = False
            events = session.subscribe(QUEUE_LIMIT)
            try:
                if session.opening is not None:
                    self._hear(session.opening)
                if self._log is not None:
                    self._log.hide(session.secrets)
                    if session.opening is not None:
                        self._log.hear(session.opening)
                    session.bus.attach(self._log.hear)
                for text in session.notices:
                    self._tell(error_lines(text))
                self._message = session.prompt(prompt)
                while self.finished is None:
                    for event in await events.batch():
                        self._hear(event)
                    if self._others is None:  # while the first request is on its way: it costs some milliseconds
                        self._others = adopt_orphans()
                    await self._output.drain()
                await session.tasks.rest(SHELLS, session.tasks.grace)
            finally:
                events.close()

    def _hear(self, event: Event) -> None:
        if isinstance(event, TurnFinished) and event.prompt == self._message:
            self.finished = event
        self._printer.take(event, self._output.buffer)
        if (said := self._notices.take(event)) or (self._story is not None and (said := self._story.take(event))):
            self._tell(said)

    # -- ends

    def _stop(self) -> None:
        """A signal came: interrupt the turn, or leave if none runs."""
        if self.finished is not None:
            return
        if (self._session is None or not self._session.interrupt()) and self._scope is not None:
            self._scope.cancel()

    def _failed(self, error: BaseException) -> int:
        """The run ended with an error; say so."""
        if not isinstance(error, TuglineError):
            return self._defect(error)
        failure = error.failure if isinstance(error, ProviderError) else None
        self._tell(error_lines(str(error)))
        code = EX_TEMPFAIL if failure is not None and worth_retrying(failure) else 1
        return self._ended(Failed(str(error), failure), code)

    def _defect(self, error: BaseException) -> int:
        report_defect(error, debug=self._options.debug, log=self._log, tell=self._tell)
        return self._ended(Failed(defect_line(error)), 1)

    def _ended(self, failed: Failed, code: int) -> int:
        """The result line of a run that no turn's end ended."""
        self._printer.fail(failed, self._output.buffer)
        self._output.drain_now()
        return code

    def _last_words(self, code: int) -> None:
        self._printer.fail(INTERRUPTED, self._output.buffer)
        self._output.drain_now()


def leaf(error: BaseException) -> BaseException:
    """The error itself, out of the groups that task groups put around it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error
