"""`tugline policy replay SESSION --settings NEW`: which past calls a new policy would decide differently."""

from collections.abc import Sequence

from tugline.app.calls import query_of
from tugline.app.history import past_calls
from tugline.app.policy import Desk, word
from tugline.cli import streams
from tugline.cli.policy.asked import config_of, desk_of, read_words
from tugline.protocol.errors import TuglineError, UsageError
from tugline.protocol.permissions import Verdict
from tugline.rules.terminal import clean

_SHOWN = 160


def replay(words: Sequence[str]) -> int:
    """Judge the calls of a session by the settings as they are and with the new ones; the exit code."""
    plain, given = read_words("replay", words)
    if len(plain) != 1 or given.settings is None:
        raise UsageError("`tugline policy replay` takes a session and --settings NEW; see `tugline policy --help`.")
    now, new = config_of(given, {}), config_of(given)
    calls = past_calls(new, plain[0])
    before, after = desk_of(now), desk_of(new)
    changed = 0
    for number, (tool, call, cwd) in enumerate(calls, start=1):
        old, fresh = _judge(before, tool, call, cwd), _judge(after, tool, call, cwd)
        if old is None or fresh is None or word(old) == word(fresh):
            continue
        changed += 1
        shown = " ".join(str(value) for value in call.values() if isinstance(value, str))
        line = " ".join(f"{tool} {shown}".split())
        cut = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
        streams.put(clean(f"{number}. {cut}\n   {word(old)} -> {word(fresh)}: {fresh.reason}") + "\n")
    return streams.put(f"{changed} of {len(calls)} calls would be decided differently\n")


def _judge(desk: Desk, tool: str, call: dict[str, object], cwd: str) -> Verdict | None:
    try:
        return desk.judge(query_of(tool, call, cwd))
    except TuglineError:
        return None
