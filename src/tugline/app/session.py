"""A session, put together."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio

from tugline.app.briefing import make_instructions, make_scheme, touching
from tugline.app.checkpoints import checkpointed, make_checkpoints
from tugline.app.compaction import make_compaction
from tugline.app.core import Core, loaded_secrets, make_core, make_shelf, open_provider
from tugline.app.equipment import make_gate, make_policy, make_standing, make_tools, make_workspace
from tugline.app.hook_sources import hooks_of, list_hooks
from tugline.app.keeping import allow_reading, make_copies, make_notes
from tugline.app.models import resolve_model
from tugline.app.trust import UNCONFINED, make_place, settle_trust, withheld_line
from tugline.config.load import Config
from tugline.context.surroundings import git_settings, look_around
from tugline.loop.agent import Agent, AgentSpec
from tugline.loop.executor import Gear, StateCell
from tugline.loop.gate import Gate
from tugline.loop.inbox import Inbox, Letter
from tugline.loop.transcript import Transcript
from tugline.options import Options
from tugline.ports import CompactionHooks, Provider, StopHook, ToolHooks
from tugline.protocol.blocks import Text
from tugline.protocol.events import SessionStarted
from tugline.protocol.ids import AgentId
from tugline.protocol.records import FORMAT, Opened, Resumed
from tugline.protocol.specs import AgentState, Mode, Surroundings
from tugline.rules import wording
from tugline.rules.git_guard import GitSetting, working
from tugline.rules.permission import denied_tools
from tugline.rules.prompt import system_prompt, whats_new
from tugline.rules.rule_checks import doubtful
from tugline.runtime.briefing import FileBriefing
from tugline.runtime.errands import Errands
from tugline.runtime.file_past import FilePast
from tugline.runtime.mentions import Mentions
from tugline.runtime.past import Past
from tugline.runtime.planning import KeptMode, KeptPlan, Planning
from tugline.runtime.questions import Questions
from tugline.runtime.resuming import plain_content, resumed_state
from tugline.runtime.session import Occasions, Session
from tugline.runtime.shortening import Shortening
from tugline.runtime.slash import SlashCommand
from tugline.runtime.standing import Standing
from tugline.runtime.tasks import Tasks, TaskTable
from tugline.runtime.telling import AS_ROOT, Telling
from tugline.runtime.titles import Titles
from tugline.stores.plan import PlanFile
from tugline.stores.spill import FileSpill
from tugline.tools.builtin.read import Read
from tugline.tools.define import RESULT_LIMIT
from tugline.tools.toolset import Toolset, without
from tugline.version import __version__
from tugline.workspaces.local import LocalWorkspace
from tugline.workspaces.roster import Roster, reap


class CallHooks(ToolHooks, StopHook, CompactionHooks, Protocol):
    """Runs around calls and compactions, and at rest."""


class Wired(Protocol):
    """The hooks of a session, as far as it has to know them."""

    @property
    def calls(self) -> CallHooks: ...

    def occasions(self, core: Core, options: Options, gear: Gear) -> Occasions: ...


if TYPE_CHECKING:
    from tugline.app.confinement import Hold


@asynccontextmanager
async def open_session(options: Options) -> AsyncIterator[Session]:
    """A running session; leaving it ends what runs and closes everything. Raises `TuglineError` for what the user can
    mend."""
    async with AsyncExitStack() as stack:
        session = await _compose(await settle_trust(options), stack)
        async with session:
            yield session


async def _compose(options: Options, stack: AsyncExitStack) -> Session:
    core = make_core(options, stack)
    provider = open_provider(core, options)
    stack.push_async_callback(provider.aclose)
    questions = Questions(core.voice, core.ids, attended=options.attended)
    plan = PlanFile(os.path.join(os.path.realpath(core.config.folders.plans), f"{core.session}.md"))
    hold = _make_hold(core, questions)
    roster = Roster(core.config.folders.processes)
    stack.callback(roster.close)
    left = reap(core.config.folders.processes)
    workspace = make_workspace(core.config, core.environ, core.kept, hold.sandbox if hold else None, roster)
    git = await _look_at_git(core, workspace, hold, stack)
    standing = make_standing(core.config, workspace, core.kept, plan.path, sandboxed=hold is not None and hold.allows)
    if hold is not None:
        hold.stand_on(standing)
    inbox = Inbox()
    transcript = Transcript(core.opening.log, core.clock)
    planning = Planning(standing, questions, plan, inbox, transcript)
    telling = Telling(core.voice, inbox, planning, warn=_mode_warning, grow=partial(setattr, workspace, "roots"))
    errands = Errands(
        provider,
        lambda name: core.catalog.resolve(name or core.access.small_model(core.catalog.resolve(core.model))),
        core.ids,
        core.ledger,
        lambda: core.voice.origin.session,
    )
    beside = core.config.settings.background
    tasks = Tasks(TaskTable(), core.ids, enabled=beside.enabled, grace=beside.shell_grace)
    told = hold.told() if hold else None
    tools = make_tools(options, core.config, questions, errands, core.environ, standing.hides, planning, tasks, told)
    tools = without(tools, denied_tools(standing.policy, tools.names))
    scheme = make_scheme(options, core.config, standing, provider.card(core.catalog.resolve(core.model)))
    instructions = make_instructions(core, scheme)
    touched = touching(instructions)
    checkpoints = make_checkpoints(core, transcript, workspace.roots)
    kept = checkpointed(checkpoints)
    if checkpoints is not None:
        stack.push_async_callback(checkpoints.aclose)
    tools = Toolset(kept(touched(tool)) for tool in tools)
    wired = _wire_hooks(core, options, workspace, standing, errands, provider)
    calls = None if wired is None else wired.calls
    spill = FileSpill(core.kept)
    gear = _gear(
        core,
        tools,
        workspace,
        inbox,
        transcript,
        spill,
        make_gate(options, core, standing, questions, errands, transcript, calls),
    )
    core.ledger.note = gear.transcript.paid
    if not core.config.trusted:
        # what a command of the model's lets git do must not be what the folder says that git does
        workspace.add_environment(working(git or ()))
    around = _enter(core, gear, await look_around(workspace, core.config.cwd, git))
    agent = Agent(
        _spec(core, options, tools, around),
        model=core.model,
        provider=provider,
        gear=gear,
        specs=tools.specs,
        ids=core.ids,
        ledger=core.ledger,
        stop_hook=calls,
        compaction_hooks=calls,
        briefing=None if instructions is None else FileBriefing(gear, core.ids, instructions),
        resolve=lambda name, tokens: resolve_model(core.catalog, name, standing.mode, tokens),
    )
    compaction = make_compaction(agent, core.config.settings, Read(), standing)
    compaction.keepsakes[:0] = (KeptMode(standing, plan), KeptPlan(plan))
    agent.compactor = compaction
    if core.history is not None:
        core.ledger.restore(core.history.standing.models)
        gear.transcript.restore(core.history)
        # what was kept for a session that this one is a copy of is still named in it
        allow_reading(standing, [os.path.join(os.path.dirname(core.kept), origin) for origin in core.history.origins])
    files = None if checkpoints is None else FilePast(gear, checkpoints, core.ids)
    past = Past(gear, core.opening.log, core.config.cwd, files)
    planning.refresh()
    standing.told = telling.changed
    tasks.serve(gear)
    session = Session(
        agent,
        core.bus,
        questions,
        started=lambda: _started(core, tools, standing.mode, hold.status if hold else ""),
        standing=standing,
        notices=(
            *core.opening.notices,
            *_elsewhere(core),
            *_notices(core.config, standing, left),
            *doubtful((*core.config.allow, *core.config.ask, *core.config.deny), tools.names),
            *(hold.notices() if hold else ()),
        ),
        mentions=Mentions(gear, touched(Read()), standing),
        past=past,
        copies=make_copies(core, gear, spill, workspace, standing),
        notes=make_notes(core, gear, standing, scheme),
        titles=Titles(gear, errands) if options.titles and core.config.settings.sessions.titles else None,
        shortening=Shortening(agent, compaction, past),
        place=make_place(options, core, planning, lambda: hold.status if hold else UNCONFINED),
        tasks=tasks,
        list_hooks=lambda: list_hooks(options, core.config),
        occasions=None if wired is None else wired.occasions(core, options, gear),
        title=options.title or "",
        resources=stack.pop_all(),
    )
    session.commands.add(_sandbox_command(hold))
    session.secrets = loaded_secrets(core)
    return session


def _make_hold(core: Core, questions: Questions) -> "Hold | None":
    """The sandbox that the settings ask for; `None` where they ask for none."""
    if not core.config.settings.sandbox.enabled:
        return None
    from tugline.app.confinement import Hold  # noqa: PLC0415  imported here: start-up cost

    return Hold(core, make_policy(core.config, core.kept), questions)


def _sandbox_command(hold: "Hold | None") -> SlashCommand:
    async def answer(words: str) -> str:
        if hold is None:
            return "Shell commands run without a sandbox. The setting sandbox.enabled switches it on."
        return hold.described()

    return SlashCommand("sandbox", "what holds shell commands", answer)


async def _look_at_git(
    core: Core, workspace: LocalWorkspace, hold: "Hold | None", stack: AsyncExitStack
) -> list[GitSetting] | None:
    """What git is told there, and beside that whether the sandbox works here."""
    if hold is None:
        return await git_settings(workspace, core.config.cwd)
    stack.push_async_callback(hold.sandbox.aclose)
    found: list[list[GitSetting] | None] = []

    async def look() -> None:
        found.append(await git_settings(workspace, core.config.cwd))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold.probe)
        tasks.start_soon(look)
    return found[0]


def _wire_hooks(
    core: Core, options: Options, workspace: LocalWorkspace, standing: Standing, errands: Errands, provider: Provider
) -> Wired | None:
    brought = hooks_of(options, core.config)
    if not brought.hooks:
        return None
    from tugline.app.hooks import make_hooks  # noqa: PLC0415  imported here: start-up cost

    return make_hooks(core, brought, workspace, standing, errands, provider)


def _enter(core: Core, gear: Gear, now: Surroundings) -> Surroundings:
    """Write down that the session begins, or goes on; what the system prompt says of the place.

    A session that goes on keeps what was said at its beginning, so that its requests begin with the same bytes; what is
    different now is told with the next prompt.
    """
    cwd, history = core.config.cwd, core.history
    if history is None:
        opened = Opened(
            format=FORMAT, session=core.session, agent=AgentId("main"), cwd=cwd, version=__version__, around=now
        )
        gear.transcript.note(opened)
        return now
    kept = history.around if history.around is not None and history.around.cwd == now.cwd else None
    gear.transcript.note(Resumed(cwd=cwd, version=__version__, around=now if kept is None else None))
    words = whats_new(kept, now) if kept is not None else ""
    if words:
        gear.inbox.put(Letter((Text(wording.reminder(words)),), hidden=True))
    for message in history.standing.queued:
        gear.inbox.put(Letter(plain_content(message), message.hidden, message.id))
    return kept or now


def _gear(
    core: Core,
    tools: Toolset,
    workspace: LocalWorkspace,
    inbox: Inbox,
    transcript: Transcript,
    spill: FileSpill,
    gate: Gate,
) -> Gear:
    settings = core.config.settings
    state = AgentState(core.config.cwd)
    if core.history is not None:
        state = resumed_state(core.history, workspace.roots, core.config.cwd)
    return Gear(
        tools=tools,
        gate=gate,
        workspace=workspace,
        transcript=transcript,
        spill=spill,
        voice=core.voice,
        clock=core.clock,
        inbox=inbox,
        state=StateCell(state),
        agent=AgentId("main"),
        limit=settings.limits.parallel_calls,
        result_limit=None if settings.tools.result_limit == RESULT_LIMIT else settings.tools.result_limit,
        start_while_streaming=settings.tools.start_while_streaming,
    )


def _spec(core: Core, options: Options, tools: Toolset, around: Surroundings) -> AgentSpec:
    settings = core.config.settings
    return AgentSpec(
        system=system_prompt(
            around=around,
            model=core.catalog.resolve(core.model),
            deferred=tools.deferred(),
            replaced=options.system_prompt,
            appended=(options.append_system_prompt,) if options.append_system_prompt else (),
        ),
        max_steps=settings.limits.max_turns,
        max_cost_usd=settings.limits.max_budget_usd,
        thinking_tokens=settings.limits.thinking_tokens,
        effort=settings.effort,
    )


def _started(core: Core, tools: Toolset, mode: Mode, sandbox: str) -> SessionStarted:
    return SessionStarted(
        seq=core.bus.number(),
        origin=core.voice.origin,
        cwd=core.config.cwd,
        model=core.catalog.resolve(core.model),
        mode=mode,
        tools=tuple(spec.name for spec in tools.specs()),
        key_source=core.access.key_source,
        transcript=core.opening.log.path,
        resumed=core.history is not None,
        sandbox=sandbox,
    )


def _elsewhere(core: Core) -> tuple[str, ...]:
    """What to know where the session is one of another project."""
    if core.history is None or os.path.dirname(core.opening.log.path) == make_shelf(core.config).folder:
        return ()
    was = core.history.cwd
    gone = "" if os.path.isdir(was) else ", which is gone"
    return (
        f"This session is one of another project, {was}{gone}. It goes on here, in {core.config.cwd}; "
        "with --fork-session a copy of it is filed under this project.",
    )


def _notices(config: Config, standing: Standing, left: int) -> tuple[str, ...]:
    """What the person should know at the start. `left`: commands that an earlier process had left running."""
    lines = [problem.text for problem in config.problems]
    if left:
        what = "1 command was" if left == 1 else f"{left} commands were"
        lines.append(f"{what} still running from a session that had been killed, and ended now.")
    if withheld := withheld_line(config):
        lines.append(withheld)
    if config.settings.sandbox.required and not config.settings.sandbox.enabled:
        lines.append("sandbox.required does nothing while sandbox.enabled is off: commands run without a sandbox.")
    if warning := _mode_warning(standing.mode):
        lines.append(warning)
    return tuple(lines)


def _mode_warning(mode: Mode) -> str:
    """What a person should know of a mode here."""
    return AS_ROOT if mode == "bypassPermissions" and hasattr(os, "geteuid") and os.geteuid() == 0 else ""
