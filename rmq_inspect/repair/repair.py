"""A new store out of a damaged one: the good messages at their places, everything that is derived made anew.

DIR is only read.  NEWDIR must be new; while it is being made it holds the file `abort`, so that a broker which is started on
half of it takes it for what it is.  The log comes first (`repair.log`); then the engine of the store makes queues, index and
checkpoint of it as at any start (`rmq_store.recovery.rebuild`), and is given what only the old queues know (`repair.old_queues`).
Configuration is taken over where it can be read, from its backup where only that can; the timer's files as they are, for every
offset in them is still right, when their sizes are.

`repair_in_place` makes the lost tables of a store that is otherwise sound again (`repair.tables`), the one thing that is ever
written into DIR: unreadable copies are moved aside, nothing is overwritten, and the store is locked meanwhile as by a broker.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any, Final

from rmq_columns.checks.findings import Findings
from rmq_columns.files.syncs import make_directories, sync_directory, sync_tree
from rmq_inspect.decode import files as small_files
from rmq_inspect.decode.directory import StoreDirectory, StoreFile
from rmq_inspect.decode.index_file import IndexReader
from rmq_inspect.decode.queues import BATCH, UNIT
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress, quiet
from rmq_inspect.repair.log import write_log
from rmq_inspect.repair.old_queues import HEAD as EXTENSION_HEAD
from rmq_inspect.repair.old_queues import OldQueues
from rmq_inspect.repair.report import Report
from rmq_inspect.repair.tables import Made, tables_of
from rmq_inspect.verify.state import check_timer
from rmq_store.disk.config_files import BROKEN_SUFFIX, persist_config
from rmq_store.disk.disk import RealDisk
from rmq_store.errors import StoreError
from rmq_store.log.walk import has_lost_sector
from rmq_store.recovery.rebuild import rebuild
from rmq_store.settings import StoreSettings
from rmq_wire import store_names
from rmq_wire.layout.consume_queue import EXT_END_BYTES
from rmq_wire.layout.index import DEFAULT_ENTRIES, DEFAULT_SLOTS, ENTRIES_PER_SLOT
from rmq_wire.store_names import ABORT

UNITS_PER_FILE: Final = 300_000
"""Of a consume queue by default (`mappedFileSizeConsumeQueue`)."""
EXTENSION_FILE_BYTES: Final = 48 << 20
"""`mappedFileSizeConsumeQueueExt` by default."""
OPEN_FILES_MAX: Final = 128
"""Of the new store, beside those of the old one: some systems give a process 256."""
YEAR_9999_MS: Final = 253_370_764_800_000
"""What has a name of 17 digits: index files are called by their time."""
BACKUP: Final = ".bak"


def repair(
    store: StoreDirectory, to: Path, *, slots: int | None = None, queue_file_bytes: int | None = None, progress: Progress = quiet
) -> Report:
    """Make the new store; what was saved and lost.

    slots: `maxHashSlotNum` where no index file says; `maxIndexNum` is then taken to be four times that, as by default.
    queue_file_bytes: `mappedFileSizeConsumeQueue` where no queue file says.

    Raises `CannotLook` when the new directory is not new, or nothing can be saved; `NotPermitted`.
    """
    if not store.commit_log:
        raise CannotLook(
            f"{store.root}: no commit log file, so there is nothing to repair (--commit-log DIR, if it is elsewhere)"
        )
    for file in store.commit_log:  # what may not be read is reported before anything is made
        with contextlib.suppress(CannotLook):
            file.open().close()
    _check_place(store, to)
    try:
        return _repair(store, to, slots, queue_file_bytes, progress)
    except OSError as reason:
        raise CannotLook(f"{to}: {reason.strerror or reason}: what was made so far is there, with a file `abort`") from reason
    except StoreError as reason:
        raise CannotLook(str(reason)) from reason


def repair_in_place(store: StoreDirectory, wall_ms: int, *, progress: Progress = quiet) -> Made:
    """Make the lost tables again; the unreadable copies stay as `.broken`.  wall_ms: the new tables' version.

    Raises `CannotLook` when a broker runs on the store, or the disk says no: nothing that could be read is touched in any case.
    """
    disk = RealDisk()
    root = os.path.abspath(store.root)
    try:
        lock = disk.lock(f"{root}/lock")
        if lock is None:
            raise CannotLook(f"{store.root}: a broker runs on this store; stop it first")
        try:
            made = tables_of(store, wall_ms, progress)
            for name in made.broken:
                _make_way(disk, f"{root}/config/{name}", made.texts.get(name))
            for name in made.texts.keys() - set(made.broken):
                persist_config(disk, f"{root}/config/{name}", [made.texts[name]])
            if made.broken:
                disk.sync_directory(f"{root}/config")
        finally:
            lock.release()
    except (OSError, StoreError) as reason:
        raise CannotLook(f"{store.root}: {reason}") from reason
    return made


def _make_way(disk: RealDisk, path: str, text: bytes | None) -> None:
    """Keep an unreadable copy as `.broken`.  Where a new file takes its place that one comes first: at no instant does the table
    look as if there had never been one.
    """
    aside = path + BROKEN_SUFFIX
    if text is not None:
        persist_config(disk, path, [text])
        path += BACKUP  # which the copy is now
    disk.rename(path, aside)


def _check_place(store: StoreDirectory, to: Path) -> None:
    here, there = os.path.realpath(store.root), os.path.realpath(to)
    if os.path.commonpath([here, there]) in (here, there):
        raise CannotLook(f"{to}: a repaired store must lie beside the old one, not within it or around it")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise CannotLook(f"{to}: is there already and not empty; a repair never writes into a store")
    try:
        make_directories(os.path.abspath(to))
        needed = sum(file.path.stat().st_blocks * 512 for file in store.commit_log)
        free = shutil.disk_usage(to).free
    except OSError as reason:
        raise CannotLook(f"{to}: {reason.strerror}") from reason
    if needed > free:
        raise CannotLook(f"{to}: the log takes {needed} bytes and {free} are free")


def _repair(store: StoreDirectory, to: Path, slots: int | None, queue_file_bytes: int | None, progress: Progress) -> Report:
    report = Report()
    (to / ABORT).touch()
    if store.abort is not None:
        report.notes.append("the broker did not stop cleanly (abort is there)")
    _config(store, to, report)
    log_file_bytes = write_log(store.commit_log, to / store_names.COMMIT_LOG, report, progress, has_lost_sector)
    _derive(store, to, report, log_file_bytes, slots, queue_file_bytes, progress)
    _timer(store, to, report)
    _summarize(report)
    sync_tree(str(to))
    (to / ABORT).unlink()
    sync_directory(str(to))
    return report


def _summarize(report: Report) -> None:
    if report.restarts:
        times = f"{report.restarts} time(s) a queue begins anew in the log"
        report.notes.append(f"{times}: its topic was deleted and made again, only the messages of its last life are in it")
    if report.fillers:
        fillers = f"{report.fillers} filler(s) of an earlier repair"
        report.notes.append(f"{fillers} stand in the log, where messages had been lost; they are kept")


def _derive(
    store: StoreDirectory,
    to: Path,
    report: Report,
    log_file_bytes: int,
    slots: int | None,
    queue_file_bytes: int | None,
    progress: Progress,
) -> None:
    """Queues, index and checkpoint out of the new log, by the engine of the store."""
    slot_num, entries_max = _index_sizes(store, slots, report)
    settings = StoreSettings(
        store_path_root_dir=os.path.abspath(to),
        mapped_file_size_commit_log=log_file_bytes,
        mapped_file_size_consume_queue=_queue_file_bytes(store, queue_file_bytes, report),
        mapper_file_size_batch_consume_queue=_file_bytes(store.batch_queues, UNITS_PER_FILE * BATCH.size, unit=BATCH.size),
        mapped_file_size_consume_queue_ext=_extension_file_bytes(store),
        max_hash_slot_num=slot_num,
        max_index_num=entries_max,
        enable_lmq=True,
        enable_multi_dispatch=True,
        open_files_max=OPEN_FILES_MAX,
    )
    batch_topics = _batch_topics(store, report)
    old = OldQueues(store, report, progress)
    made = rebuild(
        RealDisk(),
        settings,
        min(max(report.last_stored_ms, 0), YEAR_9999_MS),
        has_batch_queues=batch_topics.__contains__,
        previous=old,
    )
    if made.report.end != report.log_end:
        why = f"could be read up to {made.report.end}: {made.report.reason}"
        raise CannotLook(f"{to}: the log ends at {report.log_end}, but {why}")
    bridged = old.close(made.bounds)
    report.queues = len(made.bounds) + len(made.batch_entries)
    entries = sum(end - start for start, end in made.bounds.values()) + sum(made.batch_entries.values())
    report.queue_units = entries - bridged
    report.index_files, report.index_entries = made.index_files, made.index_entries
    if unknown := sorted({topic for topic, _ in made.bounds} - {topic for topic, _ in store.queues}) if store.queues else []:
        named = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
        report.notes.append(f"topics without a queue before, with one now: {named} (deleted ones? then delete them again)")


def _queue_file_bytes(store: StoreDirectory, given: int | None, report: Report) -> int:
    default = -(-given // UNIT.size) * UNIT.size if given else UNITS_PER_FILE * UNIT.size
    found = _file_bytes(store.queues, default, unit=UNIT.size)
    if not given and not any(store.queues.values()):
        report.notes.append(f"no queue file says its size; taken is {found} (--queue-file-bytes: mappedFileSizeConsumeQueue)")
    return found


def _extension_file_bytes(store: StoreDirectory) -> int:
    return _file_bytes(store.extensions, EXTENSION_FILE_BYTES, size_min=EXTENSION_HEAD.size + EXT_END_BYTES)


def _file_bytes(rows: dict[tuple[str, int], list[StoreFile]], default: int, *, unit: int = 1, size_min: int = 1) -> int:
    """The size that most files of this kind have.  unit: it is a multiple of that."""
    sizes: dict[int, int] = {}
    for row in rows.values():
        for file in row:
            if file.size >= size_min and file.size % unit == 0:
                sizes[file.size] = sizes.get(file.size, 0) + 1
    return max(sizes, key=lambda size: sizes[size]) if sizes else default


def _index_sizes(store: StoreDirectory, slots: int | None, report: Report) -> tuple[int, int]:
    """`maxHashSlotNum`, `maxIndexNum`: those of the newest file that says, else the defaults."""
    for file in reversed(store.index):
        try:
            with IndexReader(file, slots) as reader:
                if reader.slots and reader.capacity > 1:
                    return reader.slots, reader.capacity
        except CannotLook as reason:
            report.notes.append(str(reason))
    if slots:
        return slots, slots * ENTRIES_PER_SLOT
    if store.index:
        report.notes.append(
            f"no index file says its sizes; taken are {DEFAULT_SLOTS} slots and {DEFAULT_ENTRIES} entries (--hash-slots)"
        )
    return DEFAULT_SLOTS, DEFAULT_ENTRIES


def _batch_topics(store: StoreDirectory, report: Report) -> set[str]:
    """Topics with the attribute queue.type=BatchCQ."""
    for name in ("topics.json", "topics.json.bak"):
        if name not in store.config:
            continue
        try:
            value: Any = small_files.config_value(store.config[name])
            table = value["topicConfigTable"]
            return {topic for topic, config in table.items() if (config.get("attributes") or {}).get("queue.type") == "BatchCQ"}
        except (CannotLook, KeyError, TypeError, AttributeError):
            continue
    report.notes.append("no topics.json can be read: the broker will know no topic until it is made again (mqadmin updateTopic)")
    return {topic for topic, _ in store.batch_queues}


def _config(store: StoreDirectory, to: Path, report: Report) -> None:
    """Files that can be read, under their own names; a backup in the place of a file that cannot."""
    names = sorted({name.removesuffix(BACKUP) for name in store.config})
    directory = to / store_names.CONFIG
    for name in names:
        for source in (name, name + BACKUP):
            file = store.config.get(source)
            if file is None:
                continue
            try:
                small_files.config_value(file)
            except CannotLook as reason:
                report.notes.append(f"left out: {reason}")
                continue
            _copy(file, directory / name)
            report.config.append(name if source == name else f"{name} (from {source})")
            break


def _timer(store: StoreDirectory, to: Path, report: Report) -> None:
    findings = Findings()
    check_timer(store, findings)
    if findings.total:
        wrong = ", ".join(f"{one.file} has {one.detail}" for one in findings.kept)
        report.notes.append(f"the timer's wheel and log are left out ({wrong}): Java builds them anew from their topic")
        return
    for file in (store.timer_wheel, store.timer_check, *store.timer_log):
        if file is not None and file.size:
            _copy(file, to.joinpath(*file.parts))
    if store.timer_log:
        report.notes.append("the timer's wheel and log are taken over as they are")


def _copy(file: StoreFile, path: Path) -> None:
    """At full length, holes as holes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with file.open() as reader, path.open("xb") as made:
        for begin, end in reader.data_ranges():
            for at, data in reader.chunks(begin, end):
                made.seek(at)
                made.write(data)
        made.truncate(reader.size())
