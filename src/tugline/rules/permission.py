"""The decision whether a call may run: one total order (`docs/reference/permissions.md`), pure."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from tugline.protocol.permissions import Verdict, VerdictAllow, VerdictAsk, VerdictDeny
from tugline.protocol.specs import CommandSubject, DomainSubject, Footprint, PathSubject, Subject
from tugline.rules import paths
from tugline.rules.paths import Place
from tugline.rules.permission_parts import (
    DomainPart,
    Expand,
    NamePart,
    Part,
    PathPart,
    Policy,
    Resolve,
    ToolPart,
)
from tugline.rules.permission_shell import WholePart, command_parts
from tugline.rules.rule import Rule, names_tool

__all__ = ["Expand", "Policy", "Query", "Resolve", "decide", "denied_tools", "hides", "speaks_of"]

SUGGESTION_LIMIT = 5


class Query(Struct, frozen=True):
    """A call to decide on. `subjects` are the tool's own; `cwd` is where it runs; `hook` is what hooks said."""

    tool: str
    input: dict[str, Any] = {}
    footprint: Footprint = Footprint.CHANGES
    subjects: tuple[Subject, ...] = ()
    cwd: str = ""
    hook: Literal["", "allow", "ask"] = ""
    filtered: bool = False
    """The tool leaves out of its results what `hides` names, so that searching a whole folder gives nothing away."""


def decide(query: Query, policy: Policy, resolve: Resolve, expand: Expand | None = None) -> Verdict:
    """Whether the call may run. Never raises, as long as `resolve` and `expand` do not."""
    parts = _parts(query, policy, resolve, expand)
    strict = _strict(query, policy, parts)
    if isinstance(strict, VerdictAsk):
        strict = structs.replace(strict, person=True)
    verdict = strict or _lenient(query, policy, parts)
    if policy.mode == "dontAsk" and isinstance(verdict, VerdictAsk):
        return VerdictDeny(f"{verdict.reason}; the mode dontAsk denies what would be asked")
    return verdict


def speaks_of(rule: Rule, query: Query, policy: Policy, resolve: Resolve, expand: Expand | None = None) -> bool:
    """Whether the rule speaks of the call, or of any part of it, or it cannot be told that it does not."""
    if ToolPart(query.tool, query.footprint).hits(rule):
        return True
    if rule.spec is None:
        return False
    parts = _parts(query, policy, resolve, expand)
    return any(part.hits(rule) or part.may_hit(rule) for part in parts)


def _parts(query: Query, policy: Policy, resolve: Resolve, expand: Expand | None) -> list[Part]:
    cwd = query.cwd or policy.cwd
    parts: list[Part] = []
    for subject in query.subjects:
        if isinstance(subject, CommandSubject):
            parts.extend(command_parts(subject.command, policy, cwd, resolve, expand))
        elif isinstance(subject, PathSubject):
            found = resolve(subject.path, cwd) if "\x00" not in subject.path else None
            place = Place(*found) if found is not None else None
            parts.append(
                PathPart(
                    query.tool,
                    query.footprint,
                    subject.access,
                    subject.path,
                    place,
                    policy,
                    filtered=query.filtered,
                )
            )
        elif isinstance(subject, DomainSubject):
            parts.append(DomainPart(query.tool, query.footprint, subject.host))
        else:
            parts.append(NamePart(query.tool, query.footprint, subject.name))
    return parts or [ToolPart(query.tool, query.footprint)]


def _strict(query: Query, policy: Policy, parts: Sequence[Part]) -> Verdict | None:
    """What no mode and no allow rule can change: deny, ask, safety."""
    whole = ToolPart(query.tool, query.footprint)
    for rule in policy.deny:
        if whole.hits(rule) or any(part.hits(rule) for part in parts):
            return VerdictDeny(f"denied by the rule {rule}")
    for part in parts:
        why = part.refused()
        if why:
            return VerdictDeny(f"refused in every mode: {why}")
    for rule in policy.ask:
        if whole.hits(rule) or any(part.hits(rule) for part in parts):
            return VerdictAsk(f"the rule {rule} asks")
    if query.hook == "ask":
        return VerdictAsk("a hook asks")
    for rule in (*policy.deny, *policy.ask):
        for part in parts:
            if part.may_hit(rule):
                return VerdictAsk(f"{part.label}: it cannot be told whether the {rule.kind} rule {rule} hits")
    for part in parts:
        why = part.danger()
        if why:
            return VerdictAsk(f"{part.label}: {why}")
    return None


def _lenient(query: Query, policy: Policy, parts: Sequence[Part]) -> Verdict:
    if policy.mode == "bypassPermissions":
        return VerdictAllow("the mode bypassPermissions")
    if policy.mode == "plan":
        for part in parts:
            if not part.only_reads():
                return VerdictDeny(f"{part.label}: plan mode only reads; present the plan instead")
    if query.hook == "allow":
        return VerdictAllow("a hook allows it")
    missing: list[Part] = []
    reasons: dict[str, None] = {}
    for part in parts:
        reason = part.grant(policy.allow) or part.known()
        if not reason and policy.mode == "acceptEdits" and part.accepted():
            reason = "the mode acceptEdits"
        if reason:
            if not isinstance(part, WholePart):
                reasons[reason] = None
        else:
            missing.append(part)
    if not missing:
        return VerdictAllow("; ".join(reasons) or "there is nothing to run")
    return VerdictAsk(_reason(missing), _suggestions(missing))


def _reason(missing: Sequence[Part]) -> str:
    labels = list(dict.fromkeys(part.label for part in missing))
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    return f"no rule allows {', '.join(labels[:3])}{more}"


def _suggestions(missing: Sequence[Part]) -> tuple[str, ...]:
    """Rules that together allow exactly this call; none where they could not."""
    found: list[str] = []
    for part in missing:
        rules = part.suggestions()
        if rules is None:
            return ()
        found.extend(rules)
    unique = tuple(dict.fromkeys(found))
    return unique if len(unique) <= SUGGESTION_LIMIT else ()


def denied_tools(policy: Policy, tools: Sequence[str]) -> tuple[str, ...]:
    """Tools that a bare deny rule takes away altogether: they are not offered to the model."""
    return tuple(tool for tool in tools if any(rule.spec is None and names_tool(rule, tool) for rule in policy.deny))


def hides(policy: Policy, path: str, target: str | None = None) -> Rule | None:
    """The deny rule that forbids to read a path (absolute, and what it points to); searches leave it out."""
    place, where = Place(path, target or path), policy.where
    for rule in policy.deny:
        if rule.tool == "Read" and rule.path is not None and paths.denied_by(rule.path, place, where):
            return rule
    return None
