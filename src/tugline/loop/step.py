"""One model request: the stream's chunks become events, a message, and calls that start while it still streams."""

import math

import anyio
from anyio.abc import TaskGroup
from msgspec import structs

from tugline.loop.executor import Executor, Gear, is_cancelled
from tugline.ports import Ids, Provider
from tugline.protocol.blocks import AssistantBlock, Opaque, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.chunks import (
    AttemptFailed,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Chunk,
    ModelSwitched,
    ReplyEnded,
    ReplyStarted,
)
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.events import (
    BlockBegan,
    BlockFinished,
    Event,
    InputDelta,
    ModelChanged,
    ReplyBegan,
    ReplyFinished,
    RetryWaiting,
    TextDelta,
    ThinkingDelta,
    Tombstone,
)
from tugline.protocol.ids import CallId, MessageId, ReplyId
from tugline.protocol.messages import Assistant
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.protocol.usage import Usage

REST_LIMIT = 1.0
"""Seconds that a stream may go on after its reply ended."""

CUT_STOPS = ("max_tokens", "context_exceeded")

_DELTAS: dict[str, type[TextDelta] | type[ThinkingDelta] | type[InputDelta]] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
    "tool_use": InputDelta,
}


class Step:
    """One request, its attempts, and the calls of the reply that ended properly.

    What it knows stays readable after a failure or a cancellation, so that the turn can leave a valid conversation.
    """

    def __init__(self, provider: Provider, gear: Gear, ids: Ids, card: ModelCard) -> None:
        self.card = card
        self.reply: Assistant | None = None
        self.executor: Executor | None = None
        self.error: ProviderError | None = None
        self.model_switch: ModelSwitched | None = None
        self.seconds = 0.0
        self.lost: list[tuple[ModelCard, Usage]] = []
        """What attempts cost that came to nothing: the provider has read them all the same."""
        self._asked = Usage()
        self._provider = provider
        self._gear = gear
        self._ids = ids
        self._reply_id = ReplyId("")
        self._model = ""
        self._blocks: list[AssistantBlock] = []
        self._held: BlockClosed | None = None
        self._open: dict[int, BlockStarted] = {}
        self._parts: list[str] = []
        self._names: dict[int, CallId] = {}
        self._seen: set[CallId] = set()

    async def run(self, request: ModelRequest) -> None:
        """Stream the reply and run its calls to the end. A failure for good is left in `error`."""
        self._model = request.model
        async with anyio.create_task_group() as tasks:
            began = self._gear.clock.monotonic()
            try:
                try:
                    await self._receive(request, tasks)
                finally:
                    self.seconds = self._gear.clock.monotonic() - began
            except ProviderError as error:
                self.error = error
                self._void("the request failed")
                tasks.cancel_scope.cancel()
            else:
                assert self.executor is not None
                await self.executor.finished()
        if self.error is None and self.executor is not None and not self.executor.is_done:
            raise RuntimeError("the task of a call was cancelled, and nobody had interrupted it")

    async def _receive(self, request: ModelRequest, tasks: TaskGroup) -> None:
        try:
            async with self._provider.stream(request) as batches:
                with anyio.CancelScope() as rest:
                    async for batch in batches:
                        for chunk in batch:
                            self._take(chunk, tasks)
                        if self.reply is not None and rest.deadline == math.inf:
                            # the reply is whole; the connection's end may take its time, but not ours
                            rest.deadline = anyio.current_time() + REST_LIMIT
        except ProviderError:
            if self.reply is None:
                raise
        except anyio.get_cancelled_exc_class():
            if is_cancelled():
                raise
            # the provider's own cancellation: nobody has interrupted the turn
        if self.reply is None:
            raise ProviderError(Failure("stream_broken", "The model's answer ended before it was whole."))

    @property
    def streaming(self) -> bool:
        """Whether the reply has not ended yet."""
        return self.reply is None

    def results(self) -> tuple[ToolResult, ...]:
        """The results of the reply's calls, in their order."""
        return self.executor.results() if self.executor else ()

    def break_off(self) -> Assistant | None:
        """After a cancellation: what stands of the reply, and a result for every call in it.

        Of a reply that was cut short, its closed blocks and the text so far stand; an unfinished call does not.
        """
        if self.reply is None:
            self._book_lost()
            blocks = [block for block in self._blocks if not isinstance(block, Thinking | Opaque)]
            text = "".join(self._parts)
            if text.strip() and any(opened.kind == "text" for opened in self._open.values()):
                blocks.append(Text(text))
            if blocks:
                self.reply = Assistant(
                    id=self._ids.message(),
                    content=tuple(blocks),
                    model=self._model,
                    stop="interrupted",
                    reply=self._reply_id,
                )
                self._gear.transcript.add_reply(self.reply)
                self._say(ReplyFinished, message=self.reply)
            elif self._reply_id:
                self._say(Tombstone, reply=self._reply_id, reason="interrupted")
        if self.executor is not None:
            self.executor.interrupt()
        return self.reply

    def give_up(self) -> None:
        """After an error that nobody foresaw: a reply that was not whole is void, the calls of a whole one get a
        result."""
        if self.reply is None:
            self._void("an unexpected error")
        elif self.executor is not None:
            self.executor.interrupt()

    # -- chunks

    def _say(self, kind: type[Event], /, **fields: object) -> None:
        self._gear.voice.say(kind, **fields)

    def _take(self, chunk: Chunk, tasks: TaskGroup) -> None:
        if self.reply is not None:
            return  # the reply is whole: what a provider adds to it does not count
        if isinstance(chunk, BlockDelta):
            self._take_delta(chunk)
            return
        if isinstance(chunk, BlockStarted | BlockClosed | ReplyEnded) and self.executor is None:
            raise _unsound(f"said {type(chunk).__name__} before a reply had begun")
        match chunk:
            case ReplyStarted():
                self._begin(chunk, tasks)
            case BlockStarted():
                self._open_block(chunk)
            case BlockClosed():
                self._close_block(chunk)
            case ReplyEnded():
                self._end(chunk)
            case AttemptFailed(failure, attempt, limit, delay):
                self._void(failure.message)
                self._say(RetryWaiting, failure=failure, attempt=attempt, limit=limit, delay=delay)
            case ModelSwitched(before, after, reason):
                self._void(reason)
                self._model = after
                self.model_switch = chunk
                self.card = self._provider.card(after)
                self._say(ModelChanged, before=before, after=after, reason=reason)

    def _take_delta(self, chunk: BlockDelta) -> None:
        opened = self._open.get(chunk.index)
        if opened is None:
            return
        kind = _DELTAS.get(opened.kind)
        if kind is None:
            return
        voice = self._gear.voice
        self._parts.append(chunk.text)
        voice.publish(kind(voice.number(), voice.origin, self._reply_id, chunk.index, chunk.text))

    def _begin(self, chunk: ReplyStarted, tasks: TaskGroup) -> None:
        if self.executor is not None:
            raise _unsound("began a second reply inside the first")
        self._reply_id = ReplyId(self._ids.new("reply"))
        self._asked = chunk.usage
        self._model = chunk.model or self._model
        self._seen = set()
        self.executor = Executor(self._gear, self._reply_id, self.card, tasks)
        self._say(ReplyBegan, reply=self._reply_id, model=self._model, usage=chunk.usage)

    def _open_block(self, chunk: BlockStarted) -> None:
        call = chunk.call
        if chunk.kind == "tool_use":
            call = self._own_name(chunk.call)
            self._names[chunk.index] = call
        self._open[chunk.index] = chunk
        self._parts = []
        self._say(BlockBegan, reply=self._reply_id, index=chunk.index, kind=chunk.kind, call=call, name=chunk.name)

    def _own_name(self, call: CallId) -> CallId:
        """The provider's id, or a fresh one where it is missing or was used before in this conversation."""
        if not call or call in self._seen or call in self._gear.transcript.call_ids:
            call = CallId(self._ids.new("call"))
        self._seen.add(call)
        return call

    def _close_block(self, chunk: BlockClosed) -> None:
        block = chunk.block
        self._open.pop(chunk.index, None)
        self._parts = []
        self._release_held()
        if isinstance(block, ToolUse):
            name = self._names.pop(chunk.index, None) or self._own_name(block.id)
            if name != block.id:
                block = structs.replace(block, id=name)
            if block.malformed is not None:
                # whether it was cut off at the output limit, and does not count, is known at the reply's end
                self._held = BlockClosed(chunk.index, block)
                return
        elif isinstance(block, Text) and not block.text.strip():
            return
        self._accept(chunk.index, block)

    def _accept(self, index: int, block: AssistantBlock) -> None:
        self._blocks.append(block)
        self._say(BlockFinished, reply=self._reply_id, index=index, block=block)
        if isinstance(block, ToolUse) and self.executor is not None:
            self.executor.add(block)

    def _release_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._accept(held.index, held.block)

    def _end(self, chunk: ReplyEnded) -> None:
        assert self.executor is not None
        self._asked = Usage()
        if chunk.stop in CUT_STOPS:
            self._held = None
        self._release_held()
        self.reply = Assistant(
            id=MessageId(self._ids.message()),
            content=tuple(self._blocks),
            model=self._model,
            stop=chunk.stop,
            usage=chunk.usage,
            reply=self._reply_id,
        )
        transcript = self._gear.transcript
        if self.reply.content:
            transcript.add_reply(self.reply)
            self._say(ReplyFinished, message=self.reply)
        else:
            self._say(Tombstone, reply=self._reply_id, reason="the reply is empty")
        if chunk.stop == "refusal":
            self.executor.end_refused()
        else:
            self.executor.end_reply()

    def _book_lost(self) -> None:
        if self._asked != Usage():
            self.lost.append((self.card, self._asked))
            self._asked = Usage()

    def _void(self, reason: str) -> None:
        """All that was said of the attempt is void."""
        if self.executor is not None:
            self.executor.discard()
            self.executor = None
        if self._reply_id and self.reply is None:
            self._say(Tombstone, reply=self._reply_id, reason=reason)
        self._book_lost()
        self.reply = None
        self._reply_id = ReplyId("")
        self._blocks = []
        self._held = None
        self._open = {}
        self._names = {}
        self._parts = []


def _unsound(what: str) -> ProviderError:
    return ProviderError(Failure("unexpected_reply", f"The provider {what}."))
