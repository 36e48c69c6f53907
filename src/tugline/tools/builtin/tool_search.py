"""ToolSearch: loads deferred tools by name or by words."""

import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from tugline.ports import ToolContext
from tugline.protocol.specs import Display, Footprint, Result, ToolsLoaded, ToolSpec
from tugline.tools.define import BuiltinTool, cut_line
from tugline.tools.plain import plain_text
from tugline.tools.schema import closest

_SELECT = "select:"
_WORD = re.compile(r"[a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ABOUT = 300
"""Characters of a description; the whole stands with the schema in the next request."""


class ToolSearchInput(Struct, frozen=True, forbid_unknown_fields=True):
    """What the model says."""

    query: Annotated[str, Meta(description="`select:A,B`, or words to search for", min_length=1, max_length=1_000)]
    max_results: Annotated[int, Meta(description="How many to load at most", ge=1, le=50)] = 5


class ToolSearch(BuiltinTool[ToolSearchInput]):
    """Finds among `specs`, which is read anew at each call."""

    name = "ToolSearch"
    input = ToolSearchInput

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        super().__init__()
        self._specs = specs

    def footprint(self, data: ToolSearchInput) -> Footprint:
        """Nothing is touched."""
        return Footprint.NOTHING

    def title(self, data: ToolSearchInput) -> str:
        """The query."""
        return cut_line(plain_text(f"Look for tools: {data.query}"))

    async def run(self, data: ToolSearchInput, context: ToolContext) -> Result:
        """Find them and have them loaded."""
        specs = {spec.name: spec for spec in self._specs}
        if data.query.strip().lower().startswith(_SELECT):
            names = [name.strip() for name in data.query.strip()[len(_SELECT) :].split(",") if name.strip()]
            found, missing = _select(names, specs)
        else:
            found, missing = search(data.query, list(specs.values()))[: data.max_results], []
        text = "\n".join([*_loaded(found), *_missing(missing, specs)]) or _nothing(list(specs))
        line = f"Loaded {', '.join(spec.name for spec in found)}" if found else "No tool found"
        changes = (ToolsLoaded(tuple(spec.name for spec in found)),) if found else ()
        return Result(text, Display(cut_line(plain_text(line))), is_error=bool(missing) and not found, changes=changes)


def search(query: str, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Those in which words of the query occur, best first; every word with `+` must occur in the name."""
    words = query.lower().split()
    needed = [word[1:] for word in words if word.startswith("+") and len(word) > 1]
    wanted = [part for word in words for part in _WORD.findall(word)]
    scored = []
    for spec in specs:
        if all(word in spec.name.lower() for word in needed):
            score = _score(wanted, query.strip().lower(), spec)
            if score or needed:
                scored.append((-score, spec.name, spec))
    return [spec for _, _, spec in sorted(scored, key=lambda entry: entry[:2])]


def _score(wanted: Sequence[str], query: str, spec: ToolSpec) -> int:
    name = spec.name.lower()
    parts = set(_WORD.findall(_CAMEL.sub(" ", spec.name).lower().replace("_", " ")))
    about = spec.description.lower()
    about_words = set(_WORD.findall(about))
    score = 100 if name == query else 0
    for word in wanted:
        if word in parts:
            score += 10
        elif word in name:
            score += 5
        if word in about_words:
            score += 3
        elif len(word) > 3 and word in about:
            score += 1
    return score


def _select(names: Sequence[str], specs: dict[str, ToolSpec]) -> tuple[list[ToolSpec], list[str]]:
    lowered = {name.lower(): name for name in specs}
    found: dict[str, ToolSpec] = {}
    missing = []
    for name in names:
        known = name if name in specs else lowered.get(name.lower(), "")
        if known:
            found[known] = specs[known]
        else:
            missing.append(name)
    return list(found.values()), missing


def _loaded(found: Sequence[ToolSpec]) -> list[str]:
    if not found:
        return []
    entries = [f"- {spec.name}: {cut_line(spec.description, _ABOUT)}" for spec in found]
    return ["Loaded, to be called from the next step on:", *entries]


def _missing(names: Sequence[str], specs: dict[str, ToolSpec]) -> list[str]:
    lines = []
    for name in names[:20]:
        near = closest(name, list(specs))
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        lines.append(f"There is no deferred tool named {name[:100]!r}.{hint}")
    return lines


def _nothing(names: Sequence[str]) -> str:
    if not names:
        return "There are no deferred tools: all that there are can be called already."
    shown = ", ".join(names[:100])
    more = f" and {len(names) - 100} more" if len(names) > 100 else ""
    return f"No deferred tool matches. There are: {shown}{more}."
