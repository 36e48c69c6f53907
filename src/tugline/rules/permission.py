"""The decision whether a call may run: one total order (`docs/reference/permissions.md`), pure."""

from collections.abc import Iterator, Sequence
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
    OutsidePart,
    Part,
    PathPart,
    Policy,
    Resolve,
    Survey,
    ToolPart,
)
from tugline.rules.rule import Rule, RuleError, names_tool, parse_rule

__all__ = [
    "Expand",
    "Policy",
    "Query",
    "Resolve",
    "Survey",
    "decide",
    "denied_tools",
    "explain",
    "hides",
    "is_excluded",
    "passing",
    "speaks_of",
]

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


class Said(Struct, frozen=True):
    """What one step of the order said of a call: its verdict, `None` where the call passed on; and a note why."""

    step: str
    verdict: Verdict | None = None
    note: str = ""


def decide(
    query: Query, policy: Policy, resolve: Resolve, expand: Expand | None = None, survey: Survey | None = None
) -> Verdict:
    """Whether the call may run. Never raises, as long as `resolve` and `expand` do not."""
    for said in _steps(query, policy, _parts(query, policy, resolve, expand, survey)):
        if said.verdict is not None:
            return said.verdict
    raise AssertionError("the last step always says something")


def explain(
    query: Query, policy: Policy, resolve: Resolve, expand: Expand | None = None, survey: Survey | None = None
) -> list[Said]:
    """The steps of the decision in their order, up to the one that decides: its verdict is that of `decide`."""
    found: list[Said] = []
    for said in _steps(query, policy, _parts(query, policy, resolve, expand, survey)):
        found.append(said)
        if said.verdict is not None:
            break
    return found


class PartSaid(Struct, frozen=True):
    """One part of a call, and what lets it pass; empty where nothing does."""

    label: str
    why: str


def passing(
    query: Query, policy: Policy, resolve: Resolve, expand: Expand | None = None, survey: Survey | None = None
) -> list[PartSaid]:
    """What each part of the call rests on, where nothing stricter decides."""
    parts = _parts(query, policy, resolve, expand, survey)
    return [PartSaid(part.label, _passes(part, policy)) for part in parts if not part.whole]


def speaks_of(
    rule: Rule,
    query: Query,
    policy: Policy,
    resolve: Resolve,
    expand: Expand | None = None,
    survey: Survey | None = None,
) -> bool:
    """Whether the rule speaks of the call, or of any part of it, or it cannot be told that it does not."""
    if ToolPart(query.tool, query.footprint).hits(rule):
        return True
    if rule.spec is None:
        return False
    parts = _parts(query, policy, resolve, expand, survey)
    return any(part.hits(rule) or part.may_hit(rule) for part in parts)


def _parts(query: Query, policy: Policy, resolve: Resolve, expand: Expand | None, survey: Survey | None) -> list[Part]:
    cwd = query.cwd or policy.cwd
    parts: list[Part] = []
    for subject in query.subjects:
        if isinstance(subject, CommandSubject):
            from tugline.rules.permission_shell import command_parts  # noqa: PLC0415  imported here: start-up cost

            held = structs.replace(policy, sandboxed=False) if subject.outside and policy.sandboxed else policy
            parts.extend(command_parts(subject.command, held, cwd, resolve, expand, survey))
            if subject.outside == "asked":
                parts.append(OutsidePart(subject.command))
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


def _steps(query: Query, policy: Policy, parts: Sequence[Part]) -> Iterator[Said]:
    """The one total order. The steps before the mode are those that no mode and no allow rule can change."""
    yield Said("deny rules", _denied(query, policy, parts), f"{len(policy.deny)} in force")
    yield Said("removals that no mode permits", _refused(parts))
    yield Said("hooks", None, f"one says {query.hook}" if query.hook else "none said anything")
    yield Said("ask rules", _asked(query, policy, parts), f"{len(policy.ask)} in force")
    yield Said("safety checks", _unsafe(policy, parts))
    yield Said("mode", _by_mode(policy, parts), policy.mode)
    if query.hook == "allow":
        yield Said("a hook's allow", VerdictAllow("a hook allows it"))
        return
    yield from _lenient(policy, parts)


def _denied(query: Query, policy: Policy, parts: Sequence[Part]) -> Verdict | None:
    whole = ToolPart(query.tool, query.footprint)
    for rule in policy.deny:
        if whole.hits(rule) or any(part.hits(rule) for part in parts):
            return VerdictDeny(f"denied by the rule {rule}")
    return None


def _refused(parts: Sequence[Part]) -> Verdict | None:
    for part in parts:
        why = part.refused()
        if why:
            return VerdictDeny(f"refused in every mode: {why}")
    return None


def _asked(query: Query, policy: Policy, parts: Sequence[Part]) -> Verdict | None:
    whole = ToolPart(query.tool, query.footprint)
    for rule in policy.ask:
        if whole.hits(rule) or any(part.hits(rule) for part in parts):
            return _ask(policy, f"the rule {rule} asks")
    if query.hook == "ask":
        return _ask(policy, "a hook asks")
    for rule in (*policy.deny, *policy.ask):
        for part in parts:
            if part.may_hit(rule):
                return _ask(policy, f"{part.label}: it cannot be told whether the {rule.kind} rule {rule} hits")
    return None


def _unsafe(policy: Policy, parts: Sequence[Part]) -> Verdict | None:
    for part in parts:
        why = part.danger()
        if why:
            return _ask(policy, f"{part.label}: {why}")
    return None


def _ask(policy: Policy, reason: str) -> Verdict:
    if policy.mode == "dontAsk":
        return VerdictDeny(f"{reason}; the mode dontAsk denies what would be asked")
    return VerdictAsk(reason, person=True)


def _by_mode(policy: Policy, parts: Sequence[Part]) -> Verdict | None:
    if policy.mode == "bypassPermissions":
        return VerdictAllow("the mode bypassPermissions")
    if policy.mode == "plan":
        for part in parts:
            if not part.only_reads():
                return VerdictDeny(f"{part.label}: plan mode only reads; present the plan instead")
    return None


def _passes(part: Part, policy: Policy) -> str:
    """What lets a part run: a rule, what is known of it, the mode; empty where nothing does."""
    return (
        part.grant(policy.allow)
        or part.known()
        or ("the mode acceptEdits" if policy.mode == "acceptEdits" and part.accepted() else "")
    )


def _lenient(policy: Policy, parts: Sequence[Part]) -> Iterator[Said]:
    missing: list[Part] = []
    reasons: dict[str, None] = {}
    for part in parts:
        reason = _passes(part, policy)
        if not reason:
            missing.append(part)
        elif not part.whole:
            reasons[reason] = None
    what = "allow rules, known reads, accepted edits"
    if not missing:
        yield Said(what, VerdictAllow("; ".join(reasons) or "there is nothing to run"))
        return
    yield Said(what, None, f"{len(policy.allow)} allow rules, {len(missing)} parts that none of these lets pass")
    if policy.mode == "dontAsk":
        yield Said("mode", _ask(policy, _reason(missing)), policy.mode)
    yield Said("ask", VerdictAsk(_reason(missing), _suggestions(missing)))


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


def is_excluded(command: str, patterns: Sequence[str], cwd: str) -> bool:
    """Whether every part of a shell command is one that `sandbox.excludedCommands` names."""
    from tugline.rules.permission_shell import RedirectPart, command_parts  # noqa: PLC0415  imported here: start-up cost

    rules = tuple(rule for rule in map(_exclusion, patterns) if rule is not None)
    if not rules or not command.strip():
        return False
    parts = command_parts(command, Policy(cwd=cwd, directories=(cwd,)), cwd, lambda path, base: None, None, None)
    fitting = [part.grant(rules) or (isinstance(part, RedirectPart) and part.free) for part in parts]
    return len(parts) > 1 and all(fitting)


def _exclusion(pattern: str) -> Rule | None:
    """An entry as the rule of the same reading; one without a star stands for the command with any arguments."""
    pattern = pattern.strip()
    spec = pattern if "*" in pattern else f"{pattern}:*"
    try:
        return parse_rule(f"Bash({spec})", "allow") if pattern else None
    except RuleError:
        return None
