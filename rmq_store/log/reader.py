"""Reading the commit log: views of read-only maps, and the question whether the bytes under a view are in memory.

A view of a page that is not in memory stops the whole loop when it is touched.  What this process wrote within the hot window is
taken to be there; of everything else, the kernel is asked for blocks of 256 KiB, and what it says is remembered for some
seconds.  A block that is not there raises `Cold`, whose job reads it (and what follows it) in another thread.

A view keeps its map alive, also after the file was unlinked; a map is never shortened under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rmq_store.errors import Cold
from rmq_store.layouts import BORN_V6, FIXED, HEAD, PROPERTIES_LENGTH, STORE_V6
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.draft import Draft
from rmq_store.queues.consume_queue import topic_field
from rmq_wire.errors import BadRecord
from rmq_wire.message import MAGIC_V1, MAGIC_V2, StoredMessage, read_unit

BLOCK_BYTES: Final = 256 * 1024
READ_AHEAD_BLOCKS: Final = 4
"""Blocks that one cold read brings in."""
UNITS_A_QUESTION: Final = 16
"""For fewer of many units one is not asked for another block: the answer takes as long as to look at some hundred."""
UNIT_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})
_FIXED_V4: Final = FIXED[0]
_HOST_BITS: Final = BORN_V6 | STORE_V6


class LogReader:
    """Views of committed bytes. Nothing here looks at what is only staged."""

    def __init__(self, log: CommitLog, hot_window_bytes: int, maps_max: int) -> None:
        self._log = log
        self._file_bytes = log.segments.file_bytes
        self._hot_window_bytes = hot_window_bytes
        self._written_here_from = log.written_offset
        self._maps_max = maps_max
        self._maps: dict[int, memoryview] = {}
        self._resident: set[int] = set()
        self._loading: dict[int, Cold] = {}

    def forget_residency(self) -> None:
        """Call every few seconds: what was in memory may be gone."""
        self._resident.clear()
        self._loading = {block: cold for block, cold in self._loading.items() if not cold.done}

    def forget_file(self, start: int) -> memoryview | None:
        """The file is going away; views of it stay valid. Returns its map, for whoever has the time to let go of it."""
        return self._maps.pop(start, None)

    def map_of(self, start: int) -> memoryview:
        """The map of the file that starts here. Raises OSError."""
        view = self._maps.get(start)
        if view is None:
            while len(self._maps) >= self._maps_max:
                del self._maps[next(iter(self._maps))]
            view = self._maps[start] = self._log.segments.file(start).map()
        return view

    @property
    def hot_from(self) -> int:
        """Bytes from here on are taken to be in memory."""
        return max(self._log.written_offset - self._hot_window_bytes, self._written_here_from)

    def view(self, at: int, size: int) -> memoryview | None:
        """These bytes, or None when they are not all within one file of the committed log. Raises Cold, OSError."""
        start = at - at % self._file_bytes
        log = self._log
        if size <= 0 or at < log.min_offset or at + size > min(log.written_offset, start + self._file_bytes):
            return None
        return self.slice_of(at, size)

    def slice_of(self, at: int, size: int) -> memoryview:
        """These bytes, known to be committed and within one file. Raises Cold, OSError."""
        if at < self.hot_from:
            self.make_sure(at, at + size)
        within = at % self._file_bytes
        return self.map_of(at - within)[within : within + size]

    def unit_view(self, at: int) -> memoryview | None:
        """The whole unit that begins here, or None when no unit does, or its file is gone. Raises Cold."""
        try:
            head = self.view(at, HEAD.size)
        except FileNotFoundError:
            return None
        if head is None:
            return None
        fields = HEAD.packed.unpack(head)
        size, magic = fields[0], fields[1]
        if magic not in UNIT_MAGICS or fields[HEAD.names.index("physical_offset")] != at:
            return None
        return self.view(at, size)

    def unit(self, at: int) -> StoredMessage | None:
        """The decoded unit that begins here, or None. Raises Cold."""
        return decoded(self.unit_view(at))

    def unit_of(self, at: int, size: int) -> StoredMessage | None:
        """The decoded unit of this size that begins here, or None: what a queue entry or the timer's log names. Raises Cold."""
        log = self._log
        within = at % self._file_bytes
        if size <= 0 or at < log.min_offset or at + size > min(log.written_offset, at - within + self._file_bytes):
            return None
        try:
            if at < self.hot_from:
                self.make_sure(at, at + size)
            view = self._maps.get(at - within)
            unit = read_unit(self.map_of(at - within) if view is None else view, within)
        except (FileNotFoundError, BadRecord):
            return None
        return unit if unit.total_size == size and unit.physical_offset == at else None

    def copies_of(self, topic: str, places: Iterable[tuple[int, int]]) -> Iterator[Draft | None]:
        """`unit_of` of each of these (position, size) as the draft of a copy: it has the unit's topic, mostly this one, and
        properties; its queue, tags and keys are still to be set. Raises Cold at the first that is not in memory.

        Nothing may be committed while it is walked. A unit with addresses of IPv4, of this topic and of version 1, is taken
        apart here, all others by `read_unit`.
        """
        log, file_bytes, maps = self._log, self._file_bytes, self._maps
        min_offset, written_offset, hot_from = log.min_offset, log.written_offset, self.hot_from
        expected = topic_field(topic)
        topic_bytes, length_bytes = len(expected), PROPERTIES_LENGTH.size
        unpack, unpack_length, fixed_bytes = _FIXED_V4.packed.unpack_from, PROPERTIES_LENGTH.unpack_from, _FIXED_V4.size
        for at, size in places:
            within = at % file_bytes
            view = maps.get(at - within)
            end = within + size
            if (
                view is not None
                and at >= min_offset
                and at + size <= written_offset
                and fixed_bytes <= size <= file_bytes - within
            ):
                if at < hot_from:
                    self.make_sure(at, at + size)
                (
                    total_size,
                    magic,
                    _,
                    _,
                    flag,
                    _,
                    physical_offset,
                    sys_flag,
                    born_timestamp,
                    born_host,
                    _,
                    store_host,
                    reconsume_times,
                    _,
                    body_size,
                ) = unpack(view, within)
                body_at = within + fixed_bytes
                body_end = body_at + body_size
                length_at = body_end + topic_bytes
                properties_at = length_at + length_bytes
                if (
                    total_size == size
                    and physical_offset == at
                    and magic == MAGIC_V1
                    and not sys_flag & _HOST_BITS
                    and body_size >= 0
                    and properties_at <= end
                    and view[body_end:length_at] == expected
                    and unpack_length(view, length_at)[0] == end - properties_at
                ):
                    yield Draft(
                        topic,
                        0,
                        view[body_at:body_end],
                        bytes(view[properties_at:end]),
                        born_timestamp,
                        born_host,
                        store_host,
                        flag,
                        sys_flag,
                        reconsume_times,
                    )
                    continue
            unit = self.unit_of(at, size)
            yield None if unit is None else _draft(unit)

    def store_timestamp(self, at: int, size: int) -> int:
        """Of the unit that a queue entry names, ms; -1 when it is not in the log (Java: pickupStoreTimestamp). Raises Cold."""
        unit = self.unit_of(at, size)
        return -1 if unit is None else unit.store_timestamp

    def make_sure(self, at: int, end: int) -> None:
        """Raises Cold unless these bytes, all of one file, are in memory."""
        for block in self._blocks(at, end):
            if block not in self._resident:
                self._ask(block)

    def sure_units(self, positions: Sequence[int], sizes: Sequence[int], begin: int, end: int) -> int:
        """Of these units, ascending and all of one file, the first from `begin` on that is not in memory; `end`, if all are.

        It may be an earlier one, where that takes more questions than it is worth.  Raises Cold when the first one is not there.
        """
        if self.is_hot(positions[begin], positions[end - 1] + sizes[end - 1]):
            return end
        known, sure_end = len(self._resident), 0
        for unit in range(begin, end):
            at = positions[unit]
            unit_end = at + sizes[unit]
            if unit_end > sure_end:
                if (len(self._resident) - known) * UNITS_A_QUESTION > unit - begin:
                    return unit
                try:
                    self.make_sure(at, unit_end)
                except Cold:
                    if unit == begin:
                        raise
                    return unit
                sure_end = self._blocks(at, unit_end)[-1] + BLOCK_BYTES
        return end

    def is_hot(self, at: int, end: int) -> bool:
        """These bytes, all of one file, are known to be in memory, and everything between them."""
        if at >= self.hot_from:
            return True
        return self._resident.issuperset(self._blocks(at, end))

    def _blocks(self, at: int, end: int) -> range:
        """Where the blocks of these bytes, all of one file, begin."""
        return range(at - at % self._file_bytes % BLOCK_BYTES, end, BLOCK_BYTES)

    def store_timestamp_at(self, at: int) -> int:
        """Of the unit that begins here, ms; -1 when none does. Raises Cold."""
        unit = self.unit(at)
        return -1 if unit is None else unit.store_timestamp

    def _ask(self, block: int) -> None:
        """`block` is the log position where it begins, a multiple of BLOCK_BYTES within its file. Raises Cold."""
        loading = self._loading.get(block)
        if loading is not None:
            if not loading.done:
                raise loading
            del self._loading[block]
            self._resident.add(block)
            return
        start = block - block % self._file_bytes
        file_end = min(start + self._file_bytes, self._log.written_offset)
        file = self._log.segments.file(start)
        if file.resident(block - start, min(block + BLOCK_BYTES, file_end) - block):
            self._resident.add(block)
            return
        end = min(block + READ_AHEAD_BLOCKS * BLOCK_BYTES, file_end)

        def load() -> None:
            for at in range(block, end, BLOCK_BYTES):
                file.read_at(at - start, min(BLOCK_BYTES, end - at))

        cold = Cold(load, f"{file.path} at {block - start}")
        self._loading.update(dict.fromkeys(range(block, end, BLOCK_BYTES), cold))
        raise cold


def _draft(unit: StoredMessage) -> Draft:
    """Of the copy of any unit."""
    topic = unit.topic.decode("utf-8", "replace")
    hosts, times = (unit.born_host, unit.store_host), unit.reconsume_times
    return Draft(topic, 0, unit.body, unit.properties, unit.born_timestamp, *hosts, unit.flag, unit.sys_flag, times)


def decoded(view: memoryview | None) -> StoredMessage | None:
    """The unit that these bytes are; None where they are none."""
    try:
        return None if view is None else read_unit(view)
    except BadRecord:
        return None
