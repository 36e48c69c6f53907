"""`tugline sessions changes`: who changed which files, turn by turn."""

from collections.abc import Iterator, Sequence

from tugline.cli.ansi import Palette
from tugline.rules.changes import ChangedFile, ChangeSet, TurnChanges
from tugline.rules.telling import moment
from tugline.rules.terminal import clean_line

_SIGNS = {"created": ("+", "green"), "changed": ("~", "yellow"), "deleted": ("-", "red")}


def told_changes(turns: Sequence[TurnChanges], palette: Palette) -> Iterator[str]:
    """The changes in lines: the prompt, who did it, and the files."""
    for turn in turns:
        words = clean_line(turn.text, 100) or "(before the first prompt)"
        yield f"{palette.paint(moment(turn.time), 'dim')} {palette.paint('>', 'cyan')} {words}\n"
        for one in turn.sets:
            yield f"  {palette.paint(_who(one), 'dim')}\n"
            yield from (_file(file, palette) for file in one.files)


def _who(one: ChangeSet) -> str:
    if one.by == "rewind":
        return "put back by /rewind"
    if one.by == "others":
        return "not by the agent"
    calls = [clean_line(f"{call.tool} {call.title}".strip() or call.call, 100) for call in one.calls]
    together = " (at the same time: one of them)" if len(calls) > 1 else ""
    return "; ".join(calls) + together


def _file(file: ChangedFile, palette: Palette) -> str:
    sign, colour = _SIGNS[file.kind]
    lines = f"  +{file.lines[0]} -{file.lines[1]}" if file.lines else ""
    return f"    {palette.paint(sign, colour)} {clean_line(file.path, 400)}{lines}\n"
