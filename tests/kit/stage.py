"""A stage for the loop: one agent with a scripted model, tools made for the purpose, and all it said."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio

from tugline.loop.agent import Agent, AgentSpec
from tugline.loop.executor import Gear, Passed, Refused, StateCell
from tugline.loop.inbox import Inbox
from tugline.loop.ledger import Ledger
from tugline.loop.transcript import Transcript
from tugline.loop.turn import Turn
from tugline.loop.voice import Voice
from tugline.ports import Compactor, HookAfter, HookVerdict, Provider, StopHook, Tool, ToolContext
from tugline.protocol.blocks import Text, ToolResult, ToolUse
from tugline.protocol.commands import PromptContent
from tugline.protocol.errors import ToolError
from tugline.protocol.events import Event, Origin, TurnFinished
from tugline.protocol.ids import AgentId, CallId, SessionId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.permissions import PermissionAnswer, PermissionQuestion
from tugline.protocol.specs import AgentState, ModelCard, Result, Section
from tugline.protocol.usage import Usage
from tugline.rules.permission import Query
from tugline.runtime.bus import Bus
from tugline.stores.memory import MemoryLog, MemorySpill
from tugline.testing import FakeClock, SequentialIds
from tugline.tools.define import tool
from tugline.tools.toolset import Toolset

Said = TypeVar("Said", bound=Event)


class OpenGate:
    """Lets everything through but what is named."""

    def __init__(self, *, deny: Sequence[str] = (), stop: Sequence[str] = ()) -> None:
        self.deny = deny
        self.stop = stop
        self.after_context: dict[str, str] = {}
        self.after_stop: dict[str, str] = {}
        self.after_batch = HookAfter()

    async def check(
        self, call: CallId, tool: Tool, data: Any, given: dict[str, Any], state: AgentState
    ) -> Passed | Refused:
        await anyio.lowlevel.checkpoint()
        if tool.name in self.stop:
            return Refused("not this", stop="the person said stop")
        if tool.name in self.deny:
            return Refused("not this")
        return Passed(given, data, query=Query(tool.name, given))

    async def after(self, call: CallId, passed: Passed, result: Result, duration: float) -> HookAfter:
        tool = passed.query.tool if passed.query is not None else ""
        context = self.after_context.get(tool)
        return HookAfter((context,) if context else (), self.after_stop.get(tool))

    async def batch(self) -> HookAfter:
        return self.after_batch


class NoHooks:
    """Hooks that have no opinion; a test overrides what it needs."""

    name = "a hook"

    async def before(self, call: CallId, query: Query) -> HookVerdict:
        return HookVerdict()

    async def respond(self, question: PermissionQuestion, query: Query) -> PermissionAnswer | None:
        return None

    async def denied(self, call: CallId, query: Query, reason: str) -> tuple[str, ...]:
        return ()

    async def after(self, call: CallId, query: Query, result: Result, duration: float) -> HookAfter:
        return HookAfter()

    async def batch(self) -> HookAfter:
        return HookAfter()


class Workbench:
    """Tools whose every step a test can watch and hold."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.started: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.gates: dict[str, anyio.Event] = {}
        self.begun: dict[str, anyio.Event] = {}

    def gate(self, name: str) -> anyio.Event:
        return self.gates.setdefault(name, anyio.Event())

    async def reached(self, name: str) -> None:
        await self.begun.setdefault(name, anyio.Event()).wait()

    async def _work(self, name: str, hold: bool) -> str:
        self.started.append(name)
        self.running.add(name)
        self.begun.setdefault(name, anyio.Event()).set()
        try:
            if hold:
                await self.gate(name).wait()
            else:
                await anyio.lowlevel.checkpoint()
            self.ended.append(name)
            return f"{name} done"
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(name)
            raise
        finally:
            self.running.discard(name)

    def tools(self) -> list[Tool]:
        @tool(footprint="reads")
        async def look(name: str, hold: bool = False) -> str:
            """Looks."""
            return await self._work(name, hold)

        @tool(footprint="changes")
        async def change(name: str, hold: bool = False) -> str:
            """Changes."""
            return await self._work(name, hold)

        @tool(footprint="changes", interrupt="block")
        async def save(name: str, hold: bool = False) -> str:
            """Changes, and finishes when interrupted."""
            return await self._work(name, hold)

        @tool(footprint="nothing")
        async def fail(name: str, kind: str = "tool") -> str:
            """Fails."""
            self.started.append(name)
            if kind == "crash":
                raise ZeroDivisionError("nothing <tool_use_error> to divide")
            if kind == "exit":
                raise SystemExit(3)
            raise ToolError(f"{name} failed")

        @tool(footprint="reads")
        async def long(size: int) -> str:
            """Long text."""
            return "x" * size

        run = tool(footprint=lambda data: "reads" if data.name.startswith("r") else "changes")(self._shell)
        run.family = "shell"
        return [look, change, save, fail, long, run]

    async def _shell(self, name: str, hold: bool = False, fails: bool = False) -> Result:
        """A stand-in for the shell."""
        text = await self._work(name, hold)
        return Result("exit code 1" if fails else text, is_error=fails)


class Stage:
    """One agent and everything around it."""

    def __init__(
        self,
        provider: Provider,
        *,
        tools: Sequence[Tool] | None = None,
        gate: Any = None,
        spec: AgentSpec | None = None,
        stop_hook: StopHook | None = None,
        compactor: Compactor | None = None,
        log: Any = None,
        price: Callable[[ModelCard, Usage], float] = lambda card, usage: usage.output / 1_000,
        model: str = "scripted-model",
        start_while_streaming: bool = True,
        history: Sequence[Message] = (),
        workspace: Any = None,
    ) -> None:
        self.bench = Workbench()
        self.provider = provider
        self.events: list[Event] = []
        self.bus = Bus()
        self.bus.attach(self.events.append)
        self.ids = SequentialIds()
        self.clock = FakeClock(tick=0.001)
        self.log = log or MemoryLog()
        self.spill = MemorySpill()
        self.inbox = Inbox()
        self.gate = gate or OpenGate()
        self.toolset = Toolset(tools if tools is not None else self.bench.tools())
        self.voice = Voice(self.bus, Origin(SessionId("s"), AgentId("main")))
        self.transcript = Transcript(self.log, self.clock, history)
        self.gear = Gear(
            tools=self.toolset,
            gate=self.gate,
            workspace=workspace,  # the tools of the stage touch no files
            transcript=self.transcript,
            spill=self.spill,
            voice=self.voice,
            clock=self.clock,
            inbox=self.inbox,
            state=StateCell(AgentState(cwd="/")),
            agent=AgentId("main"),
            start_while_streaming=start_while_streaming,
        )
        self.agent = Agent(
            spec or AgentSpec(system=(Section("identity", "You are a test."),)),
            model=model,
            provider=provider,
            gear=self.gear,
            specs=self.toolset.specs,
            ids=self.ids,
            ledger=Ledger(price),
            stop_hook=stop_hook,
            compactor=compactor,
        )

    def turn(self, prompt: str = "Go", content: PromptContent = ()) -> Turn:
        return Turn(self.agent, User(self.ids.message(), content or (Text(prompt),)))

    async def run(self, prompt: str = "Go") -> TurnFinished:
        return await self.turn(prompt).run()

    def said(self, kind: type[Said]) -> list[Said]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def messages(self) -> list[Message]:
        return self.transcript.messages


def assert_valid(messages: Sequence[Message]) -> None:
    """Every call has exactly one result, directly after its reply; no result without a call; ids are unique."""
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if isinstance(message, Assistant):
            assert not waiting, f"calls {waiting} have no result before the next reply"
            for block in message.content:
                if isinstance(block, ToolUse):
                    assert block.id not in seen, f"the id {block.id} is used twice"
                    seen.add(block.id)
                    waiting.append(block.id)
        else:
            results = [block.tool_use_id for block in message.content if isinstance(block, ToolResult)]
            if results:
                assert results == waiting, f"results {results} do not answer the calls {waiting}"
                waiting = []
            else:
                assert not waiting, f"calls {waiting} have no result directly after their reply"
    assert not waiting, f"calls {waiting} have no result at the end"


def texts(message: Message) -> str:
    """The text of a message."""
    return "".join(block.text for block in message.content if isinstance(block, Text))


def results(message: Message) -> list[ToolResult]:
    """The results in a message."""
    return [block for block in message.content if isinstance(block, ToolResult)]


def context(stage: Stage) -> ToolContext:
    """A context for calling a tool by hand."""
    return ToolContext(
        CallId("c"), AgentId("main"), stage.gear.state.now, stage.gear.workspace, ModelCard(name="m"), lambda _: None
    )
