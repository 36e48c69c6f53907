"""What the three wire protocols have in common, as the server sees it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tugline.protocol import codec
from tugline.protocol.blocks import AssistantBlock
from tugline.protocol.chunks import BlockClosed, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.messages import StopReason
from tugline.protocol.usage import Usage
from tugline.testing.prompt_cache import PromptCache
from tugline.testing.view import View

Json = dict[str, Any]


class Encoder(Protocol):
    """Makes the bytes of one streamed reply."""

    def encode(self, chunk: Chunk) -> bytes:
        """The events that say this chunk."""
        ...

    def ping(self) -> bytes:
        """A sign of life."""
        ...

    def error(self, kind: str, message: str) -> bytes:
        """An error in the middle of the stream."""
        ...


class Dialect(Protocol):
    """One wire protocol."""

    name: str

    def check(self, body: Json, headers: Mapping[str, str]) -> None:
        """Raise `Invalid` unless the service would take this request."""
        ...

    def view(self, body: Json) -> View:
        """What a script can see of the request."""
        ...

    def usage(self, body: Json, cache: PromptCache) -> Usage:
        """What the request costs."""
        ...

    def encoder(self, body: Json) -> Encoder:
        """For a streamed reply to this request."""
        ...

    def whole(self, chunks: Sequence[Chunk]) -> Json:
        """The reply in one piece."""
        ...

    def error(self, kind: str, message: str, request_id: str) -> Json:
        """The body of a refusal."""
        ...


def event(name: str, data: Any) -> bytes:
    """One server-sent event with a name."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), codec.encode(data))


def plain_event(data: Any) -> bytes:
    """One server-sent event without a name."""
    return b"data: %b\n\n" % codec.encode(data)


def gather(chunks: Sequence[Chunk]) -> tuple[ReplyStarted, list[AssistantBlock], StopReason | None, Usage]:
    """A reply's parts: how it began, its closed blocks, how it ended, and its usage."""
    started = next(chunk for chunk in chunks if isinstance(chunk, ReplyStarted))
    blocks = [chunk.block for chunk in chunks if isinstance(chunk, BlockClosed)]
    ended = next((chunk for chunk in chunks if isinstance(chunk, ReplyEnded)), None)
    return started, blocks, ended.stop if ended else None, ended.usage if ended else started.usage
