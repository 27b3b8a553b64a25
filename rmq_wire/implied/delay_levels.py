"""Delay levels, and when a delayed message is due.

A message in SCHEDULE_TOPIC_XXXX has the time when it is due in its queue entry, in the place of the tags' hash.
Sources: `MessageStoreConfig.messageDelayLevel`, `DefaultMessageStore.parseDelayLevel` and `computeDeliverTimestamp`,
`CommitLog.checkMessageAndReturnSize`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rmq_wire import property_names as prop
from rmq_wire.java import parse_int
from rmq_wire.properties import find

DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""`messageDelayLevel` by default; level 1 is the first."""
FAST_DELAY_LEVELS: Final = " ".join(f"{5 * level}ms" for level in range(1, 19))
"""For who tests dead letters: sixteen retries wait for less than a second in all."""
NO_LEVELS_DELAY_MS: Final = 1000
"""Of every level where none is configured."""
_MS_OF_UNIT: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL: Final = re.compile(r"([0-9]{1,9})(ms|[smhd])")
_DELAY: Final = prop.DELAY.encode()


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """`1s 5s 10s …` in ms, level 1 first.  *Differs*: `5ms` is a time, too.  Raises `ValueError` with what was expected."""
    levels = []
    for piece in text.split(" "):
        match = _LEVEL.fullmatch(piece)
        if match is None:
            raise ValueError("times like 1s 5s 1m 2h 1d, separated by one blank")
        levels.append(int(match[1]) * _MS_OF_UNIT[match[2]])
    return tuple(levels)


DELAY_LEVELS_MS: Final = parse_delay_levels(DELAY_LEVELS)


def delay_of(level: int, levels_ms: Sequence[int]) -> int:
    """ms, of a level from 1 on; one that is higher than all is the highest."""
    return levels_ms[min(level, len(levels_ms)) - 1] if levels_ms else NO_LEVELS_DELAY_MS


def stored_level(delay: bytes | None) -> int:
    """The level that the value of DELAY in stored properties says, 0 for none: Java's dispatch fails at what is no int."""
    if not delay:
        return 0
    level = parse_int(delay.decode("utf-8", "replace"))
    return max(level or 0, 0)


def due_time(properties: bytes, store_timestamp: int, levels_ms: Sequence[int]) -> int | None:
    """When a message of the schedule's topic is due, ms; None for one without a level, whose entry is as any other's."""
    level = stored_level(find(properties, _DELAY))
    return store_timestamp + delay_of(level, levels_ms) if level else None
