"""The sandbox of a session: what it is made for, who decides about hosts, what is said of it."""

import os

from tugline.app.core import Core
from tugline.config.load import Config
from tugline.loop.voice import Voice
from tugline.protocol.errors import ConfigError
from tugline.protocol.ids import CallId
from tugline.rules.hosts import HostError, HostPolicy, read_policy
from tugline.rules.permission import Policy, hides, is_excluded
from tugline.runtime.host_gate import HostGate
from tugline.runtime.questions import Questions
from tugline.runtime.standing import Standing
from tugline.tools.builtin.bash import InSandbox
from tugline.workspaces.denied_files import DeniedFiles
from tugline.workspaces.layout import Grounds
from tugline.workspaces.sandbox import Condition, Sandbox

_DOMAIN = "domain:"


class Hold:
    """The sandbox of a session whose settings ask for one, and what is said of it to the model and the person."""

    def __init__(self, core: Core, policy: Policy, questions: Questions) -> None:
        config = core.config
        self._config = config
        self._hosts = Hosts(config, questions, core.voice)
        self.condition = Condition(False)
        self.sandbox = Sandbox(
            make_grounds(config, policy, kept=core.kept),
            above=sandbox_folder(config),
            hosts=self._hosts.of_call,
            environ=core.environ,
            unix_sockets=config.settings.sandbox.network.allow_all_unix_sockets,
        )

    async def probe(self) -> None:
        """Try whether it works here."""
        self.condition = await self.sandbox.probe()

    @property
    def allows(self) -> bool:
        """Whether what runs inside needs no question."""
        return self.condition.works and self._config.settings.sandbox.auto_allow

    def stand_on(self, standing: Standing) -> None:
        """The rules of the session, which say of hosts too."""
        self._hosts.stand_on(standing)

    def told(self) -> InSandbox | None:
        """What the model is told; nothing where it does not work."""
        if not self.condition.works:
            return None
        given, config = self._config.settings.sandbox, self._config
        patterns = given.excluded_commands
        named = ", ".join((*given.network.allowed_domains, *_domains(config.allow)))
        others = "the user is asked about others" if given.network.ask else "others are closed"
        return InSandbox(
            f"The network is reached through the proxy that HTTPS_PROXY names: open is {named or 'no host'}; {others}.",
            writable=(*self.sandbox.grounds.roots, *self.sandbox.grounds.writable),
            escape=given.allow_unsandboxed_commands,
            excludes=lambda command: bool(patterns) and is_excluded(command, patterns, config.cwd),
        )

    def notices(self) -> tuple[str, ...]:
        """What a person has to know at the start."""
        if self.condition.works:
            return ()
        if self._config.settings.sandbox.required:
            return (f"No sandbox, so shell commands are refused (sandbox.required). {self.condition}",)
        return (f"No sandbox: commands run without it, and what does more than read is asked about. {self.condition}",)

    @property
    def status(self) -> str:
        """`on`, or why not."""
        return "on" if self.condition.works else f"does not work: {self.condition}"

    def described(self) -> str:
        """What holds commands, for `/sandbox`."""
        given = self._config.settings.sandbox
        if not self.condition.works:
            refused = "Shell commands are refused. " if given.required else ""
            return f"The sandbox does not work here. {refused}{self.condition}"
        allowed = ", ".join((*given.network.allowed_domains, *_domains(self._config.allow))) or "no host"
        writable = ", ".join((*self.sandbox.grounds.roots, *self.sandbox.grounds.writable))
        outside = ", ".join(given.excluded_commands) or "none"
        lines = (
            "Shell commands run in the sandbox.",
            f"- they may write: {writable}, and a /tmp of their own",
            f"- they may reach: {allowed}; others are asked about: {_yes(given.network.ask)}",
            f"- outside by the settings: {outside}",
            f"- without a question inside: {_yes(given.auto_allow)}; may ask to run outside: "
            f"{_yes(given.allow_unsandboxed_commands)}",
        )
        return "\n".join(lines)


def _yes(on: bool) -> str:
    return "yes" if on else "no"


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
