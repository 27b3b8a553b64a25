"""How many hash slots an index file has: it does not say, since that is a setting of the broker that wrote it.

Most sizes show it.  For others the first entry is looked for, by the offset that it and the header name; a number of slots counts
when most of the first entries' slots lead to them or to later ones, so that neither some damage nor what is not written yet
hinders.  numpy is loaded only where all of a file has to be searched.  Source: `IndexFile`, `IndexHeader`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from rmq_wire.layout.index import (
    DEFAULT_ENTRIES,
    DEFAULT_SLOTS,
    ENTRIES_PER_SLOT,
    ENTRY_FLAT,
    HEADER_FLAT,
    SLOT_FLAT,
    Geometry,
    divided,
)

FITTING_ENTRIES: Final = 66
"""So many entries are tried under a guess, about."""
BLOCK_BYTES: Final = 4 << 20
"""Read at once where all of a file is searched."""


class Source(Protocol):
    """An open index file."""

    def read(self, at: int, size: int) -> bytes: ...

    def data_ranges(self, start: int = 0) -> Iterable[tuple[int, int]]: ...


class Header(NamedTuple):
    """What is needed of a file's header: the first entry's physical offset, and the number of the next entry."""

    begin_physical_offset: int
    index_count: int


def geometry_of(source: Source, size: int, header: Header, slots: int | None = None) -> Geometry | None:
    """size: what the file should have.  slots: maxHashSlotNum when it is known.  None when nothing tells it."""
    if slots is None and size == Geometry(DEFAULT_SLOTS, DEFAULT_ENTRIES).size:
        slots = DEFAULT_SLOTS
    if slots is not None and slots > 0 and Geometry(slots, 0).size < size:
        return divided(size, slots)
    usual = _usual(size)
    fitting = usual if usual is not None and _fits(source, usual, header) else None
    if fitting is not None and _begins(source, fitting, header):
        return fitting
    return _searched(source, size, header) or fitting


def likely_geometry(source: Source, size: int, header: Header) -> Geometry | None:
    """The same; where the entries do not show it, or there are none, what the size alone says."""
    usual = _usual(size)
    return (usual if header.index_count <= 1 else geometry_of(source, size, header)) or usual


def _usual(size: int) -> Geometry | None:
    """With four entries to a slot, if the size can be that."""
    found = divided(size, (size - HEADER_FLAT.size) // (SLOT_FLAT.size + ENTRIES_PER_SLOT * ENTRY_FLAT.size))
    return found if found.slots > 0 and found.size == size else None


def _begins(source: Source, geometry: Geometry, header: Header) -> bool:
    """Whether entry 1 is the one that the header names, and has none before it."""
    data = source.read(geometry.entry_at(1), ENTRY_FLAT.size).ljust(ENTRY_FLAT.size, b"\0")
    key_hash, offset, _, previous = ENTRY_FLAT.packed.unpack(data)
    return bool(key_hash > 0 and offset == header.begin_physical_offset and previous == 0)


def _searched(source: Source, size: int, header: Header) -> Geometry | None:
    """Where the first entry can be: it has the header's first offset, no previous, and a slot that is in use."""
    import numpy as np

    from rmq_columns.decode.dtypes import INDEX_ENTRY, gather

    step = SLOT_FLAT.size
    for start, end in source.data_ranges():
        for begin in range(start - start % step, min(end, size), BLOCK_BYTES):
            raw = np.frombuffer(source.read(begin, min(BLOCK_BYTES, end - begin) + ENTRY_FLAT.size), np.uint8)
            at = np.arange(0, len(raw) - ENTRY_FLAT.size + 1, step)
            slots = (at + begin - HEADER_FLAT.size - ENTRY_FLAT.size) // step
            first = gather(raw, at, INDEX_ENTRY)
            good = (first["physical_offset"] == header.begin_physical_offset) & (first["previous"] == 0)
            good &= first["key_hash"] > 0  # 0 is lawful, but so are zeros everywhere in an empty part of the file
            good &= (slots > 0) & ((size - HEADER_FLAT.size - slots * step) % ENTRY_FLAT.size == 0)
            for number in np.flatnonzero(good).tolist():
                geometry = divided(size, int(slots[number]))
                if _fits(source, geometry, header):
                    return geometry
    return None


def _fits(source: Source, geometry: Geometry, header: Header) -> bool:
    """Whether the first entries' slots lead to them or to later ones, and entry 0 is empty."""
    count = min(max(header.index_count, 2), geometry.entries, FITTING_ENTRIES)
    data = source.read(geometry.entry_at(0), count * ENTRY_FLAT.size)
    if any(data[: ENTRY_FLAT.size]):
        return False
    good = looked_at = 0
    whole = len(data) - len(data) % ENTRY_FLAT.size
    for number, (key_hash, offset, seconds, previous) in enumerate(ENTRY_FLAT.packed.iter_unpack(data[:whole])):
        if not any((key_hash, offset, seconds, previous)):
            continue
        slot = source.read(geometry.slot_at(key_hash % geometry.slots), SLOT_FLAT.size)
        fits = key_hash >= 0 and len(slot) == SLOT_FLAT.size and SLOT_FLAT.packed.unpack(slot)[0] >= number and previous < number
        good += bool(fits and offset >= header.begin_physical_offset)
        looked_at += 1
    return looked_at > 0 and good * 4 >= looked_at * 3
