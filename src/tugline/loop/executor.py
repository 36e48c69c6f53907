"""Runs the calls of one reply as they become ready, and gives their results in order.

A call goes through `Stage`: waiting, preparing (validation, hooks, rules, a question: no slot is held), ready,
running, done. `rules.schedule` says what may go on; this module makes it so. Nothing here ends the loop by an
exception: whatever a tool does becomes a result.
"""

import asyncio
import math
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, structs

from tugline.loop import results
from tugline.loop.inbox import Inbox, Letter
from tugline.loop.transcript import Transcript
from tugline.loop.voice import Voice
from tugline.ports import Clock, HookAfter, Spill, Tool, ToolContext, Workspace, WorkspaceError
from tugline.protocol.blocks import Document, Image, Text, ToolResult, ToolUse
from tugline.protocol.errors import SessionError, ToolError
from tugline.protocol.events import CallFinished, CallProgress, CallStarted, Crashed, InstructionsLoaded, ResultAdded
from tugline.protocol.ids import AgentId, CallId, ReplyId
from tugline.protocol.specs import (
    AgentState,
    Change,
    Content,
    Display,
    Footprint,
    Instructed,
    ModelCard,
    PathSubject,
    Progress,
    Reminder,
    Result,
)
from tugline.rules import instructions, schedule, wording
from tugline.rules.permission import Query
from tugline.rules.schedule import Slot, Stage
from tugline.rules.state import apply

FINISH_LIMIT = 30.0
"""Seconds that a call with `interrupt = "block"` may take to finish."""


class Passed(Struct, frozen=True):
    """The gate lets a call through, with this input."""

    input: dict[str, Any]
    data: Any
    words: str = ""
    content: tuple[Image | Document, ...] = ()
    """Words and images for the model, which come behind the result."""
    query: Query | None = None
    """The call as the rules saw it."""


class Refused(Struct, frozen=True):
    """The gate does not let it through; `text` is the model's. `stop` ends the turn."""

    text: str
    denial: bool = True
    stop: str | None = None


class Gatekeeper(Protocol):
    """Decides whether a call may run, asking if need be, and hears of its end."""

    async def check(
        self, call: CallId, tool: Tool, data: Any, given: dict[str, Any], state: AgentState
    ) -> Passed | Refused:
        """Before a call."""
        ...

    async def after(self, call: CallId, passed: Passed, result: Result, duration: float) -> HookAfter:
        """After it."""
        ...

    async def batch(self) -> HookAfter:
        """After all calls of a reply, where another request would follow."""
        ...


class ToolFinder(Protocol):
    """The tools that may be called now."""

    def find(self, name: str) -> Tool | None: ...

    def closest(self, name: str) -> list[str]: ...


class StateCell:
    """Where an agent's state stands. Replaced whole, by its executor only."""

    def __init__(self, state: AgentState) -> None:
        self.now = state


class Gear(Struct, frozen=True, eq=False, kw_only=True):
    """What the executor works with; the same for all replies of an agent."""

    tools: ToolFinder
    gate: Gatekeeper
    workspace: Workspace
    transcript: Transcript
    spill: Spill
    voice: Voice
    clock: Clock
    inbox: Inbox
    state: StateCell
    agent: AgentId
    limit: int = schedule.LIMIT
    message_limit: int = results.MESSAGE_LIMIT
    result_limit: int | None = None
    """In place of every tool's own limit."""
    start_while_streaming: bool = True


class _Call:
    """One call on its way."""

    __slots__ = (
        "applied", "cancelled_as", "changes", "data", "given", "go", "outcome", "passed", "result", "scope", "slot",
        "started", "tool", "use",
    )  # fmt: skip

    def __init__(self, use: ToolUse) -> None:
        self.use = use
        self.given = use.input
        self.tool: Tool | None = None
        self.data: Any = None
        self.passed: Passed | None = None
        self.slot = Slot(Footprint.NOTHING)
        self.scope: anyio.CancelScope | None = None
        self.go: anyio.Event | None = None
        self.started = 0.0
        self.outcome: Result | None = None
        self.cancelled_as = ""
        self.result: ToolResult | None = None
        self.changes: tuple[Change, ...] = ()
        self.applied = False


class Executor:
    """The calls of one reply."""

    def __init__(self, gear: Gear, reply: ReplyId, card: ModelCard, tasks: TaskGroup) -> None:
        self._gear = gear
        self._reply = reply
        self._card = card
        self._tasks = tasks
        self._calls: list[_Call] = []
        self._slots: list[Slot] = []
        self._placed = 0
        self._size = 0
        self._reply_ended = False
        self._discarded = False
        self._halted = False
        self._halted_as = ""
        self._all_done = anyio.Event()
        self.stop: str | None = None
        self.stopped_by_denial = False
        self.denials: list[dict[str, Any]] = []

    # -- what the step does with it

    def add(self, use: ToolUse) -> None:
        """A call's block has closed."""
        call = _Call(use)
        self._calls.append(call)
        self._slots.append(call.slot)
        tool = self._gear.tools.find(use.name)
        if self._halted_as:
            call.tool = tool
            self._settle_cancelled(call, self._halted_as)
            return
        if tool is None:
            closest = self._gear.tools.closest(use.name)
            self._settle(call, wording.unknown_tool(use.name, closest), error=True, line="unknown tool")
            return
        call.tool = tool
        try:
            if use.malformed is not None:
                raise ToolError("it is not one whole JSON object")
            call.data = tool.parse(use.input)
        except ToolError as error:
            self._settle(call, wording.invalid_input(tool.name, str(error)), error=True, line="invalid input")
            return
        except Exception as error:  # tool boundary: a tool's own parser must not end the loop
            self._report_crash(tool, error)
            self._settle(call, wording.invalid_input(tool.name, type(error).__name__), error=True, line="invalid input")
            return
        call.slot.footprint = self._footprint(tool, call.data)
        self._advance()

    def end_reply(self) -> None:
        """The reply has ended properly: calls that change may start."""
        self._reply_ended = True
        self._advance()
        self._check_done()

    def end_refused(self) -> None:
        """The reply has ended, but what it asks for does not count: what has not begun is not begun."""
        self._reply_ended = True
        self._halt("refused")
        self._check_done()

    async def finished(self) -> None:
        """Until every call has its result."""
        if not self._all_done.is_set():
            await self._all_done.wait()

    @property
    def is_done(self) -> bool:
        """Whether every call has its result."""
        return self._all_done.is_set()

    def results(self) -> tuple[ToolResult, ...]:
        """All results in the order of the calls; only after `finished` or `interrupt`."""
        return tuple(call.result for call in self._calls if call.result is not None)

    def discard(self) -> None:
        """The reply is void: what runs is cancelled, nothing more is told of it."""
        if self._calls:
            self._gear.transcript.void(self._reply)
        self._discarded = self._halted = True
        for call in self._calls:
            if call.scope is not None:
                call.scope.cancel()

    def end_turn(self, reason: str) -> None:
        """The turn is to end: something that heard of all its calls says so."""
        if self.stop is None:
            self.stop = reason

    def interrupt(self) -> None:
        """After the tasks have been cancelled: every call without a result gets a synthetic one."""
        self._halted = True
        for call in self._calls:
            if call.result is None:
                self._settle_interrupted(call)
        self._apply_changes()

    # -- how it goes on

    def _footprint(self, tool: Tool, data: Any) -> Footprint:
        try:
            return tool.footprint(data)
        except Exception as error:  # tool boundary: what cannot say what it touches counts as changing
            self._report_crash(tool, error)
            return Footprint.CHANGES

    def _advance(self) -> None:
        """Let everything go on that may."""
        if self._halted:
            return
        if not (self._reply_ended or self._gear.start_while_streaming):
            return
        for index in schedule.preparable(self._slots, reply_ended=self._reply_ended):
            if self._slots[index].footprint == Footprint.CHANGES:
                self._apply_changes()
            self._slots[index].stage = Stage.PREPARING
            self._tasks.start_soon(self._live, self._calls[index])
        for index in schedule.runnable(self._slots, limit=self._gear.limit, reply_ended=self._reply_ended):
            call = self._calls[index]
            call.slot.stage = Stage.RUNNING
            if call.go is not None:
                call.go.set()

    async def _live(self, call: _Call) -> None:
        assert call.tool is not None
        if call.result is not None or self._discarded:
            return  # cancelled before it got a turn
        with anyio.CancelScope() as call.scope:
            verdict = await self._check(call, call.tool)
            if isinstance(verdict, Refused):
                self._refuse(call, verdict)
            else:
                await self._pass(call, call.tool, verdict)
        if call.cancelled_as:
            self._settle_cancelled(call, call.cancelled_as)
        self._advance()

    async def _check(self, call: _Call, tool: Tool) -> Passed | Refused:
        try:
            for subject in tool.subjects(call.data):
                if isinstance(subject, PathSubject):
                    # of a path that leads nowhere there is nothing to judge, nor to ask a person
                    self._gear.workspace.resolve(subject.path, self._gear.state.now.cwd)
            return await self._gear.gate.check(call.use.id, tool, call.data, call.use.input, self._gear.state.now)
        except WorkspaceError as error:
            return Refused(wording.invalid_input(tool.name, str(error)), denial=False)
        except Exception as error:  # tool and hook boundary: who cannot be judged is not run
            self._report_crash(tool, error)
            return Refused(wording.crashed(tool.name, type(error).__name__), denial=False)

    def _refuse(self, call: _Call, refused: Refused) -> None:
        if refused.denial:
            self.denials.append({"tool_name": call.use.name, "tool_use_id": call.use.id, "tool_input": call.use.input})
        call.slot.stage = Stage.DONE
        if refused.stop is not None:
            self._stop(refused.stop, call, by_denial=refused.denial)
        self._settle(call, refused.text, error=True, line="denied" if refused.denial else "invalid input")

    async def _pass(self, call: _Call, tool: Tool, passed: Passed) -> None:
        call.given, call.data, call.passed = passed.input, passed.data, passed
        call.slot.footprint = self._footprint(tool, passed.data)
        call.slot.stage = Stage.READY
        call.go = anyio.Event()
        self._advance()
        if call.slot.stage == Stage.READY:
            await call.go.wait()
        result = await self._run(call, tool)
        if passed.words or passed.content:
            about = Text(wording.reminder(f"About {tool.name}: {passed.words or 'the user sends this along.'}"))
            self._gear.inbox.put(Letter((about, *passed.content)))
        failed = result.is_error and tool.family and call.slot.footprint == Footprint.CHANGES
        self._settle_outcome(call, result)
        if failed:
            self._cancel_siblings(call, tool.family)

    async def _run(self, call: _Call, tool: Tool) -> Result:
        gear = self._gear
        call.started = gear.clock.monotonic()
        gear.transcript.call_started(call.use.id, tool.name, self._reply)
        if call.slot.footprint == Footprint.CHANGES:
            self._apply_changes()
            try:
                await gear.transcript.durable()
            except SessionError as error:
                return Result(wording.not_recorded(tool.name, str(error)), is_error=True)
        gear.voice.say(
            CallStarted, call=call.use.id, tool=tool.name, input=call.given, title=self._title(call, tool),
            footprint=call.slot.footprint,
        )  # fmt: skip
        context = ToolContext(call.use.id, gear.agent, gear.state.now, gear.workspace, self._card, self._reporter(call))
        result = call.outcome = await self._outcome(call, tool, context)
        after = await self._after(call, tool, result)
        for words in after.context:
            gear.inbox.put(Letter((Text(wording.reminder(words)),)))
        if after.stop is not None:
            self._stop(after.stop, call, by_denial=False)
        if after.output is not None:
            result = call.outcome = results.sealed(structs.replace(result, for_model=after.output))
        return result

    async def _after(self, call: _Call, tool: Tool, result: Result) -> HookAfter:
        assert call.passed is not None
        duration = self._gear.clock.monotonic() - call.started
        try:
            return await self._gear.gate.after(call.use.id, call.passed, result, duration)
        except Exception as error:  # hook boundary: the call has run, its result stands
            self._report_crash(tool, error)
            return HookAfter()

    def _reporter(self, call: _Call) -> Callable[[Progress], None]:
        """Tells of progress while the call runs, from whatever thread; what comes later is dropped."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def tell(progress: Progress) -> None:
            if call.result is None and call.slot.stage == Stage.RUNNING:
                sound = structs.replace(progress, text=wording.sound(progress.text))
                self._tell(CallProgress, call=call.use.id, progress=sound)

        def report(progress: Progress) -> None:
            if threading.get_ident() == thread:
                tell(progress)
                return
            try:
                loop.call_soon_threadsafe(tell, progress)
            except RuntimeError:
                pass  # the loop is gone, and with it whoever listened

        return report

    async def _outcome(self, call: _Call, tool: Tool, context: ToolContext) -> Result:
        try:
            if tool.interrupt == "block":
                with anyio.fail_after(FINISH_LIMIT, shield=True):
                    result = await tool.run(call.data, context)
            else:
                result = await tool.run(call.data, context)
            result = results.sealed(result)
        except anyio.get_cancelled_exc_class() as error:
            if is_call_cancelled():
                raise
            result = self._crashed(tool, error)  # the tool's own: nobody has cancelled the call
        except (Exception, SystemExit) as error:  # tool boundary: a crash is an error result
            result = self._crashed(tool, error)
        await _forget_own_cancellation()
        return result

    def _crashed(self, tool: Tool, error: BaseException) -> Result:
        error = innermost(error)
        if isinstance(error, ToolError):
            return Result(wording.escape(str(error)) or "The tool failed without a word.", is_error=True)
        self._report_crash(tool, error)
        text = " ".join(str(error).split())[:1_000]
        return Result(wording.crashed(tool.name, f"{type(error).__name__}: {text}"), is_error=True)

    def _title(self, call: _Call, tool: Tool) -> str:
        try:
            return wording.sound(tool.title(call.data))
        except Exception as error:  # tool boundary: a title is not worth a failure
            self._report_crash(tool, error)
            return tool.name

    # -- how calls end

    def _settle(
        self, call: _Call, content: Content, *, error: bool, display: Display | None = None, line: str = ""
    ) -> None:
        """Give the call its result; the first one counts."""
        if call.result is not None or self._discarded:
            call.slot.stage = Stage.DONE
            return
        gear = self._gear
        limit = gear.result_limit or (call.tool.result_limit if call.tool else results.SMALLEST)
        content = results.fit(content, limit, call.use.id, gear.spill)
        call.result = ToolResult(call.use.id, content, error)
        call.slot.stage = Stage.DONE
        gear.transcript.call_finished(call.result, self._reply)
        duration = gear.clock.monotonic() - call.started if call.started else 0.0
        shown = results.sound(display or Display(line or results.first_line(content)))
        name = call.tool.name if call.tool else call.use.name
        gear.voice.say(CallFinished, call=call.use.id, tool=name, is_error=error, display=shown, duration=duration)
        if call.slot.footprint == Footprint.CHANGES:
            self._apply_changes()
        self._place()
        self._check_done()
        self._advance()

    def _place(self) -> None:
        """Give finished results their place in the conversation, as far as the order allows."""
        gear = self._gear
        while self._placed < len(self._calls):
            call = self._calls[self._placed]
            if call.result is None:
                return
            left = max(gear.message_limit - self._size, results.SMALLEST)
            content = results.fit(call.result.content, left, f"{call.use.id}-total", gear.spill)
            if content is not call.result.content:
                call.result = ToolResult(call.use.id, content, call.result.is_error)
            self._size += results.size(content)
            self._placed += 1
            gear.voice.say(ResultAdded, result=call.result, tool=call.tool.name if call.tool else call.use.name)

    def _check_done(self) -> None:
        if self._reply_ended and self._placed == len(self._calls):
            self._apply_changes()
            self._all_done.set()

    def _apply_changes(self) -> None:
        """Changes take effect in the order of the calls, at a barrier or at the end: calls that run side by side all
        see the same state, and no change is dropped."""
        changes: list[Change] = []
        for call in self._calls:
            if call.result is None:
                break
            if not call.applied:
                call.applied = True
                changes.extend(call.changes)
        if changes and not self._discarded:
            take(self._gear, changes)

    def _cancel_siblings(self, failed: _Call, family: str) -> None:
        for call in self._calls:
            if call is failed or call.result is not None or call.tool is None or call.tool.family != family:
                continue
            if call.scope is not None:
                call.cancelled_as = "sibling"
                call.scope.cancel()
            else:
                self._settle_cancelled(call, "sibling")

    def _stop(self, reason: str, by: _Call, *, by_denial: bool) -> None:
        """The turn is to end after this reply."""
        self.stop = reason
        self.stopped_by_denial = by_denial
        self._halt("stop", by)

    def _halt(self, cause: str, by: _Call | None = None) -> None:
        """What has not begun is not begun, also of what the reply still asks for."""
        self._halted = True
        self._halted_as = cause
        for call in self._calls:
            if call is by or call.result is not None or call.slot.stage == Stage.RUNNING:
                continue
            if call.scope is not None:
                call.cancelled_as = cause
                call.scope.cancel()
            else:
                self._settle_cancelled(call, cause)

    def _settle_outcome(self, call: _Call, outcome: Result) -> None:
        """What came of the tool stands, also where the hooks after it were broken off."""
        call.changes = outcome.changes
        self._settle(call, outcome.for_model, error=outcome.is_error, display=outcome.for_person)

    def _settle_cancelled(self, call: _Call, cause: str) -> None:
        name = call.tool.name if call.tool else call.use.name
        if cause == "sibling":
            self._settle(call, wording.sibling_failed(name), error=True, line="cancelled: a command failed")
        elif cause == "refused":
            self._settle(call, wording.discarded(name), error=True, line="not run")
        else:
            self._settle_interrupted(call)

    def _settle_interrupted(self, call: _Call) -> None:
        if call.outcome is not None:
            self._settle_outcome(call, call.outcome)
            return
        name = call.tool.name if call.tool else call.use.name
        text = wording.interrupted(name, started=call.started > 0)
        self._settle(call, text, error=True, line="interrupted" if call.started else "not run")

    def _tell(self, kind: type[Any], **fields: Any) -> None:
        if not self._discarded:
            self._gear.voice.say(kind, **fields)

    def _report_crash(self, tool: Tool, error: BaseException) -> None:
        self._tell(
            Crashed,
            where=f"tool {tool.name}",
            error=f"{type(error).__name__}: {error}"[:2_000],
            traceback="".join(traceback.format_exception(error))[-20_000:],
        )


def take(gear: Gear, changes: Sequence[Change]) -> None:
    """Let changes take effect: on the state, and, for what the model is to be told, in the inbox. Calls side by side
    may bring up the same instructions; they are told once."""
    told = set(gear.state.now.told)
    for change in changes:
        match change:
            case Reminder(text):
                gear.inbox.put(Letter((Text(wording.reminder(text)),)))
            case Instructed(found):
                new = instructions.untold(found, told)
                told.update(instructions.key(one.file.path) for one in new)
                if new:
                    text = wording.reminder(instructions.touched(new))
                    gear.inbox.put(Letter((Text(text),), hidden=True, source="context"))
                    gear.voice.say(InstructionsLoaded, reason="touched", files=tuple(one.file for one in new))
            case _:
                pass
    gear.state.now = apply(gear.state.now, changes)
    gear.transcript.state_changed(changes)


def is_cancelled() -> bool:
    """Whether the running task is being cancelled from outside."""
    task = asyncio.current_task()
    return anyio.current_effective_deadline() == -math.inf or (task is not None and task.cancelling() > 0)


def is_call_cancelled() -> bool:
    """The same for a call: its task is the executor's, and ended by cancel scopes alone."""
    return anyio.current_effective_deadline() == -math.inf


async def _forget_own_cancellation() -> None:
    """A tool that cancelled the task it ran in has ended its own work with that, and nothing else."""
    task = asyncio.current_task()
    if task is None or not task.cancelling() or is_call_cancelled():
        return
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        pass
    while task.cancelling():
        task.uncancel()


def innermost(error: BaseException) -> BaseException:
    """What was really raised, where task groups have wrapped it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
