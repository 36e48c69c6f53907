"""Retries: when, how often, how long, and when to give up. Time is told by hand."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.chunks import AttemptFailed, BlockDelta, Chunk, ReplyEnded, ReplyStarted
from tugline.protocol.errors import Failure, ProviderError
from tugline.protocol.ids import ReplyId
from tugline.protocol.specs import ModelCard, ModelRequest
from tugline.protocol.usage import Usage
from tugline.providers.limits import Gate
from tugline.providers.retry import NetworkSettings, Retry, Steps

STARTED = ReplyStarted(ReplyId("r"), "m")
DELTA = BlockDelta(0, "hello")
ENDED = ReplyEnded("end_turn", Usage())
WHOLE: list[Any] = [[STARTED], [DELTA, DELTA], [ENDED]]
OVERLOADED = Failure("overloaded", "busy", status=529, retryable=True)
BROKEN = Failure("stream_broken", "broke off", retryable=True)
KEY = Failure("authentication", "the key was not accepted", status=401)
REQUEST = ModelRequest("m", ())


class Time:
    """A clock that moves when told, or by being slept on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Wait:
    """The server lets time pass."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Pause:
    """The server takes real time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Hang:
    """The server says nothing more."""


class Scripted:
    """Plays one list of batches, failures, waits and hangs per attempt; the last one over and over."""

    def __init__(self, *attempts: Sequence[Any], time: Time | None = None, opening: Sequence[Any] = ()) -> None:
        self.attempts = list(attempts)
        self.time = time or Time()
        self.opening = list(opening)
        self.requests: list[ModelRequest] = []
        self.log: list[str] = []

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Chunk]]]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Sequence[Chunk]]]:
        self.requests.append(request)
        number = len(self.requests)
        self.log.append(f"open {number}")
        try:
            opening = self.opening.pop(0) if self.opening else None
            if opening is not None:
                await self._do(opening)
            yield self._play(self.attempts.pop(0) if len(self.attempts) > 1 else self.attempts[0])
        except BaseException as error:
            self.log.append(f"abort {number} {type(error).__name__}")
            raise
        self.log.append(f"close {number}")

    async def _play(self, script: Sequence[Any]) -> AsyncIterator[Sequence[Chunk]]:
        for item in script:
            if isinstance(item, list):
                await anyio.lowlevel.checkpoint()
                yield item
            else:
                await self._do(item)

    async def _do(self, item: Any) -> None:
        if isinstance(item, Failure):
            raise ProviderError(item)
        if isinstance(item, Wait):
            self.time.now += item.seconds
        if isinstance(item, Pause):
            await anyio.sleep(item.seconds)
        if isinstance(item, Hang):
            await anyio.sleep_forever()

    def card(self, model: str) -> ModelCard:
        return ModelCard(name=model)

    async def aclose(self) -> None:
        self.log.append("closed")


def retry(inner: Scripted, *, chance: float = 1.0, **options: Any) -> Retry:
    settings = NetworkSettings(
        **{key: options.pop(key) for key in list(options) if key in NetworkSettings.__struct_fields__}
    )
    return Retry(inner, settings, chance=lambda: chance, clock=inner.time, sleep=inner.time.sleep, **options)


async def collect(provider: Retry, request: ModelRequest = REQUEST) -> tuple[list[Chunk], Failure | None]:
    chunks: list[Chunk] = []
    try:
        async with provider.stream(request) as batches:
            async for batch in batches:
                chunks.extend(batch)
    except ProviderError as error:
        return chunks, error.failure
    return chunks, None


async def test_a_reply_that_comes_is_passed_on_as_it_is() -> None:
    inner = Scripted(WHOLE)
    assert await collect(retry(inner)) == ([STARTED, DELTA, DELTA, ENDED], None)
    assert inner.log == ["open 1", "close 1"]


async def test_an_overload_is_retried_with_growing_waits_that_are_told_before() -> None:
    inner = Scripted([OVERLOADED], [OVERLOADED], [[STARTED], [DELTA], OVERLOADED], WHOLE)
    chunks, failure = await collect(retry(inner))
    assert failure is None
    assert chunks == [
        AttemptFailed(OVERLOADED, 1, 9, 0.5),
        AttemptFailed(OVERLOADED, 2, 9, 1.0),
        STARTED,
        DELTA,
        AttemptFailed(OVERLOADED, 3, 9, 2.0),
        STARTED,
        DELTA,
        DELTA,
        ENDED,
    ]
    assert inner.time.slept == [0.5, 1.0, 2.0]
    aborted = [
        f"{word} {number}{rest}" for number in (1, 2, 3) for word, rest in (("open", ""), ("abort", " ProviderError"))
    ]
    assert inner.log == [*aborted, "open 4", "close 4"]


async def test_waits_are_spread_over_the_whole_span_and_capped() -> None:
    inner = Scripted([OVERLOADED])
    await collect(retry(inner, chance=0.5))
    assert inner.time.slept == [0.25, 0.5, 1, 2, 4, 8, 16, 16]


async def test_after_eight_retries_the_last_failure_stands_with_the_count() -> None:
    inner = Scripted([OVERLOADED])
    chunks, failure = await collect(retry(inner))
    assert len(inner.requests) == 9
    assert [chunk.attempt for chunk in chunks if isinstance(chunk, AttemptFailed)] == list(range(1, 9))
    assert failure == Failure("overloaded", "busy (gave up after 9 tries)", status=529, retryable=True)


async def test_no_retries_means_none() -> None:
    inner = Scripted([OVERLOADED])
    assert await collect(retry(inner, max_retries=0)) == (
        [],
        Failure("overloaded", "busy (gave up after one try)", status=529, retryable=True),
    )


@pytest.mark.parametrize("failure", [KEY, Failure("invalid_request", "no", status=400), Failure("refusal", "no")])
async def test_what_trying_again_cannot_help_ends_at_once(failure: Failure) -> None:
    inner = Scripted([failure])
    assert await collect(retry(inner)) == ([], failure)
    assert len(inner.requests) == 1


async def test_a_failure_while_the_stream_is_opened_counts_like_any_other() -> None:
    inner = Scripted(WHOLE, opening=[OVERLOADED])
    chunks, failure = await collect(retry(inner))
    assert (chunks[0], failure) == (AttemptFailed(OVERLOADED, 1, 9, 0.5), None)


async def test_the_provider_says_how_long_to_wait() -> None:
    told = Failure("rate_limit", "slow down", status=429, retry_after=7.5, retryable=True)
    inner = Scripted([told], WHOLE)
    await collect(retry(inner, chance=0.5))
    assert inner.time.slept == [7.75]


async def test_a_wait_of_more_than_a_minute_is_not_waited_and_says_until_when(monkeypatch: Any) -> None:
    told = Failure("rate_limit", "slow down", status=429, retry_after=3600.0, retryable=True)
    inner = Scripted([told], WHOLE)
    chunks, failure = await collect(retry(inner, now=lambda: 0.0))
    until = time.strftime("%H:%M:%S", time.localtime(3600.0))
    message = f"slow down (the provider asks to wait 60 min, until {until})"
    assert (chunks, failure) == ([], Failure("rate_limit", message, status=429, retry_after=3600.0, retryable=True))
    assert inner.time.slept == []


@pytest.mark.parametrize(("retry_after", "requests"), [(None, 2), (1.0, 9)])
async def test_a_spending_limit_without_a_time_is_tried_twice(retry_after: float | None, requests: int) -> None:
    inner = Scripted([Failure("billing", "limit", status=429, retry_after=retry_after)])
    await collect(retry(inner))
    assert len(inner.requests) == requests


async def test_an_account_without_money_is_not_tried_again() -> None:
    inner = Scripted([Failure("billing", "no credit", status=402)])
    await collect(retry(inner))
    assert len(inner.requests) == 1


async def test_the_budget_counts_failed_attempts_too() -> None:
    inner = Scripted([Wait(100.0), OVERLOADED])
    _, failure = await collect(retry(inner))
    assert len(inner.requests) == 3
    assert failure is not None
    assert failure.message == "busy (gave up after 3 tries and 5 min)"


async def test_a_broken_stream_is_tried_as_a_stream_once_more_and_then_without() -> None:
    inner = Scripted([[STARTED], BROKEN], [[STARTED], BROKEN], [[STARTED], BROKEN], WHOLE)
    _, failure = await collect(retry(inner))
    assert failure is None
    assert [request.stream for request in inner.requests] == [True, True, False, False]


async def test_an_overload_does_not_take_the_stream_away() -> None:
    inner = Scripted([OVERLOADED], [OVERLOADED], [OVERLOADED], WHOLE)
    await collect(retry(inner))
    assert [request.stream for request in inner.requests] == [True] * 4


async def test_a_stream_that_just_stops_is_broken_and_never_a_short_reply() -> None:
    inner = Scripted([[STARTED], [DELTA]], WHOLE)
    chunks, failure = await collect(retry(inner))
    assert failure is None
    assert [type(chunk).__name__ for chunk in chunks[:3]] == ["ReplyStarted", "BlockDelta", "AttemptFailed"]


async def test_what_fails_after_the_reply_has_ended_does_not_matter() -> None:
    inner = Scripted([*WHOLE, BROKEN])
    assert await collect(retry(inner)) == ([STARTED, DELTA, DELTA, ENDED], None)
    assert len(inner.requests) == 1


# --- the watchdog ---


async def test_silence_after_content_breaks_the_stream() -> None:
    inner = Scripted([[STARTED], Hang()], WHOLE)
    with anyio.fail_after(20):
        chunks, failure = await collect(retry(inner, idle_timeout=0.02))
    assert failure is None
    assert isinstance(chunks[1], AttemptFailed)
    assert (chunks[1].failure.kind, chunks[1].failure.retryable) == ("timeout", True)
    assert inner.log == ["open 1", "abort 1 ProviderError", "open 2", "close 2"]


async def test_a_server_that_never_begins_to_answer_is_left() -> None:
    inner = Scripted(WHOLE, opening=[Hang()])
    with anyio.fail_after(20):
        chunks, failure = await collect(retry(inner, first_byte_timeout=0.02))
    assert failure is None
    assert isinstance(chunks[0], AttemptFailed)
    assert chunks[0].failure.message == "the provider did not answer within 0.02 s"


async def test_the_first_byte_is_not_waited_for_longer_than_content() -> None:
    assert NetworkSettings().first_byte == 60
    assert NetworkSettings(idle_timeout=10).first_byte == 10


async def test_without_streaming_the_first_byte_may_come_late() -> None:
    inner = Scripted([[STARTED], BROKEN], [[STARTED], BROKEN], WHOLE, opening=[None, None, Pause(0.05)])
    with anyio.fail_after(20):
        _, failure = await collect(retry(inner, first_byte_timeout=0.01, idle_timeout=0.5))
    assert failure is None
    assert len(inner.requests) == 3


@pytest.mark.parametrize(("pings", "alive"), [(5, True), (6, False)])
async def test_pings_stretch_the_silence_to_five_times_and_no_more(pings: int, alive: bool) -> None:
    ping: list[Any] = [Wait(0.95 * 120), []]
    inner = Scripted([[STARTED], *(ping * pings), [DELTA], [ENDED]], [[STARTED], [ENDED]])
    with anyio.fail_after(20):
        chunks, failure = await collect(retry(inner, retry_budget=10_000.0))
    assert failure is None
    assert any(isinstance(chunk, AttemptFailed) for chunk in chunks) is not alive


async def test_a_ping_keeps_the_stream_alive_where_silence_would_not() -> None:
    inner = Scripted([[STARTED], Wait(100), [], Wait(100), [DELTA], Wait(100), [ENDED]])
    assert await collect(retry(inner)) == ([STARTED, DELTA, ENDED], None)


# --- closing and cancelling ---


async def test_leaving_early_closes_the_attempt_with_the_reason() -> None:
    inner = Scripted([[STARTED], Hang()])

    async def leave() -> None:
        async with retry(inner).stream(REQUEST) as batches:
            assert await batches.__anext__() == [STARTED]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await leave()
    assert inner.log == ["open 1", "abort 1 RuntimeError"]


async def test_an_interrupt_ends_the_wait_at_once() -> None:
    inner = Scripted([OVERLOADED])
    provider = Retry(inner, NetworkSettings(retry_base=1000.0), chance=lambda: 0.25)
    with anyio.fail_after(20), anyio.CancelScope() as scope:
        async with provider.stream(REQUEST) as batches:
            async for batch in batches:
                assert isinstance(batch[0], AttemptFailed)
                scope.cancel()
    assert scope.cancelled_caught
    assert inner.log == ["open 1", "abort 1 ProviderError"]


async def test_an_interrupt_inside_the_stream_closes_it() -> None:
    inner = Scripted([[STARTED], Hang()])
    with anyio.fail_after(20), anyio.CancelScope() as scope:
        async with retry(inner).stream(REQUEST) as batches:
            async for _ in batches:
                scope.cancel()
    assert inner.log == ["open 1", "abort 1 CancelledError"]


async def test_the_consumer_may_put_scopes_around_each_batch() -> None:
    inner = Scripted([[STARTED], BROKEN], WHOLE)
    kinds: list[type] = []
    async with retry(inner).stream(REQUEST) as batches:
        while not kinds or kinds[-1] is not ReplyEnded:
            with anyio.fail_after(20):
                kinds.append(type((await batches.__anext__())[-1]))
    assert kinds == [ReplyStarted, AttemptFailed, ReplyStarted, BlockDelta, ReplyEnded]


async def test_card_and_close_are_passed_on() -> None:
    inner = Scripted(WHOLE)
    provider = retry(inner)
    assert provider.card("x") == ModelCard(name="x")
    await provider.aclose()
    assert inner.log == ["closed"]


# --- steps and storms ---


async def test_one_step_makes_twelve_requests_at_most_over_all_providers() -> None:
    first, second = Scripted([OVERLOADED]), Scripted([OVERLOADED])
    steps = Steps(first.time)
    request = ModelRequest("m", (), session="s", agent="a", step="1")
    await collect(retry(first, steps=steps), request)
    _, failure = await collect(retry(second, steps=steps), request)
    assert (len(first.requests), len(second.requests)) == (9, 3)
    assert failure is not None
    assert failure.message == "busy (gave up after 12 tries)"
    other = ModelRequest("m", (), session="s", agent="a", step="2")
    await collect(retry(first, steps=steps), other)
    assert len(first.requests) == 18


async def test_the_counts_of_past_steps_are_forgotten() -> None:
    steps = Steps(Time())
    for number in range(1000):
        steps.of(ModelRequest("m", (), step=str(number)))
    assert len(steps._steps) <= 256


async def test_the_gate_hears_of_every_failure_and_reply() -> None:
    inner = Scripted([OVERLOADED], [BROKEN], WHOLE)
    gate = Gate(clock=inner.time, sleep=inner.time.sleep)
    heard: list[str] = []
    refused, replied = gate.refused, gate.replied
    gate.refused = lambda failure: (heard.append(failure.kind), refused(failure))[1]  # type: ignore[method-assign, func-returns-value]
    gate.replied = lambda: (heard.append("reply"), replied())[1]  # type: ignore[method-assign, func-returns-value]
    await collect(retry(inner, gate=gate))
    assert heard == ["overloaded", "stream_broken", "reply"]


FAILURES = st.sampled_from([OVERLOADED, BROKEN, KEY, Failure("rate_limit", "x", retry_after=30.0, retryable=True)])
ATTEMPTS = st.lists(
    st.tuples(st.lists(st.sampled_from([[STARTED], [DELTA], []]), max_size=3), st.floats(0, 50), FAILURES), max_size=15
)


@given(ATTEMPTS, st.booleans(), st.floats(0, 1))
async def test_whatever_happens_it_ends_within_the_limits_in_one_of_two_ways(
    attempts: list[Any], whole: bool, chance: float
) -> None:
    scripts = [[*batches, Wait(wait), failure] for batches, wait, failure in attempts]
    inner = Scripted(*scripts, WHOLE if whole or not scripts else scripts[-1])
    started = inner.time.now
    chunks, failure = await collect(retry(inner, chance=chance))
    assert (failure is None) == (chunks[-1:] == [ENDED])
    assert len(inner.requests) <= 9
    assert len(inner.requests) == 1 + sum(isinstance(chunk, AttemptFailed) for chunk in chunks)
    assert inner.time.now - started <= 300 + 50
    opens = [line for line in inner.log if line.startswith("open")]
    assert len(inner.log) == 2 * len(opens)
