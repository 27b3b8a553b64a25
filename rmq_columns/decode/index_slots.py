"""How many hash slots an index file has: it does not say, since that is a setting of the broker that wrote it.

Most sizes show it.  For others the first entry is looked for, by the offset that it and the header name, then the newest one; a
number of slots counts when most of the first entries' slots lead to them or to later ones, so that neither some damage nor what
is not written yet hinders.  numpy is loaded only where all of a file has to be searched.  Source: `IndexFile`, `IndexHeader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, Self

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
FITTING_SHARE: Final = 0.75
CANDIDATES_MAX: Final = 256
"""A message has as many newest entries as it has keys."""
FITTING_MAX: Final = 8
"""So many guesses that fit are looked at for one that ends as the header says."""
BLOCK_BYTES: Final = 4 << 20
"""Read at once where all of a file is searched."""


class Source(Protocol):
    """An open index file."""

    def read(self, at: int, size: int) -> bytes: ...

    def data_ranges(self, start: int = 0) -> Iterable[tuple[int, int]]: ...


class Header(NamedTuple):
    """What is needed of a file's header: the physical offsets of its first and newest entry, and the number of the next one."""

    begin_physical_offset: int
    end_physical_offset: int
    index_count: int

    @classmethod
    def of(cls, fields: Any) -> Self:
        """Of anything that has them by name."""
        return cls(*(int(fields[name]) for name in cls._fields))


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


def _ends(source: Source, geometry: Geometry, header: Header) -> bool:
    """Whether the newest entry is the one that the header names."""
    data = source.read(geometry.entry_at(max(header.index_count - 1, 1)), ENTRY_FLAT.size).ljust(ENTRY_FLAT.size, b"\0")
    key_hash, offset, _, _ = ENTRY_FLAT.packed.unpack(data)
    return bool(key_hash > 0 and offset == header.end_physical_offset)


def _searched(source: Source, size: int, header: Header) -> Geometry | None:
    """From the first entry; where it or what the header says of it is damaged, from the newest one."""
    fitting = (one for one in _candidates(source, size, 1, header.begin_physical_offset) if _fits(source, one, header))
    some = list(islice(fitting, 1))
    if some and not _ends(source, some[0], header):  # slots with few keys may look like entries
        some += islice(fitting, FITTING_MAX)
    if some:
        return next((one for one in some if _ends(source, one, header)), some[0])
    if header.index_count <= 2:
        return None
    last = header.end_physical_offset
    candidates = islice(_candidates(source, size, header.index_count - 1, last), CANDIDATES_MAX)
    shares = [(_fitting_share(source, one, header.index_count, 0, last), one) for one in candidates]
    share, best = max(shares, default=(0.0, None))
    return best if share >= FITTING_SHARE else None


def _candidates(source: Source, size: int, number: int, offset: int) -> Iterator[Geometry]:
    """Those with which the entry of this number has this physical offset, and a lawful previous one."""
    import numpy as np

    from rmq_columns.decode.dtypes import INDEX_ENTRY, gather

    step = SLOT_FLAT.size
    before = HEADER_FLAT.size + number * ENTRY_FLAT.size
    for start, end in source.data_ranges():
        for begin in range(start - start % step, min(end, size), BLOCK_BYTES):
            raw = np.frombuffer(source.read(begin, min(BLOCK_BYTES, end - begin) + ENTRY_FLAT.size), np.uint8)
            at = np.arange(0, len(raw) - ENTRY_FLAT.size + 1, step)
            slots = (at + begin - before) // step
            entries = gather(raw, at, INDEX_ENTRY)
            good = (entries["physical_offset"] == offset) & (entries["previous"] >= 0) & (entries["previous"] < number)
            good &= entries["key_hash"] > 0  # 0 is lawful, but so are zeros everywhere in an empty part of the file
            good &= (slots > 0) & ((size - HEADER_FLAT.size - slots * step) % ENTRY_FLAT.size == 0)
            for chosen in np.flatnonzero(good).tolist():
                yield divided(size, int(slots[chosen]))


def _fits(source: Source, geometry: Geometry, header: Header) -> bool:
    """Whether the first entries' slots lead to them or to later ones, and entry 0 is empty."""
    if any(source.read(geometry.entry_at(0), ENTRY_FLAT.size)):
        return False
    return _fitting_share(source, geometry, header.index_count, header.begin_physical_offset) >= FITTING_SHARE


def _fitting_share(source: Source, geometry: Geometry, count: int, lowest: int, highest: int = (1 << 63) - 1) -> float:
    """Of the first entries, the part whose slots lead to them or to later ones, and whose offsets are within these."""
    read = min(max(count, 2), geometry.entries, FITTING_ENTRIES)
    data = source.read(geometry.entry_at(1), (read - 1) * ENTRY_FLAT.size)
    good = looked_at = 0
    whole = len(data) - len(data) % ENTRY_FLAT.size
    for number, (key_hash, offset, seconds, previous) in enumerate(ENTRY_FLAT.packed.iter_unpack(data[:whole]), 1):
        if not any((key_hash, offset, seconds, previous)):
            continue
        slot = source.read(geometry.slot_at(key_hash % geometry.slots), SLOT_FLAT.size)
        fits = key_hash >= 0 and len(slot) == SLOT_FLAT.size and SLOT_FLAT.packed.unpack(slot)[0] >= number and previous < number
        good += bool(fits and lowest <= offset <= highest)
        looked_at += 1
    return good / looked_at if looked_at else 0.0
