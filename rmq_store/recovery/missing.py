"""What is not there although the last stop was clean, or is there and cannot be meant: looked for before anything is served.

A log file that is missing between others, or was emptied, cannot be made again, and whatever lies behind it is no continuation:
the start is refused.  Queues are made again from the log, all of them, when one of them lacks a file or has entries that lead
nowhere; that is reported.  What the stop wrote down (`inventory`) says what there was.  Without it, as after a stop of Java's
broker, the files themselves and the log's first messages have to do, and what is gone as a whole goes unseen.
(Java looks at nothing of this: ConsumeQueue.recover, MappedFileQueue.load)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

from rmq_store.advice import repair_command
from rmq_store.errors import StoreDamaged
from rmq_store.layouts import BLANK
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.walk import UNIT_MAGICS, LogWalk
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.queues.unopened import decoded
from rmq_store.recovery import queue_repair
from rmq_store.recovery.inventory import Inventory
from rmq_wire.message import MAGIC_BLANK, read_size_and_magic

BEGINNINGS: Final = UNIT_MAGICS | {MAGIC_BLANK}
FIRST_BYTES: Final = 4 << 20
"""Of the log: whose messages are looked for in their queues when nothing says what there was."""
QUEUES_SCANNED: Final = 4_096
UNITS_SCANNED: Final = 256 * 1024
"""Queue entries read at one start, the newest of each queue: 50 ms."""
TAIL_BYTES: Final = 64 * 1024
"""Behind a queue's end, looked at for entries that its end does not count."""
REPORTED_MAX: Final = 8
"""Sentences about queues; then how many more."""


class Missing:
    """One look, after every queue's end was found. Everything here waits for the disk and raises OSError."""

    def __init__(self, root: str, log: CommitLog, queues: Queues, noted: Inventory | None) -> None:
        self._root = root
        self._log = log
        self._queues = queues
        self._noted = noted

    def refuse_gaps(self, end: int | None = None) -> None:
        """Raises StoreDamaged when a log file is missing between others, or does not begin with a message although one behind it
        does.  (Files behind the last message are empty: Java makes them in advance.)

        `end`: only files that begin before it count.
        """
        log = self._log.segments
        starts = log.starts if end is None else [start for start in log.starts if start < end]
        for start, following in pairwise(starts):
            if following != start + log.file_bytes:
                raise self._gap(f"{log.path(start + log.file_bytes)} is missing", following)
        begun = [self._is_begun(start) for start in starts]
        for at, (one, next_one) in enumerate(pairwise(begun)):
            if next_one and not one:
                raise self._gap(f"{log.path(starts[at])} does not begin with a message", starts[at + 1])

    def _is_begun(self, start: int) -> bool:
        _, magic = read_size_and_magic(self._log.segments.file(start).read_at(0, BLANK.size), 0)
        return magic in BEGINNINGS

    def _gap(self, what: str, following: int) -> StoreDamaged:
        return StoreDamaged(
            f"{what}, the log goes on with {self._log.segments.path(following)}: restore it from a copy, or save what there is"
            f" with: {repair_command(self._root, '--to NEWDIR')}"
        )

    def for_good(self) -> Iterator[str]:
        """What cannot be made again, and stops nobody."""
        noted, first = self._noted, self._log.min_offset
        if noted is None:
            return
        if noted.log_first < first:
            yield f"log files before {first} are gone since the last stop: their messages are lost, unless they are restored"
        there = {entry.name for entry in self._log.segments.files.disk.entries(f"{self._root}/config") if entry.size}
        for name in noted.tables:
            if not there & {name, f"{name}.bak"}:
                yield f"{self._root}/config/{name} is gone since the last stop: what it knew is lost, unless it is restored"

    @property
    def knows_queues(self) -> bool:
        """The last stop noted which queues there are."""
        return self._noted is not None and self._noted.log_first == self._log.min_offset

    def in_queues(self) -> list[str]:
        """Why queues have to be made again; nothing when they need not."""
        found = list(islice(self._found(), REPORTED_MAX + 1))
        return [*found[:REPORTED_MAX], "and more"] if len(found) > REPORTED_MAX else found

    def queue_files(self, before: int) -> list[str]:
        """Which files of queues are missing before others that begin with a message before this log position."""
        gaps = self._queue_gaps()
        found = (path for queue, path, following in gaps if queue_repair.first_of_file(queue, following) < before)
        return [f"{path} is missing" for path in islice(found, REPORTED_MAX)]

    def _queue_gaps(self) -> Iterator[tuple[ConsumeQueue, str, int]]:
        """(queue, path of a file that is missing between others, start of the next one that is there).

        What is left of a deleted topic may have lost any of its files to a power cut.
        """
        for queue in self._queues.opened():
            if not self._queues.is_known(queue.topic):
                continue
            segments = queue.segments
            for start, following in pairwise(segments.starts):
                if following != start + segments.file_bytes:
                    yield queue, segments.path(start + segments.file_bytes), following

    def _found(self) -> Iterator[str]:
        for _, path, _ in self._queue_gaps():
            yield f"{path} is missing"
        if self._noted is not None and self.knows_queues:
            yield from self._other_than_noted(self._noted)
        else:
            yield from self._other_than_log()
            for queue in self._newest():
                if _has_entries_behind(queue):
                    yield f"{queue.segments.directory} has entries behind its end at {queue.max_offset}"
        yield from self._senseless()

    def _other_than_noted(self, noted: Inventory) -> Iterator[str]:
        """Of topics that had to be opened, since their files are others."""
        for topic, row in noted.queues.items():
            for left in () if topic in self._queues.unopened else decoded(row).queues:
                queue = self._queues.find(topic, left.queue_id)
                if queue is None or not queue.segments.starts:
                    yield f"all files of {topic} queue {left.queue_id} are missing"
                    continue
                directory, first = queue.segments.directory, queue.segments.starts[0]
                if first > left.first:  # an older one may be left of what retention was about to remove
                    yield f"{directory} begins at {first}: its files from {left.first} on are missing"
                elif queue.max_offset != left.max_offset:
                    yield f"{directory} ends at {queue.max_offset}, the last stop left {left.max_offset} messages"

    def _other_than_log(self) -> Iterator[str]:
        """The log's first messages have places in their queues. One without a directory belongs to a topic that was deleted."""
        seen: set[ConsumeQueue] = set()
        start = self._log.min_offset
        for units in LogWalk(self._log.segments, start, start + FIRST_BYTES).batches():
            for unit in units:
                queue = self._queues.find(unit.topic.decode("utf-8", "replace"), unit.queue_id)
                if queue is None or queue in seen or queue.is_batch:
                    continue
                seen.add(queue)
                if not queue.segments.starts:
                    yield f"all files of {queue.segments.directory} are missing"
                elif unit.queue_offset < queue.first_offset():
                    yield f"{queue.segments.directory} begins at {queue.first_offset()}, the log has message {unit.queue_offset}"

    def _newest(self) -> list[ConsumeQueue]:
        """Those that were written to last."""
        there = [queue for queue in self._queues.opened() if queue.segments.starts]
        return sorted(there, key=lambda queue: queue.end_physical, reverse=True)[:QUEUES_SCANNED]

    def _senseless(self) -> Iterator[str]:
        queues = self._newest()
        for queue in queues:
            at = queue_repair.first_senseless(queue, UNITS_SCANNED // len(queues))
            if at is not None:
                start = at - at % queue.segments.file_bytes
                yield f"{queue.segments.path(start)}: entries make no sense from byte {at - start} on"


def _has_entries_behind(queue: ConsumeQueue) -> bool:
    """Whether the last file shows anything but zeros behind the queue's end."""
    segments = queue.segments
    start = segments.starts[-1]
    within = queue_repair.end_position(queue) - start
    left = TAIL_BYTES
    for low, high in segments.file(start).data_ranges(within):
        data = segments.file(start).read_at(low, min(high - low, left))
        if data.count(0) != len(data):
            return True
        left -= len(data)
        if left <= 0:
            break
    return False
