"""Ends of single queues, each made by hand: where the start after a clean stop and the one after a kill find them."""

from __future__ import annotations

import pytest

from rmq_store.layouts import BATCH_UNIT, QUEUE_UNIT
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import NOTHING, ConsumeQueue
from rmq_store.recovery import queue_repair
from tests.store.queue_kit import (
    CODE,
    FILLER,
    KINDS,
    PAGE,
    SIZE,
    UNIT,
    batch,
    bytes_of,
    ending,
    found,
    physical,
    queue_of,
    unit,
)
from tests.support.memory_disk import MemoryDisk

# --- after a clean stop


@KINDS
@pytest.mark.parametrize("count", [1, 2, PAGE - 1, PAGE, PAGE + 1, PAGE + 2, 150, 199, 200])
@pytest.mark.parametrize("first", [0, 3])
def test_the_end_is_found_wherever_it_is(kind: type[ConsumeQueue], count: int, first: int) -> None:
    """Within the page that is read first, at its end, behind it, at the end of the file."""
    units = [UNIT[kind](first * 200 + number) for number in range(count)]
    queue = queue_of(units, 200, first=first, kind=kind)
    queue_repair.find_end(queue)
    assert found(queue) == ending(first * 200 + count)


@KINDS
@pytest.mark.parametrize("count", [11, 15, 20, 21, 30])
def test_the_end_is_found_in_the_last_file(kind: type[ConsumeQueue], count: int) -> None:
    queue = queue_of([UNIT[kind](number) for number in range(count)], 10, kind=kind)
    queue_repair.find_end(queue)
    assert found(queue) == ending(count)


@KINDS
@pytest.mark.parametrize("count", [0, 10, 17, 20])
def test_files_without_a_unit_go_and_the_end_is_in_the_one_before(kind: type[ConsumeQueue], count: int) -> None:
    units = [UNIT[kind](number) for number in range(count)]
    rest = bytes((40 - count) * kind.unit_bytes)
    queue = queue_of([*units, rest], 10, kind=kind)
    queue_repair.find_end(queue)
    assert found(queue) == ending(count)
    assert queue.segments.starts == [start * 10 * kind.unit_bytes for start in range(-(-count // 10))]


@KINDS
def test_a_file_may_have_room_for_one_unit_only(kind: type[ConsumeQueue]) -> None:
    queue = queue_of([UNIT[kind](number) for number in range(3)], 1, kind=kind)
    queue_repair.find_end(queue)
    assert found(queue) == ending(3)


@pytest.mark.parametrize("size", [128, 1 << 15, 1 << 23, 0x7FFFFFFE])
def test_messages_may_be_of_any_size(size: int) -> None:
    queue = queue_of([QUEUE_UNIT.pack(number, size, CODE) for number in range(5)], 200)
    queue_repair.find_end(queue)
    assert found(queue) == (5, 4 + size)


@pytest.mark.parametrize(
    ("position", "size", "is_unit"),
    [(0, 1, True), (0, 90, True), (1, 1, True), (-1, 90, False), (-5, 90, False), (7, 0, False), (7, -1, False), (7, -90, False)],
)
def test_a_unit_leads_to_a_position_and_some_bytes(position: int, size: int, is_unit: bool) -> None:
    for look in (queue_repair.find_end, queue_repair.scan_end):
        queue = queue_of([QUEUE_UNIT.pack(position, size, CODE)], 10)
        look(queue)
        assert found(queue) == ((1, position + size) if is_unit else (0, NOTHING))


@pytest.mark.parametrize("place", range(4))
def test_few_pieces_of_a_queue_are_read_to_find_its_end(place: int) -> None:
    """A queue of few messages is seen at once; a long one is halved."""
    reads: list[str] = []
    disk = MemoryDisk()
    queue = queue_of([unit(number) for number in range([1, PAGE - 1, PAGE, 30_000][place])], 32_768, disk=disk)
    disk.before = lambda operation, path: reads.append(path) if operation == "read" else None
    queue_repair.find_end(queue)
    at_most = [2, 2, 20, 20][place]
    assert len(reads) <= at_most


# --- after an unclean stop


@KINDS
@pytest.mark.parametrize("count", [1, 5, 9, 10, 11, 20, 29, 30, 31, 45, 50])
def test_all_units_that_make_sense_are_kept(kind: type[ConsumeQueue], count: int) -> None:
    """Only the last three files are looked at."""
    units = [UNIT[kind](number) for number in range(count)]
    queue = queue_of(units, 10, kind=kind)
    before = bytes_of(queue)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(count)
    assert bytes_of(queue) == before


@KINDS
def test_a_queue_without_files_has_nothing(kind: type[ConsumeQueue]) -> None:
    for look in (queue_repair.find_end, queue_repair.scan_end):
        queue = queue_of([], 10, kind=kind)
        look(queue)
        assert found(queue) == ending(0)


@KINDS
@pytest.mark.parametrize("bad", [21, 25, 29, 30, 31, 40, 44])
@pytest.mark.parametrize("how", ["zeros", "older", "again"])
def test_the_end_is_before_the_first_unit_that_cannot_be(kind: type[ConsumeQueue], bad: int, how: str) -> None:
    """What was behind it does not come back."""
    units = [UNIT[kind](number) for number in range(45)]
    units[bad] = {"zeros": bytes(kind.unit_bytes), "older": UNIT[kind](bad - 2), "again": UNIT[kind](bad - 1)}[how]
    queue = queue_of(units, 10, kind=kind)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(bad)
    assert bytes_of(queue).rstrip(b"\0") == b"".join(units[:bad]).rstrip(b"\0")
    assert len(queue.segments.starts) == -(-bad // 10)


@KINDS
def test_no_more_than_three_files_are_looked_at(kind: type[ConsumeQueue]) -> None:
    units = [UNIT[kind](number) for number in range(45)]
    units[19] = bytes(kind.unit_bytes)
    queue = queue_of(units, 10, kind=kind)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(45)


@KINDS
@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_files_behind_a_missing_one_go(kind: type[ConsumeQueue], gone: int) -> None:
    queue = queue_of([UNIT[kind](number) for number in range(50)], 10, kind=kind)
    queue.segments.remove(gone * 10 * kind.unit_bytes)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(gone * 10)
    assert queue.segments.starts == [number * 10 * kind.unit_bytes for number in range(gone)]


@KINDS
@pytest.mark.parametrize("bad", [2, 3, 4, 7, 8, 9])
def test_a_file_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch, kind: type[ConsumeQueue], bad: int) -> None:
    monkeypatch.setattr(queue_repair, "SCAN_UNITS", 4)
    units = [UNIT[kind](number) for number in range(10)]
    whole = queue_of(units, 10, kind=kind)
    queue_repair.scan_end(whole)
    assert found(whole) == ending(10)
    units[bad] = UNIT[kind](bad - 1)
    queue = queue_of(units, 10, kind=kind)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(bad)


def test_a_batch_has_to_begin_where_the_one_before_ends() -> None:
    units = [batch(number) for number in range(25)]
    units[13] = BATCH_UNIT.pack(physical(13), SIZE, CODE, 0, 13 * 3 + 1, 3, -1, 0)
    queue = queue_of(units, 10, kind=BatchConsumeQueue)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(13)


@pytest.mark.parametrize("position", [-1, 11, 12])
def test_batches_are_in_the_order_of_the_log(position: int) -> None:
    """Whatever their offsets say."""
    units = [batch(number) for number in range(25)]
    units[13] = BATCH_UNIT.pack(physical(position), SIZE, CODE, 0, 13 * 3, 3, -1, 0)
    queue = queue_of(units, 10, kind=BatchConsumeQueue)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(13)


def test_fillers_are_counted_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_repair, "SCAN_UNITS", 4)
    queue = queue_of([FILLER] * 10, 10, first=30)
    queue_repair.scan_end(queue)
    assert found(queue) == (310, NOTHING)
    assert queue.segments.starts == [6_000], "nothing of it was cut"


@KINDS
@pytest.mark.parametrize("first", [0, 30])
def test_of_a_queue_that_makes_no_sense_nothing_is_left(kind: type[ConsumeQueue], first: int) -> None:
    queue = queue_of([bytes(kind.unit_bytes), *[UNIT[kind](number) for number in range(1, 15)]], 10, first=first, kind=kind)
    queue_repair.scan_end(queue)
    assert queue.segments.starts == []
    assert queue.end_physical == NOTHING
    assert queue.max_offset == (0 if queue.is_batch else first * 10), "whatever it said before"


def test_fillers_make_sense_anywhere_and_are_no_message() -> None:
    units = [FILLER, FILLER, unit(2), unit(3), FILLER]
    queue = queue_of(units, 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (5, NOTHING)
    units[4:] = [FILLER, unit(3)]
    queue = queue_of(units, 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (5, NOTHING), "the order of messages counts over fillers"


def test_entries_over_a_gap_lead_to_one_message() -> None:
    """Those without tags: so many as there are, and the message's own."""
    bridges = [unit(0), unit(4, 0), unit(4, 0), unit(4, 0), unit(4), unit(5)]
    queue = queue_of(bridges, 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (6, physical(5) + SIZE)
    queue = queue_of([*bridges[:5], unit(4), unit(5)], 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (5, physical(4) + SIZE)
    queue = queue_of([*bridges[:3], unit(3), unit(4)], 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (3, physical(4) + SIZE), "not to an older one"


# --- what is senseless among the newest


@KINDS
@pytest.mark.parametrize("units_max", [1, 9, 10, 11, 15, 25, 44, 45, 60])
def test_senseless_units_are_found_among_the_newest_only(kind: type[ConsumeQueue], units_max: int) -> None:
    units = [UNIT[kind](number) for number in range(45)]
    queue = queue_of(units, 10, kind=kind)
    queue_repair.find_end(queue)
    assert queue_repair.first_senseless(queue, units_max) is None
    assert queue_repair.end_position(queue) == 45 * kind.unit_bytes
    for bad in (44, 43, 40, 39, 31, 30, 29, 12):
        within = bad % 10 * kind.unit_bytes
        file = queue.segments.file(bad // 10 * 10 * kind.unit_bytes)
        was = file.read_at(within, kind.unit_bytes)
        file.write_at(within, bytes(kind.unit_bytes))
        expected = bad * kind.unit_bytes if bad >= 45 - units_max else None
        assert queue_repair.first_senseless(queue, units_max) == expected, bad
        file.write_at(within, was)


@KINDS
@pytest.mark.parametrize(("units_max", "files"), [(5, [40]), (6, [30, 40]), (15, [30, 40]), (16, [20, 30, 40])])
def test_older_files_are_not_even_read(kind: type[ConsumeQueue], units_max: int, files: list[int]) -> None:
    disk = MemoryDisk()
    queue = queue_of([UNIT[kind](number) for number in range(45)], 10, kind=kind, disk=disk)
    queue_repair.find_end(queue)
    read: list[str] = []
    disk.before = lambda operation, path: read.append(path) if operation == "read" else None
    assert queue_repair.first_senseless(queue, units_max) is None
    assert read == [queue.segments.path(place * kind.unit_bytes) for place in files]
