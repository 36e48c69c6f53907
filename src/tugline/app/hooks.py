"""The hooks of a session: those of the settings and those of the caller, and what runs each kind."""

import os
from collections.abc import Mapping

from tugline.app.core import Core
from tugline.app.hook_sources import Brought
from tugline.extensions.hooks.agents import Agents, Judge
from tugline.extensions.hooks.callbacks import Callbacks
from tugline.extensions.hooks.calls import CallHooks
from tugline.extensions.hooks.commands import Commands
from tugline.extensions.hooks.env_file import EnvFile
from tugline.extensions.hooks.posts import Posts
from tugline.extensions.hooks.prompts import Prompts
from tugline.extensions.hooks.runner import Hooks, Limits, Performer, Scene
from tugline.loop.agent import Agent, AgentSpec
from tugline.loop.executor import Gear, StateCell
from tugline.loop.gate import Gate
from tugline.loop.inbox import Inbox
from tugline.loop.transcript import Transcript
from tugline.loop.turn import Turn
from tugline.loop.voice import Voice
from tugline.net.client import HttpClient
from tugline.options import Options
from tugline.ports import Provider, SideModel
from tugline.protocol.blocks import Text
from tugline.protocol.events import Origin
from tugline.protocol.ids import AgentId
from tugline.protocol.messages import User
from tugline.protocol.specs import AgentState, Section
from tugline.runtime.occasions import HookOccasions, settings_kind
from tugline.runtime.questions import Questions
from tugline.runtime.standing import Standing
from tugline.stores.memory import MemoryLog
from tugline.stores.spill import FileSpill
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep
from tugline.tools.builtin.read import Read
from tugline.tools.toolset import Toolset
from tugline.tools.web import public_only
from tugline.workspaces.environment import without_traps
from tugline.workspaces.local import LocalWorkspace

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Hosts that http hooks may reach though they are not public."""
JUDGE_STEPS = 10
"""Steps of an agent that judges."""

_JUDGE = "You judge an event in the work of an agent. Look at what you need with your tools, change nothing, be brief."


class WiredHooks:
    """The hooks, as the loop knows them, and what is known only once the session is put together."""

    def __init__(self, hooks: Hooks, environment: EnvFile, place: "Place", model: str) -> None:
        self.calls: CallHooks = CallHooks(hooks, place.cwd(), model)
        self._hooks = hooks
        self._environment = environment
        self._place = place
        self._model = model

    def occasions(self, core: Core, options: Options, gear: Gear) -> HookOccasions:
        """What of the session the hooks hear of."""
        self._place.gear = gear
        source = "startup" if core.history is None else "fork" if options.fork_session else "resume"
        files = {
            origin.source: settings_kind(origin.layer)
            for origins in core.config.origins.values()
            for origin in origins
            if os.path.isabs(origin.source)
        }
        return HookOccasions(
            self._hooks,
            gear,
            source=source,
            model=self._model,
            settings=files,
            apply_environment=self._environment.apply,
        )


class Place:
    """Where the agent is; the hooks are there before the agent."""

    def __init__(self, cwd: str, transcript: str) -> None:
        self._cwd = cwd
        self._transcript = transcript
        self.gear: Gear | None = None

    def cwd(self) -> str:
        return self._cwd if self.gear is None else self.gear.state.now.cwd

    def transcript(self) -> str:
        return self._transcript if self.gear is None else self.gear.transcript.path


def make_hooks(
    core: Core, brought: Brought, workspace: LocalWorkspace, standing: Standing, side: SideModel, provider: Provider
) -> WiredHooks:
    """The hooks of the session, ready to run."""
    config, place, environ = core.config, Place(core.config.cwd, core.opening.log.path), core.environ

    def extend(variables: Mapping[str, str]) -> None:
        workspace.add_environment(without_traps(variables))

    environment = EnvFile(os.path.join(core.kept, "environment.sh"), workspace, extend)
    allowed = config.settings.allowed_http_hook_urls

    def connect() -> HttpClient:
        check = public_only(LOOPBACK if allowed is None else ("*",))
        return HttpClient(environ=environ, check=check)

    performers: dict[str, Performer] = {
        "command": Commands(workspace, config.project_root, environment.path),
        "prompt": Prompts(side),
        "http": Posts(connect, environ, allowed),
        "agent": Agents(judge(core, workspace, standing, provider)),
        "callback": Callbacks(brought.functions),
    }
    limits = config.settings.hook_limits
    scene = Scene(
        session=lambda: core.voice.origin.session,
        transcript=place.transcript,
        cwd=place.cwd,
        mode=lambda: standing.mode,
        fits=standing.speaks_of,
    )
    runner = Hooks(
        brought.hooks,
        performers,
        scene,
        voice=core.voice,
        spill=FileSpill(core.kept),
        clock=core.clock,
        ids=core.ids,
        limits=Limits(
            command=limits.command,
            agent=limits.agent,
            callback=limits.callback,
            prompt=limits.prompt,
            user_prompt_submit=limits.user_prompt_submit,
            session_end=limits.session_end,
        ),
    )
    return WiredHooks(runner, environment, place, core.catalog.resolve(core.model))


def judge(core: Core, workspace: LocalWorkspace, standing: Standing, provider: Provider) -> Judge:
    """Runs an agent that may look and not touch, and has no hooks; gives its last words."""

    async def run(prompt: str, model: str, cwd: str) -> str:
        tools = Toolset([Read(), Grep(standing.hides), Glob(standing.hides)])
        agent = AgentId(core.ids.new("judge"))
        voice = Voice(core.bus, Origin(core.voice.origin.session, agent, depth=1))
        questions = Questions(voice, core.ids, attended=False)
        gear = Gear(
            tools=tools,
            gate=Gate(standing, questions, voice),
            workspace=workspace,
            transcript=Transcript(MemoryLog(), core.clock),
            spill=FileSpill(core.kept),
            voice=voice,
            clock=core.clock,
            inbox=Inbox(),
            state=StateCell(AgentState(cwd)),
            agent=agent,
        )
        judging = Agent(
            AgentSpec(system=(Section("identity", _JUDGE),), purpose="hook", max_steps=JUDGE_STEPS),
            model=core.catalog.resolve(model or core.access.small_model(core.model)),
            provider=provider,
            gear=gear,
            specs=tools.specs,
            ids=core.ids,
            ledger=core.ledger,
        )
        finished = await Turn(judging, User(core.ids.message(), (Text(prompt),))).run()
        return finished.text or finished.message

    return run
