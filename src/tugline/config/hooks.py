"""Hooks as settings have them: each one checked by itself, then in the order in which they run."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from tugline.config.settings import HookEntry, HookGroup
from tugline.protocol.hooks import Hook
from tugline.protocol.trust import TrustItem
from tugline.rules.hook_events import EVENTS, TOOL_EVENTS, nearest
from tugline.rules.hook_matching import MatcherError, check_matcher
from tugline.rules.rule import RuleError, parse_rule
from tugline.rules.trust import Trust, setting_item

Spot = tuple[str | int, ...]
Groups = dict[str, tuple[HookGroup, ...]]
Tell = Callable[[Literal["warning", "error"], Spot, str], None]
"""Takes what is wrong, and where in the settings."""

_NEEDS = {"command": "command", "http": "url", "prompt": "prompt", "agent": "prompt"}


def check_hooks(data: Mapping[str, Any], tell: Tell, *, foreign: bool = False) -> Groups:
    """What of the setting `hooks` can be used. One wrong hook does not take the others along."""
    found: Groups = {}
    for event, groups in data.items():
        spot: Spot = ("hooks", event)
        if event not in EVENTS:
            near = nearest(event)
            tell("warning", spot, f"unknown event{f'; did you mean {near}?' if near else ''}")
        elif not isinstance(groups, list):
            tell("error", spot, "expected an array of groups, each with a matcher and hooks")
        else:
            kept = [_group(event, group, (*spot, at), tell, foreign) for at, group in enumerate(groups)]
            found[event] = tuple(group for group in kept if group is not None and group.hooks)
    return found


def _group(event: str, data: Any, spot: Spot, tell: Tell, foreign: bool) -> HookGroup | None:
    if not isinstance(data, Mapping) or not isinstance(data.get("hooks"), list):
        tell("error", spot, "expected an object with an array of hooks")
        return None
    matcher = data.get("matcher")
    if matcher is not None and not isinstance(matcher, str):
        tell("error", (*spot, "matcher"), "expected text")
        return None
    try:
        check_matcher(event, matcher or "")
    except MatcherError as error:
        tell("error", (*spot, "matcher"), f"{error}; its hooks do not run")
        return None
    entries = [_entry(event, entry, (*spot, "hooks", at), tell, foreign) for at, entry in enumerate(data["hooks"])]
    return HookGroup(matcher, tuple(entry for entry in entries if entry is not None))


def _entry(event: str, data: Any, spot: Spot, tell: Tell, foreign: bool) -> HookEntry | None:
    try:
        entry = msgspec.convert(data, HookEntry)
    except msgspec.ValidationError as error:
        text = str(error)
        tell("error", spot, f"{text[:1].lower() + text[1:]}; this hook does not run")
        return None
    if not foreign:
        _check_names(data, spot, tell)
    wrong = _unusable(event, entry)
    if wrong:
        tell("error", spot, f"{wrong}; this hook does not run")
        return None
    return entry


def _check_names(data: Mapping[str, Any], spot: Spot, tell: Tell) -> None:
    known = HookEntry.__struct_encode_fields__
    for name in data:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            tell("warning", (*spot, name), f"unknown field of a hook{hint}")


def _unusable(event: str, entry: HookEntry) -> str:
    needed = _NEEDS[entry.type]
    if not getattr(entry, needed).strip():
        return f"a hook of type {entry.type} needs a {needed}"
    if "\0" in entry.command or any("\0" in word for word in entry.args or ()):
        return "the command holds a NUL character"
    if entry.type == "http" and not entry.url.startswith(("http://", "https://")):
        return "the url begins with neither http:// nor https://"
    if entry.rule and event not in TOOL_EVENTS:
        return f"`if` has no meaning for {event}"
    if entry.rule:
        try:
            parse_rule(entry.rule, "deny")
        except RuleError as error:
            return f"if: {error}"
    return ""


def approved_hooks(source: str, groups: Groups, trust: Trust, items: list[TrustItem]) -> tuple[Groups, tuple[str, ...]]:
    """The hooks of a project's settings that count, and the names of those that do not. Each takes an approval by
    itself, with its matcher; `items` gains them."""
    good: Groups = {}
    withheld: list[str] = []
    for event, found in groups.items():
        seen: Counter[str] = Counter()
        kept: list[HookGroup] = []
        for group in found:
            entries: list[HookEntry] = []
            for entry in group.hooks:
                spot = f"hooks.{event}({group.matcher})" if group.matcher else f"hooks.{event}"
                seen[spot] += 1
                name = spot if seen[spot] == 1 else f"{spot} {seen[spot]}"
                item = setting_item(source, name, {"matcher": group.matcher or "", **msgspec.to_builtins(entry)})
                items.append(item)
                if trust.allows(item):
                    entries.append(entry)
                else:
                    withheld.append(name)
            kept.append(structs.replace(group, hooks=tuple(entries)))
        good[event] = tuple(group for group in kept if group.hooks)
    return {event: kept for event, kept in good.items() if kept}, tuple(withheld)


class From(Struct, frozen=True):
    """Where hooks come from."""

    layer: str
    source: str


def listed(groups: Mapping[str, Iterable[HookGroup]], origin: From) -> list[Hook]:
    """The hooks of one source, in their order."""
    return [
        structs.replace(_hook(event, group.matcher or "", entry), layer=origin.layer, source=origin.source)
        for event, found in groups.items()
        for group in found
        for entry in group.hooks
    ]


def _hook(event: str, matcher: str, entry: HookEntry) -> Hook:
    return Hook(
        event=event,
        kind=entry.type,
        matcher=matcher,
        command=entry.command,
        args=entry.args,
        shell=entry.shell,
        url=entry.url,
        headers=entry.headers,
        allowed_env=entry.allowed_env_vars,
        prompt=entry.prompt,
        model=entry.model,
        rule=entry.rule,
        timeout=entry.timeout,
        background=entry.background or entry.async_rewake,
        rewake=entry.async_rewake,
        once=entry.once,
        status=entry.status_message,
    )
