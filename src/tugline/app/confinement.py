"""The sandbox of a session: what it is made for, who decides about hosts, what is said of it."""

import os
from collections.abc import Callable

from tugline.app.core import Core
from tugline.config.load import Config
from tugline.loop.voice import Voice
from tugline.protocol.errors import ConfigError
from tugline.protocol.ids import CallId
from tugline.rules.hosts import HostError, HostPolicy, read_policy
from tugline.rules.permission import Policy, hides, is_excluded
from tugline.runtime.host_gate import HostGate
from tugline.runtime.questions import Questions
from tugline.runtime.slash import SlashCommand
from tugline.runtime.standing import Standing
from tugline.tools.builtin.bash import InSandbox
from tugline.workspaces.denied_files import DeniedFiles
from tugline.workspaces.layout import Grounds
from tugline.workspaces.sandbox import Condition, HostsOf, Sandbox

_DOMAIN = "domain:"


def make_sandbox(core: Core, policy: Policy, hosts: HostsOf) -> Sandbox | None:
    """The sandbox that the settings ask for; `None` where they ask for none."""
    config = core.config
    if not config.settings.sandbox.enabled:
        return None
    return Sandbox(
        make_grounds(config, policy, kept=core.kept),
        above=sandbox_folder(config),
        hosts=hosts,
        environ=core.environ,
        unix_sockets=config.settings.sandbox.network.allow_all_unix_sockets,
    )


def sandbox_folder(config: Config) -> str:
    """Where sandboxes keep what they need while they are in use."""
    return os.path.join(config.folders.cache, "sandbox")


def make_grounds(config: Config, policy: Policy, *, kept: str = "") -> Grounds:
    """What commands may write and must not see. The roots are fixed here, whatever happens later."""
    given, folders = config.settings.sandbox, config.folders
    reading = any(rule.tool == "Read" and rule.path is not None for rule in policy.deny)
    # our own data holds what other sessions have read, and logs
    private = (folders.sessions, os.path.join(folders.data, "logs"))
    return Grounds(
        roots=policy.directories,
        home=config.home,
        writable=_paths(config, given.allow_write),
        read_only=_paths(config, given.deny_write),
        hidden=(*_paths(config, given.deny_read), *private),
        shown=(kept,) if kept else (),
        own=(folders.config, folders.data, folders.cache, folders.claude),
        denied=DeniedFiles(policy.directories, lambda name, target: hides(policy, name, target) is not None)
        if reading
        else None,
    )


def _paths(config: Config, entries: tuple[str, ...]) -> tuple[str, ...]:
    """As in rules: `//x` and `/x` are absolute, `~/x` lies at home, all else in the project."""
    found: list[str] = []
    for entry in entries:
        path = os.path.expanduser(entry) if entry == "~" or entry.startswith("~/") else entry
        absolute = "/" + path.lstrip("/") if path.startswith("/") else os.path.join(config.project_root, path)
        found.append(os.path.normpath(absolute.removesuffix("/**").removesuffix("/*") or "/"))
    return tuple(found)


class Hosts:
    """The hosts that the settings and the session's rules allow, made anew whenever the rules are others."""

    def __init__(self, config: Config, questions: Questions, voice: Voice) -> None:
        self._network = config.settings.sandbox.network
        self._questions = questions
        self._voice = voice
        self._standing: Standing | None = None
        self._made: tuple[Policy, HostPolicy] | None = None

    def stand_on(self, standing: Standing) -> None:
        """The rules of the session; before, nothing is allowed. Raises `ConfigError` for an entry that is no host."""
        self._standing = standing
        try:
            self.policy()
        except HostError as error:
            raise ConfigError(f"sandbox.network: {error}") from None

    def policy(self) -> HostPolicy:
        """What stands now."""
        if self._standing is None:
            return HostPolicy()
        rules = self._standing.policy
        if self._made is None or self._made[0] is not rules:
            allowed = (*self._network.allowed_domains, *_domains(rules.allow))
            denied = (*self._network.denied_domains, *_domains(rules.deny))
            self._made = (rules, read_policy(allowed, denied))
        return self._made[1]

    def of_call(self, call: CallId) -> HostGate | None:
        """Who decides for a call; `None` where nothing could be reached anyway."""
        asks = self._network.ask and self._questions.attended
        if self._standing is None or not (asks or self.policy().allowed):
            return None
        return HostGate(call, self.policy, self._standing, self._questions if asks else None, self._voice)


def _domains(rules: tuple[object, ...]) -> list[str]:
    specs = [getattr(rule, "spec", None) for rule in rules if getattr(rule, "tool", "") == "WebFetch"]
    return [spec.removeprefix(_DOMAIN) for spec in specs if spec is not None and spec.startswith(_DOMAIN)]


def told_of_sandbox(config: Config, sandbox: Sandbox | None, condition: Condition, hosts: Hosts) -> InSandbox | None:
    """What the model is told; nothing where there is no sandbox."""
    if sandbox is None or not condition.works:
        return None
    given = config.settings.sandbox
    patterns = given.excluded_commands
    named = ", ".join((*given.network.allowed_domains, *_domains(config.allow)))
    asked = "the user is asked about" if given.network.ask else "closed are"
    network = f"The network is reached through the proxy that HTTPS_PROXY names: open is {named or 'no host'}; "
    network += f"{asked} others."
    return InSandbox(
        network,
        writable=(*sandbox.grounds.roots, *sandbox.grounds.writable),
        escape=given.allow_unsandboxed_commands,
        excludes=(lambda command: is_excluded(command, patterns, config.cwd)) if patterns else lambda command: False,
    )


def said_of_sandbox(config: Config, condition: Condition) -> tuple[str, ...]:
    """What a person has to know at the start."""
    if condition.works or not config.settings.sandbox.enabled:
        if config.settings.sandbox.required and not config.settings.sandbox.enabled:
            return ("sandbox.required does nothing while sandbox.enabled is off: commands run without a sandbox.",)
        return ()
    if config.settings.sandbox.required:
        return (f"No sandbox, so shell commands are refused (sandbox.required). {condition}",)
    return (f"No sandbox: commands run without it, and what does more than read is asked about. {condition}",)


def sandbox_status(config: Config, condition: Condition) -> str:
    """`on`, why not, or nothing where the settings ask for none."""
    if not config.settings.sandbox.enabled:
        return ""
    return "on" if condition.works else f"does not work: {condition}"


def sandbox_command(config: Config, sandbox: Sandbox | None, condition: Condition, hosts: Hosts) -> SlashCommand:
    """`/sandbox`: what holds shell commands in this session."""

    async def answer(words: str) -> str:
        if sandbox is None:
            return "Shell commands run without a sandbox. The setting sandbox.enabled switches it on."
        if not condition.works:
            refused = "Shell commands are refused. " if config.settings.sandbox.required else ""
            return f"The sandbox does not work here. {refused}{condition}"
        return "\n".join(_described(config, sandbox, hosts))

    return SlashCommand("sandbox", "what holds shell commands", answer)


def _described(config: Config, sandbox: Sandbox, hosts: Hosts) -> list[str]:
    given = config.settings.sandbox
    allowed = [*given.network.allowed_domains, *_domains(config.allow)]
    yes: Callable[[bool], str] = lambda on: "yes" if on else "no"  # noqa: E731
    return [
        "Shell commands run in the sandbox.",
        f"- they may write: {', '.join((*sandbox.grounds.roots, *sandbox.grounds.writable))}, and a /tmp of their own",
        f"- they may reach: {', '.join(allowed) or 'no host'}; others are asked about: {yes(given.network.ask)}",
        f"- outside by the settings: {', '.join(given.excluded_commands) or 'none'}",
        f"- without a question inside: {yes(given.auto_allow)}; may ask to run outside: "
        f"{yes(given.allow_unsandboxed_commands)}",
    ]
