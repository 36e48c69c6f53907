"""Layers of settings merged into one: defaults < user < project < local < environment < command line < managed."""

import os
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from tugline.config.folders import Folders, find_folders, find_project_root
from tugline.config.settings import Settings
from tugline.config.sources import (
    HOOKS,
    Path,
    Problem,
    Source,
    check,
    leaves,
    read_environment,
    read_file,
    read_json,
    read_model_variable,
)
from tugline.config.trust import TrustStore, standing_trust
from tugline.protocol.errors import ConfigError
from tugline.protocol.hooks import Hook
from tugline.protocol.specs import Mode
from tugline.protocol.trust import TrustItem
from tugline.rules.rule import Kind, Rule, RuleError, parse_rule
from tugline.rules.trust import FREE, HARMLESS, Trust, foreign_items, setting_items

MANAGED = ("/etc/claude-code/managed-settings.json", "/etc/tugline/managed-settings.json")
"""Policy of the machine's owner, weaker one first."""

_ONLY_MANAGED = ("allowManagedHooksOnly",)
_DISABLED = ("disableAllHooks",)
_HOOK_FILES = 100
"""How many files of the user's folder of hooks are read."""
_GUARDS: dict[Path, tuple[object, ...]] = {
    ("permissions", "defaultMode"): ("bypassPermissions", "auto"),
    ("sandbox", "enabled"): (False,),
    ("sandbox", "required"): (False,),
}
"""Values with which a cloned folder would switch its own guard off."""
_NEVER_FROM_PROJECT = frozenset([("trustedFolders",), ("context", "externalImports")])


class Origin(Struct, frozen=True):
    """Where a value comes from: the layer, and the file, variable or flag in it."""

    layer: str
    source: str

    def __str__(self) -> str:
        return self.layer if self.source in ("", self.layer) else f"{self.layer}: {self.source}"


class Secrets(Struct, frozen=True):
    """Keys, from the environment only. Their text never shows what they are."""

    anthropic_api_key: str = ""
    anthropic_auth_token: str = ""
    openai_api_key: str = ""

    def __repr__(self) -> str:
        held = [name for name in self.__struct_fields__ if getattr(self, name)]
        return f"Secrets({', '.join(held)})"


class Config(Struct, frozen=True):
    """All that is known when a process starts."""

    settings: Settings
    folders: Folders
    cwd: str
    home: str
    project_root: str
    trust: Trust
    origins: dict[Path, tuple[Origin, ...]] = {}
    """By setting; lists may come from several places. A setting that is missing here has its default."""
    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    hooks: tuple[Hook, ...] = ()
    """Those that run, in their order."""
    hooks_off: str = ""
    """Why others do not run."""
    problems: tuple[Problem, ...] = ()
    withheld: tuple[tuple[str, str], ...] = ()
    """Settings of the project that do not count because nobody has approved them, each with its file."""
    items: tuple[TrustItem, ...] = ()
    """What in the project's settings files takes an approval, whether it has it or not."""
    secrets: Secrets = Secrets()

    @property
    def forbidden_modes(self) -> frozenset[Mode]:
        """Modes that a setting takes away."""
        return _forbidden(self.settings)

    @property
    def trusted(self) -> bool:
        """Whether the folder is trusted; what is new or changed in it may be withheld all the same."""
        return self.trust.folder

    def require_sound(self) -> None:
        """Raise `ConfigError` for what a session must not start with, such as a rule that cannot be read."""
        fatal = [problem.text for problem in self.problems if problem.fatal]
        if fatal:
            raise ConfigError("\n".join(fatal))


def load(
    *,
    cwd: str,
    environ: Mapping[str, str],
    home: str | None = None,
    trusted: bool | None = None,
    flags: Mapping[str, Any] | None = None,
    settings: str | None = None,
    sources: Collection[str] | None = None,
    managed: tuple[str, ...] = MANAGED,
) -> Config:
    """Read and merge all sources. Never raises: what is wrong stands in `problems`, and the rest counts.

    `trusted`: whether all that the project says counts; `None`: what the user's settings or approvals say.
    `flags`: settings from the command line by their dotted names. `settings`: the value of `--settings`, a path or
    JSON. `sources`: which of user, project and local count (`--setting-sources`); `None` means all.
    """
    home = home or environ.get("HOME") or os.path.expanduser("~")
    cwd = os.path.realpath(cwd)
    folders = find_folders(environ, home)
    root = find_project_root(cwd, os.path.realpath(home))
    found, problems = _read_all(cwd, root, folders, environ, flags or {}, settings, sources, managed)
    trust, wrong = _find_trust(trusted, found, root, folders)
    problems += wrong
    kept, withheld, items, more = _weigh(found, trust, root)
    problems += more
    merged, origins = _merge(kept)
    rules, wrong = _rules(kept)
    problems += wrong
    settings_built, wrong = _with_permitted_mode(_build(merged), origins)
    problems += wrong
    hooks, hooks_off = _hooks(kept)
    return Config(
        settings=settings_built,
        folders=folders,
        cwd=cwd,
        home=home,
        project_root=root,
        trust=trust,
        origins=origins,
        allow=rules["allow"],
        ask=rules["ask"],
        deny=rules["deny"],
        hooks=hooks,
        hooks_off=hooks_off,
        problems=tuple(problems),
        withheld=tuple(withheld),
        items=tuple(items),
        secrets=Secrets(
            environ.get("ANTHROPIC_API_KEY", "").strip(),
            environ.get("ANTHROPIC_AUTH_TOKEN", "").strip(),
            environ.get("OPENAI_API_KEY", "").strip(),
        ),
    )


def _read_all(
    cwd: str,
    root: str,
    folders: Folders,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    settings: str | None,
    wanted: Collection[str] | None,
    managed: tuple[str, ...],
) -> tuple[list[Source], list[Problem]]:
    found: list[Source] = []
    problems: list[Problem] = []

    def add(read: tuple[Source | None, list[Problem]]) -> None:
        if read[0] is not None:
            found.append(read[0])
        problems.extend(read[1])

    add(read_model_variable(environ))
    if wanted is None or "user" in wanted:
        add(read_file(os.path.join(folders.claude, "settings.json"), "user", foreign=True))
        add(read_file(folders.user_settings, "user"))
        for path in _hook_files(folders):
            add(_hook_file(path))
    for layer, name in (("project", "settings.json"), ("local", "settings.local.json")):
        if wanted is None or layer in wanted:
            own_layer: Any = layer
            claude = os.path.join(root, ".claude", name)
            if os.path.dirname(claude) != folders.claude:
                add(read_file(claude, own_layer, foreign=True, within=root))
            add(read_file(os.path.join(root, ".tugline", name), own_layer, within=root))
    add(read_environment(environ))
    if settings is not None:
        add(_named(settings, cwd))
    if flags:
        source, wrong = check(_nested(flags), "command line", "command line", "")
        # what was asked for outright is not dropped with a warning
        add((source, [structs.replace(problem, fatal=True) for problem in wrong]))
    for path in managed:
        add(read_file(path, "managed", foreign="claude" in path))
    return found, problems


def _hook_files(folders: Folders) -> list[str]:
    """The files of the user's folder of hooks; scripts may lie beside them."""
    folder = os.path.join(folders.config, "hooks")
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names[:_HOOK_FILES]]


def _hook_file(path: str) -> tuple[Source | None, list[Problem]]:
    """A file with hooks and nothing else."""
    source, problems = read_file(path, "user")
    if source is not None and (others := [name for name in source.values if name != HOOKS]):
        names = ", ".join(".".join(name) for name in others)
        problems.append(Problem("warning", f"{path}: {names}: only hooks count in this folder"))
        source = structs.replace(source, values={HOOKS: source.values.get(HOOKS, {})})
    return source, problems


def _named(settings: str, cwd: str) -> tuple[Source | None, list[Problem]]:
    """`--settings`: inline JSON, or a file, which must be there."""
    if settings.lstrip().startswith("{"):
        return read_json(settings.encode("utf-8", "surrogateescape"), "command line", "--settings")
    path = os.path.join(cwd, os.path.expanduser(settings))
    source, problems = read_file(path, "command line")
    if source is None and not problems and not os.path.exists(path):
        problems = [Problem("error", f"--settings: there is no file {path}", fatal=True)]
    return source, problems


def _nested(flags: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for dotted, value in flags.items():
        at = nested
        *above, last = dotted.split(".")
        for part in above:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def _trusted_by_setting(found: list[Source], root: str) -> bool:
    """Whether the user's own settings name the folder; what the project says of itself does not count."""
    named = [
        folder
        for source in found
        if source.layer not in ("project", "local") and not source.foreign
        for folder in source.values.get(("trustedFolders",), ())
    ]
    return any(os.path.realpath(os.path.expanduser(folder)) == root for folder in named)


def _find_trust(trusted: bool | None, found: list[Source], root: str, folders: Folders) -> tuple[Trust, list[Problem]]:
    if trusted is not None:
        return Trust("said so" if trusted else "nothing"), []
    if _trusted_by_setting(found, root):
        return Trust("said so"), []
    known, problem = TrustStore(folders.trust).of(root)
    return standing_trust(known), [Problem("error", problem)] if problem else []


def _weigh(
    found: list[Source], trust: Trust, root: str
) -> tuple[list[Source], list[tuple[str, str]], list[TrustItem], list[Problem]]:
    """What of the project's sources counts, what does not, and all of it that takes an approval."""
    kept: list[Source] = []
    withheld: list[tuple[str, str]] = []
    items: list[TrustItem] = []
    problems: list[Problem] = []
    for source in found:
        if source.layer != "managed" and _ONLY_MANAGED in source.values:
            problems.append(Problem("warning", f"{source.name}: {_ONLY_MANAGED[0]} counts in managed policy only"))
            rest = {path: value for path, value in source.values.items() if path != _ONLY_MANAGED}
            source = structs.replace(source, values=rest)
        if source.layer not in ("project", "local"):
            kept.append(source)
            continue
        name = os.path.relpath(source.name, root)
        values: dict[Path, Any] = {}
        for path, value in source.values.items():
            dotted = ".".join(path)
            if path in _NEVER_FROM_PROJECT:
                problems.append(Problem("warning", f"{source.name}: {dotted} counts in user settings only"))
            elif value in _GUARDS.get(path, ()):
                said = str(value).lower() if path[0] == "sandbox" else value
                problems.append(Problem("warning", f"{source.name}: {dotted} {said} is not for a project"))
            elif path == HOOKS:
                from tugline.config.hooks import approved_hooks  # noqa: PLC0415  imported here: start-up cost

                approved, held = approved_hooks(name, value, trust, items)
                withheld.extend((label, source.name) for label in held)
                if approved:
                    values[path] = approved
            else:
                rest = _approved(name, path, value, trust, items)
                if rest == value:
                    values[path] = value
                    continue
                withheld.append((dotted, source.name))
                if rest:
                    values[path] = rest
        for item in foreign_items(name, source.data, Settings.__struct_encode_fields__):
            items.append(item)
            if not trust.allows(item):
                withheld.append((item.name, source.name))
        kept.append(Source(source.layer, source.name, values, source.names, source.foreign))
    return kept, withheld, items, problems


def _approved(source: str, path: Path, value: Any, trust: Trust, items: list[TrustItem]) -> Any:
    """What of a value counts; `None` where nothing of it does. `items` gains what takes an approval."""
    if path in FREE:
        return value
    if path[0] in HARMLESS:
        return value if trust.folder else None
    good: list[Any] = []
    for entry, item in setting_items(source, path, value):
        items.append(item)
        if trust.allows(item):
            good.append(entry)
    if isinstance(value, tuple):
        return tuple(good)
    if isinstance(value, dict):
        return {name: value[name] for name in good}
    return value if good else None


def _merge(found: list[Source]) -> tuple[dict[Path, Any], dict[Path, tuple[Origin, ...]]]:
    """Lists and maps grow, from the weakest layer to the strongest; of single values the strongest counts."""
    merged: dict[Path, Any] = {}
    origins: dict[Path, tuple[Origin, ...]] = {}
    for source in found:
        for path, value in source.values.items():
            origin = Origin(source.layer, source.names.get(path, source.name))
            before = merged.get(path)
            if isinstance(value, tuple) and isinstance(before, tuple):
                merged[path] = tuple(dict.fromkeys((*before, *value)))
                origins[path] = (*origins[path], origin)
            elif path == HOOKS and isinstance(before, dict):
                # groups of one event stand behind each other
                events = dict.fromkeys((*before, *value))
                merged[path] = {event: (*before.get(event, ()), *value.get(event, ())) for event in events}
                origins[path] = (*origins[path], origin)
            elif isinstance(value, dict) and isinstance(before, dict):
                merged[path] = {**before, **value}
                origins[path] = (*origins[path], origin)
            else:
                merged[path] = value
                origins[path] = (origin,)
    return merged, origins


def _rules(found: list[Source]) -> tuple[dict[Kind, tuple[Rule, ...]], list[Problem]]:
    rules: dict[Kind, list[Rule]] = {"allow": [], "ask": [], "deny": []}
    problems: list[Problem] = []
    for source in found:
        for kind, held in rules.items():
            for text in source.values.get(("permissions", kind), ()):
                where = source.names.get(("permissions", kind), source.name)
                try:
                    held.append(parse_rule(text, kind, where))
                except RuleError as error:
                    problems.append(Problem("error", str(error), fatal=kind != "allow"))
    return {kind: tuple(held) for kind, held in rules.items()}, problems


def _hooks(found: list[Source]) -> tuple[tuple[Hook, ...], str]:
    """The hooks that run, and why others do not. Nobody but the machine's owner switches the owner's off."""
    managed = [source for source in found if source.layer == "managed"]
    if (by := next((source.name for source in managed if source.values.get(_DISABLED)), "")) != "":
        return (), f"No hook runs: disableAllHooks in {by}."
    off = ""
    if (by := next((source.name for source in managed if source.values.get(_ONLY_MANAGED)), "")) != "":
        off = f"Only managed hooks run: allowManagedHooksOnly in {by}."
    elif (by := next((source.name for source in found if source.values.get(_DISABLED)), "")) != "":
        off = f"Hooks do not run: disableAllHooks in {by}."
    counting = [source for source in (managed if off else found) if source.values.get(HOOKS)]
    if not counting:
        return (), off
    from tugline.config.hooks import From, listed  # noqa: PLC0415  imported here: start-up cost

    return tuple(
        hook
        for source in counting
        for hook in listed(source.values[HOOKS], From(source.layer, source.names.get(HOOKS, source.name)))
    ), off


def _build(merged: Mapping[Path, Any]) -> Settings:
    nested: dict[str, Any] = {}
    for path, value in merged.items():
        at = nested
        for part in path[:-1]:
            at = at.setdefault(part, {})
        at[path[-1]] = value
    return msgspec.convert(nested, Settings, from_attributes=True)


def _forbidden(settings: Settings) -> frozenset[Mode]:
    given = settings.permissions
    found: list[Mode] = []
    if given.disable_bypass_permissions_mode:
        found.append("bypassPermissions")
    if given.disable_auto_mode:
        found.append("auto")
    return frozenset(found)


def _with_permitted_mode(
    settings: Settings, origins: Mapping[Path, tuple[Origin, ...]]
) -> tuple[Settings, list[Problem]]:
    """A mode that is switched off and was asked for outright stops the session; one of a settings file is not taken."""
    mode = settings.permissions.default_mode
    if mode not in _forbidden(settings):
        return settings, []
    name = "disableAutoMode" if mode == "auto" else "disableBypassPermissionsMode"
    by = origins[("permissions", name)][-1]
    asked = origins[("permissions", "defaultMode")][-1]
    problem = Problem("error", f"The mode {mode} is switched off ({by}).", fatal=asked.layer == "command line")
    return structs.replace(settings, permissions=structs.replace(settings.permissions, default_mode="default")), [
        problem
    ]


def value_of(settings: Settings, path: Path) -> Any:
    """The value of a setting by its path."""
    at: Any = settings
    for part in path:
        at = getattr(at, at.__struct_fields__[at.__struct_encode_fields__.index(part)])
    return at


def all_paths() -> tuple[Path, ...]:
    """Every setting there is."""
    return tuple(path for path, _ in leaves())
