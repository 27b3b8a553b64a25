"""The files of stores in any file system, as checks need them; and the log of each cut into parts.

Queues and index are compared with the log where the files are local.  Elsewhere each look into a queue is a round trip, some
thousands for each gigabyte of log, so there only the log is checked, and a note says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rmq_columns.checks.condition import Condition, condition_of
from rmq_columns.checks.files import CheckedFile, TreeFile
from rmq_columns.checks.report import LogPart
from rmq_columns.checks.scope import StoreFiles
from rmq_columns.errors import BadOption, CannotRead, without_keys
from rmq_columns.files.filesystem import Tree, joined
from rmq_columns.read.options import Options, Table
from rmq_columns.read.plan import Part, plan_splits
from rmq_columns.read.stores import LogFile, Store, list_stores
from rmq_wire.store_names import ABORT, BATCH_QUEUES, EXTENSIONS, LOCK, QUEUES


@dataclass(frozen=True)
class Listed:
    """One store.  topics: by name, those of topics.json, None where that is unknown."""

    store: Store
    is_local: bool
    files: StoreFiles
    condition: Condition
    topics: dict[str, object] | None
    notes: tuple[str, ...]

    @property
    def can_compare(self) -> bool:
        """Whether queues and index can be held against the log."""
        return self.is_local and bool(self.store.root)


def listed_stores(options: Options) -> list[Listed]:
    """All stores that the paths mean.  Raises `BadOption` where rows are to be chosen, `CannotRead`."""
    if options.topics is not None or options.queue_ids is not None or options.wants_time() or options.wants_offset():
        raise BadOption("topics, queueIds, timestamps and offsets choose rows: an audit looks at everything")
    whole = replace(options, include_system_topics=True)
    return [_listed(store, whole) for store in list_stores(whole)]


def _listed(store: Store, options: Options) -> Listed:
    tree = store.tree(options)
    log = [_file(store, options, one) for one in store.log_files(tree)]
    notes: list[str] = []
    if not tree.is_local:
        notes.append(
            f"{without_keys(store.uri)} is not a file system of this machine: queues and index were not compared with the log, "
            "each look into them would be a round trip; for that run this job, or rmq inspect verify, where the files lie"
        )
    elif not store.root:
        notes.append("only a log was given: there were no queues and no index to compare")
    if not tree.is_local or not store.root:  # whether a broker writes there is unknown: what is just written is no damage
        return Listed(store, tree.is_local, StoreFiles(log), Condition(locked_by=0), None, tuple(notes))
    queues, batch_queues, extensions = (_queues(tree, store, options, name) for name in (QUEUES, BATCH_QUEUES, EXTENSIONS))
    index = [_file(store, options, one) for one in store.index_files(tree)]
    lock = joined(store.root, LOCK)
    has_lock, has_abort = (tree.file_size(joined(store.root, name)) is not None for name in (LOCK, ABORT))
    condition = condition_of(lock if has_lock else None, has_abort)
    topics, problem = _topics(tree, store)
    files = StoreFiles(log, queues, batch_queues, extensions, index)
    return Listed(store, True, files, condition, topics, (*notes, *condition.notes, *problem))


def _queues(tree: Tree, store: Store, options: Options, directory: str) -> dict[tuple[str, int], Sequence[CheckedFile]]:
    return {
        (queue.topic, queue.queue_id): [_file(store, options, one, queue.topic, queue.queue_id) for one in queue.files]
        for queue in store.queues(tree, options, (directory,))
    }


def _topics(tree: Tree, store: Store) -> tuple[dict[str, object] | None, tuple[str, ...]]:
    try:
        return store.topics(tree), ()
    except CannotRead as reason:
        return None, (str(reason),)


def _file(store: Store, options: Options, file: LogFile, topic: str = "", queue_id: int = -1) -> TreeFile:
    name = file.path.removeprefix(store.root.rstrip("/") + "/") if store.root else file.path
    return TreeFile(store.uri, file.path, name, file.start, file.size, topic, queue_id, options.filesystem)


def log_parts(options: Options, stores: Sequence[Listed]) -> list[list[LogPart]]:
    """Of each store the parts of its log, in order, none above `split_bytes` where a cut was found.  Raises `CannotRead`."""
    found: list[list[LogPart]] = [[] for _ in stores]
    number_of = {one.store: number for number, one in enumerate(stores)}
    files = [{file.path: file for file in one.files.log if isinstance(file, TreeFile) and file.size} for one in stores]
    for split in plan_splits(replace(options, table=Table.GAPS, columns=None, kafka_compatible=False)):
        number = number_of.get(split.store)
        if number is None:
            continue  # made since the stores were listed
        last = next(reversed(files[number].values()), None)
        for part in split.parts:
            file = files[number].get(part.path)
            if file is not None:
                found[number].append(_log_part(file, part, file is last))
    return found


def _log_part(file: TreeFile, part: Part, is_last: bool) -> LogPart:
    return LogPart(file, is_last, part.start, None if part.ends_file else part.end, part.displaced_by)
