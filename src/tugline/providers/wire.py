"""What the wire adapters share: a request goes out, an answer comes back as batches of chunks, errors as failures."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Protocol

from msgspec import Struct

from tugline.net.client import HttpClient, Response, Timeouts
from tugline.net.errors import HttpError
from tugline.protocol.chunks import Chunk
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.providers.assemble import ReplyIds
from tugline.providers.catalog import Catalog
from tugline.providers.endpoint import Endpoint
from tugline.providers.failure import broken, failure_of_http, failure_of_status
from tugline.providers.sse import SseError, SseParser

BODY_LIMIT = 256 * 1024 * 1024
ERROR_LIMIT = 1024 * 1024
WHOLE_REPLY = 600.0
"""Seconds to the first byte of an answer that is not streamed: it comes when the model is done."""


class Decoder(Protocol):
    """Turns one answer into chunks, without I/O. Raises `ProviderError`."""

    ended: bool
    """`ReplyEnded` was given; whatever follows is not of this reply."""

    def feed(self, event: str, data: bytes) -> list[Chunk]:
        """One server-sent event."""
        ...

    def end(self) -> list[Chunk]:
        """The stream is over; an error if the reply had not ended."""
        ...

    def whole(self, body: bytes) -> list[Chunk]:
        """The answer to a request that was not streamed."""
        ...


class Outgoing(Struct, frozen=True, eq=False):
    """A request ready for the wire, and who reads its answer."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    decoder: Decoder
    stream: bool


class WireProvider(ABC):
    """A provider that speaks one wire protocol to one endpoint. Closes its client with itself."""

    def __init__(
        self, endpoint: Endpoint, client: HttpClient, catalog: Catalog, *, timeouts: Timeouts | None = None
    ) -> None:
        self.endpoint = endpoint
        self.timeouts = timeouts or Timeouts()
        self.reply_ids = ReplyIds()
        self._client = client
        self._catalog = catalog

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which messages and cards know this provider."""

    @abstractmethod
    def prepare(self, request: ModelRequest) -> Outgoing:
        """Encode the request. Raises `ProviderError` for what this model cannot be asked."""

    def stream(self, request: ModelRequest) -> "WireStream":
        """Send the request; iterate inside. See `ports.Provider`."""
        return WireStream(self, self._client, request)

    def card(self, model: str) -> ModelCard:
        """What is known of a model; safe defaults for an unknown one."""
        return self._catalog.card(model)

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.aclose()


class WireStream:
    """One request and its answer. An empty batch is a sign of life without content."""

    def __init__(self, provider: WireProvider, client: HttpClient, request: ModelRequest) -> None:
        self._provider = provider
        self._client = client
        self._request = request
        self._stack = AsyncExitStack()
        self._response: Response | None = None
        self._decoder: Decoder | None = None
        self._parser: SseParser | None = None
        self._failure: ProviderError | None = None
        self._over = False
        self._whole = b""

    async def __aenter__(self) -> "WireStream":
        outgoing = self._provider.prepare(self._request)
        self._decoder = outgoing.decoder
        try:
            async with AsyncExitStack() as stack:
                response = await stack.enter_async_context(
                    self._client.request(
                        "POST",
                        outgoing.url,
                        headers=outgoing.headers,
                        body=outgoing.body,
                        timeouts=self._timeouts(outgoing.stream),
                    )
                )
                await self._open(response, outgoing.stream)
                self._stack = stack.pop_all()
        except HttpError as error:
            raise self._clean(failure_of_http(error, began=False, provider=self._provider.name)) from None
        except ProviderError as error:
            raise self._clean(error.failure) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._decoder is not None and self._decoder.ended and not self._over:
                self._release()
        finally:
            await self._stack.__aexit__(kind, error, trace)

    def __aiter__(self) -> "WireStream":
        return self

    async def __anext__(self) -> Sequence[Chunk]:
        if self._failure is not None:
            raise self._failure
        decoder = self._decoder
        if decoder is None or self._response is None:
            raise RuntimeError("the stream is used outside its context")
        if decoder.ended or self._over:
            raise StopAsyncIteration
        if self._parser is None:
            return self._read_whole()
        try:
            data = await self._response.receive()
        except HttpError as error:
            return self._broke_off(error)
        return self._decode(data)

    async def _open(self, response: Response, stream: bool) -> None:
        name = self._provider.name
        if not 200 <= response.status < 300:
            body = b""
            try:
                body = await response.read(ERROR_LIMIT)
            except HttpError:
                pass  # the status alone has to tell
            raise ProviderError(failure_of_status(response.status, response.headers, body, provider=name))
        kind = response.headers.get("content-type").partition(";")[0].strip().lower()
        if kind in ("text/html", "application/xhtml+xml"):
            message = (
                f"{name}: the server at {self._provider.endpoint.origin} answers with a web page; check the base URL"
            )
            raise ProviderError(Failure("unexpected_reply", message, status=response.status))
        self._response = response
        # Servers that ignore `stream` say by the type of their answer what they send.
        if kind == "text/event-stream" or (stream and kind != "application/json"):
            self._parser = SseParser()
        else:
            self._whole = await response.read(BODY_LIMIT)

    def _timeouts(self, stream: bool) -> Timeouts:
        given = self._provider.timeouts
        if stream or given.first_byte is None:
            return given
        return Timeouts(given.connect, max(given.first_byte, WHOLE_REPLY), given.idle)

    def _read_whole(self) -> list[Chunk]:
        self._over = True
        if self._decoder is None:
            return []
        try:
            return self._decoder.whole(self._whole)
        except ProviderError as error:
            raise self._clean(error.failure) from None

    def _decode(self, data: bytes) -> list[Chunk]:
        """The chunks of one piece of the body. A failure waits until those before it were handed out."""
        decoder, parser = self._decoder, self._parser
        if decoder is None or parser is None:
            return []
        chunks: list[Chunk] = []
        try:
            for event, line in parser.feed(data) if data else parser.end():
                chunks += decoder.feed(event, line)
                if decoder.ended:
                    return chunks
            if not data:
                self._over = True
                chunks += decoder.end()
        except SseError as error:
            self._fail(broken(str(error)).failure, chunks)
        except ProviderError as error:
            self._fail(error.failure, chunks)
        return chunks

    def _broke_off(self, error: HttpError) -> list[Chunk]:
        self._over = True
        chunks: list[Chunk] = []
        failure = failure_of_http(error, began=True, provider=self._provider.name)
        if error.kind == "cut" and self._decoder is not None:
            try:
                # Nothing of the reply is missing if its end was announced and all its blocks are closed.
                return self._decoder.end()
            except ProviderError as ended:
                if ended.failure.kind != "stream_broken":
                    failure = ended.failure
        self._fail(failure, chunks)
        return chunks

    def _fail(self, failure: Failure, chunks: list[Chunk]) -> None:
        self._failure = self._clean(failure)
        if not chunks:
            raise self._failure

    def _clean(self, failure: Failure) -> ProviderError:
        return ProviderError(
            Failure(
                kind=failure.kind,
                message=self._provider.endpoint.redact(failure.message),
                status=failure.status,
                retry_after=failure.retry_after,
                retryable=failure.retryable,
            )
        )

    def _release(self) -> None:
        """The reply is whole: its connection may be used again."""
        if self._response is not None:
            self._response.release()
