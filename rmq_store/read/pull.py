"""Reading a queue for a consumer: which messages, how many, what status, where to go on.

Limits, statuses and next offsets are those of `DefaultMessageStore.getMessage`.  The common pull (no filter, all of it in memory
and within the limits) is decided on the sums of its queue units; every other goes unit by unit, as the reference does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from rmq_store.disk.disk import Buffer
from rmq_store.disk.segments import NAME_DIGITS
from rmq_store.layouts import QUEUE_UNIT, QUEUE_UNITS
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.reader import LogReader
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import UNIT_BYTES, ConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.queues.search import first_kept
from rmq_store.read import batch_pull
from rmq_store.results import GetStatus, Read
from rmq_store.settings import MEBIBYTE, StoreSettings
from rmq_store.statistics import StoreStatistics
from rmq_wire.layout.consume_queue import EXT_ADDRESS_LAST
from rmq_wire.layout.flat import Packed

PULL_BYTES_MIN: Final = 100
PULL_BYTES_MAX: Final = 128 * MEBIBYTE
"""Java: MAX_PULL_MSG_SIZE."""
BLOCK_UNITS: Final = 32
_TAGS_OF_BLOCK: Final = QUEUE_UNITS.rows(BLOCK_UNITS, "tags_code")
_NO_SKIP: Final = -1
_WORD: Final = 1 << 32
_HALF: Final = 1 << 31


class QueueReader:
    """Answers pulls. Makes no queue and no file."""

    def __init__(
        self, settings: StoreSettings, log: CommitLog, queues: Queues, reader: LogReader, statistics: StoreStatistics
    ) -> None:
        self._log = log
        self._queues = queues
        self._reader = reader
        self._statistics = statistics
        self._file_bytes = settings.mapped_file_size_commit_log
        self._memory = settings.physical_memory_bytes * settings.access_message_in_memory_max_ratio // 100
        self._memory_limits = (
            settings.max_transfer_bytes_on_message_in_memory,
            settings.max_transfer_count_on_message_in_memory,
        )
        self._disk_limits = (
            settings.max_transfer_bytes_on_message_in_disk,
            settings.max_transfer_count_on_message_in_disk,
        )
        self._scan_bytes = settings.max_filter_message_size
        self._structs: dict[int, Packed] = {}
        """by number of units; a pull has 32 at most"""

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accepts: frozenset[int] | None,
        matches: Callable[[memoryview], bool] | None,
    ) -> Read:
        """See `Store.read_queue`. Raises Cold."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return self._nothing(GetStatus.NO_MESSAGE_IN_QUEUE, 0, queue)
        if offset < queue.min_offset:
            return self._nothing(GetStatus.OFFSET_TOO_SMALL, queue.min_offset, queue)
        if offset >= queue.max_offset:
            one = offset == queue.max_offset
            status = GetStatus.OFFSET_OVERFLOW_ONE if one else GetStatus.OFFSET_OVERFLOW_BADLY
            return self._nothing(status, queue.max_offset, queue)
        limit = min(max(max_bytes, PULL_BYTES_MIN), PULL_BYTES_MAX)
        try:
            if isinstance(queue, BatchConsumeQueue):
                return self._batches(queue, offset, max_count, limit, accepts, matches)
            if accepts is None and matches is None:
                read = self._all_of(queue, offset, max_count, limit)
                if read is not None:
                    return read
            return self._one_by_one(queue, offset, max_count, limit, accepts, matches, queue.max_offset)
        except FileNotFoundError as gone:
            return self._round_gap(queue, offset, max_count, limit, accepts, matches, gone)

    def _round_gap(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        limit: int,
        accepts: frozenset[int] | None,
        matches: Callable[[memoryview], bool] | None,
        gone: FileNotFoundError,
    ) -> Read:
        """Somebody else has removed a file: what lies before it, then what lies behind it, as Java does where it finds none."""
        end = queue.max_offset
        while (file_start := self._log_file(gone)) is not None:
            gap = first_kept(queue, file_start)
            if not offset < gap < end or queue.is_batch:
                behind = first_kept(queue, file_start + self._file_bytes)
                return self._nothing(GetStatus.MESSAGE_WAS_REMOVING, max(behind, offset + 1), queue)
            end = gap
            try:
                return self._one_by_one(queue, offset, max_count, limit, accepts, matches, end)
            except FileNotFoundError as other:
                gone = other
        units_per_file = queue.segments.file_bytes // UNIT_BYTES
        return self._nothing(GetStatus.OFFSET_FOUND_NULL, offset - offset % units_per_file + units_per_file, queue)

    def _log_file(self, gone: FileNotFoundError) -> int | None:
        """Where the log file begins that is gone, known to the log or not; None when it is a queue's."""
        name = str(gone.filename)[-NAME_DIGITS:]
        return int(name) if name.isdigit() and self._log.segments.path(int(name)) == gone.filename else None

    def _nothing(self, status: GetStatus, next_offset: int, queue: ConsumeQueue | None) -> Read:
        self._statistics.get_missed_times += 1
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        return Read(status, next_offset, low, high, (), 0, 0, False)

    def _all_of(self, queue: ConsumeQueue, offset: int, max_count: int, limit: int) -> Read | None:
        """The next `max_count` messages when nothing can stand in their way, else None."""
        bytes_max, count_max = self._memory_limits
        count = min(max_count, count_max, queue.max_offset - offset, queue.units_to_file_end(offset))
        if count <= 0:
            return None
        numbers = self._unpack(queue.read(offset, count), count)
        positions, sizes = numbers[0::2], numbers[1::2]
        first = positions[0]
        size = sum(sizes)
        log = self._log
        written = log.written_offset
        end = positions[-1] + sizes[-1]
        if (
            first < log.min_offset
            or end > written
            or size > bytes_max
            or size > limit
            or min(sizes) <= 0
            or written - first > self._memory
            or min(positions) != first
            or max(positions) != positions[-1]
        ):
            return None
        if size >= end - first and len(set(positions)) < count:
            return None  # entries over a gap lead to one message (queue_repair.bridge); other queues' messages are in between
        base = first - first % self._file_bytes
        if end > base + self._file_bytes or not self._reader.is_hot(first, end):
            chunks = self._chunks(zip(positions, sizes, strict=True))
            if sum(map(len, chunks)) != size:
                return None
        else:
            log_map = self._reader.map_of(base)
            if end - base > len(log_map):
                return None
            if end - first == size:
                chunks = [log_map[first - base : end - base]]
            elif base:
                chunks = [log_map[at - base : at - base + size] for at, size in zip(positions, sizes, strict=True)]
            else:
                chunks = [log_map[at : at + size] for at, size in zip(positions, sizes, strict=True)]
        statistics = self._statistics
        statistics.get_found_times += 1
        statistics.transferred_messages += count
        return Read(GetStatus.FOUND, offset + count, queue.min_offset, queue.max_offset, chunks, count, size, False)

    def _unpack(self, data: bytes, count: int) -> tuple[int, ...]:
        packed = self._structs.get(count)
        if packed is None:
            packed = self._structs[count] = QUEUE_UNITS.rows(count, "physical_offset", "size")
        return packed.unpack(data)

    def _one_by_one(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        limit: int,
        accepts: frozenset[int] | None,
        matches: Callable[[memoryview], bool] | None,
        end: int,
    ) -> Read:
        """As the reference's loop goes; it stays within one queue file, and before the offset `end`."""
        log = self._log
        written = log.written_offset
        scan = -(-max(self._scan_bytes, max_count * UNIT_BYTES) // UNIT_BYTES)
        count = min(scan, end - offset, queue.units_to_file_end(offset))
        data = queue.read(offset, count)
        status = GetStatus.NO_MATCHED_MESSAGE
        found: list[tuple[int, int]] = []
        size = 0
        newest = 0
        skip_to = _NO_SKIP
        skipped = 0 if accepts is None else _units_without(accepts, data)
        next_offset = offset + skipped
        if skipped:
            newest = int(QUEUE_UNIT.unpack_from(data, (skipped - 1) * UNIT_BYTES)[0])
        for physical, unit_bytes, tags_code in QUEUE_UNIT.iter_unpack(memoryview(data)[skipped * UNIT_BYTES :]):
            if (
                unit_bytes <= 0
                or physical < 0
                or physical + unit_bytes > written
                or physical % self._file_bytes + unit_bytes > self._file_bytes
            ):
                # No message can be there: the entry is damaged, or fills the queue up to its first message.
                next_offset += 1
                if not found:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                continue
            if found and physical == found[-1][0]:
                next_offset += 1  # entries over a gap lead to one message (queue_repair.bridge)
                continue
            if found and self._is_full(len(found), size, unit_bytes, max_count, limit, written - physical):
                break
            newest = physical
            next_offset += 1
            if physical < skip_to:
                continue
            if accepts is not None:
                code = tags_code if tags_code > EXT_ADDRESS_LAST else queue.tags_of(tags_code)
                if code is not None and _as_int(code) not in accepts:
                    continue  # where the hash is gone the consumer has to look itself, as in Java
            if physical < log.min_offset:
                if not found:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                skip_to = physical - physical % self._file_bytes + self._file_bytes
                continue
            if matches is not None and not matches(self._view(physical, unit_bytes)):
                continue
            found.append((physical, unit_bytes))
            size += unit_bytes
            status = GetStatus.FOUND
            skip_to = _NO_SKIP
        return self._read(queue, status, next_offset, found, size, written - newest > self._memory)

    def _batches(
        self,
        queue: BatchConsumeQueue,
        offset: int,
        max_count: int,
        limit: int,
        accepts: frozenset[int] | None,
        matches: Callable[[memoryview], bool] | None,
    ) -> Read:
        scan = -(-max(self._scan_bytes, max_count * queue.unit_bytes) // queue.unit_bytes)
        limits = batch_pull.Limits(max_count, limit, self._memory_limits, self._disk_limits, self._memory, scan)
        chosen = batch_pull.choose(
            queue,
            self._log,
            offset,
            limits,
            lambda code: accepts is None or _as_int(code) in accepts,
            lambda at, size: matches is None or matches(self._view(at, size)),
        )
        slow = self._log.written_offset - chosen.newest > self._memory
        read = self._read(queue, chosen.status, chosen.next_offset, chosen.units, chosen.size, slow)
        return read._replace(message_count=chosen.message_count)

    def _is_full(self, count: int, size: int, unit_bytes: int, max_count: int, limit: int, behind: int) -> bool:
        """Whether one more message is too much (Java: isTheBatchFull); the first always fits."""
        if size >= limit or count + 1 > max_count or size + unit_bytes > limit:
            return True
        bytes_max, count_max = self._memory_limits if behind <= self._memory else self._disk_limits
        return size + unit_bytes > bytes_max or count > count_max - 1

    def _read(
        self, queue: ConsumeQueue, status: GetStatus, next_offset: int, found: list[tuple[int, int]], size: int, slow: bool
    ) -> Read:
        chunks = self._chunks(found)
        statistics = self._statistics
        if found:
            statistics.get_found_times += 1
            statistics.transferred_messages += len(found)
        else:
            statistics.get_missed_times += 1
        return Read(status, next_offset, queue.min_offset, queue.max_offset, chunks, len(found), size, slow)

    def _chunks(self, units: Iterable[tuple[int, int]]) -> list[Buffer]:
        """Views of these units (position, size), ascending; neighbours in one file share one. Raises Cold."""
        reader = self._reader
        hot_from = reader.hot_from
        chunks: list[Buffer] = []
        file_end = start = end = base = 0
        log_map = memoryview(b"")
        for at, size in units:
            if at == end and end != file_end:
                end += size
                continue
            if end:
                if start < hot_from:
                    reader.make_sure(start, end)
                chunks.append(log_map[start - base : end - base])
            start, end = at, at + size
            if not base <= at < file_end:
                base = at - at % self._file_bytes
                file_end = base + self._file_bytes
                log_map = reader.map_of(base)
        if end:
            if start < hot_from:
                reader.make_sure(start, end)
            chunks.append(log_map[start - base : end - base])
        return chunks

    def _view(self, at: int, size: int) -> memoryview:
        return self._reader.slice_of(at, size)


def _as_int(tags_code: int) -> int:
    """The low 32 bits, signed (Java: the long's intValue)."""
    return (tags_code + _HALF) % _WORD - _HALF


def _units_without(accepts: frozenset[int], data: bytes) -> int:
    """How many of the first units have none of these tags, in whole blocks; the search for the first match, in C."""
    block = BLOCK_UNITS * UNIT_BYTES
    for at in range(0, len(data) - block + 1, block):
        codes = _TAGS_OF_BLOCK.unpack_from(data, at)
        if not accepts.isdisjoint(codes) or max(codes) >= _HALF or min(codes) < -_HALF:
            return at // UNIT_BYTES
    return len(data) // block * BLOCK_UNITS
