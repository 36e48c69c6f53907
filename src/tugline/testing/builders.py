"""Writing scripts in Python: each function makes one part, step or matcher."""

from collections.abc import Mapping, Sequence
from typing import Any

from tugline.protocol.script import (
    Cut,
    CutKind,
    ErrorEvent,
    Garbage,
    Gate,
    HttpError,
    Lane,
    Match,
    Part,
    Pattern,
    Pause,
    Pings,
    SayCall,
    SayOpaque,
    SayText,
    SayThinking,
    Step,
)
from tugline.protocol.usage import Usage


def text(words: str, *, chunk: int | None = None, unclosed: bool = False) -> SayText:
    """A block of text."""
    return SayText(words, chunk=chunk, unclosed=unclosed)


def thinking(words: str, *, signature: str = "scripted", unclosed: bool = False) -> SayThinking:
    """A block of thinking."""
    return SayThinking(words, signature=signature, unclosed=unclosed)


def call(tool: str, /, **data: Any) -> SayCall:
    """A call of `tool` with these inputs."""
    return SayCall(tool, data)


def raw_call(tool: str, raw: str, *, call_id: str | None = None, unclosed: bool = False) -> SayCall:
    """A call whose input is sent as `raw`, valid JSON or not."""
    return SayCall(tool, id=call_id, raw=raw, unclosed=unclosed)


def opaque(provider: str, **data: Any) -> SayOpaque:
    """A block that only `provider` understands."""
    return SayOpaque(provider, data)


def gate(name: str) -> Gate:
    """Wait here until the test opens the gate."""
    return Gate(name)


def pause(seconds: float) -> Pause:
    """Wait here."""
    return Pause(seconds)


def ping(count: int = 1) -> Pings:
    """Send signs of life."""
    return Pings(count)


def garbage(words: str) -> Garbage:
    """Send something that does not belong into the stream."""
    return Garbage(words)


def cut(how: CutKind = "end", *, events: int | None = None, bytes: int | None = None) -> Cut:  # noqa: A002
    """Break the stream, here or (as a step's `cut`) after so many events or bytes; see `Cut`."""
    return Cut(how, events, bytes)


def drop() -> Cut:
    """Reset the connection here."""
    return Cut("drop")


def hang() -> Cut:
    """Send nothing more, until the client goes away."""
    return Cut("hang")


def error_event(kind: str = "overloaded_error", message: str = "Overloaded") -> ErrorEvent:
    """Report an error in the middle of the stream."""
    return ErrorEvent(kind, message)


def regexp(pattern: str) -> Pattern:
    """Words that match `pattern` somewhere."""
    return Pattern(regexp=pattern)


def exactly(words: str) -> Pattern:
    """Words that are these and nothing else."""
    return Pattern(equal=words)


def reply(
    *parts: Part | str,
    stop: str | None = None,
    usage: Usage | None = None,
    when: Match | None = None,
    expect: Match | None = None,
    repeat: int | None = 1,
    model: str | None = None,
    chunk: int | None = None,
    pause: float = 0.0,
    pace: float = 0.0,
    cut: Cut | None = None,
    split: int | None = None,
    content_type: str | None = None,
    literal: bool = False,
) -> Step:
    """A reply made of `parts`; a plain string is text. The keywords are those of `Step`."""
    return Step(
        parts=tuple(SayText(part) if isinstance(part, str) else part for part in parts),
        stop=stop,
        usage=usage,
        when=when,
        expect=expect,
        repeat=repeat,
        model=model,
        chunk=chunk,
        pause=pause,
        pace=pace,
        cut=cut,
        split=split,
        content_type=content_type,
        literal=literal,
    )


def fail(
    status: int,
    message: str = "",
    *,
    kind: str = "",
    retry_after: float | None = None,
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
    when: Match | None = None,
    expect: Match | None = None,
    repeat: int | None = 1,
) -> Step:
    """A request that is refused with `status`; `kind` is the service's word for it."""
    error = HttpError(status, message, kind, retry_after, headers or {}, body)
    return Step(error=error, when=when, expect=expect, repeat=repeat)


def lane(match: Match, steps: Sequence[Step], *, each: bool = False) -> Lane:
    """A sequence of its own for the requests that match; with `each`, one per conversation."""
    return Lane(match=match, steps=steps, each=each)
