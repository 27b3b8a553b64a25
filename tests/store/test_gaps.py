"""Logs that lack queue offsets, as `rmq inspect repair` leaves them: what is before a gap stays, what follows keeps its place."""

from __future__ import annotations

import random

import pytest

from rmq_store.errors import Cold
from rmq_store.layouts import QUEUE_UNIT
from rmq_store.queues.consume_queue import PRE_BLANK
from rmq_store.queues.search import first_from
from rmq_store.recovery import recovery
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import read_unit
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, number_of, small, units_of


def without(rig: Rig, disk: MemoryDisk, lost: set[int], count: int) -> None:
    """Messages 0 to count - 1, one queue; those lost become messages of a topic that nobody reads. Queues and index go."""
    placed = [rig.put(draft(number))[0] for number in range(count)]
    rig.put(draft(count, topic="Other"))
    rig.store.close(rig.wall_ms)
    size = rig.settings.mapped_file_size_commit_log
    for number in lost:
        at = placed[number].physical_offset
        file = disk.open(f"{ROOT}/commitlog/{at - at % size:020d}")
        unit = file.read_at(at % size, placed[number].end_offset - at)
        assert number_of(read_unit(unit).body) == number
        file.write_at(at % size, unit.replace(b"\x06TopicA", b"\x06Fil%03d" % number))
    for path in list(disk.contents()):
        if "/consumequeue/" in path or "/index/" in path:
            disk.unlink(path)


def pulled(rig: Rig, count: int = 32, accepts: frozenset[int] | None = None) -> list[tuple[int, int]]:
    """(message number, its queue offset) as a consumer finds them; the one behind a gap may come with several pulls."""
    found = []
    offset, end = rig.store.queue_bounds("TopicA", 0)
    while offset < end:
        try:
            read = rig.store.read_queue("TopicA", 0, offset, count, 1 << 20, accepts)
        except Cold as cold:
            cold.run()
            continue
        found += [(number_of(unit.body), unit.queue_offset) for unit in units_of(read.chunks)]
        assert read.next_offset > offset
        offset = read.next_offset
    return list(dict.fromkeys(found))


GAPS = [{5}, {3, 4, 5}, set(range(7, 25)), {9, 10, 20, 21, 22}, {18}]


@pytest.mark.parametrize("lost", GAPS, ids=str)
@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_nothing_that_is_there_is_hidden(lost: set[int], stop: str) -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    without(rig, disk, lost, 30)
    there = [number for number in range(30) if number not in lost]
    if stop == "kill":
        disk.create(f"{ROOT}/abort", 0)
    rig.open()
    assert rig.store.queue_bounds("TopicA", 0) == (0, 30)
    assert f"{len(lost)} queue offsets have no message in the log" in " ".join(rig.store.report.sentences())
    for again in ["as built", "after a clean stop", "after a kill"]:
        assert pulled(rig) == [(number, number) for number in there], again
        for tag in range(3):
            code = frozenset([tags_code(f"Tag{tag}")])
            assert pulled(rig, accepts=code) == [(number, number) for number in there if number % 3 == tag], again
        assert pulled(rig, count=1) == [(number, number) for number in there], again
        if again == "as built":
            rig.reopen()
            assert rig.store.report.clean
        elif again == "after a clean stop":
            rig.disk = disk.crash("all")
            rig.open()
    [placed] = rig.put(draft(30))
    assert placed.queue_offset == 30
    assert pulled(rig)[-1] == (30, 30)


def test_the_end_of_a_queue_with_a_gap_is_found_after_a_kill() -> None:
    """Several entries that lead to one message are no damage, but only where they have no tags."""
    disk = MemoryDisk()
    rig = Rig(disk)
    without(rig, disk, {3, 4, 5}, 8)
    rig.open()
    rig.sync_queues()
    rig.wait(1000)  # the checkpoint is written
    path = f"{ROOT}/consumequeue/TopicA/0/{0:020d}"
    units = list(QUEUE_UNIT.iter_unpack(disk.contents()[path][: 8 * QUEUE_UNIT.size]))
    assert {units[3], units[4], units[5]} == {(units[6][0], units[6][1], 0)}
    rig.disk = after = disk.crash("all")
    rig.open()
    assert rig.store.report.walked_from > 0, "nothing before the checkpoint's message is missed"
    assert after.contents()[path] == disk.contents()[path]
    after.open(path).write_at(7 * QUEUE_UNIT.size, QUEUE_UNIT.pack(*units[6]))
    rig.disk = after.crash("all")
    rig.open()
    assert rig.store.report.walked_from == 0
    assert rig.disk.contents()[path] == disk.contents()[path]


def test_a_larger_step_is_another_life_of_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "GAP_MAX", 3)
    disk = MemoryDisk()
    rig = Rig(disk)
    without(rig, disk, {3, 4, 5, 6}, 10)
    rig.open()
    assert rig.store.queue_bounds("TopicA", 0) == (7, 10)
    assert pulled(rig) == [(number, number) for number in range(7, 10)]


def test_old_files_go_from_a_queue_with_gaps() -> None:
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_commit_log=4096))
    lost = {number for number in range(60) if number % 7 in (1, 2, 3)}
    without(rig, disk, lost, 60)
    for start in (0, 4096):
        disk.unlink(f"{ROOT}/commitlog/{start:020d}")
    rig.open()
    first = pulled(rig)[0][0]
    assert first > 5
    assert [number for number, _ in pulled(rig)] == [number for number in range(first, 60) if number not in lost]
    reached = rig.store.read_queue("TopicA", 0, first, 1, 1 << 20)
    assert [number_of(unit.body) for unit in units_of(reached.chunks)] == [first]


def test_one_pull_brings_the_message_behind_a_gap_once_and_no_foreign_one() -> None:
    """In the log another queue's messages lie where the queue has its gap, as many and as long."""
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_consume_queue=100 * QUEUE_UNIT.size))
    without(rig, disk, {3, 4, 5}, 12)
    rig.open()
    for attempt in ["cold", "hot"]:
        for first in range(12):
            read = rig.store.read_queue("TopicA", 0, first, 32, 1 << 20)
            numbers = [number_of(unit.body) for unit in units_of(read.chunks)]
            assert numbers == [number for number in range(first, 12) if number not in {3, 4, 5}], attempt
            assert read.next_offset == 12
        rig.put(draft(0, topic="Warm"))


def test_fillers_between_messages_hide_none_of_them() -> None:
    """As `rmq inspect repair` leaves a gap behind the first log file: what is before it stays visible."""
    chance = random.Random(1)
    for _ in range(300):
        entries: list[tuple[int, int, int]] = []
        for number in range(chance.randrange(1, 9)):
            entries += [QUEUE_UNIT.unpack(PRE_BLANK)] * chance.choice((0, 0, 1, 3, 9))
            entries.append((1_000 * number + 500, 88, 0))
        data = b"".join(QUEUE_UNIT.pack(*entry) for entry in entries)
        for position in range(0, 9_000, 250):
            expected = next((n for n, (at, size, _) in enumerate(entries) if size == 88 and at >= position), len(entries))
            found = first_from(0, len(entries), position, lambda at, count, data=data: data[at * 20 : (at + count) * 20])  # type: ignore[misc]
            assert found == expected, (entries, position)
