"""Runs the table of examples of the page about permissions."""

from tugline.protocol.permissions import VerdictAllow, VerdictAsk
from tugline.protocol.specs import CommandSubject, DomainSubject, Footprint, Mode, PathSubject, Subject
from tugline.rules.paths import lexical
from tugline.rules.permission import Policy, Query, decide
from tugline.rules.rule import EDITORS, READERS, Kind, parse_rule
from tugline.rules.shell_footprint import is_read_only

MODES: tuple[Mode, ...] = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
PROJECT, HOME = "/home/you/shop", "/home/you"


def verdict(rules: str, call: str, mode: Mode) -> str:
    """What becomes of `Tool(subject)` under rules written `allow Edit(src/**), deny Read(.env)`: one word."""
    found: dict[Kind, list[str]] = {"allow": [], "ask": [], "deny": []}
    for text in filter(None, rules.split(", ")):
        for kind in found:
            if text.startswith(f"{kind} "):
                found[kind].append(text.removeprefix(f"{kind} "))
    assert sum(map(len, found.values())) == len(list(filter(None, rules.split(", ")))), f"unreadable rules: {rules}"
    parsed = {kind: tuple(parse_rule(text, kind) for text in texts) for kind, texts in found.items()}
    policy = Policy(
        mode=mode,
        allow=parsed["allow"],
        ask=parsed["ask"],
        deny=parsed["deny"],
        directories=(PROJECT,),
        cwd=PROJECT,
        home=HOME,
        project_root=PROJECT,
    )
    said = decide(_query(call), policy, _resolve)
    return "runs" if isinstance(said, VerdictAllow) else "asks" if isinstance(said, VerdictAsk) else "denied"


def _query(call: str) -> Query:
    tool, _, rest = call.partition("(")
    subject = rest.removesuffix(")")
    footprint, subjects = Footprint.CHANGES, tuple[Subject, ...]()
    if tool == "Bash":
        footprint = Footprint.READS if is_read_only(subject) else Footprint.CHANGES
        subjects = (CommandSubject(subject),)
    elif tool in EDITORS:
        subjects = (PathSubject(subject, "edit"),)
    elif tool in READERS:
        footprint, subjects = Footprint.READS, (PathSubject(subject),)
    elif tool == "WebFetch":
        footprint, subjects = Footprint.READS, (DomainSubject(subject),)
    elif tool in ("TodoWrite", "AskUserQuestion", "ToolSearch"):
        footprint = Footprint.NOTHING
    return Query(tool, {}, footprint, subjects, filtered=tool in ("Grep", "Glob"))


def _resolve(path: str, cwd: str) -> tuple[str, str]:
    place = lexical(path, cwd, HOME)
    return place.name, place.target
