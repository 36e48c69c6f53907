"""The test kit for people who write agents: a model that says what a script tells it, and checks for their own parts.

`ScriptedProvider` is that model in memory, `ModelServer` the same behind real HTTP. Steps are made with `reply(…)`
and `fail(…)`; `check()` fails when a step was never asked for or a request came that the script did not foresee.
"""

from tugline.protocol.script import Lane, Match, Pattern, SayCall, Script, Step
from tugline.testing.builders import (
    call,
    cut,
    drop,
    error_event,
    exactly,
    fail,
    garbage,
    gate,
    hang,
    lane,
    opaque,
    pause,
    ping,
    raw_call,
    regexp,
    reply,
    text,
    thinking,
)
from tugline.testing.engine import ScriptMismatch
from tugline.testing.fakes import FakeClock, SequentialIds
from tugline.testing.model_server import ModelServer
from tugline.testing.provider import ScriptedProvider
from tugline.testing.reading import load_script, parse_script

__all__ = [
    "FakeClock",
    "Lane",
    "Match",
    "ModelServer",
    "Pattern",
    "SayCall",
    "Script",
    "ScriptMismatch",
    "ScriptedProvider",
    "SequentialIds",
    "Step",
    "call",
    "cut",
    "drop",
    "error_event",
    "exactly",
    "fail",
    "garbage",
    "gate",
    "hang",
    "lane",
    "load_script",
    "opaque",
    "parse_script",
    "pause",
    "ping",
    "raw_call",
    "regexp",
    "reply",
    "text",
    "thinking",
]
