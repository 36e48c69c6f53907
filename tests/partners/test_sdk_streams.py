"""What the scripted model server says is what the official clients' types describe, event by event."""

import json
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from partner import PROTOCOLS

from tugline.net.client import HttpClient
from tugline.protocol.script import SayCall, SayText, SayThinking, Step
from tugline.protocol.usage import Usage
from tugline.testing import ModelServer, call, fail, opaque, ping, reply, text, thinking

pytest_plugins = ["partner_programs"]

pytestmark = pytest.mark.partner

HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "k"}
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
TYPES = {
    "messages": ("anthropic.types", "RawMessageStreamEvent", "Message"),
    "chat": ("openai.types.chat", "ChatCompletionChunk", "ChatCompletion"),
    "responses": ("openai.types.responses", "ResponseStreamEvent", "Response"),
}
EVERYTHING = reply(
    thinking("hm"),
    "Hello",
    ping(2),
    call("Read", file_path="x"),
    call("Ls"),
    text(""),
    usage=Usage(9, 4, 3, 2),
    chunk=3,
)


def types(protocol: str) -> Any:
    """The client's types."""
    return pytest.importorskip(TYPES[protocol][0], reason="the official clients are not installed: make test-partners")


def check_event(protocol: str, event: dict[str, Any]) -> None:
    """Fail unless the client's type of this event describes it."""
    known = getattr(types(protocol), TYPES[protocol][1])
    if protocol != "chat":
        union = get_args(known)[0]  # annotated with what tells its members apart
        [known] = [one for one in get_args(union) if event["type"] in get_args(one.model_fields["type"].annotation)]
    known.model_validate(event)


def check_whole(protocol: str, reply: bytes) -> None:
    """Fail unless the client's type of a whole reply describes it."""
    getattr(types(protocol), TYPES[protocol][2]).model_validate_json(reply)


def body(protocol: str, stream: bool) -> dict[str, Any]:
    asked: list[Any] = [{"role": "user", "content": "hi"}]
    if protocol == "responses":
        return {"model": "m", "input": asked, "stream": stream}
    rest: dict[str, Any] = {"max_tokens": 100} if protocol == "messages" else {}
    if protocol == "chat" and stream:
        rest = {"stream_options": {"include_usage": True}}
    return {"model": "m", "messages": asked, "stream": stream, **rest}


async def post(protocol: str, server: ModelServer, *, stream: bool) -> tuple[int, bytes]:
    client = HttpClient(environ={})
    data = json.dumps(body(protocol, stream)).encode()
    try:
        async with client.request("POST", server.url + PATHS[protocol], headers=HEADERS, body=data) as response:
            return response.status, await response.read(1 << 24)
    finally:
        await client.aclose()


def events(data: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in data.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("stop", [None, "max_tokens", "refusal"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_event_is_one_that_the_client_knows(protocol: str, stop: str | None) -> None:
    step = reply(*EVERYTHING.parts, stop=stop, usage=EVERYTHING.usage, chunk=3)
    async with ModelServer([step, step]) as server:
        _, streamed = await post(protocol, server, stream=True)
        _, whole = await post(protocol, server, stream=False)
    for event in events(streamed):
        if event.get("type") != "ping":  # sent by the service, and in no list of the client's
            check_event(protocol, event)
    check_whole(protocol, whole)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
inputs = st.dictionaries(words, words | st.integers() | st.lists(words, max_size=2), max_size=2)
parts = st.one_of(
    st.builds(SayText, words),
    st.builds(SayThinking, words),
    st.builds(SayCall, st.sampled_from(["Read", "Ls"]), inputs),
)
steps = st.builds(
    lambda parts, chunk, split: reply(*parts, chunk=chunk, split=split),
    st.lists(parts, min_size=1, max_size=4),
    st.none() | st.integers(1, 7),
    st.none() | st.integers(1, 40),
)


async def read(protocol: str, server: ModelServer) -> dict[str, Any]:
    """The reply as the client puts it together: its words, thinking and calls."""
    if protocol == "messages":
        anthropic = pytest.importorskip("anthropic", reason="the official clients are not installed")
        async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client:
            asked = [{"role": "user", "content": "hi"}]
            async with client.messages.stream(model="m", max_tokens=9, messages=asked) as stream:
                message = await stream.get_final_message()
        return {
            "text": "".join(block.text for block in message.content if block.type == "text"),
            "thinking": "".join(block.thinking for block in message.content if block.type == "thinking"),
            "calls": [(block.name, block.input) for block in message.content if block.type == "tool_use"],
        }
    openai = pytest.importorskip("openai", reason="the official clients are not installed")
    async with openai.AsyncOpenAI(api_key="k", base_url=server.openai_url, max_retries=0) as client:
        if protocol == "chat":
            asked = [{"role": "user", "content": "hi"}]
            async with client.chat.completions.stream(model="m", messages=asked) as stream:
                said = (await stream.get_final_completion()).choices[0].message
            calls = [(one.function.name, json.loads(one.function.arguments)) for one in said.tool_calls or ()]
            return {"text": said.content or "", "calls": calls}
        async with client.responses.stream(model="m", input="hi") as stream:
            response = await stream.get_final_response()
        found = [item for item in response.output if item.type == "function_call"]
        return {
            "text": response.output_text,
            "calls": [(item.name, json.loads(item.arguments)) for item in found],
        }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(step=steps)
async def test_the_client_reads_what_was_scripted(protocol: str, step: Step) -> None:
    async with ModelServer([step]) as server:
        said = await read(protocol, server)
    expected = {
        "text": "".join(part.text for part in step.parts if isinstance(part, SayText)),
        "thinking": "".join(part.thinking for part in step.parts if isinstance(part, SayThinking)),
        "calls": [(part.tool, part.input) for part in step.parts if isinstance(part, SayCall)],
    }
    assert said == {name: expected[name] for name in said}


@pytest.mark.parametrize(
    ("status", "named"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (529, "InternalServerError"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_client_knows_an_error(protocol: str, status: int, named: str) -> None:
    module = pytest.importorskip("anthropic" if protocol == "messages" else "openai")
    async with ModelServer([fail(status, "No, because.")]) as server:
        with pytest.raises(getattr(module, named), match="No, because"):
            await read(protocol, server)


async def test_redacted_thinking_is_one_of_the_clients_blocks() -> None:
    step = reply(opaque("anthropic", type="redacted_thinking", data="eA=="), "Hi")
    async with ModelServer([step]) as server:
        _, streamed = await post("messages", server, stream=True)
    kinds = [event["type"] for event in events(streamed) if event["type"] != "ping"]
    for event in events(streamed):
        if event["type"] != "ping":
            check_event("messages", event)
    assert kinds.count("content_block_start") == 2
