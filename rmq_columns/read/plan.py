"""What is to be read, cut into splits that can be sent anywhere: plain values that say exactly which bytes are theirs.

Nothing is walked here.  Directories are listed, of each log file the first units are read, and where a file is cut a few
places are probed (`rmq_columns.read.seams`).  Ranges of time and place leave files out before that; rows are chosen once more
when they are read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Final, NamedTuple

from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_columns.errors import BadOption, FileGone
from rmq_columns.files.filesystem import File, Tree
from rmq_columns.read.offsets import QueueRanges
from rmq_columns.read.options import Options, Strategy, Table
from rmq_columns.read.pruning import Pruned, each, prune
from rmq_columns.read.schema import schema_of
from rmq_columns.read.seams import QueuePlaces, boundaries, displacement, first_time, first_unit, largest, unit_says
from rmq_columns.read.stores import LogFile, Store, list_stores

CLOCK_STEP_MS: Final = 60_000
"""A broker's clock may have been set back by so much between two files without a row being missed by a range of time."""
HEAD_BYTES: Final = 8
"""Of a unit or a blank: its size and its magic word, neither of them 0."""
PRUNED_SPLITS_MIN, PRUNED_FILES_MAX = 32, 16
"""Splits of which little is read are larger than others, as long as there are so many; at most so many times as large."""
QUEUES_LISTED_MAX: Final = 1024
"""Among so many the largest queue is looked for: any with units close enough together will do."""
CHOICES: Final = {
    "topics": {Table.MESSAGES, Table.CONSUME_QUEUE, Table.FILES, Table.TOPICS, Table.CONSUMER_OFFSETS},
    "queueIds": {Table.MESSAGES, Table.CONSUME_QUEUE, Table.FILES, Table.CONSUMER_OFFSETS},
    "startingOffsets or endingOffsets": {Table.MESSAGES, Table.CONSUME_QUEUE},
    "startingTimestamp or endingTimestamp": {Table.MESSAGES, Table.INDEX, Table.GAPS},
    "startingPhysicalOffset or endingPhysicalOffset": {Table.MESSAGES, Table.CONSUME_QUEUE, Table.INDEX, Table.GAPS},
}
"""Option -> tables whose rows it chooses; for any other it is refused, since it would choose nothing."""


class Part(NamedTuple):
    """The bytes start … end of one file.  file_start: of the file's first byte in its log or queue."""

    path: str
    file_start: int
    start: int
    end: int
    displaced_by: int = 0
    """what the file's own units say of their places, minus what its name says"""
    ends_file: bool = True
    is_active: bool = False
    """whether it is the last file of a log that was written to, or one behind that: behind its last unit are zeros"""
    missing_before: int = 0
    """bytes of the log that no file holds, before this one"""
    topic: str = ""
    queue_id: int = -1
    is_batch: bool = False
    was_empty: bool = False
    """whether nothing had been written to it yet: a broker makes the next file of its log before it needs one"""


@dataclass(frozen=True)
class Split:
    """One task: some parts of one store's files, in order.  Can be pickled; equal ones give equal rows while files stay."""

    options: Options
    store: Store
    parts: tuple[Part, ...] = ()
    pruned: Pruned | None = None
    """where its messages stand, by the consume queues; None: everything is read"""
    scanned_since: str = ""
    """why everything is read, though topics were chosen"""

    @property
    def size(self) -> int:
        """Bytes to be read, more or less."""
        return sum(part.end - part.start for part in self.parts)


def plan_splits(options: Options) -> list[Split]:
    """Splits whose rows, one after another, are the table.  Raises `BadOption`, `CannotRead`."""
    schema_of(options)
    given = (
        options.topics is not None,
        options.queue_ids is not None,
        options.wants_queue_offset(),
        options.wants_time(),
        options.wants_offset(),
    )
    for (name, tables), is_given in zip(CHOICES.items(), given, strict=True):
        if is_given and options.table not in tables:
            raise BadOption(f"{name}: rows of {options.table} are not chosen by it")
    return [split for store in list_stores(options) for split in plan_store(options, store)]


def plan_store(options: Options, store: Store) -> Iterator[Split]:
    """Those of one store; for who has looked at the options already.  Raises `BadOption`, `CannotRead`."""
    tree = store.tree(options)
    match options.table:
        case Table.MESSAGES:
            found = prune(tree, store, options, store.log_files(tree))
            why = found if isinstance(found, str) else (yield from _pruned(tree, store, options, found))
            if why is not None:
                parts = _log_parts(tree, store, options)
                yield from (replace(split, scanned_since=why) for split in _packed(options, store, parts))
        case Table.GAPS:
            yield from _packed(options, store, _log_parts(tree, store, options))
        case Table.CONSUME_QUEUE:
            yield from _packed(options, store, _queue_parts(tree, store, options))
        case Table.INDEX:
            files = store.index_files(tree)
            yield from _packed(options, store, (Part(file.path, 0, 0, file.size) for file in files))
        case _:
            yield Split(options, store)


def _packed(options: Options, store: Store, parts: Iterable[Part]) -> Iterator[Split]:
    """Parts in a row until a split is as large as it should be."""
    held: list[Part] = []
    size = 0
    for part in parts:
        if held and size + part.end - part.start > options.split_bytes:
            yield Split(options, store, tuple(held))
            held, size = [], 0
        held.append(part)
        size += part.end - part.start
    if held:
        yield Split(options, store, tuple(held))


def _pruned(tree: Tree, store: Store, options: Options, pruned: Pruned) -> Generator[Split, None, str | None]:
    """Whole files, of which a task reads what the queues lead to; behind that what the queues may not have yet, read as ever."""
    whole = replace(options, split_strategy=Strategy.FILE)
    parts = list(_log_parts(tree, store, whole))
    if any(part.displaced_by for part in parts):
        return "a file of the log says that it is another one"
    before = [part for part in parts if part.file_start + part.end <= pruned.until]
    behind = parts[len(before) :]
    if behind and behind[0].file_start + behind[0].start < pruned.until:
        cut = pruned.until - behind[0].file_start
        before.append(behind[0]._replace(end=cut, ends_file=False))
        behind[0] = behind[0]._replace(start=cut, missing_before=0)
        if behind[0].is_active and _is_empty(tree, behind[0].path, cut):
            del behind[0]  # of a log that ends here, as after a clean stop: its zeros need no look
    total = sum(part.end - part.start for part in before)
    size = min(max(total // PRUNED_SPLITS_MIN, options.split_bytes), PRUNED_FILES_MAX * options.split_bytes)
    checked_from = parts[0].file_start if parts else 0
    for split in _packed(replace(options, split_bytes=size), store, before):
        end = split.parts[-1].file_start + split.parts[-1].end
        own = pruned.of_range(checked_from, end)
        checked_from = end
        if own.files:
            yield replace(split, options=options, pruned=own)
    yield from _packed(options, store, behind)
    return None


def _queue_parts(tree: Tree, store: Store, options: Options) -> Iterator[Part]:
    ranges = QueueRanges(options.starting_offsets, options.ending_offsets)
    for queue in store.queues(tree, options):
        low, high = ranges.range_of(queue.topic, queue.queue_id)
        for file in queue.files:
            if not queue.is_batch and (file.end <= low * QUEUE_UNIT.itemsize or file.start >= high * QUEUE_UNIT.itemsize):
                continue
            yield Part(
                file.path,
                file.start,
                0,
                file.size,
                is_active=file is queue.files[-1],
                topic=queue.topic,
                queue_id=queue.queue_id,
                is_batch=queue.is_batch,
            )


class _LogFile(NamedTuple):
    file: LogFile
    missing_before: int
    is_active: bool
    was_empty: bool


def _log_parts(tree: Tree, store: Store, options: Options) -> Iterator[Part]:
    files = store.log_files(tree)
    if not files or len(store.logs) > 1:
        store.check_log(tree)
    written = _written(tree, files)
    listed = [
        _LogFile(file, max(file.start - files[number - 1].end, 0) if number else 0, number >= written - 1, number >= written)
        for number, file in enumerate(files)
    ]
    if options.wants_offset() and not store.lone:
        low, high = _range(options)
        listed = [one for one in listed if one.file.end > low and one.file.start - one.missing_before < high]
    if options.wants_time():
        listed = _in_time(tree, listed, options)
    places = _queue_places(tree, store, options) if _is_cut(listed, options) else None
    for parts in each(tree, lambda one: _parts_of(tree, one, options, places), listed):
        yield from parts


def _written(tree: Tree, files: list[LogFile]) -> int:
    """How many of the files, but for those at the end to which nothing was written yet."""
    count = len(files)
    while count and _is_empty(tree, files[count - 1].path):
        count -= 1
    return count


def _is_empty(tree: Tree, path: str, at: int = 0) -> bool:
    """By its first bytes, or those from a place on: what else is in it is seen when it is read."""
    try:
        with tree.open(path) as file:
            return not any(file.read(at, HEAD_BYTES))
    except FileGone:
        return False


def _queue_places(tree: Tree, store: Store, options: Options) -> QueuePlaces | None:
    """Of the largest queue.  Remote directories are listed for it only when that was asked for: each is a round trip."""
    is_asked = options.split_strategy is Strategy.CONSUME_QUEUE
    if not is_asked and (options.split_strategy is not Strategy.AUTO or not tree.is_local):
        return None
    unfiltered = replace(options, topics=None, queue_ids=None, include_system_topics=True)
    queue = largest(list(islice(store.queues(tree, unfiltered), QUEUES_LISTED_MAX)))
    if queue is None and is_asked:
        raise BadOption(f"splitStrategy: no consume queue in {store.root or store.uri}")
    return QueuePlaces(tree, queue) if queue is not None else None


def _parts_of(tree: Tree, one: _LogFile, options: Options, places: QueuePlaces | None) -> list[Part]:
    try:
        with tree.open(one.file.path) as opened:
            displaced_by = displacement(opened, one.file.start)
            cuts = _cuts(opened, one, displaced_by, options, places)
    except FileGone:  # by retention, since it was listed; whoever reads it says so
        displaced_by, cuts = 0, [0, one.file.size]
    return [
        Part(
            one.file.path,
            one.file.start,
            start,
            end,
            displaced_by,
            end == one.file.size,
            one.is_active,
            0 if number else one.missing_before,
            was_empty=one.was_empty,
        )
        for number, (start, end) in enumerate(pairwise(cuts))
    ]


def _range(options: Options) -> tuple[int, int]:
    low, high = options.starting_offset, options.ending_offset
    return 0 if low is None else low, (1 << 63) - 1 if high is None else high


def _is_cut(listed: list[_LogFile], options: Options) -> bool:
    return options.wants_offset() or any(one.file.size > options.split_bytes for one in listed)


def _cuts(file: File, one: _LogFile, displaced_by: int, options: Options, places: QueuePlaces | None) -> list[int]:
    """Where parts of this file begin, and where the last one ends; all of them where units begin."""
    log = one.file
    if options.split_strategy is Strategy.FILE:
        return [0, log.size]
    own_start = log.start + displaced_by

    def unit_at(nominal: int, limit: int, may_guess: bool) -> int | None:
        if places is not None:
            place = places.first_behind(own_start + nominal)
            if place is not None and nominal <= place - own_start < limit and unit_says(file, own_start, place - own_start):
                return place - own_start
        if not may_guess:
            return None
        return first_unit(file, own_start, nominal, limit)

    low, high = _range(options)
    start, end = 0, log.size
    by_magic = options.split_strategy is Strategy.MAGIC  # else the range begins at a queue's word or is walked to: no split
    if 0 < low - own_start < log.size:  # before it would notice that the place is forged
        start = _start_at(file, own_start, low, places) or (unit_at(low - own_start, log.size, True) if by_magic else None) or 0
    if start < high - own_start < log.size:
        end = unit_at(high - own_start, log.size, by_magic) or log.size
    may_guess = options.split_strategy is not Strategy.CONSUME_QUEUE
    found = [start]
    data_end = min(end, max((end for _, end in file.data_ranges(start)), default=start)) if one.is_active else end
    for nominal in boundaries(start, data_end, options.split_bytes):
        place = unit_at(nominal, min(end, nominal + options.split_bytes), may_guess) if nominal > found[-1] else None
        if place is not None and found[-1] < place < end:
            found.append(place)
    return [*found, end]


def _start_at(file: File, own_start: int, low: int, places: QueuePlaces | None) -> int | None:
    """Byte at which a unit begins from which the chain leads to `low`, over the units of other queues before it."""
    place = None if places is None else places.last_until(low)
    if place is None or place <= own_start or not unit_says(file, own_start, place - own_start):
        return None
    return place - own_start


def _in_time(tree: Tree, listed: list[_LogFile], options: Options) -> list[_LogFile]:
    """Without the files all of whose messages were stored before or behind the range: seen at the first message of each."""
    low = None if options.starting_ms is None else options.starting_ms - CLOCK_STEP_MS
    high = None if options.ending_ms is None else options.ending_ms + CLOCK_STEP_MS
    begins = list(each(tree, lambda one: first_store_timestamp(tree, one.file.path), listed))
    found = []
    for number, one in enumerate(listed):
        begin = begins[number]
        following = next((time for time in begins[number + 1 :] if time is not None), None)
        too_old = low is not None and following is not None and following < low
        too_new = high is not None and begin is not None and begin >= high
        if not too_old and not too_new:
            found.append(one)
    return found


def first_store_timestamp(tree: Tree, path: str) -> int | None:
    """ms, of the first message of a commit log file; None when no unit begins there or the file is gone."""
    try:
        with tree.open(path) as file:
            return first_time(file)
    except FileGone:
        return None
