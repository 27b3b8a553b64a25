"""Retention beside what else happens: files that hang, topics deleted and made again, few descriptors."""

from __future__ import annotations

import errno
from datetime import UTC

import pytest

from rmq_store.errors import Closed, Cold, Unwritable
from rmq_store.retention import HOUR_MS, Removal
from rmq_store.store import Store
from tests.store.retention_kit import (
    AT_ALL_HOURS,
    FILE_BYTES,
    contents,
    disk_of,
    filled,
    log_files,
    queue_files,
    removes_in,
    step,
    until,
)
from tests.support.memory_disk import Fault
from tests.support.store_rig import ROOT, Rig, draft, open_store, small

FOR_EVER = 10**9
EXTENDED = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 200}
FIRST_QUEUE_FILE = f"{ROOT}/consumequeue/TopicA/0/{0:020d}"


def grown(rig: Rig, topic: str, files: int = 2) -> None:
    """So many more log files, all safe."""
    end = rig.store.written_offset + files * FILE_BYTES
    while rig.store.written_offset < end:
        rig.put(*[draft(number, topic, body_bytes=700) for number in range(10)])
    rig.sync_queues()


PACKED = "Packed"
BATCHES = small(mapper_file_size_batch_consume_queue=460)


class BatchRig(Rig):
    """Topic Packed has batch queues."""

    def open(self) -> Store:
        disk_of(self).wall_ms = self.wall_ms
        self.store = open_store(
            self.settings, self.wall_ms, disk=self.disk, pid=4711, zone=UTC, has_batch_queues=lambda topic: topic == PACKED
        )
        self.store.retention.next_due(self.mono_ms)
        return self.store


# --- files that hang


def test_a_queue_file_that_hangs_holds_up_its_queue_only() -> None:
    """Java: deleteExpiredFileByOffset ends for that queue; the log is cleaned by a service of its own."""
    rig = filled()
    disk = disk_of(rig)
    disk.faults = [Fault("unlink", times=FOR_EVER, error=errno.EACCES, path_part="/consumequeue/TopicA/")]
    before = queue_files(rig)
    rig.retain(73 * HOUR_MS)
    assert queue_files(rig) == before
    for _ in range(2):
        grown(rig, "Other")
        rig.retain(80 * HOUR_MS)
    assert log_files(rig)[0] == rig.store.written_offset // FILE_BYTES * FILE_BYTES, "the log goes"
    low, _ = rig.store.queue_bounds("Other", 0)
    assert queue_files(rig, "Other")[0] == low * 20 // 200 * 200 > 0, "other queues go"
    low, high = rig.store.queue_bounds("TopicA", 0)
    assert (low, rig.store.refusal) == (high, None), "nobody is shown what has lost its log"
    disk.faults = []
    rig.retain(140_000)
    assert queue_files(rig) == [before[-1]], "and these as soon as they can, without another log file's going"


def test_what_has_piled_up_behind_a_file_that_hangs_goes_after_it() -> None:
    """While the file hung, the log went on, and the queue's minimum with it."""
    rig = filled(files=2)
    disk = disk_of(rig)
    disk.faults = [Fault("unlink", times=FOR_EVER, error=errno.EACCES, path_part="/consumequeue/TopicA/")]
    rig.retain(73 * HOUR_MS)
    grown(rig, "TopicA")
    rig.retain(80 * HOUR_MS)
    assert queue_files(rig)[0] == 0
    disk.faults = []
    rig.retain(140_000)
    low, _ = rig.store.queue_bounds("TopicA", 0)
    assert queue_files(rig)[0] == low * 20 // 200 * 200 > 0


def test_a_log_file_that_hangs_holds_up_no_queue() -> None:
    rig = filled()
    disk_of(rig).faults = [Fault("unlink", times=FOR_EVER, error=errno.EACCES, path_part=f"/commitlog/{FILE_BYTES:020d}")]
    rig.retain(73 * HOUR_MS)
    assert log_files(rig)[:2] == [FILE_BYTES, 2 * FILE_BYTES], "without a gap"
    low, _ = rig.store.queue_bounds("TopicA", 0)
    assert queue_files(rig)[0] == low * 20 // 200 * 200 > 0


def test_a_clean_stop_beside_a_file_that_hangs() -> None:
    """The next start finds the file and goes by what is there."""
    rig = filled()
    rig.put(draft(0, "Newest"))
    rig.reopen()
    rig.store.retain_by(AT_ALL_HOURS)
    disk_of(rig).faults = [Fault("unlink", times=FOR_EVER, error=errno.EACCES, path_part="/consumequeue/TopicA/")]
    rig.retain(73 * HOUR_MS)
    bounds, numbers = rig.store.topics(), rig.numbers()
    rig.reopen()
    assert (rig.store.topics(), rig.numbers()) == (bounds, numbers)
    assert rig.store._queues.of_topic("TopicA")[0].segments.starts[0] == 0


@pytest.mark.parametrize("row", ["index", "consumequeue_ext/TopicA"])
def test_what_hangs_is_not_forgotten_for_what_comes_after_it(row: str) -> None:
    """Index files, and files of extensions: more of them expire while the first ones hang."""
    rig = filled(files=2, **EXTENDED if "_ext" in row else {})
    disk = disk_of(rig)
    before = {path for path in contents(rig) if f"/{row}" in path}
    disk.faults = [Fault("unlink", times=FOR_EVER, error=errno.EACCES, path_part=f"/{row}")]
    for _ in range(2):
        rig.retain(73 * HOUR_MS)
        assert before <= contents(rig).keys()
        grown(rig, "TopicA")
        while rig.store._index is not None and rig.store._index.retiring:
            rig.wait(1000)
            rig.sync()
    disk.faults = []
    rig.retain(73 * HOUR_MS)
    assert not before & contents(rig).keys()


# --- no descriptors


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("row", ["commitlog", "consumequeue/TopicA/0"])
def test_a_directory_that_cannot_be_opened_is_synced_later(row: str, error: int) -> None:
    """As in a sync ticket: nothing has failed. The next look goes on, and each removal is on the medium before the next."""
    rig = filled()
    disk = disk_of(rig)
    rig.wait(73 * HOUR_MS)
    disk.faults = [Fault("sync_directory", error=error, path_part=f"/{row}")]
    removal = until(rig, removes_in(f"/{row}/"))
    assert isinstance(removal, Removal)
    removal.run()
    rig.store.retention.end(removal, None, rig.mono_ms)
    assert [path for path, _ in removal.failed] == removal.paths, "the first one, too: its directory is not synced"
    assert rig.store.refusal is None
    disk.log.clear()
    rig.retain(10_000)
    changes = [(kind, path) for kind, path, *_ in disk.log if kind in ("unlink", "sync_directory") and f"/{row}" in path]
    assert changes[0] == ("sync_directory", f"{ROOT}/{row}")
    assert not set(removal.paths) & contents(rig).keys()
    assert not set(removal.paths) & disk.crash("synced").contents().keys()


def test_a_directory_s_failed_sync_is_as_bad_as_any() -> None:
    """The next start must not believe the page cache, as after a ticket that failed."""
    rig = filled()
    assert f"{ROOT}/abort.boot" in contents(rig)
    disk_of(rig).faults = [Fault("sync_directory", error=errno.EIO, path_part="/commitlog")]
    rig.retain(73 * HOUR_MS)
    assert rig.store.refusal is Closed.FENCED
    assert "sync failed" in rig.store.refusal_text
    assert f"{ROOT}/abort.boot" not in contents(rig)


# --- topics that are deleted, and made again


@pytest.mark.parametrize("part", ["/consumequeue/TopicA/", "/consumequeue_ext/TopicA/"])
def test_a_topic_is_made_again_while_its_files_are_being_removed(part: str) -> None:
    """The other thread must not meet a new file of an old one's name."""
    rig = filled(**EXTENDED if "_ext" in part else {})
    rig.wait(73 * HOUR_MS)
    removal = until(rig, removes_in(part))
    assert rig.store.delete_topics(["TopicA"]) == 1
    assert not [path for path in contents(rig) if "/TopicA/" in path]
    with pytest.raises(Unwritable, match="just being removed"):
        rig.store.stage(draft(1), rig.wall_ms)
    rig.put(draft(1, queue_id=1), draft(1, "Other"))
    assert rig.store.refusal is None
    removal.run()
    rig.store.retention.end(removal, None, rig.mono_ms)
    rig.put(draft(2))
    assert rig.store.refusal is None
    rig.store._files.clear()
    assert (rig.numbers(), rig.numbers(queue_id=1)) == ([2], [1])


def test_who_deletes_a_topic_ends_the_removal() -> None:
    """A new queue waits for no more than the file that is being removed."""
    rig = filled()
    rig.wait(73 * HOUR_MS)
    removal = until(rig, removes_in("/consumequeue/TopicA/"))
    assert isinstance(removal, Removal)
    assert len(removal.paths) > 1
    disk = disk_of(rig)
    tried: list[str] = []

    def delete_at_the_first(operation: str, path: str) -> None:
        if operation == "unlink":
            tried.append(path)
            disk.before = None
            if len(tried) == 1:
                rig.store.delete_topics(["TopicA"])
            disk.before = delete_at_the_first

    disk.before = delete_at_the_first
    removal.run()
    disk.before = None
    assert tried == removal.paths[:1]
    assert removal.failed == []
    rig.store.retention.end(removal, None, rig.mono_ms)
    rig.put(draft(1))
    assert rig.numbers() == [1]


def test_a_file_that_hangs_goes_with_its_topic() -> None:
    rig = filled()
    disk_of(rig).faults = [Fault("unlink", error=errno.EACCES, path_part=FIRST_QUEUE_FILE)]
    rig.wait(73 * HOUR_MS)
    rig.retain(30_000)
    assert queue_files(rig)[0] == 0
    assert rig.store.delete_topics(["TopicA"]) == 1
    rig.put(draft(1))
    assert (rig.store.refusal, queue_files(rig), rig.numbers()) == (None, [0], [1])
    rig.retain(HOUR_MS)
    assert queue_files(rig) == [0], "it is the new queue's"


def test_a_file_that_hangs_is_known_also_of_a_topic_that_was_not_opened() -> None:
    rig = filled()
    rig.put(draft(0, "Newest"))
    rig.reopen()
    rig.store.retain_by(AT_ALL_HOURS)
    assert "TopicA" in rig.store._queues.unopened
    disk_of(rig).faults = [Fault("unlink", error=errno.EACCES, path_part=FIRST_QUEUE_FILE)]
    rig.wait(73 * HOUR_MS)
    rig.retain(30_000)
    assert queue_files(rig)[0] == 0
    rig.store.delete_topics(["TopicA"])
    rig.put(draft(1))
    assert (rig.store.refusal, rig.numbers()) == (None, [1])


def test_a_hanging_removal_ends_with_its_topic() -> None:
    rig = filled()
    disk_of(rig).faults = [Fault("unlink", times=2, error=errno.EACCES, path_part=FIRST_QUEUE_FILE)]
    rig.wait(73 * HOUR_MS)
    rig.retain(20_000)
    assert len(rig.store.retention._hanging) == 1
    removal = until(rig, removes_in("/consumequeue/TopicA/"))
    removal.run()
    rig.store.delete_topics(["TopicA"])
    rig.store.retention.end(removal, None, rig.mono_ms)
    assert rig.store.retention._hanging == {}, "it failed, and nobody minds"
    grown(rig, "TopicA", 4)
    disk_of(rig).faults = [Fault("unlink", error=errno.EACCES, path_part=FIRST_QUEUE_FILE)]
    rig.wait(73 * HOUR_MS)
    rig.retain(20_000)
    assert len(rig.store.retention._hanging) == 1
    rig.store.delete_topics(["TopicA"])
    assert [step(rig) for _ in range(5)] == [None] * 5, "nothing is tried for it"
    assert rig.store.retention._hanging == {}


def test_what_a_removal_left_of_a_deleted_topic_stays_known() -> None:
    rig = filled()
    disk = disk_of(rig)
    rig.wait(73 * HOUR_MS)
    removal = until(rig, removes_in("/consumequeue/TopicA/"))
    disk.faults = [Fault("unlink", times=FOR_EVER, error=errno.EACCES, path_part="/consumequeue/TopicA/")]
    rig.store.delete_topics(["TopicA"])
    assert rig.store.refusal is Closed.DISK_FULL
    removal.run()
    rig.store.retention.end(removal, None, rig.mono_ms)
    disk.faults = []
    rig.wait(1000)
    rig.wait(1000)
    rig.put(draft(1))
    assert (rig.store.refusal, queue_files(rig), rig.numbers()) == (None, [0], [1])


def test_a_live_file_is_not_taken_for_one_that_hung() -> None:
    """The operator removes that by hand, the topic is deleted and made again: its new first file has the old name."""
    rig = filled()
    disk = disk_of(rig)
    disk.faults = [Fault("unlink", error=errno.EACCES, path_part=FIRST_QUEUE_FILE)]
    rig.wait(73 * HOUR_MS)
    rig.retain(30_000)
    disk.unlink(FIRST_QUEUE_FILE)
    rig.store.delete_topics(["TopicA"])
    rig.put(*[draft(number) for number in range(5)])
    rig.sync_queues()
    rig.retain(HOUR_MS)
    rig.store._files.clear()
    assert rig.numbers() == [0, 1, 2, 3, 4]


def with_an_old_queue(rig: Rig) -> Rig:
    """All messages of topic Old are in the log's first file, its queue has several."""
    rig.store.retain_by(AT_ALL_HOURS)
    rig.put(*[draft(number, "Old") for number in range(35)])
    grown(rig, "TopicA", 4)
    return rig


def test_an_expired_queue_is_cleaned_while_its_files_are_being_removed() -> None:
    """306"""
    rig = with_an_old_queue(Rig())
    rig.wait(73 * HOUR_MS)
    removal = until(rig, removes_in("/Old/"))
    assert rig.store.clean_expired_queues() == 1
    with pytest.raises(Unwritable, match="just being removed"):
        rig.store.stage(draft(1, "Old"), rig.wall_ms)
    removal.run()
    rig.store.retention.end(removal, None, rig.mono_ms)
    rig.put(draft(1, "Old"))
    assert (rig.store.refusal, rig.numbers("Old")) == (None, [1])


def test_an_expired_queue_whose_files_stay_is_not_made_again_over_them() -> None:
    rig = with_an_old_queue(Rig())
    disk = disk_of(rig)
    disk.faults = [Fault("unlink", times=FOR_EVER, error=errno.EACCES, path_part="/consumequeue/Old/")]
    rig.retain(73 * HOUR_MS)
    rig.store.clean_expired_queues()
    assert rig.store.refusal is Closed.DISK_FULL
    rig.wait(1000)
    rig.wait(1000)
    with pytest.raises(Unwritable, match="cannot be removed"):
        rig.store.stage(draft(1, "Old"), rig.wall_ms)
    rig.put(draft(1))
    disk.faults = []
    rig.put(draft(1, "Old"))
    assert (rig.store.refusal, rig.numbers("Old")) == (None, [1])
    assert queue_files(rig, "Old") == [0]


def test_a_deleted_topic_s_expired_queues_are_not_forgotten() -> None:
    """The files of one queue stay when it expires; then the topic is deleted, with those that it still has."""
    rig = with_an_old_queue(Rig())
    rig.put(draft(1, "Old", queue_id=1))
    rig.sync_queues()
    disk = disk_of(rig)
    disk.faults = [Fault("unlink", times=FOR_EVER, error=errno.EACCES, path_part="/consumequeue/Old/0/")]
    rig.retain(73 * HOUR_MS)
    rig.store.clean_expired_queues()
    rig.store.delete_topics(["Old"])
    disk.faults = []
    rig.wait(1000)
    rig.wait(1000)
    rig.put(draft(2, "Old"))
    assert (rig.store.refusal, rig.numbers("Old")) == (None, [2])
    assert rig.store.topics()["Old"] == {0: (0, 1)}


def test_an_expired_queue_goes_and_the_topic_keeps_its_kind() -> None:
    """Nobody says which kind it is but the queues that are left on the disk."""
    rig = BatchRig(settings=BATCHES)
    rig.put(draft(0, PACKED))
    grown(rig, PACKED.lower())
    rig.put(draft(1, PACKED, queue_id=1))
    rig.sync_queues()
    assert rig.store.close(rig.wall_ms)
    rig = Rig(rig.disk, rig.settings)
    rig.store.retain_by(AT_ALL_HOURS)
    rig.retain(73 * HOUR_MS)
    assert rig.store.clean_expired_queues() == 1
    rig.put(draft(2, PACKED, queue_id=2), draft(3, PACKED))
    directories = {path.split("/")[2] for path in contents(rig) if f"/{PACKED}/" in path}
    assert directories == {"batchconsumequeue"}
    assert rig.numbers(PACKED, 0) == [3]


# --- batch queues


@pytest.mark.parametrize("out", ["its own read", "another queue's removal"])
def test_a_batch_topic_is_deleted_within_a_look(out: str) -> None:
    rig = BatchRig(settings=BATCHES)
    rig.store.retain_by(AT_ALL_HOURS)
    number = 0
    while rig.store.written_offset < 4 * FILE_BYTES:
        rig.put(*[draft(number + n, "Another", body_bytes=300) for n in range(10)])
        rig.put(*[draft(number + n, PACKED, body_bytes=700) for n in range(10)])
        number += 10
    rig.sync_queues()
    disk = disk_of(rig)
    if out == "its own read":
        disk.cold = {path for path in contents(rig) if f"/{PACKED}/" in path}
    rig.wait(73 * HOUR_MS)
    chore = until(rig, lambda one: isinstance(one, Cold) if out == "its own read" else removes_in("/Another/")(one))
    rig.store.delete_topics([PACKED])
    error: OSError | None = None
    try:
        chore.run()
    except OSError as reason:
        error = reason
    rig.store.retention.end(chore, error, rig.mono_ms)
    rig.retain(20_000)
    assert rig.store.retention.followed == rig.store.min_offset > 0
