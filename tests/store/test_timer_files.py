"""The timer's log and wheel against models, and their bytes against the declared layouts."""

from __future__ import annotations

import pytest
from construct import Array
from hypothesis import given
from hypothesis import strategies as some

from rmq_store.timer.timer_log import NO_UNIT, UNIT_BYTES, TimerLog
from rmq_store.timer.wheel import EMPTY, PAGE_BYTES, Slot, TimerWheel
from rmq_wire.layout.timer import LOG_UNIT, SLOT
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT
from tests.support.timer_rig import LOG_UNITS, timer_settings

SLOTS = 256
POSITIONS = some.integers(-1, (1 << 62))
TICKS = some.integers(1, 4 * SLOTS)


def wheel_on(disk: MemoryDisk) -> TimerWheel:
    disk.make_directories(ROOT)
    return TimerWheel(disk, ROOT, SLOTS, 1_000)


def write(wheel: TimerWheel) -> None:
    wheel.make()
    assert wheel.file is not None
    lent = wheel.lend()
    for at, page in lent:
        wheel.file.write_at(at, page)
    wheel.take_back(lent, written=True)


slots = some.builds(Slot, TICKS, POSITIONS, POSITIONS, some.integers(-(1 << 31), (1 << 31) - 1), some.just(0))


@given(some.lists(slots, max_size=60), TICKS)
def test_a_wheel_keeps_the_last_of_each_place(given_slots: list[Slot], tick: int) -> None:
    disk = MemoryDisk()
    wheel = wheel_on(disk)
    model: dict[int, Slot] = {}
    for slot in given_slots:
        wheel.put(slot)
        model[slot.tick % SLOTS] = slot
    write(wheel)
    again = wheel_on(disk)
    assert again.load()
    for one in (wheel, again):
        expected = model.get(tick % SLOTS)
        assert one.get(tick) == (expected if expected is not None and expected.tick == tick else EMPTY)
        assert set(one.used()) == set(model.values())
        following = sorted(slot.tick for slot in model.values() if tick <= slot.tick < tick + SLOTS)
        assert one.next_used(tick, tick + SLOTS, 1 << 20) == (following[0] if following else tick + SLOTS)
    data = disk.contents()[f"{ROOT}/timerwheel"]
    for place, row in enumerate(Array(SLOTS, SLOT).parse(data)):
        expected = model.get(place)
        assert (row.tick, row.first, row.last, row.count) == (tuple(expected)[:4] if expected is not None else (0, 0, 0, 0))


def test_a_page_that_is_being_written_keeps_what_it_had() -> None:
    wheel = wheel_on(MemoryDisk())
    wheel.put(Slot(5, 0, 0, 1, 0))
    [(_, page)] = wheel.lend()
    before = bytes(page)
    wheel.put(Slot(5, 0, 52, 2, 0))
    assert bytes(page) == before
    wheel.take_back([(0, page)], written=True)
    assert wheel.is_dirty
    assert bytes(wheel.lend()[0][1]) != before
    assert len(before) == PAGE_BYTES


fields = some.tuples(
    some.sampled_from([1, 3, 5, 7]),
    some.integers(0, 1 << 50),
    some.integers(0, (1 << 31) - 1),
    some.integers(0, 1 << 62),
    some.integers(91, (1 << 31) - 1),
    some.integers(-(1 << 31), (1 << 31) - 1),
)


@given(some.lists(fields, min_size=1, max_size=30), some.integers(2, 9))
def test_a_log_gives_back_what_was_appended(given_fields: list[tuple[int, ...]], per_file: int) -> None:
    disk = MemoryDisk()
    disk.make_directories(ROOT)
    log = TimerLog(disk, ROOT, per_file * UNIT_BYTES + 16)
    places: list[int] = []
    for magic, write_ms, delay_ms, physical_offset, size, topic_hash in given_fields:
        at = log.place()
        values = {"size": 52, "previous": places[-1] if places else NO_UNIT, "magic": magic, "write_ms": write_ms}
        values |= {"delay_ms": delay_ms, "physical_offset": physical_offset, "message_size": size, "topic_hash": topic_hash}
        log.append(at, LOG_UNIT.build(values | {"reserved": 0}))
        places.append(at)
    again = TimerLog(disk, ROOT, log.file_bytes)
    again.load()
    assert [at for at, _ in again.scan(0)] == places
    again.end = log.end
    for log_ in (log, again):
        for at, wanted in reversed(list(zip(places, given_fields, strict=True))):
            unit = log_.unit(at)
            assert unit is not None
            assert (unit.magic, unit.write_ms, unit.delay_ms, unit.physical_offset, unit.message_size, unit.topic_hash) == wanted
        assert log_.unit_before(log.end) == places[-1]
        assert log_.unit(log.end) is None
    middle = places[len(places) // 2]
    again.cut(middle)
    fresh = TimerLog(disk, ROOT, log.file_bytes)
    fresh.load()
    assert [at for at, _ in fresh.scan(0)] == [at for at in places if at < middle]


def test_the_last_unit_of_a_file() -> None:
    """As `getOffsetForLastUnit` says for Java's 100 MiB."""
    assert TimerLog(MemoryDisk(), ROOT, 104_857_600).last_unit_at == 104_857_532
    settings = timer_settings()
    log = TimerLog(MemoryDisk(), ROOT, settings.mapped_file_size_timer_log)
    assert log.last_unit_at == (LOG_UNITS - 1) * UNIT_BYTES


@pytest.mark.parametrize(("rest", "units"), [(10, 9), (15, 9), (16, 10), (51, 10)])
def test_a_blank_has_room_in_every_file(rest: int, units: int) -> None:
    """Behind its last unit; so many there are in a file of ten units and these bytes."""
    log = TimerLog(MemoryDisk(), ROOT, 10 * UNIT_BYTES + rest)
    for number in range(11):
        log.append(log.place(), bytes(UNIT_BYTES))
        assert log.end == (number + 1) * UNIT_BYTES + (number >= units) * (log.file_bytes - units * UNIT_BYTES)
    assert log.unit_before(log.file_bytes) == (units - 1) * UNIT_BYTES
