"""The official clients understand the scripted model."""

from typing import Any

import pytest

from tugline.testing import ModelServer, call, reply, thinking

pytestmark = pytest.mark.partner

HI: Any = [{"role": "user", "content": "hi"}]
STEP = reply(thinking("hm"), "Hello you there", call("Read", file_path="x"), chunk=4, repeat=2)


async def test_anthropic_reads_messages_streamed_and_whole() -> None:
    anthropic = pytest.importorskip("anthropic", reason="the official anthropic client is not installed")
    async with (
        ModelServer([STEP]) as server,
        anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client,
    ):
        whole = await client.messages.create(model="m", max_tokens=10, messages=HI)
        async with client.messages.stream(model="m", max_tokens=10, messages=HI) as stream:
            streamed = await stream.get_final_message()
        counted = await client.messages.count_tokens(model="m", messages=HI)
        models = [model.id async for model in client.models.list()]
    for message in (whole, streamed):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert message.content[1].text == "Hello you there"
        assert message.content[2].input == {"file_path": "x"}
        assert message.stop_reason == "tool_use"
    assert (counted.input_tokens > 0, models) == (True, ["scripted"])


async def test_openai_reads_chat_completions_streamed_and_whole() -> None:
    openai = pytest.importorskip("openai", reason="the official openai client is not installed")
    tools = [{"type": "function", "function": {"name": "Read", "parameters": {"type": "object", "properties": {}}}}]
    async with (
        ModelServer([STEP]) as server,
        openai.AsyncOpenAI(api_key="k", base_url=server.openai_url, max_retries=0) as client,
    ):
        whole = await client.chat.completions.create(model="m", messages=HI)
        usage = {"include_usage": True}
        async with client.chat.completions.stream(model="m", messages=HI, tools=tools, stream_options=usage) as stream:
            streamed = await stream.get_final_completion()
    for completion in (whole, streamed):
        message = completion.choices[0].message
        assert message.content == "Hello you there"
        assert message.tool_calls[0].function.arguments == '{"file_path":"x"}'
        assert completion.choices[0].finish_reason == "tool_calls"
        assert completion.usage.completion_tokens > 0


async def test_openai_reads_responses_streamed_and_whole() -> None:
    openai = pytest.importorskip("openai", reason="the official openai client is not installed")
    async with (
        ModelServer([STEP]) as server,
        openai.AsyncOpenAI(api_key="k", base_url=server.openai_url, max_retries=0) as client,
    ):
        whole = await client.responses.create(model="m", input="hi")
        async with client.responses.stream(model="m", input="hi") as stream:
            streamed = await stream.get_final_response()
    for response in (whole, streamed):
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
        assert (response.output_text, response.status) == ("Hello you there", "completed")
