"""`@path` in what a person writes."""

import re

_MENTION = re.compile(r'(?:^|(?<=[\s(\[{,;:"\']))@(?:"([^"\n]+)"|([^\s"]+))')
_TRAILING = ".,;:!?)]}'\""
LIMIT = 20
"""Mentions of one prompt that are looked at."""


def find_mentions(text: str) -> tuple[str, ...]:
    """The paths that are mentioned, each once, in order. Mail addresses are none; punctuation behind a path may or
    may not belong to it, so that both readings are given, the longer one first."""
    found: dict[str, None] = {}
    for match in _MENTION.finditer(text):
        quoted, plain = match.groups()
        if quoted is not None:
            found[quoted] = None
            continue
        found[plain] = None
        shorter = plain.rstrip(_TRAILING)
        if shorter:
            found[shorter] = None
    return tuple(path for path in found if "\0" not in path)[: 2 * LIMIT]
