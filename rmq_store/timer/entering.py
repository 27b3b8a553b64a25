"""Units of the timer's log for messages that enter the wheel together, and the slots that they are linked to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_store.layouts import TIMER_UNIT
from rmq_store.timer.steps import Entry
from rmq_store.timer.timer_log import UNIT_BYTES
from rmq_store.timer.wheel import EMPTY, Slot, TimerWheel
from rmq_wire.implied.timers import DELETES, topic_hash

DELAY_MAX_MS: Final = (1 << 31) - 1
"""Either way: it is a Java int.  A clock that is set farther ahead, and the time says less, while the slot stays right."""


def pack_entries(entries: Sequence[Entry], at: int, wheel: TimerWheel, write_ms: int) -> tuple[bytes, list[Slot]]:
    """Units of the log from this place on, for messages that enter at this time; and their slots, to be put into the wheel."""
    pack, precision_ms = TIMER_UNIT.pack, wheel.precision_ms
    units: list[bytes] = []
    last: dict[int, int] = {}
    """By tick, the last unit of its slot."""
    slots: dict[int, Slot] = {}
    counts: dict[int, int] = {}
    for _, slot_ms, magic, physical_offset, size, topic in entries:
        tick = slot_ms // precision_ms
        previous = last.get(tick)
        if previous is None:
            slot = slots[tick] = wheel.get(tick)
            previous, counts[tick] = slot.last, 0
            if slot.first == EMPTY.first:
                slots[tick] = slot._replace(first=at)
        at_ms = min(write_ms, slot_ms + DELAY_MAX_MS)
        units.append(pack(UNIT_BYTES, previous, magic, at_ms, slot_ms - at_ms, physical_offset, size, topic_hash(topic), 0))
        counts[tick] += -1 if magic & DELETES else 1
        last[tick] = at
        at += UNIT_BYTES
    return b"".join(units), [
        Slot(tick, slot.first, last[tick], slot.messages + counts[tick], slot.magic) for tick, slot in slots.items()
    ]
