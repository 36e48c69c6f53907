"""Retries over real HTTP: the client, the event stream, an adapter and the wrapper together."""

import asyncio
import json
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tugline.net.client import HttpClient
from tugline.protocol.blocks import Text
from tugline.protocol.chunks import AttemptFailed, BlockDelta, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.ids import MessageId
from tugline.protocol.messages import User
from tugline.protocol.specs import ModelRequest
from tugline.providers.anthropic import AnthropicProvider
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.limits import Gate
from tugline.providers.retry import NetworkSettings, Retry

Answer = Callable[[int], bytes]
"""Bytes for the n-th request; the connection is closed after them."""

REQUEST = ModelRequest("claude-x", (User(MessageId("1"), (Text("hi"),)),))
QUICK = NetworkSettings(retry_base=0.001, idle_timeout=5)


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": [], "usage": {}}
EVENTS = [
    event("message_start", message=MESSAGE),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    event("ping"),
    event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hello"}),
    event("content_block_stop", index=0),
    event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1}),
    event("message_stop"),
]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = HEAD + b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in EVENTS) + b"0\r\n\r\n"


def refusal(status: int, kind: str, *headers: str) -> bytes:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": "no"}})
    head = [f"HTTP/1.1 {status} No", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode()


@asynccontextmanager
async def serving(answer: Answer, connections: set[object] | None = None) -> AsyncIterator[tuple[str, list[bytes]]]:
    requests: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if connections is not None:
            connections.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                requests.append(await reader.readexactly(length))
                data = answer(len(requests))
                writer.write(data)
                await writer.drain()
                if data != WHOLE and b"Content-Length" not in data:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)


@asynccontextmanager
async def provider(url: str, gate: Gate | None = None) -> AsyncIterator[Retry]:
    endpoint = Endpoint(base_url=url, key="sk-secret", provider="anthropic")
    retry = Retry(AnthropicProvider(endpoint, HttpClient(environ={}), Catalog()), QUICK, gate=gate)
    yield retry
    await retry.aclose()


async def collect(retry: Retry) -> tuple[list[Chunk], Failure | None]:
    chunks: list[Chunk] = []
    try:
        async with retry.stream(REQUEST) as batches:
            async for batch in batches:
                chunks.extend(batch)
    except ProviderError as error:
        return chunks, error.failure
    return chunks, None


def last_attempt(chunks: list[Chunk]) -> str:
    """What counts: the text since the last reply began."""
    began = max(i for i, chunk in enumerate(chunks) if isinstance(chunk, ReplyStarted))
    assert isinstance(chunks[-1], ReplyEnded)
    return "".join(chunk.text for chunk in chunks[began:] if isinstance(chunk, BlockDelta))


async def test_a_stream_cut_at_any_byte_ends_in_the_whole_reply() -> None:
    # once the stop reason is there, only formalities are missing: such a reply counts
    ends = WHOLE.index(EVENTS[-2]) + len(EVENTS[-2]) - 2
    for cut in range(0, ends, 7):
        async with serving(lambda n, cut=cut: WHOLE[:cut] if n == 1 else WHOLE) as (url, requests):  # type: ignore[misc]
            async with provider(url) as retry:
                chunks, failure = await collect(retry)
            assert failure is None
            assert last_attempt(chunks) == "hello"
            assert len(requests) == 2
            assert sum(isinstance(chunk, AttemptFailed) for chunk in chunks) == 1


@pytest.mark.parametrize(
    "answer",
    [
        refusal(529, "overloaded_error"),
        refusal(429, "rate_limit_error", "retry-after: 0"),
        refusal(500, "api_error"),
        refusal(502, "x"),
        refusal(408, "x"),
        refusal(409, "x"),
        HEAD + b"zz\r\n",
        HEAD + b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in EVENTS[:3]) + b"0\r\n\r\n",
        b"",
    ],
    ids=["529", "429", "500", "502", "408", "409", "garbage", "no end", "nothing"],
)
async def test_passing_trouble_is_passed_through(answer: bytes) -> None:
    async with serving(lambda n: answer if n < 3 else WHOLE) as (url, requests), provider(url) as retry:
        chunks, failure = await collect(retry)
        # the third request may be one without streaming, which a server that only streams answers as it does
        assert failure is None
        assert last_attempt(chunks) == "hello"
        assert len(requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_what_is_refused_for_good_is_asked_once_and_the_key_is_not_told(status: int) -> None:
    async with serving(lambda n: refusal(status, "x")) as (url, requests), provider(url) as retry:
        chunks, failure = await collect(retry)
    assert chunks == []
    assert failure is not None
    assert "secret" not in failure.message
    assert len(requests) == 1


async def test_nobody_listening_is_tried_again_and_then_told_in_one_line() -> None:
    async with serving(lambda n: b"") as (url, _):
        pass
    async with provider(url) as retry:
        chunks, failure = await collect(retry)
    assert len(chunks) == 8
    assert failure is not None
    assert failure.kind == "network"
    assert "connection refused" in failure.message
    assert "9 tries" in failure.message
    assert "\n" not in failure.message


async def test_refusals_do_not_cost_connections() -> None:
    connections: set[object] = set()
    async with serving(lambda n: refusal(529, "overloaded_error") if n < 6 else WHOLE, connections) as (url, requests):
        async with provider(url) as retry:
            assert (await collect(retry))[1] is None
    assert (len(connections), len(requests)) == (1, 6)


async def test_eight_agents_share_one_gate_and_all_come_through_a_storm() -> None:
    gate = Gate(per_second=300)
    async with serving(lambda n: refusal(529, "overloaded_error") if n < 30 else WHOLE) as (url, requests):

        async def agent() -> Failure | None:
            async with provider(url, gate) as retry:
                return (await collect(retry))[1]

        assert await asyncio.gather(*(agent() for _ in range(8))) == [None] * 8
    assert len(requests) == 29 + 8


async def test_a_line_of_40_megabytes_is_refused_without_keeping_it() -> None:
    line = HEAD.replace(b"Transfer-Encoding: chunked\r\n", b"") + b"data: " + b"x" * 40_000_000
    async with serving(lambda n: line) as (url, _):
        endpoint = Endpoint(base_url=url, key="k", provider="anthropic")
        retry = Retry(AnthropicProvider(endpoint, HttpClient(environ={}), Catalog()), NetworkSettings(max_retries=0))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        _, failure = await collect(retry)
        await retry.aclose()
    assert failure is not None
    assert "longer than 16 MB" in failure.message
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 200
