"""The configured hooks as lines for a person. Pure."""

from collections.abc import Iterable, Sequence

from tugline.protocol.hooks import Hook
from tugline.rules.hook_events import MATCHED, OCCASIONS
from tugline.rules.terminal import clean

_SHOWN = 100


def line(hook: Hook) -> str:
    """One hook: event and matcher, what it runs, and how."""
    when = f"{hook.event}({hook.matcher})" if hook.matcher not in ("", "*") and hook.event in MATCHED else hook.event
    rule = f" if {hook.rule}" if hook.rule else ""
    how = [f"{hook.timeout:g} s"] if hook.timeout is not None else []
    how += ["once"] if hook.once else []
    how += ["beside the turn"] if hook.background else []
    how += ["has no occasion in this version"] if hook.event not in OCCASIONS else []
    label = " ".join(hook.label.split())
    label = label if len(label) <= _SHOWN else label[: _SHOWN - 3] + "..."
    return clean(f"{when}{rule}: {hook.kind} {label}" + (f" ({', '.join(how)})" if how else "")).replace("\n", " ")


def where(hook: Hook) -> str:
    """Who wrote it."""
    return clean(hook.layer if hook.source in ("", hook.layer) else f"{hook.layer}: {hook.source}").replace("\n", " ")


def rendered(hooks: Sequence[Hook], withheld: Iterable[tuple[str, str]], disabled: str = "") -> str:
    """All hooks by where they come from, then what does not count and why; Markdown."""
    parts: list[str] = []
    for place in dict.fromkeys(map(where, hooks)):
        parts.append(f"{place}\n" + "\n".join(f"- {line(hook)}" for hook in hooks if where(hook) == place))
    if disabled:
        parts.append(disabled)
    held = [
        clean(f"- {name.removeprefix('hooks.')} in {source}").replace("\n", " ")
        for name, source in withheld
        if name.startswith("hooks.")
    ]
    if held:
        parts.append("Not run, because nobody has approved them (tugline trust):\n" + "\n".join(held))
    return "\n\n".join(parts) or "There are no hooks."
