import json
from typing import Any

import pytest
from conversations import PDF, PNG, READ, assistant, call, request, result, user

from tugline.net.client import HttpClient
from tugline.protocol.blocks import Opaque, Text, Thinking
from tugline.protocol.errors import ProviderError
from tugline.protocol.specs import ModelRequest
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.openai_responses import OpenAIResponsesProvider, ResponsesEncoder


def encode(wanted: ModelRequest) -> dict[str, Any]:
    body = json.loads(ResponsesEncoder(Catalog()).encode(wanted)[1])
    assert isinstance(body, dict)
    return body


def ask(*history: Any, model: str = "gpt-5", **options: Any) -> ModelRequest:
    return request(*history, model=model, **options)


def words(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


def test_a_whole_request() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    wanted = ask(
        user("m1", "read it"),
        assistant("m2", Thinking("hm"), Opaque("openai", reasoning), "Sure.", call("c1", file_path="a")),
        user("m3", result("c1", "words")),
        system=("You are tugline.", "Today is Friday."),
        tools=(READ,),
        session="s1",
        effort="medium",
        tail="Mind the time.",
    )
    assert encode(wanted) == {
        "model": "gpt-5",
        "instructions": "You are tugline.\n\nToday is Friday.",
        "tools": [
            {
                "type": "function",
                "name": "Read",
                "description": READ.description,
                "parameters": READ.input_schema,
                "strict": False,
            }
        ],
        "input": [
            {"type": "message", "role": "user", "content": [words("read it")]},
            reasoning,
            {"type": "message", "role": "assistant", "content": "Sure."},
            {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"file_path":"a"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "words"},
            {"type": "message", "role": "user", "content": [words("Mind the time.")]},
        ],
        "stream": True,
        "store": False,
        "reasoning": {"summary": "auto", "effort": "medium"},
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "s1:",
    }


def test_neighbours_are_joined_and_results_come_first() -> None:
    wanted = ask(
        user("m1", "a"),
        user("m2", "b"),
        assistant("m4", call("c1"), call("c2")),
        user("m5", result("c1")),
        user("m6", "by the way"),
        user("m7", result("c2")),
    )
    items = encode(wanted)["input"]
    assert items[0] == {"type": "message", "role": "user", "content": [words("a"), words("b")]}
    assert [item.get("type", item.get("role")) for item in items[1:]] == [
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]


def test_parts_and_what_others_said_only_to_themselves() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
    file = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
    wanted = ask(
        user("m0", "x", PNG, PDF),
        assistant("m1", Thinking("t", "sig"), Opaque("anthropic", {"type": "redacted_thinking"}), call("c1")),
        user("m2", result("c1", (Text("one"), PNG))),
    )
    items = encode(wanted)["input"]
    assert items[0]["content"] == [words("x"), image, file]
    assert [item["type"] for item in items[1:]] == ["function_call", "function_call_output"]
    assert items[2]["output"] == [words("one"), image]


def test_a_model_that_does_not_think_is_not_asked_about_it() -> None:
    body = encode(ask(user("m0", "x"), model="gpt-4o", max_output_tokens=9))
    assert "reasoning" not in body
    assert "include" not in body
    assert body["max_output_tokens"] == 9
    assert encode(ask(user("m0", "x"), model="new", effort="low"))["reasoning"] == {"effort": "low"}


def test_an_empty_conversation_and_a_model_without_tools() -> None:
    assert encode(ask())["input"] == [{"type": "message", "role": "user", "content": [words("(nothing)")]}]
    with pytest.raises(ProviderError, match="cannot call tools"):
        encode(ask(user("m0", "x"), model="gpt-5-chat-latest", tools=(READ,)))


def test_the_envelope() -> None:
    endpoint = Endpoint(base_url="https://api.openai.com/v1", key="k")
    outgoing = OpenAIResponsesProvider(endpoint, HttpClient(), Catalog()).prepare(ask(user("m0", "x"), stream=False))
    assert outgoing.url == "https://api.openai.com/v1/responses"
    assert dict(outgoing.headers)["authorization"] == "Bearer k"
    assert dict(outgoing.headers)["accept"] == "application/json"
    assert outgoing.stream is False
