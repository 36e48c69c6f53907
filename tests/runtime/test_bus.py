"""The bus: every subscriber hears everything, in order; a slow one gets neighbouring deltas merged."""

from hypothesis import given
from hypothesis import strategies as st

from tugline.protocol.events import Event, Notice, Origin, TextDelta, ThinkingDelta
from tugline.protocol.ids import AgentId, ReplyId, SessionId
from tugline.runtime.bus import Bus

ORIGIN = Origin(SessionId("s"), AgentId("a"))
KINDS = st.lists(st.sampled_from(["text", "thinking", "notice", "other block"]), max_size=40)


def event(bus: Bus, kind: str, n: int) -> Event:
    if kind == "notice":
        return Notice(bus.number(), ORIGIN, "info", str(n))
    made = ThinkingDelta if kind == "thinking" else TextDelta
    return made(bus.number(), ORIGIN, ReplyId("r"), 1 if kind == "other block" else 0, f"<{n}>")


async def collect(bus: Bus, limit: int, kinds: list[str]) -> list[Event]:
    subscription = bus.subscribe(limit)
    for n, kind in enumerate(kinds):
        bus.publish(event(bus, kind, n))
    subscription.close()
    return [heard async for heard in subscription]


async def test_a_subscriber_that_keeps_up_hears_every_event_as_it_was() -> None:
    heard = await collect(Bus(), 100, ["text", "text", "notice"])
    assert [e.seq for e in heard] == [1, 2, 3]


@given(kinds=KINDS, limit=st.integers(1, 5))
def test_a_slow_subscriber_loses_no_text_and_no_other_event(kinds: list[str], limit: int) -> None:
    import anyio

    heard = anyio.run(collect, Bus(), limit, kinds)
    whole = anyio.run(collect, Bus(), 1_000, kinds)

    def essence(events: list[Event]) -> list[tuple[object, ...]]:
        joined: list[tuple[object, ...]] = []
        for e in events:
            if isinstance(e, Notice):
                joined.append(("notice", e.text))
                continue
            assert isinstance(e, TextDelta | ThinkingDelta)
            key = (type(e).__name__, e.index)
            if joined and joined[-1][:2] == key:
                joined[-1] = (*key, f"{joined[-1][2]}{e.text}")
            else:
                joined.append((*key, e.text))
        return joined

    assert essence(heard) == essence(whole)
    assert [e.seq for e in heard] == sorted(e.seq for e in heard)


async def test_a_slow_subscriber_does_not_grow_with_the_number_of_deltas() -> None:
    heard = await collect(Bus(), 10, ["text"] * 5_000)
    assert len(heard) == 10
    assert len("".join(e.text for e in heard if isinstance(e, TextDelta))) == sum(len(f"<{n}>") for n in range(5_000))


async def test_a_detached_subscriber_hears_nothing_more() -> None:
    bus, heard = Bus(), list[Event]()
    detach = bus.attach(heard.append)
    bus.publish(event(bus, "notice", 1))
    detach()
    bus.publish(event(bus, "notice", 2))
    assert len(heard) == 1
