"""More files than may be open: the oldest are let go and opened again, and a system that has none left fails nothing for good."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from rmq_store.disk.disk import RealDisk
from rmq_store.results import IndexType
from rmq_store.store import Store
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import START_MS, Rig, draft, small, sync_settings

QUEUES = 300


def test_no_more_are_open_than_the_store_was_given(tmp_path: Path) -> None:
    """Log files and their maps, queue files, index files: all of them beyond what may be open, written and read."""
    settings = small(store_path_root_dir=str(tmp_path), open_files_max=40)
    before = len(os.listdir("/proc/self/fd"))
    rig = Rig(RealDisk(), settings)
    for start in ("first", "second"):
        if start == "first":
            for number in range(4 * QUEUES):
                rig.put(draft(number, queue_id=number % QUEUES, body_bytes=200))
        for queue_id in range(QUEUES):
            assert rig.numbers("TopicA", queue_id) == list(range(queue_id, 4 * QUEUES, QUEUES))
        for number in range(0, 4 * QUEUES, 97):
            found = rig.store.query("TopicA", f"key{number}", 1, 0, START_MS * 2, IndexType.KEY)
            assert len(found.units) == 1
        assert len(list((tmp_path / "index").iterdir())) > 40
        assert len(list((tmp_path / "commitlog").iterdir())) > 10
        assert len(os.listdir("/proc/self/fd")) - before <= 40 + 4, "lock, its directory, checkpoint"
        if start == "first":
            rig.reopen()
    assert rig.store.close(rig.wall_ms)


def test_a_system_without_descriptors_makes_the_store_let_go_of_its_own() -> None:
    for operation, queue_ids in (("open", range(20)), ("create", range(20, 40))):
        disk = MemoryDisk()
        rig = Rig(disk, small(open_files_max=8))
        for number in range(20):
            rig.put(draft(number, queue_id=number))
        disk.faults = [Fault(operation, first=first, error=errno.EMFILE) for first in (2, 5, 9)]
        for queue_id in queue_ids:
            rig.put(draft(100 + queue_id, queue_id=queue_id))
        assert rig.store.refusal is None
        assert [rig.numbers("TopicA", queue_id)[-1] for queue_id in queue_ids] == [100 + queue_id for queue_id in queue_ids]


def synced(store: Store, mono_ms: int, *, force: bool) -> bool:
    ticket = store.begin_sync(mono_ms, force)
    if ticket is None:
        return False
    try:
        ticket.run()
    except OSError as error:
        store.end_sync(ticket, error)
    else:
        store.end_sync(ticket, None)
    return True


def test_a_sync_for_which_there_was_no_descriptor_comes_again() -> None:
    """No sync has failed: the store is not fenced, and what waits for the sync has it a little later."""
    disk = MemoryDisk()
    rig = Rig(disk, sync_settings())
    [placed] = rig.put(draft(0))
    disk.faults = [Fault("sync_directory", error=errno.EMFILE)]
    assert synced(rig.store, rig.mono_ms, force=True)
    assert rig.store.refusal is None
    assert rig.store.flushed_offset < placed.end_offset
    assert not synced(rig.store, rig.mono_ms, force=True), "not at once, again and again"
    assert rig.store.next_due(rig.mono_ms) <= rig.mono_ms + 100
    assert synced(rig.store, rig.mono_ms + 100, force=False)
    assert rig.store.flushed_offset == placed.end_offset
    rig.store.dispatch(rig.wall_ms)
    after = disk.crash("synced")
    rig.disk = after
    rig.open()
    assert rig.numbers() == [0]
