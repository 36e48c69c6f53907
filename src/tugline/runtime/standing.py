"""What stands for a session: its permission mode, rules and folders. The one place where they change while it runs."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import structs

from tugline.protocol.errors import UsageError
from tugline.protocol.permissions import Behavior, Destination, PermissionUpdate, Remember, Verdict
from tugline.protocol.specs import Mode
from tugline.rules.permission import Expand, Policy, Query, Resolve, Survey, decide, hides, speaks_of
from tugline.rules.rule import Rule, parse_rule

SESSION = "this session"
"""The source of rules that nothing but the session keeps."""


class Keeper(Protocol):
    """Keeps changes for later sessions."""

    def file(self, destination: Destination) -> str:
        """Where they are kept; empty where they would not count."""
        ...

    def keep(self, update: PermissionUpdate) -> None:
        """Write it there. Raises `ConfigError`."""
        ...

    def folder(self, path: str) -> str:
        """The real folder of a path. Raises `UsageError` where there is none."""
        ...


Told = Callable[[Policy, Policy], None]
"""Hears of a change of mode or folders, with the policy before and after."""


class Standing:
    """Judges by the policy that stands at that moment, so that a change reaches what already runs.

    `forbidden` are modes that a setting takes away. `told` hears of changes; it is set when there is somebody to tell.
    """

    def __init__(
        self,
        policy: Policy,
        resolve: Resolve,
        *,
        expand: Expand | None = None,
        survey: Survey | None = None,
        keeper: Keeper | None = None,
        forbidden: frozenset[Mode] = frozenset(),
    ):
        self.policy = policy
        self.forbidden = forbidden
        self.told: Told = lambda before, after: None
        self.resolve = resolve
        self._expand = expand
        self._survey = survey
        self._keeper = keeper

    @property
    def mode(self) -> Mode:
        """The permission mode now."""
        return self.policy.mode

    def set_mode(self, mode: Mode) -> None:
        """Another mode from the next decision on. Raises `UsageError` for one that a setting takes away."""
        self._require_mode(mode)
        self._replace(structs.replace(self.policy, mode=mode), tell=True)

    def add_directory(self, path: str) -> str:
        """Another folder that counts as the working folder; returns what it really is. Raises `UsageError`."""
        return self._added((path,))[0]

    def _require_mode(self, mode: Mode) -> None:
        if mode in self.forbidden:
            raise UsageError(f"The mode {mode} is switched off by a setting.")

    def _added(self, paths: Sequence[str]) -> tuple[str, ...]:
        real = tuple(self._folder(path) for path in paths)
        directories = tuple(dict.fromkeys((*self.policy.directories, *real)))
        if directories != self.policy.directories:
            self._replace(structs.replace(self.policy, directories=directories), tell=True)
        return real

    def _folder(self, path: str) -> str:
        if self._keeper is None:
            raise UsageError("This session works without folders.")
        return self._keeper.folder(path)

    def _replace(self, policy: Policy, *, tell: bool = False) -> None:
        before, self.policy = self.policy, policy
        if tell:
            self.told(before, policy)

    def judge(self, query: Query) -> Verdict:
        """The verdict on a call."""
        return decide(query, self.policy, self.resolve, self._expand, self._survey)

    def speaks_of(self, rule: str, query: Query) -> bool:
        """Whether a permission rule speaks of the call, or may do so. It is read as a deny rule is: what a guard
        watches is looked for behind every wrapper."""
        return speaks_of(parse_rule(rule, "deny"), query, self.policy, self.resolve, self._expand, self._survey)

    def hides(self, name: str, target: str) -> bool:
        """Whether a deny rule forbids to read this file; searches leave it out."""
        return bool(self.policy.deny) and hides(self.policy, name, target) is not None

    # -- what answers change

    def kept_in(self, destination: Destination) -> str:
        """The file where a change with that destination is kept; empty where it counts for the session only."""
        return "" if self._keeper is None else self._keeper.file(destination)

    def remember(self, rules: Sequence[str], scope: Remember) -> None:
        """Allow these for the session, and for later ones where that was the answer. Raises `RuleError` or
        `ConfigError`."""
        destination: Destination = "localSettings" if scope == "always" else "session"
        self.update((PermissionUpdate("addRules", rules=tuple(rules), destination=destination),))

    def update(self, updates: Sequence[PermissionUpdate]) -> None:
        """Change what stands, all of it or, where something is wrong with one, nothing. Raises `RuleError`,
        `UsageError`, or `ConfigError` where a change holds but could not be kept."""
        for update in updates:
            self._check(update)
        for update in updates:
            self._apply(update)
        for update in updates:
            if update.destination != "session" and self._keeper is not None:
                self._keeper.keep(update)

    def _check(self, update: PermissionUpdate) -> None:
        match update.kind:
            case "addRules" | "replaceRules":
                _parsed(update, SESSION)
            case "setMode":
                self._require_mode(update.mode)
            case "addDirectories":
                for path in update.directories:
                    self._folder(path)
            case _:
                pass  # what is not there need not be removed

    def _apply(self, update: PermissionUpdate) -> None:
        source = self.kept_in(update.destination) or SESSION
        rules = self._rules(update.behavior)
        match update.kind:
            case "addRules":
                new = (rule for rule in _parsed(update, source) if rule not in rules)
                self._set_rules(update.behavior, (*rules, *new))
            case "replaceRules":
                others = tuple(rule for rule in rules if rule.source != source)
                self._set_rules(update.behavior, (*others, *_parsed(update, source)))
            case "removeRules":
                gone = {rule for rule in rules if rule.source == source and rule.text in update.rules}
                self._set_rules(update.behavior, tuple(rule for rule in rules if rule not in gone))
            case "setMode":
                self.set_mode(update.mode)
            case "addDirectories":
                self._added(update.directories)
            case "removeDirectories":
                self._remove_directories(update.directories)

    def _remove_directories(self, paths: Sequence[str]) -> None:
        """The working folder itself stays."""
        main, *others = self.policy.directories
        gone = {found[1] for path in paths if (found := self.resolve(path, self.policy.cwd)) is not None}
        kept = (main, *(folder for folder in others if folder not in gone))
        if kept != self.policy.directories:
            self._replace(structs.replace(self.policy, directories=kept), tell=True)

    def _rules(self, behavior: Behavior) -> tuple[Rule, ...]:
        return {"allow": self.policy.allow, "ask": self.policy.ask, "deny": self.policy.deny}[behavior]

    def _set_rules(self, behavior: Behavior, rules: tuple[Rule, ...]) -> None:
        match behavior:
            case "allow":
                self._replace(structs.replace(self.policy, allow=rules))
            case "ask":
                self._replace(structs.replace(self.policy, ask=rules))
            case "deny":
                self._replace(structs.replace(self.policy, deny=rules))


def _parsed(update: PermissionUpdate, source: str) -> tuple[Rule, ...]:
    return tuple(parse_rule(rule, update.behavior, source) for rule in update.rules)
