"""What the services refuse, the scripted one refuses too."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.testing import ModelServer, reply
from tugline.testing.prompt_cache import PromptCache
from tugline.testing.validity import Invalid
from tugline.testing.wire_anthropic import Messages
from tugline.testing.wire_chat import Chat
from tugline.testing.wire_responses import Responses

pytest_plugins = ["raw_wire"]

Connect = Callable[[int], Any]


def use(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "Read", "input": {}} for i in ids]}


def results(*ids: str, words: str = "x") -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": i, "content": words} for i in ids]
    return {"role": "user", "content": blocks}


def user(content: Any = "hi") -> dict[str, Any]:
    return {"role": "user", "content": content}


def tool(name: str = "Read", schema: Any = None) -> dict[str, Any]:
    return {"name": name, "description": "", "input_schema": schema or {"type": "object", "properties": {}}}


MARK = {"cache_control": {"type": "ephemeral"}}

ANTHROPIC_BAD: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "at least one message is required"),
    ({"messages": None}, "valid list"),
    ({"max_tokens": None}, "max_tokens: Field required"),
    ({"max_tokens": 0}, "greater than or equal to 1"),
    ({"model": ""}, "model: Field required"),
    ({"surprise": 1}, "surprise: Extra inputs"),
    ({"messages": [{"role": "assistant", "content": "x"}]}, "first message must use the user role"),
    ({"messages": [{"role": "system", "content": "x"}]}, "role"),
    ({"messages": [user("")]}, "non-empty"),
    ({"messages": [user([{"type": "text", "text": " \n"}])]}, "non-whitespace"),
    ({"messages": [user([])]}, "non-empty content"),
    ({"messages": [{**user(), "id": "m1"}]}, "messages.0.id: Extra inputs"),
    ({"messages": [user(), use("a")]}, "without `tool_result` blocks immediately after: a"),
    ({"messages": [user(), use("a"), user()]}, "without `tool_result` blocks immediately after: a"),
    ({"messages": [user(), use("a", "b"), results("a")]}, "immediately after: b"),
    ({"messages": [user(), use("a"), results("a", "a")]}, "single result"),
    ({"messages": [user(), use("a"), results("a", "c")]}, "unexpected `tool_use_id`"),
    ({"messages": [results("a")]}, "unexpected `tool_use_id`"),
    ({"messages": [user(), use("a"), results("a"), user("more"), results("a")]}, "single result"),
    ({"messages": [user(), use("a"), results("a"), use("a"), results("a")]}, "ids must be unique"),
    ({"messages": [user(), use("a b"), results("a b")]}, "pattern"),
    ({"messages": [user(), use("a"), user("first"), results("a")]}, "must come first"),
    ({"messages": [user([{"type": "image", "source": {"type": "base64", "media_type": "x"}}])]}, "data"),
    ({"messages": [user([{"type": "thinking", "thinking": "x"}])]}, "not permitted"),
    ({"messages": [user(), {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}]}, "signature"),
    ({"tools": [tool(), tool()]}, "Tool names must be unique"),
    ({"tools": [tool("a b")]}, "does not match"),
    ({"tools": [tool(schema={"type": "string"})]}, "Input should be 'object'"),
    ({"tools": [tool(schema={"type": "object", "properties": {}, "required": ["x"]})]}, "does not exist"),
    ({"system": [{"type": "text", "text": ""}]}, "non-whitespace"),
    ({"messages": [user([{"type": "text", "text": f"{n}", **MARK} for n in range(5)])]}, "maximum of 4"),
    ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "at least 1024"),
    ({"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2000}, "must be greater"),
]

ANTHROPIC_GOOD: list[dict[str, Any]] = [
    {"messages": [user()]},
    {"messages": [user(), user("again")]},
    {"messages": [user(), use("a", "b"), results("b", "a"), user("steer")]},
    {"messages": [user(), use("a"), results("a"), use("b"), results("b", words="")]},
    {"messages": [user()], "system": "rules", "tools": [tool("A"), tool("B")], "temperature": 1},
    {"messages": [user([{"type": "image", "source": {"type": "base64", "media_type": "x", "data": "AA"}}])]},
]


async def ask(server: ModelServer, wire: Connect, path: str, body: Any) -> Any:
    client = wire(server.port)
    answer = await client.ask(path, body)
    await client.close()
    return answer


@pytest.mark.parametrize(("change", "reason"), ANTHROPIC_BAD)
async def test_anthropic_refuses(change: dict[str, Any], reason: str, wire: Connect) -> None:
    async with ModelServer([reply("never")], lenient=True) as server:
        answer = await ask(
            server, wire, "/v1/messages", {"model": "m", "max_tokens": 9, "messages": [user()], **change}
        )
        assert server.problems[0].startswith("invalid request: ")
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
    assert reason in answer.json["error"]["message"]


@pytest.mark.parametrize("change", ANTHROPIC_GOOD)
async def test_anthropic_takes(change: dict[str, Any], wire: Connect) -> None:
    async with ModelServer([reply("fine")]) as server:
        answer = await ask(server, wire, "/v1/messages", {"model": "m", "max_tokens": 9, **change})
    assert answer.status == 200


async def test_anthropic_wants_its_version(wire: Connect) -> None:
    async with ModelServer([], lenient=True) as server:
        body = {"model": "m", "max_tokens": 9, "messages": [user()]}
        answer = await wire(server.port).ask("/v1/messages", body, headers={})
    assert (answer.status, answer.json["error"]["message"]) == (400, "anthropic-version: header is required")


def calls(*ids: str, arguments: Any = "{}") -> dict[str, Any]:
    made = [{"id": i, "type": "function", "function": {"name": "Read", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def answer_to(call: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": "x"}


def function(name: str = "Read", schema: Any = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema or {"type": "object"}}}


CHAT_BAD: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "not empty"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "role"),
    ({"messages": [{"role": "user"}]}, "got null"),
    ({"messages": [user(), {"role": "assistant", "content": None}]}, "got null"),
    ({"messages": [user([{"type": "text", "text": ""}])]}, "must not be empty"),
    ({"messages": [user([{"type": "tool_result"}])]}, "not permitted"),
    ({"messages": [user(), calls("a")]}, "did not have response messages: a"),
    ({"messages": [user(), calls("a", "b"), answer_to("a"), user()]}, "did not have response messages: b"),
    ({"messages": [user(), answer_to("a")]}, "must be a response to a preceding message"),
    ({"messages": [user(), calls("a"), answer_to("a"), answer_to("a")]}, "must be a response"),
    ({"messages": [user(), calls("a"), answer_to("a"), calls("a"), answer_to("a")]}, "unique"),
    ({"messages": [user(), calls("a", arguments={}), answer_to("a")]}, "must be a string"),
    ({"messages": [user(), calls("a", arguments="{"), answer_to("a")]}, "JSON of an object"),
    ({"messages": [user(), {**calls("a"), "role": "user"}]}, "got null"),
    ({"tools": []}, "not empty"),
    ({"tools": [tool()]}, "type function"),
    ({"tools": [function(), function()]}, "unique"),
    ({"tools": [function("x" * 65)]}, "does not match"),
    ({"tools": [function(schema={"type": "array"})]}, "'object'"),
    ({"max_completion_tokens": 0}, "positive"),
    ({"model": None}, "model"),
]


@pytest.mark.parametrize(("change", "reason"), CHAT_BAD)
async def test_chat_refuses(change: dict[str, Any], reason: str, wire: Connect) -> None:
    async with ModelServer([reply("never")], lenient=True) as server:
        answer = await ask(server, wire, "/v1/chat/completions", {"model": "m", "messages": [user()], **change})
    assert answer.status == 400
    assert reason in answer.json["error"]["message"]


async def test_chat_takes_a_whole_conversation(wire: Connect) -> None:
    messages = [
        {"role": "system", "content": "rules"},
        user([{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:,"}}]),
        calls("a", "b"),
        answer_to("b"),
        answer_to("a"),
        {"role": "assistant", "content": "done"},
        user("more"),
    ]
    async with ModelServer([reply("fine")]) as server:
        body = {"model": "m", "messages": messages, "tools": [function()]}
        assert (await ask(server, wire, "/v1/chat/completions", body)).status == 200


def item_call(call: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call, "name": "Read", "arguments": "{}"}


def output(call: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": "x"}


RESPONSES_BAD: list[tuple[dict[str, Any], str]] = [
    ({"input": []}, "'input'"),
    ({"input": ""}, "'input'"),
    ({"input": [item_call("a")]}, "No tool output found for function call a"),
    ({"input": [item_call("a"), user(), output("a")]}, "No tool output found for function call a"),
    ({"input": [user(), output("a")]}, "No tool call found for function call output with call_id a"),
    ({"input": [item_call("a"), output("a"), output("a")]}, "Duplicate function call output"),
    ({"input": [item_call("a"), item_call("a")]}, "Duplicate function call with"),
    ({"input": [{"type": "tool_use"}]}, "Invalid value: 'tool_use'"),
    ({"input": [{"type": "function_call", "call_id": "a", "name": "x"}]}, "arguments"),
    ({"input": [{"role": "tool", "content": "x"}]}, "not supported"),
    ({"input": [user([{"type": "text", "text": "x"}])]}, "Invalid value: 'text'"),
    ({"input": [user([{"type": "input_text", "text": ""}])]}, "must not be empty"),
    ({"input": [{"type": "reasoning", "id": "r"}]}, "summary"),
    ({"max_output_tokens": 3}, "at least 16"),
    ({"previous_response_id": "r"}, "keeps no responses"),
    ({"tools": [{"type": "function", "name": "a", "parameters": {"type": "string"}}]}, "'object'"),
]


@pytest.mark.parametrize(("change", "reason"), RESPONSES_BAD)
async def test_responses_refuses(change: dict[str, Any], reason: str, wire: Connect) -> None:
    async with ModelServer([reply("never")], lenient=True) as server:
        answer = await ask(server, wire, "/v1/responses", {"model": "m", "input": "hi", **change})
    assert answer.status == 400
    assert reason in answer.json["error"]["message"]


async def test_responses_takes_a_whole_conversation(wire: Connect) -> None:
    items = [
        {"role": "developer", "content": "rules"},
        user([{"type": "input_text", "text": "hi"}]),
        {"type": "reasoning", "id": "r", "summary": []},
        item_call("a"),
        item_call("b"),
        {"role": "assistant", "content": [{"type": "output_text", "text": "wait"}]},
        output("b"),
        output("a"),
        user("more"),
    ]
    parameters = {"type": "object", "properties": {}}
    tools = [{"type": "function", "name": "Read", "parameters": parameters}, {"type": "web_search"}]
    async with ModelServer([reply("fine")]) as server:
        answer = await ask(server, wire, "/v1/responses", {"model": "m", "input": items, "tools": tools})
    assert answer.status == 200


TEXT = [{"type": "text", "text": "x", **MARK}]
WHOLE: dict[str, Any] = {
    "messages": {
        "model": "m",
        "max_tokens": 4000,
        "system": [{"type": "text", "text": "rules", **MARK}],
        "tools": [tool()],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "messages": [
            user([{"type": "image", "source": {"type": "base64", "media_type": "x", "data": "AA"}}]),
            use("a"),
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": TEXT}]},
        ],
    },
    "chat": {
        "model": "m",
        "stream_options": {"include_usage": True},
        "tools": [function()],
        "messages": [user([{"type": "text", "text": "hi"}]), calls("a"), answer_to("a")],
    },
    "responses": {
        "model": "m",
        "instructions": "rules",
        "tools": [{"type": "function", "name": "a", "parameters": {"type": "object"}}],
        "input": [
            user([{"type": "input_text", "text": "hi"}]),
            item_call("a"),
            output("a"),
            {"type": "reasoning", "summary": []},
        ],
    },
}

json_value = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.sampled_from(["text", "user", "tool"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "role", "id"]), inner),
    max_leaves=4,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        found += places(value, (*path, key))
    return found


def spoiled(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    if isinstance(data, list):
        return [spoiled(part, path[1:], value) if n == path[0] else part for n, part in enumerate(data)]
    return {key: spoiled(part, path[1:], value) if key == path[0] else part for key, part in data.items()}


@pytest.mark.parametrize("dialect", [Messages(), Chat(), Responses()], ids=["messages", "chat", "responses"])
@given(data=st.data(), value=json_value)
def test_a_spoiled_request_is_taken_or_refused_and_never_crashes(dialect: Any, data: st.DataObject, value: Any) -> None:
    whole = WHOLE[dialect.name]
    dialect.check(whole, {"anthropic-version": "1"})
    body = spoiled(whole, data.draw(st.sampled_from(places(whole))), value)
    refused = False
    try:
        dialect.check(body, {"anthropic-version": "1"})
    except Invalid:
        refused = True
    if not refused:
        assert dialect.view(body).model == body["model"]
        assert dialect.usage(body, PromptCache()).output == 0
        dialect.encoder(body)
