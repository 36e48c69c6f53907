"""Scripts for the scripted model: what it answers, when, and what it expects. `docs/reference/model-script.md`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from tugline.protocol.usage import Usage


class Pattern(Struct, frozen=True, omit_defaults=True):
    """Words that match a regular expression somewhere, or that are exactly these."""

    regexp: str | None = None
    equal: str | None = None


Words = str | Pattern
"""A string is looked for as part of the text."""


class Match(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of a request; what is `None` or empty is not asked.

    `first` and `user` are the person's first and latest words, without reminders; `last` is all that stands after
    the last reply, reminders and results included; `result` is any of the latest results, `results` all of them in
    order; `is_error`: one of them is (or none is) an error; `tools` are offered, `without` are not.
    """

    model: Words | None = None
    purpose: Words | None = None
    system: Words | None = None
    first: Words | None = None
    user: Words | None = None
    last: Words | None = None
    result: Words | None = None
    results: tuple[Words, ...] | None = None
    is_error: bool | None = None
    tools: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    stream: bool | None = None


class SayText(Struct, frozen=True, omit_defaults=True):
    """A block of text. `chunk` is the number of characters per delta, 0 for one delta."""

    text: str
    chunk: int | None = None
    unclosed: bool = False


class SayThinking(Struct, frozen=True, omit_defaults=True):
    """A block of thinking."""

    thinking: str
    signature: str = "scripted"
    chunk: int | None = None
    unclosed: bool = False


class SayCall(Struct, frozen=True, omit_defaults=True):
    """A call. `raw` is sent in place of the input's JSON, as it stands; without `id` the call is numbered."""

    tool: str
    input: dict[str, Any] = {}
    id: str | None = None
    raw: str | None = None
    chunk: int | None = None
    unclosed: bool = False


class SayOpaque(Struct, frozen=True):
    """A block that only the named provider understands."""

    provider: str
    data: dict[str, Any]


class Pause(Struct, frozen=True):
    """Nothing happens for so many seconds."""

    seconds: float


class Gate(Struct, frozen=True):
    """Nothing happens until a test opens the gate of that name."""

    name: str


class Pings(Struct, frozen=True):
    """Signs of life without content."""

    count: int = 1


class Garbage(Struct, frozen=True):
    """Bytes that do not belong into the stream."""

    text: str


CutKind = Literal["end", "close", "drop", "hang"]


class Cut(Struct, frozen=True, omit_defaults=True):
    """The stream breaks: its body ends early (`end`), the connection is closed in the middle of the body (`close`) or
    reset (`drop`), or nothing more comes (`hang`). Here, or in a step's `cut` after so many events or bytes."""

    how: CutKind = "end"
    events: int | None = None
    bytes: int | None = None


class ErrorEvent(Struct, frozen=True, omit_defaults=True):
    """The provider reports an error in the middle of its stream, which ends with that."""

    type: str = "overloaded_error"
    message: str = "Overloaded"


Part = SayText | SayThinking | SayCall | SayOpaque | Pause | Gate | Pings | Garbage | Cut | ErrorEvent


class HttpError(Struct, frozen=True, omit_defaults=True):
    """The request is refused. `body` is sent in place of the service's usual JSON."""

    status: int
    message: str = ""
    type: str = ""
    retry_after: float | None = None
    headers: Mapping[str, str] = {}
    body: str | None = None


MISSING_STOP = "missing"


class Step(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer of the scripted model.

    A step with `when` is taken by the first request that it matches, before any step without; the others are taken
    in order. `expect` must hold for the request that takes the step. `repeat` is how often, `None` for ever.
    `pause` seconds stand before the answer, `pace` seconds between deltas; `split` sends the body in pieces of so
    many bytes; `stop="missing"` leaves out the proper end; `literal` keeps `{{…}}` as it stands.
    """

    parts: tuple[Part, ...] = ()
    error: HttpError | None = None
    when: Match | None = None
    expect: Match | None = None
    repeat: int | None = 1
    stop: str | None = None
    usage: Usage | None = None
    model: str | None = None
    chunk: int | None = None
    pause: float = 0.0
    pace: float = 0.0
    cut: Cut | None = None
    split: int | None = None
    content_type: str | None = None
    literal: bool = False


class Lane(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sequence of its own for the requests that match. `each`: every conversation (told apart by its first words)
    gets the sequence from its beginning."""

    match: Match
    steps: Sequence[Step]
    each: bool = False


class Script(Struct, frozen=True, omit_defaults=True):
    """What a scripted model answers. Requests that match a lane are answered from it, all others from `steps`."""

    steps: Sequence[Step] = ()
    lanes: Mapping[str, Lane] = {}
    chunk: int = 40
