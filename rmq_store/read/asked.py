"""What one pull asks of a queue, and the limits that the settings put on it.

Limits are those of `DefaultMessageStore.getMessage` (isTheBatchFull, estimateInMemByCommitOffset): what lies near the log's end
is taken to be in memory, and more of it goes out at once.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from rmq_store.settings import StoreSettings

_WORD = 1 << 32
_HALF = 1 << 31


class UnitFilter(Protocol):
    """Whether a whole unit is wanted.  `rows_max`: how many units one read may ask about; the next goes on behind them."""

    @property
    def rows_max(self) -> int: ...
    def __call__(self, unit: memoryview, /) -> bool: ...


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

    def accepts_code(self, tags_code: int) -> bool:
        """Whether a unit with this tags code is wanted: its low 32 bits, signed, count (Java: the long's intValue)."""
        return self.accepts is None or (tags_code + _HALF) % _WORD - _HALF in self.accepts


class Limits:
    """What the settings let one pull take."""

    def __init__(self, settings: StoreSettings) -> None:
        self.memory_bytes = settings.physical_memory_bytes * settings.access_message_in_memory_max_ratio // 100
        """how far behind the log's end messages are taken to be in memory"""
        self.memory = (settings.max_transfer_bytes_on_message_in_memory, settings.max_transfer_count_on_message_in_memory)
        """(bytes, messages) of what is in memory"""
        self.disk = (settings.max_transfer_bytes_on_message_in_disk, settings.max_transfer_count_on_message_in_disk)
        self._scan_bytes = settings.max_filter_message_size

    def scan_units(self, asked: Asked, unit_bytes: int) -> int:
        """How many units of a queue one pull looks at."""
        units = -(-max(self._scan_bytes, asked.max_count * unit_bytes) // unit_bytes)
        return units if asked.matches is None else min(units, asked.matches.rows_max)

    def are_reached(self, asked: Asked, count: int, size: int, unit_count: int, unit_bytes: int, behind: int) -> bool:
        """Whether one more unit of `unit_count` messages is too much for a pull that has `count` in `size` bytes.

        The first always fits, which is for the caller to see to. `behind`: from the unit to the log's end, bytes.
        """
        bytes_max, count_max = self.memory if behind <= self.memory_bytes else self.disk
        size += unit_bytes
        return size > bytes_max or size > asked.max_bytes or count >= count_max or count + unit_count > asked.max_count
