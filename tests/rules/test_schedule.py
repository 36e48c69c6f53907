"""The scheduler, driven through every order of arrivals and ends that hypothesis finds."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tugline.protocol.specs import Footprint
from tugline.rules.schedule import Slot, Stage, preparable, runnable

FOOTPRINTS = st.sampled_from(list(Footprint))
LIMIT = 3


def conflict(a: Slot, b: Slot) -> bool:
    return Footprint.CHANGES in (a.footprint, b.footprint)


class Calls(RuleBasedStateMachine):
    """Calls arrive, are prepared (their footprint may change), run and end in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.slots: list[Slot] = []
        self.ended = False

    def go_on(self) -> None:
        for index in preparable(self.slots, reply_ended=self.ended):
            slot = self.slots[index]
            assert slot.stage == Stage.WAITING
            earlier = [s for s in self.slots[:index] if s.stage != Stage.DONE]
            assert not any(conflict(slot, other) for other in earlier)
            assert self.ended or slot.footprint < Footprint.CHANGES
            slot.stage = Stage.PREPARING
        for index in runnable(self.slots, limit=LIMIT, reply_ended=self.ended):
            slot = self.slots[index]
            assert slot.stage == Stage.READY
            assert self.ended or slot.footprint < Footprint.CHANGES
            slot.stage = Stage.RUNNING

    def pick(self, stage: Stage, data: st.DataObject) -> Slot | None:
        found = [slot for slot in self.slots if slot.stage == stage]
        return data.draw(st.sampled_from(found)) if found else None

    @precondition(lambda self: not self.ended)
    @rule(footprint=FOOTPRINTS)
    def arrive(self, footprint: Footprint) -> None:
        self.slots.append(Slot(footprint))
        self.go_on()

    @rule()
    def end_reply(self) -> None:
        self.ended = True
        self.go_on()

    @rule(data=st.data(), footprint=st.none() | FOOTPRINTS)
    def prepared(self, data: st.DataObject, footprint: Footprint | None) -> None:
        slot = self.pick(Stage.PREPARING, data)
        if slot is not None:
            slot.footprint = slot.footprint if footprint is None else footprint
            slot.stage = Stage.READY
            self.go_on()

    @rule(data=st.data())
    def refused(self, data: st.DataObject) -> None:
        slot = self.pick(Stage.PREPARING, data)
        if slot is not None:
            slot.stage = Stage.DONE
            self.go_on()

    @rule(data=st.data())
    def finished(self, data: st.DataObject) -> None:
        slot = self.pick(Stage.RUNNING, data)
        if slot is not None:
            slot.stage = Stage.DONE
            self.go_on()

    @invariant()
    def no_two_conflicting_calls_run_at_once(self) -> None:
        running = [slot for slot in self.slots if slot.stage == Stage.RUNNING]
        assert len(running) <= LIMIT
        assert len(running) <= 1 or not any(slot.footprint == Footprint.CHANGES for slot in running)

    @invariant()
    def what_runs_stands_behind_no_barrier(self) -> None:
        for index, slot in enumerate(self.slots):
            if slot.stage == Stage.RUNNING and slot.footprint == Footprint.CHANGES:
                assert all(other.stage == Stage.DONE for other in self.slots[:index])

    @invariant()
    def something_can_always_go_on(self) -> None:
        waiting = [slot for slot in self.slots if slot.stage != Stage.DONE]
        if waiting and self.ended:
            assert any(slot.stage in (Stage.PREPARING, Stage.RUNNING) for slot in waiting)


TestCalls = Calls.TestCase
