"""Inner batches: one stored unit of several messages, in a topic of batch queues.

Sources: `CommitLog.setBatchSizeIfNeeded`, `BatchConsumeQueue`.
"""

from __future__ import annotations

from typing import Final

from rmq_wire import property_names as prop
from rmq_wire.java import parse_int
from rmq_wire.properties import find
from rmq_wire.sys_flag import INNER_BATCH

COUNT_MAX: Final = 32_767
"""`INNER_NUM` is a short."""
_INNER_NUM: Final = prop.INNER_NUM.encode()


def stored_count(inner_num: bytes | None) -> int | None:
    """How many messages the value of INNER_NUM says; None for what no broker writes."""
    count = parse_int(inner_num.decode("utf-8", "replace")) if inner_num else None
    return count if count is not None and 0 < count <= COUNT_MAX else None


def inner_count(properties: bytes) -> int | None:
    """Messages of an inner batch by its stored properties; None when they do not say it."""
    return stored_count(find(properties, _INNER_NUM))


def message_count(sys_flag: int, properties: bytes) -> int:
    """Queue offsets that a unit in a batch queue takes: 1 for an ordinary message, and where only a forger wrote the count."""
    return inner_count(properties) or 1 if sys_flag & INNER_BATCH else 1
