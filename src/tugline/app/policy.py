"""Verdicts for people who ask, outside of any session: `tugline policy`. Nothing is executed here."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tugline.app.calls import BadCall, query_of
from tugline.ports import WorkspaceError
from tugline.protocol.permissions import Verdict
from tugline.protocol.specs import Mode
from tugline.rules.permission import Expand, Policy, Query, Resolve, Survey, decide
from tugline.rules.rule import Kind, Rule, RuleError, parse_rule
from tugline.workspaces.expansion import expand, survey
from tugline.workspaces.paths import resolve


class RuleTexts(Struct, frozen=True):
    """Rules as written."""

    allow: tuple[str, ...] | None = None
    ask: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None


class Row(Struct, frozen=True):
    """A call with all that its verdict depends on (`tugline policy check --jsonl`)."""

    tool: str
    input: dict[str, Any]
    id: Any = None
    cwd: str | None = None
    home: str | None = None
    mode: Mode | None = None
    rules: RuleTexts | None = None
    sandbox: bool | None = None


class Answered(Struct, frozen=True):
    """What is written for a row."""

    id: Any
    decision: str
    reason: str


class Desk(Struct, frozen=True):
    """Where calls are judged: the policy, and the disk that paths are looked up on."""

    policy: Policy
    resolve: Resolve
    expand: Expand
    survey: Survey

    def judge(self, query: Query) -> Verdict:
        """The verdict on a call."""
        return decide(query, self.policy, self.resolve, self.expand, self.survey)


_read_row = msgspec.json.Decoder(Row).decode
_read_any = msgspec.json.Decoder().decode


def word(verdict: Verdict) -> str:
    """`allow`, `ask` or `deny`."""
    return str(verdict.__struct_config__.tag)


def answer_row(line: bytes) -> Answered:
    """The answer to a row of JSON, whatever it holds."""
    try:
        row = _read_row(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Answered(_identity(line), "deny", f"the row cannot be read: {error}")
    try:
        verdict = judge_row(row)
    except (BadCall, RuleError) as error:
        return Answered(row.id, "deny", f"the row cannot be judged: {error}")
    return Answered(row.id, word(verdict), verdict.reason)


def _identity(line: bytes) -> Any:
    """The id of a row that is wrong otherwise, so that its answer can be told from others."""
    try:
        plain = _read_any(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    found = plain.get("id") if isinstance(plain, dict) else None
    return found if isinstance(found, str | int) else None


def judge_row(row: Row) -> Verdict:
    """The verdict on a row: its own rules and folders are all that counts. `BadCall` or `RuleError` for a bad one."""
    here = os.path.abspath(row.cwd or os.getcwd()) if "\0" not in (row.cwd or "") else None
    if here is None or "\0" in (row.home or ""):
        raise BadCall("a folder with a NUL in its name")
    texts = row.rules or RuleTexts()
    policy = Policy(
        mode=row.mode or "default",
        allow=_rules("allow", texts.allow),
        ask=_rules("ask", texts.ask),
        deny=_rules("deny", texts.deny),
        directories=tuple(dict.fromkeys((here, os.path.realpath(here)))),
        cwd=here,
        home=row.home or os.path.expanduser("~"),
        project_root=here,
        sandboxed=bool(row.sandbox),
    )
    return make_desk(policy).judge(query_of(row.tool, row.input, here))


def _rules(kind: Kind, texts: Sequence[str] | None) -> tuple[Rule, ...]:
    return tuple(parse_rule(text, kind) for text in texts or ())


def make_desk(policy: Policy) -> Desk:
    """A desk on this machine's disk, for the policy's home folder."""

    def look_up(path: str, cwd: str) -> tuple[str, str] | None:
        try:
            return resolve(path, cwd, policy.home)
        except WorkspaceError:
            return None

    return Desk(policy, look_up, expand, survey)
