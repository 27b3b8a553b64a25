"""What a start after a kill does at places that are not the first of their kind: second files, ends of queues, empty stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmq_store.disk.disk import RealDisk
from rmq_store.errors import InvariantBroken, StoreDamaged
from rmq_store.log.draft import Draft
from rmq_store.recovery import recovery
from rmq_wire.implied.tags import tags_code
from tests.store.retention_kit import filled as with_old_files
from tests.support.memory_disk import MemoryDisk
from tests.support.power import Power
from tests.support.store_rig import HOST, ROOT, START_MS, Rig, draft, small

FILE = 8 * 4096


def killed(rig: Rig, disk: MemoryDisk) -> Rig:
    """Opened again on all that was written."""
    rig.disk = disk.crash("all")
    rig.open()
    return rig


def contents(rig: Rig) -> dict[str, bytes]:
    assert isinstance(rig.disk, MemoryDisk)
    return rig.disk.contents()


def plain(number: int) -> Draft:
    """A message without keys, which the index has nothing of."""
    return Draft("TopicA", 0, b"%d:" % number, b"TAGS\x01a\x02", START_MS, HOST, HOST, tags_code=tags_code("a"), keys=())


@pytest.mark.parametrize("left", [b"", b"7", b"4711", b"1234567890"], ids=len)
def test_the_mark_of_a_running_store_says_whose_it_is_and_no_more(left: bytes) -> None:
    """The process before may have had a longer number."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0))
    disk.open(f"{ROOT}/abort").set_length(0)
    disk.open(f"{ROOT}/abort").write_at(0, left)
    killed(rig, disk)
    assert contents(rig)[f"{ROOT}/abort"] == b"4711"


@pytest.mark.parametrize("clean", [True, False])
def test_a_promise_that_a_start_finds_broken_refuses_it_and_leaves_the_mark_as_it_was(
    monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0))
    if clean:
        assert rig.store.close(rig.wall_ms)

    def broken(*_arguments: object) -> None:
        raise InvariantBroken("an example", "nothing")

    rig.disk = disk.crash("all")
    with monkeypatch.context() as patch:
        patch.setattr(recovery.Recovery, "run", broken)
        with pytest.raises(StoreDamaged, match="an example"):
            rig.open()
    assert (f"{ROOT}/abort" in contents(rig)) is not clean
    rig.open()
    assert rig.store.report.clean is clean
    assert rig.numbers() == [0]


def test_an_index_file_whose_messages_were_all_lost_goes_and_no_other() -> None:
    """Its first entry belongs behind the log's end: 63 messages of four entries fill four files of 63."""
    disk = MemoryDisk()
    rig = Rig(disk)
    placed = [rig.put(draft(number))[0] for number in range(73)]
    rig.wait(1500)
    before = [path for path in contents(rig) if "/index/" in path]
    assert len(before) == 5
    assert placed[-1].end_offset <= FILE
    disk.open(f"{ROOT}/commitlog/{0:020d}").write_at(placed[63].physical_offset, bytes(FILE - placed[63].physical_offset))
    killed(rig, disk)
    assert rig.store.written_offset == placed[63].physical_offset
    assert [path for path in contents(rig) if "/index/" in path] == before[:-1]
    found = [len(rig.store.query("TopicA", f"key{number}", 10, 0, START_MS * 2).units) for number in range(73)]
    assert found == [1] * 63 + [0] * 10


def test_a_torn_unit_in_a_later_file_is_cleared() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    placed = [rig.put(draft(number))[0] for number in range(200)]
    torn = placed[-1]
    assert torn.physical_offset > FILE
    at = torn.physical_offset % FILE
    path = f"{ROOT}/commitlog/{torn.physical_offset - at:020d}"
    disk.open(path).write_at(at + 95, b"\xee")
    whole = disk.contents()[path]
    killed(rig, disk)
    assert rig.store.written_offset == torn.physical_offset
    assert contents(rig)[path] == whole[:at].ljust(FILE, b"\0")
    assert 0 < rig.store.report.cut_bytes <= 4096, "by the disk's blocks"
    assert rig.numbers() == list(range(199))


def test_what_a_start_after_a_clean_stop_clears_behind_the_end_is_gone_from_the_medium() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    end = [rig.put(draft(number))[0].end_offset for number in range(3)][-1]
    assert rig.store.close(rig.wall_ms)
    path = f"{ROOT}/commitlog/{0:020d}"
    file = disk.open(path)
    file.write_at(end + 8, b"\xee" * 16)
    file.sync()
    rig.open()
    assert rig.store.report.clean
    assert rig.store.report.cut_bytes > 0
    assert rig.disk is disk
    assert disk.crash("synced").contents()[path][end:] == bytes(FILE - end)


def test_what_is_cut_of_files_behind_the_end_is_counted() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    placed = [rig.put(draft(number))[0] for number in range(400)]
    first = placed[20].physical_offset
    disk.open(f"{ROOT}/commitlog/{0:020d}").write_at(first, bytes(4))
    data = b"".join(data for path, data in sorted(disk.contents().items()) if "/commitlog/" in path)
    killed(rig, disk)
    report = rig.store.report
    assert report.end == first
    written = len(data.rstrip(b"\0"))
    assert written - first - 3 * 4096 <= report.cut_bytes <= written - first + 3 * 4096, "by the disk's blocks"
    assert len(report.removed_files) == len([path for path in disk.contents() if "/commitlog/" in path]) - 1


def test_a_log_that_is_gone_takes_queues_and_index_with_it_when_nothing_was_promised() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1), draft(2))
    assert rig.store._checkpoint.logics_physical_offset == 0
    for path in disk.contents():
        if "/commitlog/" in path:
            disk.unlink(path)
    killed(rig, disk)
    assert rig.store.written_offset == rig.store.dispatched_offset == 0
    assert rig.store.queue_bounds("TopicA", 0) == (0, 0)
    assert [path for path in contents(rig) if "/consumequeue/" in path or "/index/" in path] == []
    assert rig.store.query("TopicA", "key1", 32, 0, 1 << 60).units == []
    rig.put(draft(3))
    assert rig.numbers() == [3]


def test_a_log_that_is_gone_is_refused_when_something_was_promised() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(3):
        rig.put(draft(number))
    rig.sync_queues()
    rig.wait(1_000)
    assert rig.store._checkpoint.logics_physical_offset > 0
    for path in disk.contents():
        if "/commitlog/" in path:
            disk.unlink(path)
    before = disk.crash("all").contents()
    with pytest.raises(StoreDamaged, match="restore the log"):
        killed(rig, disk)
    assert {path: data for path, data in contents(rig).items() if "/consumequeue/" in path} == {
        path: data for path, data in before.items() if "/consumequeue/" in path
    }


def test_the_checkpoint_names_the_newest_message_that_was_walked_over() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    last = [rig.put(draft(number))[0] for number in range(5)][-1]
    killed(rig, disk)
    assert rig.store._checkpoint.confirm_physical_offset == last.physical_offset
    empty = Rig(MemoryDisk())
    assert isinstance(empty.disk, MemoryDisk)
    killed(empty, empty.disk)
    assert empty.store._checkpoint.confirm_physical_offset == 0


def test_the_checkpoint_names_the_first_message_when_it_is_the_only_one_left() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    last = [rig.put(draft(number))[0] for number in range(2)][-1]
    killed(rig, disk)
    assert isinstance(rig.disk, MemoryDisk)
    rig.disk.open(f"{ROOT}/commitlog/{0:020d}").write_at(last.physical_offset, bytes(8))
    killed(rig, rig.disk)
    assert rig.store.written_offset == last.physical_offset
    assert rig.store._checkpoint.confirm_physical_offset == 0


def test_a_log_whose_only_message_is_torn_names_none() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    disk.open(f"{ROOT}/commitlog/{0:020d}").write_at(0, bytes(8))
    killed(rig, disk)
    assert rig.store.written_offset == 0
    assert rig.store._checkpoint.confirm_physical_offset == 0


def test_a_last_message_that_ends_with_a_zero_stays_when_it_is_in_its_queue() -> None:
    """It looks as if a killed process had not finished it."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(Draft("TopicA", 0, b"0:", b"A\x01b\0", START_MS, HOST, HOST))
    killed(rig, disk)
    assert rig.numbers() == [0]
    after = contents(rig)
    [queue] = [path for path in after if "/consumequeue/" in path]
    rig.disk.unlink(queue)
    assert isinstance(rig.disk, MemoryDisk)
    killed(rig, rig.disk)
    assert rig.numbers() == []


def test_a_topic_that_cannot_be_a_directory_keeps_no_other_message_from_its_queue() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    placed = [rig.put(draft(number))[0] for number in range(9)]
    rig.put(draft(9, topic="Other"))
    rig.store.close(rig.wall_ms)
    at = placed[4].physical_offset
    file = disk.open(f"{ROOT}/commitlog/{0:020d}")
    unit = file.read_at(at, placed[4].size)
    file.write_at(at, unit.replace(b"\x06TopicA", b"\x06\xff\xfe\xfd\xff\xfe\xfd"))
    for path in list(disk.contents()):
        if "/consumequeue/" in path or "/index/" in path:
            disk.unlink(path)
    rig.open()
    assert rig.store.report.skipped == 1
    assert rig.numbers() == [0, 1, 2, 3, 5, 6, 7, 8]


def test_a_log_that_ends_with_what_no_queue_can_hold_is_dispatched_to_its_end() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    placed = [rig.put(draft(number))[0] for number in range(3)]
    file = disk.open(f"{ROOT}/commitlog/{0:020d}")
    unit = file.read_at(placed[2].physical_offset, placed[2].size)
    file.write_at(placed[2].physical_offset, unit.replace(b"\x06TopicA", b"\x06\xff\xfe\xfd\xff\xfe\xfd"))
    for path in list(disk.contents()):
        if "/consumequeue/" in path:
            disk.unlink(path)
    killed(rig, disk)
    assert rig.store.dispatched_offset == rig.store.written_offset == placed[2].end_offset
    assert rig.store.report.skipped == 1
    assert rig.numbers() == [0, 1]


def test_of_a_topic_that_was_deleted_and_made_again_nothing_old_is_left() -> None:
    """Its new messages are fewer, and take the places of the old ones."""
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(8):
        rig.put(draft(number))
    rig.store.delete_topics(["TopicA"])
    for number in range(8, 11):
        rig.put(draft(number))
    for path in list(disk.contents()):
        if "/consumequeue/" in path:
            disk.unlink(path)
    killed(rig, disk)
    for _ in "as it is made", "once more":
        assert rig.numbers() == [8, 9, 10]
        assert rig.store.queue_bounds("TopicA", 0) == (0, 3)
        assert rig.store.report.bridged == 0
        assert not any(contents(rig)[f"{ROOT}/consumequeue/TopicA/0/{0:020d}"][3 * 20 :])
        rig.reopen()


@pytest.mark.parametrize(("first", "far"), [(15, True), (19, True), (20, False), (45, False)])
def test_a_gap_is_measured_from_the_queue_s_end(monkeypatch: pytest.MonkeyPatch, first: int, far: bool) -> None:
    """Wherever in its queue it is; one of just so many is none too many."""
    monkeypatch.setattr(recovery, "GAP_MAX", 30)
    disk = MemoryDisk()
    rig = Rig(disk)
    placed = [rig.put(draft(number))[0] for number in range(60)]
    rig.put(draft(60, topic="Other"))
    rig.store.close(rig.wall_ms)
    for number in range(first, 50):
        at = placed[number].physical_offset
        file = disk.open(f"{ROOT}/commitlog/{at - at % FILE:020d}")
        unit = file.read_at(at % FILE, placed[number].end_offset - at)
        file.write_at(at % FILE, unit.replace(b"\x06TopicA", b"\x06Fil%03d" % number))
    for path in list(disk.contents()):
        if "/consumequeue/" in path or "/index/" in path:
            disk.unlink(path)
    rig.open()
    assert rig.store.queue_bounds("TopicA", 0) == ((50, 60) if far else (0, 60))
    assert rig.store.report.bridged == (0 if far else 50 - first)


def test_the_index_is_said_to_be_made_again_only_when_files_of_it_go() -> None:
    """Messages without keys are no holes in it, and an end that is cut within its file is nothing to speak of."""
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(40):
        rig.put(draft(number), plain(1_000 + number))
    rig.sync_queues()
    rig.wait(1_000)
    for number in range(40, 44):
        rig.put(draft(number), plain(1_000 + number))
    killed(rig, disk)
    assert rig.store.report.index_from == -1
    assert rig.store._index
    assert f"{ROOT}/index" in rig.store._index.unsynced_directories, "nobody knows whether the names of its files are safe"
    assert "index" not in " ".join(rig.store.report.sentences())
    for number in range(44):
        assert len(rig.store.query("TopicA", f"key{number}", 32, 0, 1 << 60).units) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_an_index_that_is_gone_is_there_at_once(clean: bool) -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(40):
        rig.put(draft(number))
    if clean:
        rig.store.close(rig.wall_ms)
    for path in disk.contents():
        if "/index/" in path:
            disk.unlink(path)
    killed(rig, disk)
    assert rig.store.report.index_from == (0 if clean else -1), "a walk over all of the log makes it besides"
    kept = [any(data[40 + 97 * 4 :]) for path, data in contents(rig).items() if "/index/" in path]
    assert len(kept) == 3
    assert all(kept), "its entries are in the files, not in memory alone"


def test_queues_of_a_log_without_its_beginning_keep_their_bounds_over_a_kill() -> None:
    rig = with_old_files()
    assert isinstance(rig.disk, MemoryDisk)
    rig.retain(80 * 3_600_000)
    low, high = rig.store.queue_bounds("TopicA", 0)
    assert 0 < low < high
    numbers = rig.numbers()
    rig.disk.make_directories(f"{ROOT}/consumequeue/Another/0")  # which has no files
    killed(rig, rig.disk)
    assert rig.store.queue_bounds("TopicA", 0) == (low, high)
    assert rig.numbers() == numbers
    assert rig.store.close(rig.wall_ms)
    rig.open()
    assert rig.store.queue_bounds("TopicA", 0) == (low, high)


def test_names_of_queues_that_a_killed_process_had_not_synced_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    power = Power(tmp_path, monkeypatch)
    rig = Rig(RealDisk(), small(store_path_root_dir=str(tmp_path)))
    rig.put(draft(1), draft(2, queue_id=1), draft(3, topic="Other"))
    assert power.lost("consumequeue")
    rig.store._lock.release()
    rig.open()
    rig.sync_queues()
    assert power.lost("consumequeue") == []
    assert rig.store.close(rig.wall_ms)


def test_a_stop_that_was_clean_counts_for_nothing_when_a_queue_lacks_entries() -> None:
    """All is looked at then as after a kill."""
    rig = Rig(MemoryDisk())
    for number in range(30):
        rig.put(draft(number, queue_id=number % 2))
    assert rig.store.close(rig.wall_ms)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    gone = [path for path in disk.contents() if "/consumequeue/TopicA/1/" in path]
    disk.unlink(gone[-1])
    rig.open()
    report = rig.store.report
    assert (report.stopped_clean, report.clean, report.rebuilt) == (True, False, True)
    assert rig.numbers(queue_id=1) == list(range(1, 30, 2))
