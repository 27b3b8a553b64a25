"""Damaged and hostile directories: refused with a reason or opened with what is left, read without an accident, never a hang."""

from __future__ import annotations

import random

import pytest

from rmq_store.errors import StoreRefused
from rmq_store.index.index_file import HEADER_BYTES
from rmq_store.layouts import INDEX_ENTRY, INDEX_HEADER, QUEUE_UNIT
from rmq_wire.message import read_unit
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, small, units_of

SEEDS = 60


def made(clean: bool) -> MemoryDisk:
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_commit_log=8192))
    for number in range(120):
        rig.put(draft(number, queue_id=number % 3))
    rig.sync()
    rig.wait(1500)
    rig.sync()
    rig.wait(1000)
    if clean:
        rig.store.close(rig.wall_ms)
    return disk.crash("all")


def spoil(disk: MemoryDisk, chance: random.Random) -> None:
    path = chance.choice([path for path in disk.contents() if path.count("/") > 2 or path.endswith("checkpoint")])
    size = len(disk.contents()[path])
    at = chance.randrange(max(min(size, 3000), 1))
    kind = chance.randrange(5)
    if kind == 0:
        data = bytes(chance.randrange(1, 600))
    elif kind == 1:
        data = chance.randbytes(chance.randrange(1, 600))
    elif kind == 2:
        data = b"\xff" * chance.randrange(1, 40)
    elif kind == 3:
        data = b"\x7f" + b"\xff" * 7
    else:
        other = chance.choice(list(disk.contents().values()))
        data = other[: chance.randrange(600)]
    disk.open(path).write_at(at, data[: max(size - at, 0)])


def use(rig: Rig) -> None:
    """Everything a client may ask for; only answers are allowed."""
    store = rig.store
    for topic, queues in store.topics().items():
        for queue_id, (low, high) in queues.items():
            assert low <= high
            offset = low
            for _ in range(300):
                read = store.read_queue(topic, queue_id, offset, 32, 1 << 20)
                assert read.next_offset > offset or read.next_offset >= high or not read.message_count
                assert sum(len(chunk) for chunk in read.chunks) == read.size
                if read.next_offset <= offset:
                    break
                offset = read.next_offset
            for when in (0, rig.wall_ms, 1 << 60):
                assert low <= store.offset_by_time(topic, queue_id, when) <= high
            store.earliest_store_time(topic, queue_id)
    for number in range(0, 120, 7):
        for unit in store.query("TopicA", f"key{number}", 64, 0, 1 << 60).units:
            assert f"key{number}".encode() in read_unit(unit).properties
    for at in range(0, store.written_offset, 997):
        store.lookup(at, checked=True)


@pytest.mark.parametrize("clean", [True, False])
def test_spoilt_bytes(clean: bool) -> None:
    refused = 0
    for seed in range(SEEDS):
        chance = random.Random(seed)
        disk = made(clean)
        for _ in range(chance.randrange(1, 4)):
            spoil(disk, chance)
        try:
            rig = Rig(disk, small(mapped_file_size_commit_log=8192))
        except StoreRefused:
            refused += 1
            continue
        use(rig)
        rig.put(draft(500, queue_id=1))
        assert 500 in [int(unit.body.split(b":")[0]) for unit in units_of(last_of(rig))]  # type: ignore[union-attr]
        assert rig.store.close(rig.wall_ms)
    assert refused < SEEDS // 2


def last_of(rig: Rig) -> object:
    high = rig.store.queue_bounds("TopicA", 1)[1]
    return rig.store.read_queue("TopicA", 1, high - 1, 1, 1 << 20).chunks


@pytest.mark.parametrize("unit", [((1 << 63) - 1, -1, 0), (0, (1 << 31) - 1, 0), (-1, 5, 0), (1 << 62, 200, 1 << 62), (40, 1, 0)])
def test_queue_entries_from_nowhere(unit: tuple[int, int, int]) -> None:
    for clean in (True, False):
        disk = made(clean)
        path = f"{ROOT}/consumequeue/TopicA/0/{0:020d}"
        for at in (0, 3, 9):
            disk.open(path).write_at(at * QUEUE_UNIT.size, QUEUE_UNIT.pack(*unit))
        rig = Rig(disk, small(mapped_file_size_commit_log=8192))
        use(rig)


@pytest.mark.parametrize("count", [-1, -(1 << 31), (1 << 31) - 1, 0, 65])
def test_index_headers_that_lie(count: int) -> None:
    for clean in (True, False):
        disk = made(clean)
        for path in [path for path in disk.contents() if "/index/" in path]:
            disk.open(path).write_at(0, INDEX_HEADER.pack(1 << 62, -5, -1, 1 << 62, -1, count))
        use(Rig(disk, small(mapped_file_size_commit_log=8192)))


def test_index_entries_that_point_in_circles() -> None:
    disk = made(True)
    for path in [path for path in disk.contents() if "/index/" in path]:
        file = disk.open(path)
        for number in range(1, 60):
            entry = INDEX_ENTRY.pack(1, -1 if number % 2 else 1 << 62, -1 if number % 3 else 1 << 30, 59 - number)
            file.write_at(HEADER_BYTES + 97 * 4 + number * 20, entry)
        for slot in range(97):
            file.write_at(HEADER_BYTES + slot * 4, (1 << 30).to_bytes(4, "big") if slot % 2 else b"\xff\xff\xff\xff")
    use(Rig(disk, small(mapped_file_size_commit_log=8192)))


def test_a_level_of_more_digits_than_python_reads() -> None:
    """The store does not decide what a level is: whatever is in the log, the next start opens it."""
    disk = MemoryDisk()
    rig = Rig(disk)
    for number, level in enumerate(["9" * 5_000, "0" * 63 + "3", "3"]):
        one = draft(number, "SCHEDULE_TOPIC_XXXX", 2)
        one.properties += f"DELAY\x01{level}\x02".encode()
        rig.put(one)
    rig.disk = disk.crash("all")
    rig.open()
    due = [rig.store.queue_unit("SCHEDULE_TOPIC_XXXX", 2, offset)[2] - rig.wall_ms for offset in range(3)]
    assert due[1:] == [10_000, 10_000]
    assert rig.numbers("SCHEDULE_TOPIC_XXXX", 2) == [0, 1, 2]


def test_directories_that_are_no_queue_are_passed_over() -> None:
    """Java: a name that is no int."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0))
    for name in ("99999999999", "9" * 200, "01", "x"):
        disk.make_directories(f"{ROOT}/consumequeue/TopicA/{name}")
    rig.reopen()
    assert rig.store.topics() == {"TopicA": {0: (0, 1)}}
