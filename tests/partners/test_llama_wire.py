"""Our adapters against llama.cpp with a real model, which speaks all three protocols. What it says does not matter."""

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from partner import Connect, RunningLlama, ask_llama, person, running_llama

from tugline.protocol.blocks import Text
from tugline.protocol.chunks import BlockDelta
from tugline.protocol.errors import ProviderError
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import Assistant, Message, User
from tugline.protocol.specs import ModelRequest
from tugline.protocol.usage import Usage
from tugline.rules.tokens import Gauge, add, report, total, weigh

pytest_plugins = ["partner_programs"]

pytestmark = pytest.mark.partner

PROSE = (
    "The harbour wakes before the town does. Lamps go out one by one along the quay, and the gulls begin to argue over "
    "what the night boats left behind. A tug backs away from its berth, turns in its own length, and heads for the "
    "freighter that has waited since midnight outside the bar. Nobody hurries; the tide does not wait, but it is never "
    "late either. "
)
CODE = (
    "def tide(height: float, hours: float) -> float:\n    phase = 2 * math.pi * hours / 12.42\n"
    "    return height * (1 + math.cos(phase)) / 2\n\n\nclass Berth:\n"
    "    def __init__(self, name: str, depth: float):\n        self.name = name\n        self.depth = depth\n"
)


def said_to(*messages: Message, limit: int = 12, stream: bool = True) -> ModelRequest:
    return ModelRequest("gguf", messages, max_output_tokens=limit, stream=stream)


@pytest.mark.parametrize("stream", [True, False])
async def test_it_speaks_stops_at_the_limit_and_counts(
    llama: RunningLlama, connect: Connect, protocol: str, stream: bool
) -> None:
    said = await ask_llama(connect(protocol, llama.url, llama.key), said_to(person("Tell a story."), stream=stream))
    assert said.text
    assert len(said.blocks) == 1
    usage = said.end.usage
    assert usage.output == 12
    assert 10 < usage.input + usage.cache_read < 60
    if protocol != "responses":  # llama.cpp says "completed" there, limit or not
        assert said.end.stop == "max_tokens"
    if stream:
        assert sum(isinstance(chunk, BlockDelta) for chunk in said.chunks) >= 5


async def test_it_ends_by_itself(llama: RunningLlama, connect: Connect, protocol: str) -> None:
    provider = connect(protocol, llama.url, llama.key)
    for _ in range(3):  # it dices, and may talk on for once
        said = await ask_llama(provider, said_to(person("Say yes."), limit=600))
        if said.end.usage.output < 600:
            break
    assert said.end.stop == "end_turn"
    assert 0 < said.end.usage.output < 600


async def test_a_conversation_goes_on_and_its_prefix_is_found_again(
    llama: RunningLlama, connect: Connect, protocol: str
) -> None:
    provider = connect(protocol, llama.url, llama.key)
    first = person(f"{protocol}: " + PROSE * 3)
    answer = (await ask_llama(provider, said_to(first))).message()
    said = await ask_llama(provider, said_to(first, answer, User(MessageId("u2"), (Text("And then?"),))))
    assert said.end.usage.cache_read > 150
    assert said.end.usage.input < 100


async def test_leaving_a_reply_leaves_the_server_free(llama: RunningLlama, connect: Connect, protocol: str) -> None:
    provider = connect(protocol, llama.url, llama.key)
    with anyio.fail_after(60):
        for _ in range(6):  # more than it answers at once
            async with provider.stream(said_to(person("Count to a thousand."), limit=3000)) as batches:
                async for batch in batches:
                    if any(isinstance(chunk, BlockDelta) for chunk in batch):
                        break
        assert (await ask_llama(provider, said_to(person("Hi")))).text


async def test_a_conversation_that_is_too_long_is_told_as_that(
    llama: RunningLlama, connect: Connect, protocol: str
) -> None:
    with pytest.raises(ProviderError) as raised:
        await ask_llama(connect(protocol, llama.url, llama.key), said_to(person(PROSE * 100)))
    assert raised.value.failure.kind == "prompt_too_long"


async def test_a_wrong_key_is_told_as_that(llama: RunningLlama, connect: Connect, protocol: str) -> None:
    with pytest.raises(ProviderError) as raised:
        await ask_llama(connect(protocol, llama.url, "wrong"), said_to(person("Hi")))
    assert (raised.value.failure.kind, raised.value.failure.status) == ("authentication", 401)


async def test_it_answers_also_when_others_want_its_processors(model_file: str, connect: Connect) -> None:
    with running_llama(model_file) as llama:
        provider = connect("chat", llama.url, llama.key)
        await ask_llama(provider, said_to(person("Hi")))  # by then it has all its threads
        # All on one processor: those that wait for the others have to leave it to them.
        for thread in Path(f"/proc/{llama.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {min(os.sched_getaffinity(0))})
        assert (await ask_llama(provider, said_to(person("Tell a story."), limit=48))).text


def growing(text: str) -> Iterator[tuple[Message, ...]]:
    """A conversation that is asked for a reply again and again, longer each time."""
    messages: list[Message] = []
    for step in range(3):
        messages.append(User(MessageId(f"u{step}"), (Text(text * (step + 2)),)))
        yield tuple(messages)
        messages.append(Assistant(MessageId(f"a{step}"), (Text("Go on."),)))


@pytest.mark.parametrize("text", [PROSE, CODE], ids=["prose", "code"])
async def test_our_estimate_is_within_a_tenth_of_the_real_count_once_it_has_learned(
    llama: RunningLlama, connect: Connect, text: str
) -> None:
    provider = connect("chat", llama.url, llama.key)
    gauge, known = Gauge(), 0
    for step, messages in enumerate(growing(text)):
        gauge = add(gauge, total([weigh(message) for message in messages[known:]]))
        known = len(messages)
        said = await ask_llama(provider, said_to(*messages, limit=1))
        usage = said.end.usage
        real = usage.input + usage.cache_read
        if step:
            assert gauge.tokens() == pytest.approx(real, rel=0.1), f"at step {step}"
        # what the reply is made of is not known to be text of the conversation: count the prompt alone
        gauge = report(gauge, Usage(input=real))
