"""What one step of the timer does, and how far it is in the slot that it reads.

A slot is read in three passes: its chain, backwards; then its marks; then its messages, in the order they came in.  A chain is
broken where it leads to no unit of its slot, or ends behind the slot's first unit.  The next unit of the slot is then looked for
in the log, backwards from the last one that was good, and the chain goes on from there: what was damaged is lost, and nothing
else.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final, NamedTuple

from rmq_store.timer.timer_log import NO_UNIT, TimerLog, Unit
from rmq_store.timer.wheel import Slot
from rmq_wire.implied.timers import DELETES, ROLLS

UNITS_PER_STEP: Final = 256
ENTRIES_PER_STEP: Final = UNITS_PER_STEP // 2
"""Messages that enter the wheel in one step."""
BYTES_PER_STEP: Final = 64 << 10
"""Of messages that one step looks at, at most so many and one more."""
DELIVERIES_PER_STEP: Final = 64
"""Messages that one step stages, some 15 µs each."""
KEY_CHARACTERS_MAX: Final = 64
"""More than a stock client's unique key has, and few enough to keep for each mark of a slot."""

_PREVIOUS: Final = Unit._fields.index("previous")
_WRITE_MS: Final = Unit._fields.index("write_ms")
_DELAY_MS: Final = Unit._fields.index("delay_ms")
"""By number: there is one for each message of a slot."""


def over(end_offset: int) -> int:
    """What `Timer.tell` hears in place of the time of a slot: the log up to there says that nobody waits for the message."""
    return -end_offset


def short(key: str) -> str:
    """A mark's key, or of a long one what stands for it: anybody may send marks with keys of 32 KB, as many as he likes."""
    if len(key) <= KEY_CHARACTERS_MAX:
        return key
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=KEY_CHARACTERS_MAX // 2).hexdigest()


class Entry(NamedTuple):
    """A message that enters the wheel when the step is done."""

    queue_offset: int
    slot_ms: int
    magic: int
    physical_offset: int
    size: int
    topic: str | None
    """Where the message belongs."""


class Step:
    """What one step did.  `end_offset`: of what it staged, 0 for nothing; `trouble`: what ended it early."""

    def __init__(self, deliveries_max: int) -> None:
        self._deliveries_max = deliveries_max
        self.entries: list[Entry] = []
        self.has_late = False
        """One of them is for a slot that is over: no slot is read before it is in the wheel."""
        self.queue_offset = -1
        self.delivered = 0
        self.passed: list[int] = []
        """Places of messages that were over."""
        self.passed_for = 0
        """Until where the log says that they were."""
        self.direct: list[int] = []
        """Queue offsets of messages that were delivered past the wheel."""
        self.metrics: list[tuple[str | None, int]] = []
        self.end_offset = 0
        self.source_end = self.rolled_to = 0
        self.trouble: Exception | None = None
        self.looked = 0
        self.bytes = 0

    def passes(self, place: int, end_offset: int) -> None:
        """A message is over.  It stays known as such until the step is done: should that come to nothing, it is passed again."""
        self.passed.append(place)
        self.looked += 1
        if end_offset > self.passed_for:
            self.passed_for = end_offset

    @property
    def is_half_full(self) -> bool:
        """What enters leaves room for what is due."""
        return (
            self.looked >= ENTRIES_PER_STEP
            or self.bytes >= BYTES_PER_STEP // 2
            or len(self.direct) >= (self._deliveries_max + 1) // 2
        )

    @property
    def is_full(self) -> bool:
        staged = len(self.direct) + self.delivered
        return self.looked >= UNITS_PER_STEP or self.bytes >= BYTES_PER_STEP or staged >= self._deliveries_max


class SlotReading:
    """The slot that is being read.  Of each message: its place in the log, its bytes, its unit's magic and time; newest first."""

    def __init__(self, slot: Slot, log: TimerLog) -> None:
        self.tick = slot.tick
        self.at = slot.last
        """The unit that comes next, `NO_UNIT` when the chain is at its end."""
        self.offsets, self.sizes, self.magics, self.write_ms = array("q"), array("i"), array("b"), array("q")
        self.marks, self.mark_sizes = array("q"), array("i")
        self.deleted: set[str] = set()
        """Keys of marks, `short`."""
        self._first = slot.first
        self._good = log.end
        self._searches = False

    @property
    def left(self) -> int:
        """Messages."""
        return len(self.offsets)

    @property
    def is_over(self) -> bool:
        return self.at == NO_UNIT and not self.marks and not self.offsets

    def forget(self, count: int) -> None:
        """So many messages are delivered."""
        rest = len(self.offsets) - count
        for column in (self.offsets, self.sizes, self.magics, self.write_ms):
            del column[rest:]

    def walk(self, log: TimerLog, precision_ms: int, units_max: int) -> tuple[int, str | None]:
        """So many units, or up to one that is wrong.  How many, and what is wrong with the last, for the log of the broker.

        Raises Cold, OSError.
        """
        tick, begin, count = self.tick, log.begin, 0
        while count < units_max and (at := self.at) != NO_UNIT:
            count += 1
            unit = log.unit(at)
            if unit is None or (unit[_WRITE_MS] + unit[_DELAY_MS]) // precision_ms != tick:
                if self._searches:
                    self._search(log, at)
                    continue
                self._searches = True
                self._search(log, self._good)
                return count, f"the timer's log has no unit of slot {tick} at {at}: the rest of its chain is looked for before it"
            self._searches = False
            self._good = at
            self._take(unit)
            previous = unit[_PREVIOUS]
            self.at = previous if previous >= begin else NO_UNIT
            if previous == NO_UNIT and begin <= self._first < at:
                self._searches = True
                self._search(log, at)
                return count, f"the chain of slot {tick} in the timer's log ends at {at}: its rest is looked for before it"
        return count, None

    def _take(self, unit: Unit) -> None:
        _, _, magic, write_ms, _, physical_offset, message_size, _, _ = unit
        if magic & DELETES and not magic & ROLLS:
            self.marks.append(physical_offset)
            self.mark_sizes.append(message_size)
            return
        self.offsets.append(physical_offset)
        self.sizes.append(message_size)
        self.magics.append(magic)
        self.write_ms.append(write_ms)

    def _search(self, log: TimerLog, end: int) -> None:
        """The place of a unit before this one, not before the slot's first."""
        at = log.unit_before(end)
        self.at = at if at >= max(self._first, log.begin) else NO_UNIT
