"""The prompt cache hits: requests are byte-identical in their prefix once markers are set aside (decision 29)."""

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from conversations import LS, READ, conversations, request
from hypothesis import given, settings
from hypothesis import strategies as st

from tugline.protocol.blocks import ToolResult, ToolUse
from tugline.protocol.codec import decode_message
from tugline.protocol.codec import encode as to_json
from tugline.protocol.messages import Message, User
from tugline.protocol.specs import ModelRequest
from tugline.providers.anthropic import AnthropicEncoder
from tugline.providers.catalog import Catalog
from tugline.providers.openai_chat import ChatEncoder
from tugline.providers.openai_responses import ResponsesEncoder

MARK = b',"cache_control":{"type":"ephemeral"}'
ENCODERS: dict[str, Any] = {"anthropic": AnthropicEncoder, "chat": ChatEncoder, "responses": ResponsesEncoder}
OPTIONS: dict[str, Any] = {"anthropic": {}, "chat": {"openai_itself": True}, "responses": {}}
MODELS = {"anthropic": "claude-sonnet-4-5", "chat": "gpt-4o", "responses": "gpt-5"}


def asked(dialect: str, history: list[Message], **options: Any) -> ModelRequest:
    return request(
        *history, model=MODELS[dialect], system=("You are tugline.", "Rules."), tools=(READ, LS), session="s", **options
    )


def stems(history: list[Message]) -> list[int]:
    """Lengths of the history at which the loop asks the model: after what the user says, with all results there."""
    made = []
    for length in range(1, len(history) + 1):
        said = [block for message in history[:length] for block in message.content]
        pending = {block.id for block in said if isinstance(block, ToolUse)}
        answered = {block.tool_use_id for block in said if isinstance(block, ToolResult)}
        if isinstance(history[length - 1], User) and pending == answered:
            made.append(length)
    return made


def prefix(body: bytes) -> bytes:
    """What the next request has to begin with: all up to the end of the last content."""
    plain = body.replace(MARK, b"")
    cut = re.search(rb'(?:\]\}|"\})?\](?:,"max_tokens"|,"stream")', plain)
    assert cut is not None
    return plain[: cut.start()]


@pytest.mark.parametrize("dialect", ENCODERS)
@given(history=conversations(), tail=st.sampled_from(["", "mind the time"]))
@settings(max_examples=60, deadline=None)
def test_each_request_begins_with_the_one_before(dialect: str, history: list[Message], tail: str) -> None:
    encoder = ENCODERS[dialect](Catalog(), **OPTIONS[dialect])
    for before, after in zip(stems(history), stems(history)[1:], strict=False):
        first = encoder.encode(asked(dialect, history[:before]))[1]
        second = encoder.encode(asked(dialect, history[:after], tail=tail))[1].replace(MARK, b"")
        assert second.startswith(prefix(first))


@given(history=conversations())
@settings(max_examples=60, deadline=None)
def test_servers_that_take_words_as_strings_too_unless_a_picture_joins_words(history: list[Message]) -> None:
    encoder = ChatEncoder(Catalog({"gpt-4o": {"images": False, "documents": False}}))
    for before, after in itertools.pairwise(stems(history)):
        first = encoder.encode(asked("chat", history[:before]))[1]
        assert encoder.encode(asked("chat", history[:after]))[1].startswith(prefix(first))


@pytest.mark.parametrize("dialect", ENCODERS)
@given(history=conversations())
@settings(max_examples=40, deadline=None)
def test_a_kept_conversation_and_a_resumed_one_give_the_same_bytes(dialect: str, history: list[Message]) -> None:
    encoder = ENCODERS[dialect](Catalog())
    for length in stems(history):
        kept = encoder.encode(asked(dialect, history[:length]))[1]
        resumed = [decode_message(to_json(message)) for message in history[:length]]
        fresh = ENCODERS[dialect](Catalog()).encode(asked(dialect, resumed))[1]
        assert kept.replace(MARK, b"") == fresh.replace(MARK, b"")


def reads(body: bytes) -> list[bytes]:
    """The prefixes that markers in the messages name, without any marker in them."""
    start = body.index(b'"messages"')
    found = [match.start() for match in re.finditer(re.escape(MARK), body) if match.start() > start]
    return [body[:place].replace(MARK, b"") for place in found]


@given(history=conversations(), tails=st.lists(st.sampled_from(["", "tail"]), min_size=20, max_size=20))
@settings(max_examples=100, deadline=None)
def test_each_request_reads_what_the_one_before_wrote(history: list[Message], tails: list[str]) -> None:
    encoder = AnthropicEncoder(Catalog())
    written: list[bytes] = []
    for length, tail in zip(stems(history), tails, strict=False):
        body = encoder.encode(asked("anthropic", history[:length], tail=tail))[1]
        places = reads(body)
        assert 1 <= len(places) <= 2
        if written:
            assert written[-1] in places
            assert len(places[-1]) >= len(written[-1])
        assert body.count(MARK) <= 4
        written = places


@pytest.mark.parametrize("dialect", ENCODERS)
@given(history=conversations())
@settings(max_examples=40, deadline=None)
def test_bodies_are_json_that_keeps_to_the_protocol(dialect: str, history: list[Message]) -> None:
    body = ENCODERS[dialect](Catalog()).encode(asked(dialect, history))[1]
    CHECKS[dialect](json.loads(body))


def check_anthropic(body: dict[str, Any]) -> None:
    roles = [message["role"] for message in body["messages"]]
    assert roles[0] == "user"
    assert all(a != b for a, b in itertools.pairwise(roles))
    open_calls: list[str] = []
    for message in body["messages"]:
        assert message["content"]
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        assert results == open_calls or (message["role"] == "assistant" and not open_calls)
        assert [block["type"] for block in message["content"]][: len(results)] == ["tool_result"] * len(results)
        assert all(block["text"].strip() for block in message["content"] if block["type"] == "text")
        open_calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]


def check_chat(body: dict[str, Any]) -> None:
    open_calls: list[str] = []
    last = ""
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
        else:
            assert not open_calls
            assert message["role"] != last
        open_calls += [made["id"] for made in message.get("tool_calls", [])]
        last = message["role"]


def check_responses(body: dict[str, Any]) -> None:
    calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
    assert calls == [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "anthropic": check_anthropic,
    "chat": check_chat,
    "responses": check_responses,
}
