"""The HTTP client: `async with client.request("POST", url, ...) as response`, then `await response.receive()`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from tugline.net.errors import HttpError

__all__ = ["Headers", "HttpClient", "HttpError", "Response", "Timeouts"]

AddressCheck = Callable[[str, tuple[str, ...]], tuple[str, ...]]


class Timeouts(Struct, frozen=True):
    """Seconds. `connect`: name, TCP, proxy and TLS together; `first_byte`: until the head of the answer is there,
    counted from the last byte sent; `idle`: between pieces of the body. `None` waits for ever."""

    connect: float = 10.0
    first_byte: float | None = 60.0
    idle: float | None = None


class Headers:
    """The headers of an answer; names are compared without case."""

    def __init__(self, items: Sequence[tuple[str, str]]) -> None:
        self._items = tuple(items)

    def get(self, name: str, default: str = "") -> str:
        """The first value of that name."""
        raise NotImplementedError

    def items(self) -> tuple[tuple[str, str], ...]:
        """All of them, names in lower case, in the order they came."""
        return self._items


class Response:
    """An answer whose head has arrived."""

    status: int
    headers: Headers

    async def receive(self) -> bytes:
        """The next piece of the body, decoded; `b""` only at its proper end. `HttpError("cut")` if it ends early."""
        raise NotImplementedError

    async def read(self, limit: int) -> bytes:
        """The whole body, or `HttpError("too_large")` when it is longer than `limit`."""
        raise NotImplementedError


class HttpClient:
    """A client with a few kept connections of its own; make one per agent."""

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] | Mapping[str, str],
        body: bytes | Sequence[bytes] = b"",
        timeouts: Timeouts = Timeouts(),
    ) -> AbstractAsyncContextManager[Response]:
        """Send a request; inside, the head of the answer is there. Leaving early closes the connection."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close all connections."""
        raise NotImplementedError
