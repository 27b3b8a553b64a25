"""Where the messages of a queue lie, and whether they lie one behind the other, as the log puts them.

Who reads a queue mostly asks for the next entries soon after, and other groups for the same ones.  So entries are taken apart and
looked over in blocks, once for all the pulls that go through one: a visible entry never changes.  Of messages that lie one behind
the other the first and the last tell where all of them are.
"""

from __future__ import annotations

from operator import lt
from typing import Final, NamedTuple

from rmq_store.layouts import QUEUE_UNITS
from rmq_store.queues.consume_queue import UNIT_BYTES, ConsumeQueue
from rmq_wire.layout.flat import Packed

BLOCK_UNITS: Final = 256
"""Eight pulls of 32; taking one apart costs some 15 µs."""
BLOCKS_MAX: Final = 128
"""Of all queues together, some 20 KiB each."""
UNITS_WORTH: Final = 8
"""Who asks for fewer at once has them read from the file."""


class Places(NamedTuple):
    """Of messages that follow each other in a queue."""

    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    """bytes"""
    ascend: bool
    """Each position is behind the one before, and no size is nothing or less."""


class Entries:
    """Blocks that were used lately; the one that was made first makes room for another."""

    def __init__(self, blocks_max: int = BLOCKS_MAX) -> None:
        self._blocks: dict[tuple[ConsumeQueue, int], Places] = {}
        self._blocks_max = blocks_max
        self._structs: dict[int, Packed] = {}
        """by number of units; a pull has 32 at most, and a filter looks at 256"""

    def places(self, queue: ConsumeQueue, offset: int, count: int) -> Places:
        """Of `count` visible messages from `offset` on, or as many as the file of the queue has entries of. Raises Cold."""
        number, at = divmod(offset, BLOCK_UNITS)
        end = at + count
        if count >= UNITS_WORTH and end <= BLOCK_UNITS:
            block = self._blocks.get((queue, number)) or self._block(queue, number)
            if block is not None:
                return Places(block.positions[at:end], block.sizes[at:end], block.ascend)
        return self._read(queue, offset, count)

    def _read(self, queue: ConsumeQueue, offset: int, count: int) -> Places:
        data = queue.read(offset, count)
        count = len(data) // UNIT_BYTES
        packed = self._structs.get(count)
        if packed is None:
            packed = self._structs[count] = QUEUE_UNITS.rows(count, "physical_offset", "size")
        numbers = packed.unpack(data)
        positions, sizes = numbers[0::2], numbers[1::2]
        return Places(positions, sizes, min(sizes) > 0 and all(map(lt, positions, positions[1:])))

    def _block(self, queue: ConsumeQueue, number: int) -> Places | None:
        """None when not all of its entries are visible, or not all in one file."""
        begin = number * BLOCK_UNITS
        if begin < queue.min_offset or begin + BLOCK_UNITS > queue.max_offset:
            return None
        block = self._read(queue, begin, BLOCK_UNITS)
        if len(block.sizes) < BLOCK_UNITS:
            return None
        if len(self._blocks) >= self._blocks_max:
            del self._blocks[next(iter(self._blocks))]
        self._blocks[queue, number] = block
        return block
