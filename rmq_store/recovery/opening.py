"""Opening a directory that is already locked: look at everything first, then touch it, and leave a mark while it is touched.

Whatever has to be refused is found before a byte is changed.  Then `abort` is written, which says to the next start that this one
did not end well, until a clean close removes it.  (Java: DefaultMessageStore.load, which takes its lock only afterwards)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmq_store.disk.checkpoint import Checkpoint, open_checkpoint
from rmq_store.disk.disk import Disk, Kind, write_all
from rmq_store.disk.segments import OpenFiles
from rmq_store.dispatcher import Dispatcher
from rmq_store.errors import ForeignFile, InvariantBroken, StoreDamaged, StoreRefused
from rmq_store.index.index import Index
from rmq_store.log.commit_log import CommitLog
from rmq_store.queues.queues import Queues
from rmq_store.recovery import boot_mark, inventory
from rmq_store.recovery.boot_mark import BootMark
from rmq_store.recovery.recovery import Recovery
from rmq_store.recovery.report import Report
from rmq_store.settings import StoreSettings
from rmq_wire import store_names
from rmq_wire.times import Zone


class Parts(NamedTuple):
    """What an opened directory consists of, in one state."""

    files: OpenFiles
    log: CommitLog
    queues: Queues
    key_index: Index | None
    checkpoint: Checkpoint
    dispatcher: Dispatcher
    report: Report


def open_locked(
    disk: Disk,
    settings: StoreSettings,
    changed: list[str],
    wall_ms: int,
    pid: int,
    zone: Zone,
    has_batch_queues: Callable[[str], bool | None] | None = None,
) -> Parts:
    """`changed`: directories whose entries the caller has changed. Raises StoreRefused, OSError."""
    root = settings.store_path_root_dir
    abort = f"{root}/{store_names.ABORT}"
    text = str(pid).encode()
    present = {entry.name: entry.kind for entry in disk.entries(root)}
    for name in (store_names.ABORT, store_names.CHECKPOINT, boot_mark.NAME, inventory.NAME):
        if present.get(name, Kind.FILE) is not Kind.FILE:
            raise ForeignFile(f"{root}/{name} is a {present[name].value}: move it away")
    # Who removes `abort` by hand has not stopped the broker: then its other mark still stands.
    clean = store_names.ABORT not in present and boot_mark.NAME not in present
    noted = inventory.read(disk, root) if clean else None
    files = OpenFiles(disk, settings.open_files_max - settings.log_maps_max)
    log = CommitLog(settings, files)
    queues = Queues(settings, files, has_batch_queues)
    empty = log.segments.load(clean)
    is_as_left = noted is not None and bool(log.segments.starts) and noted.followed == log.min_offset
    empty += queues.load(clean, noted.queues if noted is not None and is_as_left else {})
    index = Index(files, f"{root}/{store_names.INDEX}", settings.max_hash_slot_num, settings.max_index_num, zone)
    wrong = index.load()
    if not settings.message_index_enable:
        wrong = []  # nobody reads them now
    # Nothing was touched up to here; from here on a stop of any kind must be seen by the next start.
    mark = BootMark(disk, root)
    cache = mark.take()
    if store_names.ABORT not in present:
        write_all(disk.create(abort, 0), 0, text)
        disk.sync_directory(root)
    try:
        for path in [*empty, *wrong]:
            disk.unlink(path)
        for directory in (root, *log.segments.directories, queues.directory):
            changed += disk.make_directories(directory)
        for directory in dict.fromkeys(changed):
            disk.sync_directory(directory)
        checkpoint = open_checkpoint(disk, root)
        if store_names.CHECKPOINT not in present:
            disk.sync_directory(root)
        recovery = Recovery(settings, log, queues, index, checkpoint, cache, noted)
        try:
            report, dispatcher = recovery.run(clean, wall_ms)
        except InvariantBroken as broken:
            raise StoreDamaged(str(broken)) from broken
        report.wrong_index_files = len(wrong)
    except StoreRefused:
        if clean:
            disk.unlink(abort)
        raise
    if not clean:
        file = disk.open(abort)
        write_all(file, 0, text)
        file.set_length(len(text))
    checkpoint.write()
    mark.put()
    return Parts(files, log, queues, dispatcher.index, checkpoint, dispatcher, report)
