"""The index files of a generated store: entries of many messages at once, chained as a broker chains them one by one.

An entry's previous is the newest before it with its slot: within a batch by a stable sort, before the batch from the table of
slots.  Hashes of keys are Java's, over digits at fixed places.  Sources: `IndexService.buildIndex`, `IndexFile.putKey`.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from planted_stores.pattern import KEY_PREFIX, SLOTS, UNIQUE_PREFIX, Slot, Var
from planted_stores.plan import Plan, changed
from planted_stores.units import digits, hexadecimal
from rmq_columns.decode.dtypes import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, Bytes, Ints
from rmq_wire.implied.index_keys import index_hash
from rmq_wire.java import string_hash
from rmq_wire.layout.index import Geometry
from rmq_wire.times import compact_time

BATCH_MESSAGES: Final = 64 * SLOTS
ENTRIES_A_MESSAGE: Final = 3
"""Unique key, business key, tags; only the last where it has no keys."""


def write_index(root: Path, plan: Plan) -> int:
    """Write the index of the whole store.  Returns the entries."""
    directory = root / "index"
    directory.mkdir()
    hasher = _Hasher(plan)
    file: _IndexFile | None = None
    total = 0
    for first in range(0, plan.count, BATCH_MESSAGES):
        numbers = np.arange(first, min(first + BATCH_MESSAGES, plan.count))
        hashes, physical, owners = hasher.entries(numbers)
        total += len(hashes)
        done = 0
        while done < len(hashes):
            if file is None or file.room == 0:
                if file is not None:
                    file.close()
                file = _IndexFile(directory, plan, int(plan.stored_ms(owners[done : done + 1])[0]))
            end = done + min(file.room, len(hashes) - done)
            file.add(hashes[done:end], physical[done:end], plan.stored_ms(owners[done:end]))
            done = end
    if file is not None:
        file.close()
    return total


class _Hasher:
    """The hashes under which messages are indexed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.unique = self._prefixes(UNIQUE_PREFIX)
        self.key = self._prefixes(KEY_PREFIX)
        self.tags = np.array([index_hash(slot.topic, "T#" + slot.tags) for slot in plan.slots], np.int64)
        self.has_keys = np.array([slot.has_keys for slot in plan.slots])

    def _prefixes(self, prefix: str) -> Ints:
        return np.array([_hash_of(slot, prefix) for slot in self.plan.slots], np.int64)

    def entries(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """(hash, physical offset, message number) of each entry, in order."""
        plan = self.plan
        slots, physical = numbers % SLOTS, plan.physical(numbers)
        hashes = np.empty((len(numbers), ENTRIES_A_MESSAGE), np.int64)
        hashes[:, 0] = _folded(self.unique[slots], hexadecimal(plan.identity(numbers), len(Var.UNIQUE)))
        hashes[:, 1] = _folded(self.key[slots], digits(plan.key(numbers), len(Var.KEY)))
        hashes[:, 2] = self.tags[slots]
        wanted = np.repeat(self.has_keys[slots][:, None], ENTRIES_A_MESSAGE, axis=1)
        wanted[:, 2] = True
        wanted &= (changed(np.zeros(len(numbers), np.int64), numbers, plan.changes.no_index) == 0)[:, None]
        places = np.repeat(physical[:, None], ENTRIES_A_MESSAGE, axis=1)
        places[:, 1] += changed(np.zeros(len(numbers), np.int64), numbers, plan.changes.index_shift)
        owners = np.repeat(numbers[:, None], ENTRIES_A_MESSAGE, axis=1)
        return hashes[wanted], places[wanted], owners[wanted]


def _hash_of(slot: Slot, prefix: str) -> int:
    return string_hash(f"{slot.topic}#{prefix}") & 0xFFFFFFFF


def _folded(prefixes: Ints, texts: Bytes) -> Ints:
    """Hash of prefix and text without its sign (`IndexFile.indexKeyHashMethod`)."""
    value = prefixes.astype(np.uint32)
    for column in range(texts.shape[1]):
        value = value * np.uint32(31) + texts[:, column]
    signed = np.abs(value.view(np.int32).astype(np.int64))
    return np.where(signed < 1 << 31, signed, 0)


class _IndexFile:
    """One file: its slots in memory, its entries as they come."""

    def __init__(self, directory: Path, plan: Plan, now_ms: int) -> None:
        self.slots = np.zeros(plan.sizes.hash_slots, np.int32)
        self.geometry = Geometry(plan.sizes.hash_slots, plan.sizes.index_entries)
        self.header: Any = np.zeros(1, INDEX_HEADER)
        self.next = 1
        self.file = (directory / compact_time(now_ms, datetime.UTC)).open("xb")
        self.file.truncate(self.geometry.size)

    @property
    def room(self) -> int:
        return self.geometry.entries - self.next

    def add(self, hashes: Ints, physical: Ints, stored_ms: Ints) -> None:
        if self.next == 1:
            self.header["begin_timestamp"], self.header["begin_physical_offset"] = stored_ms[0], physical[0]
        slots = hashes % len(self.slots)
        order = np.argsort(slots, kind="stable")
        by_slot = slots[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = by_slot[1:] != by_slot[:-1]
        own = self.next + order
        before = self.slots[by_slot].astype(np.int64)
        previous = np.where(is_first, before, np.concatenate(([0], own[:-1])))
        self.header["slot_count"] += int((is_first & (before == 0)).sum())
        is_last = np.append(is_first[1:], True)
        self.slots[by_slot[is_last]] = own[is_last]
        entries = np.zeros(len(hashes), INDEX_ENTRY)
        entries["key_hash"], entries["physical_offset"] = hashes, physical
        entries["seconds"] = (stored_ms - int(self.header["begin_timestamp"][0])) // 1000
        entries["previous"][order] = previous
        self.file.seek(self.geometry.entry_at(self.next))
        self.file.write(entries.tobytes())
        self.next += len(hashes)
        self.header["end_timestamp"], self.header["end_physical_offset"] = stored_ms[-1], physical[-1]

    def close(self) -> None:
        self.header["index_count"] = self.next
        self.file.seek(0)
        self.file.write(self.header.tobytes())
        self.file.write(self.slots.astype(INDEX_SLOT["newest"]).tobytes())
        self.file.close()
