"""The composition root: the one file that names concrete classes."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec import Struct, structs

from tugline.config.folders import main_repository, make_private
from tugline.config.load import Config, load
from tugline.config.save import save_rules
from tugline.config.settings import Endpoint as EndpointSettings
from tugline.config.settings import ModelSetting
from tugline.context.gathering import Disk, Scheme
from tugline.context.instructions import Instructions
from tugline.context.surroundings import look_around
from tugline.context.survey import Survey, survey
from tugline.context.touching import Touching
from tugline.loop.agent import Agent, AgentSpec
from tugline.loop.executor import Gear, StateCell
from tugline.loop.gate import Gate
from tugline.loop.inbox import Inbox, Letter
from tugline.loop.ledger import Ledger
from tugline.loop.transcript import Transcript
from tugline.loop.voice import Voice
from tugline.net.client import HttpClient, Timeouts, Tls
from tugline.options import Options
from tugline.ports import Provider, Tool, WorkspaceError
from tugline.protocol.blocks import Text
from tugline.protocol.codec import encode
from tugline.protocol.errors import ConfigError, SessionError, UsageError
from tugline.protocol.events import Notice, Origin, SessionStarted
from tugline.protocol.ids import AgentId, SessionId
from tugline.protocol.records import FORMAT, Opened, Resumed
from tugline.protocol.specs import AgentState, Mode, ModelCard, Surroundings
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Auth, Endpoint
from tugline.providers.fallback import Fallback
from tugline.providers.limits import PROCESS_GATES
from tugline.providers.record import Recording
from tugline.providers.retry import NetworkSettings, Retry, Steps
from tugline.providers.router import Router
from tugline.rules import wording
from tugline.rules.history import History
from tugline.rules.paths import Place, Where, secret
from tugline.rules.permission import Policy, denied_tools
from tugline.rules.price import cost
from tugline.rules.prompt import system_prompt, whats_new
from tugline.rules.shell_footprint import is_read_only
from tugline.runtime.briefing import FileBriefing
from tugline.runtime.bus import Bus
from tugline.runtime.errands import Errands
from tugline.runtime.mentions import Mentions
from tugline.runtime.past import Past
from tugline.runtime.questions import Questions
from tugline.runtime.resuming import plain_content, resumed_state
from tugline.runtime.session import Session
from tugline.runtime.standing import Standing
from tugline.runtime.system import RandomIds, SystemClock, new_uuid
from tugline.stores.opening import Opening, Shelf, Wanted, open_transcript
from tugline.stores.sessions import ENDING, project_folder
from tugline.stores.spill import FileSpill
from tugline.tools.builtin.ask_user_question import AskUserQuestion
from tugline.tools.builtin.bash import Bash
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep
from tugline.tools.builtin.notebook_edit import NotebookEdit
from tugline.tools.builtin.read import Read
from tugline.tools.builtin.todo_write import TodoWrite
from tugline.tools.builtin.tool_search import ToolSearch
from tugline.tools.builtin.web_fetch import WebFetch
from tugline.tools.builtin.write import Write
from tugline.tools.define import RESULT_LIMIT
from tugline.tools.search import Hides
from tugline.tools.toolset import Toolset, chosen, joined, without
from tugline.version import __version__
from tugline.workspaces import files, paths
from tugline.workspaces.environment import child_environment
from tugline.workspaces.expansion import expand
from tugline.workspaces.local import LocalWorkspace


@asynccontextmanager
async def open_session(options: Options) -> AsyncIterator[Session]:
    """A running session; leaving it ends what runs and closes everything. Raises `TuglineError` for what the user can
    mend."""
    async with AsyncExitStack() as stack:
        session = await _compose(options, stack)
        async with session:
            yield session


def load_config(options: Options) -> Config:
    """The settings of a session with these options."""
    environ = os.environ if options.environ is None else options.environ
    settings = options.settings
    return load(
        cwd=_folder(options.cwd or os.getcwd()),
        environ=environ,
        trusted=options.trust or "project" in (options.setting_sources or ()),
        flags=_flags(options),
        settings=encode(dict(settings)).decode() if isinstance(settings, Mapping) else settings,
        sources=options.setting_sources,
    )


def _flags(options: Options) -> dict[str, Any]:
    """The options that are settings, by the settings' names."""
    given = {
        "model": options.model,
        "fallbackModel": options.fallback_model,
        "effort": options.effort,
        "permissions.defaultMode": options.permission_mode,
        "permissions.allow": list(options.allowed_tools),
        "permissions.deny": list(options.disallowed_tools),
        "permissions.additionalDirectories": list(options.add_dirs),
        "limits.maxTurns": options.max_turns,
        "limits.maxBudgetUsd": options.max_budget_usd,
        "limits.thinkingTokens": options.thinking_tokens,
    }
    return {name: value for name, value in given.items() if value not in (None, [])}


class Access(Struct, frozen=True):
    """Where models can be reached, and with which keys."""

    anthropic: Endpoint | None = None
    openai: Endpoint | None = None
    key_source: str = "none"
    own_provider: bool = False

    def default_model(self) -> str:
        """The model where nobody named one; `ConfigError` where that cannot be guessed."""
        if self.own_provider or self.anthropic is not None:
            return "sonnet"
        if self.openai is not None and self.openai.openai_itself:
            return "gpt-5"
        raise ConfigError("Which model? Say --model NAME, or set TUGLINE_MODEL.")

    def small_model(self, model: str) -> str:
        """The model for errands."""
        return "haiku" if self.anthropic is not None and model.startswith("claude") else model


class _Core(Struct, frozen=True, eq=False):
    """What all parts of a session share."""

    config: Config
    environ: Mapping[str, str]
    catalog: Catalog
    access: Access
    model: str
    opening: Opening
    bus: Bus
    ids: RandomIds
    clock: SystemClock
    voice: Voice
    ledger: Ledger

    @property
    def session(self) -> SessionId:
        """The session's id."""
        return self.opening.session

    @property
    def history(self) -> History | None:
        """The conversation so far, of a session that is gone on with."""
        return self.opening.history

    @property
    def kept(self) -> str:
        """Where big results are kept."""
        return self.opening.log.path.removesuffix(ENDING)


def _core(options: Options, stack: AsyncExitStack) -> _Core:
    environ = os.environ if options.environ is None else options.environ
    config = load_config(options)
    config.require_sound()
    catalog = Catalog(
        {name: _card_fields(entry) for name, entry in config.settings.models.items()},
        aliases=config.settings.model_aliases,
    )
    access = find_access(options, config, environ)
    model = config.settings.model or access.default_model()
    clock = SystemClock()
    wanted = Wanted(
        session=options.session_id,
        resume=options.resume,
        last=options.continue_session,
        copy=options.fork_session,
    )
    opening = open_transcript(wanted, make_shelf(config), new_id=new_uuid, now=clock.time())
    stack.push_async_callback(opening.log.aclose)
    bus, ids = Bus(), RandomIds()
    return _Core(
        config=config,
        environ=environ,
        catalog=catalog,
        access=access,
        model=model,
        opening=opening,
        bus=bus,
        ids=ids,
        clock=clock,
        voice=Voice(bus, Origin(opening.session, AgentId("main"))),
        ledger=Ledger(cost),
    )


async def _compose(options: Options, stack: AsyncExitStack) -> Session:
    core = _core(options, stack)
    provider = _open_provider(core, options)
    stack.push_async_callback(provider.aclose)
    workspace = make_workspace(core.config, core.environ, core.kept)
    standing = make_standing(core.config, workspace, core.kept)
    questions = Questions(core.voice, core.ids, attended=options.attended)
    errands = Errands(
        provider,
        lambda: core.catalog.resolve(core.access.small_model(core.model)),
        core.ids,
        core.ledger,
        core.session,
    )
    tools = make_tools(options, core.config, questions, errands, core.environ, standing.hides)
    tools = without(tools, denied_tools(standing.policy, tools.names))
    instructions = _instructions(core, options, standing, provider.card(core.catalog.resolve(core.model)))
    touching = _touching(instructions)
    tools = Toolset(touching(tool) for tool in tools)
    gear = _gear(core, tools, Gate(standing, questions, core.voice), workspace)
    core.ledger.note = gear.transcript.paid
    around = _enter(core, gear, await look_around(workspace, core.config.cwd))
    agent = Agent(
        _spec(core, options, tools, standing.mode, around),
        model=core.model,
        provider=provider,
        gear=gear,
        specs=tools.specs,
        ids=core.ids,
        ledger=core.ledger,
        briefing=None if instructions is None else FileBriefing(gear, core.ids, instructions),
        resolve=lambda name, tokens: resolve_model(core.catalog, name, standing.mode, tokens),
    )
    if core.history is not None:
        core.ledger.restore(core.history.standing.models)
        gear.transcript.restore(core.history)
    return Session(
        agent,
        core.bus,
        questions,
        started=lambda: _started(core, tools, standing.mode),
        set_mode=standing.set_mode,
        notices=(*core.opening.notices, *_notices(core.config, standing)),
        mentions=Mentions(gear, touching(Read()), standing),
        past=Past(gear, core.opening.log, core.config.cwd),
        title=options.title or "",
        resources=stack.pop_all(),
    )


def _open_provider(core: _Core, options: Options) -> Provider:
    provider = options.provider
    if provider is None:
        router = make_provider(core.access, core.catalog, core.config, core.environ)
        router.prepare(core.catalog.resolve(core.model))
        provider = router
    fallback = core.config.settings.fallback_model
    if fallback:
        provider = Fallback(provider, core.catalog.resolve(fallback))
    return Recording(provider, options.record) if options.record else provider


def make_shelf(config: Config) -> Shelf:
    """Where the sessions of the project are. A work tree of a repository counts as that repository."""
    project = main_repository(config.project_root)
    return Shelf(config.folders.sessions, project, _private(project_folder(config.folders.sessions, project)))


def _enter(core: _Core, gear: Gear, now: Surroundings) -> Surroundings:
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
        gear.inbox.put(Letter(plain_content(message), id=message.id))
    return kept or now


def _gear(core: _Core, tools: Toolset, gate: Gate, workspace: LocalWorkspace) -> Gear:
    settings = core.config.settings
    state = AgentState(core.config.cwd)
    if core.history is not None:
        state = resumed_state(core.history, workspace.roots, core.config.cwd)
    return Gear(
        tools=tools,
        gate=gate,
        workspace=workspace,
        transcript=Transcript(core.opening.log, core.clock),
        spill=FileSpill(core.kept),
        voice=core.voice,
        clock=core.clock,
        inbox=Inbox(),
        state=StateCell(state),
        agent=AgentId("main"),
        limit=settings.limits.parallel_calls,
        result_limit=None if settings.tools.result_limit == RESULT_LIMIT else settings.tools.result_limit,
        start_while_streaming=settings.tools.start_while_streaming,
    )


def _instructions(core: _Core, options: Options, standing: Standing, card: ModelCard) -> Instructions | None:
    scheme = make_scheme(options, core.config, standing, card)
    if scheme is None:
        return None
    return Instructions(DISK, scheme, lambda text: core.voice.say(Notice, level="warning", text=text))


def _touching(instructions: Instructions | None) -> Callable[[Tool], Tool]:
    if instructions is None:
        return lambda tool: tool
    return lambda tool: Touching(tool, instructions.touched)


DISK = Disk(resolve=paths.resolve, stat=files.stat_file, read=files.read_file, entries=files.list_folder)
WINDOW_SHARE = 4
"""Instructions may fill the window of a model to one in so many parts."""


def make_scheme(options: Options, config: Config, standing: Standing, card: ModelCard) -> Scheme | None:
    """Where instructions are looked for and what of them counts; `None` where they are switched off."""
    given, folders, sources = config.settings.context, config.folders, options.setting_sources
    names = given.file_names if options.instruction_files is None else options.instruction_files
    if not names or not given.instructions:
        return None
    where = Where(cwd=config.cwd, home=config.home, project_root=config.project_root)

    def forbidden(name: str, target: str) -> str:
        if standing.hides(name, target):
            return "a deny rule forbids to read it"
        return "credentials are kept there" if secret(Place(name, target), where) else ""

    total = min(given.total_tokens, card.window // WINDOW_SHARE)
    return Scheme(
        cwd=config.cwd,
        project_root=config.project_root,
        home=config.home,
        names=names,
        own=((folders.config, False), (folders.claude, True)) if sources is None or "user" in sources else (),
        managed=MANAGED_INSTRUCTIONS,
        roots=standing.policy.directories,
        project=sources is None or "project" in sources,
        local=sources is None or "local" in sources,
        trusted=config.trusted,
        external=tuple(os.path.realpath(os.path.expanduser(place)) for place in given.external_imports),
        file_tokens=min(given.file_tokens, total),
        total_tokens=total,
        forbidden=forbidden,
    )


MANAGED_INSTRUCTIONS = (("/etc/tugline", False), ("/etc/claude-code", True))
"""The machine's owner's folders, and whether each is Claude Code's."""


def survey_instructions(options: Options) -> Survey | None:
    """The instruction files of a session with these options, for a person; `None` where they are switched off."""
    environ = os.environ if options.environ is None else options.environ
    config = load_config(options)
    config.require_sound()
    catalog = Catalog({name: _card_fields(entry) for name, entry in config.settings.models.items()})
    card = catalog.card(catalog.resolve(config.settings.model or "sonnet"))
    standing = make_standing(config, make_workspace(config, environ, ""), "")
    scheme = make_scheme(options, config, standing, card)
    return None if scheme is None else survey(DISK, scheme)


def _spec(core: _Core, options: Options, tools: Toolset, mode: Mode, around: Surroundings) -> AgentSpec:
    settings = core.config.settings
    return AgentSpec(
        system=system_prompt(
            around=around,
            model=core.catalog.resolve(core.model),
            mode=mode,
            deferred=tools.deferred(),
            replaced=options.system_prompt,
            appended=(options.append_system_prompt,) if options.append_system_prompt else (),
        ),
        max_steps=settings.limits.max_turns,
        max_cost_usd=settings.limits.max_budget_usd,
        thinking_tokens=settings.limits.thinking_tokens,
        effort=settings.effort,
    )


def _started(core: _Core, tools: Toolset, mode: Mode) -> SessionStarted:
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
    )


def _notices(config: Config, standing: Standing) -> tuple[str, ...]:
    """What the person should know at the start."""
    lines = [problem.text for problem in config.problems]
    if config.withheld:
        names = ", ".join(sorted({name for name, _ in config.withheld}))
        lines.append(f"This folder is not trusted: its settings {names} do not count. With --trust they do.")
    if standing.mode == "bypassPermissions" and hasattr(os, "geteuid") and os.geteuid() == 0:
        lines.append("Running as root with the mode bypassPermissions: nothing will be asked about.")
    return tuple(lines)


def find_access(options: Options, config: Config, environ: Mapping[str, str]) -> Access:
    """What options, settings and environment give; `ConfigError` if that is nothing."""
    if options.provider is not None:
        return Access(own_provider=True)
    if (config.settings.model or "").startswith("local:"):
        from tugline.providers.local import check_local_model  # noqa: PLC0415  imported here: start-up cost

        check_local_model(config.settings.model or "")
        return Access(own_provider=True)
    secrets, given = config.secrets, config.settings.providers
    anthropic_url = given.anthropic.base_url or environ.get("ANTHROPIC_BASE_URL", "").strip()
    openai_url = given.openai.base_url or environ.get("OPENAI_BASE_URL", "").strip()
    key, bearer, openai_key = secrets.anthropic_api_key, secrets.anthropic_auth_token, secrets.openai_api_key
    source = next((name for name in KEYS if environ.get(name)), "none")
    if options.base_url or options.api_key:
        name, source = (config.settings.model or "").partition("/")[0], "api_key"
        if name == "openai" or (name != "anthropic" and (options.base_url or "").rstrip("/").endswith("/v1")):
            openai_url, openai_key = options.base_url or openai_url, options.api_key or openai_key
            anthropic_url = key = bearer = ""
        else:
            anthropic_url, key = options.base_url or anthropic_url, options.api_key or key
            openai_url = openai_key = ""
    anthropic = openai = None
    if anthropic_url or key or bearer:
        anthropic = _endpoint(anthropic_url or ANTHROPIC_URL, key or bearer, given.anthropic, "" if key else "bearer")
    if openai_url or openai_key:
        openai = _endpoint(openai_url or OPENAI_URL, openai_key, given.openai, "")
    if anthropic is None and openai is None:
        raise ConfigError(
            "No model can be reached: there is no key.\n"
            "Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL and --model NAME for a local model.\n"
            "To see tugline work without a key, run: tugline demo"
        )
    return Access(anthropic, openai, source)


ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")
_AUTH: dict[str, Auth] = {"x-api-key": "x-api-key", "api-key": "api-key", "authorization": "bearer"}


def _endpoint(url: str, key: str, given: EndpointSettings, auth: Auth) -> Endpoint:
    headers = tuple(given.headers.items())
    name = (given.auth_header or "").lower()
    if name in _AUTH:
        auth = _AUTH[name]
    elif name:
        auth, headers = "none", (*headers, (name, key))
    agent = f"tugline/{__version__}"
    return Endpoint(
        base_url=url, key=key, auth=auth, version=given.api_version or "", headers=headers, user_agent=agent
    )


def make_provider(access: Access, catalog: Catalog, config: Config, environ: Mapping[str, str]) -> Router:
    """The adapters behind retries, chosen by model; none is made before it is needed."""
    network = NetworkSettings(
        idle_timeout=config.settings.network.idle_timeout,
        first_byte_timeout=config.settings.network.first_byte,
        retry_base=config.settings.network.retry_base,
        max_retries=config.settings.network.max_retries,
        retry_budget=config.settings.network.retry_budget,
    )
    tls = Tls(environ)
    steps = Steps()
    timeouts = Timeouts(connect=network.connect_timeout, first_byte=network.first_byte, idle=None)

    def retried(endpoint: Endpoint, adapter: Callable[..., Provider]) -> Provider:
        client = HttpClient(environ=environ, tls=tls)
        gate = PROCESS_GATES.gate(endpoint.base_url, endpoint.key)
        return Retry(adapter(endpoint, client, catalog, timeouts=timeouts), network, gate=gate, steps=steps)

    def anthropic() -> Provider:
        from tugline.providers.anthropic import AnthropicProvider  # noqa: PLC0415  imported here: start-up cost

        return retried(access.anthropic or Endpoint(base_url=ANTHROPIC_URL), AnthropicProvider)

    def openai() -> Provider:
        endpoint = access.openai or Endpoint(base_url=OPENAI_URL)
        api = config.settings.providers.openai.api or ("responses" if endpoint.openai_itself else "chat")
        if api == "responses":
            from tugline.providers.openai_responses import (  # noqa: PLC0415  imported here: start-up cost
                OpenAIResponsesProvider,
            )

            return retried(endpoint, OpenAIResponsesProvider)
        from tugline.providers.openai_chat import OpenAIChatProvider  # noqa: PLC0415  imported here: start-up cost

        return retried(endpoint, OpenAIChatProvider)

    overrides = {name: _card_fields(entry) for name, entry in config.settings.models.items()}

    def local() -> Provider:
        from tugline.providers.local import LocalProvider  # noqa: PLC0415  imported here: start-up cost

        return Retry(LocalProvider(overrides), network, steps=steps)

    def local_card(model: str) -> ModelCard:
        from tugline.providers import local  # noqa: PLC0415  imported here: start-up cost

        return local.local_card(model, overrides)

    reachable = [name for name, given in (("anthropic", access.anthropic), ("openai", access.openai)) if given]
    makers = {"anthropic": anthropic, "openai": openai, "local": local}
    return Router(makers, catalog.card, cards={"local": local_card}, reachable=reachable)


LARGE_CONTEXT = 200_000
"""Tokens past which the large variant of an alias answers."""


def resolve_model(catalog: Catalog, name: str, mode: Mode, tokens: int) -> str:
    """The model that a name stands for now. An alias `x` may have variants: `x:plan` answers in plan mode, `x:large`
    past 200,000 tokens."""
    aliases = catalog.aliases()
    variants = [f"{name}:large"] if tokens > LARGE_CONTEXT else []
    if mode == "plan":
        variants.append(f"{name}:plan")
    return catalog.resolve(next((variant for variant in variants if variant in aliases), name))


def _card_fields(entry: ModelSetting) -> dict[str, Any]:
    fields = {name: value for name, value in structs.asdict(entry).items() if value is not None}
    if entry.price is not None:
        fields["price"] = structs.asdict(entry.price)
    return fields


def make_workspace(config: Config, environ: Mapping[str, str], kept: str) -> LocalWorkspace:
    """The folders and the environment that commands get."""
    settings = config.settings
    shell = settings.shell
    child = child_environment(
        environ,
        only=shell.keep_environment if shell.environment == "listed" else None,
        keep=shell.keep_environment,
    )
    roots = (config.cwd, *(_folder(path) for path in settings.permissions.additional_directories))
    return LocalWorkspace(roots, spill_dir=kept, environment={**child, **settings.env})


def make_standing(config: Config, workspace: LocalWorkspace, kept: str) -> Standing:
    """The mode and rules that a session begins with."""
    policy = Policy(
        mode=config.settings.permissions.default_mode,
        allow=config.allow,
        ask=config.ask,
        deny=config.deny,
        directories=workspace.roots,
        cwd=config.cwd,
        home=config.home,
        project_root=config.project_root,
        readable=(kept,),
    )

    def resolve(path: str, cwd: str) -> tuple[str, str] | None:
        try:
            return workspace.resolve(path, cwd)
        except WorkspaceError:
            return None

    return Standing(policy, resolve, expand=expand, save=lambda rules: _keep_rules(config, rules))


def _keep_rules(config: Config, rules: Sequence[str]) -> str:
    if not config.trusted:
        raise ConfigError("this folder is not trusted, so the rule counts for this session only (--trust).")
    return save_rules(config.project_root, rules)


def make_tools(
    options: Options,
    config: Config,
    questions: Questions,
    errands: Errands,
    environ: Mapping[str, str],
    hides: Hides,
) -> Toolset:
    """The built-in tools that were chosen, and the caller's."""
    shell, fetch = config.settings.shell, config.settings.web_fetch
    builtin: Sequence[Tool] = (
        Read(),
        Write(),
        Edit(),
        NotebookEdit(),
        Glob(hides),
        Grep(hides),
        Bash(is_read_only, timeout=shell.timeout, max_timeout=shell.max_timeout),
        TodoWrite(),
        AskUserQuestion(questions),
        WebFetch(
            lambda check: HttpClient(environ=environ, check=check),
            errands,
            private=("*",) if fetch.allow_private else (),
        ),
    )
    tools = Toolset(builtin)
    if options.builtin_tools is not None:
        tools = chosen(tools, options.builtin_tools)
    tools = joined(tools, options.tools)
    waiting = [tool.spec for tool in tools if tool.deferred]
    return joined(tools, [ToolSearch(waiting)]) if waiting else tools


def _folder(path: str) -> str:
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(real):
        raise UsageError(f"{path} is not a folder.")
    return real


def _private(folder: str) -> str:
    try:
        return make_private(folder)
    except OSError as error:
        raise SessionError(
            f"The session cannot be recorded in {folder}: {error.strerror}. "
            "Make the folder writable, or set TUGLINE_HOME to another one."
        ) from error
