"""What the tests against programs of others share: the three protocols, a reply read whole, and what was started."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tugline.net.client import HttpClient
from tugline.protocol.blocks import AssistantBlock, Opaque, Text
from tugline.protocol.chunks import BlockClosed, Chunk, ReplyEnded
from tugline.protocol.errors import ProviderError
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import Assistant, User
from tugline.protocol.specs import ModelRequest
from tugline.providers.anthropic import AnthropicProvider
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.openai_chat import OpenAIChatProvider
from tugline.providers.openai_responses import OpenAIResponsesProvider
from tugline.providers.wire import WireProvider

PROTOCOLS = ("messages", "chat", "responses")
MODELS = {"messages": "claude-sonnet-4-5", "chat": "gpt-4o", "responses": "gpt-5"}

Connect = Callable[..., WireProvider]


def adapter(protocol: str, url: str, key: str = "k") -> WireProvider:
    """Our adapter of a protocol for a server's address."""
    endpoint = Endpoint(base_url=url if protocol == "messages" else url + "/v1", key=key)
    client, catalog = HttpClient(environ={}), Catalog()
    if protocol == "messages":
        return AnthropicProvider(endpoint, client, catalog)
    if protocol == "chat":
        return OpenAIChatProvider(endpoint, client, catalog)
    return OpenAIResponsesProvider(endpoint, client, catalog)


@dataclass
class Said:
    """A reply, read to its end."""

    chunks: list[Chunk]

    @property
    def blocks(self) -> list[AssistantBlock]:
        return [chunk.block for chunk in self.chunks if isinstance(chunk, BlockClosed)]

    @property
    def shown(self) -> list[AssistantBlock]:
        """The blocks without those that only the provider understands."""
        return [block for block in self.blocks if not isinstance(block, Opaque)]

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def end(self) -> ReplyEnded:
        assert isinstance(self.chunks[-1], ReplyEnded)
        return self.chunks[-1]

    def message(self) -> Assistant:
        return Assistant(MessageId("a"), tuple(self.blocks), stop=self.end.stop)


async def ask(provider: Any, request: ModelRequest) -> Said:
    """The whole reply."""
    chunks: list[Chunk] = []
    async with provider.stream(request) as batches:
        async for batch in batches:
            chunks += batch
    return Said(chunks)


async def ask_llama(provider: Any, request: ModelRequest) -> Said:
    """The whole reply. llama.cpp leaves out the beginning of one whose first character comes in pieces; the product
    asks again then, and so is it done here."""
    for _ in range(4):
        try:
            return await ask(provider, request)
        except ProviderError as error:
            if "before the reply began" not in str(error):
                raise
    return await ask(provider, request)


def person(words: str) -> User:
    return User(MessageId("u"), (Text(words),))


@dataclass
class Aimock:
    """A running aimock."""

    url: str

    async def journal(self) -> list[dict[str, Any]]:
        """The requests that it has seen."""
        client = HttpClient(environ={})
        try:
            async with client.request("GET", f"{self.url}/__aimock/journal", headers=()) as response:
                found = json.loads(await response.read(1 << 24))
        finally:
            await client.aclose()
        return list(found)


Start = Callable[[Sequence[dict[str, Any]]], Awaitable[Aimock]]


@dataclass
class RunningLlama:
    """llama.cpp with a small model, in a process of its own."""

    url: str
    key: str
    path: str
    pid: int


@contextmanager
def running_llama(model_file: str) -> Iterator[RunningLlama]:
    """A model behind llama.cpp's server, as `local:` starts it."""
    order = {"path": model_file, "window": 4096, "key": "secret"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tugline.providers.llama_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    try:
        yield RunningLlama(answer["address"], "secret", model_file, process.pid)
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()
