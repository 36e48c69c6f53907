"""The gate that slows all agents of a process down together, under a clock that only moves when all wait."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable

from tugline.protocol.errors import Failure
from tugline.providers.limits import PROCESS_GATES, Gate, Gates

OVERLOADED = Failure("overloaded", "busy", status=529, retryable=True)


class VirtualTime:
    """Time passes only while everybody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self._count = itertools.count()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        event = asyncio.Event()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._count), event))
        await event.wait()

    async def run(self, *work: Awaitable[None]) -> None:
        everything = asyncio.ensure_future(asyncio.gather(*work))
        while not everything.done():
            for _ in range(10):
                await asyncio.sleep(0)
            if self._sleepers and not everything.done():
                self.now, _, event = heapq.heappop(self._sleepers)
                event.set()
        await everything


def agents(
    time: VirtualTime, gate: Gate, requests: list[float], answer: Callable[[float], bool], tries: int = 12
) -> list[Awaitable[None]]:
    """Eight agents that ask until they are answered."""

    async def agent(number: int) -> None:
        for attempt in range(tries):
            await gate.admit()
            requests.append(time.now)
            await time.sleep(0.01)
            if answer(time.now):
                gate.replied()
                return
            gate.refused(OVERLOADED)
            await time.sleep(0.05 * (number % 3 + attempt))

    return [agent(number) for number in range(8)]


def busiest_second(moments: list[float]) -> int:
    return max((sum(start <= other < start + 1 - 1e-9 for other in moments) for start in moments), default=0)


async def test_eight_agents_in_a_storm_send_three_requests_a_second_in_all() -> None:
    time, requests = VirtualTime(), list[float]()
    gate = Gate(clock=time, sleep=time.sleep)
    await time.run(*agents(time, gate, requests, lambda now: False))
    assert len(requests) == 8 * 12
    after = [moment for moment in requests if moment > 0.011]
    assert busiest_second(after) <= 3
    assert after[-1] > 25


async def test_when_the_storm_is_over_nobody_waits_any_more() -> None:
    time, requests = VirtualTime(), list[float]()
    gate = Gate(clock=time, sleep=time.sleep)
    await time.run(*agents(time, gate, requests, lambda now: now > 5))
    assert not gate.storm
    assert busiest_second([moment for moment in requests if 0.011 < moment < 5]) <= 3
    before = time.now
    await time.run(*agents(time, gate, [], lambda now: True))
    assert time.now - before < 0.1


async def test_in_calm_weather_nobody_waits() -> None:
    time = VirtualTime()
    gate = Gate(clock=time, sleep=time.sleep)
    for _ in range(1000):
        await gate.admit()
    gate.refused(Failure("server", "broken", status=500, retryable=True))
    assert not gate.storm
    assert time.now == 0


async def test_a_minute_without_a_refusal_ends_the_storm() -> None:
    time = VirtualTime()
    gate = Gate(clock=time, sleep=time.sleep)
    gate.refused(OVERLOADED)
    time.now = 59
    assert gate.storm
    time.now = 61
    assert not gate.storm


async def test_one_reply_among_refusals_does_not_end_it() -> None:
    time = VirtualTime()
    gate = Gate(clock=time, sleep=time.sleep)
    for _ in range(10):
        gate.refused(OVERLOADED)
        for _ in range(4):
            gate.replied()
        assert gate.storm
    gate.replied()
    assert not gate.storm


def test_a_gate_belongs_to_a_provider_and_a_key() -> None:
    gates = Gates()
    gate = gates.gate("https://a", "key")
    assert gates.gate("https://a", "key") is gate
    assert gates.gate("https://a", "other") is not gate
    assert gates.gate("https://b", "key") is not gate
    assert "key" not in repr(gates._gates)
    for number in range(1000):
        gates.gate("https://a", str(number))
    assert len(gates._gates) <= 256
    assert isinstance(PROCESS_GATES, Gates)
