"""Trying again: when, how often, how long to wait, and when to give up."""

import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

import anyio
import msgspec
from msgspec import Struct

from tugline.ports import Provider
from tugline.protocol.chunks import AttemptFailed, Chunk, ReplyEnded
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.providers.limits import Gate

_STEPS_KNOWN = 256


def _chance() -> float:
    return int.from_bytes(os.urandom(4), "little") / 2**32


class NetworkSettings(Struct, frozen=True, kw_only=True):
    """Seconds, and counts. What the settings `network.*` say."""

    idle_timeout: float = 120.0
    """Without a content event for so long, a stream counts as broken."""
    first_byte_timeout: float = 60.0
    """At most `idle_timeout`."""
    ping_stretch: float = 5.0
    """Pings alone keep a stream alive for so many times `idle_timeout`."""
    connect_timeout: float = 10.0
    retry_base: float = 0.5
    retry_ceiling: float = 32.0
    max_retries: int = 8
    """After the first request."""
    retry_budget: float = 300.0
    """Wall time over all tries of a step, failed attempts included."""
    retry_after_limit: float = 60.0
    """A provider that asks to wait longer is not waited for."""
    step_requests: int = 12
    """Requests of one agent's step, over all models and kinds of trouble."""

    @property
    def first_byte(self) -> float:
        """How long to wait for an answer to begin."""
        return min(self.first_byte_timeout, self.idle_timeout)


class _Step(Struct):
    began: float
    requests: int = 0


class Steps:
    """Counts requests per step of an agent; shared by the retries of all providers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: OrderedDict[tuple[str, str, str], _Step] = OrderedDict()

    def of(self, request: ModelRequest) -> _Step:
        """The count for the request's step; a request that names no step stands for itself."""
        if not request.step:
            return _Step(self._clock())
        key = (request.session, request.agent, request.step)
        step = self._steps.get(key)
        if step is None:
            if len(self._steps) >= _STEPS_KNOWN:
                self._steps.popitem(last=False)
            step = self._steps[key] = _Step(self._clock())
        return step


class Retry:
    """A provider that tries again where that can help.

    It says `AttemptFailed` before each wait. A stream that broke is tried once more as a stream, then without
    streaming. The provider inside yields an empty batch for a ping; any other batch is content.
    """

    def __init__(
        self,
        inner: Provider,
        settings: NetworkSettings = NetworkSettings(),  # noqa: B008  frozen
        *,
        gate: Gate | None = None,
        steps: Steps | None = None,
        chance: Callable[[], float] = _chance,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.inner = inner
        self.settings = settings
        self.gate = gate
        self.steps = steps or Steps(clock)
        self.chance = chance
        self.clock = clock
        self.now = now
        self.sleep = sleep

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        """Send the request, again where needed."""
        return _Tries(self, request)

    def card(self, model: str) -> ModelCard:
        """What the provider inside knows of a model."""
        return self.inner.card(model)

    async def aclose(self) -> None:
        """Close the provider inside."""
        await self.inner.aclose()


class _Tries(AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]):
    """The attempts for one request, as one stream of batches.

    No cancel scope is held between two batches: the consumer may leave, or open scopes of its own, at any point.
    """

    def __init__(self, retry: Retry, request: ModelRequest) -> None:
        self._retry = retry
        self._settings = retry.settings
        self._request = request
        self._step = retry.steps.of(request)
        self._attempt = 0
        self._breaks = 0
        self._delay = 0.0
        self._open: AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]] | None = None
        self._batches: AsyncIterator[Sequence[Chunk]] | None = None
        self._ended = False
        self._last_content = 0.0
        self._deadline = 0.0

    async def __aenter__(self) -> AsyncIterator[Sequence[Chunk]]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            opened, self._open = self._open, None
            await opened.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Sequence[Chunk]]:
        return self

    async def __anext__(self) -> Sequence[Chunk]:
        try:
            if self._batches is None:
                await self._begin()
            batch = await self._next()
        except ProviderError as error:
            if self._ended:  # the reply is whole; what went wrong after it does not matter
                raise StopAsyncIteration from None
            await self._abandon(error)
            return (self._plan(error.failure),)
        if batch:
            if type(batch[-1]) is ReplyEnded:
                self._ended = True
                if self._retry.gate is not None:
                    self._retry.gate.replied()
            self._last_content = now = self._retry.clock()
            self._deadline = now + self._settings.idle_timeout
        else:
            idle = self._settings.idle_timeout
            self._deadline = min(self._retry.clock() + idle, self._last_content + idle * self._settings.ping_stretch)
        return batch

    async def _begin(self) -> None:
        """Wait as announced and for our turn, then send; the answer has begun when this returns."""
        retry, settings, step = self._retry, self._settings, self._step
        if self._attempt:
            await retry.sleep(self._delay)
        if retry.gate is not None:
            await retry.gate.admit()
        self._attempt += 1
        step.requests += 1
        request = self._request
        if self._breaks > 1 and request.stream:
            request = msgspec.structs.replace(request, stream=False)
        limit = settings.first_byte if request.stream else settings.idle_timeout * settings.ping_stretch
        if self._attempt > 1:
            limit = min(limit, max(1.0, settings.retry_budget - (retry.clock() - step.began)))
        opened = retry.inner.stream(request)
        batches: AsyncIterator[Sequence[Chunk]] | None = None
        with anyio.move_on_after(limit):
            batches = await opened.__aenter__()
            self._open = opened
        if batches is None:
            raise _timeout(f"the provider did not answer within {limit:g} s")
        self._batches = batches
        self._last_content = now = retry.clock()
        self._deadline = now + settings.idle_timeout

    async def _next(self) -> Sequence[Chunk]:
        assert self._batches is not None
        try:
            with anyio.move_on_after(max(0.0, self._deadline - self._retry.clock())):
                return await self._batches.__anext__()
        except StopAsyncIteration:
            if self._ended:
                raise
            text = "the reply broke off: the stream ended before the reply did"
            raise ProviderError(Failure("stream_broken", text, retryable=True)) from None
        silence = self._retry.clock() - self._last_content
        raise _timeout(f"the reply broke off: nothing came for {silence:.3g} s")

    async def _abandon(self, error: ProviderError) -> None:
        """Close the attempt that failed."""
        if self._batches is not None and error.failure.kind in ("stream_broken", "timeout"):
            self._breaks += 1
        opened, self._open, self._batches = self._open, None, None
        if opened is not None:
            try:
                await opened.__aexit__(type(error), error, error.__traceback__)
            except ProviderError:
                pass  # the attempt has failed already; closing it may say so once more
        if self._retry.gate is not None:
            self._retry.gate.refused(error.failure)

    def _plan(self, failure: Failure) -> AttemptFailed:
        """What comes next; `ProviderError` where nothing does."""
        settings, step = self._settings, self._step
        if not self._worthwhile(failure):
            raise ProviderError(failure)
        wait = failure.retry_after
        if wait is not None and wait > settings.retry_after_limit:
            until = time.strftime("%H:%M:%S", time.localtime(self._retry.now() + min(wait, 1e9)))
            raise _final(failure, f"the provider asks to wait {_duration(wait)}, until {until}")
        ceiling = min(settings.retry_ceiling, settings.retry_base * 2.0 ** (self._attempt - 1))
        delay = self._retry.chance() * ceiling
        if wait is not None:
            delay = wait + self._retry.chance() * min(settings.retry_base, ceiling)
        if self._attempt > settings.max_retries or step.requests >= settings.step_requests:
            raise _final(failure, f"gave up after {_times(step.requests)}")
        spent = self._retry.clock() - step.began
        if spent + delay > settings.retry_budget:
            raise _final(failure, f"gave up after {_times(step.requests)} and {_duration(spent)}")
        self._delay = delay
        return AttemptFailed(failure, self._attempt, settings.max_retries + 1, delay)

    def _worthwhile(self, failure: Failure) -> bool:
        if failure.kind == "billing" and failure.status == 429:
            # a spending limit may be a passing one; without a word on when it ends, one more try is enough
            return failure.retry_after is not None or self._attempt < 2
        return failure.retryable


def _timeout(text: str) -> ProviderError:
    return ProviderError(Failure("timeout", text, retryable=True))


def _final(failure: Failure, word: str) -> ProviderError:
    return ProviderError(msgspec.structs.replace(failure, message=f"{failure.message} ({word})"))


def _times(count: int) -> str:
    return "one try" if count == 1 else f"{count} tries"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
