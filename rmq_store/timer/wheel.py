"""The wheel: a ring of slots, each of one tick, in which the chain of that tick's units in the timer log begins.

The file has all slots at fixed places.  In memory are the pages of it that ever had something, as bytes: nothing is kept per
message.  Slots are not cleared when they are through; one with another tick counts as empty.  Pages are handed out for writing
without a copy: whoever changes one meanwhile changes a copy.  (Java: `TimerWheel`, `Slot`)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rmq_store.disk.disk import Disk, File
from rmq_store.errors import ForeignFile
from rmq_store.layouts import TIMER_SLOT, TIMER_TICK
from rmq_wire.implied.timers import BLANK_SLOTS

SLOT_BYTES: Final = TIMER_SLOT.size
PAGE_BYTES: Final = 4096
PAGE_SLOTS: Final = PAGE_BYTES // SLOT_BYTES
READ_BYTES: Final = 1 << 20
_NO_PAGE: Final = bytes(PAGE_BYTES)


class Slot(NamedTuple):
    """One slot, field by field as it is laid out."""

    tick: int
    first: int
    last: int
    messages: int
    magic: int


EMPTY: Final = Slot(-1, -1, -1, 0, 0)


class TimerWheel:
    """`slots`: of the ring, a multiple of a page's.  `precision_ms`: of a tick.  No file is made before `make`."""

    def __init__(self, disk: Disk, root: str, slots: int, precision_ms: int) -> None:
        self.path = f"{root}/timerwheel"
        self.slots = slots
        self.precision_ms = precision_ms
        self._disk = disk
        self.file: File | None = None
        self.is_new = False
        """The directory that names the file is not synced."""
        self._pages: dict[int, bytearray] = {}
        self._dirty: set[int] = set()
        self._lent: set[int] = set()

    @property
    def file_bytes(self) -> int:
        return self.slots * SLOT_BYTES

    def load(self) -> bool:
        """Read the file.  False when there is none, or an empty one.  Raises ForeignFile, OSError."""
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return False
        size = file.length()
        if not size:
            self._disk.unlink(self.path)
            return False
        if size != self.file_bytes:
            raise ForeignFile(
                f"{self.path} has {size} bytes instead of {self.file_bytes}: restore it, or move it, timerlog and"
                " config/timercheck away together: the wheel is made anew from its topic"
            )
        self.file = file
        for low, high in file.data_ranges(0):
            low -= low % PAGE_BYTES
            for at in range(low, high, READ_BYTES):
                self._take(at, file.read_at(at, min(READ_BYTES, -(-high // PAGE_BYTES) * PAGE_BYTES - at)))
        return True

    def _take(self, at: int, data: bytes) -> None:
        for within in range(0, len(data), PAGE_BYTES):
            page = data[within : within + PAGE_BYTES]
            if page != _NO_PAGE[: len(page)]:
                self._pages[(at + within) // PAGE_BYTES] = bytearray(page.ljust(PAGE_BYTES, b"\0"))

    def make(self) -> None:
        """The file, sparse.  Raises OSError."""
        if self.file is None:
            self.file = self._disk.create(self.path, self.file_bytes)
            self.is_new = True

    # --- slots

    def tick(self, time_ms: int) -> int:
        """Of the slot that has this time."""
        return time_ms // self.precision_ms

    def has_room(self, read_ms: int, write_ms: int, window_slots: int) -> bool:
        """No slot that what comes now may enter has the place of one that was not read: that may be weeks old."""
        window_slots = min(window_slots, self.slots // 2 - BLANK_SLOTS)  # nothing is due later than half a turn from now
        return self.tick(write_ms) + window_slots + BLANK_SLOTS < self.tick(read_ms) + self.slots

    def get(self, tick: int) -> Slot:
        """The slot of this tick, `EMPTY` when it has nothing."""
        index = tick % self.slots
        page = self._pages.get(index // PAGE_SLOTS)
        if page is None:
            return EMPTY
        slot = Slot._make(TIMER_SLOT.unpack_from(page, index % PAGE_SLOTS * SLOT_BYTES))
        return slot if slot.tick == tick else EMPTY

    def put(self, slot: Slot) -> None:
        """Set the slot of its tick."""
        self._write(slot.tick % self.slots, TIMER_SLOT.pack(*slot))

    def clear(self, tick: int) -> None:
        """The slot of this tick has nothing."""
        self._write(tick % self.slots, bytes(SLOT_BYTES))

    def empty(self) -> None:
        """No slot has anything."""
        for number in self._pages:
            self._pages[number] = bytearray(PAGE_BYTES)
            self._dirty.add(number)

    def _write(self, index: int, packed: bytes) -> None:
        number = index // PAGE_SLOTS
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = bytearray(PAGE_BYTES)
        elif number in self._lent:
            page = self._pages[number] = bytearray(page)
            self._lent.discard(number)
        within = index % PAGE_SLOTS * SLOT_BYTES
        page[within : within + SLOT_BYTES] = packed
        self._dirty.add(number)

    def next_used(self, tick: int, end: int, looks_max: int) -> int:
        """The first tick from here on, before `end`, whose slot has something.  After `looks_max` slots, where to go on."""
        while tick < end and looks_max > 0:
            index = tick % self.slots
            page = self._pages.get(index // PAGE_SLOTS)
            within = index % PAGE_SLOTS
            looks_max -= 1
            if page is None:
                tick += PAGE_SLOTS - within
            elif TIMER_TICK.unpack_from(page, within * SLOT_BYTES)[0] == tick:
                return tick
            else:
                tick += 1
        return min(tick, end)

    def used(self) -> Iterator[Slot]:
        """All slots that have something, or had."""
        for page in self._pages.values():
            for fields in TIMER_SLOT.iter_unpack(page):
                if fields[0] > 0:
                    yield Slot._make(fields)

    def count_from(self, tick: int) -> int:
        """Messages in the slots from this tick on (`getAllNum`)."""
        return sum(slot.messages for slot in self.used() if tick <= slot.tick < tick + self.slots)

    # --- writing

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty)

    def lend(self) -> list[tuple[int, bytearray]]:
        """Pages to write, with their places in the file; nobody changes them until `take_back`."""
        lent = [(number * PAGE_BYTES, self._pages[number]) for number in sorted(self._dirty)]
        self._lent = self._dirty
        self._dirty = set()
        return lent

    def take_back(self, lent: list[tuple[int, bytearray]], *, written: bool) -> None:
        """They are written, or are not and are dirty still."""
        self._lent = set()
        if not written:
            self._dirty.update(at // PAGE_BYTES for at, _ in lent)
