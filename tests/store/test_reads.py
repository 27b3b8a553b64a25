"""Reading queues, positions and times: statuses, limits, next offsets, each against a slow model of what the reference does."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_store.errors import Cold
from rmq_store.log import reader as log_reader
from rmq_store.log.draft import Draft
from rmq_store.log.reader import BLOCK_BYTES
from rmq_store.read import entries
from rmq_store.read.asked import UnitFilter
from rmq_store.results import Boundary, GetStatus, Read
from rmq_store.store import Store
from rmq_wire.java import string_hash
from rmq_wire.message import StoredMessage, pack_unit, read_unit
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import HOST, ROOT, START_MS, Rig, draft, number_of, small, units_of

EVERYTHING = 1 << 20


def test_statuses_of_offsets_without_a_message() -> None:
    rig = Rig()

    def outcome(offset: int, queue_id: int = 0) -> tuple[GetStatus, int, int, int]:
        read = rig.store.read_queue("TopicA", queue_id, offset, 32, EVERYTHING)
        assert (read.message_count, read.size, list(read.chunks)) == (0, 0, [])
        return read.status, read.next_offset, read.min_offset, read.max_offset

    assert outcome(7) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
    rig.put(*[draft(number) for number in range(5)])
    assert outcome(5) == (GetStatus.OFFSET_OVERFLOW_ONE, 5, 0, 5)
    assert outcome(6) == (GetStatus.OFFSET_OVERFLOW_BADLY, 5, 0, 5)
    assert outcome(-1) == (GetStatus.OFFSET_TOO_SMALL, 0, 0, 5)
    assert outcome(3, queue_id=9) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)


def test_reading_makes_nothing() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    rig.wait(1000)
    before = disk.contents()
    store = rig.store
    for topic in ("TopicA", "Nowhere", "../up", "a/b", ""):
        for queue_id in (0, 5, -1, 1 << 40):
            store.read_queue(topic, queue_id, 0, 32, EVERYTHING)
            store.queue_bounds(topic, queue_id)
            store.offset_by_time(topic, queue_id, START_MS)
            store.store_time_at(topic, queue_id, 0)
            store.earliest_store_time(topic, queue_id)
            store.query(topic, "key", 10, 0, 1 << 60)
    for position in (-5, 0, 1, 7, 1 << 50):
        store.lookup(position, checked=True)
    assert disk.contents() == before
    assert store.topics() == {"TopicA": {0: (0, 1)}}


class Case(NamedTuple):
    sizes: list[int]
    offset: int
    wanted: int
    max_bytes: int
    tags: frozenset[str] | None


class OddBodies(UnitFilter):
    """Wants every other message."""

    rows_max = 1 << 20

    def __call__(self, unit: memoryview) -> bool:
        return number_of(read_unit(unit).body) % 2 == 1


def model(case: Case, rig: Rig, matches: Callable[[int], bool] | None = None) -> tuple[str, int, list[int]]:
    """`DefaultMessageStore.getMessage`, written again: status, next offset, numbers found; every message in memory."""
    memory_bytes, memory_count = 1024, 6
    limit = max(case.max_bytes, 100)
    scan_bytes = max(rig.settings.max_filter_message_size, case.wanted * 20)
    per_file = rig.settings.consume_queue_file_bytes // 20
    unit_bytes = [rig.store.lookup(at).nbytes for at in positions(rig)]  # type: ignore[union-attr]
    status, following, found, total = "NO_MATCHED_MESSAGE", case.offset, list[int](), 0
    for number in range(case.offset, min(len(case.sizes), (case.offset // per_file + 1) * per_file)):
        if (number - case.offset) * 20 >= scan_bytes:
            break
        if total and found:
            full = len(found) + 1 > case.wanted or total + unit_bytes[number] > limit
            full = full or total + unit_bytes[number] > memory_bytes or len(found) > memory_count - 1
            if full or total >= limit:
                break
        following = number + 1
        if case.tags is not None and f"Tag{number % 3}" not in case.tags:
            continue
        if matches is not None and not matches(number):
            continue
        found.append(number)
        total += unit_bytes[number]
        status = "FOUND"
    return status, following, found


def positions(rig: Rig) -> list[int]:
    at, found = 0, []
    while at < rig.store.written_offset:
        unit = rig.store.lookup(at)
        if unit is None:
            at = (at // rig.settings.mapped_file_size_commit_log + 1) * rig.settings.mapped_file_size_commit_log
            continue
        found.append(at)
        at += unit.nbytes
    return found


@given(data=st.data())
@settings(max_examples=150)
def test_pulls_as_the_reference(data: st.DataObject) -> None:
    rig = Rig(
        settings=small(
            max_transfer_bytes_on_message_in_memory=1024, max_transfer_count_on_message_in_memory=6, max_filter_message_size=160
        )
    )
    sizes = data.draw(st.lists(st.integers(5, 400), min_size=1, max_size=25))
    rig.put(*[draft(number, body_bytes=size) for number, size in enumerate(sizes)])
    tags = data.draw(st.none() | st.frozensets(st.sampled_from(["Tag0", "Tag1", "Tag2", "None"]), max_size=2))
    case = Case(
        sizes, data.draw(st.integers(0, len(sizes) - 1)), data.draw(st.integers(-1, 40)), data.draw(st.integers(-1, 1500)), tags
    )
    accepts = None if tags is None else frozenset(map(string_hash, tags))
    odd = data.draw(st.booleans())
    matches: OddBodies | None = None
    if odd:
        matches = OddBodies()
    with mock.patch.object(entries, "BLOCK_UNITS", data.draw(st.sampled_from([5, 256]))):
        read = rig.store.read_queue("TopicA", 0, case.offset, case.wanted, case.max_bytes, accepts, matches)
    numbers = [number_of(unit.body) for unit in units_of(read.chunks)]
    expected = model(case, rig, (lambda number: number % 2 == 1) if odd else None)
    assert (read.status.value, read.next_offset, numbers) == expected
    assert read.message_count == len(numbers)
    assert read.size == sum(len(chunk) for chunk in read.chunks)
    assert (read.min_offset, read.max_offset) == (0, len(sizes))


def test_old_messages_come_in_smaller_portions() -> None:
    limits = {"physical_memory_bytes": 10_000, "max_transfer_count_on_message_in_disk": 2}
    rig = Rig(settings=small(**limits, mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000))
    rig.put(*[draft(number, body_bytes=100) for number in range(60)])
    old = rig.store.read_queue("TopicA", 0, 0, 32, EVERYTHING)
    new = rig.store.read_queue("TopicA", 0, 50, 32, EVERYTHING)
    assert (old.message_count, old.suggest_slave) == (2, True)
    assert (new.message_count, new.suggest_slave) == (10, False)


def test_neighbours_are_one_chunk_within_a_file() -> None:
    rig = Rig(settings=small(mapped_file_size_commit_log=4096, max_message_size=2000))
    rig.put(*[draft(number) for number in range(20)])
    read = rig.store.read_queue("TopicA", 0, 0, 10, EVERYTHING)
    assert len(read.chunks) == 1
    reads = [rig.store.read_queue("TopicA", 0, offset, 10, EVERYTHING) for offset in (0, 10)]
    assert [number_of(unit.body) for read in reads for unit in units_of(read.chunks)] == list(range(20))
    assert all(len(read.chunks) <= 2 for read in reads)


def test_interleaved_queues() -> None:
    rig = Rig()
    rig.put(*[draft(number, queue_id=number % 3) for number in range(30)])
    for queue_id in range(3):
        assert rig.numbers(queue_id=queue_id) == list(range(queue_id, 30, 3))


def test_a_view_outlives_the_store() -> None:
    rig = Rig()
    rig.put(draft(5))
    read = rig.store.read_queue("TopicA", 0, 0, 1, EVERYTHING)
    rig.store.close(START_MS)
    del rig
    gc.collect()
    assert [number_of(unit.body) for unit in units_of(read.chunks)] == [5]


# --- cold


def retried(store: Store, ask: Callable[[], object]) -> int:
    """How often the question met cold bytes before it was answered."""
    for times in range(50):
        try:
            ask()
        except Cold as cold:
            cold.run()
        else:
            return times
    raise AssertionError("still cold")


def make_cold(disk: MemoryDisk) -> None:
    disk.cold = {path for path in disk.contents() if path.count("/") > 2}


def test_cold_bytes_are_read_elsewhere() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(*[draft(number) for number in range(20)])
    rig.reopen()
    make_cold(disk)
    read: list[Read] = []
    assert retried(rig.store, lambda: read.append(rig.store.read_queue("TopicA", 0, 3, 32, EVERYTHING))) == 2
    assert [number_of(unit.body) for unit in units_of(read[0].chunks)] == list(range(3, 10))
    for ask in (
        lambda: rig.store.lookup(0, checked=True),
        lambda: rig.store.query("TopicA", "key3", 10, 0, 1 << 60),
        lambda: rig.store.offset_by_time("TopicA", 0, START_MS),
        lambda: rig.store.earliest_store_time("TopicA", 0),
        lambda: rig.store.earliest_message_time(),
    ):
        make_cold(disk)
        rig.wait(10_000)  # what was in memory is not believed for ever
        assert retried(rig.store, ask) > 0


def test_what_was_written_long_ago_may_have_left_memory() -> None:
    """Only what lies within the hot window is taken to be there, though this process wrote all of it."""
    disk = MemoryDisk()
    rig = Rig(disk, small(hot_window_bytes=2_000))
    rig.put(*[draft(number, queue_id=number % 2) for number in range(60)])
    disk.cold = {path for path in disk.contents() if "commitlog" in path}
    recent = rig.store.read_queue("TopicA", 0, 27, 32, EVERYTHING)
    assert [number_of(unit.body) for unit in units_of(recent.chunks)] == [54, 56, 58]
    with pytest.raises(Cold):
        rig.store.read_queue("TopicA", 0, 0, 5, EVERYTHING)


def test_a_queue_between_others_is_read_the_same_whatever_is_known_of_the_blocks() -> None:
    """First nothing is, then the blocks of its own messages, then all; and then nothing any more."""
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_commit_log=4 << 20, max_message_size=1 << 20))
    rig.put(*[draft(number, queue_id=int(number % 4 > 0), body_bytes=200_000) for number in range(12)])
    rig.reopen()
    log_file = next(path for path in disk.contents() if "commitlog" in path)
    disk.cold = {log_file}
    for queue_id, numbers in ((0, [0, 4, 8]), (0, [0, 4, 8]), (1, [1, 2, 3, 5, 6, 7, 9, 10, 11]), (0, [0, 4, 8])):
        found: list[int] = []

        def ask(queue_id: int = queue_id, found: list[int] = found) -> None:
            read = rig.store.read_queue("TopicA", queue_id, 0, 32, 1 << 24)
            found[:] = [number_of(unit.body) for unit in units_of(read.chunks)]

        retried(rig.store, ask)
        while len(found) < len(numbers):
            read = rig.store.read_queue("TopicA", queue_id, len(found), 32, 1 << 24)
            found += [number_of(unit.body) for unit in units_of(read.chunks)]
        assert found == numbers
    rig.wait(10_000)
    disk.cold = {log_file}
    with pytest.raises(Cold):
        rig.store.read_queue("TopicA", 0, 0, 32, 1 << 24)


@given(cold=st.sets(st.integers(0, 11)), units=st.sets(st.integers(0, 11), min_size=1), again=st.booleans())
def test_units_are_in_memory_up_to_the_first_that_is_not(cold: set[int], units: set[int], again: bool) -> None:
    """Whatever lies between them; a block is asked for once."""
    rig = Rig(MemoryDisk(), small(mapped_file_size_commit_log=4 << 20, max_message_size=1 << 20))
    placed = rig.put(*[draft(number, body_bytes=200_000) for number in range(12)])
    rig.reopen()
    reader = rig.store._reader
    positions = [placed[number].physical_offset for number in sorted(units)]
    sizes = [placed[number].end_offset - placed[number].physical_offset for number in sorted(units)]
    asked: list[int] = []

    def ask(block: int) -> None:
        asked.append(block)
        if block // BLOCK_BYTES in cold:
            raise Cold(lambda: None, "cold")
        reader._resident.add(block)

    lacking = [
        number
        for number, (at, size) in enumerate(zip(positions, sizes, strict=True))
        if cold.intersection(range(at // BLOCK_BYTES, (at + size - 1) // BLOCK_BYTES + 1))
    ]
    with mock.patch.object(reader, "_ask", ask), mock.patch.object(log_reader, "UNITS_A_QUESTION", 0):
        for _ in range(1 + again):
            asked.clear()
            if lacking[:1] == [0]:
                with pytest.raises(Cold):
                    reader.sure_units(positions, sizes, 0, len(sizes))
            else:
                end = min(lacking, default=len(sizes))
                assert reader.sure_units(positions, sizes, 0, len(sizes)) == end
                assert end == len(sizes) or reader.sure_units(positions, sizes, 0, end) == end
            assert sorted(set(asked)) == asked


@pytest.mark.parametrize("body_bytes", [14_000, 17_000, 200_000])
def test_few_blocks_are_asked_for_few_units(body_bytes: int) -> None:
    """One of which at least 16 units are in memory leads to another."""
    rig = Rig(MemoryDisk(), small(mapped_file_size_commit_log=16 << 20, max_message_size=1 << 20))
    placed = rig.put(*[draft(number, body_bytes=body_bytes) for number in range(60)])
    rig.reopen()
    reader = rig.store._reader
    places = [(one.physical_offset, one.end_offset - one.physical_offset) for one in placed]
    positions, sizes = zip(*places, strict=True)
    reached = reader.sure_units(positions, sizes, 0, 60)
    assert len(reader._resident) == (1 + reached // 16 if body_bytes < 200_000 else 1)
    assert (reached == 60) is (body_bytes < 16_384)
    while reached < 60:
        before, reached = reached, reader.sure_units(positions, sizes, reached, 60)
        assert reached > before


def test_what_was_just_written_is_not_asked_for() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    disk.cold = {path for path in disk.contents() if "commitlog" in path}
    assert rig.numbers() == [1]


def test_two_readers_of_one_cold_block_share_its_job() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1), draft(2))
    rig.reopen()
    disk.cold = {path for path in disk.contents() if "commitlog" in path}
    jobs = []
    for _ in range(2):
        with pytest.raises(Cold) as caught:
            rig.store.read_queue("TopicA", 0, 0, 32, EVERYTHING)
        jobs.append(caught.value)
    assert jobs[0] is jobs[1]
    jobs[0].run()
    assert rig.numbers() == [1, 2]


# --- by position


def test_a_unit_inside_a_body_is_not_believed() -> None:
    """Attack 16: the body is the image of a unit, right position and all."""
    rig = Rig()
    [first] = rig.put(draft(1))
    body_at = first.end_offset + 88  # after the fixed part of the unit to come
    image = pack_unit(0, 0, 0, body_at, 0, START_MS, HOST, START_MS, HOST, 0, 0, b"9:forged", b"TopicA", b"")
    rig.put(Draft("TopicA", 0, image, b"", START_MS, HOST, HOST))
    forged = rig.store.lookup(body_at)
    assert forged is not None
    assert bytes(forged) == image, "the image should look like a unit, or this shows nothing"
    assert rig.store.lookup(body_at, checked=True) is None
    assert rig.store.lookup(first.physical_offset, checked=True) is not None


def test_positions_that_are_no_unit() -> None:
    rig = Rig()
    _, second = rig.put(draft(1), draft(2))
    for at in (-1, 1, 4, second.end_offset, second.end_offset - 8, 1 << 62, rig.settings.mapped_file_size_commit_log):
        assert rig.store.lookup(at) is None
    view = rig.store.lookup(second.physical_offset)
    assert view is not None
    assert number_of(read_unit(view).body) == 2


# --- by time


class Times(NamedTuple):
    times: list[int]
    rig: Rig


@given(data=st.data())
@settings(max_examples=100)
def test_offset_by_time(data: st.DataObject) -> None:
    """Within one queue file the search has a plain meaning; over several the reference's choice of file is kept."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=2000))
    steps = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=30))
    times: list[int] = []
    now = START_MS
    for number, step in enumerate(steps):
        now += step * 10
        rig.store.stage(draft(number), now)
        times.append(now)
    rig.store.commit()
    rig.store.dispatch(now)
    asked = data.draw(st.sampled_from(times)) + data.draw(st.sampled_from([-15, -10, -5, 0, 5, 10, 15]))
    lower = rig.store.offset_by_time("TopicA", 0, asked, Boundary.LOWER)
    upper = rig.store.offset_by_time("TopicA", 0, asked, Boundary.UPPER)
    assert lower == sum(time < asked for time in times)
    assert upper == max(sum(time <= asked for time in times) - 1, 0)


def test_offset_by_time_over_many_files() -> None:
    rig = Rig()
    for number in range(47):
        rig.store.stage(draft(number), START_MS + number * 10)
    rig.store.commit()
    rig.store.dispatch(START_MS)
    for number in (0, 9, 10, 11, 29, 30, 46):
        assert rig.store.offset_by_time("TopicA", 0, START_MS + number * 10) == number
        assert rig.store.offset_by_time("TopicA", 0, START_MS + number * 10 - 5) == number
        assert rig.store.offset_by_time("TopicA", 0, START_MS + number * 10, Boundary.UPPER) == number
    assert rig.store.offset_by_time("TopicA", 0, START_MS + 1000) == 47
    assert rig.store.offset_by_time("TopicA", 0, 0) == 0
    assert rig.store.offset_by_time("TopicA", 0, 0, Boundary.UPPER) == 0


def test_times_of_messages() -> None:
    rig = Rig()
    assert rig.store.earliest_message_time() == -1
    assert rig.store.earliest_store_time("TopicA", 0) == -1
    rig.store.stage(draft(1), START_MS + 1)
    rig.store.stage(draft(2), START_MS + 2)
    rig.store.commit()
    rig.store.dispatch(START_MS)
    assert rig.store.earliest_store_time("TopicA", 0) == START_MS + 1
    assert rig.store.earliest_message_time() == START_MS + 1
    assert [rig.store.store_time_at("TopicA", 0, offset) for offset in (-1, 0, 1, 2)] == [-1, START_MS + 1, START_MS + 2, -1]


# --- damage


def test_a_damaged_queue_entry_is_skipped() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(*[draft(number) for number in range(5)])
    path = f"{ROOT}/consumequeue/TopicA/0/{0:020d}"
    for bad in (b"\x7f" * 12, b"\xff" * 12, bytes(8) + b"\x7f\xff\xff\xff"):
        disk.open(path).write_at(2 * 20, bad)
        read = rig.store.read_queue("TopicA", 0, 0, 32, EVERYTHING)
        assert [number_of(unit.body) for unit in units_of(read.chunks)] == [0, 1, 3, 4]
        assert read.next_offset == 5


def test_units_read_by_the_walk_are_what_was_sent() -> None:
    rig = Rig()
    made = draft(3)
    rig.put(made)
    unit: StoredMessage = units_of(rig.store.read_queue("TopicA", 0, 0, 1, EVERYTHING).chunks)[0]
    assert (unit.body, unit.properties, unit.topic) == (made.body, made.properties, b"TopicA")
