"""How far brokers have come with what they deliver later, and how far their logs go.

What a broker says of its progress is to be read before the log is: what was delivered by then has its copy in the log, unless the
log ends before (a replica that is behind, a tail that is gone).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rmq_spark.jobs import Source
from rmq_spark.known import delay_offsets, stores_of, timer_progress
from rmq_spark.local import local
from rmq_spark.picking import options_of
from rmq_spark.work import Given, Work
from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from rmq_columns import Options, Split
    from rmq_columns.read.stores import Store

SURE_MS: Final = 60_000
"""A log whose newest message is that much younger than the due time holds the copy, if there is one."""
NEWEST_COLUMNS: Final = ("brokerName", "storeTimestamp", "physicalOffset", "storeSize")


def progress_of(spark: SparkSession, source: Source) -> DataFrame:
    """A row for each broker: brokerName; delayOffsets (queue id of the schedule's topic -> next offset to be delivered),
    timerReadMs and timerQueueOffset (`timer_passed`), null where the broker's file is not there; newestMs, the store time of the
    newest message."""
    delayed, timed = delay_offsets(source), timer_progress(source)
    ends = ends_of(spark, source)
    names = sorted({store.broker_name for store, _ in stores_of(source)})
    rows = [
        (name, delayed.get(name), *timed.get(name, (None, None)), ends[name].newestMs if name in ends else None) for name in names
    ]
    kind = "brokerName string, delayOffsets map<int, bigint>, timerReadMs bigint, timerQueueOffset bigint, newestMs bigint"
    return local(spark, rows, kind)


def timer_passed(due: str, queue_offset: str) -> str:
    """SQL: whether the wheel was read behind the due time (ms) of a message that was in it: what the timer has not yet taken up
    from its topic is delivered when it has, however late."""
    return f"({due} < timerReadMs and {queue_offset} < timerQueueOffset)"


def on_its_way(due: str, is_known: str, is_passed: str) -> str:
    """SQL: `waiting`, `undelivered` or `unknown`, of a message without a copy.  The arguments are SQL, too: when it is due (ms),
    whether the broker's progress is known, whether the broker has passed it."""
    return f"""case
        when {is_passed} then if(coalesce({due} + {SURE_MS} <= newestMs, false), 'undelivered', 'unknown')
        when {is_known} then 'waiting'
        when coalesce({due} <= newestMs, true) then 'unknown'
        else 'waiting' end"""


def usual_delay_ms(queue_id: str) -> Column:
    """Of a message in a queue (a column) of the schedule's topic, by Java's default levels; a damaged number counts as the
    first or the last."""
    from pyspark.sql import functions as F

    levels_ms = DELAY_LEVELS_MS
    place = F.greatest(F.least(F.col(queue_id), F.lit(len(levels_ms) - 1)), F.lit(0)) + 1
    return F.element_at(F.array(*map(F.lit, levels_ms)), place)


class End(NamedTuple):
    """Of a log."""

    newestMs: int
    """store time of the newest message"""
    offset: int
    """behind the last message"""


def ends_of(spark: SparkSession, source: Source) -> dict[str, End]:
    """By broker name, where its log ends.  Reads the last part of each that has a message."""
    from pyspark.sql import functions as F

    from rmq_spark.reading import worked

    dropped = ("topics", "queueIds", "verifyCrc", "decompress", "includeProperties", "kafkaCompatible")
    given = options_of(source, dropped, mode="DROPMALFORMED", includeSystemTopics="true")
    newest, end = F.unix_millis(F.max("storeTimestamp")), F.max(F.col("physicalOffset") + F.col("storeSize"))
    rows = worked(spark, "newest", {**given, "paths": source.paths}).groupBy("brokerName")
    found = rows.agg(newest.alias("ms"), end.alias("end")).collect()
    return {row["brokerName"]: End(row["ms"], row["end"]) for row in found}


def _newest_schema(given: Given) -> pa.Schema:
    import pyarrow as pa

    from rmq_columns.read.schema import MESSAGES

    return pa.schema([MESSAGES.field(name) for name in NEWEST_COLUMNS])


def _last_splits(given: Given, options: Options) -> list[Split]:
    from rmq_columns import plan_splits, read_split

    last: dict[Store, list[Split]] = {}
    for split in plan_splits(replace(options, columns=NEWEST_COLUMNS)):
        last.setdefault(split.store, []).append(split)
    found = (next((one for one in reversed(every) if any(map(len, read_split(one)))), None) for every in last.values())
    return [one for one in found if one is not None]


def _newest(given: Given, split: Split) -> Iterator[pa.RecordBatch]:
    """Two rows of a split: its newest message, and its last one."""
    import pyarrow.compute as pc

    from rmq_columns import read_split

    batches = [batch for batch in read_split(split) if len(batch)]
    found = [batch.take(pc.array_sort_indices(batch.column("storeTimestamp"), "descending")[:1]) for batch in batches]
    found.sort(key=lambda batch: batch.column("storeTimestamp").cast("int64")[0].as_py() if len(batch) else -1)
    yield from found[-1:]
    yield from (batch.slice(len(batch) - 1) for batch in batches[-1:])


NEWEST: Final = Work(_newest_schema, _newest, _last_splits)
"""The newest message of the last part of each log that has one, and the last."""
