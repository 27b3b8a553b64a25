"""A consume queue whose entries have extensions: what did not fit into twenty bytes lies in files of its own.

An extension holds the tags' hash, the store time, and a bit map of consumers that is left empty here, as in the reference unless
it evaluates SQL filters for consumers ahead; extensions that are made again keep theirs.  The queue entry then has the
extension's address instead of the hash: its position among all extensions, counted from the most negative number, so that no
hash is ever taken for an address.  Files end with a mark where the next extension would leave no room for it.  Extensions are
written before the entries that lead to them.
(Java: ConsumeQueueExt, ConsumeQueue.putMessagePositionInfoWrapper)
"""

from __future__ import annotations

from typing import Final

from rmq_store.disk.disk import write_all
from rmq_store.disk.segments import Segments, note_dirty
from rmq_store.layouts import EXT_END, EXT_UNIT
from rmq_store.queues.consume_queue import UNIT_FIELDS, ConsumeQueue, Entering
from rmq_store.queues.key_heads import KeyHeads
from rmq_wire.implied.previous_queues import NOTHING_KNOWN, Place, PreviousQueues
from rmq_wire.layout.consume_queue import EXT_ADDRESS_FIRST, EXT_ADDRESS_LAST, EXT_END_BYTES

EXT_BYTES: Final = EXT_UNIT.size
"""Of an extension without a bit map."""
END_MARK: Final = EXT_END.pack(-1)


class ExtendedConsumeQueue(ConsumeQueue):
    """`ext`: the files of its extensions; `ext_end`: where the next one goes. `writes`: whether new entries get one.
    `previous`: has the bit maps of extensions that are made again."""

    __slots__ = ("_previous", "_times", "ext", "ext_end", "writes")

    is_plain = False

    def __init__(
        self,
        topic: str,
        queue_id: int,
        segments: Segments,
        hash_heads: KeyHeads,
        ext: Segments,
        writes: bool,
        previous: PreviousQueues = NOTHING_KNOWN,
    ) -> None:
        super().__init__(topic, queue_id, segments, hash_heads)
        self.ext = ext
        self.ext_end = 0
        self.writes = writes
        self._times: list[int] = []
        self._previous = previous

    def pend(self, staged: Entering) -> None:
        if not self.pending:
            self._times.clear()
        super().pend(staged)
        self._times.append(staged.store_timestamp)

    def write_pending(self, dirty_files: dict[str, int]) -> None:
        if self.writes:
            self._extend(dirty_files)
        super().write_pending(dirty_files)

    def _extend(self, dirty_files: dict[str, int]) -> None:
        """Write extensions for the pending units and put their addresses in the place of the hashes. Raises OSError."""
        codes = slice(UNIT_FIELDS - 1, None, UNIT_FIELDS)
        addresses = []
        end = self.ext_end
        data = bytearray()
        for number, (tags_code, store_timestamp) in enumerate(zip(self.pending[codes], self._times, strict=True)):
            bit_map = b"" if self._previous is NOTHING_KNOWN else self._bit_map(number, store_timestamp)
            size = EXT_BYTES + len(bit_map)
            left = self.ext.file_bytes - end % self.ext.file_bytes
            if left - EXT_END_BYTES < size:
                self._write_ext(end - len(data), bytes(data) + END_MARK, dirty_files)
                data.clear()
                end += left
            addresses.append(EXT_ADDRESS_FIRST + end)
            data += EXT_UNIT.pack(size, tags_code, store_timestamp, len(bit_map)) + bit_map
            end += size
        self._write_ext(end - len(data), bytes(data), dirty_files)
        self.pending[codes] = addresses
        self.ext_end = end

    def _bit_map(self, number: int, store_timestamp: int) -> bytes:
        """That the extension of this pending unit had before; none that leaves no room for itself in a file."""
        physical_offset, size = self.pending[number * UNIT_FIELDS : number * UNIT_FIELDS + UNIT_FIELDS - 1]
        place = Place(self.topic, self.queue_id, self.max_offset + number, physical_offset, size)
        bit_map = self._previous.bit_map(place, store_timestamp)
        return bit_map if EXT_BYTES + len(bit_map) + EXT_END_BYTES <= self.ext.file_bytes else b""

    def _write_ext(self, position: int, data: bytes, dirty_files: dict[str, int]) -> None:
        within = position % self.ext.file_bytes
        start = position - within
        if not self.ext.starts or self.ext.starts[-1] < start:
            self.ext.create(start)
        path = self.ext.path(start)
        note_dirty(dirty_files, path, within, within + len(data), self.ext.file_bytes)
        write_all(self.ext.files.get(path), within, data)

    def unit(self, offset: int) -> tuple[int, int, int]:
        physical, size, tags_code = super().unit(offset)
        found = self.tags_of(tags_code)
        return physical, size, tags_code if found is None else found

    def tags_of(self, tags_code: int) -> int | None:
        """The hash behind a queue entry's tags code; None when its extension is gone. Raises Cold."""
        if tags_code > EXT_ADDRESS_LAST:
            return tags_code
        position = tags_code - EXT_ADDRESS_FIRST
        start = self.ext.start_of(position)
        if start is None or position - start > self.ext.file_bytes - EXT_BYTES:
            return None
        size, found, _, _ = EXT_UNIT.unpack(self.read_file(self.ext.file(start), position - start, EXT_BYTES))
        return int(found) if size >= EXT_BYTES else None

    def ext_files_below_min(self) -> list[int]:
        """Starts of extension files that no visible entry leads to. Raises Cold."""
        if self.min_offset >= self.max_offset:
            return []
        tags_code = super().unit(self.min_offset)[2]
        if tags_code > EXT_ADDRESS_LAST:
            return []
        position = tags_code - EXT_ADDRESS_FIRST
        return [start for start in self.ext.starts[:-1] if start + self.ext.file_bytes <= position]

    def remove_files(self) -> None:
        super().remove_files()
        for start in reversed(self.ext.starts.copy()):
            self.ext.remove(start)
        self.ext_end = 0
