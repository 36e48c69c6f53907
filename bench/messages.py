"""Replies in the dialect of Anthropic Messages."""

import json

from bench.sse import Pieces, event, many, whole

DONE = b'"role":"assistant"'
"""What a request has once per reply that it holds."""


def start() -> bytes:
    """The beginning of every reply."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    return event("message_start", {"message": message})


def end(stop: str) -> bytes:
    """The end of every reply."""
    delta = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 10}}
    return event("message_delta", delta) + event("message_stop", {})


def block(index: int, opened: dict[str, object], deltas: list[dict[str, object]]) -> bytes:
    """One block."""
    parts = [event("content_block_start", {"index": index, "content_block": opened})]
    parts += [event("content_block_delta", {"index": index, "delta": delta}) for delta in deltas]
    parts.append(event("content_block_stop", {"index": index}))
    return b"".join(parts)


def call(index: int, name: str, data: dict[str, object], step: int) -> bytes:
    """A call."""
    opened = {"type": "tool_use", "id": f"toolu_{step}_{index}", "name": name, "input": {}}
    return block(index, opened, [{"type": "input_json_delta", "partial_json": json.dumps(data)}])


def calling(name: str, data: dict[str, object], step: int) -> Pieces:
    """A reply that is one call."""
    return whole(start(), call(0, name, data, step), end("tool_use"))


def final() -> Pieces:
    """The last reply."""
    return whole(
        start(), block(0, {"type": "text", "text": ""}, [{"type": "text_delta", "text": "done"}]), end("end_turn")
    )


def burst(deltas: int) -> Pieces:
    """A reply of many deltas."""
    opened = event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}})
    one = event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "word "}})
    return many(start() + opened, one, deltas, event("content_block_stop", {"index": 0}) + end("end_turn"))
