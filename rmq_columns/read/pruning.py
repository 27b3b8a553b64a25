"""Which part of a log need not be read, since its consume queues say where the messages of the chosen topics stand.

Believed is only what can be checked: the queues that topics.json counts are all there and begin with what the log still has,
files of one size follow each other, and the checkpoint says up to which message they are complete; the log behind that is
scanned.  What speaks against it is said in a few words, and everything is scanned.  Tasks check each unit, and each message that
it leads to (`rmq_columns.read.pruned`).
Sources: `StoreCheckpoint`, `ConsumeQueue`, `CommitLog.recoverAbnormally` of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from rmq_columns.decode.dtypes import QUEUE_UNIT, Records, records
from rmq_columns.decode.queues import is_empty, is_filler, is_written
from rmq_columns.errors import CannotRead, FileGone
from rmq_columns.files.filesystem import PLACE_MAX, File, Tree, joined
from rmq_columns.read.offsets import QueueRanges
from rmq_columns.read.options import Mode, Options, Pruning
from rmq_columns.read.seams import count_below, first_time, stands_at, unit_end
from rmq_columns.read.stores import LogFile, Queue, Store
from rmq_wire.layout.checkpoint import FIELDS_FLAT
from rmq_wire.names import LMQ_PREFIX
from rmq_wire.store_names import ABORT, CHECKPOINT

QUEUES_MAX: Final = 128
"""Each costs every task a dozen small reads; of more queues a scan asks less often."""
CHECKED_BYTES_MAX: Final = 64 << 20
"""Of queues: up to so many whoever plans looks at every unit; of more each task at those that it needs."""
QUEUE_SHARE_MAX: Final = 1 / 64
"""Of a remote log's bytes that may be asked for of its queues beforehand."""
SLICE_UNITS: Final = 1 << 18
SHARE_MAX: Final = 0.25
"""Of the log's bytes: whoever wants more of them is faster with a scan."""
CHECKPOINT_MARGIN_MS: Final = 3000
"""After an unclean stop, as `StoreCheckpoint.getMinTimestamp` has it."""
UNIT_BYTES: Final = QUEUE_UNIT.itemsize
AT_ONCE: Final = 16
"""Remote files whose beginnings are read at the same time."""
Input = TypeVar("Input")
Output = TypeVar("Output")


class QueueFile(NamedTuple):
    """A file of a chosen queue.  start: number of its first unit.  units: that were written.  first_place: physical
    offset in the first; -1 where nothing is written.  low, high: queue offsets that are wanted, the end not included.
    """

    path: str
    topic: str
    queue_id: int
    start: int
    units: int
    first_place: int
    low: int
    high: int


@dataclass(frozen=True)
class Pruned:
    """Of one store, or of one split: the files of its queues, each queue's in a row."""

    files: tuple[QueueFile, ...]
    queues: int
    until: int
    """physical offset from which on the log is scanned"""
    share: float
    """of the log's bytes that the queues lead to, more or less"""
    checked_from: int = 0
    """physical offset from which on the split's first part also checks the units"""

    def of_range(self, checked_from: int, end: int) -> Pruned:
        """Only with the files that may have units for these bytes of the log."""
        kept = []
        for file, following in zip(self.files, (*self.files[1:], None), strict=True):
            is_last = following is None or (following.topic, following.queue_id) != (file.topic, file.queue_id)
            next_place = -1 if is_last or following is None else following.first_place
            if file.units and file.first_place < end and (next_place < 0 or next_place > checked_from):
                kept.append(file)
        return replace(self, files=tuple(kept), checked_from=checked_from)


def prune(tree: Tree, store: Store, options: Options, logs: Sequence[LogFile]) -> Pruned | str:
    """What the queues say, or why the log is scanned; empty where nothing was chosen that they could know."""
    if options.topics is None or options.pruning is Pruning.OFF or not logs:
        return ""
    if options.mode is Mode.PERMISSIVE:
        return "mode=PERMISSIVE shows what lies between the messages, too"
    if not store.root:
        return "no queues lie beside the log"
    if any(topic.startswith(LMQ_PREFIX) for topic in options.topics):
        return "light queues lead to messages of other topics"
    if any(one.end != following.start for one, following in pairwise(logs)):
        return "a file of the log is missing"
    log_bytes = logs[-1].end - logs[0].start
    try:
        queues = list(islice(store.queues(tree, options), QUEUES_MAX + 1))
        if why := _missing(tree, store, options, queues):
            return why
        files = _files(tree, options, queues, logs)
        until = _dispatched_until(tree, store, logs)
    except FileGone as gone:
        return f"{gone.path} was deleted meanwhile"
    except CannotRead as reason:
        return str(reason)
    if isinstance(files, str) or isinstance(until, str):
        return files if isinstance(files, str) else str(until)
    if until <= logs[0].start:
        return "the checkpoint is older than the log's first file"
    made, asked = files
    share = asked / log_bytes
    if share > SHARE_MAX:
        return f"they are {share:.0%} of the log"
    return Pruned(made, len(queues), until, share)


def each(tree: Tree, what: Callable[[Input], Output], inputs: Iterable[Input]) -> Iterator[Output]:
    """The results in order; many at once where each costs some round trips."""
    if tree.is_local:
        yield from map(what, inputs)
        return
    with ThreadPoolExecutor(AT_ONCE, "plan") as pool:
        yield from pool.map(what, inputs)


def _missing(tree: Tree, store: Store, options: Options, queues: Sequence[Queue]) -> str:
    """Why these are not all queues of the topics, or are none to be asked; empty if they are."""
    if len(queues) > QUEUES_MAX:
        return f"they have more than {QUEUES_MAX} queues"
    if batch := next((queue for queue in queues if queue.is_batch), None):
        return f"{batch.topic} has batch queues"
    configured = store.topics(tree)
    if configured is None:
        return "no topics.json says how many queues there are"
    there = {(queue.topic, queue.queue_id) for queue in queues if queue.files}
    for topic in sorted(options.topics or ()):
        known = configured.get(topic)
        count = _queue_count(known) if isinstance(known, dict) else None
        if count is None or count > QUEUES_MAX:
            return f"topics.json does not say how many queues {topic} has"
        for queue_id in range(count):
            if (options.queue_ids is None or queue_id in options.queue_ids) and (topic, queue_id) not in there:
                return f"queue {queue_id} of {topic} has no files"
    return ""


def _queue_count(configured: dict[str, Any]) -> int | None:
    """Of a topic; None where that is not said."""
    counts = [configured.get(name) for name in ("readQueueNums", "writeQueueNums")]
    known = [one for one in counts if isinstance(one, int) and one >= 0]
    return max(known) if len(known) == len(counts) else None


def _files(
    tree: Tree, options: Options, queues: Sequence[Queue], logs: Sequence[LogFile]
) -> tuple[tuple[QueueFile, ...], int] | str:
    """(the files, bytes of messages to which their units lead, more or less), or what is wrong with them."""
    ranges = QueueRanges(options.starting_offsets, options.ending_offsets)
    log_bytes = logs[-1].end - logs[0].start
    sizes = {file.size for queue in queues for file in queue.files}
    if len(sizes) > 1 or any(size % UNIT_BYTES for size in sizes):
        return "files of its queues have different sizes: some are not whole"
    checked = sum(file.size for queue in queues for file in queue.files)
    at_end = sum(queue.files[-1].size for queue in queues if queue.files)
    if not tree.is_local and at_end > QUEUE_SHARE_MAX * log_bytes:
        return "its queues' last files alone are much beside the log"
    is_checked = checked <= (CHECKED_BYTES_MAX if tree.is_local else min(CHECKED_BYTES_MAX, int(QUEUE_SHARE_MAX * log_bytes)))
    made: list[QueueFile] = []
    asked = 0

    def files_of(queue: Queue) -> tuple[list[QueueFile], int] | str:
        wanted = ranges.range_of(queue.topic, queue.queue_id)
        return _wrong_end(tree, queue, logs) or _files_of(tree, queue, wanted, logs[0].start, is_checked=is_checked)

    for found in each(tree, files_of, queues):
        if isinstance(found, str):
            return found
        made += found[0]
        asked += found[1]
    return tuple(made), asked


def _files_of(
    tree: Tree, queue: Queue, wanted: tuple[int, int], log_start: int, *, is_checked: bool
) -> tuple[list[QueueFile], int] | str:
    """The same of one queue, with the files in which wanted offsets stand.  is_checked: all its units, not the last ones only."""
    if any(one.end != following.start for one, following in pairwise(queue.files)):
        return f"a file of queue {queue.queue_id} of {queue.topic} is missing"
    made: list[QueueFile] = []
    before, asked = -1, 0
    for file in queue.files:
        is_last = file is queue.files[-1]
        with tree.open(file.path) as opened:
            units = _written(opened, file, before, is_checked=is_checked or is_last, is_last=is_last)
        if isinstance(units, str):
            return units
        place, size, count = units
        if file is queue.files[0] and file.start and place > log_start:
            return f"{file.path} begins behind the log's first message: what was before it is not known"
        before = max(before, place)
        start = file.start // UNIT_BYTES
        low, high = wanted
        if start + count > low and start < high:
            made.append(QueueFile(file.path, queue.topic, queue.queue_id, start, count, place, low, high))
            asked += size * max(min(start + count, high) - max(start, low), 0)
    return made, asked


def _wrong_end(tree: Tree, queue: Queue, logs: Sequence[LogFile]) -> str:
    """Why the last unit cannot be right: it leads to no message, or to another.  Empty where it is, or the log has it no more."""
    file, number, last = queue.files[0], -1, b""
    for file in reversed(queue.files):
        with tree.open(file.path) as opened:
            number = count_below(opened, file.size // UNIT_BYTES, PLACE_MAX) - 1
            last = opened.read(number * UNIT_BYTES, UNIT_BYTES) if number >= 0 else b""
        if last:
            break
    if not last:
        return ""
    [unit] = records(last, QUEUE_UNIT)
    place, size = int(unit["physical_offset"]), int(unit["size"])
    if place < logs[0].start:
        return ""
    said = {"queue_id": queue.queue_id, "queue_offset": file.start // UNIT_BYTES + number, "size": size, "physical_offset": place}
    log = next((one for one in logs if one.start <= place < one.end), None)
    if log is not None:
        with tree.open(log.path) as held:
            if stands_at(held, place - log.start, **said):
                return ""
    return f"the last unit of queue {queue.queue_id} of {queue.topic} leads to {place} of the log, where its message is not"


def _written(opened: File, file: LogFile, before: int, *, is_checked: bool, is_last: bool) -> tuple[int, int, int] | str:
    """(where the first unit leads, its message's size, how many units), or what is wrong."""
    room = file.size // UNIT_BYTES
    first = records(opened.read(0, UNIT_BYTES), QUEUE_UNIT)
    if not is_checked:
        wrong, count = wrong_unit(first, before), room
    else:
        wrong, count = _checked(opened, room, before)
    if wrong < 0 and count < room and not is_last:
        wrong = count
    if wrong >= 0 or not len(first):
        return f"{file.path}, byte {max(wrong, 0) * UNIT_BYTES}: no unit, or one that leads back in the log"
    return (int(first[0]["physical_offset"]), int(first[0]["size"]), count) if count else (-1, 0, 0)


def _checked(opened: File, room: int, before: int) -> tuple[int, int]:
    """(number of the first unit that is wrong, or -1; how many units were written, with nothing behind them)."""
    count, is_over = 0, False
    for begin, hole in opened.data_ranges(0):
        at, end = begin // UNIT_BYTES, min(-(-hole // UNIT_BYTES), room)
        while at < end:
            units = records(opened.read(at * UNIT_BYTES, min(end - at, SLICE_UNITS) * UNIT_BYTES), QUEUE_UNIT)
            if not len(units):
                break
            empty = is_empty(units)
            written = int(np.argmax(empty)) if empty.any() else len(units)
            if (written and (is_over or at > count)) or not empty[written:].all():
                return count, count
            skipped = max(count - at, 0)  # a unit may lie in two ranges
            if (wrong := wrong_unit(units[skipped:written], before)) >= 0:
                return at + skipped + wrong, count
            if written > skipped:
                before, count = int(units[written - 1]["physical_offset"]), at + written
            is_over = is_over or written < len(units)
            at += len(units)
    return -1, count


def wrong_unit(units: Records, before: int = -1) -> int:
    """Number of the first one that is none, or does not lead behind the one before it; -1 when all do.

    before: where the one before the first leads.
    """
    places = units["physical_offset"].astype(np.int64)
    wrong = ~is_written(units) | is_filler(units)
    wrong |= np.diff(places, prepend=before) <= 0
    return int(np.argmax(wrong)) if wrong.any() else -1


def _dispatched_until(tree: Tree, store: Store, logs: Sequence[LogFile]) -> int | str:
    """Where the first message stands that may be missing in the queues.

    After a clean stop: behind the message that the checkpoint names.  Else, and where a version names none: the beginning of the
    newest file whose first message the checkpoint covers, from which Java would dispatch again.
    """
    path = joined(store.root, CHECKPOINT)
    if tree.file_size(path) is None:
        return "no checkpoint says how far its queues were written"
    with tree.open(path) as file:
        raw = file.read(0, FIELDS_FLAT.size)
    if len(raw) < FIELDS_FLAT.size:
        return "its checkpoint is not whole"
    fields: dict[str, Any] = dict(zip(FIELDS_FLAT.names, FIELDS_FLAT.packed.unpack(raw), strict=True))
    covered_ms, place = fields["logics_msg_timestamp"], fields["logics_physical_offset"]
    if covered_ms <= 0:
        return "its checkpoint does not say how far its queues were written"
    is_clean = tree.file_size(joined(store.root, ABORT)) is None
    if is_clean and place > 0 and (end := _end_of(tree, logs, place, covered_ms)) is not None:
        return end
    limit = covered_ms if is_clean else covered_ms - CHECKPOINT_MARGIN_MS
    for log in reversed(logs):
        with tree.open(log.path) as file:
            stored = first_time(file)
        if stored is not None and 0 < stored <= limit:
            return log.start
    return logs[0].start


def _end_of(tree: Tree, logs: Sequence[LogFile], place: int, covered_ms: int) -> int | None:
    """Behind the message that stands here, if it is the one that was stored then."""
    log = next((one for one in logs if one.start <= place < one.end), None)
    if log is None:
        return None
    with tree.open(log.path) as file:
        at = place - log.start
        end = unit_end(file, log.start, at)
        return log.start + end if end > 0 and first_time(file, at) == covered_ms else None
