"""The table `positions`: queues as their files have them, and what stands behind positions in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from rmq_spark.work import Given, Work

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_columns import Options
    from rmq_columns.read.positions import Asked


def _asked(text: str) -> dict[tuple[str, str, int], set[int]]:
    """[[broker name, topic, queue id, [position, …]], …]"""
    return {(broker, topic, int(queue)): set(map(int, found)) for broker, topic, queue, found in json.loads(text)}


def _held_schema(held: Given) -> pa.Schema:
    from rmq_columns.read.positions import POSITIONS

    return POSITIONS


def _held_splits(held: Given, options: Options) -> list[Asked]:
    from rmq_columns import plan_splits
    from rmq_columns.read.positions import asked_of

    return asked_of(plan_splits(options), held.get("positions", {}))


def _held(held: Given, asked: Asked) -> Iterator[pa.RecordBatch]:
    from rmq_columns.read.positions import positions_in

    return positions_in(asked)


HELD: Final = Work(_held_schema, _held, _held_splits, {"positions": _asked}, of="consumequeue", for_plan=frozenset({"positions"}))
"""The table of `POSITIONS`.  positions: what is behind each of these is counted; without it only where queues begin and end."""
