"""The scripted model in memory: a `Provider` for tests that need no wire."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from anyio import sleep, sleep_forever
from anyio.lowlevel import checkpoint

from tugline.protocol import codec
from tugline.protocol.blocks import Document, Image, Opaque, Text, Thinking, ToolResult, ToolUse
from tugline.protocol.chunks import BlockClosed, BlockDelta, BlockStarted, Chunk, ReplyEnded
from tugline.protocol.errors import Failure, FailureKind, ProviderError
from tugline.protocol.messages import Message, User
from tugline.protocol.script import Cut, ErrorEvent, Garbage, Gate, HttpError, Pause, Pings, Script, Step
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.protocol.usage import Usage
from tugline.testing.engine import Engine, UnexpectedRequest, error_kind
from tugline.testing.perform import Act, perform
from tugline.testing.validity import Invalid, check_conversation, check_schema, check_tool_names
from tugline.testing.view import Said, SeenResult, View, view_of


class ScriptedProvider:
    """Answers requests from a script, and keeps them in `requests`.

    Each batch holds `batch` chunks; an empty one is a ping. `check()` raises `ScriptMismatch` if steps were left over,
    a request came that no step answers, an expectation failed, or a conversation is not one that the services accept.
    """

    def __init__(
        self, script: Script | Sequence[Step], *, batch: int = 1, cards: Sequence[ModelCard] = (), strict: bool = True
    ) -> None:
        self.requests: list[ModelRequest] = []
        self.running = 0
        """Streams that are open now."""
        self.closed = False
        self._engine = Engine(script if isinstance(script, Script) else Script(script))
        self._batch = batch
        self._cards = {card.name: card for card in cards}
        self._strict = strict

    def open(self, *gates: str) -> None:
        """Open these gates."""
        self._engine.gates.open(*gates)

    async def reached(self, gate: str, count: int = 1) -> None:
        """Until `count` replies in all have come to this gate."""
        await self._engine.gates.reached(gate, count)

    @property
    def remaining(self) -> list[str]:
        """The steps that nobody asked for yet, one line each."""
        return self._engine.unconsumed()

    @property
    def problems(self) -> list[str]:
        """What was not as scripted so far, unconsumed steps apart."""
        return self._engine.problems

    def check(self) -> None:
        """Raise `ScriptMismatch` unless all went as scripted."""
        self._engine.check()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Sequence[Chunk]]]:
        """Answer with the next step; see `ports.Provider`."""
        request = msgspec.structs.replace(request, messages=tuple(request.messages))
        self.requests.append(request)
        await checkpoint()
        acts = self._answer(request)
        self.running += 1
        batches = self._batches(acts, request.stream)
        try:
            yield batches
        finally:
            self.running -= 1
            await batches.aclose()

    def card(self, model: str) -> ModelCard:
        """The card given for this model, or a plain one."""
        return self._cards.get(model) or ModelCard(name=model, provider="scripted")

    async def aclose(self) -> None:
        """Nothing to close; remembered in `closed`."""
        self.closed = True

    def _answer(self, request: ModelRequest) -> list[Act]:
        try:
            if self._strict:
                check_request(request)
            taken = self._engine.take(view(request))
            step = taken.step
            if step.error is not None:
                raise ProviderError(failure(step.error))
            if step.content_type is not None:
                raise broken(f"the answer is {step.content_type}, not an event stream")
            acts = list(perform(taken, Usage(input=max(1, taken.view.characters // 4))))
        except Invalid as invalid:
            self._engine.report(f"invalid request: {invalid}")
            raise ProviderError(Failure("invalid_request", str(invalid), 400)) from None
        except UnexpectedRequest as unexpected:
            raise ProviderError(Failure("server", str(unexpected), 500)) from None
        return cut_short(acts, step.cut) if step.cut is not None else acts

    async def _batches(self, acts: list[Act], stream: bool) -> AsyncGenerator[Sequence[Chunk], None]:
        size = self._batch if stream else len(acts)
        batch: list[Chunk] = []
        ended = False
        for act in acts:
            if isinstance(act, Pause | Gate | Pings | Garbage | Cut | ErrorEvent):
                if batch and stream:
                    yield batch
                    batch = []
                if isinstance(act, Pings):
                    for _ in range(act.count):
                        yield ()
                else:
                    await self._between(act)
                continue
            if isinstance(act, ReplyEnded):
                check_closed(acts)
                ended = True
            batch.append(act)
            if len(batch) >= size:
                await checkpoint()
                yield batch
                batch = []
        if not ended:
            if batch and stream:
                yield batch
            raise broken("the stream ended before the reply did")
        if batch:
            yield batch

    async def _between(self, act: Pause | Gate | Garbage | Cut | ErrorEvent) -> None:
        match act:
            case Pause(seconds=seconds):
                await sleep(seconds)
            case Gate(name=name):
                await self._engine.gates.passed(name)
            case Cut(how="hang"):
                await sleep_forever()
            case Cut(how=how):
                raise broken(
                    "the connection was closed" if how in ("close", "drop") else "the stream ended before the reply did"
                )
            case Garbage():
                raise broken("the stream holds something that is no event")
            case ErrorEvent(type=kind, message=message):
                raise ProviderError(failure(HttpError(event_status(kind), message, kind), status=False))


def broken(message: str) -> ProviderError:
    """The error of a stream that broke."""
    return ProviderError(Failure("stream_broken", message, retryable=True))


def event_status(kind: str) -> int:
    """The status that goes with an error of this type in the middle of a stream."""
    return next((s for s in (400, 401, 403, 404, 413, 429, 529) if error_kind(HttpError(s)) == kind), 500)


def failure(error: HttpError, *, status: bool = True) -> Failure:
    """What a provider makes of such a refusal."""
    named: dict[int, FailureKind] = {
        400: "invalid_request",
        401: "authentication",
        402: "billing",
        403: "authentication",
        404: "invalid_model",
        408: "timeout",
        413: "prompt_too_long",
        429: "rate_limit",
        529: "overloaded",
    }
    kind = named.get(error.status, "server" if error.status >= 500 else "invalid_request")
    if error.status == 400 and "prompt is too long" in error.message.lower():
        kind = "prompt_too_long"
    return Failure(
        kind,
        error.message or f"{error.status} {error_kind(error)}",
        error.status if status else None,
        error.retry_after,
        error.status in (408, 409, 429) or error.status >= 500,
    )


def check_closed(acts: list[Act]) -> None:
    """Raise the error of a broken stream if a block was never closed."""
    opened = sum(isinstance(act, BlockStarted) for act in acts)
    if opened != sum(isinstance(act, BlockClosed) for act in acts):
        raise broken("the reply ended before its block did")


def cut_short(acts: list[Act], cut: Cut) -> list[Act]:
    """The acts up to the cut: so many chunks, or chunks whose texts together hold so many bytes."""
    chunks = size = 0
    for n, act in enumerate(acts):
        if isinstance(act, Pause | Gate | Pings | Garbage | Cut | ErrorEvent):
            continue
        chunks += 1
        size += len(act.text.encode()) if isinstance(act, BlockDelta) else 0
        if (cut.events is not None and chunks > cut.events) or (cut.bytes is not None and size > cut.bytes):
            return [*acts[:n], Cut(cut.how)]
    return acts


def view(request: ModelRequest) -> View:
    """What a script can see of the request."""
    said = [_said(message) for message in request.messages]
    if request.tail:
        said.append(Said("user", (request.tail,)))
    system = "\n\n".join(request.system)
    texts = sum(len(text) for message in said for text in message.texts)
    results = sum(len(result.text) for message in said for result in message.results)
    return view_of(
        said,
        model=request.model,
        system=system,
        tools=tuple(tool.name for tool in request.tools),
        stream=request.stream,
        characters=len(system) + texts + results,
        purpose=request.purpose,
    )


def _said(message: Message) -> Said:
    texts = tuple(block.text for block in message.content if isinstance(block, Text))
    if not isinstance(message, User):
        return Said("assistant", texts)
    results = tuple(_seen(block) for block in message.content if isinstance(block, ToolResult))
    return Said("user", texts, results)


def _seen(result: ToolResult) -> SeenResult:
    content = result.content
    text = content if isinstance(content, str) else "\n".join(part.text for part in content if isinstance(part, Text))
    return SeenResult(result.tool_use_id, text, result.is_error)


def check_request(request: ModelRequest) -> None:
    """Raise `Invalid` unless the services would accept this conversation and these tools."""
    messages: list[Any] = []
    for message in request.messages:
        role = "user" if isinstance(message, User) else "assistant"
        messages.append({"role": role, "content": [_plain(block) for block in message.content]})
    if request.tail:
        messages.append({"role": "user", "content": request.tail})
    check_conversation(messages)
    check_tool_names([tool.name for tool in request.tools], 64)
    for n, tool in enumerate(request.tools):
        check_schema(tool.input_schema, f"tools.{n}.input_schema")


def _plain(block: Any) -> Any:
    match block:
        case Opaque():
            return {"type": "redacted_thinking", "data": block.provider}
        case Image() | Document():
            return {"type": codec.to_plain(block)["type"], "source": _source(block)}
        case ToolUse():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
        case Thinking():
            # without a signature the adapters leave it out; here it stands for a part that is not judged
            return {"type": "thinking", "thinking": block.thinking, "signature": block.signature or "none"}
        case ToolResult(content=tuple() as parts):
            shown = {"type": "tool_result", "tool_use_id": block.tool_use_id, "is_error": block.is_error}
            return {**shown, "content": [_plain(part) for part in parts]}
    return codec.to_plain(block)


def _source(block: Image | Document) -> dict[str, str]:
    return {"type": "base64", "media_type": block.media_type, "data": block.data}
