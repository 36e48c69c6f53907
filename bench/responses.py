"""Replies in the dialect of OpenAI Responses."""

import json

from bench.sse import Pieces, event, many, whole

DONE = b'"type":"function_call_output"'
"""What a request has once per call that was answered."""


def start() -> bytes:
    """The beginning of every reply."""
    return event("response.created", {"response": {"id": "resp_1", "object": "response", "status": "in_progress"}})


def end() -> bytes:
    """The end of every reply."""
    usage = {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20,
    }  # fmt: skip
    body = {"id": "resp_1", "object": "response", "status": "completed", "output": [], "usage": usage}
    return event("response.completed", {"response": body})


def calling(name: str, data: dict[str, object], step: int) -> Pieces:
    """A reply that is one call."""
    item = {"type": "function_call", "id": f"fc_{step}", "call_id": f"call_{step}", "name": name}
    opened = {**item, "arguments": "", "status": "in_progress"}
    closed = {**item, "arguments": json.dumps(data), "status": "completed"}
    return whole(
        start(),
        event("response.output_item.added", {"output_index": 0, "item": opened}),
        event("response.output_item.done", {"output_index": 0, "item": closed}),
        end(),
    )


def burst(deltas: int, word: str = "word ") -> Pieces:
    """A reply of many deltas."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item = {"type": "message", "id": "msg_1", "role": "assistant"}
    part = {"type": "output_text", "annotations": []}
    before = event("response.output_item.added", {"output_index": 0, "item": {**item, "content": []}})
    before += event("response.content_part.added", {**place, "part": {**part, "text": ""}})
    delta = event("response.output_text.delta", {**place, "delta": word})
    text = {**part, "text": word * deltas}
    after = event("response.output_text.done", {**place, "text": word * deltas})
    after += event("response.output_item.done", {"output_index": 0, "item": {**item, "content": [text]}})
    if deltas == 1:
        return whole(start(), before, delta, after, end())
    return many(start() + before, delta, deltas, after + end())


def final() -> Pieces:
    """The last reply."""
    return burst(1, "done")
