"""How many hash slots an index file has: it does not say, since that is a setting of the broker that wrote it.

Most sizes tell it.  For others the newest entry is looked for, by the offset that it and the header name; a number of slots
counts when the newest entries, their slots and their chains agree with it.  Source: `IndexFile`, `IndexHeader`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from rmq_columns.decode.dtypes import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, records
from rmq_columns.files.filesystem import File

DEFAULT_SLOTS: Final = 5_000_000
DEFAULT_ENTRIES: Final = 20_000_000
"""`maxHashSlotNum`, `maxIndexNum`."""
SLOTS_OF_ENTRIES: Final = 4
"""What people who change both keep: a slot to four entries."""
CHECKED_ENTRIES: Final = 64
CANDIDATES_MAX: Final = 1 << 16
BLOCK_BYTES: Final = 1 << 20
_OFFSET: Final = INDEX_HEADER["end_physical_offset"]
_OFFSET_AT: Final = 0 if INDEX_ENTRY.fields is None else INDEX_ENTRY.fields["physical_offset"][1]


def slots_of(file: File, header: Any) -> int:
    """0 when it cannot be told.  header: a record of `INDEX_HEADER`."""
    room = file.size() - INDEX_HEADER.itemsize
    if room == DEFAULT_SLOTS * INDEX_SLOT.itemsize + DEFAULT_ENTRIES * INDEX_ENTRY.itemsize:
        return DEFAULT_SLOTS
    by_ratio, rest = divmod(max(room, 0), INDEX_SLOT.itemsize + SLOTS_OF_ENTRIES * INDEX_ENTRY.itemsize)
    newest = int(header["index_count"]) - 1
    if rest == 0 and by_ratio and _holds(file, by_ratio, newest):
        return by_ratio
    for slots in _candidates(file, header, newest):
        if _holds(file, slots, newest):
            return slots
    return by_ratio if rest == 0 else 0


def _holds(file: File, slots: int, newest: int) -> bool:
    """Whether newest entries, their chains and their slots agree with this many slots."""
    first = max(newest - CHECKED_ENTRIES + 1, 1)
    at = INDEX_HEADER.itemsize + slots * INDEX_SLOT.itemsize + first * INDEX_ENTRY.itemsize
    entries = records(file.read(at, (newest - first + 1) * INDEX_ENTRY.itemsize), INDEX_ENTRY)
    if newest < 1 or len(entries) < newest - first + 1 or (entries["key_hash"] < 0).any():
        return False
    newest_of: dict[int, int] = {}
    for number, entry in enumerate(entries, first):
        slot, previous = int(entry["key_hash"]) % slots, int(entry["previous"])
        before = newest_of.get(slot)
        if not (previous == before if before is not None else 0 <= previous < first):
            return False
        newest_of[slot] = number
    return all(_slot(file, slot) == number for slot, number in newest_of.items())


def _slot(file: File, slot: int) -> int:
    raw = file.read(INDEX_HEADER.itemsize + slot * INDEX_SLOT.itemsize, INDEX_SLOT.itemsize)
    return int(records(raw, INDEX_SLOT)["newest"][0]) if len(raw) == INDEX_SLOT.itemsize else 0


def _candidates(file: File, header: Any, newest: int) -> Iterator[int]:
    wanted = np.array([header["end_physical_offset"]], _OFFSET).tobytes()
    tried = 0
    for begin, end in file.data_ranges(INDEX_HEADER.itemsize):
        for at in range(begin, end, BLOCK_BYTES):
            data = file.read(at, min(BLOCK_BYTES, end - at) + len(wanted) - 1)
            hit = data.find(wanted)
            while hit >= 0 and tried < CANDIDATES_MAX:
                tried += 1
                entry_at = at + hit - _OFFSET_AT
                slots, rest = divmod(entry_at - newest * INDEX_ENTRY.itemsize - INDEX_HEADER.itemsize, INDEX_SLOT.itemsize)
                if rest == 0 and slots > 0:
                    yield slots
                hit = data.find(wanted, hit + 1)
