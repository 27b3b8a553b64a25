"""The extensions of a repaired store's consume queues (`consumequeue_ext`), for the queues that had some.

Each is made of its message: the tags' hash and the store time.  The bit map of consumers cannot be, for the filters of that day
are gone; it is taken over where the old queue unit leads to an extension that is still this message's.  Without a bit map a
filter reads the message itself, so nothing is missed.  A unit that had none in the old queue gets none.
Sources: `ConsumeQueueExt.put`, `ConsumeQueue.putMessagePositionInfoWrapper`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rmq_columns.checks.readers import Readers
from rmq_inspect.decode.directory import StoreFile
from rmq_inspect.decode.queues import QueueUnit
from rmq_inspect.errors import CannotLook
from rmq_inspect.repair_files import write_at
from rmq_wire.layout.consume_queue import EXT_ADDRESS_FIRST, EXT_ADDRESS_LAST, EXT_END, EXT_END_BYTES, EXT_UNIT_HEAD
from rmq_wire.layout.flat import flat

FILE_BYTES: Final = 48 << 20
"""`mappedFileSizeConsumeQueueExt` by default."""
FILE_BYTES_MIN: Final = EXT_UNIT_HEAD.sizeof() + EXT_END_BYTES
"""Of a file that holds one."""
HEAD: Final = flat(EXT_UNIT_HEAD)
END_MARK: Final = flat(EXT_END).packed.pack(-1)
GATHERED_BYTES_MAX: Final = 8 << 20
"""Of all queues together, before they are written."""

Key = tuple[str, int]


class Old(NamedTuple):
    """An extension of the damaged store."""

    tags_code: int
    bit_map: bytes


class _Row:
    """The extensions of one queue that are being made.  end: where the next one goes, a byte of all its files."""

    __slots__ = ("end", "gathered", "gathered_at")

    def __init__(self, start: int) -> None:
        self.end = self.gathered_at = start
        self.gathered = bytearray()


class Extensions:
    """Of all queues.  old: the damaged store's extension files."""

    def __init__(self, root: Path, old: Mapping[Key, Sequence[StoreFile]], file_bytes: int) -> None:
        self._root = root
        self._old = old
        self._file_bytes = file_bytes
        self._readers = Readers()
        self._rows: dict[Key, _Row] = {}
        self._gathered_bytes = 0

    def has(self, key: Key) -> bool:
        """Whether this queue had any."""
        return key in self._old

    def old(self, key: Key, unit: QueueUnit | None, store_timestamp: int) -> Old | None:
        """What the old unit of this message leads to, if it is this message's."""
        if unit is None or unit.tags_code > EXT_ADDRESS_LAST:
            return None
        position = unit.tags_code - EXT_ADDRESS_FIRST
        file = next((one for one in self._old.get(key, ()) if one.start <= position < one.end), None)
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
        return Old(tags_code, bit_map) if len(bit_map) == bit_map_size else None

    def put(self, key: Key, tags_code: int, store_timestamp: int, bit_map: bytes) -> int:
        """Make one more; the address that its queue unit has instead of the hash."""
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(self._old[key][0].start // self._file_bytes * self._file_bytes)
        if HEAD.size + len(bit_map) + EXT_END_BYTES > self._file_bytes:
            bit_map = b""
        size = HEAD.size + len(bit_map)
        left = self._file_bytes - row.end % self._file_bytes
        if size > left - EXT_END_BYTES:
            row.gathered += END_MARK
            self._write(key, row)
            row.end += left
            row.gathered_at = row.end
        address = EXT_ADDRESS_FIRST + row.end
        row.gathered += HEAD.packed.pack(size, tags_code, store_timestamp, len(bit_map)) + bit_map
        row.end += size
        self._gathered_bytes += size
        if self._gathered_bytes > GATHERED_BYTES_MAX:
            self.flush()
        return address

    def flush(self) -> None:
        """Write what was gathered."""
        for key, row in self._rows.items():
            self._write(key, row)
        self._gathered_bytes = 0

    def close(self) -> None:
        """Write the rest; the old files are not read any more."""
        self.flush()
        self._readers.close()

    def _write(self, key: Key, row: _Row) -> None:
        if row.gathered:
            directory = self._root / "consumequeue_ext" / key[0] / str(key[1])
            write_at(directory, row.gathered_at, row.gathered, self._file_bytes)
            row.gathered_at += len(row.gathered)
            row.gathered = bytearray()
