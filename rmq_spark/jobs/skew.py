"""Where the load is uneven: hot queues, hot keys, hot producers, sizes.

Queues: messages and bytes by queue and window of time; for each topic of a broker how many times the mean its largest queue
has (max/mean), and the Gini coefficient (0: all queues equal, towards 1: one has all), in all and by window.  Queues that may be
written to and have no message count as empty ones.

Keys: the KEYS property, cut at blanks as the broker's index cuts it; the most frequent and the heaviest ones of each topic and
broker.  Up to 64 GiB of log all are counted.  Above (`--approximate`) a first pass counts by hash in 2**20 buckets, a second one
only the keys of the heaviest buckets: counts are exact, and it reports how many messages a missed key may have at most.

Not clean: only what `--max-skew` forbids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import Job, Source
from rmq_spark.kept import Keep, keeps
from rmq_spark.local import local
from rmq_spark.measuring import (
    APPROXIMATE,
    WINDOW,
    WORST,
    extent,
    has,
    is_approximate,
    small_table,
    source_of,
    window_ms,
    without,
)
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.session import Progress, watched
from rmq_spark.tables import Shown, tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = ("brokerName", "topic")
QUEUE: Final = (*TOPIC, "queueId")
KEY_BUCKETS: Final = 1 << 20
"""Counted in the first pass over keys: some 30 MB."""
BUCKETS_KEPT: Final = 1024
"""By messages, and as many by bytes; whose keys are counted one by one."""


def skew(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each queue: messages, bytes, minSize, maxSize (of stored messages), share of its topic's messages.

    options: window, max_skew, approximate; the rest are the format's.  Raises `BadOption`, `CannotRead`.
    """
    given, rest = JOB.arguments(options)
    return by_queue(counts(spark, source_of(paths, rest), given))


def hot_keys(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each key: brokerName, topic, key, messages, bytes; of a large log only those of the heaviest buckets."""
    given, rest = JOB.arguments(options)
    return keys_of(spark, source_of(paths, rest), given)[0]


def _read(spark: SparkSession, source: Source, columns: str) -> DataFrame:
    """What is no message has no topic."""
    options = dict(without(source.options, ("columns",)))
    if not has(options, "mode"):
        options["mode"] = "PERMISSIVE"
    return Source(source.paths, options).read(spark, "messages", columns=columns)


def counts(spark: SparkSession, source: Source, given: dict[str, Any]) -> DataFrame:
    """Rows by queue and window, and rows by producer (`ofHost`): messages, bytes, minSize, maxSize."""
    from pyspark.sql import functions as F

    window = window_ms(given["window"], extent(source)[1])
    start = F.floor(F.unix_millis("storeTimestamp") / window) * window
    host = F.regexp_replace("bornHost", ":[0-9]+$", "").alias("host")
    read = _read(spark, source, "brokerName,topic,queueId,storeTimestamp,bornHost,storeSize")
    rows = read.select(*QUEUE, start.alias("windowMs"), host, "storeSize")
    keys = [F.col(name) for name in (*QUEUE, "windowMs", "host")]
    grouped = rows.groupingSets([keys[:4], [keys[0], keys[1], keys[4]]], *keys)
    return grouped.agg(
        F.count("*").alias("messages"),
        F.sum(F.col("storeSize").cast("long")).alias("bytes"),
        F.min("storeSize").alias("minSize"),
        F.max("storeSize").alias("maxSize"),
        (F.grouping("host") == 0).alias("ofHost"),
    )


def by_queue(found: DataFrame) -> DataFrame:
    """Of counts."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    queues = (
        found.where("not ofHost and topic is not null")
        .groupBy(*QUEUE)
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("bytes").alias("bytes"),
            F.min("minSize").alias("minSize"),
            F.max("maxSize").alias("maxSize"),
        )
    )
    whole = F.sum("messages").over(Window.partitionBy(*TOPIC))
    return queues.withColumn("share", F.col("messages") / whole)


def by_host(found: DataFrame) -> DataFrame:
    """Of counts: a row for each producer's address and topic."""
    return (
        found.where("ofHost and topic is not null")
        .select(*TOPIC, "host", "messages", "bytes")
        .withColumnRenamed("host", "bornHost")
    )


def windows(found: DataFrame, queues: dict[tuple[str, str], int], spark: SparkSession) -> DataFrame:
    """A row for each topic and window: messages, maxMean, gini.  queues: how many each topic has."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    held = local(spark, [(*key, count) for key, count in queues.items()], "brokerName string, topic string, queues int")
    rows = found.where("not ofHost and topic is not null").join(F.broadcast(held), list(TOPIC))
    one = Window.partitionBy(*TOPIC, "windowMs")
    place = F.row_number().over(one.orderBy("messages")) + F.col("queues") - F.count("*").over(one)  # behind the empty ones
    summed = (
        rows.withColumn("weighed", place * F.col("messages"))
        .groupBy(*TOPIC, "windowMs")
        .agg(
            F.sum("messages").alias("messages"),
            F.max("messages").alias("most"),
            F.sum("weighed").alias("weighed"),
            F.first("queues").alias("queues"),
        )
    )
    count, total = F.col("queues"), F.col("messages")
    gini_ = 2 * F.col("weighed") / (count * total) - (count + 1) / count
    return summed.select(*TOPIC, "windowMs", "messages", (F.col("most") * count / total).alias("maxMean"), gini_.alias("gini"))


def keys_of(spark: SparkSession, source: Source, given: dict[str, Any]) -> tuple[DataFrame, int]:
    """(brokerName, topic, key, messages, bytes; messages that a key which is not among them may have at most)."""
    from pyspark.sql import functions as F

    read = _read(spark, source, "brokerName,topic,keys,storeSize").where("topic is not null and keys is not null")
    every = read.select(*TOPIC, F.explode(F.split("keys", " ")).alias("key"), F.col("storeSize").cast("long").alias("size"))
    every = every.where("key != ''")
    measured = (F.count("*").alias("messages"), F.sum("size").alias("bytes"))
    missed = 0
    if is_approximate(given["approximate"], extent(source)[0]):
        every = every.withColumn("bucket", F.pmod(F.xxhash64(*TOPIC, "key"), F.lit(KEY_BUCKETS)))
        buckets = every.groupBy("bucket").agg(*measured).persist()
        heavy = buckets.orderBy(F.desc("messages"), "bucket").limit(BUCKETS_KEPT + 1).collect()
        kept = {row["bucket"] for row in heavy[:BUCKETS_KEPT]}
        missed = heavy[BUCKETS_KEPT]["messages"] if len(heavy) > BUCKETS_KEPT else 0
        kept |= {row["bucket"] for row in buckets.orderBy(F.desc("bytes"), "bucket").limit(BUCKETS_KEPT).collect()}
        buckets.unpersist()
        every = every.where(F.col("bucket").isin(sorted(kept)))
    return every.groupBy(*TOPIC, "key").agg(*measured), missed


def gini(values: Iterable[float]) -> float:
    """0 where all are equal, (n - 1) / n where one has all; 0 of nothing."""
    ordered = sorted(values)
    total, count = sum(ordered), len(ordered)
    if not total:
        return 0.0
    return 2 * sum(place * value for place, value in enumerate(ordered, 1)) / (count * total) - (count + 1) / count


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """One pass for queues and producers, one or two for keys."""
    from pyspark.sql import functions as F

    found = keep(counts(spark, source, given))
    queues = by_queue(found)
    with watched(spark, "queues and producers", progress):
        held = [row.asDict() for row in queues.collect()]  # as many as a broker has queues
        broken = found.where("not ofHost and topic is null").agg(F.sum("messages").alias("count")).first()
    limit = given["max_skew"]
    topics = summed(held, queue_counts(small_table(source, "topics"), held, _queue_ids(source)))
    hot = [row for row in topics if limit is not None and row["maxMean"] > limit]
    course = windows(found, {(row["brokerName"], row["topic"]): row["queues"] for row in topics}, spark)
    hosts = by_host(found)
    keys, missed = keys_of(spark, source, given)
    keys = keep(keys)
    with watched(spark, "keys", progress):
        key_count = keys.count()
    unreadable = int((broken["count"] if broken else 0) or 0)
    held.sort(key=lambda row: (-row["messages"], row["brokerName"], row["topic"], row["queueId"]))
    frames = {"queues": queues, "windows": course, "keys": keys, "producers": hosts}
    return Outcome(
        "skew",
        f"{len(hot)} topics are more uneven than {limit:g}" if hot else "measured",
        not hot,
        figures=[
            Figure("messages", "messages", sum(row["messages"] for row in held)),
            Figure("bytes", "bytes stored", sum(row["bytes"] for row in held), Unit.BYTES),
            Figure("topics", "topics", len(topics)),
            Figure("queues", "queues with messages", len(held)),
            Figure("maxMean", "largest queue against its topic's mean", topics[0]["maxMean"] if topics else None, Unit.RATIO),
            Figure("keys", "keys counted", key_count),
            Figure("producers", "producers", hosts.select("bornHost").distinct().count()),
        ],
        tables=tables_of(
            REPORT, {**frames, "findings": hot, "topics": topics, "queues": held}, keys=key_count, heavyKeys=key_count
        ),
        plots=_plots(held, course, window_ms(given["window"], extent(source)[1])),
        notes=_notes(source, given, missed, unreadable),
        frames=frames,
        messages=sum(row["messages"] for row in held),
    )


def _queue_ids(source: Source) -> frozenset[int] | None:
    """Those that the user chose; None: all."""
    from rmq_columns import parse_options

    asked = next((value for name, value in source.options.items() if name.lower() == "queueids"), None)
    return None if asked is None else parse_options({"path": "-", "queueIds": asked}).queue_ids


def queue_counts(
    topics: Sequence[dict[str, Any]], held: Sequence[dict[str, Any]], chosen: frozenset[int] | None = None
) -> dict[tuple[str, str], int]:
    """How many queues each topic has: those that may be written to, and any other that has messages.

    chosen: only these were looked at; what was left out is not empty.
    """
    seen: dict[tuple[str, str], set[int]] = defaultdict(set)
    for row in held:
        seen[row["brokerName"], row["topic"]].add(row["queueId"])
    writable = {(row["brokerName"], row["topic"]): set(range(max(row["writeQueueNums"] or 0, 0))) for row in topics}
    counted = {key: ids | writable.get(key, set()) for key, ids in seen.items()}
    return {key: len(ids if chosen is None else ids & chosen) for key, ids in counted.items()}


def summed(held: Sequence[dict[str, Any]], queues: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    """A row for each topic, the most uneven first."""
    values: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in held:
        values[row["brokerName"], row["topic"]].append((row["messages"], row["bytes"]))
    rows = []
    for (broker, topic), found in values.items():
        count = queues[broker, topic]
        messages = [one for one, _ in found]
        total = sum(messages)
        rows.append(
            {
                "brokerName": broker,
                "topic": topic,
                "queues": count,
                "messages": total,
                "bytes": sum(size for _, size in found),
                "meanSize": round(sum(size for _, size in found) / total),
                "maxMean": max(messages) * count / total,
                "gini": gini([*messages, *[0] * (count - len(messages))]),
            }
        )
    return sorted(rows, key=lambda row: (-row["maxMean"], row["brokerName"], row["topic"]))


def _plots(held: Sequence[dict[str, Any]], course: DataFrame, window: int) -> list[Plot]:
    bars = [(f"{row['topic']} {row['queueId']}", float(row["messages"])) for row in held[:BARS]]
    largest = list(dict.fromkeys(row["topic"] for row in held))[:LINES]
    lines: dict[str, list[tuple[float, float]]] = {topic: [] for topic in largest}
    rows = course.where(course["topic"].isin(largest)).orderBy("windowMs").limit(10 * WORST * LINES).collect() if largest else []
    for row in rows:
        lines[row["topic"]].append((float(row["windowMs"]), float(row["maxMean"])))
    return [
        Plot("Messages by queue", bars=bars),
        Plot("Largest queue against the mean, over time", series=lines, x_unit=Unit.TIME, y_unit=Unit.RATIO, step=window),
    ]


def _notes(source: Source, given: dict[str, Any], missed: int, unreadable: int) -> list[str]:
    notes = ["all keys were counted"]
    if is_approximate(given["approximate"], extent(source)[0]):
        notes = [f"counts of keys are exact; a key that is not among them has at most {missed:,} messages"]
    if unreadable:
        notes.append(f"{unreadable} places of the log hold no message that can be read; they are left out")
    return notes


BARS, LINES = 20, 4
"""Of the plots."""
_TOPIC_COLUMNS: Final = (*TOPIC, "queues", "messages", "bytes", "meanSize", "maxMean", "gini")
_COUNTS: Final = ("messages", "bytes")
REPORT: Final = (
    Shown("findings", "Topics that are too uneven", _TOPIC_COLUMNS, is_finding=True),
    Shown("topics", "Topics, the most uneven first", _TOPIC_COLUMNS),
    Shown("queues", "Hot queues", (*QUEUE, *_COUNTS, "share", "minSize", "maxSize")),
    Shown("keys", "Most frequent keys", (*TOPIC, "key", *_COUNTS), ("messages desc", "bytes desc", *TOPIC, "key")),
    Shown("heavyKeys", "Heaviest keys", (*TOPIC, "key", *_COUNTS), ("bytes desc", *TOPIC, "key"), "keys"),
    Shown("producers", "Producers", (*TOPIC, "bornHost", *_COUNTS), ("messages desc", *TOPIC, "bornHost")),
    Shown(
        "windows",
        "Windows, the most uneven first",
        (*TOPIC, "windowMs", "messages", "maxMean", "gini"),
        ("gini desc", *TOPIC, "windowMs"),
    ),
)


JOB: Final = Job(
    name="skew",
    line="Find hot queues, hot keys and hot producers.",
    parameters=(
        WINDOW,
        Parameter(
            "max_skew", float, "A topic whose largest queue has more than so many times the mean is a finding.", None, "RATIO"
        ),
        replace(
            APPROXIMATE,
            help="Count keys by hash first, and one by one those of the heaviest of 2^20 buckets.  auto: above 64 GiB of log.",
        ),
    ),
    examples=("/data/broker-a/store --topic Orders", "/data/brokers --max-skew 3 --html skew.html"),
    found="a topic is more uneven than --max-skew allows",
    run=run,
    function=skew,
)
