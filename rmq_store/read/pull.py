"""Reading a queue for a consumer: which messages, how many, what status, where to go on.

Limits, statuses and next offsets are those of `DefaultMessageStore.getMessage`.  The common pull (no filter, all of it in memory
and within the limits) is decided on the sums of its queue units; every other goes unit by unit, as the reference does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, count, islice
from operator import add
from typing import Final

from rmq_store.disk.disk import Buffer
from rmq_store.layouts import QUEUE_UNIT
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.reader import LogReader
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import UNIT_BYTES, ConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.queues.search import first_from, first_kept
from rmq_store.read import batch_pull
from rmq_store.read.asked import UNITS_MAX, Asked, Limits, UnitFilter, units_without
from rmq_store.read.columns import Columns
from rmq_store.read.entries import Entries, are_in_order
from rmq_store.read.selection import Selection
from rmq_store.results import GetStatus, Read
from rmq_store.settings import MEBIBYTE, StoreSettings
from rmq_store.statistics import StoreStatistics
from rmq_wire.layout.consume_queue import EXT_ADDRESS_LAST
from rmq_wire.property_values import LOOK, WANTED
from rmq_wire.store_names import offset_of

PULL_BYTES_MIN: Final = 100
PULL_BYTES_MAX: Final = 128 * MEBIBYTE
"""Java: MAX_PULL_MSG_SIZE."""
PIECE_UNITS: Final = 64
"""Units that a filter is shown first, then twice as many each time: what selects half of them needs no more."""
PIECE_UNITS_MAX: Final = 256
PIECE_UNITS_MIN: Final = 8
"""Also where less is not known: each piece costs as much as looking at so many."""
AHEAD: Final = 8
"""Where what is met is remembered: so many units for each message asked for, so that who asks for one does little."""
PIECES_MAX: Final = 16
"""Of one read; a filter that may be asked about few units gets small ones."""
REMEMBERED_UNITS: Final = 160
"""What selects a fifth of them fills a pull."""
_LOOK: Final = bytes([LOOK])
_NO_SKIP: Final = -1
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
        self._limits = Limits(settings)
        self.columns = Columns()
        self._entries = Entries()
        self._said_units = UNITS_MAX
        """Of so many units a filter is first asked what is known: of few, where the last one found enough among these."""

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accepts: frozenset[int] | None,
        matches: UnitFilter | None,
    ) -> Read:
        """See `Store.read_queue`. Raises Cold."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.max_offset == 0:
            return self._nothing(GetStatus.NO_MESSAGE_IN_QUEUE, 0, queue)
        if offset < queue.min_offset:
            return self._nothing(GetStatus.OFFSET_TOO_SMALL, queue.min_offset, queue)
        if offset >= queue.max_offset:
            status = GetStatus.OFFSET_OVERFLOW_ONE if offset == queue.max_offset else GetStatus.OFFSET_OVERFLOW_BADLY
            return self._nothing(status, queue.max_offset, queue)
        limit = min(max(max_bytes, PULL_BYTES_MIN), PULL_BYTES_MAX)
        if accepts is None and matches is None and not queue.is_batch:
            try:
                read = self._all_of(queue, offset, max_count, limit)
            except FileNotFoundError:
                read = None  # the other way meets it too, and knows what to do
            if read is not None:
                return read
        asked = Asked(offset, max_count, limit, accepts, matches)
        if matches is not None:
            matches.begin(topic)
        try:
            if isinstance(queue, BatchConsumeQueue):
                return self._batches(queue, asked)
            if matches is not None and accepts is None:
                verdicts = matches.value_verdicts()
                units = min(self._limits.scan_units(asked, UNIT_BYTES), queue.max_offset - offset)
                said = self.columns.say(queue, offset, min(units, self._said_units), verdicts) if verdicts else b""
                found = self._remembered(queue, asked, said)
                self._said_units = UNITS_MAX if found is None else REMEMBERED_UNITS
                if found is None and len(said) == REMEMBERED_UNITS < units:
                    said += self.columns.say(queue, offset + REMEMBERED_UNITS, units - REMEMBERED_UNITS, verdicts)
                if (found := found or self._selected(queue, asked, matches, units, said, remembers=bool(verdicts))) is not None:
                    return found
            return self._one_by_one(queue, asked, queue.max_offset)
        except FileNotFoundError as gone:
            return self._round_gap(queue, asked, gone)

    def _round_gap(self, queue: ConsumeQueue, asked: Asked, gone: FileNotFoundError) -> Read:
        """Somebody else has removed a file: what lies before it, then what lies behind it, as Java does where it finds none."""
        offset, end = asked.offset, queue.max_offset
        while (file_start := self._log_file(gone)) is not None:
            gap = _first_kept(queue, offset, file_start)
            if not offset < gap < end or queue.is_batch:
                behind = _first_kept(queue, offset, file_start + self._file_bytes)
                return self._nothing(GetStatus.MESSAGE_WAS_REMOVING, max(behind, offset + 1), queue)
            end = gap
            try:
                return self._one_by_one(queue, asked, end)
            except FileNotFoundError as other:
                gone = other
        units_per_file = queue.segments.file_bytes // UNIT_BYTES
        return self._nothing(GetStatus.OFFSET_FOUND_NULL, offset - offset % units_per_file + units_per_file, queue)

    def _log_file(self, gone: FileNotFoundError) -> int | None:
        """Where the log file begins that is gone, known to the log or not; None when it is a queue's."""
        start = offset_of(str(gone.filename).rpartition("/")[2])
        return start if start is not None and self._log.segments.path(start) == gone.filename else None

    def _nothing(self, status: GetStatus, next_offset: int, queue: ConsumeQueue | None) -> Read:
        self._statistics.get_missed_times += 1
        low, high = (0, 0) if queue is None else (queue.min_offset, queue.max_offset)
        return Read(status, next_offset, low, high, (), 0, 0, False)

    def _all_of(self, queue: ConsumeQueue, offset: int, max_count: int, limit: int) -> Read | None:
        """The next `max_count` messages when nothing can stand in their way, else None."""
        bytes_max, count_max = self._limits.memory
        if (count := min(max_count, count_max, queue.max_offset - offset)) <= 0:
            return None
        positions, sizes = self._entries.places(queue, offset, count)
        count = len(sizes)
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
            or written - first > self._limits.memory_bytes
            or not are_in_order(positions, sizes)
        ):
            return None
        if (chunks := self._views(positions, sizes, size)) is None:
            return None
        return self._found(queue, offset + count, chunks, count, size)

    def _views(self, positions: Sequence[int], sizes: Sequence[int], size: int) -> list[Buffer] | None:
        """Of messages that ascend in the log, of together `size` bytes; None when they are not there. Raises Cold."""
        first, end = positions[0], positions[-1] + sizes[-1]
        base = first - first % self._file_bytes
        if end > base + self._file_bytes or self._reader.sure_units(positions, sizes, 0, len(sizes)) < len(sizes):
            chunks = self._chunks(zip(positions, sizes, strict=True))
            return chunks if sum(map(len, chunks)) == size else None
        log_map = self._reader.map_of(base)
        if end - base > len(log_map):
            return None
        if end - first == size:
            return [log_map[first - base : end - base]]
        if base:
            return [log_map[at - base : at - base + size] for at, size in zip(positions, sizes, strict=True)]
        return [log_map[at : at + size] for at, size in zip(positions, sizes, strict=True)]

    def _found(self, queue: ConsumeQueue, next_offset: int, chunks: list[Buffer], count: int, size: int) -> Read:
        statistics = self._statistics
        statistics.get_found_times += 1
        statistics.transferred_messages += count
        return Read(GetStatus.FOUND, next_offset, queue.min_offset, queue.max_offset, chunks, count, size, False)

    def _remembered(self, queue: ConsumeQueue, asked: Asked, said: bytes) -> Read | None:
        """A full pull, when it is known what a filter says of enough messages, and nothing can stand in the way, else None."""
        limits, log = self._limits, self._log
        offset, count_max = asked.offset, min(asked.max_count, limits.memory[1])
        if not 0 < count_max <= said.count(WANTED):
            return None
        passed: int = next(islice(compress(count(1), said), count_max - 1, None))
        said = said[:passed]
        if LOOK in said:
            return None
        places, all_sizes = self._entries.places(queue, offset, passed)
        if len(places) < passed:
            return None
        positions, sizes = [*compress(places, said)], [*compress(all_sizes, said)]
        size, written = sum(sizes), log.written_offset
        if (
            min(places[0], positions[0]) < max(log.min_offset, written - limits.memory_bytes)
            or not are_in_order(positions, sizes)
            or positions[-1] + sizes[-1] > written
            or size + max(all_sizes) > min(limits.memory[0], asked.max_bytes)
            or (chunks := self._views(positions, sizes, size)) is None
        ):
            return None
        return self._found(queue, offset + passed, chunks, count_max, size)

    def _selected(
        self, queue: ConsumeQueue, asked: Asked, matches: UnitFilter, units: int, said: bytes, *, remembers: bool
    ) -> Read | None:
        """What a filter selects of so many units when nothing else can stand in the way, else None. Raises Cold.

        `said`: what is known of the first of them.  `remembers`: what is met in those behind them will be of use.
        """
        limits, left = self._limits, min(units, queue.units_to_file_end(asked.offset))
        bytes_max, count_max = min(limits.memory[0], asked.max_bytes), min(limits.memory[1], asked.max_count)
        selection = Selection(self._reader, self._file_bytes, matches, bytes_max, count_max, remembers=remembers)
        written, floor = self._log.written_offset, max(self._log.min_offset, self._log.written_offset - limits.memory_bytes)
        evaluated_max, may_ask = -1, matches.rows_max
        piece_units = min(PIECE_UNITS_MAX, AHEAD * max(count_max, 1)) if remembers else PIECE_UNITS
        offset, count = asked.offset, min(piece_units, may_ask)
        said = said[:left]
        for _ in range(PIECES_MAX):
            if known := _known(said):
                data = queue.read(offset, known)
                passed = selection.recall(data, said[:known], floor, written)
                if passed is None:
                    said = b""
                else:
                    self._keep(queue, offset, selection)
                    offset += passed
                    left -= passed
                    if left <= 0 or selection.is_full:
                        break
                    floor = QUEUE_UNIT.unpack_from(data, (known - 1) * UNIT_BYTES)[0] + 1
                    said = said[known:]
                    count = min(piece_units, may_ask)
            if evaluated_max < 0:
                evaluated_max = asked.evaluated_max()
            count = min(count, left)
            if said:
                count = min(count, max(count - len(said[:count].lstrip(_LOOK)), PIECE_UNITS_MIN))
            positions, sizes = self._entries.places(queue, offset, count)
            if (
                positions[0] < floor
                or not are_in_order(positions, sizes)
                or (positions[-1] + (biggest := max(sizes)) > written and max(map(add, positions, sizes)) > written)
            ):
                return None
            looked = selection.add(positions, sizes, biggest)
            if looked is None:
                return None
            offset += looked
            left -= looked
            said = said[looked:]
            may_ask = evaluated_max - matches.evaluated()
            if looked < count or left <= 0 or may_ask <= 0 or selection.is_full:
                break
            floor = positions[-1] + 1
            count = min(selection.units_to_go(2 * count), PIECE_UNITS_MAX, may_ask)
        self._keep(queue, offset, selection)
        status = GetStatus.FOUND if selection.found else GetStatus.NO_MATCHED_MESSAGE
        return self._read(queue, status, offset, selection.found, selection.size, False, selection.chunks())

    def _keep(self, queue: ConsumeQueue, end: int, selection: Selection) -> None:
        """Remember what was met in the units before `end`, as far back as they were looked at one after the other."""
        units, met = selection.take_met()
        if met:
            self.columns.keep(queue, end - units, met)

    def _one_by_one(self, queue: ConsumeQueue, asked: Asked, end: int) -> Read:
        """As the reference's loop goes; it stays within one queue file, and before the offset `end`."""
        log = self._log
        limits = self._limits
        written = log.written_offset
        offset, _, _, accepts, matches = asked
        evaluated_max = asked.evaluated_max()
        count = min(limits.scan_units(asked, UNIT_BYTES), end - offset, queue.units_to_file_end(offset))
        data = queue.read(offset, count)
        status = GetStatus.NO_MATCHED_MESSAGE
        found: list[tuple[int, int]] = []
        size = 0
        newest = 0
        skip_to = _NO_SKIP
        skipped = 0 if accepts is None else units_without(accepts, data)
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
            if found and limits.are_reached(asked, len(found), size, 1, unit_bytes, written - physical):
                break
            if matches is not None and matches.evaluated() >= evaluated_max:
                break
            newest = physical
            next_offset += 1
            if physical < skip_to:
                continue
            if accepts is not None:
                code = tags_code if tags_code > EXT_ADDRESS_LAST else queue.tags_of(tags_code)
                # Nearly every code is an int and stands in the set as it is: a call for each would be a tenth of the pull.
                if code is not None and code not in accepts and (-_HALF <= code < _HALF or not asked.accepts_code(code)):
                    continue  # where the hash is gone the consumer has to look itself, as in Java
            if physical < log.min_offset:
                if not found:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                skip_to = physical - physical % self._file_bytes + self._file_bytes
                continue
            if matches is not None and not matches.wants(self._reader.slice_of(physical, unit_bytes)):
                continue
            found.append((physical, unit_bytes))
            size += unit_bytes
            status = GetStatus.FOUND
            skip_to = _NO_SKIP
        return self._read(queue, status, next_offset, found, size, written - newest > limits.memory_bytes)

    def _batches(self, queue: BatchConsumeQueue, asked: Asked) -> Read:
        chosen = batch_pull.choose(queue, self._log, self._reader, self._limits, asked)
        slow = self._log.written_offset - chosen.newest > self._limits.memory_bytes
        read = self._read(queue, chosen.status, chosen.next_offset, chosen.units, chosen.size, slow)
        self._statistics.transferred_messages += chosen.message_count - read.message_count
        read.message_count = chosen.message_count
        return read

    def _read(
        self,
        queue: ConsumeQueue,
        status: GetStatus,
        next_offset: int,
        found: list[tuple[int, int]],
        size: int,
        slow: bool,
        chunks: list[Buffer] | None = None,
    ) -> Read:
        if chunks is None:
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


def _first_kept(queue: ConsumeQueue, offset: int, position: int) -> int:
    """`first_kept`, also for a queue that lacks a file: then of the file that holds `offset`, or its end. Raises Cold."""
    try:
        return first_kept(queue, position)
    except FileNotFoundError:
        if queue.is_batch:
            raise
        return first_from(offset, min(queue.max_offset, offset + queue.units_to_file_end(offset)), position, queue.read)


def _known(said: bytes) -> int:
    """Of how many units, from the first one on, it is known whether they are wanted."""
    at = said.find(LOOK)
    return at if at >= 0 else len(said)
