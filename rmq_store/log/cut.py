"""What lies behind the log's end when it is cut: whole units there are counted, and copied aside before they are overwritten.

After a power cut such units were never promised to be there, yet nobody should lose them without a word.  Only their own heads
speak for them: a body may hold bytes that look like a unit, so what is found is a hint, not a message.
(Java truncates without a word.)
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rmq_store.disk.disk import Disk, File, write_all
from rmq_store.disk.segments import Segments
from rmq_store.layouts import BLANK, HEAD, MAGIC_V1, MAGIC_V2
from rmq_wire.errors import BadRecord
from rmq_wire.message import has_good_crc, read_size_and_magic, read_unit
from rmq_wire.store_names import offset_name

DIRECTORY: Final = "cut"
"""In the store's root. Each cut has a directory of its own, named by its position; in it files named by log positions."""
CHUNK_BYTES: Final = 1 << 20
CHUNKS_AT_ONCE: Final = 16
"""A unit is found when it lies within so many of them."""
_MAGIC: Final = HEAD.field("magic")
_MAGICS: Final = re.compile(b"|".join(re.escape(_MAGIC.pack(magic)) for magic in (MAGIC_V1, MAGIC_V2)))
_MAGIC_AT: Final = HEAD.at["magic"]


class Cut(NamedTuple):
    """Bytes behind the end."""

    units: int
    kept_aside: str


def keep_aside(disk: Disk, segments: Segments, end: int, root: str) -> Cut:
    """Count the whole units behind `end`; when there are any, copy what is there. Raises OSError."""
    parts = [(start, max(end - start, 0)) for start in segments.starts if start + segments.file_bytes > end]
    units = sum(_count(segments.file(start), start, within) for start, within in parts)
    if not units:
        return Cut(0, "")
    directory = f"{root}/{DIRECTORY}/{offset_name(end)}"
    number = 1
    while disk.is_directory(directory):
        number += 1
        directory = f"{root}/{DIRECTORY}/{offset_name(end)}.{number}"
    changed = disk.make_directories(directory)
    for start, within in parts:
        _copy(disk, segments.file(start), within, f"{directory}/{offset_name(start + within)}")
    for path in [directory, *changed]:
        disk.sync_directory(path)
    return Cut(units, directory)


def _count(file: File, start: int, within: int) -> int:
    """Whole units of this file, from that byte on, none within another. Heads are looked at in memory, so junk costs little."""
    head_of, physical_at = HEAD.packed.unpack_from, HEAD.names.index("physical_offset")
    count, passed = 0, within
    for low, high in file.data_ranges(within):
        for at in range(low, high, CHUNK_BYTES):
            data = file.read_at(at, CHUNK_BYTES + HEAD.size)
            last = min(CHUNK_BYTES, len(data) - HEAD.size)
            found = _next_head(data, max(passed - at, 0))
            while 0 <= found <= last:
                following = found + 1
                if head_of(data, found)[physical_at] == start + at + found and (size := _unit_bytes(file, start, at + found)):
                    count += 1
                    passed = at + found + size
                    following = passed - at
                found = _next_head(data, following)
    return count


def _next_head(data: bytes, at: int) -> int:
    """Where from `at` on the next unit may begin, -1 for nowhere."""
    found = _MAGICS.search(data, at + _MAGIC_AT)
    return found.start() - _MAGIC_AT if found else -1


def _unit_bytes(file: File, start: int, at: int) -> int:
    """Size of the good unit that begins at this byte of the file, 0 when none does."""
    try:
        size, _ = read_size_and_magic(file.read_at(at, BLANK.size), 0)
        if not 0 < size <= CHUNKS_AT_ONCE * CHUNK_BYTES:
            return 0
        unit = read_unit(file.read_at(at, size))
    except BadRecord:
        return 0
    return size if unit.physical_offset == start + at and unit.total_size == size and has_good_crc(unit) else 0


def _copy(disk: Disk, file: File, within: int, path: str) -> None:
    """From there to the last byte that may not be zero; nothing when there is none."""
    copy: File | None = None
    for low, high in file.data_ranges(within):
        for at in range(low, high, CHUNK_BYTES):
            if copy is None:
                copy = disk.create(path, 0)
            write_all(copy, at - within, file.read_at(at, min(CHUNK_BYTES, high - at)))
    if copy is not None:
        copy.sync()
