"""Index files by themselves: header, slots, chains, order.

A chain may only lead to older entries of the same slot.  So one pass over the entries in the order in which they were written,
with the newest entry of each slot at hand, checks every link, every slot and the absence of cycles; its memory depends on the
number of slots alone.  `entries` holds the entries against the log.
Source: `IndexFile`, `IndexHeader` of the reference.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rmq_columns.checks.files import CheckedFile
from rmq_columns.checks.findings import NOWHERE, Findings
from rmq_columns.decode.dtypes import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, Records, records
from rmq_columns.decode.index_slots import Header, geometry_of
from rmq_columns.errors import CannotLook, FileGone
from rmq_columns.files.filesystem import File
from rmq_wire.layout import index
from rmq_wire.layout.index import Geometry

RUN_ENTRIES: Final = 1 << 18
FENCE_ENTRIES: Final = 4096
"""Entries between two fence posts."""
ODD_KEPT_MAX: Final = 256
OFFSET_END: Final = 1 << 62
"""Behind every physical offset."""
GUESS_FILES_MAX: Final = 8
COUNT_AT: Final = index.HEADER_FLAT.at["index_count"]


@dataclass
class IndexState:
    """One index file as it is by itself."""

    file: CheckedFile
    geometry: Geometry | None = None
    count: int = 0
    """number of the next entry; 0 without any"""
    first_offset: int = -1
    """physical offset of the first entry, and of the last"""
    last_offset: int = -1
    begin_timestamp: int = 0
    end_timestamp: int = 0
    fences: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """physical offset of entry 1, 1 + FENCE_ENTRIES, …"""
    is_ordered: bool = True
    odd: list[tuple[int, int]] = field(default_factory=list)
    """(entry, physical offset) of entries out of order"""
    is_gone: bool = False
    """deleted since the store was listed"""

    @property
    def has_entries(self) -> bool:
        """That can be looked at."""
        return self.geometry is not None and self.count > 1


@dataclass
class IndexTold:
    """What is known of some index files together, or of all of a store."""

    files: int = 0
    entries: int = 0
    first_offset: int = OFFSET_END
    """the smallest physical offset of an entry, and the largest"""
    last_offset: int = -1
    has_entries: bool = False
    odd: int = 0
    """entries out of order, as far as they are kept"""
    is_ordered: bool = True
    is_empty: bool = True
    """no entry is in any of them; one whose slots are not known may have some"""
    gone: list[str] = field(default_factory=list)
    """names of those that were deleted since the store was listed"""
    first_there: str | None = None
    """the first name of those that were not"""

    def take(self, one: IndexState) -> None:
        """One file more."""
        self.files += 1
        self.entries += max(one.count - 1, 0)
        self.odd += len(one.odd)
        self.is_empty = self.is_empty and one.count <= 1 and (one.geometry is not None or one.end_timestamp == 0)
        if one.is_gone:
            self.gone.append(one.file.name)
        elif self.first_there is None or one.file.name < self.first_there:
            self.first_there = one.file.name
        if one.has_entries:
            self.first_offset, self.last_offset = min(self.first_offset, one.first_offset), max(self.last_offset, one.last_offset)
            self.has_entries, self.is_ordered = True, self.is_ordered and one.is_ordered

    def merge(self, other: IndexTold) -> None:
        """What was told of some others."""
        self.files += other.files
        self.entries += other.entries
        self.odd += other.odd
        self.first_offset, self.last_offset = min(self.first_offset, other.first_offset), max(self.last_offset, other.last_offset)
        self.has_entries = self.has_entries or other.has_entries
        self.is_ordered, self.is_empty = self.is_ordered and other.is_ordered, self.is_empty and other.is_empty
        self.gone += other.gone
        self.first_there = min((one for one in (self.first_there, other.first_there) if one is not None), default=None)

    def expired(self) -> list[str]:
        """Names of the oldest files, where they are gone: retention took them."""
        return [name for name in self.gone if self.first_there is None or name < self.first_there]

    def compares(self, settled: bool) -> bool:
        """Whether entries can be held against the log.  Of those out of order, which is said already, the place is unknown."""
        return self.is_ordered and (self.has_entries or (settled and self.files > 0 and self.is_empty))


def check_index_file(file: CheckedFile, size: int, slots: int | None, settled: bool) -> tuple[IndexState, Findings]:
    """size: what index files of this store have.  slots: maxHashSlotNum when it is known.

    settled: nobody writes to the file, and it was closed in order; else its slots and header may lag behind its entries, which
    the next start mends.
    """
    state, findings = IndexState(file), Findings()
    deque(walked(file, size, slots, settled, state, findings), maxlen=0)
    return state, findings


def walked(
    file: CheckedFile, size: int, slots: int | None, settled: bool, state: IndexState, findings: Findings
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """As `check_index_file`, into state and findings; gives of some entries, in order, the number of the first of them and the
    physical offsets where they belong.
    """
    if file.size != size:
        findings.add("index-file-size", file.name, NOWHERE, f"{file.size} bytes instead of {size}")
    try:
        with file.open() as reader:
            head = records(reader.read(0, INDEX_HEADER.itemsize), INDEX_HEADER)
            if len(head):
                yield from _checked(file, reader, head[0], size, slots, settled, state, findings)
    except CannotLook as reason:
        state.is_gone = isinstance(reason, FileGone)
        findings.add("file-unreadable", file.name, NOWHERE, str(reason))


def _checked(
    file: CheckedFile,
    reader: File,
    head: Any,
    size: int,
    slots: int | None,
    settled: bool,
    state: IndexState,
    findings: Findings,
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    state.begin_timestamp, state.end_timestamp = int(head["begin_timestamp"]), int(head["end_timestamp"])
    geometry = _geometry(reader, head, size, slots)
    if geometry is None:
        if settled and any(data for _, data in reader.chunks(0, INDEX_HEADER.itemsize) if any(data)):
            findings.add(
                "index-geometry", file.name, NOWHERE, f"{size} bytes; give --hash-slots when maxHashSlotNum was configured"
            )
        return
    state.geometry = geometry
    count = int(head["index_count"])
    if not 0 <= count <= geometry.entries or count == 1:
        findings.add("index-count", file.name, COUNT_AT, f"counts {count} of {geometry.entries}")
        count = min(max(count, 0), geometry.entries)
    state.count = _written(reader, geometry, count)
    if state.count != count:
        findings.add("index-count", file.name, COUNT_AT, f"counts {count}, entries end with {state.count - 1}")
    yield from _Chains(file, reader, geometry, state, findings).run(head, settled)


def _written(reader: File, geometry: Geometry, count: int) -> int:
    """The count without the empty entries at its end."""
    low, high = min(count, 1), count
    while low < high:
        middle = (low + high) // 2
        entry = read_entries(reader, geometry, middle, 1)
        if len(entry) and entry[0].tobytes().strip(b"\0"):
            low = middle + 1
        else:
            high = middle
    return low


def slots_of(files: Sequence[CheckedFile], size: int) -> int | None:
    """maxHashSlotNum of a store, found in the first of its index files that says it; None when none does."""
    for file in files[:GUESS_FILES_MAX]:
        with contextlib.suppress(CannotLook), file.open() as reader:
            head = records(reader.read(0, INDEX_HEADER.itemsize), INDEX_HEADER)
            geometry = _geometry(reader, head[0], size, None) if len(head) else None
            if geometry is not None:
                return geometry.slots
    return None


def _geometry(reader: File, head: Any, size: int, slots: int | None) -> Geometry | None:
    return geometry_of(reader, size, Header.of(head), slots)


class _Chains:
    """One pass over the entries, oldest first."""

    def __init__(self, file: CheckedFile, reader: File, geometry: Geometry, state: IndexState, findings: Findings) -> None:
        self._file, self._reader, self._geometry, self._state, self._findings = file, reader, geometry, state, findings
        self._newest = np.zeros(geometry.slots, np.int32)
        self._previous_offset = -1
        self._fences: list[npt.NDArray[np.int64]] = []

    def run(self, head: Any, settled: bool) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        number = 1
        while number < self._state.count:
            entries = self._read(number, min(RUN_ENTRIES, self._state.count - number))
            if not len(entries):
                break
            self._links(entries, number)
            yield number, self._order(entries, number)
            number += len(entries)
        self._state.fences = np.concatenate(self._fences) if self._fences else np.empty(0, np.int64)
        if settled:
            self._slots()
            self._header(head)

    def _read(self, number: int, count: int) -> Records:
        return read_entries(self._reader, self._geometry, number, count)

    def _at(self, number: int) -> int:
        return self._geometry.entry_at(number)

    def _links(self, entries: Records, number: int) -> None:
        numbers = np.arange(number, number + len(entries), dtype=np.int64)
        hashes = entries["key_hash"].astype(np.int64)
        negative = hashes < 0
        slots = np.where(negative, 0, hashes) % self._geometry.slots
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        same = np.concatenate(([False], ordered[1:] == ordered[:-1]))
        expected_ordered = np.where(same, np.concatenate(([0], numbers[order][:-1])), self._newest[ordered])
        expected = np.empty(len(entries), np.int64)
        expected[order] = expected_ordered
        previous = entries["previous"].astype(np.int64)
        bad = (previous != expected) | negative
        cycles = bad & (previous >= numbers)
        for code, rows in (("index-cycle", np.flatnonzero(cycles)), ("index-chain", np.flatnonzero(bad & ~cycles))):
            for row in rows[:1].tolist():
                text = (
                    f"entry {numbers[row]} leads to {previous[row]}, the one before it with slot {slots[row]} is {expected[row]}"
                )
                self._findings.add(code, self._file.name, self._at(int(numbers[row])), text, len(rows))
        self._newest[slots] = numbers

    def _order(self, entries: Records, number: int) -> npt.NDArray[np.int64]:
        """Where they belong: of those out of order, where the one before is."""
        offsets = entries["physical_offset"].astype(np.int64)
        if self._state.first_offset < 0:
            self._state.first_offset = int(offsets[0])
        before = np.concatenate(([self._previous_offset], offsets[:-1]))
        after = np.concatenate((offsets[1:], [offsets[-1]]))
        falls = np.flatnonzero(offsets < before)
        clean = offsets
        if len(falls):
            clean = offsets.copy()
            spikes = (offsets > after) & (after >= before)
            odd = spikes | ((offsets < before) & ~np.concatenate(([False], spikes[:-1])))
            clean[odd] = before[odd]
            for row in np.flatnonzero(odd)[: ODD_KEPT_MAX - len(self._state.odd)].tolist():
                self._state.odd.append((number + row, int(offsets[row])))
            self._state.is_ordered = self._state.is_ordered and bool((np.diff(clean) >= 0).all())
        self._previous_offset = int(clean[-1])
        self._state.last_offset = self._previous_offset
        first = -(number - 1) % FENCE_ENTRIES
        self._fences.append(clean[first::FENCE_ENTRIES])
        return clean

    def _slots(self) -> None:
        per_run = RUN_ENTRIES
        for begin in range(0, self._geometry.slots, per_run):
            at = self._geometry.slot_at(begin)
            count = min(per_run, self._geometry.slots - begin)
            data = self._reader.read(at, count * INDEX_SLOT.itemsize).ljust(count * INDEX_SLOT.itemsize, b"\0")
            found = records(data, INDEX_SLOT)["newest"].astype(np.int64)
            bad = np.flatnonzero(found != self._newest[begin : begin + count])
            for row in bad[:1].tolist():
                text = f"slot {begin + row} leads to entry {found[row]}, its newest is {self._newest[begin + row]}"
                self._findings.add("index-slot", self._file.name, at + row * INDEX_SLOT.itemsize, text, len(bad))

    def _header(self, head: Any) -> None:
        """The header's bounds are those of the first and last entry; one entry more than it counts means that it lags."""
        state, used = self._state, int(np.count_nonzero(self._newest))
        if state.count > 1:
            found = {
                "begin_physical_offset": state.first_offset,
                "end_physical_offset": state.last_offset,
                "slot_count": used,
            }
            for name, value in found.items():
                if int(head[name]) != value:
                    at = index.HEADER_FLAT.at[name]
                    self._findings.add("index-header", self._file.name, at, f"{name} is {head[name]}, its entries say {value}")
        behind = self._read(max(state.count, 1), int(state.count < self._geometry.entries))
        if behind.tobytes().strip(b"\0"):
            self._findings.add(
                "index-count", self._file.name, COUNT_AT, f"counts {state.count}, an entry with that number is there"
            )


def read_entries(reader: File, geometry: Geometry, number: int, count: int) -> Records:
    """Entries from this number on."""
    return records(reader.read(geometry.entry_at(number), count * INDEX_ENTRY.itemsize), INDEX_ENTRY)
