"""What is made of a log that lies alone in its directory: queues, index, a checkpoint that says how far they go."""

from __future__ import annotations

from datetime import UTC

from rmq_store.disk.checkpoint import open_checkpoint
from rmq_store.recovery.rebuild import Rebuilt, rebuild
from rmq_wire.implied.previous_queues import NOTHING_KNOWN
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft


def log_of(rig: Rig) -> MemoryDisk:
    """A disk with nothing but its log."""
    assert isinstance(rig.disk, MemoryDisk)
    disk = MemoryDisk()
    disk.make_directories(f"{ROOT}/commitlog")
    for path, data in rig.disk.contents().items():
        if "/commitlog/" in path:
            disk.create(path, len(data)).write_at(0, data)
    return disk


def made_of(rig: Rig, disk: MemoryDisk) -> Rebuilt:
    return rebuild(disk, rig.settings, rig.wall_ms, zone=UTC, has_batch_queues=lambda topic: False, previous=NOTHING_KNOWN)


def filled(count: int) -> Rig:
    """Messages of three index entries and more each, at 10 ms each; an index file has 63."""
    rig = Rig()
    for number in range(count):
        rig.put(draft(number, queue_id=number % 2))
        rig.wait(10)
    return rig


def test_it_says_what_was_made() -> None:
    rig = filled(31)
    disk = log_of(rig)
    made = made_of(rig, disk)
    assert made.bounds == {("TopicA", 0): (0, 16), ("TopicA", 1): (0, 15)}
    assert made.batch_entries == {}
    assert made.report.end == rig.store.written_offset
    files = rig.store._index.files if rig.store._index else []
    assert len(files) > 1
    names = [path for path in disk.contents() if "/index/" in path]
    assert names == [f"{ROOT}/index/20231114221320310", f"{ROOT}/index/20231114221320311"], "made when it is made, in UTC"
    assert (made.index_files, made.index_entries) == (len(files), sum(file.count - 1 for file in files))


def test_the_checkpoint_names_the_newest_of_each() -> None:
    rig = filled(31)
    placed = rig.put(draft(100))[0]
    disk = log_of(rig)
    made_of(rig, disk)
    checkpoint = open_checkpoint(disk, ROOT)
    newest = START_MS + 310
    assert checkpoint.index_message_timestamp == newest
    assert checkpoint.physic_message_timestamp == checkpoint.logics_message_timestamp == newest
    assert checkpoint.logics_physical_offset == placed.physical_offset


def test_a_log_without_messages_gives_a_checkpoint_of_nothing() -> None:
    rig = filled(0)
    disk = log_of(rig)
    made = made_of(rig, disk)
    assert (made.bounds, made.batch_entries, made.index_files, made.index_entries) == ({}, {}, 0, 0)
    assert open_checkpoint(disk, ROOT).index_message_timestamp == 0


def test_what_was_made_is_taken_as_it_is_by_the_next_start() -> None:
    rig = filled(31)
    disk = log_of(rig)
    made_of(rig, disk)
    before = {path: data for path, data in disk.contents().items() if "checkpoint" not in path}
    rig.disk = disk
    rig.open()
    assert rig.store.report.clean
    assert [*rig.numbers(queue_id=0), *rig.numbers(queue_id=1)] == [*range(0, 31, 2), *range(1, 31, 2)]
    after = disk.contents()
    assert {path: after[path] for path in before} == before


def test_what_lies_behind_a_message_that_is_none_goes() -> None:
    """As after a kill, whatever whole files follow: nobody has promised anything of them."""
    rig = Rig()
    placed = [rig.put(draft(number))[0] for number in range(400)]
    disk = log_of(rig)
    bad = placed[20].physical_offset
    disk.open(f"{ROOT}/commitlog/{0:020d}").write_at(bad, bytes(4))
    made = made_of(rig, disk)
    assert made.report.end == bad
    assert made.bounds == {("TopicA", 0): (0, 20)}
    assert len(made.report.removed_files) >= 2
