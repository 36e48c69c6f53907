"""OpenAI Chat Completions, as the service and its many imitators speak it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tugline.protocol import codec
from tugline.protocol.blocks import Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockDelta, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.usage import Usage
from tugline.testing.dialects import Encoder, Json, gather, plain_event
from tugline.testing.prompt_cache import Piece, PromptCache
from tugline.testing.validity import Invalid, check_schema, check_tool_names, require
from tugline.testing.view import Said, SeenResult, View, content_text, view_of

ROLES = ("system", "developer", "user", "assistant", "tool")
STOPS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}


class Chat:
    """`POST /v1/chat/completions`."""

    name = "chat"

    def check(self, body: Json, headers: Mapping[str, str]) -> None:
        """Raise `Invalid` unless the service would take this request."""
        require(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter")
        for field in ("max_tokens", "max_completion_tokens"):
            limit = body.get(field)
            require(limit is None or (isinstance(limit, int) and limit >= 1), f"{field}: must be a positive integer")
        messages = body.get("messages")
        require(isinstance(messages, list) and messages, "'messages' must be a list that is not empty")
        assert isinstance(messages, list)
        for n, message in enumerate(messages):
            _check_message(message, f"messages.[{n}]")
        _check_answers(messages)
        tools = body.get("tools")
        require(tools is None or (isinstance(tools, list) and tools), "'tools' must be a list that is not empty")
        for n, tool in enumerate(tools or []):
            function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
            if not isinstance(function, dict):
                raise Invalid(f"tools[{n}]: must be of type function")
            check_schema(function.get("parameters", {"type": "object"}), f"tools[{n}].function.parameters")
        check_tool_names([tool["function"].get("name") for tool in tools or []], 64)

    def view(self, body: Json) -> View:
        """What a script can see of the request."""
        messages = body["messages"]
        system = [content_text(m.get("content")) for m in messages if m["role"] in ("system", "developer")]
        return view_of(
            [_said(message) for message in messages if message["role"] not in ("system", "developer")],
            model=body["model"],
            system="\n\n".join(system),
            tools=tuple(tool["function"]["name"] for tool in body.get("tools") or []),
            stream=body.get("stream") is True,
            characters=0,
        )

    def usage(self, body: Json, cache: PromptCache) -> Usage:
        """What the request costs: prefixes are kept unasked."""
        parts = [*(body.get("tools") or []), *body["messages"]]
        return cache.automatic(body["model"], [Piece(codec.encode(part)) for part in parts])

    def encoder(self, body: Json) -> Encoder:
        """For a streamed reply."""
        options = body.get("stream_options")
        return _Stream(bool(options.get("include_usage")) if isinstance(options, dict) else False)

    def whole(self, chunks: Sequence[Chunk]) -> Json:
        """The reply in one piece."""
        started, blocks, stop, usage = gather(chunks)
        words = [block.text for block in blocks if isinstance(block, Text)]
        calls = [block for block in blocks if isinstance(block, ToolUse)]
        thoughts = [block.thinking for block in blocks if isinstance(block, Thinking)]
        message: Json = {"role": "assistant", "content": "".join(words) or None, "refusal": None}
        if thoughts:
            message["reasoning_content"] = "".join(thoughts)
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call)}}
                for call in calls
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish(stop)}
        return {**_head(started, "chat.completion"), "choices": [choice], "usage": _usage(usage)}

    def error(self, kind: str, message: str, request_id: str) -> Json:
        """The body of a refusal."""
        return openai_error(kind, message)


def openai_error(kind: str, message: str) -> Json:
    """A refusal in OpenAI's form."""
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def arguments(call: ToolUse) -> str:
    """A call's input as the text that the service sends."""
    return call.malformed if call.malformed is not None else codec.encode(call.input).decode()


def finish(stop: str | None) -> str | None:
    """The service's word for how a reply ended."""
    return STOPS.get(stop, "content_filter" if stop == "refusal" else stop) if stop else None


class _Stream:
    def __init__(self, include_usage: bool) -> None:
        self._include_usage = include_usage
        self._calls = -1
        self._head: Json = {}
        self._before = b""
        self._after = b""
        self._open = b""
        self._shut = b""

    def encode(self, chunk: Chunk) -> bytes:
        match chunk:
            case BlockDelta(text=text):
                return self._open + codec.encode(text) + self._shut
            case BlockStarted():
                return self._block_started(chunk)
            case ReplyStarted():
                return self._reply_started(chunk)
            case ReplyEnded(stop=stop, usage=usage):
                return self._reply_ended(finish(stop), usage)
        return b""

    def ping(self) -> bytes:
        return b": ping\n\n"

    def error(self, kind: str, message: str) -> bytes:
        return plain_event(openai_error(kind, message))

    def _reply_started(self, chunk: ReplyStarted) -> bytes:
        self._head = _head(chunk, "chat.completion.chunk")
        head = codec.encode(self._head)[:-1]
        self._before = b"data: " + head + b',"choices":[{"index":0,"delta":'
        usage = b',"usage":null' if self._include_usage else b""
        self._after = b',"logprobs":null,"finish_reason":null}]' + usage + b"}\n\n"
        return self._delta({"role": "assistant", "content": "", "refusal": None})

    def _block_started(self, chunk: BlockStarted) -> bytes:
        if chunk.kind == "tool_use":
            self._calls += 1
            opening = b'{"tool_calls":[{"index":%d,"function":{"arguments":' % self._calls
            self._open, self._shut = self._before + opening, b"}}]}" + self._after
            function = {"name": chunk.name, "arguments": ""}
            call = {"index": self._calls, "id": chunk.call, "type": "function", "function": function}
            return self._delta({"tool_calls": [call]})
        key = b"reasoning_content" if chunk.kind == "thinking" else b"content"
        self._open, self._shut = self._before + b'{"%b":' % key, b"}" + self._after
        return b""

    def _reply_ended(self, reason: str | None, usage: Usage) -> bytes:
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}
        nothing = {"usage": None} if self._include_usage else {}
        said = plain_event({**self._head, "choices": [choice], **nothing})
        if self._include_usage:
            said += plain_event({**self._head, "choices": [], "usage": _usage(usage)})
        return said + b"data: [DONE]\n\n"

    def _delta(self, delta: Any) -> bytes:
        return self._before + codec.encode(delta) + self._after


def _head(started: ReplyStarted, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{started.reply}",
        "object": kind,
        "created": int(time.time()),
        "model": started.model,
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
    }


def _usage(usage: Usage) -> Json:
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _check_message(message: Any, where: str) -> None:
    require(isinstance(message, dict), f"{where}: must be an object")
    role = message.get("role")
    require(role in ROLES, f"{where}.role: {role!r} is not one of {', '.join(ROLES)}")
    content = message.get("content")
    calls = message.get("tool_calls")
    if content is None:
        require(role == "assistant" and calls, f"{where}.content: expected a string or a list, got null")
    else:
        require(isinstance(content, str | list), f"{where}.content: expected a string or a list")
        require(content != [], f"{where}.content: must not be an empty list")
    if isinstance(content, list):
        allowed = ("text", "image_url", "input_audio", "file") if role == "user" else ("text", "refusal")
        for k, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            require(kind in allowed, f"{where}.content[{k}].type: {kind!r} is not permitted for role {role}")
            require(kind != "text" or part.get("text"), f"{where}.content[{k}].text: must not be empty")
    if role == "tool":
        require(isinstance(message.get("tool_call_id"), str), f"{where}.tool_call_id: required")
    require(calls is None or role == "assistant", f"{where}.tool_calls: only for role assistant")
    require(calls is None or (isinstance(calls, list) and calls), f"{where}.tool_calls: must not be empty")
    for k, call in enumerate(calls or []):
        _check_call(call, f"{where}.tool_calls[{k}]")


def _check_call(call: Any, where: str) -> None:
    require(isinstance(call, dict) and call.get("type") == "function", f"{where}.type: must be 'function'")
    require(isinstance(call.get("id"), str) and call["id"], f"{where}.id: required")
    function = call.get("function")
    require(isinstance(function, dict), f"{where}.function: required")
    require(isinstance(function.get("name"), str) and function["name"], f"{where}.function.name: required")
    text = function.get("arguments")
    require(isinstance(text, str), f"{where}.function.arguments: must be a string")
    try:
        data = codec.decode_json(text.encode())
    except (codec.DecodeError, UnicodeEncodeError):
        data = None
    # several servers refuse or crash on history whose arguments are not one JSON object
    require(isinstance(data, dict), f"{where}.function.arguments: must be the JSON of an object")


def _check_answers(messages: list[Json]) -> None:
    open_calls: list[str] = []
    seen: set[str] = set()
    for n, message in enumerate(messages):
        if message["role"] == "tool":
            call = message["tool_call_id"]
            require(
                call in open_calls,
                f"messages.[{n}]: messages with role 'tool' must be a response to a preceding message with "
                f"'tool_calls' ({call})",
            )
            open_calls.remove(call)
            continue
        _require_answered(open_calls)
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
        for call in open_calls:
            require(call not in seen, f"messages.[{n}].tool_calls: ids must be unique, {call} is not")
            seen.add(call)
    _require_answered(open_calls)


def _require_answered(open_calls: list[str]) -> None:
    require(
        not open_calls,
        "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(open_calls)}",
    )


def _said(message: Json) -> Said:
    words = content_text(message.get("content"))
    if message["role"] == "tool":
        return Said("user", (), (SeenResult(message["tool_call_id"], words),))
    return Said(message["role"], (words,) if words else ())
