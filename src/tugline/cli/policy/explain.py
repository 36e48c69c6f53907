"""`tugline policy explain`: which step of the order decides about a call, and on what grounds."""

from collections.abc import Sequence

from tugline.app.calls import query_of
from tugline.app.policy import Desk, word
from tugline.cli import streams
from tugline.cli.policy.asked import call_of, config_of, desk_of, read_words
from tugline.config.load import Config
from tugline.protocol.codec import encode
from tugline.protocol.permissions import VerdictAsk
from tugline.rules.permission import PartSaid, Query, Said, explain, passing
from tugline.rules.terminal import clean


def explain_call(words: Sequence[str]) -> int:
    """Explain the call that the words name; the exit code."""
    as_json = "--json" in words
    plain, given = read_words("explain", [word for word in words if word != "--json"])
    config = config_of(given)
    desk = desk_of(config)
    tool, call = call_of(plain)
    query = query_of(tool, call, config.cwd)
    steps = explain(query, desk.policy, desk.resolve, desk.expand, desk.survey)
    parts = passing(query, desk.policy, desk.resolve, desk.expand, desk.survey)
    if as_json:
        return streams.put(encode(_plain(steps, parts)).decode() + "\n")
    return streams.put(_text(config, desk, query, steps, parts))


def _plain(steps: Sequence[Said], parts: Sequence[PartSaid]) -> object:
    last = steps[-1].verdict
    assert last is not None
    return {
        "decision": word(last),
        "reason": last.reason,
        "suggestions": list(getattr(last, "suggestions", ())),
        "steps": [
            {"step": said.step, "note": said.note, "verdict": said.verdict and word(said.verdict)} for said in steps
        ],
        "parts": [{"part": part.label, "passes": part.why} for part in parts],
    }


def _text(config: Config, desk: Desk, query: Query, steps: Sequence[Said], parts: Sequence[PartSaid]) -> str:
    policy = desk.policy
    trusted = "trusted" if config.trusted else "not trusted: allow rules of its own do not count"
    lines = [f"{query.tool} in {config.cwd} ({trusted}), mode {policy.mode}", ""]
    for number, said in enumerate(steps, start=1):
        outcome = "passes on" if said.verdict is None else f"{word(said.verdict).upper()}: {said.verdict.reason}"
        note = f" ({said.note})" if said.note and said.verdict is None else ""
        lines.append(f"{number:2}. {said.step}{note}: {outcome}")
    if len(parts) > 1 or any(part.why for part in parts):
        lines += ["", "Its parts, and what would let each pass:"]
        lines += [f"  {part.label}: {part.why or 'nothing'}" for part in parts]
    verdict = steps[-1].verdict
    if isinstance(verdict, VerdictAsk) and verdict.suggestions:
        lines += ["", f"Rules that allow exactly this: {', '.join(verdict.suggestions)}"]
    return clean("\n".join(lines)) + "\n"
