"""What `IndexService.buildIndex` and `IndexFile.putKey` write, retold without a thought for speed, by the declared layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from rmq_wire.implied.index_keys import index_hash
from rmq_wire.layout import index as layout
from rmq_wire.layout.flat import flat


@dataclass
class _File:
    begin_time: int
    begin_physical: int
    end_time: int
    end_physical: int
    count: int = 1
    slots: dict[int, int] = field(default_factory=dict)
    entries: list[tuple[int, int, int, int]] = field(default_factory=list)


_ENTRY = flat(layout.ENTRY).packed
"""Fields in the order of `_File.entries`: a million simulated lives build many of them."""


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
            key_hash = index_hash(topic, key)
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
        header = {
            "begin_timestamp": file.begin_time,
            "end_timestamp": file.end_time,
            "begin_physical_offset": file.begin_physical,
            "end_physical_offset": file.end_physical,
            "slot_count": len(file.slots),
            "index_count": file.count,
        }
        data = bytes(layout.HEADER.build(header))
        data += b"".join(_slot(file.slots.get(n, 0)) for n in range(self.slot_num))
        data += bytes(layout.ENTRY.sizeof())
        data += b"".join(_ENTRY.pack(*entry) for entry in file.entries)
        return data + bytes((self.index_num - file.count) * layout.ENTRY.sizeof())


@cache
def _slot(newest: int) -> bytes:
    return bytes(layout.SLOT.build({"newest": newest}))
