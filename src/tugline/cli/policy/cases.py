"""`tugline policy test FILE`: calls that a policy must allow, ask about or deny; and calls that a rule must match."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tugline.app.calls import query_of
from tugline.app.policy import Desk, make_desk, word
from tugline.app.standing_policy import policy_of
from tugline.cli import streams
from tugline.cli.policy.asked import call_of, config_of, read_words
from tugline.protocol.errors import ConfigError, TuglineError, UsageError
from tugline.rules.permission import Policy
from tugline.rules.rule import Kind, RuleError, parse_rule
from tugline.rules.terminal import clean

SIZE_LIMIT = 4_000_000
_DECISIONS: tuple[Kind, ...] = ("allow", "ask", "deny")
_KEYS = (*_DECISIONS, "match", "no-match", "rules", "mode")


class Case(Struct, frozen=True):
    """A call, what is expected of it, and by which policy."""

    call: Any
    expected: str
    desk: Desk
    rule: str = ""


def run_cases(words: Sequence[str]) -> int:
    """0 if all cases hold, 1 if not."""
    plain, given = read_words("test", words)
    if len(plain) != 1:
        raise UsageError("`tugline policy test` takes one file of cases; see `tugline policy --help`.")
    name = plain[0]
    data = _read(name)
    base = policy_of(config_of(given, data.get("settings")))
    try:
        cases = list(_cases(data, base, name))
    except RuleError as error:
        raise ConfigError(f"{name}: {error}") from None
    failures = [line for case in cases for line in _failure(case, base.cwd)]
    for line in failures:
        streams.put(clean(line) + "\n")
    held = len(cases) - len(failures)
    code = streams.put(f"{held} of {len(cases)} cases hold\n")
    return 1 if failures else code


def _read(name: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415  imported here: start-up cost

    try:
        with open(name, encoding="utf-8-sig") as file:
            text = file.read(SIZE_LIMIT + 1)
        if len(text) > SIZE_LIMIT:
            raise ConfigError(f"{name}: longer than {SIZE_LIMIT} characters.")
        data = yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise ConfigError(f"{where}: is neither YAML nor JSON.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{name}: expected the keys {', '.join(_KEYS)}.")
    unknown = [str(key) for key in data if key not in (*_KEYS, "settings")]
    if unknown:
        raise ConfigError(f"{name}: unknown key {unknown[0]!r}; there are {', '.join(_KEYS)}, settings.")
    return data


def _cases(data: Mapping[str, Any], base: Policy, name: str) -> Iterator[Case]:
    from msgspec import structs  # noqa: PLC0415  beside its only use

    rules = data.get("rules") or {}
    if not isinstance(rules, dict) or not set(rules) <= set(_DECISIONS):
        raise ConfigError(f"{name}: rules: expected lists named allow, ask and deny.")
    policy = base
    if rules:
        parsed = {
            kind: tuple(parse_rule(str(text), kind, name) for text in rules.get(kind) or ()) for kind in _DECISIONS
        }
        policy = structs.replace(base, **parsed)
    mode = data.get("mode")
    if mode is not None:
        if mode not in ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"):
            raise ConfigError(f"{name}: mode: {mode!r} is none.")
        policy = structs.replace(policy, mode=mode)
    desk = make_desk(policy)
    for decision in _DECISIONS:
        for call in _list(data.get(decision), name, decision):
            yield Case(call, decision, desk)
    for key, expected in (("match", "deny"), ("no-match", "not deny")):
        table = data.get(key) or {}
        if not isinstance(table, dict):
            raise ConfigError(f"{name}: {key}: expected rules, each with a list of calls.")
        for text, calls in table.items():
            rule = parse_rule(str(text), "deny", name)
            alone = make_desk(structs.replace(base, allow=(), ask=(), deny=(rule,), mode="default"))
            for call in _list(calls, name, key):
                yield Case(call, expected, alone, str(text))


def _list(value: Any, name: str, key: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str | dict) for item in value):
        raise ConfigError(f"{name}: {key}: expected a list of calls, such as - Bash(git push).")
    return value


def _failure(case: Case, cwd: str) -> Iterator[str]:
    shown = case.call if isinstance(case.call, str) else str(case.call)
    try:
        if isinstance(case.call, str):
            tool, given = call_of([case.call])
        else:
            tool, given = case.call.get("tool", ""), case.call.get("input", {})
        verdict = case.desk.judge(query_of(tool, given, case.desk.policy.cwd or cwd))
    except TuglineError as error:
        yield f"{shown}: {error}"
        return
    found = word(verdict)
    hit = found == "deny" and verdict.reason.startswith("denied by the rule")
    if case.rule:
        if hit != (case.expected == "deny"):
            yield f"{case.rule}: {'does not match' if not hit else 'matches'} {shown}"
    elif found != case.expected:
        yield f"{shown}: expected {case.expected}, is {found}: {verdict.reason}"
