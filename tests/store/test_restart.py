"""Opening a directory again: after a clean stop, after a kill, after damage, and when it must be refused."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rmq_store.disk.disk import RealDisk
from rmq_store.errors import Cold, ForeignFile
from rmq_store.layouts import CHECKPOINT
from rmq_store.results import QueryResult
from rmq_wire import sys_flag
from tests.store.restart_kit import FILE, filled
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, small, sync_settings

DATA = ("/commitlog/", "/consumequeue/", "/index/")


def data_of(disk: MemoryDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.contents().items() if any(part in path for part in DATA)}


def without_index_names(disk: MemoryDisk) -> tuple[dict[str, bytes], list[bytes]]:
    """An index file that a kill caught without an entry is made anew, under a later name."""
    data = data_of(disk)
    return {p: d for p, d in data.items() if "/index/" not in p}, [d for p, d in data.items() if "/index/" in p]


def check(rig: Rig, count: int = 300) -> None:
    for queue_id in range(4):
        assert rig.numbers(queue_id=queue_id) == list(range(queue_id, count, 4))
    for number in (count - 1, 0, count // 2):
        assert len(warm(lambda number=number: rig.store.query("TopicA", f"key{number}", 64, 0, 1 << 60)).units) == 1


def warm(ask: Callable[[], QueryResult]) -> QueryResult:
    """On real files a page may have to be read first, also one that was just written."""
    while True:
        try:
            return ask()
        except Cold as cold:
            cold.run()


def test_a_clean_stop_leaves_what_java_starts_on() -> None:
    disk, rig = filled()
    assert f"{ROOT}/abort" in disk.contents()
    assert disk.contents()[f"{ROOT}/abort"] == b"4711"
    assert rig.store.close(rig.wall_ms)
    contents = disk.contents()
    assert f"{ROOT}/abort" not in contents
    logs = [path for path in contents if "/commitlog/" in path]
    assert logs == [f"{ROOT}/commitlog/{start:020d}" for start in range(0, rig.store.written_offset, FILE)]
    for path, data in contents.items():
        if "/commitlog/" in path:
            assert len(data) == FILE
        if "/consumequeue/" in path:
            assert len(data) == rig.settings.consume_queue_file_bytes
            assert any(data), "a queue file without an entry"
    physic, logics, _, _, _, position = CHECKPOINT.unpack(contents[f"{ROOT}/checkpoint"][: CHECKPOINT.size])
    assert len(contents[f"{ROOT}/checkpoint"]) == 4096
    assert physic == logics == rig.wall_ms - 7
    assert rig.store.lookup(position) is not None
    assert disk.crash("synced").contents() == contents, "not everything is safe after a clean stop"


def test_a_clean_start_changes_no_byte() -> None:
    disk, rig = filled()
    rig.store.close(rig.wall_ms)
    before = data_of(disk)
    rig.open()
    assert rig.store.report.clean
    assert rig.store.report.cut_bytes == 0
    check(rig)
    rig.store.close(rig.wall_ms)
    assert data_of(disk) == before


@pytest.mark.parametrize("twice", [False, True])
def test_a_kill_loses_nothing(twice: bool) -> None:
    disk, rig = filled()
    rig.disk = after = disk.crash("all")
    rig.open()
    if twice:
        rig.disk = after = after.crash("all")
        rig.open()
    assert not rig.store.report.clean
    check(rig)
    rig.store.close(rig.wall_ms)
    disk2, untouched = filled()
    untouched.store.close(rig.wall_ms)
    assert without_index_names(after) == without_index_names(disk2)


def test_offsets_go_on_after_a_restart() -> None:
    disk, rig = filled(10)
    for stop in ("clean", "kill", "clean"):
        if stop == "clean":
            rig.store.close(rig.wall_ms)
        else:
            rig.disk = disk = disk.crash("all")
        rig.open()
        offset = rig.store.queue_bounds("TopicA", 1)[1]
        [placed] = rig.put(draft(99, queue_id=1))
        assert placed.queue_offset == offset
    assert rig.numbers(queue_id=1) == [1, 5, 9, 99, 99, 99]


def test_a_torn_last_unit_is_cut_and_cleared() -> None:
    disk, rig = filled(20)
    [placed] = rig.put(draft(20))
    path = f"{ROOT}/commitlog/{0:020d}"
    after = disk.crash("all")
    after.open(path).write_at(placed.physical_offset + 95, b"\xee")  # within the body
    after.open(path).write_at(placed.end_offset + 500, b"garbage")
    rig.disk = after
    rig.open()
    assert rig.store.report.cut_bytes > 0
    assert rig.store.written_offset == placed.physical_offset
    assert not any(after.contents()[path][placed.physical_offset :])
    check(rig, 20)
    assert len(rig.store.query("TopicA", "key20", 64, 0, 1 << 60).units) == 0
    rig.put(draft(20))
    rig.disk = after.crash("all")
    rig.open()
    check(rig, 21)


def test_units_of_an_earlier_life_do_not_come_back() -> None:
    """#10666: behind the cut lies a valid unit at its own position."""
    disk, rig = filled(20)
    placed = rig.put(draft(20), draft(21))
    after = disk.crash("all")
    after.open(f"{ROOT}/commitlog/{0:020d}").write_at(placed[0].physical_offset, bytes(4))
    rig.disk = after
    rig.open()
    assert rig.store.written_offset == placed[0].physical_offset
    rig.put(draft(20))
    rig.disk = after.crash("all")
    rig.open()
    check(rig, 21)


def test_a_unit_that_belongs_elsewhere_ends_the_log() -> None:
    """#10017: a good unit of another place, as a misdirected write or an earlier life of the file leaves it."""
    disk, rig = filled(20)
    end = rig.store.written_offset
    after = disk.crash("all")
    file = after.open(f"{ROOT}/commitlog/{0:020d}")
    first = rig.store.lookup(0)
    assert first is not None
    file.write_at(end, bytes(first))
    rig.disk = after
    rig.open()
    assert rig.store.written_offset == end
    assert rig.store.report.reason == f"the unit at {end} says that it belongs to 0"
    check(rig, 20)


@pytest.mark.parametrize("gone", ["/consumequeue/", "/index/", "/checkpoint", "/index/2"])
@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_what_can_be_made_from_the_log_is_made(gone: str, stop: str) -> None:
    """Not one queue's files alone: they are not told apart from a deleted topic's, as in the reference."""
    disk, rig = filled()
    if stop == "clean":
        rig.store.close(rig.wall_ms)
    reference = filled()
    reference[1].store.close(rig.wall_ms)
    after = disk.crash("all")
    for path in after.contents():
        if gone in path:
            after.unlink(path)
    rig.disk = after
    rig.open()
    check(rig)
    rig.store.close(rig.wall_ms)
    assert without_index_names(after) == without_index_names(reference[0])


def test_a_queue_that_lags_or_leads_is_put_right() -> None:
    disk, rig = filled()
    reference = data_of(disk.crash("all"))
    spoils: list[Callable[[MemoryDisk, str], object]] = [
        lambda after, path: after.open(path).write_at(40, bytes(160)),  # lags: units lost
        lambda after, path: after.open(path).write_at(0, (b"\0\0\0\0\0\1\0\0" + b"\0\0\1\0" + b"\0" * 8) * 10),  # leads
        lambda after, path: after.open(path).write_at(60, random.Random(190).randbytes(20)),
        lambda after, path: after.open(path).set_length(200),
    ]
    for spoil in spoils:
        after = disk.crash("all")
        last = sorted(path for path in after.contents() if "/consumequeue/TopicA/1/" in path)[-1]
        spoil(after, last)
        rig.disk = after
        rig.open()
        check(rig)
        found = {path: data for path, data in data_of(after).items() if "consumequeue" in path}
        assert found == {path: data for path, data in reference.items() if "consumequeue" in path}


def test_an_empty_queue_file_does_not_make_a_phantom() -> None:
    """Java reads zeros as a message; a kill between creating and writing leaves such a file."""
    disk, rig = filled()
    rig.store.close(rig.wall_ms)
    disk.make_directories(f"{ROOT}/consumequeue/New/0")
    disk.create(f"{ROOT}/consumequeue/New/0/{0:020d}", 200)
    rig.open()
    assert rig.store.queue_bounds("New", 0) == (0, 0)
    assert "New" not in rig.store.topics()
    assert not [path for path in disk.contents() if "/New/" in path]
    check(rig)


def test_an_empty_last_file_is_removed() -> None:
    disk, rig = filled(50)
    after = disk.crash("all")
    after.unlink(f"{ROOT}/commitlog/{FILE:020d}")
    after.create(f"{ROOT}/commitlog/{FILE:020d}", 0)
    rig.disk = after
    rig.open()
    check(rig, 50)


def test_what_java_left_undispatched_at_a_clean_stop_is_dispatched() -> None:
    """store.md 5.4: Java's own normal recovery misses the first undispatched unit."""
    disk, rig = filled(50)
    for number in range(50, 54):
        rig.store.stage(draft(number, queue_id=number % 4), rig.wall_ms)
    rig.store.commit()
    assert rig.store._index is not None
    rig.store._index.close()
    after = disk.crash("all")
    for mark in ("abort", "abort.boot"):  # which Java's does not have
        after.unlink(f"{ROOT}/{mark}")
    rig.disk = after
    rig.open()
    check(rig, 54)


def test_deleted_topics() -> None:
    disk, rig = filled(40)
    rig.put(draft(0, "Other"))
    assert rig.store.delete_topics(["TopicA", "Nothing"]) == 1
    assert rig.store.topics() == {"Other": {0: (0, 1)}}
    assert not [path for path in disk.contents() if "/consumequeue/TopicA" in path]
    assert rig.store.read_queue("TopicA", 0, 0, 32, 1000).message_count == 0
    rig.put(draft(100))
    assert rig.numbers() == [100]
    for _ in range(2):
        rig.disk = disk = disk.crash("all")
        rig.open()
        assert rig.numbers() == [100], "the new life starts at 0, after a kill too"
        assert rig.numbers("Other") == [0]
    rig.reopen()
    assert rig.numbers() == [100]


def test_messages_on_their_way_go_with_their_topic() -> None:
    rig = Rig()
    rig.put(draft(1))
    rig.store.stage(draft(2), START_MS)
    rig.store.commit()
    rig.store.stage(draft(3), START_MS)
    assert rig.store.delete_topics(["TopicA"]) == 1
    [new] = [rig.store.stage(draft(4), START_MS)]
    assert new.queue_offset == 0
    rig.store.commit()
    [arrived] = rig.store.dispatch(START_MS)
    assert arrived.next_queue_offset == 1
    assert rig.numbers() == [4]
    assert rig.store.undispatched == 0
    rig.reopen()
    assert rig.numbers() == [4]


def test_transaction_types_survive_a_walk() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    kinds = (sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_COMMIT, sys_flag.TRANSACTION_ROLLBACK, 0)
    for number, kind in enumerate(kinds * 5):
        rig.put(draft(number, sys_flag=kind))
    expected = [number for number, kind in enumerate(kinds * 5) if kind in (0, sys_flag.TRANSACTION_COMMIT)]
    assert rig.numbers() == expected
    rig.disk = disk.crash("all")
    rig.open()
    assert rig.numbers() == expected


def test_delay_codes_survive_a_walk() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    for level in (1, 3, 18, 40):
        one = draft(level, "SCHEDULE_TOPIC_XXXX", 2, deliver_delay_ms=rig.settings.delay_levels_ms[min(level, 18) - 1])
        one.properties += f"DELAY\x01{level}\x02".encode()
        rig.put(one)
    before = [data for path, data in disk.contents().items() if "consumequeue" in path]
    after = disk.crash("all")
    for path in after.contents():
        if "consumequeue" in path:
            after.unlink(path)
    rig.disk = after
    rig.open()
    assert [data for path, data in after.contents().items() if "consumequeue" in path] == before


def test_a_queue_that_begins_late_is_filled_up() -> None:
    """As after retention: the log's first message of a queue is not its number 0 (store.md 3.2)."""
    disk, rig = filled()
    rig.store.close(rig.wall_ms)
    for path in disk.contents():
        if "/consumequeue/" in path or path == f"{ROOT}/commitlog/{0:020d}":
            disk.unlink(path)
    rig.open()
    for queue_id in range(4):
        low, high = rig.store.queue_bounds("TopicA", queue_id)
        assert 0 < low < high == 75
        assert rig.numbers(queue_id=queue_id) == list(range(queue_id, 300, 4))[low:]
        assert rig.store.earliest_store_time("TopicA", queue_id) > START_MS
        first = sorted(path for path in disk.contents() if f"/TopicA/{queue_id}/" in path)[0]
        blank = disk.contents()[first][: low % 10 * 20]
        assert blank == (bytes(8) + b"\x7f\xff\xff\xff" + bytes(8)) * (low % 10)
    rig.reopen()
    assert rig.store.queue_bounds("TopicA", 0)[0] > 0


def test_opening_survives_a_full_disk() -> None:
    """A start that fails half way may be repeated."""
    disk, rig = filled()
    for nth in range(1, 12):
        after = disk.crash("all")
        for path in after.contents():
            if "/consumequeue/" in path:
                after.unlink(path)
        after.faults = [Fault("write", first=nth, path_part="/consumequeue/")]
        rig.disk = after
        with pytest.raises(OSError, match="space"):
            rig.open()
        rig.disk = after = after.crash("all")
        rig.open()
        check(rig)


def test_real_files(tmp_path: Path) -> None:
    """The same on the operating system's files: a stop, a kill (a copy of the directory), a link in the way."""
    root = f"{tmp_path}/store"
    rig = Rig(RealDisk(), small(store_path_root_dir=root))
    for number in range(300):
        rig.put(draft(number, queue_id=number % 4))
    rig.sync()
    copy = f"{tmp_path}/copy"
    copy_tree(root, copy)
    rig.reopen()
    check(rig)
    rig.store.close(START_MS)
    assert not os.path.exists(f"{root}/abort")
    killed = Rig(RealDisk(), small(store_path_root_dir=copy))
    assert not killed.store.report.clean
    check(killed)
    killed.store.close(START_MS)
    differ = ("checkpoint", "inventory")
    assert read_tree(root, skip=differ) == read_tree(copy, skip=differ)
    os.symlink(f"{root}/commitlog", f"{root}/consumequeue/TopicA/9")
    with pytest.raises(ForeignFile, match="TopicA/9"):
        Rig(RealDisk(), small(store_path_root_dir=root))


def copy_tree(source: str, target: str) -> None:
    """Without the lock file: reading it in this process would drop the lock."""
    for directory, _, files in os.walk(source):
        place = Path(target + directory[len(source) :])
        place.mkdir(parents=True)
        for name in files:
            if name != "lock":
                place.joinpath(name).write_bytes(Path(directory, name).read_bytes())


def read_tree(root: str, skip: tuple[str, ...]) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in Path(root).rglob("*")
        if path.is_file() and path.name not in skip and not path.name.startswith("lock")
    }


def test_sync_flush_counts_what_it_recovered_as_flushed_only_once_it_is() -> None:
    disk = MemoryDisk()
    rig = Rig(disk, sync_settings())
    rig.put(draft(1))
    rig.disk = after = disk.crash("all")
    rig.open()
    assert rig.numbers() == [1]
    assert rig.store.flushed_offset == rig.store.written_offset
    rig.disk = after.crash("synced")
    rig.open()
    assert rig.numbers() == [1], "a consumer saw it, so it has to be there after a power cut"
