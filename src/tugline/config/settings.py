"""Every setting with its type, default and meaning. The JSON schema and the reference are made from this."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from tugline.protocol.specs import Effort, Mode

Seconds = Annotated[float, Meta(gt=0)]
Dollars = Annotated[float, Meta(gt=0)]
Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0)]


class Network(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How long to wait for a model's provider, and how often to try again."""

    idle_timeout: Annotated[
        float, Meta(gt=0, description="Seconds without content before a stream counts as broken")
    ] = 120.0
    first_byte_timeout: Annotated[
        Seconds | None, Meta(description="Seconds to the first byte; default: idleTimeout, 60 at most")
    ] = None
    retry_base: Annotated[float, Meta(ge=0, description="Seconds before the first retry; doubles, with jitter")] = 0.5
    max_retries: Annotated[int, Meta(ge=0, description="Retries after the first request")] = 8
    retry_budget: Annotated[float, Meta(ge=0, description="Seconds in all for the tries of one step")] = 300.0

    @property
    def first_byte(self) -> float:
        """Seconds to wait for the first byte."""
        return self.first_byte_timeout if self.first_byte_timeout is not None else min(60.0, self.idle_timeout)


class Endpoint(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How to reach a provider. Keys come from the environment only."""

    base_url: Annotated[str | None, Meta(description="Where it is; Anthropic without /v1, OpenAI with it")] = None
    auth_header: Annotated[
        str | None, Meta(description="The header that carries the key; default: the provider's own")
    ] = None
    api_version: Annotated[str | None, Meta(description="The version of its API to ask for")] = None
    headers: Annotated[dict[str, str], Meta(description="More headers for each request")] = {}
    api: Annotated[
        Literal["responses", "chat"] | None,
        Meta(description="Which API of OpenAI; default: responses at OpenAI itself, else chat"),
    ] = None


class Providers(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The providers' endpoints."""

    anthropic: Endpoint = Endpoint()
    openai: Endpoint = Endpoint()


class Permissions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What may run without a question, what is asked about, what is denied."""

    allow: Annotated[tuple[str, ...], Meta(description="Rules for what needs no question")] = ()
    ask: Annotated[tuple[str, ...], Meta(description="Rules for what is always asked about")] = ()
    deny: Annotated[tuple[str, ...], Meta(description="Rules for what is never done")] = ()
    default_mode: Annotated[Mode, Meta(description="The permission mode that a session begins in")] = "default"
    additional_directories: Annotated[
        tuple[str, ...], Meta(description="Folders that count as the working folder for the rules")
    ] = ()
    disable_bypass_permissions_mode: Annotated[
        Literal["disable"] | None, Meta(description="`disable` takes the mode bypassPermissions away")
    ] = None
    disable_auto_mode: Annotated[Literal["disable"] | None, Meta(description="`disable` takes the mode auto away")] = (
        None
    )


class AutoMode(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The mode auto, in which a model decides what would be asked."""

    model: Annotated[str | None, Meta(description="The model that decides; default: the small one for errands")] = None
    timeout: Annotated[float, Meta(gt=0, description="Seconds for its answer; without one a person is asked")] = 20.0
    denials_in_row: Annotated[
        Positive, Meta(description="After so many denials in a row a person is asked instead")
    ] = 3
    denials_in_all: Annotated[Positive, Meta(description="After so many denials in all a person is asked instead")] = 20


class Limits(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a run ends by itself."""

    max_turns: Annotated[Positive | None, Meta(description="Requests to the model for one prompt")] = None
    max_budget_usd: Annotated[Dollars | None, Meta(description="Cost of a session in US dollars")] = None
    parallel_calls: Annotated[int, Meta(ge=1, le=100, description="Tool calls that run at the same time")] = 10
    thinking_tokens: Annotated[int, Meta(ge=0, description="Tokens for thinking; 0 is off")] = 0


class Tools(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How tools run."""

    start_while_streaming: Annotated[
        bool, Meta(description="Calls that change nothing start while the model still talks")
    ] = True
    result_limit: Annotated[
        int, Meta(ge=1000, description="Characters of a result before the whole goes to a file instead")
    ] = 30_000


class Shell(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How shell commands run."""

    timeout: Annotated[float, Meta(gt=0, description="Seconds that a command may take by default")] = 120.0
    max_timeout: Annotated[float, Meta(gt=0, description="Seconds that a command may be given at most")] = 600.0
    background_on_timeout: Annotated[
        bool, Meta(description="In the terminal app a command that takes too long moves to the background")
    ] = False
    environment: Annotated[
        Literal["inherit", "listed"],
        Meta(description="What commands get: the environment less its secrets, or only keepEnvironment"),
    ] = "inherit"
    keep_environment: Annotated[
        tuple[str, ...], Meta(description="Variables that commands get whatever their names look like")
    ] = ()


class Background(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Work that nobody waits for."""

    enabled: Annotated[bool, Meta(description="Whether commands and agents may run in the background")] = True
    shell_grace: Annotated[
        float, Meta(ge=0, description="Seconds that commands in the background get after the answer of a headless run")
    ] = 5.0


class SandboxNetwork(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What sandboxed commands may reach."""

    allowed_domains: Annotated[
        tuple[str, ...],
        Meta(description="Hosts: example.com, *.example.com for what lies below it, example.com:8443, 10.0.0.0/8, *"),
    ] = ()
    denied_domains: Annotated[tuple[str, ...], Meta(description="Hosts that are never reached; they win")] = ()
    ask: Annotated[bool, Meta(description="Ask about a host that neither list names, where somebody can be asked")] = (
        True
    )
    allow_all_unix_sockets: Annotated[
        bool, Meta(description="Commands may make Unix sockets, and reach services of this machine through them")
    ] = False


class Sandbox(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The operating system's limits for shell commands."""

    enabled: Annotated[bool, Meta(description="Run shell commands in the sandbox")] = False
    required: Annotated[bool, Meta(description="Refuse shell commands where the sandbox does not work")] = False
    auto_allow: Annotated[bool, Meta(description="What runs in the sandbox needs no question")] = True
    allow_unsandboxed_commands: Annotated[
        bool, Meta(description="The model may ask to run a command outside; each is asked about")
    ] = True
    excluded_commands: Annotated[
        tuple[str, ...], Meta(description='Commands that run outside, by the usual rules, such as "docker *"')
    ] = ()
    allow_write: Annotated[
        tuple[str, ...], Meta(description="Folders that commands may write, beside the allowed directories")
    ] = ()
    deny_write: Annotated[tuple[str, ...], Meta(description="Files and folders there that they may not write")] = ()
    deny_read: Annotated[
        tuple[str, ...], Meta(description="Files and folders that they may not read, beside known credentials")
    ] = ()
    network: SandboxNetwork = SandboxNetwork()


class WebFetch(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What WebFetch may reach."""

    allow_private: Annotated[bool, Meta(description="Also addresses of the local network and this machine")] = False


FileName = Annotated[str, Meta(pattern=r"^(?!\.{1,2}$)[^/\x00]{1,100}$")]


class Context(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What goes into the prompt from files."""

    instructions: Annotated[bool, Meta(description="Whether files of instructions are read")] = True
    file_names: Annotated[
        tuple[FileName, ...], Meta(description="The names of files of instructions, in their order in a folder")
    ] = ("AGENTS.md", "CLAUDE.md")
    file_tokens: Annotated[int, Meta(ge=100, description="Tokens of one file of instructions that are loaded")] = 10_000
    total_tokens: Annotated[
        int, Meta(ge=100, description="Tokens of all of them; never more than a quarter of the model's window")
    ] = 25_000
    external_imports: Annotated[
        tuple[str, ...],
        Meta(description="Places outside a project that its files may import; user settings only"),
    ] = ()


class Sessions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is kept of sessions, and how."""

    titles: Annotated[
        bool, Meta(description="A small model names sessions on the side, where somebody may come back to them")
    ] = True


class Compaction(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How a long conversation is kept within the window."""

    auto: Annotated[
        bool, Meta(description="Shorten the conversation by itself; without it only /compact and /snip do")
    ] = True
    threshold: Annotated[
        Annotated[int, Meta(ge=1000)] | None,
        Meta(description="Tokens from which it is summarised; default, and the most: what the window allows"),
    ] = None
    buffer: Annotated[int, Meta(ge=0, description="Tokens kept free below the size at which requests are refused")] = (
        10_000
    )
    trim: Annotated[bool, Meta(description="Old results of calls that can be made again give way to a line")] = True
    fold: Annotated[bool, Meta(description="Finished work is folded to its outcome before a summary is needed")] = True
    keep_results: Annotated[int, Meta(ge=0, description="Of such results so many, the last ones, stay as they are")] = 6
    words_tokens: Annotated[
        int, Meta(ge=0, description="Tokens of your own words that a summary keeps word for word; the newest first")
    ] = 20_000
    files: Annotated[int, Meta(ge=0, le=100, description="Files read last that are shown again after a summary")] = 5
    files_tokens: Annotated[int, Meta(ge=0, description="Tokens of all of these together")] = 25_000


class Checkpoints(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is kept so that changes of files can be taken back."""

    enabled: Annotated[bool, Meta(description="Whether former contents of files are kept at all")] = True
    commands: Annotated[
        bool, Meta(description="Whether git work trees are looked at, to take back what shell commands change")
    ] = True
    max_file_bytes: Annotated[int, Meta(ge=0, description="Bytes of the largest file whose content is kept")] = (
        33_554_432
    )
    max_files: Annotated[
        int, Meta(ge=0, description="Files in a work tree beyond which shell commands cannot be taken back")
    ] = 50_000
    session_bytes: Annotated[
        int, Meta(ge=0, description="Bytes that a session may have looked into again because they changed")
    ] = 1_073_741_824
    seconds: Annotated[float, Meta(gt=0, description="Seconds that a look at a work tree may take")] = 10.0


class PriceSetting(Struct, frozen=True, rename="camel", omit_defaults=True):
    """US dollars per million tokens; the cache's as multiples of the input price."""

    input: NotNegative = 0.0
    output: NotNegative = 0.0
    cache_write: NotNegative = 1.25
    cache_read: NotNegative = 0.1


class ModelSetting(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What to know of a model beside or against the catalogue. `None`: as the catalogue says."""

    provider: str | None = None
    window: Annotated[int, Meta(ge=1024)] | None = None
    output_limit: Positive | None = None
    output_ceiling: Annotated[int, Meta(ge=0)] | None = None
    price: PriceSetting | None = None
    images: bool | None = None
    documents: bool | None = None
    thinking: bool | None = None
    tools: bool | None = None
    text_calls: Annotated[bool | None, Meta(description="It writes tool calls as text, which is read as calls")] = None
    efforts: tuple[Effort, ...] | None = None


class HookEntry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One hook."""

    type: Annotated[Literal["command", "prompt", "http", "agent"], Meta(description="What kind of hook it is")]
    command: Annotated[str, Meta(description="A shell command, or with args a program; gets JSON on stdin")] = ""
    args: Annotated[tuple[str, ...] | None, Meta(description="Arguments of the program, which no shell sees then")] = (
        None
    )
    shell: Annotated[Literal["bash", "powershell", ""], Meta(description="The shell; default: bash")] = ""
    url: Annotated[str, Meta(description="Where an http hook posts the JSON")] = ""
    headers: Annotated[dict[str, str], Meta(description="Headers of that; may name variables as $NAME")] = {}
    allowed_env_vars: Annotated[tuple[str, ...], Meta(description="Variables that headers may name")] = ()
    prompt: Annotated[str, Meta(description="What a model is to judge; $ARGUMENTS stands for the JSON")] = ""
    model: Annotated[str, Meta(description="The model that judges; default: a small one")] = ""
    rule: Annotated[str, Meta(description="A permission rule: only calls that it speaks of")] = field(
        name="if", default=""
    )
    timeout: Annotated[Seconds | None, Meta(description="Seconds until it is ended")] = None
    background: Annotated[bool, Meta(description="It runs beside the turn")] = field(name="async", default=False)
    async_rewake: Annotated[bool, Meta(description="The same, and exit status 2 tells the model")] = False
    once: Annotated[bool, Meta(description="It runs once in a session")] = False
    status_message: Annotated[str, Meta(description="What is shown while it runs")] = ""


class HookGroup(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Hooks with the matcher that they share."""

    matcher: Annotated[str | None, Meta(description="Names, or a regular expression; empty or *: all")] = None
    hooks: Annotated[tuple[HookEntry, ...], Meta(description="What runs, at the same time")] = ()


class HookLimits(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How long hooks may take that do not say so themselves, in seconds, and where http hooks may go."""

    command: Annotated[Seconds, Meta(description="Seconds for a command or an http request")] = 600.0
    agent: Annotated[Seconds, Meta(description="Seconds for an agent that judges")] = 60.0
    callback: Annotated[Seconds, Meta(description="Seconds for a function of the library's caller")] = 60.0
    prompt: Annotated[Seconds, Meta(description="Seconds for a model that judges")] = 30.0
    user_prompt_submit: Annotated[Seconds, Meta(description="Seconds for any hook of UserPromptSubmit")] = 30.0
    session_end: Annotated[Seconds, Meta(description="Seconds for all hooks of SessionEnd together")] = 1.5


Event = Annotated[str, Meta(description="The name of an event")]


class Settings(Struct, frozen=True, rename="camel", omit_defaults=True):
    """All settings of one process."""

    model: Annotated[str | None, Meta(description="The model to use, or an alias of one")] = None
    fallback_model: Annotated[str | None, Meta(description="The model to use while that one is overloaded")] = None
    effort: Annotated[Effort | None, Meta(description="How hard the model thinks")] = None
    models: Annotated[dict[str, ModelSetting], Meta(description="Limits, prices and abilities of models, by name")] = {}
    model_aliases: Annotated[dict[str, str], Meta(description="Short names of models")] = {}
    providers: Providers = Providers()
    network: Network = Network()
    permissions: Permissions = Permissions()
    auto_mode: AutoMode = AutoMode()
    limits: Limits = Limits()
    tools: Tools = Tools()
    shell: Shell = Shell()
    background: Background = Background()
    sandbox: Sandbox = Sandbox()
    web_fetch: WebFetch = WebFetch()
    context: Context = Context()
    hooks: Annotated[
        dict[Event, tuple[HookGroup, ...]], Meta(description="What runs at which event; see the page on hooks")
    ] = {}
    hook_limits: HookLimits = HookLimits()
    allowed_http_hook_urls: Annotated[
        tuple[str, ...] | None,
        Meta(description="The only URLs that http hooks may reach, * for anything; default: public hosts and loopback"),
    ] = None
    disable_all_hooks: Annotated[bool, Meta(description="No hook runs; in managed policy not even its own")] = False
    allow_managed_hooks_only: Annotated[
        bool, Meta(description="Only hooks of the managed policy run; counts there only")
    ] = False
    sessions: Sessions = Sessions()
    compaction: Compaction = Compaction()
    checkpoints: Checkpoints = Checkpoints()
    env: Annotated[dict[str, str], Meta(description="Variables for shell commands and servers")] = {}
    theme: Annotated[str, Meta(description="Colours of the terminal app")] = "auto"
    trusted_folders: Annotated[
        tuple[str, ...], Meta(description="Folders whose project settings count without asking; user settings only")
    ] = ()


FOREIGN = frozenset(
    [
        "$schema",
        "apiKeyHelper",
        "cleanupPeriodDays",
        "includeCoAuthoredBy",
        "attribution",
        "statusLine",
        "outputStyle",
        "forceLoginMethod",
        "forceLoginOrgUUID",
        "enableAllProjectMcpServers",
        "enabledMcpjsonServers",
        "disabledMcpjsonServers",
        "allowedMcpServers",
        "deniedMcpServers",
        "awsAuthRefresh",
        "awsCredentialExport",
        "enabledPlugins",
        "extraKnownMarketplaces",
        "strictKnownMarketplaces",
        "alwaysThinkingEnabled",
        "spinnerTipsEnabled",
        "autoUpdatesChannel",
        "companyAnnouncements",
        "otelHeadersHelper",
        "language",
        "availableModels",
        "fileSuggestion",
        "respectGitignore",
        "plansDirectory",
        "showTurnDuration",
        "terminalProgressBarEnabled",
        "prefersReducedMotion",
        "teammateMode",
        "fastMode",
        "autoMemoryEnabled",
        "autoMemoryDirectory",
        "editorMode",
        "verbose",
        "defaultShell",
        "worktree",
        "spinnerVerbs",
        "skipDangerousModePermissionPrompt",
    ]
)
"""Names that settings of other tools have and that mean nothing here yet: no reason for a warning."""
FOREIGN_PERMISSIONS = frozenset(["skipAutoPermissionPrompt"])
FOREIGN_SANDBOX = frozenset(
    [
        "allowUnixSockets",
        "allowLocalBinding",
        "allowMachLookup",
        "allowManagedDomainsOnly",
        "allowManagedReadPathsOnly",
        "allowRead",
        "httpProxyPort",
        "socksProxyPort",
        "enableWeakerNestedSandbox",
        "enableWeakerNetworkIsolation",
        "ignoreViolations",
        "ripgrep",
    ]
)
OTHER_SPELLINGS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("sandbox", "autoAllowBashIfSandboxed"): ("sandbox", "autoAllow"),
    ("sandbox", "failIfUnavailable"): ("sandbox", "required"),
    ("sandbox", "filesystem", "allowWrite"): ("sandbox", "allowWrite"),
    ("sandbox", "filesystem", "denyWrite"): ("sandbox", "denyWrite"),
    ("sandbox", "filesystem", "denyRead"): ("sandbox", "denyRead"),
}
"""Other tools' names of settings of ours. Where both stand in one file, ours counts."""
