"""OpenAI Responses, as the service speaks it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tugline.protocol import codec
from tugline.protocol.blocks import AssistantBlock, Opaque, Text, Thinking, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.usage import Usage
from tugline.testing.dialects import Encoder, Json, gather
from tugline.testing.prompt_cache import Piece, PromptCache
from tugline.testing.validity import check_schema, check_tool_names, require
from tugline.testing.view import Said, SeenResult, View, content_text, view_of
from tugline.testing.wire_chat import arguments, openai_error

INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}


class Responses:
    """`POST /v1/responses`."""

    name = "responses"

    def check(self, body: Json, headers: Mapping[str, str]) -> None:
        """Raise `Invalid` unless the service would take this request."""
        require(isinstance(body.get("model"), str) and body["model"], "Missing required parameter: 'model'.")
        require(body.get("previous_response_id") is None, "previous_response_id: this server keeps no responses")
        limit = body.get("max_output_tokens")
        require(limit is None or (isinstance(limit, int) and limit >= 16), "max_output_tokens: at least 16")
        require(isinstance(body.get("instructions") or "", str), "instructions: must be a string")
        items = body.get("input")
        require(isinstance(items, str | list) and items, "Missing required parameter: 'input'.")
        if isinstance(items, list):
            for n, item in enumerate(items):
                _check_item(item, f"input[{n}]")
            _check_answers(items)
        tools = body.get("tools")
        require(tools is None or isinstance(tools, list), "tools: must be a list")
        for n, tool in enumerate(tools or []):
            require(isinstance(tool, dict) and isinstance(tool.get("type"), str), f"tools[{n}].type: required")
        functions = [tool for tool in tools or [] if tool["type"] == "function"]
        for n, tool in enumerate(functions):
            check_schema(tool.get("parameters"), f"tools[{n}].parameters")
        check_tool_names([tool.get("name") for tool in functions], 64)

    def view(self, body: Json) -> View:
        """What a script can see of the request."""
        items = body["input"]
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        system = [body.get("instructions") or ""]
        system += [content_text(item.get("content")) for item in items if item.get("role") in ("system", "developer")]
        return view_of(
            [said for item in items if (said := _said(item)) is not None],
            model=body["model"],
            system="\n\n".join(text for text in system if text),
            tools=tuple(tool["name"] for tool in body.get("tools") or [] if tool.get("type") == "function"),
            stream=body.get("stream") is True,
            characters=0,
        )

    def usage(self, body: Json, cache: PromptCache) -> Usage:
        """What the request costs: prefixes are kept unasked."""
        items = body["input"]
        parts = [*(body.get("tools") or []), body.get("instructions") or ""]
        parts += [items] if isinstance(items, str) else items
        return cache.automatic(body["model"], [Piece(codec.encode(part)) for part in parts if part])

    def encoder(self, body: Json) -> Encoder:
        """For a streamed reply."""
        return _Stream()

    def whole(self, chunks: Sequence[Chunk]) -> Json:
        """The reply in one piece."""
        started, blocks, stop, usage = gather(chunks)
        numbered = [(n, block) for n, block in enumerate(blocks) if _kept(block)]
        return _response(started, [_item(started, n, block) for n, block in numbered], stop, usage)

    def error(self, kind: str, message: str, request_id: str) -> Json:
        """The body of a refusal."""
        return openai_error(kind, message)


class _Stream:
    def __init__(self) -> None:
        self._sequence = -1
        self._started: ReplyStarted | None = None
        self._output: list[Json] = []
        self._item = ""
        self._before = b""
        self._after = b""
        self._raw: list[str] = []

    def encode(self, chunk: Chunk) -> bytes:
        match chunk:
            case BlockDelta(text=text):
                self._raw.append(text)
                self._sequence += 1
                return self._before + codec.encode(text) + self._after % self._sequence
            case BlockStarted():
                return self._block_started(chunk)
            case BlockClosed(index=index, block=block):
                return self._block_closed(index, block)
            case ReplyStarted():
                self._started = chunk
                begun = _response(chunk, [], None, None)
                return self._event("response.created", response=begun) + self._event(
                    "response.in_progress", response=begun
                )
            case ReplyEnded(stop=stop, usage=usage):
                assert self._started is not None
                whole = _response(self._started, self._output, stop, usage)
                return self._event(f"response.{whole['status']}", response=whole)
        return b""

    def ping(self) -> bytes:
        return b": ping\n\n"

    def error(self, kind: str, message: str) -> bytes:
        return self._event("error", code=kind, message=message, param=None)

    def _event(self, name: str, /, **data: Any) -> bytes:
        self._sequence += 1
        said = codec.encode({"type": name, **data, "sequence_number": self._sequence})
        return b"event: %b\ndata: %b\n\n" % (name.encode(), said)

    def _block_started(self, chunk: BlockStarted) -> bytes:
        if chunk.kind == "opaque":
            return b""
        assert self._started is not None
        at = len(self._output)
        self._raw = []
        empty = _empty(self._started, chunk)
        self._item = empty["id"]
        said = self._event("response.output_item.added", output_index=at, item=empty)
        where: Json = {"item_id": self._item, "output_index": at}
        if chunk.kind == "text":
            where["content_index"] = 0
            said += self._event("response.content_part.added", **where, part=_text_part(""))
        elif chunk.kind == "thinking":
            where["summary_index"] = 0
            said += self._event("response.reasoning_summary_part.added", **where, part=_summary(""))
        self._deltas(_DELTAS[chunk.kind], {**where, "logprobs": []} if chunk.kind == "text" else where)
        return said

    def _deltas(self, name: str, where: Json) -> None:
        head = codec.encode({"type": name, **where})[:-1]
        self._before = b'event: %b\ndata: %b,"delta":' % (name.encode(), head)
        self._after = b',"sequence_number":%d}\n\n'

    def _block_closed(self, index: int, block: AssistantBlock) -> bytes:
        assert self._started is not None
        if not _kept(block):
            return b""
        at = len(self._output)
        item = _item(self._started, index, block)
        self._output.append(item)
        where = {"item_id": item.get("id", ""), "output_index": at}
        match block:
            case Text(text=text):
                here = {**where, "content_index": 0}
                said = self._event("response.output_text.done", **here, text=text, logprobs=[])
                said += self._event("response.content_part.done", **here, part=_text_part(text))
            case Thinking(thinking=text):
                here = {**where, "summary_index": 0}
                said = self._event("response.reasoning_summary_text.done", **here, text=text)
                said += self._event("response.reasoning_summary_part.done", **here, part=_summary(text))
            case ToolUse(name=name):
                item["arguments"] = "".join(self._raw)
                said = self._event(
                    "response.function_call_arguments.done", **where, name=name, arguments=item["arguments"]
                )
            case _:
                said = self._event("response.output_item.added", output_index=at, item=item)
        return said + self._event("response.output_item.done", output_index=at, item=item)


_DELTAS = {
    "text": "response.output_text.delta",
    "thinking": "response.reasoning_summary_text.delta",
    "tool_use": "response.function_call_arguments.delta",
}


def _kept(block: AssistantBlock) -> bool:
    return not isinstance(block, Opaque) or block.provider.startswith("openai")


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary(text: str) -> Json:
    return {"type": "summary_text", "text": text}


def _empty(started: ReplyStarted, chunk: BlockStarted) -> Json:
    suffix = f"{started.reply}_{chunk.index}"
    if chunk.kind == "text":
        return {"id": suffix, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    if chunk.kind == "thinking":
        return {"id": f"rs_{suffix}", "type": "reasoning", "summary": []}
    return {
        "id": f"fc_{suffix}",
        "type": "function_call",
        "status": "in_progress",
        "call_id": chunk.call,
        "name": chunk.name,
        "arguments": "",
    }


def _item(started: ReplyStarted, index: int, block: AssistantBlock) -> Json:
    suffix = f"{started.reply}_{index}"
    match block:
        case Text(text=text):
            content = [_text_part(text)]
            return {"id": suffix, "type": "message", "status": "completed", "role": "assistant", "content": content}
        case Thinking(thinking=thinking, signature=signature):
            secret = {"encrypted_content": signature} if signature else {}
            return {"id": f"rs_{suffix}", "type": "reasoning", "summary": [_summary(thinking)], **secret}
        case ToolUse(id=call, name=name):
            return {
                "id": f"fc_{suffix}",
                "type": "function_call",
                "status": "completed",
                "call_id": call,
                "name": name,
                "arguments": arguments(block),
            }
        case Opaque(data=data):
            return data


def _response(started: ReplyStarted, output: list[Json], stop: str | None, usage: Usage | None) -> Json:
    reason = INCOMPLETE.get(stop or "")
    status = "in_progress" if stop is None else "incomplete" if reason else "completed"
    return {
        "id": f"resp_{started.reply}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": started.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(usage) if usage is not None else None,
        "metadata": {},
    }


def _usage(usage: Usage) -> Json:
    prompt = usage.input + usage.cache_read + usage.cache_write
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + usage.output,
    }


def _check_item(item: Any, where: str) -> None:
    require(isinstance(item, dict), f"{where}: must be an object")
    kind = item.get("type", "message" if "role" in item else None)
    match kind:
        case "message":
            _check_message(item, where)
        case "function_call":
            for field in ("call_id", "name", "arguments"):
                require(isinstance(item.get(field), str), f"Missing required parameter: '{where}.{field}'.")
        case "function_call_output":
            require(isinstance(item.get("call_id"), str), f"Missing required parameter: '{where}.call_id'.")
            output = item.get("output")
            require(isinstance(output, str | list), f"{where}.output: must be a string or a list")
        case "reasoning":
            require(isinstance(item.get("summary"), list), f"Missing required parameter: '{where}.summary'.")
        case _:
            known = kind in ("item_reference", "web_search_call", "compaction")
            require(known, f"Invalid value: {kind!r} at {where}.type")


def _check_message(item: Json, where: str) -> None:
    role = item.get("role")
    require(role in ("user", "assistant", "system", "developer"), f"{where}.role: {role!r} is not supported")
    content = item.get("content")
    require(isinstance(content, str | list) and content, f"{where}.content: must not be empty")
    if isinstance(content, list):
        allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
        for k, part in enumerate(content):
            kind = part.get("type") if isinstance(part, dict) else None
            require(kind in allowed, f"Invalid value: {kind!r} at {where}.content[{k}].type for role {role}")
            require(not str(kind).endswith("text") or part.get("text"), f"{where}.content[{k}].text: must not be empty")


def _check_answers(items: list[Json]) -> None:
    calls: set[str] = set()
    answered: set[str] = set()
    for item in items:
        if item.get("type") == "function_call":
            call = item["call_id"]
            require(call not in calls, f"Duplicate function call with call_id {call}.")
            calls.add(call)
        elif item.get("type") == "function_call_output":
            call = item["call_id"]
            require(call in calls, f"No tool call found for function call output with call_id {call}.")
            require(call not in answered, f"Duplicate function call output with call_id {call}.")
            answered.add(call)
        elif item.get("role") == "user":
            _require_answered(calls - answered)
    _require_answered(calls - answered)


def _require_answered(missing: set[str]) -> None:
    require(not missing, f"No tool output found for function call {', '.join(sorted(missing))}.")


def _said(item: Json) -> Said | None:
    if item.get("type") == "function_call_output":
        return Said("user", (), (SeenResult(item["call_id"], content_text(item["output"])),))
    if item.get("type") in ("function_call", "reasoning"):
        return Said("assistant")
    role = item.get("role")
    if role not in ("user", "assistant"):
        return None
    return Said(role, tuple(text for text in [content_text(item["content"])] if text))
