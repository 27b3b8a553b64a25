"""Spoilt files of batch queues, extensions and light queues: opened, read and written on without a surprise.

What queues say is never believed against the log: after an unclean stop everything is right again; after a clean one nobody gets
a message that is not of the queue, and nothing fails but in the ways that are foreseen.
"""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from rmq_store.errors import Cold, StoreRefused
from rmq_store.log.draft import Draft
from rmq_store.results import Boundary
from rmq_store.store import Store
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import read_unit
from rmq_wire.sys_flag import INNER_BATCH, NEED_UNWRAP
from tests.support.loops import each
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, open_store, small

TOPICS = ("Packed", "TopicA", "%LMQ%a")
DIRECTORIES = ("batchconsumequeue", "consumequeue", "consumequeue_ext")
ALL_ON = {
    "enable_lmq": True,
    "enable_multi_dispatch": True,
    "enable_consume_queue_ext": True,
    "enabled_append_prop_crc": True,
    "mapped_file_size_consume_queue_ext": 110,
    "mapper_file_size_batch_consume_queue": 230,
}
EXTREMES = (0, 1, -1, 1 << 31, (1 << 31) - 1, -(1 << 63), (1 << 63) - 1, 46, 20, 1 << 40)


class AllRig(Rig):
    def open(self) -> Store:
        reported = {"has_batch_queues": lambda topic: topic == "Packed"}
        self.store = open_store(self.settings, self.wall_ms, disk=self.disk, **reported)  # type: ignore[arg-type]
        self.store.next_due(self.mono_ms)
        return self.store


def messages(first: int, count: int) -> list[Draft]:
    made = []
    for number in range(first, first + count):
        batch = draft(number, "Packed")
        batch.sys_flag |= INNER_BATCH | NEED_UNWRAP
        batch.properties += f"INNER_NUM\x01{number % 3 + 1}\x02".encode()
        lit = draft(number)
        lit.properties += b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"
        made += [batch, lit]
    return made


@cache
def filled() -> MemoryDisk:
    """To be copied."""
    rig = AllRig(settings=small(**ALL_ON))
    for number in range(0, 24, 3):
        rig.put(*messages(number, 3))
    assert rig.store.close(rig.wall_ms)
    assert isinstance(rig.disk, MemoryDisk)
    return rig.disk


def spoil(disk: MemoryDisk, rng: Random) -> None:
    """Some bytes of some queue files become others: random ones, zeros, ones, numbers at their limits, parts of other files."""
    names = [path for path in disk.contents() if path.removeprefix(f"{ROOT}/").split("/")[0] in DIRECTORIES]
    for _ in range(rng.randrange(1, 5)):
        file = disk.open(rng.choice(names))
        size = file.length()
        at, length = rng.randrange(size), rng.choice([1, 8, 20, 46, 100])
        piece = rng.choice(
            [
                rng.randbytes(length),
                bytes(length),
                b"\xff" * length,
                rng.choice(EXTREMES).to_bytes(9, "big", signed=True)[1:],
                disk.open(rng.choice(names)).read_at(0, length),
            ]
        )
        file.write_at(at, piece[: size - at])
    if rng.random() < 0.1:
        disk.unlink(rng.choice(names))


def look_at(store: Store) -> None:
    """Everything that consumers ask."""
    for topic in TOPICS:
        low, high = store.queue_bounds(topic, 0)
        for offset in {low, high - 1, high, (low + high) // 2, low - 1, 0, 7, 1 << 40}:
            for accepts in (None, frozenset([tags_code("Tag1")])):
                read = store.read_queue(topic, 0, offset, 32, 1 << 20, accepts)
                assert read.next_offset >= min(offset, low, high)
                data = b"".join(read.chunks)
                while data:
                    size = max(int.from_bytes(data[:4], "big"), 1)
                    data = data[size:]
            if low <= offset < high:
                store.queue_unit(topic, 0, offset)
                store.store_time_at(topic, 0, offset)
        for boundary in Boundary:
            for at in (0, 1 << 60):
                store.offset_by_time(topic, 0, at, boundary)
        store.earliest_store_time(topic, 0)


def survives(seed: int, is_clean: bool) -> None:
    rng = Random(seed)
    disk = filled().crash("all")
    spoil(disk, rng)
    if not is_clean:
        disk.create(f"{ROOT}/abort", 0)
    try:
        rig = AllRig(disk=disk, settings=small(**ALL_ON))
    except StoreRefused:
        return
    try:
        look_at(rig.store)
    except Cold:
        pytest.fail("nothing is cold here")
    rig.put(*messages(24, 3))
    look_at(rig.store)
    if not is_clean:
        for topic in TOPICS:
            assert rig.numbers(topic) == list(range(27)), topic
        [placed] = rig.put(draft(99))
        assert read_unit(bytes(rig.store.lookup(placed.physical_offset, checked=True) or b"")).queue_offset == 27
    rig.store.close(rig.wall_ms)


@pytest.mark.parametrize("stop", ["clean", "unclean"])
def test_spoilt_queue_files(stop: str) -> None:
    each(range(150), lambda seed: survives(seed, stop == "clean"))
