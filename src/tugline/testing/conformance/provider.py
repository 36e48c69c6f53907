"""What every provider must do, tried over real HTTP against the scripted model."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from tugline.ports import Provider
from tugline.protocol.blocks import AssistantBlock, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.ids import CallId, MessageId
from tugline.protocol.messages import Assistant, User
from tugline.protocol.script import Cut, Match, Step
from tugline.protocol.specs import ModelRequest, ToolSpec
from tugline.testing import builders as say
from tugline.testing.model_server import ModelServer

TOOL = ToolSpec("Read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
PATIENCE = 20.0


class ProviderConformance:
    """Subclass it and give `provider`: a bare one, without retries around it, that talks to the server given."""

    model = "scripted"

    def provider(self, server: ModelServer) -> Provider:
        """A provider whose base URL is the server's."""
        raise NotImplementedError

    # the reply

    async def test_text_and_calls_arrive_whole_and_in_order(self) -> None:
        """Chunks come in the order that `protocol.chunks` states, and say what the model said."""
        async with self._asking([say.reply("Hello there", say.call("Read", path="a"), chunk=3)]) as provider:
            chunks = await self._collect(provider, self.request())
        check_order(chunks)
        assert closed(chunks) == [Text("Hello there"), ToolUse(CallId("call_1_1"), "Read", {"path": "a"})]
        assert isinstance(chunks[-1], ReplyEnded)
        assert chunks[-1].stop == "tool_use"

    async def test_several_calls_keep_their_ids_and_their_order(self) -> None:
        """Each call has its own block."""
        calls = [say.call("Read", path=str(n)) for n in range(3)]
        async with self._asking([say.reply(*calls)]) as provider:
            chunks = await self._collect(provider, self.request())
        check_order(chunks)
        assert closed(chunks) == [ToolUse(CallId(f"call_1_{n + 1}"), "Read", {"path": str(n)}) for n in range(3)]

    async def test_stops_are_told_in_our_words(self) -> None:
        """`end_turn` and `max_tokens`, whatever the service calls them."""
        stops = ["end_turn", "max_tokens"]
        async with self._asking([say.reply("a", stop=stop) for stop in stops]) as provider:
            told = [(await self._collect(provider, self.request()))[-1] for _ in stops]
        assert [end.stop for end in told if isinstance(end, ReplyEnded)] == stops

    async def test_usage_is_reported(self) -> None:
        """Input and output are counted, once each."""
        async with self._asking([say.reply("a" * 400)]) as provider:
            end = (await self._collect(provider, self.request()))[-1]
        assert isinstance(end, ReplyEnded)
        assert end.usage.output == 100
        assert end.usage.input + end.usage.cache_read + end.usage.cache_write > 0

    async def test_any_split_of_the_bytes_gives_the_same_chunks(self) -> None:
        """Also in the middle of a character or of a line."""
        parts = ("naïve 😀 text\r\nwith \u2028 lines", say.call("Read", path="ü"))
        sizes = [None, 1, 2, 3, 7]
        async with self._asking([say.reply(*parts, split=size) for size in sizes]) as provider:
            told = [closed(await self._collect(provider, self.request())) for _ in sizes]
        expected = [Text(parts[0]), {"path": "ü"}]
        assert [[b.input if isinstance(b, ToolUse) else b for b in blocks] for blocks in told] == [expected] * len(
            sizes
        )

    async def test_a_reply_in_one_piece_says_the_same(self) -> None:
        """`stream=False` gives the same blocks."""
        async with self._asking([say.reply("Hello", say.call("Read", path="a"))]) as provider:
            chunks = await self._collect(provider, self.request(stream=False))
        check_order(chunks)
        assert [type(block) for block in closed(chunks)] == [Text, ToolUse]

    async def test_broken_json_of_a_call_is_kept_and_marked(self) -> None:
        """The loop tells the model; the provider does not guess."""
        async with self._asking([say.reply(say.raw_call("Read", '{"path": "a'))]) as provider:
            (block,) = closed(await self._collect(provider, self.request()))
        assert isinstance(block, ToolUse)
        assert block.malformed is not None

    async def test_a_conversation_with_calls_and_results_is_one_that_the_service_takes(self) -> None:
        """The server refuses what the services would refuse."""
        calls = (ToolUse(CallId("a1"), "Read", {"path": "x"}), ToolUse(CallId("a2"), "Read", {}, '{"path'))
        results = (ToolResult(CallId("a1"), "text of x"), ToolResult(CallId("a2"), "no such file", True))
        history = (
            User(MessageId("1"), (Text("read x"),)),
            Assistant(MessageId("2"), (Text("Reading."), *calls)),
            User(MessageId("3"), results, source="results"),
            User(MessageId("4"), (Text("and hurry"),)),
        )
        step = say.reply("Done.", expect=Match(results=("text of x", "no such file")))
        async with self._asking([step]) as provider:
            request = msgspec.structs.replace(self.request(), messages=history, tail="be brief")
            assert closed(await self._collect(provider, request)) == [Text("Done.")]

    # failures

    async def test_a_stream_that_breaks_is_an_error(self) -> None:
        """However it breaks, streaming or not: never a short reply."""
        cut = [Cut("end"), Cut("close"), Cut("drop")]
        steps = [say.reply("begun", part, "never") for part in cut]
        steps += [say.reply("begun", stop="missing"), say.reply(say.text("begun", unclosed=True), stop="missing")]
        steps += [say.reply("begun", cut=Cut("end", bytes=size)) for size in (1, 40, 120)]
        async with self._asking([step for step in steps for _ in range(2)]) as provider:
            for n in range(2 * len(steps)):
                failure = await self._failure(provider, self.request(stream=n % 2 == 0))
                assert failure.kind in ("stream_broken", "network"), failure
                assert failure.retryable, failure

    async def test_refusals_are_sorted_by_what_can_be_done(self) -> None:
        """Kinds, statuses, `retry-after`, and whether trying again can help."""
        expected: list[tuple[Step, str, bool]] = [
            (say.fail(401), "authentication", False),
            (say.fail(429, retry_after=2), "rate_limit", True),
            (say.fail(500), "server", True),
            (say.fail(529), "overloaded", True),
            (say.fail(400, "prompt is too long: 9 tokens > 8 maximum"), "prompt_too_long", False),
            (say.fail(400, "nonsense"), "invalid_request", False),
            (say.fail(502, body="<html>Bad gateway</html>"), "server", True),
        ]
        async with self._asking([step for step, _, _ in expected]) as provider:
            failures = [await self._failure(provider, self.request()) for _ in expected]
        assert [(f.kind, f.retryable) for f in failures] == [(kind, retry) for _, kind, retry in expected]
        assert failures[1].retry_after == 2

    async def test_an_error_in_the_stream_is_an_error(self) -> None:
        """Although the status was 200."""
        async with self._asking([say.reply("begun", say.error_event("overloaded_error", "busy"))]) as provider:
            assert (await self._failure(provider, self.request())).retryable

    async def test_something_that_is_no_event_stream_is_an_error(self) -> None:
        """A proxy's login page, for example."""
        async with self._asking(
            [say.reply(say.garbage("<html>"), stop="missing", content_type="text/html")]
        ) as provider:
            await self._failure(provider, self.request())

    # lifetimes

    async def test_leaving_the_stream_closes_the_connection(self) -> None:
        """The service stops to write, and nothing is left behind."""
        async with self._serving([say.reply("begun", say.gate("here"), "never")]) as (provider, server):
            async with asyncio.timeout(PATIENCE):
                async with provider.stream(self.request()) as batches:
                    async for batch in batches:
                        if any(isinstance(chunk, BlockDelta) for chunk in batch):
                            break
                await server.disconnected()

    async def test_a_cancelled_reader_closes_the_connection(self) -> None:
        """Wherever it waits: before the answer begins, and in the middle."""
        steps = [say.reply(say.gate("a"), "never"), say.reply("begun", say.gate("b"), "never")]
        async with self._serving(steps) as (provider, server):
            for gate in ("a", "b"):
                task = asyncio.create_task(self._collect(provider, self.request()))
                async with asyncio.timeout(PATIENCE):
                    await server.reached(gate)
                    task.cancel()
                    await asyncio.wait([task])
                    await server.disconnected()
                assert task.cancelled()

    async def test_many_streams_at_once_do_not_mix(self) -> None:
        """Each reader gets its own reply."""
        step = say.reply("{{last_user_text}}", chunk=1, repeat=20)
        async with self._asking([step]) as provider:
            asked = [self._collect(provider, self.request(f"words {n}")) for n in range(20)]
            told = [closed(chunks) for chunks in await asyncio.gather(*asked)]
        assert told == [[Text(f"words {n}")] for n in range(20)]

    # parts

    def request(self, words: str = "hello", *, stream: bool = True) -> ModelRequest:
        """A request in which the person says `words`."""
        message = User(MessageId("1"), (Text(words),))
        return ModelRequest(self.model, (message,), ("You read files.",), (TOOL,), stream=stream)

    @asynccontextmanager
    async def _serving(self, steps: Sequence[Step]) -> AsyncIterator[tuple[Provider, ModelServer]]:
        async with ModelServer(steps) as server:
            provider = self.provider(server)
            try:
                yield provider, server
            finally:
                await provider.aclose()

    @asynccontextmanager
    async def _asking(self, steps: Sequence[Step]) -> AsyncIterator[Provider]:
        async with self._serving(steps) as (provider, _):
            yield provider

    async def _collect(self, provider: Provider, request: ModelRequest) -> list[Chunk]:
        chunks: list[Chunk] = []
        async with asyncio.timeout(PATIENCE), provider.stream(request) as batches:
            async for batch in batches:
                chunks += batch
        return chunks

    async def _failure(self, provider: Provider, request: ModelRequest) -> Failure:
        try:
            chunks = await self._collect(provider, request)
        except ProviderError as error:
            words, failure = str(error).strip(), error.failure
        else:
            raise AssertionError(f"a reply instead of an error: {closed(chunks)}")
        assert words, "the error has no text"
        assert "\n" not in words, "the error is more than a line"
        return failure


def closed(chunks: Sequence[Chunk]) -> list[AssistantBlock]:
    """The whole blocks of a reply, thinking apart."""
    blocks = [chunk.block for chunk in chunks if isinstance(chunk, BlockClosed)]
    return [block for block in blocks if not isinstance(block, Thinking)]


def check_order(chunks: Sequence[Chunk]) -> None:
    """Raise `AssertionError` unless the chunks of one attempt stand in the order that `protocol.chunks` states."""
    assert chunks, "no chunks"
    assert isinstance(chunks[0], ReplyStarted), f"the first chunk is {chunks[0]!r}"
    assert isinstance(chunks[-1], ReplyEnded), f"the last chunk is {chunks[-1]!r}"
    open_block: BlockStarted | None = None
    said: list[str] = []
    for chunk in chunks[1:-1]:
        if isinstance(chunk, BlockStarted):
            assert open_block is None, f"{chunk!r} opens inside {open_block!r}"
            open_block, said = chunk, []
        elif isinstance(chunk, BlockDelta | BlockClosed):
            assert open_block is not None, f"{chunk!r} without an open block"
            assert chunk.index == open_block.index, f"{chunk!r} inside {open_block!r}"
            if isinstance(chunk, BlockDelta):
                said.append(chunk.text)
                continue
            check_block(open_block, "".join(said), chunk.block)
            open_block = None
        else:
            raise AssertionError(f"{chunk!r} inside a reply")
    assert open_block is None, f"{open_block!r} was never closed"


def check_block(opened: BlockStarted, said: str, block: AssistantBlock) -> None:
    """Raise `AssertionError` unless a closed block is the one that was opened, and says what its deltas said."""
    if isinstance(block, Text):
        assert (opened.kind, said) == ("text", block.text)
    elif isinstance(block, ToolUse):
        assert (opened.kind, opened.call, opened.name) == ("tool_use", block.id, block.name)
