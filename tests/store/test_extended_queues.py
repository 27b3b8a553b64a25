"""Extensions of queue entries: bytes as the Java broker writes them, filters through them, truncation, recovery, the lowest."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from rmq_store.disk_space import RetentionRules
from rmq_store.log.draft import Draft
from rmq_store.retention import HOUR_MS
from rmq_store.store import Store
from rmq_wire.implied.tags import tags_code
from rmq_wire.layout.consume_queue import EXT_ADDRESS_FIRST, EXT_ADDRESS_LAST, EXT_UNIT_HEAD
from rmq_wire.properties import delete
from tests.support.golden_formats import BATCH, draft_of, files, in_queue, restore, settings, units
from tests.support.loops import each
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, open_store, small, units_of

UNITS = units(BATCH)
NOW = UNITS[-1].store_timestamp + 1000
EXT = f"{ROOT}/consumequeue_ext/TopicA/0"
FILE = 110
"""Five extensions, and ten bytes that hold no sixth and its mark."""


def is_packed(topic: str) -> bool:
    return topic == "Packed"


def open_golden(root: Path, **changes: object) -> Store:
    return open_store(settings(root, BATCH, **changes), NOW, has_batch_queues=is_packed)


def check_files(root: Path) -> None:
    theirs = files(BATCH, "consumequeue", "consumequeue_ext")
    assert {str(path.relative_to(root)) for path in root.glob("consumequeue*/*/*/*")} == theirs.keys()
    for name, data in theirs.items():
        assert (root / name).read_bytes() == data, name


def test_the_same_messages_give_the_same_files(tmp_path: Path) -> None:
    store = open_golden(tmp_path)
    for unit in UNITS:
        store.stage(draft_of(unit, delete(unit.properties.decode(), "INNER_BASE").encode()), unit.store_timestamp)
        store.commit()
        store.dispatch(unit.store_timestamp)
    assert store.close(NOW)
    check_files(tmp_path)


@pytest.mark.parametrize("lost", ["commitlog", "commitlog consumequeue/", "commitlog consumequeue_ext"])
def test_queues_made_from_the_log_alone_are_javas(tmp_path: Path, lost: str) -> None:
    """Or from the log and either half of the queues."""
    restore(BATCH, tmp_path, *lost.split())
    (tmp_path / "abort").write_bytes(b"")
    assert open_golden(tmp_path).close(NOW)
    check_files(tmp_path)


def test_hashes_are_found_behind_addresses(tmp_path: Path) -> None:
    restore(BATCH, tmp_path)
    for changes in ({}, {"enable_consume_queue_ext": False}):
        store = open_golden(tmp_path, **changes)
        assert store.report.clean
        read = store.read_queue("Plain", 0, 0, 32, 1 << 20, frozenset([tags_code("Tag1")]))
        assert [int(unit.body) for unit in units_of(read.chunks)] == [1, 3, 5, 7, 9]
        assert store.queue_unit("Plain", 0, 3)[2] == tags_code("Tag1")
        assert store.queue_unit("SCHEDULE_TOPIC_XXXX", 0, 0)[2] > NOW - 10_000
        assert len(in_queue(store, "Plain")) == 15
        assert store.close(NOW)
        check_files(tmp_path)


# --- our own


def rig_of(**changes: object) -> Rig:
    values = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": FILE, **changes}
    return Rig(settings=small(**values))


def tagged(rig: Rig, tag: int) -> list[int]:
    offset, end = rig.store.queue_bounds("TopicA", 0)
    found = []
    while offset < end:
        read = rig.store.read_queue("TopicA", 0, offset, 32, 1 << 20, frozenset([tags_code(f"Tag{tag}")]))
        found += [int(bytes(unit.body).split(b":")[0]) for unit in units_of(read.chunks)]
        offset = read.next_offset
    return found


def disk_of(rig: Rig) -> MemoryDisk:
    assert isinstance(rig.disk, MemoryDisk)
    return rig.disk


def test_an_address_is_no_hash() -> None:
    """The first address has the low bits of the hash 0: without tags."""
    assert EXT_ADDRESS_FIRST < EXT_ADDRESS_LAST < -(1 << 31)
    rig = rig_of()
    rig.put(draft(0, tags="Tag0"))
    read = rig.store.read_queue("TopicA", 0, 0, 32, 1 << 20, frozenset([0]))
    assert read.message_count == 0


def test_a_missing_extension_is_for_the_consumer_to_filter() -> None:
    rig = rig_of()
    rig.put(*[draft(number) for number in range(12)])
    disk = disk_of(rig)
    assert rig.store.close(rig.wall_ms)
    disk.unlink(f"{EXT}/{0:020d}")
    after = Rig(disk=disk, settings=rig.settings)
    assert tagged(after, 0) == [0, 1, 2, 3, 4, 6, 9]
    after.put(draft(12))
    assert tagged(after, 0)[-1] == 12
    assert after.store.close(after.wall_ms)


def test_extensions_begin_late_and_end_early() -> None:
    """Switched on, and off again: entries with and without them live together."""
    rig = rig_of(enable_consume_queue_ext=False)
    rig.put(*[draft(number) for number in range(7)])
    assert rig.store.close(rig.wall_ms)
    on = Rig(disk=rig.disk, settings=small(enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=FILE))
    on.put(*[draft(number) for number in range(7, 20)])
    assert on.store.close(on.wall_ms)
    off = Rig(disk=rig.disk, settings=rig.settings)
    off.put(*[draft(number) for number in range(20, 30)])
    off.put(*[draft(number) for number in range(30, 45)])
    assert tagged(off, 2) == list(range(2, 45, 3))
    assert off.store.close(off.wall_ms)
    assert len(disk_of(rig).entries(EXT)) == 3
    again = Rig(disk=rig.disk, settings=on.settings)
    again.put(*[draft(number) for number in range(45, 50)])
    for tag in range(3):
        assert tagged(again, tag) == list(range(tag, 50, 3))


def hashes_survive(seed: int) -> None:
    rng = Random(seed)
    rig = rig_of(mapped_file_size_commit_log=4096)
    number = 0
    for _ in range(4):
        for _ in range(rng.randrange(25)):
            rig.put(*[draft(number + n) for n in range(rng.randrange(1, 4))])
            number = rig.store.queue_bounds("TopicA", 0)[1]
            if rng.random() < 0.15:
                rig.wait(rng.choice([700, 61_000]))
                rig.sync()
        if rng.random() < 0.7:
            rig = Rig(disk=disk_of(rig).crash(rng), settings=rig.settings, wall_ms=rig.wall_ms)
        else:
            rig.reopen()
        number = rig.store.queue_bounds("TopicA", 0)[1]
        for tag in range(3):
            assert tagged(rig, tag) == list(range(tag, number, 3))


def test_hashes_survive_crashes_and_restarts() -> None:
    each(range(40), hashes_survive)


def test_deleted_topics_are_gone() -> None:
    rig = rig_of()
    rig.put(draft(0))
    rig.store.delete_topics(["TopicA"])
    assert not disk_of(rig).is_directory(f"{ROOT}/consumequeue_ext/TopicA")
    rig.put(draft(1))
    assert tagged(rig, 1) == [1]


def test_extensions_go_after_the_log() -> None:
    rig = rig_of(mapped_file_size_commit_log=4096)
    messages: list[Draft] = [draft(number, body_bytes=300) for number in range(40)]
    for one in messages:
        rig.put(one)
    first = disk_of(rig).entries(EXT)[0].name
    rig.wait(2_000)  # the log goes when what leads to it is safe
    rig.sync_queues()
    rules = RetentionRules(file_reserved_time=1, delete_when=frozenset(range(24)), disk_space_warning_level_ratio=None)
    rig.store.retain_by(rules)
    rig.retain(2 * HOUR_MS)
    low = rig.store.queue_bounds("TopicA", 0)[0]
    assert low > 10
    assert disk_of(rig).entries(EXT)[0].name != first
    assert tagged(rig, 0) == [n for n in range(40) if n % 3 == 0 and n >= low]


def test_store_times_are_in_the_extensions() -> None:
    rig = rig_of()
    for number in range(3):
        rig.put(draft(number), draft(number, "TopicB"))
        rig.wait(10)
    data = disk_of(rig).contents()[f"{EXT}/{0:020d}"]
    units = [EXT_UNIT_HEAD.parse(data[at : at + 20]) for at in (0, 20, 40)]
    assert [unit.store_timestamp for unit in units] == [START_MS, START_MS + 10, START_MS + 20]
    assert [unit.tags_code for unit in units] == [tags_code(f"Tag{number}") for number in range(3)]
    assert {(unit.size, unit.bit_map_size) for unit in units} == {(20, 0)}
