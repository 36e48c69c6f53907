"""What several hooks of one event say together: one pure fold, the same whichever of them was quicker."""

from collections.abc import Iterable, Sequence

from tugline.protocol.hooks import NOTHING, Decision, HookOutput, Outcome

STRICTNESS: tuple[Decision, ...] = ("", "allow", "ask", "defer", "deny")
"""From the weakest to the strongest."""


def fold(said: Sequence[HookOutput], warnings: Iterable[str] = ()) -> Outcome:
    """The hooks' answers, in the order of their configuration, as one.

    The strictest decision counts, with all reasons given for it. Of several changed inputs or outputs the last one
    counts. Whatever blocks or stops does so; all words are kept.
    """
    noted = tuple(warnings)
    if not said and not noted:
        return NOTHING
    nothing: Decision = ""
    decision = max((one.decision for one in said), key=STRICTNESS.index, default=nothing)
    inputs = [one.input for one in said if one.input is not None]
    if any(given != inputs[-1] for given in inputs):
        noted = (*noted, "Several hooks changed the input; the last one in the order of the settings counts.")
    blocks = _each(one.block for one in said)
    return Outcome(
        decision=decision,
        reason="; ".join(_each(one.reason for one in said if one.decision == decision)) if decision else "",
        block="\n".join(blocks) if any(one.block is not None for one in said) else None,
        stop=next((one.stop for one in said if one.stop is not None), None),
        messages=_each(one.message for one in said),
        context=_each(one.context for one in said),
        input=inputs[-1] if inputs else None,
        output=next((one.output for one in reversed(said) if one.output is not None), None),
        updates=tuple(change for one in said if one.decision == decision == "allow" for change in one.updates),
        interrupt=any(one.interrupt for one in said if one.decision == decision),
        retry=any(one.retry for one in said),
        title=next((one.title for one in reversed(said) if one.title), ""),
        watch=_each(path for one in said for path in one.watch),
        warnings=noted,
    )


def _each(texts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
