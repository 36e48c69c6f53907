"""The files of instructions as lines and as JSON."""

from collections.abc import Sequence

from tugline.context.survey import Survey
from tugline.protocol.codec import encode, to_plain
from tugline.protocol.instructions import LoadedFile
from tugline.rules.instructions import LeftOut, ScopedRule
from tugline.rules.terminal import clean

OFF = "Files of instructions are switched off.\n"
_NOTHING = "There are no files of instructions here.\n"


def render_survey(survey: Survey | None) -> str:
    """What is loaded, what will be, and what is left out, a line each."""
    if survey is None:
        return OFF
    parts = [
        _part(_started(survey), [_loaded(one) for one in survey.loaded]),
        _part("Loaded when something in their folder is touched:", [_loaded(one) for one in survey.later]),
        _part("Loaded when one of their files is touched:", [_rule(one) for one in survey.rules]),
        _part("Left out:", [_left_out(one) for one in survey.left_out]),
    ]
    return "\n".join(part for part in parts if part) or _NOTHING


def _started(survey: Survey) -> str:
    return f"Loaded at the start, about {survey.tokens:,} tokens of {survey.limit:,}:"


def _part(title: str, rows: Sequence[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    wide = min(60, max(len(row[0]) for row in rows))
    count = any(tokens for _, tokens, _ in rows)
    lines = [f"  {path:<{wide}}  " + (f"{tokens:>6}  " if count else "") + why for path, tokens, why in rows]
    return "\n".join((title, *lines)) + "\n"


def _shown(path: str) -> str:
    """A path in one line; names of files may be anything."""
    return clean(path).replace("\n", "\\n").replace("\t", "\\t")


def _loaded(one: LoadedFile) -> tuple[str, str, str]:
    why = (
        "imported by " + one.parent
        if one.why == "import"
        else f"{one.scope}, a rule"
        if one.why == "rule"
        else one.scope
    )
    return _shown(one.path), f"{one.tokens:,}", _shown(why) + (", cut" if one.cut else "")


def _rule(one: ScopedRule) -> tuple[str, str, str]:
    return _shown(one.path), f"{one.tokens:,}", _shown(f"{one.scope}, for {', '.join(one.globs)} in {one.base}")


def _left_out(one: LeftOut) -> tuple[str, str, str]:
    return _shown(one.path), "", _shown(one.why + (f" (imported by {one.parent})" if one.parent else ""))


def survey_json(survey: Survey | None) -> str:
    """The same for programs."""
    if survey is None:
        return encode({"enabled": False}).decode() + "\n"
    plain = {
        "enabled": True,
        "tokens": survey.tokens,
        "limit": survey.limit,
        "loaded": [to_plain(one) for one in survey.loaded],
        "later": [to_plain(one) for one in survey.later],
        "rules": [to_plain(one) for one in survey.rules],
        "left_out": [{"path": one.path, "why": one.why, "parent": one.parent} for one in survey.left_out],
    }
    return encode(plain).decode() + "\n"
