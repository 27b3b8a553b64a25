"""The index of a repaired store, made from its log as the reference makes it.

The slots of the file in work are held in memory (20 MB by default), its entries go out in portions; header and slots are written
when it is full or the log ends.  Sources: `IndexService.buildIndex`, `IndexFile.putKey` of the reference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from rmq_inspect.decode.index_file import ENTRY, HEADER, SLOT
from rmq_inspect.decode.log import Unit
from rmq_inspect.decode.records import properties_of, topic_of
from rmq_inspect.repair_report import Report
from rmq_wire import property_names as prop
from rmq_wire import sys_flag as flags
from rmq_wire.implied.index_keys import index_hash, index_keys
from rmq_wire.times import compact_time

WRITE_ENTRIES: Final = 16_384
INT_MAX: Final = (1 << 31) - 1
MS: Final = 1000
YEAR_MS_MAX: Final = 253_370_764_800_000
"""The year 9999: what has a name of 17 digits."""


class IndexWriter:
    """entries_max: `maxIndexNum`; one less fit, for the first is never used."""

    def __init__(self, directory: Path, report: Report, *, slots: int, entries_max: int) -> None:
        self._directory = directory
        self._report = report
        self._slots = slots
        self._entries_max = entries_max
        self._descriptor = -1
        self._name = ""
        self._begin_ms = self._end_ms = 0
        self.end_timestamp = 0
        """of the newest file: everything in it is on disk"""

    def take(self, unit: Unit) -> None:
        """Index one message, unless its transaction was rolled back."""
        message = unit.message
        if flags.transaction_type(message.sys_flag) == flags.TRANSACTION_ROLLBACK:
            return
        values = properties_of(message)
        topic = topic_of(message)
        for key in index_keys(values.get(prop.UNIQ_KEY), values.get(prop.KEYS), values.get(prop.TAGS)):
            self._put(index_hash(topic, key), message.physical_offset, message.store_timestamp)

    def _put(self, key_hash: int, physical: int, stored_ms: int) -> None:
        if self._descriptor < 0 or self._count >= self._entries_max:
            self.close()
            self._begin(physical, stored_ms)
        slot_at = key_hash % self._slots * SLOT.size
        [before] = SLOT.packed.unpack_from(self._slot_bytes, slot_at)
        self._used += before == 0
        seconds = min(max((stored_ms - self._begin_ms) // MS, 0), INT_MAX) if self._begin_ms > 0 else 0
        self._entries += ENTRY.packed.pack(key_hash, physical, seconds, before)
        SLOT.packed.pack_into(self._slot_bytes, slot_at, self._count)
        if self._count == 1:
            # Java sets the header's begin behind the first entry: that one counts from the end of the file before
            self._begin_ms, self._begin_physical = stored_ms, physical
        self._count += 1
        self._end_physical, self._end_ms = physical, stored_ms
        self._report.index_entries += 1
        if len(self._entries) >= WRITE_ENTRIES * ENTRY.size:
            self._write_entries()

    def _begin(self, physical: int, stored_ms: int) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        name = compact_time(min(max(stored_ms, 0), YEAR_MS_MAX), None)
        self._name = name if name > self._name else str(int(self._name) + 1)
        self._descriptor = os.open(self._directory / self._name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._entries_at = HEADER.size + self._slots * SLOT.size
        os.ftruncate(self._descriptor, self._entries_at + self._entries_max * ENTRY.size)
        self._slot_bytes = bytearray(self._slots * SLOT.size)
        self._entries = bytearray()
        self._written_at = self._entries_at + ENTRY.size
        self._count, self._used = 1, 0
        self._begin_ms = self._end_ms
        self._report.index_files += 1

    def _write_entries(self) -> None:
        os.pwrite(self._descriptor, self._entries, self._written_at)
        self._written_at += len(self._entries)
        self._entries = bytearray()

    def close(self) -> None:
        """Write and sync the file in work."""
        if self._descriptor < 0:
            return
        self._write_entries()
        for at in range(0, len(self._slot_bytes), 1 << 20):
            part = self._slot_bytes[at : at + (1 << 20)]
            if part.strip(b"\0"):
                os.pwrite(self._descriptor, part, HEADER.size + at)
        ends = (self._begin_ms, self._end_ms, self._begin_physical, self._end_physical)
        os.pwrite(self._descriptor, HEADER.packed.pack(*ends, self._used, self._count), 0)
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self.end_timestamp = self._end_ms
