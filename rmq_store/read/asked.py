"""What one pull asks of a queue, and the limits that the settings put on it.

Limits are those of `DefaultMessageStore.getMessage` (isTheBatchFull, estimateInMemByCommitOffset): what lies near the log's end
is taken to be in memory, and more of it goes out at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rmq_store.layouts import QUEUE_UNITS
from rmq_store.queues.consume_queue import UNIT_BYTES
from rmq_store.settings import StoreSettings
from rmq_wire.property_values import SeenValues

BLOCK_UNITS: Final = 32
_TAGS_OF_BLOCK: Final = QUEUE_UNITS.rows(BLOCK_UNITS, "tags_code")
_WORD = 1 << 32
_HALF = 1 << 31


UNITS_MAX: Final = 800
"""Units that one read shows to a filter: `maxFilterMessageSize` of 16,000 bytes of the queue.  A larger one does not count."""


NumbersMet = tuple[SeenValues, bytes]
"""Values of a property in units that lie one behind the other in a queue: a number for each unit, 0 where it is not known."""


class UnitFilter:
    """Which units are wanted.  `rows_max`: how many units one read may have evaluated; the next goes on behind them."""

    rows_max: int
    units_max = UNITS_MAX
    """Units that one read shows it."""
    _evaluated = 0

    def begin(self, topic: str) -> None:
        """A read begins of a queue of this topic: what it remembers of others does not count."""

    def evaluated(self) -> int:
        """Units that it had to look at closely so far; those that were like others before them cost little."""
        return self._evaluated

    def __call__(self, unit: memoryview, /) -> bool:
        """Whether a whole unit is wanted."""
        raise NotImplementedError

    def wants(self, unit: memoryview) -> bool:
        """The same, and counted."""
        self._evaluated += 1
        return self(unit)

    def add_wanted(
        self, log: memoryview, base: int, positions: Sequence[int], sizes: Sequence[int], found: list[tuple[int, int]], most: int
    ) -> Sequence[NumbersMet]:
        """Add (position, size) of those units that are wanted to `found`, until it has `most`; `log` begins at `base`.

        All of them lie within `log`, and none is looked at before it is its turn.  Returns what may be remembered of them.
        """
        for at, size in zip(positions, sizes, strict=True):
            if self.wants(log[at - base : at - base + size]):
                found.append((at, size))
                if len(found) >= most:
                    break
        return ()

    def value_verdicts(self) -> Sequence[tuple[SeenValues, bytes]]:
        """For each property that counts REFUSED, LOOK or WANTED by the number of its value; a unit is wanted if all say so.

        Nothing where the values of single properties do not tell.
        """
        return ()


class Asked(NamedTuple):
    """One pull."""

    offset: int
    max_count: int
    """messages"""
    max_bytes: int
    accepts: frozenset[int] | None
    """hash codes of the tags wanted; None: all"""
    matches: UnitFilter | None
    """sees each whole unit and may refuse it; None: all"""

    def evaluated_max(self) -> int:
        """What `matches` may have evaluated when this pull ends, but for the last unit."""
        return 0 if self.matches is None else self.matches.evaluated() + self.matches.rows_max

    def accepts_code(self, tags_code: int) -> bool:
        """Whether a unit with this tags code is wanted: its low 32 bits, signed, count (Java: the long's intValue)."""
        return self.accepts is None or (tags_code + _HALF) % _WORD - _HALF in self.accepts


class Limits:
    """What the settings let one pull take."""

    def __init__(self, settings: StoreSettings) -> None:
        self.memory_bytes = settings.memory_bytes
        self.memory = (settings.max_transfer_bytes_on_message_in_memory, settings.max_transfer_count_on_message_in_memory)
        """(bytes, messages) of what is in memory"""
        self.disk = (settings.max_transfer_bytes_on_message_in_disk, settings.max_transfer_count_on_message_in_disk)
        self._scan_bytes = settings.max_filter_message_size

    def scan_units(self, asked: Asked, unit_bytes: int) -> int:
        """How many units of a queue one pull looks at."""
        units = -(-max(self._scan_bytes, asked.max_count * unit_bytes) // unit_bytes)
        return units if asked.matches is None else min(units, asked.matches.units_max)

    def are_reached(self, asked: Asked, count: int, size: int, unit_count: int, unit_bytes: int, behind: int) -> bool:
        """Whether one more unit of `unit_count` messages is too much for a pull that has `count` in `size` bytes.

        The first always fits, which is for the caller to see to. `behind`: from the unit to the log's end, bytes.
        """
        bytes_max, count_max = self.memory if behind <= self.memory_bytes else self.disk
        size += unit_bytes
        return size > bytes_max or size > asked.max_bytes or count >= count_max or count + unit_count > asked.max_count


def units_without(accepts: frozenset[int], data: bytes) -> int:
    """How many of the first units have none of these tags, in whole blocks; the search for the first match, in C."""
    block = BLOCK_UNITS * UNIT_BYTES
    for at in range(0, len(data) - block + 1, block):
        codes = set(_TAGS_OF_BLOCK.unpack_from(data, at))  # a topic has few tags
        if not accepts.isdisjoint(codes) or max(codes) >= _HALF or min(codes) < -_HALF:
            return at // UNIT_BYTES
    return len(data) // block * BLOCK_UNITS
