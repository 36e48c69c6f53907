"""What we send is what the official clients' own types allow: each request of ours is checked against them."""

import json
from functools import cache
from typing import Any

import pytest
from conversations import LS, PDF, PNG, READ, assistant, call, conversations, result, user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from partner import PROTOCOLS, adapter

from tugline.protocol.blocks import Opaque, Thinking
from tugline.protocol.messages import Message
from tugline.protocol.specs import ModelRequest

pytest_plugins = ["partner_programs"]

pytestmark = pytest.mark.partner

MODELS = {
    "messages": ("claude-sonnet-4-5", "claude-opus-4-6", "claude-3-5-haiku-latest", "claude-unheard-of"),
    "chat": ("gpt-4o", "gpt-5", "o3-mini", "llama-3.1-8b"),
    "responses": ("gpt-5", "gpt-4o", "gpt-unheard-of"),
}


@cache
def oracle(protocol: str, stream: bool) -> Any:
    """Accepts the requests that the client's types describe, and nothing beside."""
    reason = "the official clients are not installed: make test-partners"
    pydantic = pytest.importorskip("pydantic", reason=reason)
    core = pytest.importorskip("pydantic_core", reason=reason)
    module, name = {
        "messages": ("anthropic.types.message_create_params", "MessageCreateParams"),
        "chat": ("openai.types.chat.completion_create_params", "CompletionCreateParams"),
        "responses": ("openai.types.responses.response_create_params", "ResponseCreateParams"),
    }[protocol]
    params = pytest.importorskip(module, reason=reason)
    described = getattr(params, name + ("Streaming" if stream else "NonStreaming"))
    return core.SchemaValidator(_strict(pydantic.TypeAdapter(described).core_schema))


def _strict(schema: Any) -> Any:
    """The same schema, but iterables are checked to the end, and what is not described is refused."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if kind == "model":  # what the service answers is allowed there as an object of the client, not as JSON
            return {"type": "is-instance", "cls": schema["cls"]} | ({"ref": schema["ref"]} if "ref" in schema else {})
        made = {key: _strict(value) for key, value in schema.items()}
        if kind == "generator":
            made["type"] = "list"
        elif kind == "typed-dict":
            made["extra_behavior"] = "forbid"
        return made
    if isinstance(schema, list | tuple):
        return type(schema)(_strict(part) for part in schema)
    return schema


def check(protocol: str, request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(adapter(protocol, "http://127.0.0.1:1").prepare(request).body)
    oracle(protocol, request.stream).validate_python(body)
    return body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_oracle_refuses_what_is_wrong(protocol: str) -> None:
    good = check(protocol, ModelRequest(MODELS[protocol][0], (user("m", "hi"),), tools=(READ,)))
    items = good["input" if protocol == "responses" else "messages"]
    validate = oracle(protocol, True).validate_python
    error = pytest.importorskip("pydantic_core").ValidationError
    for place, key, value in [
        (good, "modell", "x"),
        (good, "stream", "yes"),
        (items[0], "role", "persona"),
        (items[0], "content", [{"type": "words", "text": "x"}]),
        (items[0], "content", [{"type": "text", "text": "x", "cache": 1}]),
        (good["tools"][0], "type", "functional"),
    ]:
        kept = place.get(key)
        place[key] = value
        with pytest.raises(error):
            validate(good)
        place[key] = kept
        if kept is None:
            del place[key]
    validate(good)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_request_is_one_that_the_client_could_have_sent(protocol: str, data: st.DataObject) -> None:
    messages: list[Message] = data.draw(conversations())
    request = ModelRequest(
        data.draw(st.sampled_from(MODELS[protocol])),
        messages,
        system=data.draw(st.sampled_from([(), ("Be brief.",), ("One.", "Two.")])),
        tools=data.draw(st.sampled_from([(), (READ,), (READ, LS)])),
        max_output_tokens=data.draw(st.sampled_from([None, 100])),
        thinking_tokens=data.draw(st.sampled_from([0, 2048])),
        effort=data.draw(st.sampled_from([None, "low", "high", "max"])),
        stream=data.draw(st.booleans()),
        tail=data.draw(st.sampled_from(["", "Remember."])),
        session="s",
        agent="main",
    )
    check(protocol, request)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_long_job_with_all_that_there_is(protocol: str) -> None:
    provider = "anthropic" if protocol == "messages" else "openai"
    kept = {"type": "redacted_thinking", "data": "x"}
    if provider == "openai":
        kept = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}  # type: ignore[dict-item]
    body = check(
        protocol,
        ModelRequest(
            MODELS[protocol][0],
            (
                user("1", "Look at these.", PNG, PDF),
                assistant("2", Thinking("hm", "sig"), Opaque(provider, kept), "I look.", call("a"), call("b", "Ls")),
                user("3", result("a", (PNG,)), result("b", "no", is_error=True)),
                assistant("4", call("c", malformed="{nope")),
                user("5", result("c", "The input was no JSON.", is_error=True), "Go on."),
                assistant("6", "Done."),
                user("7", "Thanks."),
            ),
            system=("Be brief.", "Today is Tuesday."),
            tools=(READ, LS),
            tail="Remember.",
        ),
    )
    assert len(body["tools"]) == 2
