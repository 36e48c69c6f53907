"""A step as what happens, one thing after the other: chunks, and what stands between them."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tugline.protocol import codec
from tugline.protocol.blocks import Opaque, Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.ids import CallId, ReplyId
from tugline.protocol.script import (
    MISSING_STOP,
    Cut,
    ErrorEvent,
    Garbage,
    Gate,
    Part,
    Pause,
    Pings,
    SayCall,
    SayOpaque,
    SayText,
    SayThinking,
)
from tugline.protocol.usage import Usage
from tugline.testing.engine import Taken, UnexpectedRequest
from tugline.testing.view import View

Act = Chunk | Pause | Gate | Pings | Garbage | Cut | ErrorEvent

_PLACE = re.compile(r"\{\{\s*(?:(cwd|model|last_tool_result|last_user_text)|found (.+?))\s*\}\}")


def perform(taken: Taken, usage: Usage) -> Iterator[Act]:
    """What happens, in order. `usage` is what the request costs; the reply's own tokens are added."""
    step = taken.step
    if step.pause:
        yield Pause(step.pause)
    usage = step.usage or usage
    model = step.model or taken.view.model
    started = msgspec.structs.replace(usage, output=min(1, usage.output) if step.usage else 1)
    yield ReplyStarted(ReplyId(f"msg_{taken.prefix}{taken.number}"), model, started)
    calls = 0
    index = 0
    characters = 0
    for part in fill(taken):
        if not isinstance(part, SayText | SayThinking | SayCall | SayOpaque):
            yield part
            continue
        calls += isinstance(part, SayCall)
        for act in _block(part, index, taken, calls):
            if type(act) is BlockDelta:
                characters += len(act.text)
                if step.pace:
                    yield Pause(step.pace)
            yield act
        index += 1
    if step.stop != MISSING_STOP:
        if step.usage is None:
            usage = msgspec.structs.replace(usage, output=max(1, characters // 4))
        yield ReplyEnded(step.stop or ("tool_use" if calls else "end_turn"), usage)


def _block(part: Part, index: int, taken: Taken, calls: int) -> Iterator[Chunk]:
    match part:
        case SayText(text=text):
            yield BlockStarted(index, "text")
            yield from _deltas(index, text, part.chunk, taken.chunk)
            closed = BlockClosed(index, Text(text))
        case SayThinking(thinking=text, signature=signature):
            yield BlockStarted(index, "thinking")
            yield from _deltas(index, text, part.chunk, taken.chunk)
            closed = BlockClosed(index, Thinking(text, signature))
        case SayCall(tool=tool):
            call = CallId(call_id(part, taken, calls))
            raw = codec.encode(part.input).decode() if part.raw is None else part.raw
            yield BlockStarted(index, "tool_use", call, tool)
            yield from _deltas(index, raw, part.chunk, taken.chunk)
            closed = BlockClosed(index, tool_use(call, tool, raw))
        case SayOpaque(provider=provider, data=data):
            yield BlockStarted(index, "opaque")
            yield BlockClosed(index, Opaque(provider, data))
            return
        case _:
            raise TypeError(f"{part!r} is no block")
    if not part.unclosed:
        yield closed


def _deltas(index: int, text: str, own: int | None, common: int) -> Iterator[BlockDelta]:
    size = (common if own is None else own) or len(text)
    for start in range(0, len(text), max(size, 1)):
        yield BlockDelta(index, text[start : start + size])


def call_id(part: SayCall, taken: Taken, number: int) -> str:
    """The call's id: its own, made unique where the step repeats, or one that counts."""
    if part.id is not None:
        return part.id if taken.use == 1 else f"{part.id}_{taken.use}"
    return f"call_{taken.prefix}{taken.number}_{number}"


def tool_use(call: CallId, tool: str, raw: str) -> ToolUse:
    """The call as a provider tells it: with its raw input where that is not one JSON object."""
    try:
        data = codec.decode_json(raw.encode()) if raw else {}
    except codec.DecodeError:
        data = None
    return ToolUse(call, tool, data) if isinstance(data, dict) else ToolUse(call, tool, {}, raw)


def fill(taken: Taken) -> Iterator[Part]:
    """The step's parts with `{{cwd}}`, `{{model}}`, `{{last_tool_result}}`, `{{last_user_text}}` and
    `{{found PATTERN}}` replaced."""
    if taken.step.literal:
        yield from taken.step.parts
        return
    view = taken.view

    def filled(text: str) -> str:
        return _PLACE.sub(lambda place: _value(place, view), text) if "{{" in text else text

    for part in taken.step.parts:
        match part:
            case SayText(text=text) if "{{" in text:
                yield msgspec.structs.replace(part, text=filled(text))
            case SayThinking(thinking=text) if "{{" in text:
                yield msgspec.structs.replace(part, thinking=filled(text))
            case SayCall(raw=raw):
                yield msgspec.structs.replace(part, input=_filled(part.input, filled), raw=raw and filled(raw))
            case _:
                yield part


def _filled(data: Any, fill: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return fill(data)
    if isinstance(data, dict):
        return {key: _filled(value, fill) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_filled(value, fill) for value in data]
    return data


def _value(place: re.Match[str], view: View) -> str:
    name, pattern = place.groups()
    if pattern is not None:
        return _found(pattern, view)
    if name == "cwd":
        cwd = view.cwd()
        if cwd is None:
            raise UnexpectedRequest("the script uses {{cwd}}, but the request names no working directory")
        return cwd
    if name == "model":
        return view.model
    if name == "last_user_text":
        return view.user
    if not view.results:
        raise UnexpectedRequest("the script uses {{last_tool_result}}, but the request has no result")
    return view.results[-1].text


def _found(pattern: str, view: View) -> str:
    try:
        found = view.found(pattern)
    except re.error as error:
        raise UnexpectedRequest(f"the script uses {{{{found {pattern}}}}}, which is no pattern: {error}") from None
    if found is None:
        raise UnexpectedRequest(f"the script uses {{{{found {pattern}}}}}, but nothing in the conversation matches")
    return found
