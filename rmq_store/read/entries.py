"""Entries of queues, read in blocks: where messages lie, and whether they lie one behind the other, as the log puts them.

Who reads a queue mostly asks for the next entries soon after, and other groups for the same ones.  A visible entry never changes;
so a block that is full is kept as it was read, and most pulls need not ask the system for theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import lt
from typing import Final

from rmq_store.layouts import QUEUE_UNITS
from rmq_store.queues.consume_queue import UNIT_BYTES, ConsumeQueue
from rmq_wire.layout.flat import Packed

BLOCK_UNITS: Final = 256
"""Eight pulls of 32."""
BLOCKS_MAX: Final = 256
"""Of all queues together, 5 KiB each."""


class Entries:
    """Blocks that were used lately; the one that was read first makes room for another."""

    def __init__(self, blocks_max: int = BLOCKS_MAX) -> None:
        self._blocks: dict[tuple[ConsumeQueue, int], bytes] = {}
        self._blocks_max = blocks_max
        self._structs: dict[int, Packed] = {}
        """by number of units; a pull has 32 at most, what a filter remembers more"""

    def places(self, queue: ConsumeQueue, offset: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Positions and sizes of `count` visible messages from `offset` on, or as many as that file of the queue has entries of.

        Raises Cold.
        """
        if count > BLOCK_UNITS:
            return self._places_of_many(queue, offset, count)
        number, at = divmod(offset, BLOCK_UNITS)
        data = self._blocks.get((queue, number)) or self._block(queue, number)
        if data and at + count > BLOCK_UNITS:
            behind = b""
            if queue.units_to_file_end(offset) >= count:
                behind = self._blocks.get((queue, number + 1)) or self._block(queue, number + 1)
            data = behind and data + behind
        if not data:
            data, at = queue.read(offset, count), 0
            count = len(data) // UNIT_BYTES
        packed = self._structs.get(count)
        if packed is None:
            packed = self._structs[count] = QUEUE_UNITS.rows(count, "physical_offset", "size")
        numbers = packed.unpack_from(data, at * UNIT_BYTES)
        return numbers[0::2], numbers[1::2]

    def _places_of_many(self, queue: ConsumeQueue, offset: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The same in pieces: a struct for each count would be megabytes."""
        positions: list[int] = []
        sizes: list[int] = []
        count = min(count, queue.units_to_file_end(offset))
        while count > 0:
            some = min(count, BLOCK_UNITS)
            more_positions, more_sizes = self.places(queue, offset, some)
            positions += more_positions
            sizes += more_sizes
            offset, count = offset + some, count - some
        return tuple(positions), tuple(sizes)

    def _block(self, queue: ConsumeQueue, number: int) -> bytes:
        """Nothing when not all of its entries are visible, or not all in one file: that before may be gone."""
        begin = number * BLOCK_UNITS
        if begin < queue.min_offset or begin + BLOCK_UNITS > queue.max_offset or queue.units_to_file_end(begin) < BLOCK_UNITS:
            return b""
        data = queue.read(begin, BLOCK_UNITS)
        if len(self._blocks) >= self._blocks_max:
            del self._blocks[next(iter(self._blocks))]
        self._blocks[queue, number] = data
        return data


def are_in_order(positions: Sequence[int], sizes: Sequence[int]) -> bool:
    """Each lies behind the one before, and no size is nothing or less: then the first and the last tell where all of them are.

    Entries over a gap lead to one message (`queue_repair.bridge`).
    """
    return min(sizes) > 0 and all(map(lt, positions, positions[1:]))
