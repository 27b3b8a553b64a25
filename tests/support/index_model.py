"""What `IndexService.buildIndex` and `IndexFile.putKey` write, without a thought for speed, by the declared layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from rmq_wire.implied.index_keys import index_hash
from rmq_wire.layout import index as layout


@dataclass
class _File:
    begin_time: int
    begin_physical: int
    end_time: int
    end_physical: int
    count: int = 1
    slots: dict[int, int] = field(default_factory=dict)
    entries: list[tuple[int, int, int, int]] = field(default_factory=list)


_HEADER, _SLOT, _ENTRY = layout.HEADER_FLAT.packed, layout.SLOT_FLAT.packed, layout.ENTRY_FLAT.packed
"""A million simulated lives build many of them."""
_hash = lru_cache(4096)(index_hash)
"""Those lives use the same few topics and keys."""


class IndexModel:
    """The index of a store from its messages, in order."""

    def __init__(self, slot_num: int, index_num: int) -> None:
        self.slot_num = slot_num
        self.index_num = index_num
        self.files: list[_File] = []

    def put(self, topic: str, keys: tuple[str, ...], physical: int, time: int) -> None:
        for key in keys:
            if not self.files:
                self.files.append(_File(0, 0, 0, 0))
            elif self.files[-1].count == self.index_num:
                full = self.files[-1]
                self.files.append(_File(full.end_time, full.end_physical, full.end_time, full.end_physical))
            file = self.files[-1]
            key_hash = _hash(topic, key)
            slot = key_hash % self.slot_num
            seconds = max(time - file.begin_time, 0) // 1000 if file.begin_time > 0 else 0
            file.entries.append((key_hash, physical, seconds, file.slots.get(slot, 0)))
            file.slots[slot] = file.count
            if file.count == 1:
                file.begin_time, file.begin_physical = time, physical
            file.count += 1
            file.end_time, file.end_physical = time, physical

    def contents(self) -> list[bytes]:
        return [self._bytes(file) for file in self.files]

    def _bytes(self, file: _File) -> bytes:
        header = _HEADER.pack(file.begin_time, file.end_time, file.begin_physical, file.end_physical, len(file.slots), file.count)
        slots = bytearray(self.slot_num * _SLOT.size)
        for slot, newest in file.slots.items():
            _SLOT.pack_into(slots, slot * _SLOT.size, newest)
        entries = bytearray(self.index_num * _ENTRY.size)  # the first has no message
        for number, entry in enumerate(file.entries, 1):
            _ENTRY.pack_into(entries, number * _ENTRY.size, *entry)
        return header + slots + entries
