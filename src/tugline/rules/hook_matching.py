"""Which hooks run: matchers as people write them, with a guard against patterns that could take for ever."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from tugline.protocol.hooks import Hook
from tugline.rules.hook_events import MATCHED

_LIST = re.compile(r"[A-Za-z0-9_\- ,|]*\Z")
_ALIASES = {"Agent": "Task"}
"""Older names of tools that matchers still say."""

PATTERN_LIMIT = 500
"""Characters of a pattern."""
SUBJECT_LIMIT = 128
"""Characters of what a pattern is compared with. What is longer counts as matched: a guard must not be got round by a
long name."""
REPEATS_LIMIT = 3
"""Repeats in one pattern, and..."""
CHOICES_LIMIT = 8
"""...choices, `?` among them. With these and the limits above no comparison takes long."""


class MatcherError(ValueError):
    """A matcher that cannot be used; the text says why."""


def check_matcher(event: str, matcher: str) -> None:
    """Raise `MatcherError` where the matcher cannot be used for this event."""
    if event == "FileChanged" or event not in MATCHED or _is_list(matcher):
        return
    _compiled(matcher)


def matches(event: str, matcher: str, subject: str) -> bool:
    """Whether a usable matcher speaks of the subject."""
    if event not in MATCHED or matcher in ("", "*"):
        # without a matcher a changed file is told to the hooks of all
        return True
    if event == "FileChanged":
        return subject in file_names(matcher)
    names = (subject, _ALIASES.get(subject, subject))
    if _is_list(matcher):
        listed = {part.strip() for part in re.split(r"[|,]", matcher)}
        return any(name in listed for name in names)
    pattern = _compiled(matcher)
    return len(subject) > SUBJECT_LIMIT or any(pattern.search(name) is not None for name in names)


def file_names(matcher: str) -> tuple[str, ...]:
    """The names of files that a matcher of FileChanged watches."""
    return tuple(part.strip() for part in matcher.split("|") if part.strip() not in ("", "*"))


def chosen(
    hooks: Sequence[Hook], event: str, subject: str, fits: Callable[[str], bool] = lambda rule: True
) -> tuple[Hook, ...]:
    """The hooks that run, in their order, each of several equal ones once. `fits`: whether the call is one that a
    permission rule speaks of."""
    found: dict[Hook, Hook] = {}
    for hook in hooks:
        if hook.event == event and matches(event, hook.matcher, subject) and (not hook.rule or fits(hook.rule)):
            found.setdefault(_identity(hook), hook)
    return tuple(found.values())


def _identity(hook: Hook) -> Any:
    how = (hook.kind, hook.command, hook.args, hook.shell, hook.url, hook.prompt, hook.model, hook.callback, hook.root)
    return (*how, hook.background, hook.rewake)


def _is_list(matcher: str) -> bool:
    return matcher in ("", "*") or _LIST.match(matcher) is not None


@lru_cache(maxsize=512)
def _compiled(matcher: str) -> re.Pattern[str]:
    if len(matcher) > PATTERN_LIMIT:
        raise MatcherError(f"the pattern is longer than {PATTERN_LIMIT} characters")
    try:
        pattern = re.compile(matcher)
        parsed: Any = re._parser.parse(matcher)  # type: ignore[attr-defined]
    except (re.error, RecursionError, OverflowError) as error:
        raise MatcherError(f"the pattern cannot be read: {error}") from None
    repeats, choices = _weigh(parsed, within=False)
    if repeats > REPEATS_LIMIT:
        raise MatcherError(f"the pattern has more than {REPEATS_LIMIT} repeats such as .*")
    if choices > CHOICES_LIMIT:
        raise MatcherError(f"the pattern has more than {CHOICES_LIMIT} groups of choices")
    return pattern


def _weigh(parsed: Iterable[Any], *, within: bool) -> tuple[int, int]:
    """How many repeats and choices there are; `MatcherError` for one of them inside a repeat, which is what makes a
    comparison take for ever."""
    repeats = choices = 0
    for code, argument in parsed:
        inner: list[tuple[int, int]] = []
        match str(code):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, body = argument
                if low != high:
                    if within:
                        raise MatcherError("the pattern has a repeat inside a repeat")
                    repeats, choices = repeats + (int(high) > 1), choices + (int(high) == 1)
                inner = [_weigh(body, within=within or int(high) > 1)]
            case "BRANCH":
                if within:
                    raise MatcherError("the pattern has a choice inside a repeat")
                choices += 1
                inner = [_weigh(branch, within=within) for branch in argument[1]]
            case "SUBPATTERN":
                inner = [_weigh(argument[-1], within=within)]
            case "ASSERT" | "ASSERT_NOT":
                inner = [_weigh(argument[1], within=within)]
            case "GROUPREF_EXISTS" | "ATOMIC_GROUP":
                raise MatcherError("the pattern uses a construct that matchers do not have")
            case _:
                pass
        repeats += max((one for one, _ in inner), default=0)
        choices += max((two for _, two in inner), default=0)
    return repeats, choices
