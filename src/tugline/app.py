"""The composition root: the one file that names concrete classes."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec import Struct

from tugline.context.surroundings import look_around
from tugline.loop.agent import Agent, AgentSpec
from tugline.loop.executor import Gear, StateCell
from tugline.loop.gate import Gate
from tugline.loop.inbox import Inbox
from tugline.loop.ledger import Ledger
from tugline.loop.transcript import Transcript
from tugline.loop.voice import Voice
from tugline.net.client import HttpClient, Timeouts, Tls
from tugline.ports import Provider, Tool
from tugline.protocol.errors import ConfigError, UsageError
from tugline.protocol.events import Origin, SessionStarted
from tugline.protocol.ids import AgentId, SessionId
from tugline.protocol.records import FORMAT, Opened
from tugline.protocol.specs import AgentState, Effort, Mode
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.fallback import Fallback
from tugline.providers.limits import PROCESS_GATES
from tugline.providers.retry import NetworkSettings, Retry, Steps
from tugline.providers.router import Router
from tugline.rules.permission import Policy
from tugline.rules.price import cost
from tugline.rules.prompt import system_prompt
from tugline.rules.rule import parse_rule
from tugline.rules.shell_footprint import is_read_only
from tugline.runtime.bus import Bus
from tugline.runtime.errands import Errands
from tugline.runtime.questions import Questions
from tugline.runtime.session import Session
from tugline.runtime.standing import Standing
from tugline.runtime.system import RandomIds, SystemClock, new_uuid
from tugline.stores.jsonl import JsonlLog
from tugline.stores.spill import FileSpill
from tugline.tools.builtin.ask_user_question import AskUserQuestion
from tugline.tools.builtin.bash import Bash
from tugline.tools.builtin.edit import Edit
from tugline.tools.builtin.glob import Glob
from tugline.tools.builtin.grep import Grep
from tugline.tools.builtin.notebook_edit import NotebookEdit
from tugline.tools.builtin.read import Read
from tugline.tools.builtin.todo_write import TodoWrite
from tugline.tools.builtin.write import Write
from tugline.tools.toolset import Toolset, chosen, joined, without
from tugline.workspaces.local import LocalWorkspace


class Options(Struct, frozen=True, kw_only=True):
    """What a session is made of, where it differs from the settings. `None` means: as the settings say.

    `tools` are further tools of the caller's; `builtin_tools` chooses among the built-in ones (`None`: all).
    `settings` is a settings file's path, or settings themselves. `setting_sources` names which settings files count
    (`user`, `project`, `local`; `None`: all that the folder's trust allows). `record` is a file that the session's
    replies are saved to as a script. `environ` stands in for the process's environment.
    """

    model: str | None = None
    fallback_model: str | None = None
    provider: Provider | None = None
    base_url: str | None = None
    api_key: str | None = None
    cwd: str | None = None
    add_dirs: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    builtin_tools: tuple[str, ...] | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: Mode | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    effort: Effort | None = None
    thinking_tokens: int | None = None
    settings: str | Mapping[str, Any] | None = None
    setting_sources: tuple[str, ...] | None = None
    trust: bool = False
    attended: bool = False
    session_id: str | None = None
    record: str | None = None
    debug: bool = False
    environ: Mapping[str, str] | None = None


@asynccontextmanager
async def open_session(options: Options) -> AsyncIterator[Session]:
    """A running session; leaving it ends what runs and closes everything. Raises `TuglineError` for what the user can
    mend."""
    async with AsyncExitStack() as stack:
        session = await _compose(options, stack)
        async with session:
            yield session


async def _compose(options: Options, stack: AsyncExitStack) -> Session:
    environ = os.environ if options.environ is None else options.environ
    cwd = _folder(options.cwd or os.getcwd())
    catalog = Catalog()
    access = Access.of(options, environ)
    model = options.model or environ.get("TUGLINE_MODEL") or environ.get("ANTHROPIC_MODEL") or access.default_model()
    model = catalog.resolve(model)
    session_id = SessionId(options.session_id or new_uuid())
    bus, ids, clock = Bus(), RandomIds(), SystemClock()
    voice = Voice(bus, Origin(session_id, AgentId("main"), chain=ids.new("chain")))
    provider = options.provider or make_provider(access, catalog, NetworkSettings(), environ)
    stack.push_async_callback(provider.aclose)
    if options.fallback_model:
        provider = Fallback(provider, catalog.resolve(options.fallback_model))
    folder = os.path.join(_data_home(environ), "sessions", _slug(cwd))
    log = JsonlLog(os.path.join(folder, f"{session_id}.jsonl"))
    stack.push_async_callback(log.aclose)
    log.append(
        Opened(format=FORMAT, session=session_id, agent=AgentId("main"), cwd=cwd, version="0.1.0", time=clock.time())
    )
    spill_folder = os.path.join(folder, str(session_id))
    workspace = LocalWorkspace((cwd, *map(_folder, options.add_dirs)), spill_dir=spill_folder)
    questions = Questions(voice, ids, attended=options.attended)
    ledger = Ledger(cost)
    errands = Errands(provider, lambda: access.small_model(model), ids, ledger, session_id)
    tools = make_tools(options, questions, errands, environ)
    policy = Policy(
        mode=options.permission_mode or "default",
        allow=tuple(parse_rule(rule, "allow", "--allowed-tools") for rule in options.allowed_tools),
        deny=tuple(parse_rule(rule, "deny", "--disallowed-tools") for rule in options.disallowed_tools if "(" in rule),
        directories=workspace.roots,
        cwd=cwd,
        home=os.path.expanduser("~"),
        project_root=cwd,
        readable=(spill_folder,),
    )
    judge = Standing(policy, workspace.resolve)
    transcript = Transcript(log, clock)
    gear = Gear(
        tools=tools,
        gate=Gate(judge, questions, voice),
        workspace=workspace,
        transcript=transcript,
        spill=FileSpill(spill_folder),
        voice=voice,
        clock=clock,
        inbox=Inbox(),
        state=StateCell(AgentState(cwd)),
        agent=AgentId("main"),
    )
    around = await look_around(workspace, cwd)
    spec = AgentSpec(
        system=system_prompt(
            around=around,
            model=model,
            mode=judge.mode,
            replaced=options.system_prompt,
            appended=(options.append_system_prompt,) if options.append_system_prompt else (),
        ),
        max_steps=options.max_turns,
        max_cost_usd=options.max_budget_usd,
        thinking_tokens=options.thinking_tokens or 0,
        effort=options.effort,
    )
    agent = Agent(spec, model=model, provider=provider, gear=gear, specs=tools.specs, ids=ids, ledger=ledger)

    def started() -> SessionStarted:
        return SessionStarted(
            seq=bus.number(),
            origin=voice.origin,
            cwd=cwd,
            model=model,
            mode=judge.mode,
            tools=tuple(spec.name for spec in tools.specs()),
            key_source=access.key_source,
            transcript=log.path,
        )

    return Session(agent, bus, questions, started=started, set_mode=judge.set_mode, resources=stack.pop_all())


class Access(Struct, frozen=True):
    """Where models can be reached, and with which keys."""

    anthropic: Endpoint | None = None
    openai: Endpoint | None = None
    key_source: str = "none"
    own_provider: bool = False

    @classmethod
    def of(cls, options: Options, environ: Mapping[str, str]) -> "Access":
        """What the options and the environment give; raises `ConfigError` if that is nothing."""
        if options.provider is not None:
            return cls(own_provider=True)
        anthropic, openai = _anthropic_access(environ), _openai_access(environ)
        if options.base_url or options.api_key:
            return cls._given(options, environ)
        if anthropic is None and openai is None:
            raise ConfigError(
                "No model can be reached: there is no key.\n"
                "Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or OPENAI_BASE_URL for a local model "
                "(with --model NAME).\n"
                "To see tugline work without a key, run: tugline demo"
            )
        source = next((name for name in KEYS if environ.get(name)), "none")
        return cls(anthropic, openai, source)

    @classmethod
    def _given(cls, options: Options, environ: Mapping[str, str]) -> "Access":
        name, _, _ = (options.model or "").partition("/")
        speaks_openai = name == "openai" or (
            name != "anthropic" and (options.base_url or "").rstrip("/").endswith("/v1")
        )
        if speaks_openai:
            key = options.api_key or environ.get("OPENAI_API_KEY", "")
            return cls(None, Endpoint(base_url=options.base_url or OPENAI_URL, key=key), "api_key")
        key = options.api_key or environ.get("ANTHROPIC_API_KEY", "")
        return cls(Endpoint(base_url=options.base_url or ANTHROPIC_URL, key=key), None, "api_key")

    def default_model(self) -> str:
        """The model where nobody named one."""
        if self.own_provider or self.anthropic is not None:
            return "claude-sonnet-4-5"
        if self.openai is not None and self.openai.openai_itself:
            return "gpt-5"
        raise ConfigError("Say which model to use: --model NAME, or set TUGLINE_MODEL.")

    def small_model(self, model: str) -> str:
        """The model for errands."""
        return "claude-haiku-4-5" if self.anthropic is not None and model.startswith("claude") else model


ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY")


def _anthropic_access(environ: Mapping[str, str]) -> Endpoint | None:
    url, key, token = (
        environ.get(name, "").strip() for name in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    )
    if not (url or key or token):
        return None
    return Endpoint(base_url=url or ANTHROPIC_URL, key=key or token, auth="x-api-key" if key else "bearer")


def _openai_access(environ: Mapping[str, str]) -> Endpoint | None:
    url, key = (environ.get(name, "").strip() for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"))
    if not (url or key):
        return None
    return Endpoint(base_url=url or OPENAI_URL, key=key)


def make_provider(access: Access, catalog: Catalog, network: NetworkSettings, environ: Mapping[str, str]) -> Provider:
    """The adapters behind retries, chosen by model; none is made before it is needed."""
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
        if endpoint.openai_itself:
            from tugline.providers.openai_responses import (  # noqa: PLC0415  imported here: start-up cost
                OpenAIResponsesProvider,
            )

            return retried(endpoint, OpenAIResponsesProvider)
        from tugline.providers.openai_chat import OpenAIChatProvider  # noqa: PLC0415  imported here: start-up cost

        return retried(endpoint, OpenAIChatProvider)

    reachable = [name for name, given in (("anthropic", access.anthropic), ("openai", access.openai)) if given]
    return Router({"anthropic": anthropic, "openai": openai}, catalog.card, reachable=reachable)


def make_tools(options: Options, questions: Questions, errands: Errands, environ: Mapping[str, str]) -> Toolset:
    """The built-in tools that were chosen, and the caller's."""
    builtin: Sequence[Tool] = (
        Read(),
        Write(),
        Edit(),
        NotebookEdit(),
        Glob(),
        Grep(),
        Bash(is_read_only),
        TodoWrite(),
        AskUserQuestion(questions),
    )
    tools = Toolset(builtin)
    if options.builtin_tools is not None:
        tools = chosen(tools, options.builtin_tools)
    return without(joined(tools, options.tools), options.disallowed_tools)


def _folder(path: str) -> str:
    real = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(real):
        raise UsageError(f"{path} is not a folder.")
    return real


def _data_home(environ: Mapping[str, str]) -> str:
    home = environ.get("TUGLINE_HOME")
    return os.path.join(home, "data") if home else os.path.expanduser("~/.local/share/tugline")


def _slug(cwd: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in cwd)[-150:]
