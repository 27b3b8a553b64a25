"""Batch queues: bytes as the Java broker writes them, reads of whole units, recovery."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from rmq_store.disk_space import RetentionRules
from rmq_store.errors import ForeignFile, Illegal
from rmq_store.log.draft import Draft
from rmq_store.results import Boundary, GetStatus
from rmq_store.retention import HOUR_MS
from rmq_store.store import Store
from rmq_wire import property_names as prop
from rmq_wire.message import read_unit
from rmq_wire.properties import decode, delete
from rmq_wire.sys_flag import INNER_BATCH, NEED_UNWRAP
from tests.support.golden_formats import BATCH, draft_of, files, in_queue, restore, settings, units
from tests.support.loops import each
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, number_of, open_store, small, units_of

UNITS = units(BATCH)
NOW = UNITS[-1].store_timestamp + 1000
BATCH_FILE = 460
PACKED = "Packed"


def is_packed(topic: str) -> bool:
    return topic == PACKED


def open_golden(root: Path, **changes: object) -> Store:
    return open_store(settings(root, BATCH, **changes), NOW, has_batch_queues=is_packed)


def test_the_same_messages_give_the_same_files(tmp_path: Path) -> None:
    store = open_golden(tmp_path)
    for unit in UNITS:
        store.stage(draft_of(unit, delete(unit.properties.decode(), prop.INNER_BASE).encode()), unit.store_timestamp)
        store.commit()
        store.dispatch(unit.store_timestamp)
    assert store.close(NOW)
    for name, data in files(BATCH, "commitlog", "batchconsumequeue").items():
        assert (tmp_path / name).read_bytes() == data, name
    [index] = (tmp_path / "index").iterdir()
    assert index.read_bytes() == next(iter(files(BATCH, "index").values()))


def test_queues_made_from_the_log_alone_are_javas(tmp_path: Path) -> None:
    restore(BATCH, tmp_path, "commitlog")
    (tmp_path / "abort").write_bytes(b"")
    assert open_golden(tmp_path).close(NOW)
    theirs = files(BATCH, "batchconsumequeue")
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.glob("batchconsumequeue/*/*/*")} == theirs.keys()
    for name, data in theirs.items():
        assert (tmp_path / name).read_bytes() == data, name


def test_javas_directory_is_read_and_left_alone(tmp_path: Path) -> None:
    restore(BATCH, tmp_path)
    was = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    store = open_golden(tmp_path)
    assert store.report.clean
    assert store.queue_bounds(PACKED, 0) == (0, 38)
    assert store.queue_bounds(PACKED, 1) == (0, 3)
    assert in_queue(store, PACKED, 1) == [b"x", b"y", b"last"]
    packed = [unit for unit in UNITS if unit.topic == PACKED.encode() and unit.queue_id == 0]
    ends = [unit.queue_offset for unit in packed[1:]] + [38]
    for unit, end in zip(packed, ends, strict=True):
        for offset in range(unit.queue_offset, end):
            assert store.queue_unit(PACKED, 0, offset)[:2] == (unit.physical_offset, unit.total_size)
            assert store.lookup(unit.physical_offset, checked=True) is not None
            assert store.store_time_at(PACKED, 0, offset) == unit.store_timestamp
            read = store.read_queue(PACKED, 0, offset, 1, 1 << 20)
            assert [u.physical_offset for u in units_of(read.chunks)] == [unit.physical_offset]
            assert (read.next_offset, read.message_count) == (end, end - unit.queue_offset)
        assert store.offset_by_time(PACKED, 0, unit.store_timestamp) <= unit.queue_offset
    assert store.offset_by_time(PACKED, 0, 0) == 0
    assert store.offset_by_time(PACKED, 0, 1 << 60) == packed[-1].queue_offset
    assert store.close(NOW)
    for path, data in was.items():
        if path.name != "checkpoint":
            assert path.read_bytes() == data, path


def test_a_kind_that_the_topic_does_not_have_is_refused(tmp_path: Path) -> None:
    restore(BATCH, tmp_path)
    was = sorted(tmp_path.rglob("*"))
    for has_batch_queues, kind in ((lambda _: False, "batch queues"), (lambda _: True, "ordinary queues")):
        with pytest.raises(ForeignFile, match=kind):
            open_store(settings(tmp_path, BATCH), NOW, has_batch_queues=has_batch_queues)
    assert [path for path in sorted(tmp_path.rglob("*")) if path.name != "lock"] == was
    assert open_store(settings(tmp_path, BATCH), NOW).close(NOW), "nobody said: the directories decide"
    assert open_store(settings(tmp_path, BATCH), NOW, has_batch_queues=lambda _: None).close(NOW), "no topic: as well"


# --- our own


def rig_of(disk: MemoryDisk | None = None, **changes: object) -> Rig:
    return BatchRig(disk=disk or MemoryDisk(), settings=small(mapper_file_size_batch_consume_queue=BATCH_FILE, **changes))


class BatchRig(Rig):
    """Topic Packed has batch queues."""

    def open(self) -> Store:
        if isinstance(self.disk, MemoryDisk):
            self.disk.wall_ms = self.wall_ms
        self.store = open_store(self.settings, self.wall_ms, disk=self.disk, pid=4711, has_batch_queues=is_packed)
        self.store.next_due(self.mono_ms)
        self.store.retention.next_due(self.mono_ms)
        return self.store


def batch(number: int, count: int, **more: object) -> Draft:
    """`count` messages as one unit, or an ordinary one for 0."""
    one = draft(number, PACKED, **more)  # type: ignore[arg-type]
    if count:
        one.sys_flag |= INNER_BATCH | NEED_UNWRAP
        one.properties += f"INNER_NUM\x01{count}\x02".encode()
    return one


def test_counters_go_back_with_what_is_taken_back() -> None:
    rig = rig_of()
    rig.put(batch(0, 3), batch(1, 0))
    mark = rig.store.savepoint()
    assert rig.store.stage(batch(2, 7), rig.wall_ms).queue_offset == 4
    assert rig.store.stage(batch(3, 1), rig.wall_ms).queue_offset == 11
    rig.store.rollback_to(mark)
    [placed] = rig.put(batch(4, 5))
    assert placed.queue_offset == 4
    unit = read_unit(bytes(rig.store.lookup(placed.physical_offset) or b""))
    assert decode(unit.properties.decode())[prop.INNER_BASE] == "4"
    assert rig.store.queue_bounds(PACKED, 0) == (0, 9)
    [arrived] = rig.arrived
    assert (arrived.next_queue_offset, len(arrived.tags_codes)) == (9, 1)


@pytest.mark.parametrize("count", ["0", "-1", "32768", "x", "", "99999999999"])
def test_a_count_that_is_none_is_refused(count: str) -> None:
    rig = rig_of()
    one = batch(0, 1)
    one.properties = one.properties.replace(b"INNER_NUM\x011\x02", f"INNER_NUM\x01{count}\x02".encode())
    with pytest.raises(Illegal):
        rig.store.stage(one, rig.wall_ms)
    assert rig.put(batch(1, 2))[0].queue_offset == 0


def test_an_inner_batch_elsewhere_counts_one() -> None:
    """Whether it may be sent there is for the broker to say; the store keeps its queues right."""
    rig = rig_of()
    one = draft(0)
    one.sys_flag |= INNER_BATCH
    one.properties += b"INNER_NUM\x015\x02"
    rig.put(one, draft(1))
    assert rig.store.queue_bounds("TopicA", 0) == (0, 2)


def test_pulls_count_messages_and_take_whole_units() -> None:
    rig = rig_of()
    rig.put(*[batch(number, 10) for number in range(30)])
    read = rig.store.read_queue(PACKED, 0, 5, 32, 1 << 20)
    assert (read.status, read.message_count, read.next_offset) == (GetStatus.FOUND, 30, 30)
    read = rig.store.read_queue(PACKED, 0, 299, 1, 1 << 20)
    assert (read.message_count, read.next_offset, read.max_offset) == (10, 300, 300)
    assert rig.store.read_queue(PACKED, 0, 300, 1, 1 << 20).status is GetStatus.OFFSET_OVERFLOW_ONE
    tag = frozenset([batch(1, 10).tags_code])
    read = rig.store.read_queue(PACKED, 0, 0, 32, 1 << 20, tag)
    assert [number_of(unit.body) for unit in units_of(read.chunks)] == [1, 4, 7]


def test_times_lead_to_first_offsets_of_units() -> None:
    rig = rig_of()
    for number in range(12):
        rig.put(batch(number, 3))
        if number % 3 == 2:
            rig.wait(1000)
    start = rig.wall_ms - 4000
    by_time = rig.store.offset_by_time
    assert [by_time(PACKED, 0, start + ms) for ms in (-1, 0, 1, 1000, 3000, 3001)] == [0, 0, 9, 9, 27, 33]
    assert [by_time(PACKED, 0, start + ms, Boundary.UPPER) for ms in (-1, 0, 1, 1000, 3000)] == [0, 6, 9, 15, 33]


def batches_survive(seed: int) -> None:
    rng = Random(seed)
    rig = rig_of(mapped_file_size_commit_log=4096)
    sizes: dict[int, int] = {}
    number = 0
    for _ in range(4):
        for _ in range(rng.randrange(25)):
            sizes[number] = rng.randrange(6)
            rig.put(batch(number, sizes[number]), draft(number))
            number += 1
            if rng.random() < 0.1:
                rig.wait(700)
                rig.sync()
        assert isinstance(rig.disk, MemoryDisk)
        if rng.random() < 0.7:
            rig = BatchRig(disk=rig.disk.crash(rng), settings=rig.settings, wall_ms=rig.wall_ms)
        else:
            rig.reopen()
        there = rig.numbers(PACKED)
        assert there == list(range(len(there)))
        assert rig.store.queue_bounds(PACKED, 0) == (0, sum(max(sizes[n], 1) for n in there))
        assert len(rig.numbers()) <= len(there) <= len(rig.numbers()) + 1
        number = len(there)
        if len(rig.numbers()) < number:
            rig.put(draft(number - 1))


def test_batches_survive_crashes_and_restarts() -> None:
    each(range(40), batches_survive)


def test_units_that_do_not_follow_each_other_are_cut_after_a_crash() -> None:
    rig = rig_of()
    rig.put(*[batch(number, 2) for number in range(25)])
    assert isinstance(rig.disk, MemoryDisk)
    disk = rig.disk.crash("all")
    disk.open(f"{ROOT}/batchconsumequeue/{PACKED}/0/{2 * BATCH_FILE:020d}").write_at(46 + 28, (7).to_bytes(8, "big"))
    after = BatchRig(disk=disk, settings=rig.settings)
    assert after.numbers(PACKED) == list(range(25))
    assert after.store.queue_bounds(PACKED, 0) == (0, 50)


def test_deleted_topics_are_gone() -> None:
    rig = rig_of()
    rig.put(batch(0, 2))
    rig.store.delete_topics([PACKED])
    assert isinstance(rig.disk, MemoryDisk)
    assert not rig.disk.is_directory(f"{ROOT}/batchconsumequeue/{PACKED}")
    rig.put(batch(1, 2))
    assert rig.store.queue_bounds(PACKED, 0) == (0, 2)


@pytest.mark.parametrize("restarts", [False, True])
def test_batch_files_go_after_the_log(restarts: bool) -> None:
    rig = rig_of(mapped_file_size_commit_log=4096)
    for number in range(60):
        rig.put(batch(number, number % 4, body_bytes=300))
    sizes = [max(number % 4, 1) for number in range(60)]
    rig.wait(2_000)  # the log goes when what leads to it is safe
    rig.sync_queues()
    rules = RetentionRules(file_reserved_time=1, delete_when=frozenset(range(24)), disk_space_warning_level_ratio=None)
    rig.store.retain_by(rules)
    rig.retain(2 * HOUR_MS)
    if restarts:
        rig.reopen()
    low, high = rig.store.queue_bounds(PACKED, 0)
    kept = rig.numbers(PACKED)
    assert kept == list(range(kept[0], 60))
    assert low == sum(sizes[: kept[0]]) > 20
    assert high == sum(sizes)
    assert isinstance(rig.disk, MemoryDisk)
    first = int(rig.disk.entries(f"{ROOT}/batchconsumequeue/{PACKED}/0")[0].name)
    assert 0 < first <= kept[0] * 46
    assert rig.store.read_queue(PACKED, 0, low - 1, 1, 1 << 20).status is GetStatus.OFFSET_TOO_SMALL
    assert rig.store.offset_by_time(PACKED, 0, 0) == low
    rig.put(batch(60, 2))
    assert rig.numbers(PACKED)[-1] == 60
