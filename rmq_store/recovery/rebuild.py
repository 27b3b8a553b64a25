"""Queues and index of a directory that has a log and nothing else, made by the recovery that every start uses.

For whoever made the log and the directory (`rmq inspect repair`): there are no locks, marks or earlier files to mind, and the
caller syncs the directory when all of it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from rmq_store.disk.checkpoint import open_checkpoint
from rmq_store.disk.disk import Disk
from rmq_store.disk.segments import OpenFiles
from rmq_store.index.index import Index
from rmq_store.log.commit_log import CommitLog
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.recovery.boot_mark import Cache
from rmq_store.recovery.recovery import Recovery
from rmq_store.recovery.report import Report
from rmq_store.settings import StoreSettings
from rmq_wire import store_names
from rmq_wire.implied.previous_queues import PreviousQueues
from rmq_wire.times import Zone


class Rebuilt(NamedTuple):
    """What was made."""

    report: Report
    bounds: dict[tuple[str, int], tuple[int, int]]
    """(topic, queue id) -> first and next offset of a queue with one entry a message"""
    batch_entries: dict[tuple[str, int], int]
    """(topic, queue id) -> entries of a batch queue"""
    index_files: int
    index_entries: int


def rebuild(
    disk: Disk,
    settings: StoreSettings,
    wall_ms: int,
    *,
    zone: Zone = None,
    has_batch_queues: Callable[[str], bool],
    previous: PreviousQueues,
) -> Rebuilt:
    """Make queues, index and checkpoint of the log.  `wall_ms`, `zone`: for the names of index files.

    Raises StoreRefused, OSError.
    """
    root = settings.store_path_root_dir
    files = OpenFiles(disk, settings.open_files_max)
    log = CommitLog(settings, files)
    queues = Queues(settings, files, has_batch_queues, previous)
    index = Index(files, f"{root}/{store_names.INDEX}", settings.max_hash_slot_num, settings.max_index_num, zone)
    log.segments.load(False)
    checkpoint = open_checkpoint(disk, root)
    with_index = replace(settings, message_index_enable=True)
    recovery = Recovery(with_index, log, queues, index, checkpoint, Cache.WHOLE, previous=previous)
    report, dispatcher = recovery.run(False, wall_ms)
    index.close()
    if index.files:
        checkpoint.index_message_timestamp = index.files[-1].end_timestamp
    checkpoint.physic_message_timestamp = checkpoint.logics_message_timestamp = dispatcher.last_store_timestamp
    checkpoint.logics_physical_offset = dispatcher.last_physical_offset
    checkpoint.write()
    there = [queue for queue in queues if queue.segments.starts]
    made = Rebuilt(
        report,
        {(queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset) for queue in there if not queue.is_batch},
        {(queue.topic, queue.queue_id): queue.end_place for queue in there if isinstance(queue, BatchConsumeQueue)},
        len(index.files),
        sum(file.count - 1 for file in index.files),
    )
    files.clear()
    return made
