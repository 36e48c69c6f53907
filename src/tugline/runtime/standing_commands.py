"""The slash commands about what is permitted: mode, rules, folders, trust, the plan."""

from collections.abc import Callable, Sequence
from typing import Protocol, get_args

from msgspec import Struct

from tugline.loop.agent import Agent
from tugline.protocol.errors import UsageError
from tugline.protocol.events import SessionStarted
from tugline.protocol.specs import Mode
from tugline.protocol.trust import TrustAnswer, TrustQuestion
from tugline.rules.rule import Rule
from tugline.rules.shown import visible
from tugline.runtime.slash import SlashCommand
from tugline.runtime.standing import Standing

SHOWN = 50
"""Rules of a kind that are listed."""


class Place(Struct, frozen=True, eq=False):
    """What is known of the folder that a session works in. `trust` says why its settings count; `withheld` are those
    that do not, with their files; `refresh` sees to it before a prompt that the model knows of plan mode;
    `plan` reads the plan and names its file; `sandbox` says what limits commands."""

    project_root: str
    trust: str
    withheld: tuple[tuple[str, str], ...]
    refresh: Callable[[], None]
    plan: Callable[[], str]
    plan_file: str
    sandbox: Callable[[], str]
    settle_trust: Callable[[TrustAnswer], None]
    trust_question: TrustQuestion | None = None


class Host(Protocol):
    """What of a session these commands need."""

    agent: Agent
    standing: Standing
    place: Place
    opening: SessionStarted | None


def standing_commands(session: Host) -> list[SlashCommand]:
    """All of them, for this session."""
    return [
        SlashCommand(
            "permissions", "the mode, the rules, the folders, and what does not count", lambda _: _permissions(session)
        ),
        SlashCommand("mode", "show or change the permission mode", lambda words: _mode(session, words), "[MODE]"),
        SlashCommand("plan", "begin plan mode, or show the plan", lambda _: _plan(session)),
        SlashCommand("add-dir", "work in a further folder too", lambda words: _add_dir(session, words), "FOLDER"),
        SlashCommand("status", "model, mode, trust, sandbox, transcript", lambda _: _status(session)),
    ]


async def _permissions(session: Host) -> str:
    policy, place = session.standing.policy, session.place
    parts = [f"Mode: {policy.mode}"]
    for kind, rules in (("Allowed", policy.allow), ("Asked about", policy.ask), ("Denied", policy.deny)):
        parts += _listed(f"{kind} by rules", [_rule(rule) for rule in rules])
    parts += _listed("Working folders", [visible(path) for path in policy.directories])
    parts += _listed("Not in force (tugline trust)", [_withheld(name, file) for name, file in place.withheld])
    return "\n".join(parts)


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    more = [f"- and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return ["", f"{title}:", *(f"- {line}" for line in lines[:SHOWN]), *more]


def _rule(rule: Rule) -> str:
    return f"`{visible(rule.text)}` ({visible(rule.source) or 'unknown'})"


def _withheld(name: str, file: str) -> str:
    return f"{visible(name)} ({visible(file)})"


async def _mode(session: Host, words: str) -> str:
    modes = [mode for mode in get_args(Mode) if mode not in session.standing.forbidden]
    if not words:
        return f"The permission mode is {session.standing.mode}. /mode takes one of {', '.join(modes)}."
    mode: Mode = next((mode for mode in modes if mode.lower() == words.lower()), "default")
    if mode.lower() != words.lower():
        raise UsageError(f"/mode takes one of {', '.join(modes)}, not {visible(words[:40])}.")
    session.standing.set_mode(mode)
    return f"The permission mode is {mode} now."


async def _plan(session: Host) -> str:
    place = session.place
    if session.standing.mode != "plan":
        session.standing.set_mode("plan")
        return "Plan mode is on: the model only reads, and presents a plan. /mode leaves it."
    plan = place.plan()
    return (
        f"The plan, kept in {place.plan_file}:\n\n{plan}" if plan.strip() else "Plan mode is on; there is no plan yet."
    )


async def _add_dir(session: Host, words: str) -> str:
    if not words:
        raise UsageError("/add-dir takes a folder.")
    return f"{visible(session.standing.add_directory(words))} is a working folder now, too."


async def _status(session: Host) -> str:
    place, opening = session.place, session.opening
    assert opening is not None
    rows = (
        ("Model", session.agent.model),
        ("Permission mode", session.standing.mode),
        ("Folder", opening.cwd),
        ("Trust", place.trust),
        ("Sandbox", place.sandbox()),
        ("Session", opening.origin.session),
        ("Transcript", opening.transcript or "none"),
    )
    return "\n".join(f"- {name}: {visible(value)}" for name, value in rows)
