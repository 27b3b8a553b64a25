"""What the queue files of a damaged store know beside its log, for the rebuild that replaces them; and what that rebuild reports.

The engine of the store makes the new queues from the log (`rmq_store.recovery.rebuild`).  An old queue says when a delayed
message was due under levels that are unknown by now, which bit map an extension had, and which of two messages with one offset
was the queue's: no check sum covers the offset in a message.  What the queues lack in the end comes into the report. Sources:
`ConsumeQueueExt.put`, `ConsumeQueue.putMessagePositionInfoWrapper`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rmq_columns.checks.readers import Readers
from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.queues import QueueUnit, bounds, unit_at
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress
from rmq_inspect.repair.report import Report
from rmq_wire.implied.filler import is_filler
from rmq_wire.implied.previous_queues import Place, PreviousQueues
from rmq_wire.implied.queue_entries import GAP_MAX
from rmq_wire.layout.consume_queue import EXT_ADDRESS_FIRST, EXT_ADDRESS_LAST, EXT_UNIT_HEAD_FLAT
from rmq_wire.message import StoredMessage

HEAD: Final = EXT_UNIT_HEAD_FLAT
WHAT: Final = "queues and index"
Key = tuple[str, int]


class _Extension(NamedTuple):
    tags_code: int
    bit_map: bytes


class OldQueues(PreviousQueues):
    """Of a store whose log was saved: `report` says where."""

    def __init__(self, store: StoreDirectory, report: Report, progress: Progress) -> None:
        self.extended = frozenset(store.extensions)
        self._store = store
        self._report = report
        self._progress = progress
        self._readers = Readers()
        self._bridges: dict[Key, list[tuple[int, int]]] = {}

    # --- what they know

    def due_time(self, place: Place, store_timestamp: int) -> int:
        before = self._before(place)
        extension = self._extension(place, before, store_timestamp)
        due = extension.tags_code if extension else before.tags_code if before else 0
        return max(due, 0)

    def bit_map(self, place: Place, store_timestamp: int) -> bytes:
        extension = self._extension(place, self._before(place), store_timestamp)
        return extension.bit_map if extension else b""

    def has(self, place: Place) -> bool:
        return self._before(place) is not None

    def accepts(self, place: Place) -> bool:
        """An offset that goes back, or too far, is another life of the topic, if it is 0 or the old queue has the message there.

        If another message is there, the offset is damage.  Nothing speaks against one that the old queue does not know.
        """
        key, expected, offset = (place.topic, place.queue_id), place.expected, place.offset
        if expected < 0:
            return True
        gap: dict[str, Any] = {"topic": key[0], "queueId": key[1], "from": expected, "count": offset - expected}
        if expected < offset <= expected + GAP_MAX and key not in self._store.batch_queues:
            self._report.add("known" if self._was_lost(place) else "gaps", gap)
            self._bridges.setdefault(key, []).append((expected, offset))
            return True
        if offset == 0 or self.has(place):
            self._report.restarts += 1
        elif self._unit(key, offset) is not None:
            why = f"it says that it is {key[0]} [{key[1]}] @{offset}, where the queue has another message"
            self._report.add("unqueued", {"offset": place.physical_offset, "why": why})
            return False
        else:
            why = f"the message after that says that its offset is {offset}: the queue was cut or begun anew there"
            self._report.add("gaps", {**gap, "why": why})
        kept = [(low, min(high, offset)) for low, high in self._bridges.get(key, ()) if low < offset < expected]
        self._bridges[key] = kept
        return True

    def _was_lost(self, place: Place) -> bool:
        """Whether the old queue had no messages there either: fillers, or units that lead on to the next message."""
        ends = [self._unit((place.topic, place.queue_id), offset) for offset in (place.expected, place.offset - 1)]
        return all(old is not None and (old.is_filler or _leads_to(old, place)) for old in ends)

    def _unit(self, key: Key, offset: int) -> QueueUnit | None:
        """What the old queue has at this offset; None also for an empty unit."""
        try:
            old = unit_at(self._store.queues.get(key, ()), offset, self._readers)
        except CannotLook:
            return None
        return old if old is not None and old.is_written else None

    def _before(self, place: Place) -> QueueUnit | None:
        """This message's unit; None when there is another one, or none."""
        old = self._unit((place.topic, place.queue_id), place.offset)
        return old if old is not None and _leads_to(old, place) else None

    def _extension(self, place: Place, unit: QueueUnit | None, store_timestamp: int) -> _Extension | None:
        """What the old unit of this message leads to, if it is this message's."""
        if unit is None or unit.tags_code > EXT_ADDRESS_LAST:
            return None
        position = unit.tags_code - EXT_ADDRESS_FIRST
        files = self._store.extensions.get((place.topic, place.queue_id), ())
        file = next((one for one in files if one.start <= position < one.end), None)
        if file is None:
            return None
        try:
            reader = self._readers.get(file)
            head = reader.read(position - file.start, HEAD.size)
            if len(head) < HEAD.size:
                return None
            size, tags_code, stored, bit_map_size = HEAD.packed.unpack(head)
            if stored != store_timestamp or bit_map_size < 0 or size != HEAD.size + bit_map_size:
                return None
            bit_map = reader.read(position - file.start + HEAD.size, bit_map_size)
        except CannotLook:
            return None
        return _Extension(tags_code, bit_map) if len(bit_map) == bit_map_size else None

    # --- what they are given

    def skipped(self, unit: StoredMessage, why: str) -> None:
        if not is_filler(unit):
            self._report.add("unqueued", {"offset": unit.physical_offset, "why": why})

    def walked(self, position: int) -> None:
        log = self._report
        self._progress(WHAT, position - log.log_start, log.log_end - log.log_start)

    def close(self, made: Mapping[Key, tuple[int, int]]) -> int:
        """Say what the old queues had before the first and behind the last message that was saved; how many of the entries that
        were made stand for no message.  made: bounds of the new queues."""
        self._readers.close()
        for key in sorted(self._store.queues):
            row = self._store.queues[key]
            try:
                low, end = bounds(row)
                while low < end and (unit := unit_at(row, low)) is not None and unit.physical_offset < self._report.log_start:
                    low += max((end - low) // 2, 1)  # retention took these; the exact number does not matter
            except CannotLook as reason:
                self._report.notes.append(str(reason))
                continue
            self._compare_ends(key, low, end, made)
        return sum(high - low for key in made for low, high in self._bridges.get(key, ()))

    def _compare_ends(self, key: Key, low: int, end: int, made: Mapping[Key, tuple[int, int]]) -> None:
        start, behind = made.get(key, (end, end))
        where = {"topic": key[0], "queueId": key[1]}
        if key not in made and low < end:
            self._report.add("gaps", {**where, "from": low, "count": end - low, "why": "no message of this queue was saved"})
        elif low < start:
            self._report.add("gaps", {**where, "from": low, "count": start - low})
        if behind < end:
            self._report.add("gaps", {**where, "from": behind, "count": end - behind})


def _leads_to(old: QueueUnit, place: Place) -> bool:
    return (old.physical_offset, old.size) == (place.physical_offset, place.size)
