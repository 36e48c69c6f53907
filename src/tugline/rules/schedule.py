"""When a call may be prepared and when it may run.

The rule in one sentence: a call starts when nothing running and no earlier waiting call stands on the other side of a
barrier from it, a call that changes being a barrier both ways. Calls that change nothing may start while the reply
still streams; the others only after it has ended properly.
"""

from collections.abc import Sequence
from enum import IntEnum

from msgspec import Struct

from tugline.protocol.specs import Footprint

LIMIT = 10
"""How many calls run at once."""


class Stage(IntEnum):
    """A call's life. `PREPARING` is validation, hooks and questions: it holds no slot."""

    WAITING = 0
    PREPARING = 1
    READY = 2
    RUNNING = 3
    DONE = 4


class Slot(Struct):
    """What scheduling knows of one call; its footprint may grow while it is prepared."""

    footprint: Footprint
    stage: Stage = Stage.WAITING


def preparable(slots: Sequence[Slot], *, reply_ended: bool) -> list[int]:
    """The waiting calls whose preparation may begin: all that is before them and in conflict has ended."""
    found: list[int] = []
    open_before = changing_before = False
    for index, slot in enumerate(slots):
        if slot.stage == Stage.WAITING and not changing_before:
            may_change = slot.footprint == Footprint.CHANGES
            if not may_change or (reply_ended and not open_before):
                found.append(index)
        if slot.stage != Stage.DONE:
            open_before = True
            changing_before = changing_before or slot.footprint == Footprint.CHANGES
    return found


def runnable(slots: Sequence[Slot], *, limit: int = LIMIT, reply_ended: bool = True) -> list[int]:
    """The ready calls that may run now, in the order of the calls."""
    running = [slot for slot in slots if slot.stage == Stage.RUNNING]
    if any(slot.footprint == Footprint.CHANGES for slot in running):
        return []
    free = limit - len(running)
    found: list[int] = []
    open_before = False
    for index, slot in enumerate(slots):
        if slot.stage == Stage.DONE:
            continue
        changes = slot.footprint == Footprint.CHANGES
        if slot.stage == Stage.READY and free > 0:
            if not changes:
                found.append(index)
                free -= 1
            elif reply_ended and not open_before and not running:
                return [index]
        if changes:
            break
        open_before = True
    return found
