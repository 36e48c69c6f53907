"""What stands for a session: its permission mode and rules. The one place where they change while it runs."""

from collections.abc import Callable, Sequence

from msgspec import structs

from tugline.protocol.permissions import Remember, Verdict
from tugline.protocol.specs import Mode
from tugline.rules.permission import Expand, Policy, Query, Resolve, Survey, decide, hides
from tugline.rules.rule import parse_rule

Save = Callable[[Sequence[str]], str]
"""Keeps allow rules for later sessions; returns where. Raises `ConfigError`."""


class Standing:
    """Judges by the policy that stands at that moment, so that a change reaches what already runs."""

    def __init__(
        self,
        policy: Policy,
        resolve: Resolve,
        *,
        expand: Expand | None = None,
        survey: Survey | None = None,
        save: Save | None = None,
    ):
        self.policy = policy
        self._resolve = resolve
        self._expand = expand
        self._survey = survey
        self._save = save

    @property
    def mode(self) -> Mode:
        """The permission mode now."""
        return self.policy.mode

    def set_mode(self, mode: Mode) -> None:
        """Another mode from the next decision on."""
        self.policy = structs.replace(self.policy, mode=mode)

    def judge(self, query: Query) -> Verdict:
        """The verdict on a call."""
        return decide(query, self.policy, self._resolve, self._expand, self._survey)

    def hides(self, name: str, target: str) -> bool:
        """Whether a deny rule forbids to read this file; searches leave it out."""
        return bool(self.policy.deny) and hides(self.policy, name, target) is not None

    def remember(self, rules: Sequence[str], scope: Remember) -> None:
        """Allow these for the session, and for later ones where that was the answer. Raises `RuleError` or
        `ConfigError`."""
        parsed = tuple(parse_rule(rule, "allow", "this session") for rule in rules)
        self.policy = structs.replace(self.policy, allow=(*self.policy.allow, *parsed))
        if scope == "always" and self._save is not None:
            self._save(rules)
