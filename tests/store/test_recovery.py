"""What opening believes after a stop that was not clean, where it begins, and what it says about what it cuts."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rmq_store.disk.disk import RealDisk
from rmq_store.errors import StoreDamaged
from rmq_store.layouts import CHECKPOINT
from rmq_store.recovery.boot_mark import NAME, BootMark, Cache
from tests.store.restart_kit import reopened
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, small, sync_settings

FILE = small().mapped_file_size_commit_log
MARK = f"{ROOT}/{NAME}"


def synced_rig(count: int = 200, disk: MemoryDisk | None = None, **changes: object) -> tuple[MemoryDisk, Rig]:
    """Everything safe and noted in the checkpoint; then ten more messages that are in the cache alone."""
    disk = disk or MemoryDisk()
    rig = Rig(disk, small(**changes))
    for number in range(count):
        rig.put(draft(number, queue_id=number % 4, body_bytes=40 + number % 90))
        rig.wall_ms += 7
    rig.wait(1500)
    rig.sync()
    rig.wait(1500)
    rig.store._checkpoint.file.sync()
    assert rig.store._checkpoint.logics_physical_offset > 0
    for number in range(count, count + 10):
        rig.put(draft(number, queue_id=number % 4))
        rig.wall_ms += 7
    return disk, rig


def all_numbers(rig: Rig) -> list[int]:
    return sorted(number for queue_id in range(4) for number in rig.numbers(queue_id=queue_id))


# --- where it begins


def test_the_walk_begins_at_the_message_of_the_checkpoint() -> None:
    disk, rig = synced_rig()
    covered = rig.store._checkpoint.logics_physical_offset
    assert covered % FILE
    again = reopened(rig, disk.crash("all"))
    assert again.store.report.walked_from == covered
    assert all_numbers(again) == list(range(210))


@pytest.mark.parametrize("place", [1, -2])
def test_a_queue_that_lacks_entries_before_it_is_noticed(place: int) -> None:
    """A file of a queue that somebody removed: the walk goes back, to the first file if need be."""
    disk, rig = synced_rig()
    after = disk.crash("all")
    names = [entry.name for entry in after.entries(f"{ROOT}/consumequeue/TopicA/2")]
    after.unlink(f"{ROOT}/consumequeue/TopicA/2/{names[place]}")
    again = reopened(rig, after)
    assert all_numbers(again) == list(range(210))
    assert again.store.report.walked_from % FILE == 0


def test_all_queues_are_built_again_from_more_files_than_the_reference_looks_at() -> None:
    """Java: at most ten files (commitLogRecoverMaxNum)."""
    disk, rig = synced_rig(mapped_file_size_commit_log=4096)
    assert len(rig.store._log.segments.starts) > 12
    after = disk.crash("all")
    for path in after.contents():
        if "/consumequeue/" in path:
            after.unlink(path)
    assert all_numbers(reopened(rig, after)) == list(range(210))


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_checkpoint_that_names_no_message_is_not_followed(shift: int) -> None:
    disk, rig = synced_rig()
    after = disk.crash("all")
    file = after.open(f"{ROOT}/checkpoint")
    fields = list(CHECKPOINT.unpack(file.read_at(0, CHECKPOINT.size)))
    fields[5] += shift
    file.write_at(0, CHECKPOINT.pack(*fields))
    again = reopened(rig, after)
    assert again.store.report.walked_from % FILE == 0
    assert all_numbers(again) == list(range(210))


def test_an_old_checkpoint_makes_a_longer_walk() -> None:
    disk, rig = synced_rig()
    after = disk.crash("all")
    after.open(f"{ROOT}/checkpoint").write_at(0, bytes(CHECKPOINT.size))
    again = reopened(rig, after)
    assert again.store.report.walked_from == 0
    assert all_numbers(again) == list(range(210))


def test_a_checkpoint_that_a_killed_start_took_back_is_synced() -> None:
    """Taken back in memory by a start that is killed before the sync, built again by the next, and then the power goes.

    Found by lives 1060842 and 1093374 of the simulation.  TopicB has no message in the log's last file: only the checkpoint could
    show that its queue is not whole.
    """
    changes = {"mapped_file_size_consume_queue": 20 * 1000, "message_index_enable": False}  # its promise is synced, too
    first = Rig(MemoryDisk(), small(**changes))
    first.put(*(draft(number, "TopicB") for number in range(10)))
    assert first.store.close(first.wall_ms)
    assert isinstance(first.disk, MemoryDisk)
    disk, rig = synced_rig(disk=first.disk, **changes)
    damaged = disk.crash("all")
    damaged.open(f"{ROOT}/consumequeue/TopicA/2/{0:020}").write_at(20 * 20, bytes(20 * 100))

    class Killed(BaseException):
        pass

    def before(operation: str, path: str) -> None:
        if (operation, path) == ("sync", f"{ROOT}/checkpoint"):
            raise Killed

    damaged.before = before
    with pytest.raises(Killed):
        reopened(rig, damaged)
    killed = damaged.crash("all")
    assert not any(killed.open(f"{ROOT}/checkpoint").read_at(40, 8)), "taken back"
    again = reopened(rig, killed)
    assert again.numbers("TopicB") == list(range(10))
    for queue_id in range(4):
        killed.open(f"{ROOT}/consumequeue/TopicA/{queue_id}/{0:020}").sync()
    after = reopened(rig, killed.crash("synced"))
    assert (after.numbers("TopicB"), all_numbers(after)) == (list(range(10)), list(range(210)))


def test_a_checkpoint_ahead_of_what_was_flushed_promises_nothing() -> None:
    """Java's queues may be on the medium before its log is (#678, #10073): its own broker starts on that, and so do we."""
    disk, rig = synced_rig()
    end = rig.store.flushed_offset
    after = disk.crash("synced")
    fields = list(CHECKPOINT.unpack(after.open(f"{ROOT}/checkpoint").read_at(0, CHECKPOINT.size)))
    fields[1] += 100
    fields[5] = end + 5000
    after.open(f"{ROOT}/checkpoint").write_at(0, CHECKPOINT.pack(*fields))
    again = reopened(rig, after)
    assert again.store.written_offset == end
    assert all_numbers(again) == list(range(200))


def test_a_checkpoint_ahead_of_a_log_that_was_flushed_is_refused_untouched() -> None:
    disk, rig = synced_rig()
    after = disk.crash("synced")
    fields = list(CHECKPOINT.unpack(after.open(f"{ROOT}/checkpoint").read_at(0, CHECKPOINT.size)))
    fields[0] += 5000
    fields[5] = rig.store.flushed_offset + 5000
    after.open(f"{ROOT}/checkpoint").write_at(0, CHECKPOINT.pack(*fields))

    def data() -> dict[str, bytes]:
        return {path: data for path, data in after.contents().items() if data and not path.endswith(("lock", NAME))}

    before = data()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="was safe on disk"):
            reopened(rig, after)
    assert data() == before


# --- what it believes


def test_the_mark_stands_while_the_store_runs() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    assert disk.contents()[MARK] == disk.boot_id.encode()
    rig.store.close(START_MS)
    assert MARK not in disk.contents()


@pytest.mark.parametrize(
    ("text", "cache"),
    [(None, Cache.UNKNOWN), (b"", Cache.UNKNOWN), (b"boot 1", Cache.WHOLE), (b"boot 0", Cache.LOST), (b"boot 12", Cache.LOST)],
)
def test_what_the_mark_says(text: bytes | None, cache: Cache) -> None:
    disk = MemoryDisk()
    disk.make_directories(ROOT)
    if text is not None:
        disk.create(MARK, 0).write_at(0, text)
    mark = BootMark(disk, ROOT)
    assert mark.take() is cache
    assert mark.take() is Cache.UNKNOWN, "only once"
    mark.put()
    assert BootMark(disk, ROOT).take() is Cache.WHOLE


def test_a_real_machine_has_a_boot_id(tmp_path: Path) -> None:
    disk = RealDisk()
    assert disk.boot_id == RealDisk().boot_id
    if not disk.boot_id:
        pytest.skip("this system does not say")
    BootMark(disk, str(tmp_path)).put()
    assert BootMark(RealDisk(), str(tmp_path)).take() is Cache.WHOLE


def test_a_kill_in_the_middle_of_a_write_leaves_no_half_unit() -> None:
    """The body's check sum does not see that the properties' end is missing."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0))
    [placed] = rig.put(draft(1))
    after = disk.crash("all")
    file = after.open(f"{ROOT}/commitlog/{0:020d}")
    file.write_at(placed.end_offset - 20, bytes(20))
    for path in after.contents():
        if "/consumequeue/" in path:
            after.open(path).write_at(20, bytes(20))  # it was not dispatched yet
    again = reopened(rig, after)
    assert again.numbers() == [0]
    assert again.store.report.reason == f"the unit at {placed.physical_offset} is the last and ends with zeros"


def test_after_a_failed_sync_nothing_is_taken_for_safe_that_is_not() -> None:
    """The failed sync left clean pages that the medium does not have: they are written again before anybody builds on them."""
    disk = MemoryDisk()
    rig = Rig(disk, sync_settings())
    rig.put(draft(0, body_bytes=5000))
    disk.faults = [Fault("sync", error=errno.EIO, path_part="/commitlog/")]
    rig.sync()
    assert MARK not in disk.contents()
    after = disk.crash("all")
    again = Rig(after, sync_settings())
    assert again.numbers() == [0]
    again.put(draft(1))
    again.sync()
    assert Rig(after.crash("synced"), sync_settings()).numbers() == [0, 1]


def test_the_mark_of_another_start_is_not_kept_by_a_start_that_fails() -> None:
    """A start in which a sync fails must not be followed by one that believes the cache."""
    disk, rig = synced_rig(20)
    after = disk.crash("all")
    after.faults = [Fault("sync", error=errno.EIO, path_part="/commitlog/")]
    with pytest.raises(OSError, match="rror"):
        reopened(rig, after)
    assert MARK not in after.contents()


# --- what reaches the medium


def test_what_is_cut_from_a_queue_stays_cut() -> None:
    """Zeros in the cache are not enough: the plug is pulled right after the next clean stop."""
    disk, rig = synced_rig(206)
    for path in disk.contents():
        if "/consumequeue/" in path:
            disk.open(path).sync()
            disk.sync_directory(path.rpartition("/")[0])
    again = reopened(rig, disk.crash("synced"))
    assert all_numbers(again) == list(range(206)), "the queues were ahead of the log"
    after = again.disk
    assert isinstance(after, MemoryDisk)
    assert again.store.close(rig.wall_ms)
    last = reopened(rig, after.crash("synced"))
    assert last.store.report.clean
    assert all_numbers(last) == list(range(206))


def test_what_is_built_again_counts_as_safe_only_once_it_is() -> None:
    """The checkpoint's position is taken back first: else a kill, a clean stop and a power cut lose a queue for good."""
    disk, rig = synced_rig()
    rig.sync()
    after = disk.crash("synced")
    after.unlink(f"{ROOT}/consumequeue/TopicA/2/{after.entries(f'{ROOT}/consumequeue/TopicA/2')[1].name}")
    after.sync_directory(f"{ROOT}/consumequeue/TopicA/2")
    once = reopened(rig, after)
    assert all_numbers(once) == list(range(210))
    assert CHECKPOINT.unpack(after.crash("synced").contents()[f"{ROOT}/checkpoint"][: CHECKPOINT.size])[5] == 0
    killed = after.crash("all")
    twice = reopened(rig, killed)
    assert twice.store.close(rig.wall_ms)
    assert all_numbers(reopened(rig, killed.crash("synced"))) == list(range(210))


# --- what it says


def test_what_is_cut_is_reported_and_whole_units_are_kept_aside() -> None:
    disk, rig = synced_rig(20, mapped_file_size_commit_log=4096)
    rig.sync()
    first, *rest = [placed for number in range(100, 140) for placed in rig.put(draft(number))]
    after = disk.crash("all")
    start = first.physical_offset - first.physical_offset % 4096
    after.open(f"{ROOT}/commitlog/{start:020d}").write_at(first.physical_offset % 4096, bytes(8))
    log = {path: data for path, data in after.contents().items() if "/commitlog/" in path}
    again = reopened(rig, after)
    report = again.store.report
    assert report.end == first.physical_offset
    assert report.cut_units == len(rest)
    assert report.kept_aside == f"{ROOT}/cut/{first.physical_offset:020d}"
    assert len(report.removed_files) >= 2
    kept = {path: data for path, data in after.contents().items() if path.startswith(f"{report.kept_aside}/")}
    for path, data in kept.items():
        position = int(path.rpartition("/")[2])
        of = f"{ROOT}/commitlog/{position - position % 4096:020d}"
        assert data == log[of][position % 4096 :][: len(data)]
        assert not any(log[of][position % 4096 :][len(data) :])
    reported = report.sentences()
    assert any(f"{len(rest)} whole messages among them" in said and report.kept_aside in said for said in reported)
    assert all_numbers(again) == list(range(30))


def test_a_second_cut_at_the_same_place_does_not_overwrite_the_first() -> None:
    disk, rig = synced_rig(20)
    places = []
    for _ in range(3):
        placed = rig.put(draft(100), draft(101))
        after = disk.crash("all")
        after.open(f"{ROOT}/commitlog/{0:020d}").write_at(placed[0].physical_offset, bytes(8))
        disk = after
        rig = reopened(rig, disk)
        places.append(rig.store.report.kept_aside)
    assert len(set(places)) == 3
    assert all(disk.is_directory(place) for place in places)


def test_a_forged_unit_in_a_torn_body_is_only_a_hint() -> None:
    """Bytes in a body that look like a unit of the right place are counted, copied, and never served."""
    disk, rig = synced_rig(20)
    end = rig.store.written_offset
    model = Rig()
    model.put(draft(666))
    genuine = bytes(model.store.lookup(0) or b"")
    forged = bytearray(genuine)
    forged[28:36] = (end + 88).to_bytes(8, "big")
    evil = draft(100)
    evil.body = bytes(forged) + b"." * 3000
    [placed] = rig.put(evil)
    assert placed.physical_offset == end
    after = disk.crash("all")
    after.open(f"{ROOT}/commitlog/{0:020d}").write_at(placed.end_offset - 2000, bytes(900))
    again = reopened(rig, after)
    assert again.store.written_offset == end
    assert 666 not in all_numbers(again)
    assert again.store.lookup(end + 88) is None


def test_nothing_is_said_about_a_clean_stop() -> None:
    _, rig = synced_rig(20)
    rig.reopen()
    assert rig.store.report.sentences() == []


def test_deleted_topics_stay_deleted_over_a_clean_stop() -> None:
    """#8479: their messages are still the newest of the log."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0, "Other"), draft(1), draft(2))
    rig.store.delete_topics(["TopicA"])
    for _ in range(2):
        rig.reopen()
        assert rig.store.report.clean
        assert rig.store.topics() == {"Other": {0: (0, 1)}}
        rig.disk = disk = disk.crash("synced")
        rig.store._lock.release()
        rig.open()
        assert "TopicA" not in rig.store.topics() or not rig.store.report.clean
        rig.store.delete_topics(["TopicA"])
