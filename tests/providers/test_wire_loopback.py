"""The three providers over real HTTP on loopback, answered with bytes that a test writes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from conversations import READ, request, user
from wire_streams import (
    CHAT_USAGE,
    DONE,
    anthropic_end,
    anthropic_start,
    anthropic_text,
    blocks,
    chat_chunk,
    ending,
    response_end,
    response_start,
    response_text,
    sse,
)

from tugline.net.client import HttpClient, Timeouts
from tugline.protocol.blocks import Text
from tugline.protocol.chunks import Chunk, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.specs import ModelRequest
from tugline.providers.anthropic import AnthropicProvider
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.openai_chat import OpenAIChatProvider
from tugline.providers.openai_responses import OpenAIResponsesProvider
from tugline.providers.wire import WireProvider

KEY = "sk-very-secret-key"
EVENT_STREAM = "text/event-stream"
Send = Callable[[bytes], Any]


class Server:
    """Answers every request as `answer` says; keeps what it was asked and over how many connections."""

    def __init__(self, answer: Callable[[Send, asyncio.StreamReader], Any]) -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.gone = asyncio.Event()
        self.url = ""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(length))
                if await self.answer(send, reader) == "close":
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.gone.set()
            writer.close()


@asynccontextmanager
async def serving(answer: Callable[[Send, asyncio.StreamReader], Any]) -> AsyncIterator[Server]:
    made = Server(answer)
    server = await asyncio.start_server(made.talk, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        await server.wait_closed()


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def head(status: int = 200, kind: str = EVENT_STREAM, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", "Transfer-Encoding: chunked", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def fixed(status: int, kind: str, body: bytes, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def saying(data: bytes) -> Callable[[Send, asyncio.StreamReader], Any]:
    async def answer(send: Send, _: asyncio.StreamReader) -> None:
        await send(data)

    return answer


REPLIES = {
    "anthropic": sse([anthropic_start(), *anthropic_text(0, "Hel", "lo"), *anthropic_end()]),
    "chat": sse(
        [chat_chunk({"content": "Hel"}), chat_chunk({"content": "lo"}), chat_chunk(finish="stop"), CHAT_USAGE, DONE]
    ),
    "responses": sse([response_start(), *response_text(0, "Hel", "lo"), response_end()]),
}
WHOLE: dict[str, Any] = {
    "anthropic": {"id": "m", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"},
    "chat": {"id": "c", "choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]},
    "responses": {
        "id": "r",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}],
    },
}
PATHS = {"anthropic": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
PROVIDERS: dict[str, type[WireProvider]] = {
    "anthropic": AnthropicProvider,
    "chat": OpenAIChatProvider,
    "responses": OpenAIResponsesProvider,
}
every_dialect = pytest.mark.parametrize("dialect", PROVIDERS)


@asynccontextmanager
async def provider(dialect: str, url: str, **options: Any) -> AsyncIterator[WireProvider]:
    base = url if dialect == "anthropic" else url + "/v1"
    client = HttpClient(environ={})
    made = PROVIDERS[dialect](Endpoint(base_url=base, key=KEY), client, Catalog(), **options)
    try:
        yield made
    finally:
        await made.aclose()


def asked(**options: Any) -> ModelRequest:
    return request(user("m0", "hi"), model="gpt-5", **options)


async def collect(
    made: WireProvider, wanted: ModelRequest | None = None, into: list[Chunk] | None = None
) -> list[Chunk]:
    chunks = [] if into is None else into
    async with made.stream(wanted or asked()) as batches:
        async for batch in batches:
            chunks += batch
    return chunks


async def failure_of(made: WireProvider, wanted: ModelRequest | None = None) -> Failure:
    with pytest.raises(ProviderError) as caught:
        await collect(made, wanted)
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value.failure)
    return caught.value.failure


@every_dialect
async def test_a_reply_over_the_wire_and_the_connection_is_used_again(dialect: str) -> None:
    whole = head() + chunked(REPLIES[dialect]) + b"0\r\n\r\n"
    async with serving(saying(whole)) as server, provider(dialect, server.url) as made:
        for _ in range(3):
            assert blocks(await collect(made)) == [Text("Hello")]
        assert server.connections == 1
        assert server.heads[0].startswith(f"POST {PATHS[dialect]} HTTP/1.1\r\n".encode())
        assert KEY.encode() in server.heads[0]
        assert json.loads(server.bodies[0])["stream"] is True


@every_dialect
async def test_a_reply_ends_with_its_last_event_and_the_formal_end_of_the_body_is_not_waited_for(dialect: str) -> None:
    left, sent = asyncio.Event(), asyncio.Event()

    async def answer(send: Send, _: asyncio.StreamReader) -> None:
        await send(head() + chunked(REPLIES[dialect]))
        await left.wait()
        await send(b"0\r\n\r\n")
        sent.set()

    async with serving(answer) as server, provider(dialect, server.url) as made:
        assert blocks(await collect(made)) == [Text("Hello")]
        left.set()
        await sent.wait()
        for _ in range(10):
            await asyncio.sleep(0)  # what is on the loopback already has to be read
        assert blocks(await collect(made)) == [Text("Hello")]
        assert server.connections == 1


@every_dialect
async def test_a_reply_whose_bytes_come_one_by_one(dialect: str) -> None:
    async def answer(send: Send, _: asyncio.StreamReader) -> None:
        await send(head())
        for place in range(len(REPLIES[dialect])):
            await send(chunked(REPLIES[dialect][place : place + 1]))
        await send(b"0\r\n\r\n")

    async with serving(answer) as server, provider(dialect, server.url) as made:
        assert blocks(await collect(made)) == [Text("Hello")]


@every_dialect
async def test_chunks_come_as_soon_as_their_bytes_do(dialect: str) -> None:
    more = asyncio.Event()
    events = REPLIES[dialect].split(b"\n\n")

    async def answer(send: Send, _: asyncio.StreamReader) -> None:
        await send(head() + chunked(events[0] + b"\n\n"))
        await more.wait()
        await send(chunked(b"\n\n".join(events[1:])) + b"0\r\n\r\n")

    async with serving(answer) as server, provider(dialect, server.url) as made, made.stream(asked()) as batches:
        first = await anext(batches)
        assert isinstance(first[0], ReplyStarted)
        more.set()
        rest = [chunk async for batch in batches for chunk in batch]
        assert blocks([*first, *rest]) == [Text("Hello")]


@every_dialect
async def test_pings_and_comments_are_empty_batches(dialect: str) -> None:
    more = asyncio.Event()

    async def answer(send: Send, _: asyncio.StreamReader) -> None:
        await send(head() + chunked(b": keep-alive\n\n"))
        await more.wait()
        await send(chunked(REPLIES[dialect]) + b"0\r\n\r\n")

    async with serving(answer) as server, provider(dialect, server.url) as made, made.stream(asked()) as batches:
        assert await anext(batches) == []
        more.set()
        assert [chunk async for batch in batches for chunk in batch]


@every_dialect
@pytest.mark.parametrize("stream", [True, False])
async def test_whole_answers_are_read_whether_asked_for_or_not(dialect: str, stream: bool) -> None:
    data = json.dumps(WHOLE[dialect]).encode()
    async with (
        serving(saying(fixed(200, "application/json", data))) as server,
        provider(dialect, server.url) as made,
    ):
        chunks = await collect(made, asked(stream=stream))
        assert blocks(chunks) == [Text("Hello")]
        assert ending(chunks).stop == "end_turn"
        assert json.loads(server.bodies[0])["stream"] is stream


@every_dialect
async def test_a_stream_where_a_whole_answer_was_asked_for_is_read_too(dialect: str) -> None:
    whole = head() + chunked(REPLIES[dialect]) + b"0\r\n\r\n"
    async with serving(saying(whole)) as server, provider(dialect, server.url) as made:
        assert blocks(await collect(made, asked(stream=False))) == [Text("Hello")]


@every_dialect
@pytest.mark.parametrize("ending_bytes", [b"0\r\n\r\n", b""], ids=["proper end", "connection lost"])
async def test_a_reply_that_breaks_off_gives_its_chunks_and_then_a_failure(dialect: str, ending_bytes: bytes) -> None:
    data = REPLIES[dialect]
    part = data[: data.index(b"lo") + 1]

    async def answer(send: Send, _: asyncio.StreamReader) -> str:
        await send(head() + chunked(part) + ending_bytes)
        return "close"

    got: list[Chunk] = []
    async with serving(answer) as server, provider(dialect, server.url) as made:
        with pytest.raises(ProviderError) as caught:
            await collect(made, into=got)
        assert caught.value.failure.kind == "stream_broken"
        assert caught.value.failure.retryable
        assert isinstance(got[0], ReplyStarted)


async def test_a_connection_lost_behind_the_stop_reason_loses_nothing() -> None:
    events = [anthropic_start(), *anthropic_text(0, "Hi"), anthropic_end()[0]]

    async def answer(send: Send, _: asyncio.StreamReader) -> str:
        await send(head() + chunked(sse(events)))
        return "close"

    async with serving(answer) as server, provider("anthropic", server.url) as made:
        assert blocks(await collect(made)) == [Text("Hi")]


async def test_a_failure_waits_until_the_chunks_before_it_were_given() -> None:
    error = ("error", {"type": "error", "error": {"type": "overloaded_error", "message": f"no {KEY} no"}})
    data = head() + chunked(sse([anthropic_start(), error])) + b"0\r\n\r\n"
    async with serving(saying(data)) as server, provider("anthropic", server.url) as made:
        async with made.stream(asked()) as batches:
            assert isinstance((await anext(batches))[0], ReplyStarted)
            with pytest.raises(ProviderError) as caught:
                await anext(batches)
        assert caught.value.failure.kind == "overloaded"
        assert caught.value.failure.message == "anthropic: the provider is overloaded: no *** no"


@every_dialect
async def test_refusals_keep_the_key_secret_and_say_when_to_come_back(dialect: str) -> None:
    body = json.dumps({"error": {"type": "rate_limit_error", "message": f"key {KEY} is too fast"}}).encode()
    data = fixed(429, "application/json", body, "Retry-After: 3")
    async with serving(saying(data)) as server, provider(dialect, server.url) as made:
        failure = await failure_of(made)
        assert (failure.kind, failure.status, failure.retry_after, failure.retryable) == ("rate_limit", 429, 3.0, True)
        assert "***" in failure.message
        await failure_of(made)
        assert server.connections == 1


async def test_an_endless_error_page_is_not_read_to_its_end() -> None:
    async def answer(send: Send, _: asyncio.StreamReader) -> None:
        await send(head(500, "text/plain"))
        while True:
            await send(chunked(b"x" * 65536))

    async with serving(answer) as server, provider("chat", server.url) as made:
        assert (await failure_of(made)).kind == "server"
        await asyncio.wait_for(server.gone.wait(), 5)


@every_dialect
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (fixed(200, "text/html; charset=utf-8", b"<html>log in</html>"), "unexpected_reply"),
        (fixed(200, "application/json", b"{}"), "unexpected_reply"),
        (fixed(200, "application/json", b""), "stream_broken"),
        (fixed(200, EVENT_STREAM, b""), "stream_broken"),
        (fixed(200, EVENT_STREAM, b"\x00\x01\x02 nonsense \xff" * 50), "stream_broken"),
        (b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n", "stream_broken"),
        (b"HTTP/1.1 204 X\r\n\r\n", "stream_broken"),
        (b"not http at all\r\n\r\n", "network"),
        (fixed(404, "text/plain", b"404 page not found"), "invalid_request"),
        (fixed(302, "text/plain", b"", "Location: http://elsewhere.invalid/"), "unexpected_reply"),
    ],
)
async def test_answers_that_are_none(dialect: str, data: bytes, kind: str) -> None:
    async with serving(saying(data)) as server, provider(dialect, server.url) as made:
        assert (await failure_of(made)).kind == kind


async def test_nobody_there() -> None:
    async with serving(saying(b"")) as server:
        url = server.url
    async with provider("chat", url) as made:
        failure = await failure_of(made)
        assert (failure.kind, failure.retryable) == ("network", True)
        assert url.removeprefix("http://") in failure.message
    async with provider("chat", "no url") as made:
        assert (await failure_of(made)).kind == "invalid_request"


async def test_no_answer_in_time() -> None:
    async def answer(send: Send, reader: asyncio.StreamReader) -> None:
        await reader.read()

    timeouts = Timeouts(first_byte=0.05)
    async with serving(answer) as server, provider("chat", server.url, timeouts=timeouts) as made:
        assert (await failure_of(made)).kind == "timeout"


async def test_a_model_without_tools_is_refused_without_a_connection() -> None:
    async with serving(saying(b"")) as server, provider("chat", server.url) as made:
        failure = await failure_of(made, request(user("m0", "x"), model="gemma3", tools=(READ,)))
        assert failure.kind == "invalid_model"
        assert server.connections == 0


@every_dialect
async def test_leaving_early_and_cancelling_close_the_connection_and_the_provider_goes_on(dialect: str) -> None:
    data = REPLIES[dialect].split(b"\n\n")[0] + b"\n\n"
    whole = head() + chunked(REPLIES[dialect]) + b"0\r\n\r\n"
    answers = [head() + chunked(data), head() + chunked(data), b"", whole]

    async def answer(send: Send, _: asyncio.StreamReader) -> None:
        await send(answers.pop(0))

    async with serving(answer) as server, provider(dialect, server.url) as made:
        async with made.stream(asked()) as batches:
            await anext(batches)
        await asyncio.wait_for(server.gone.wait(), 5)
        server.gone.clear()
        with anyio.CancelScope() as scope:
            async with made.stream(asked()) as batches:
                async for batch in batches:
                    if batch:
                        scope.cancel()
        assert scope.cancelled_caught
        await asyncio.wait_for(server.gone.wait(), 5)
        server.gone.clear()
        with anyio.move_on_after(0.05) as scope:
            await collect(made)
        assert scope.cancelled_caught
        assert blocks(await collect(made)) == [Text("Hello")]


async def test_a_line_without_end_is_broken_and_memory_stays_bounded() -> None:
    async def answer(send: Send, _: asyncio.StreamReader) -> None:
        await send(head() + chunked(b"data: "))
        while True:
            await send(chunked(b"x" * 1_000_000))

    async with serving(answer) as server, provider("chat", server.url) as made:
        assert (await failure_of(made)).kind == "stream_broken"
        await asyncio.wait_for(server.gone.wait(), 5)
