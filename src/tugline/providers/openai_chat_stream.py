"""OpenAI Chat Completions, and what servers make of it: answers as chunks."""

import json
from collections.abc import Callable, Collection
from typing import Any

import msgspec
from msgspec import Raw, Struct

from tugline.protocol.chunks import BlockKind, Chunk
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.messages import StopReason
from tugline.protocol.usage import Usage
from tugline.providers.assemble import Assembly, ReplyIds, count, loose_json, never
from tugline.providers.failure import broken, failure_in_reply
from tugline.providers.text_calls import Asked, Said, TextCalls

NAME = "openai"

_STOPS = {
    "stop": "end_turn",
    "eos": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
}


class _Function(Struct, gc=False):
    name: str | None = None
    arguments: Raw = Raw(b"")


class _Call(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Event(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _WholeChoice(Struct, gc=False):
    index: int = 0
    message: _Delta | None = None
    finish_reason: str | None = None


class _Whole(Struct, gc=False):
    choices: list[_WholeChoice]
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_whole = msgspec.json.Decoder(_Whole).decode
_decode_any = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode


class _Slot:
    """A call that the server speaks of, by its index."""

    __slots__ = ("early", "key", "name", "opened", "wire_id")

    def __init__(self, key: str, wire_id: str) -> None:
        self.key = key
        self.wire_id = wire_id
        self.name = ""
        self.opened = False
        self.early: list[tuple[str, bool]] = []


class ChatDecoder:
    """One answer of the Chat Completions API.

    `text_tools`: the names of the tools, for a model that writes calls as text.
    """

    def __init__(
        self,
        reply_ids: ReplyIds,
        provider: str = NAME,
        known_call: Callable[[str], bool] = never,
        *,
        model: str = "",
        text_tools: Collection[str] | None = None,
    ) -> None:
        self.ended = False
        self._ids = reply_ids
        self._provider = provider
        self._assembly = Assembly(known_call=known_call, model=model)
        self._usage = Usage()
        self._stop: StopReason | None = None
        self._speech: tuple[str, BlockKind] | None = None
        self._slots: dict[int, _Slot] = {}
        self._slot: _Slot | None = None
        self._keys = 0
        self._texts = TextCalls(text_tools) if text_tools is not None else None
        self._refused = False
        self._loose = False
        self._damaged = False

    def feed(self, event: str, data: bytes) -> list[Chunk]:
        """One server-sent event."""
        if self.ended:
            return []
        if data[:6] == b"[DONE]":
            if self._stop is None:
                raise broken("the stream says it is done, but the reply has no finish reason")
            self._finish()
            return self._assembly.take()
        try:
            made = _decode_event(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            made = self._read_loosely(data)
        self._take(made, data)
        self._loose = False
        return self._assembly.take()

    def end(self) -> list[Chunk]:
        """The stream is over."""
        if not self.ended:
            if not self._assembly.started:
                raise broken("the stream ended before the reply began")
            if self._stop is None:
                raise broken("the stream ended in the middle of the reply")
            self._finish()
        return self._assembly.take()

    def whole(self, body: bytes) -> list[Chunk]:
        """The answer to a request that was not streamed."""
        try:
            made = _decode_whole(body)
            choices = [_Choice(c.index, c.message, c.finish_reason) for c in made.choices]
            event = _Event(made.id, made.model, choices, made.usage)
        except (msgspec.DecodeError, UnicodeDecodeError):
            event = self._read_loosely(body)
        if not event.choices and event.error is None:
            self._odd(body)
            message = f"{self._provider}: the answer is no message of the Chat Completions API"
            raise ProviderError(Failure("unexpected_reply", message))
        for choice in event.choices or ():
            for index, call in enumerate(choice.delta.tool_calls or () if choice.delta else ()):
                call.index = index
        self._take(event, body)
        if self._stop is None:
            raise broken("the reply has no finish reason")
        self._finish()
        return self._assembly.take()

    def _take(self, event: _Event, data: bytes) -> None:
        if event.error:
            raise failure_in_reply(event.error, self._provider)
        if event.usage:
            self._usage = chat_usage(event.usage)
        if event.choices is None:
            if not event.usage:
                self._odd(data)
            return
        for choice in event.choices:
            if choice.index:
                continue
            if not self._assembly.started:
                self._assembly.start(self._ids.fresh(event.id), event.model or "", self._usage)
            if choice.delta is not None:
                self._speak(choice.delta)
            if choice.finish_reason and self._stop is None:
                self._close(choice.finish_reason, data)

    def _speak(self, delta: _Delta) -> None:
        if self._stop is not None:
            if delta.content or delta.tool_calls:
                raise broken("it went on after its finish reason")
            return
        if thought := delta.reasoning_content or delta.reasoning:
            self._say("thinking", thought)
        if delta.content:
            if self._texts is None:
                self._say("text", delta.content)
            else:
                self._split(self._texts.feed(delta.content))
        if delta.refusal:
            self._refused = True
            self._say("text", delta.refusal)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._call(call)

    def _say(self, kind: BlockKind, text: str) -> None:
        speech = self._speech
        if speech is None or speech[1] != kind:
            self._hush()
            self._assembly.settle()
            speech = self._speech = (self._key(), kind)
            self._assembly.open(speech[0], kind)
        if self._loose:
            self._assembly.ragged_delta(speech[0], kind, text, damaged=self._damaged)
        else:
            self._assembly.delta(speech[0], kind, text)

    def _hush(self) -> None:
        if self._speech is not None:
            self._assembly.close(self._speech[0])
            self._speech = None

    def _split(self, made: list[Said | Asked]) -> None:
        for piece in made:
            if isinstance(piece, Said):
                self._say("text", piece.text)
                continue
            self._hush()
            key = self._key()
            self._assembly.open(key, "tool_use", name=piece.name)
            self._assembly.ragged_delta(key, "tool_use", piece.arguments)
            self._assembly.close(key)

    def _call(self, call: _Call) -> None:
        name = call.function.name if call.function is not None and call.function.name else ""
        slot = self._find_slot(call, name)
        if name and not slot.name:
            slot.name = name
            self._open(slot)
        if call.function is None:
            return
        text, ragged, damaged = _arguments(call.function.arguments)
        if self._loose:
            ragged, damaged = True, damaged or self._damaged
        if not text:
            return
        if not slot.opened:
            slot.early.append((text, damaged))
        elif ragged or damaged:
            self._assembly.ragged_delta(slot.key, "tool_use", text, damaged=damaged)
        else:
            self._assembly.delta(slot.key, "tool_use", text)

    def _find_slot(self, call: _Call, name: str) -> _Slot:
        wire_id = call.id or ""
        index = call.index
        if index is None:
            # Some servers count nothing: a new id, or a new name without any id, is a new call.
            other = bool(wire_id) and (self._slot is None or wire_id != self._slot.wire_id)
            slot = None if other or (name and not wire_id) else self._slot
            index = len(self._slots)
        else:
            slot = self._slots.get(index)
            if slot is not None and wire_id and name and wire_id != slot.wire_id:
                slot = None
        if slot is None:
            slot = self._slots[index] = _Slot(self._key(), wire_id)
        self._slot = slot
        return slot

    def _open(self, slot: _Slot) -> None:
        self._hush()
        # What is whole can run while the next call still arrives.
        self._assembly.settle()
        slot.opened = True
        self._assembly.open(slot.key, "tool_use", call=slot.wire_id, name=slot.name)
        for text, damaged in slot.early:
            self._assembly.ragged_delta(slot.key, "tool_use", text, damaged=damaged)
        slot.early = []

    def _close(self, reason: str, data: bytes) -> None:
        """The finish reason: no block goes on."""
        if reason == "error":
            self._odd(data)
            raise failure_in_reply("the provider broke off with an error", self._provider)
        stop = _STOPS.get(reason, reason)
        if self._texts is not None:
            self._split(self._texts.end(cut=stop == "max_tokens"))
        self._hush()
        for slot in self._slots.values():
            if not slot.opened:
                self._open(slot)
        for key in self._assembly.open_keys:
            self._assembly.close(key)
        if stop in ("end_turn", "tool_use"):
            stop = "tool_use" if self._assembly.calls else "end_turn"
        self._stop = "refusal" if self._refused and stop == "end_turn" else stop

    def _finish(self) -> None:
        self._assembly.end(self._stop or "end_turn", self._usage)
        self.ended = True

    def _key(self) -> str:
        self._keys += 1
        return str(self._keys)

    def _odd(self, data: bytes) -> None:
        """An event without choices: an error in another shape, or nothing."""
        try:
            value = _decode_any(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value, _ = loose_json(data)
        if isinstance(value, dict):
            choices = value.get("choices")
            inside = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else value
            if inside.get("error") or inside.get("object") == "error" or "detail" in inside:
                raise failure_in_reply(inside, self._provider)

    def _read_loosely(self, data: bytes) -> _Event:
        value, self._damaged = loose_json(data)
        self._loose = True
        if not isinstance(value, dict):
            raise broken("an event is no JSON object")
        choices = value.get("choices")
        usage = value.get("usage")
        return _Event(
            id=_str(value.get("id")),
            model=_str(value.get("model")),
            choices=[_loose_choice(c) for c in choices if isinstance(c, dict)] if isinstance(choices, list) else None,
            usage=usage if isinstance(usage, dict) else None,
            error=value.get("error"),
        )


def chat_usage(usage: dict[str, Any]) -> Usage:
    """Tokens as OpenAI's protocols count them: the input there includes what the cache held."""
    asked = count(usage.get("prompt_tokens", usage.get("input_tokens")))
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    if not isinstance(details, dict):
        details = {}
    read = count(details.get("cached_tokens", usage.get("prompt_cache_hit_tokens")))
    written = count(details.get("cache_write_tokens"))
    return Usage(
        input=max(0, asked - read - written),
        output=count(usage.get("completion_tokens", usage.get("output_tokens"))),
        cache_read=read,
        cache_write=written,
    )


def _arguments(raw: Raw) -> tuple[str, bool, bool]:
    """A piece of a call's input, whether it may hold halves of surrogate pairs, and whether bytes were replaced.

    Whole objects in place of JSON text are taken as the text that they are written as.
    """
    data = bytes(raw)
    if not data or data == b"null":
        return "", False, False
    if data[0] == 0x22:
        try:
            return _decode_text(data), False, False
        except (msgspec.DecodeError, UnicodeDecodeError):
            value, damaged = loose_json(data)
            return str(value), True, damaged
    try:
        return data.decode("utf-8"), False, False
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), False, True


def _str(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _loose_choice(value: dict[str, Any]) -> _Choice:
    index = value.get("index")
    delta = value.get("delta", value.get("message"))
    return _Choice(
        index=index if type(index) is int else 0,
        delta=_loose_delta(delta) if isinstance(delta, dict) else None,
        finish_reason=_str(value.get("finish_reason")),
    )


def _loose_delta(value: dict[str, Any]) -> _Delta:
    content, thoughts = _loose_content(value.get("content"))
    calls = value.get("tool_calls")
    return _Delta(
        content=content or None,
        reasoning_content=thoughts or _str(value.get("reasoning_content")) or _str(value.get("reasoning")),
        refusal=_str(value.get("refusal")),
        tool_calls=[_loose_call(c) for c in calls if isinstance(c, dict)] if isinstance(calls, list) else None,
    )


def _loose_content(value: Any) -> tuple[str, str]:
    """Words and thoughts, where the content is a list of parts."""
    if not isinstance(value, list):
        return _str(value) or "", ""
    words: list[str] = []
    thoughts: list[str] = []
    for part in value:
        if isinstance(part, str):
            words.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            words.append(part["text"])
        elif isinstance(part, dict) and "thinking" in part:
            thoughts.append("".join(_loose_content(part["thinking"])))
    return "".join(words), "".join(thoughts)


def _loose_call(value: dict[str, Any]) -> _Call:
    index = value.get("index")
    function = value.get("function")
    made = None
    if isinstance(function, dict):
        arguments = function.get("arguments")
        # ASCII only, so that halves of surrogate pairs survive until they are dealt with.
        raw = Raw(json.dumps(arguments).encode()) if arguments is not None else Raw(b"")
        made = _Function(_str(function.get("name")), raw)
    return _Call(index if type(index) is int else None, _str(value.get("id")), made)
