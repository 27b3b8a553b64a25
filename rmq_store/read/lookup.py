"""Finding messages other than in queue order: by position, by key, by time.

A client's physical offset is believed only when a whole unit begins there that says so itself, and for those who ask, only when
its queue entry points back: a body may hold the image of a unit.  Key look-ups compare hashes first and the message's own keys
after, so a foreign key with the same hash is never returned.  (Java: lookMessageByOffset, queryMessage, ConsumeQueue)
"""

from __future__ import annotations

from typing import Final

from rmq_store.index.index import Index
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.reader import LogReader, decoded
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import UNIT_BYTES, ConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.results import Boundary, IndexType, QueryResult
from rmq_store.settings import StoreSettings
from rmq_wire.implied.index_keys import stored_index_keys, tags_key
from rmq_wire.implied.queue_entries import UNQUEUED
from rmq_wire.java import string_hash
from rmq_wire.message import StoredMessage

QUERY_ROUNDS: Final = 3
"""A round that found only hashes is followed by one that ends earlier, as in Java."""
WRONG_MAX: Final = 256
"""Entries of other keys or times that one round passes over."""
NOT_FOUND: Final = -1


class Lookup:
    """Answers look-ups. Makes no queue and no file."""

    def __init__(self, settings: StoreSettings, log: CommitLog, queues: Queues, index: Index | None, reader: LogReader) -> None:
        self._settings = settings
        self._log = log
        self._queues = queues
        self._index = index
        self._reader = reader

    # --- by position

    def unit(self, at: int, checked: bool) -> memoryview | None:
        """See `Store.lookup`. Raises Cold."""
        view = self._reader.unit_view(at)
        unit = decoded(view)
        return view if unit is not None and (not checked or self._is_in_queue(unit)) else None

    def message(self, at: int) -> StoredMessage | None:
        """See `Store.lookup_message`. Raises Cold."""
        unit = decoded(self._reader.unit_view(at))
        return unit if unit is not None and self._is_in_queue(unit) else None

    def _is_in_queue(self, unit: StoredMessage) -> bool:
        if unit.sys_flag & UNQUEUED:
            return False
        queue = self._queues.find(unit.topic.decode("utf-8", "replace"), unit.queue_id)
        if queue is None or not queue.first_offset() <= unit.queue_offset < queue.max_offset:
            return False
        physical, size, _ = queue.unit(unit.queue_offset)
        return physical == unit.physical_offset and size == unit.total_size

    # --- by key

    def query(self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int, index_type: IndexType) -> QueryResult:
        """See `Store.query`. Raises Cold."""
        index = self._index
        if index is None or not index.files:
            return QueryResult([], 0, 0)
        if max_num <= 0:
            return QueryResult([], index.files[-1].end_timestamp, index.files[-1].end_physical)
        wanted = tags_key(key) if index_type is IndexType.TAG else key
        topic_hash = string_hash(topic + "#")
        count = min(max_num, self._settings.max_msgs_num_batch)
        newest = index.files[-1]
        result = QueryResult([], newest.end_timestamp, newest.end_physical)
        until_ms = end_ms
        for _ in range(QUERY_ROUNDS):
            found: dict[int, memoryview] = {}
            earliest = None
            for at in index.find(topic_hash, wanted, count + WRONG_MAX, begin_ms, until_ms):
                view = None if at is None or at in found else self._reader.unit_view(at)
                unit = decoded(view)
                if at is None or view is None or unit is None:
                    continue
                earliest = unit.store_timestamp if earliest is None else min(earliest, unit.store_timestamp)
                # Entries know whole seconds and a hash: the message itself says whether it is meant (#5174, #3613).
                if begin_ms <= unit.store_timestamp <= end_ms and _has_key(unit, topic, wanted):
                    found[at] = view
                    if len(found) >= count:
                        break
            result.units.extend(found[at] for at in sorted(found))
            if found or earliest is None or earliest < begin_ms:
                break
            until_ms = earliest
        return result

    # --- by time

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return NOT_FOUND
        return self._time(queue, offset)

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        queue = self._queues.find(topic, queue_id)
        return NOT_FOUND if queue is None else self.store_time_at(topic, queue_id, queue.min_offset)

    def _time(self, queue: ConsumeQueue, offset: int) -> int:
        """Store time of a queue's message, ms; -1 when the log does not have it. Raises Cold."""
        physical, size, _ = queue.unit(offset)
        return self._reader.store_timestamp(physical, size)

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, boundary: Boundary) -> int:
        """See `Store.offset_by_time`. Raises Cold."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return 0
        if isinstance(queue, BatchConsumeQueue):
            if queue.min_offset >= queue.max_offset:
                return queue.max_offset
            return queue.offset_by_time(timestamp, boundary)
        offset = self._search(queue, timestamp, boundary)
        return min(max(offset, queue.min_offset), queue.max_offset)

    def _search(self, queue: ConsumeQueue, timestamp: int, boundary: Boundary) -> int:
        """Within the one file that Java picks, its search; 0 where it gives up."""
        bounds = self._file_of(queue, timestamp, boundary)
        if bounds is None:
            return 0
        first, end = bounds
        floor = max(first, queue.min_offset)
        if floor >= end:
            return end
        if self._time(queue, end - 1) < timestamp:
            return end if boundary is Boundary.LOWER else end - 1
        if self._time(queue, floor) > timestamp:
            return first if boundary is Boundary.LOWER else 0
        low, high = floor, end - 1
        while low <= high:
            middle = (low + high) // 2
            at = self._time(queue, middle)
            if at < 0 and queue.unit(middle)[0] < self._log.min_offset:
                low = middle + 1  # retention has the file, and not yet the queue
                continue
            if at < 0:
                return 0
            if at == timestamp:
                return self._edge(queue, middle, floor, end, timestamp, boundary)
            if at > timestamp:
                high = middle - 1
            else:
                low = middle + 1
        return low if boundary is Boundary.LOWER else high

    def _edge(self, queue: ConsumeQueue, hit: int, floor: int, end: int, timestamp: int, boundary: Boundary) -> int:
        """The first (last) of the neighbours that share the hit's time."""
        low, high = (floor, hit) if boundary is Boundary.LOWER else (hit, end - 1)
        while low < high:
            if boundary is Boundary.LOWER:
                middle = (low + high) // 2
                low, high = (low, middle) if self._time(queue, middle) >= timestamp else (middle + 1, high)
            else:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if self._time(queue, middle) <= timestamp else (low, middle - 1)
        return low

    def _file_of(self, queue: ConsumeQueue, timestamp: int, boundary: Boundary) -> tuple[int, int] | None:
        """(first offset, end) of the queue file to search (Java: getConsumeQueueMappedFileByTime)."""
        starts = queue.segments.starts
        units_per_file = queue.segments.file_bytes // UNIT_BYTES
        bounds = [(start // UNIT_BYTES, min(start // UNIT_BYTES + units_per_file, queue.max_offset)) for start in starts]
        if boundary is Boundary.LOWER:
            for first, end in bounds[:-1]:
                if self._time(queue, end - 1) >= timestamp:
                    return first, end
            return bounds[-1] if bounds else None
        for first, end in reversed(bounds):
            if self._time(queue, max(first, min(queue.min_offset, end - 1))) <= timestamp:
                return first, end
        return None


def _has_key(unit: StoredMessage, topic: str, wanted: str) -> bool:
    return wanted in stored_index_keys(unit.properties) and unit.topic.decode("utf-8", "replace") == topic
