"""`tugline policy`: which of its commands."""

from collections.abc import Sequence

from tugline.cli import streams
from tugline.cli.help import POLICY
from tugline.protocol.errors import UsageError


def policy(words: Sequence[str]) -> int:
    """`check`, `explain`, `test` or `replay`; the exit code."""
    if not words or words[0] in ("--help", "-h", "help"):
        return streams.put(POLICY)
    what, *rest = words
    if {"--help", "-h"} & set(rest):
        return streams.put(POLICY)
    match what:
        case "check":
            from tugline.cli.policy.check import check  # noqa: PLC0415  imported here: start-up cost

            return check(rest)
        case "explain":
            from tugline.cli.policy.explain import explain_call  # noqa: PLC0415  imported here: start-up cost

            return explain_call(rest)
        case "test":
            from tugline.cli.policy.cases import run_cases  # noqa: PLC0415  imported here: start-up cost

            return run_cases(rest)
        case "replay":
            from tugline.cli.policy.replay import replay  # noqa: PLC0415  imported here: start-up cost

            return replay(rest)
    raise UsageError(f"`tugline policy {what}` is nothing I know. There are: explain, test, replay, check.")
