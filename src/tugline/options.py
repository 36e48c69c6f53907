"""What a session may be asked to be: the options, and what is wrong with those given."""

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from msgspec import Struct, structs

from tugline.ports import Provider, Tool
from tugline.protocol.errors import UsageError
from tugline.protocol.hooks import HookInput
from tugline.protocol.specs import Effort, Mode
from tugline.protocol.trust import TrustAnswer, TrustQuestion
from tugline.rules.rule import RuleError, parse_rule
from tugline.runtime.attendant import PermissionTool

SOURCES = ("user", "project", "local")
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FILE_NAME = re.compile(r"(?!\.{1,2}\Z)[^/\0]{1,100}")
_LISTS = (
    "add_dirs", "tools", "builtin_tools", "allowed_tools", "disallowed_tools", "setting_sources",
    "instruction_files",
)  # fmt: skip
_TEXTS = (
    "model", "fallback_model", "base_url", "api_key", "system_prompt", "append_system_prompt", "session_id", "resume",
    "title",
)  # fmt: skip
_NAMES = ("model", "fallback_model", "base_url")
_SWITCHES = ("attended", "debug", "continue_session", "fork_session", "no_hooks", "titles")
_PATHS = ("cwd", "record")


class HookMatch(Struct, frozen=True):
    """A function that runs at an event: for what the matcher names, or calls that a permission rule speaks of. It may
    take `timeout` seconds (60); with `block_on_failure` what it was asked about is blocked where it fails."""

    callback: Callable[[HookInput], Any]
    matcher: str = ""
    timeout: float | None = None
    rule: str = ""
    block_on_failure: bool = False


TrustCallback = Callable[[TrustQuestion], "TrustAnswer | bool | Awaitable[TrustAnswer | bool]"]
"""Says whether a folder is trusted. May be async."""


class Options(Struct, frozen=True, kw_only=True):
    """What a session is made of, where it differs from the settings. `None` means: as the settings say.

    `tools` are further tools of the caller's; `builtin_tools` chooses among the built-in ones (`None`: all).
    `trust` says whether the folder's own settings count: true or false for this session, or a callable that is asked
    a `TrustQuestion` before it begins where something is new, and answers true, false or `TrustAnswer`; `None`: what
    was approved before. `resume` goes on with a session: its id, the beginning of it, or words of its title or first
    prompt; `continue_session` with the one of this project that was used last; `fork_session` with a copy. `title` is
    its name; `titles`: a small model names it on the side, if nobody else does. `permission_tool` is asked for
    permissions before, or beside, a person: `Allow`, `Deny`, true, false, or `None` for no opinion.
    `settings` is a settings file's path, or settings themselves. `setting_sources` names which settings files count
    (`user`, `project`, `local`; `None`: all that the folder's trust allows). `hooks` are
    further hooks, of the caller's own; `no_hooks` leaves out those of the settings. `instruction_files` names the files
    of instructions that are read in place of `AGENTS.md` and `CLAUDE.md`; empty: none. `record` is a file that the
    session's replies are saved to as a script. `environ` stands in for the process's environment. `debug` is the
    command's.
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
    instruction_files: tuple[str, ...] | None = None
    hooks: tuple[tuple[str, HookMatch], ...] = ()
    no_hooks: bool = False
    trust: bool | TrustCallback | None = None
    permission_tool: PermissionTool | None = None
    attended: bool = False
    session_id: str | None = None
    resume: str | None = None
    continue_session: bool = False
    fork_session: bool = False
    title: str | None = None
    titles: bool = False
    record: str | None = None
    debug: bool = False
    environ: Mapping[str, str] | None = None


def make_options(given: Mapping[str, Any]) -> Options:
    """`Options` from keywords; `UsageError` names what is wrong, and the nearest right word for an unknown one."""
    options = structs.replace(Options(), **{name: _checked(name, value) for name, value in given.items()})
    _check_together(options)
    return options


def _check_together(options: Options) -> None:
    resumes = options.resume is not None or options.continue_session
    if options.resume is not None and options.continue_session:
        raise UsageError("resume and continue_session cannot both be given.")
    if options.fork_session and not resumes:
        raise UsageError("fork_session needs resume or continue_session.")
    if resumes and options.session_id is not None and not options.fork_session:
        raise UsageError("A session that is resumed keeps its id; a new id needs fork_session.")


_KINDS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (_SWITCHES, lambda value: isinstance(value, bool), "true or false"),
    (("trust",), lambda value: isinstance(value, bool) or callable(value), "true, false or a callable"),
    (("permission_tool",), callable, "a callable"),
    (_TEXTS, lambda value: isinstance(value, str), "text"),
    (_NAMES, lambda value: value.isprintable(), "printable text"),
    (("environ",), lambda value: isinstance(value, Mapping), "a mapping of names to values"),
    (("provider",), lambda value: callable(getattr(value, "stream", None)), "a provider (see tugline.Provider)"),
)
"""What the value of an option has to be, in words for who gave another one."""


def _checked(name: str, value: Any) -> Any:
    known = Options.__struct_fields__
    if name not in known:
        near = get_close_matches(name, known, 1)
        raise UsageError(f"There is no option {name}.{f' Did you mean {near[0]}?' if near else ''}")
    if value is None:
        return None
    if name in _LISTS or name == "hooks":
        return _checked_hooks(value) if name == "hooks" else _checked_list(name, value)
    if name in _PATHS or (name == "settings" and isinstance(value, os.PathLike)):
        if not isinstance(value, str | os.PathLike):
            raise _wrong(name, "a path", value)
        return os.fspath(value)
    for names, fits, expected in _KINDS:
        if name in names and not fits(value):
            raise _wrong(name, expected, value)
    if name == "permission_mode":
        value = "default" if value == "manual" else value
        return _one_of(name, value, get_args(Mode))
    if name == "effort":
        return _one_of(name, value, get_args(Effort))
    if name == "session_id" and not _SESSION_ID.fullmatch(value):
        raise UsageError("session_id must be letters, digits, - and _, at most 64, such as a UUID.")
    return _checked_number(name, value)


def _checked_number(name: str, value: Any) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    whole = number and not isinstance(value, float)
    if name == "max_turns" and not (whole and value >= 1):
        raise _wrong(name, "a whole number of at least 1", value)
    if name == "thinking_tokens" and not (whole and value >= 0):
        raise _wrong(name, "a whole number, 0 for none", value)
    if name == "max_budget_usd" and not (number and value > 0):
        raise _wrong(name, "a number above 0", value)
    return value


def _checked_list(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{name} takes a list, not {_described(value)}.")
    for item in value:
        if name == "tools":
            _require_tool(item)
        elif not isinstance(item, str | os.PathLike):
            raise UsageError(f"{name} takes a list of texts; {_described(item)} is none.")
        elif name == "setting_sources":
            _one_of(name, item, SOURCES)
        elif name == "instruction_files" and not _FILE_NAME.fullmatch(os.fspath(item)):
            raise UsageError(f"instruction_files takes names of files without folders, not {_described(item)}.")
    return tuple(item if name == "tools" else os.fspath(item) for item in value)


def _checked_hooks(value: Any) -> tuple[tuple[str, HookMatch], ...]:
    """Functions by event, each plain or as a `HookMatch`, one or several."""
    if not isinstance(value, Mapping):
        raise UsageError(f"hooks takes a dict from events to functions, not {_described(value)}.")
    from tugline.rules.hook_events import EVENTS, nearest  # noqa: PLC0415  imported here: start-up cost

    found: list[tuple[str, HookMatch]] = []
    for event, given in value.items():
        if event not in EVENTS:
            near = nearest(str(event))
            raise UsageError(f"hooks: there is no event {event}.{f' Did you mean {near}?' if near else ''}")
        for one in given if isinstance(given, list | tuple) else [given]:
            found.append((event, _checked_hook(event, one)))
    return tuple(found)


def _checked_hook(event: str, given: Any) -> HookMatch:
    from tugline.rules.hook_events import TOOL_EVENTS  # noqa: PLC0415  imported here: start-up cost
    from tugline.rules.hook_matching import MatcherError, check_matcher  # noqa: PLC0415  imported here: start-up cost

    hook = given if isinstance(given, HookMatch) else HookMatch(given)
    if not callable(hook.callback):
        raise UsageError(f"hooks: {event} takes functions, not {_described(hook.callback)}.")
    seconds: Any = hook.timeout
    if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
        raise UsageError(f"hooks: the timeout for {event} must be a number above 0, not {_described(seconds)}.")
    try:
        check_matcher(event, hook.matcher)
        if hook.rule and event not in TOOL_EVENTS:
            raise UsageError(f"hooks: a rule has no meaning for {event}.")
        if hook.rule:
            parse_rule(hook.rule, "deny")
    except (MatcherError, RuleError) as error:
        raise UsageError(f"hooks: {event}: {error}.") from None
    return hook


def _require_tool(item: Any) -> None:
    if all(hasattr(item, attribute) for attribute in ("name", "spec", "parse", "footprint", "run")):
        return
    if callable(item):
        name = getattr(item, "__name__", "it")
        raise UsageError(f"tools: {name} is a plain function; make it a tool with @tugline.tool.")
    raise _wrong("tools", "tools", item)


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return str(value)


def _wrong(name: str, expected: str, value: Any) -> UsageError:
    return UsageError(f"{name} must be {expected}, not {_described(value)}.")


def _described(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
