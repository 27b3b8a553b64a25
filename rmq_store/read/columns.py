"""Which values properties have in the messages of queues, as far as filters have looked at them lately.

A topic is filtered by several groups, each by its own selector, but mostly over the same few properties; and a message that
arrives is looked at for the pulls that wait, and once more when they are executed.  So what was met in a message is remembered:
a byte for each message and property, the number of the value.  Whoever asks for the same property, compared with whatever, need
not look into the log again.  A visible entry of a queue never changes, nor does the message that it names.

Java has the bit map of the queue's extension for this (`CommitLogDispatcherCalcBitMap`): what the filters of all groups say of a
message, calculated when it arrives, and kept on disk; off by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.read.asked import NumbersMet
from rmq_wire.layout.rows import both, either
from rmq_wire.property_values import LOOK, SeenValues

BLOCK_UNITS: Final = 4_096
BLOCKS_MAX: Final = 1_024
"""Of all queues and properties together: 4 MiB, four million messages that are filtered by one property."""


class Columns:
    """Blocks of numbers; the one that nobody used for longest makes room for another."""

    def __init__(self, blocks_max: int = BLOCKS_MAX) -> None:
        self._blocks: dict[tuple[ConsumeQueue, SeenValues, int], bytearray] = {}
        self._blocks_max = blocks_max

    def forget(self) -> None:
        """Everything."""
        self._blocks.clear()

    def keep(self, queue: ConsumeQueue, offset: int, met: Sequence[NumbersMet]) -> None:
        """What was met in the messages of a queue from `offset` on."""
        for values, numbers in met:
            if values.is_wide:
                continue
            number, at = divmod(offset, BLOCK_UNITS)
            while numbers:
                part = numbers[: BLOCK_UNITS - at]
                block = self._block((queue, values, number))
                end = at + len(part)
                if 0 in part and any(before := block[at:end]):  # what is known already is not forgotten
                    part = either(part, before)
                block[at:end] = part
                numbers = numbers[BLOCK_UNITS - at :]
                number, at = number + 1, 0

    def say(self, queue: ConsumeQueue, offset: int, count: int, verdicts: Sequence[tuple[SeenValues, bytes]]) -> bytes:
        """What these verdicts on values say of so many messages from `offset` on: REFUSED, LOOK or WANTED each.

        Nothing, when it is not known what they say of the first one.
        """
        number, at = divmod(offset, BLOCK_UNITS)
        end = at + count
        said: bytes | bytearray = b""
        for values, by_number in verdicts:
            if end > BLOCK_UNITS:
                numbers = self._numbers(queue, values, offset, count)
            else:
                block = self._known((queue, values, number))
                numbers = block[at:end] if block is not None else bytes(count)
            known = numbers.translate(by_number)
            said = both(said, known) if said else known
        return b"" if said[0] == LOOK else bytes(said)

    def _numbers(self, queue: ConsumeQueue, values: SeenValues, offset: int, count: int) -> bytes | bytearray:
        """Of the values of messages, 0 where it is not known."""
        number, at = divmod(offset, BLOCK_UNITS)
        block = self._known((queue, values, number))
        found = block[at : at + count] if block is not None else bytes(min(count, BLOCK_UNITS - at))
        while len(found) < count:
            number += 1
            block = self._known((queue, values, number))
            found += bytes(BLOCK_UNITS) if block is None else block
        return found[:count]

    def _known(self, key: tuple[ConsumeQueue, SeenValues, int]) -> bytearray | None:
        block = self._blocks.pop(key, None)
        if block is not None:
            self._blocks[key] = block
        return block

    def _block(self, key: tuple[ConsumeQueue, SeenValues, int]) -> bytearray:
        block = self._blocks.get(key)
        if block is None:
            if len(self._blocks) >= self._blocks_max:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[key] = bytearray(BLOCK_UNITS)
        return block
