"""Our adapters against aimock, a model server that is not ours and shares no code with us."""

from typing import Any

import pytest
from partner import MODELS, Connect, Start, ask, person

from tugline.protocol.blocks import Text, Thinking, ToolResult, ToolUse
from tugline.protocol.errors import ProviderError
from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.messages import User
from tugline.protocol.specs import ModelRequest, ToolSpec
from tugline.protocol.usage import Usage

pytest_plugins = ["partner_programs"]

pytestmark = pytest.mark.partner

READ = ToolSpec("Read", "Read a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}})
USAGE = {
    "messages": {"input_tokens": 12, "output_tokens": 3},
    "chat": {"prompt_tokens": 12, "completion_tokens": 3},
    "responses": {"input_tokens": 12, "output_tokens": 3},
}


def fixture(response: dict[str, Any], *, chunk: int = 5, match: dict[str, Any] | None = None, **rest: Any) -> Any:
    return {
        "match": {"userMessage": "hello"} if match is None else match,
        "response": response,
        "chunkSize": chunk,
    } | rest


def hello(protocol: str, **rest: Any) -> ModelRequest:
    return ModelRequest(MODELS[protocol], (person("hello"),), system=("Be brief.",), max_output_tokens=1000, **rest)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
async def test_words_come_whole_with_their_usage(
    aimock: Start, connect: Connect, protocol: str, stream: bool, chunk: int
) -> None:
    words = 'Grüße 👋 — "quoted"\nand a second line \\n that is none'
    server = await aimock([fixture({"content": words, "usage": USAGE[protocol]}, chunk=chunk)])
    said = await ask(connect(protocol, server.url), hello(protocol, stream=stream))
    assert said.shown == [Text(words)]
    assert (said.end.stop, said.end.usage) == ("end_turn", Usage(12, 3))
    [seen] = await server.journal()
    assert [message["role"] for message in seen["body"]["messages"]] == ["system", "user"]


@pytest.mark.parametrize("stream", [True, False])
async def test_calls_come_whole_in_their_order(aimock: Start, connect: Connect, protocol: str, stream: bool) -> None:
    calls = [
        {"name": "Read", "arguments": '{"file_path": "a \\"b\\" ü.txt"}', "id": "call_1"},
        {"name": "Read", "arguments": "{}", "id": "call_2"},
    ]
    server = await aimock([fixture({"content": "I look.", "toolCalls": calls}, chunk=3)])
    said = await ask(connect(protocol, server.url), hello(protocol, tools=(READ,), stream=stream))
    assert said.shown == [
        Text("I look."),
        ToolUse(CallId("call_1"), "Read", {"file_path": 'a "b" ü.txt'}),
        ToolUse(CallId("call_2"), "Read", {}),
    ]
    assert said.end.stop == "tool_use"


@pytest.mark.parametrize("protocol", ["messages", "responses"])  # chat cannot tell what came first
async def test_words_after_a_call_stay_after_it(aimock: Start, connect: Connect, protocol: str) -> None:
    call = {"type": "toolCall", "name": "Read", "arguments": '{"file_path":"x"}', "id": "call_1"}
    blocks = [{"type": "text", "text": "one"}, call, {"type": "text", "text": "two"}]
    server = await aimock([fixture({"blocks": blocks})])
    said = await ask(connect(protocol, server.url), hello(protocol, tools=(READ,)))
    assert said.shown == [Text("one"), ToolUse(CallId("call_1"), "Read", {"file_path": "x"}), Text("two")]


async def test_results_reach_the_model_in_the_next_request(aimock: Start, connect: Connect, protocol: str) -> None:
    calls = [{"name": "Read", "arguments": '{"file_path":"x"}', "id": "call_1"}]
    server = await aimock(
        [
            fixture({"content": "It says 42."}, match={"toolCallId": "call_1", "toolResultContains": "forty-two"}),
            fixture({"toolCalls": calls}, match={"userMessage": "hello", "hasToolResult": False}),
        ]
    )
    provider = connect(protocol, server.url)
    request = hello(protocol, tools=(READ,))
    asked = await ask(provider, request)
    results = User(MessageId("r"), (ToolResult(CallId("call_1"), "forty-two"),), "results")
    said = await ask(provider, hello_again(request, asked.message(), results))
    assert (said.text, said.end.stop) == ("It says 42.", "end_turn")
    for entry in await server.journal():
        assert entry["response"]["status"] == 200


def hello_again(request: ModelRequest, *more: Any) -> ModelRequest:
    return ModelRequest(
        request.model, (*request.messages, *more), request.system, request.tools, max_output_tokens=1000
    )


async def test_thinking_comes_with_the_signature_that_goes_back(aimock: Start, connect: Connect) -> None:
    server = await aimock([fixture({"content": "Hi.", "reasoning": "What to say?", "reasoningSignature": "sig"})])
    provider = connect("messages", server.url)
    said = await ask(provider, hello("messages", thinking_tokens=1024))
    assert said.shown == [Thinking("What to say?", "sig"), Text("Hi.")]


async def test_a_limit_that_was_hit_is_told(aimock: Start, connect: Connect, protocol: str) -> None:
    server = await aimock([fixture({"content": "Hi", "finishReason": "length"})])
    assert (await ask(connect(protocol, server.url), hello(protocol))).end.stop == "max_tokens"


@pytest.mark.parametrize(
    ("status", "type_", "kind", "retryable"),
    [
        (400, "invalid_request_error", "invalid_request", False),
        (401, "authentication_error", "authentication", False),
        (404, "not_found_error", "invalid_model", False),
        (429, "rate_limit_error", "rate_limit", True),
        (500, "api_error", "server", True),
        (503, "overloaded_error", "overloaded", True),
    ],
)
async def test_errors_are_told_apart(
    aimock: Start, connect: Connect, protocol: str, status: int, type_: str, kind: str, retryable: bool
) -> None:
    message = "No, because the model x does not exist." if status == 404 else "No, because."
    error = {"error": {"message": message, "type": type_}, "status": status, "retryAfter": 7}
    server = await aimock([fixture(error)])
    with pytest.raises(ProviderError, match="No, because") as raised:
        await ask(connect(protocol, server.url), hello(protocol))
    failure = raised.value.failure
    assert (failure.kind, failure.status, failure.retryable) == (kind, status, retryable)
    if status == 429:
        assert failure.retry_after == 7


@pytest.mark.parametrize(
    "trouble",
    [
        {"chaos": {"dropRate": 1}},
        {"chaos": {"malformedRate": 1}},
        {"chaos": {"disconnectRate": 1}},
        {"chaos": {"rateLimitRate": 1}},
        {"truncateAfterChunks": 4},
        {"disconnectAfterMs": 30, "latency": 20},
    ],
    ids=lambda trouble: next(iter(trouble)) + str(next(iter(trouble.values()))),
)
async def test_a_broken_answer_is_no_answer(
    aimock: Start, connect: Connect, protocol: str, trouble: dict[str, Any]
) -> None:
    server = await aimock([fixture({"content": "one two three four five six seven eight"}, chunk=2, **trouble)])
    with pytest.raises(ProviderError) as raised:
        await ask(connect(protocol, server.url), hello(protocol))
    assert raised.value.failure.retryable, raised.value.failure
