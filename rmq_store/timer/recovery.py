"""Bringing log, wheel and queue into one state at the start, whatever stop came before, Java's or ours.

The check file names a position of the log and an offset of the queue.  Units behind that position count when their messages stand
before that offset, else they are cut off and come again from the queue: so nothing enters twice, and what the log lost comes
again.  Units whose messages the commit log has lost are cut off.  Slots that lead behind the end of the log are made again from
it, and so is a wheel that is missing.

Java: `TimerMessageStore.recover`, `recoverAndRevise`, `reviseQueueOffset`.  *Differs*: Java takes over units behind the position
although their messages come again from the queue, and so delivers them twice after a crash; and it passes over slots that nobody
has read for a week.
"""

from __future__ import annotations

from typing import NamedTuple

from rmq_store.errors import Cold, ForeignFile
from rmq_store.read.reading import Reading
from rmq_store.timer.check import Check
from rmq_store.timer.timer_log import NO_UNIT, UNIT_BYTES, TimerLog, Unit
from rmq_store.timer.wheel import EMPTY, Slot, TimerWheel
from rmq_wire import names
from rmq_wire.implied.timers import BLANK_SLOTS, DELETES
from rmq_wire.message import StoredMessage

TOPIC_BYTES = names.WHEEL_TIMER_TOPIC.encode()


class Recovered(NamedTuple):
    """Where the timer goes on.  `said`: what was found, for the log."""

    queue_offset: int
    read_ms: int
    said: list[str]


def recover(
    check: Check | None, has_wheel: bool, log: TimerLog, wheel: TimerWheel, store: Reading, log_end: int, wall_ms: int
) -> Recovered:
    """Cut and mend in memory, and the log on the disk.  `log_end`: of the commit log.

    Raises OSError, and ForeignFile when messages wait in slots that are not as long as `timerPrecisionMs`.
    """
    said: list[str] = []
    known = check or Check(0, 0, 0, 0, 0, 0, 0)
    queue_offset = min(known.queue_offset, known.master_offset)
    begin = _known_end(known.flush_position, log)
    is_short = known.flush_position > log.segments.end
    end, cut_offset = _end(begin, is_short, queue_offset, log, store, log_end)
    if cut_offset is not None and cut_offset < queue_offset:
        said.append(f"the timer's log lacks messages from offset {cut_offset} of its queue on, they enter the wheel again")
        queue_offset = cut_offset
    log.cut(end)
    precision_ms = wheel.precision_ms
    oldest_ms = wall_ms // precision_ms * precision_ms - (wheel.slots // 2 - BLANK_SLOTS) * precision_ms
    read_ms = max(known.read_ms // precision_ms * precision_ms, oldest_ms)
    if has_wheel and _has_other_ticks(log, wheel, begin, known.read_ms):
        said.append(
            "the slots of the timer's wheel were not as long as timerPrecisionMs, and nothing waits in them: it begins anew"
        )
        wheel.empty()
    else:
        _mend_wheel(log, wheel, begin if has_wheel else log.begin, said)
    if known.read_ms > 0:  # what was due in a long stop, or before a clock that ran ahead, is still to come
        firsts = (slot.tick * precision_ms for slot in wheel.used() if slot.tick * precision_ms >= known.read_ms)
        read_ms = min(read_ms, max(min(firsts, default=read_ms), known.read_ms // precision_ms * precision_ms))
    lowest, highest = store.queue_bounds(names.WHEEL_TIMER_TOPIC, 0)
    clamped = min(max(queue_offset, lowest), highest)
    if clamped != queue_offset:
        said.append(f"the timer's queue is {lowest}..{highest}, it goes on at {clamped}, not at {queue_offset}")
    return Recovered(clamped, read_ms, said)


def _known_end(flush_position: int, log: TimerLog) -> int:
    """Where units begin that the check file does not speak for; at a unit of the files that are there."""
    at = min(max(flush_position, log.begin), log.segments.end)
    within = at % log.file_bytes
    if within > log.last_unit_at + UNIT_BYTES:
        return at - within + log.file_bytes
    return at - within % UNIT_BYTES


def _end(begin: int, is_short: bool, queue_offset: int, log: TimerLog, store: Reading, log_end: int) -> tuple[int, int | None]:
    """The end of the log; and the offset of the queue from which on it lacks messages, None when it lacks none.

    `is_short`: files are missing at its end.
    """
    lacks = 0 if is_short else None
    end = begin
    while (last := log.unit_before(end)) != NO_UNIT:
        log.end = end
        unit = _read(log, last)
        if unit is not None and unit.physical_offset + unit.message_size <= log_end:
            break
        end, lacks = last, 0
    if lacks is not None:
        found = None if last == NO_UNIT else _read(log, last)
        message = None if found is None else message_of(found, store)
        return end, 0 if message is None else message.queue_offset + 1
    for at, unit in log.scan(begin):
        message = message_of(unit, store)
        if message is None or message.queue_offset >= queue_offset:
            break
        end = at + UNIT_BYTES
    return end, None


def _read(log: TimerLog, at: int) -> Unit | None:
    while True:
        try:
            return log.unit(at)
        except Cold as cold:
            cold.run()


def message_of(unit: Unit, store: Reading) -> StoredMessage | None:
    """The message of the timer's topic that this unit names, None when there is another thing.  Waits for the disk."""
    while True:
        try:
            message = store.stored(unit.physical_offset, unit.message_size)
        except Cold as cold:
            cold.run()
            continue
        return message if message is not None and message.topic == TOPIC_BYTES else None


def _mend_wheel(log: TimerLog, wheel: TimerWheel, begin: int, said: list[str]) -> None:
    """Let every slot lead to units that are there, and every unit from `begin` on be in its slot."""
    again = {slot.tick: slot for slot in wheel.used() if slot.last >= log.end or slot.first < 0}
    for tick in again:
        wheel.clear(tick)
    firsts = [slot.first for slot in again.values() if log.begin <= slot.first < log.end]
    if again:
        said.append(f"{len(again)} slots of the timer's wheel lead behind the end of its log and are made again")
    low = min([begin, *firsts])
    for at, unit in log.scan(max(low, log.begin), log.end):
        tick = wheel.tick(unit.slot_ms)
        slot = wheel.get(tick)
        if tick in again or (at >= begin and slot.last < at):
            wheel.put(linked(slot, tick, at, unit.magic))


def _has_other_ticks(log: TimerLog, wheel: TimerWheel, begin: int, read_ms: int) -> bool:
    """The wheel was written with another precision, and nothing waits in it.

    Raises ForeignFile when something does: a slot's chain in the log goes from unit to unit of that slot, so what several have,
    or what belongs into several, is not to be found by one.
    """
    length_ms = 0
    waits = False
    for slot in wheel.used():
        unit = _read(log, slot.last)
        if unit is not None:
            if wheel.tick(unit.slot_ms) == slot.tick:
                return False
            length_ms = round(unit.slot_ms / slot.tick)
            waits = waits or unit.slot_ms >= read_ms
    if length_ms and (waits or any(unit.slot_ms >= read_ms for _, unit in log.scan(begin, log.end))):
        raise ForeignFile(
            f"{wheel.path} has messages that wait, in slots of {length_ms} ms and not of {wheel.precision_ms} ms:"
            f" set timerPrecisionMs={length_ms} as it was, until they have come"
        )
    return length_ms > 0


def linked(slot: Slot, tick: int, at: int, magic: int) -> Slot:
    """The slot with one more unit, which begins at `at` in the log."""
    messages = slot.messages + (-1 if magic & DELETES else 1)
    return Slot(tick, at if slot.first == EMPTY.first else slot.first, at, messages, slot.magic)
