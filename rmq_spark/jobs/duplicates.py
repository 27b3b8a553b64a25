"""Messages that are there more than once: by unique key, which a producer sets once for each send, or by a business key.

Two messages of one topic with one key are duplicates, on whichever queues and brokers they stand (a producer that had no answer
sends the same unique key again, to another broker).  Left out are copies that the broker makes by design and that keep their key:
the topics %RETRY%… and %DLQ%…, and the system topics, where delayed, timed and half messages stand at first.
A transaction that was committed twice is a duplicate.

First pass: a 64-bit hash of topic and key for each message, counted; only that goes through the shuffle.  Second pass, where
hashes came twice: the messages of these hashes, compared by their whole keys.  Bodies count as equal when length, stored CRC-32
and compression flags are.  Messages without a key cannot be judged and are counted, as are units of batch queues, which hold
several messages under the properties of one.

`is_clean`: no key twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter
from rmq_spark.candidates import marked, perhaps
from rmq_spark.jobs import Job, Source
from rmq_spark.kept import Keep, keeps
from rmq_spark.measuring import extent, observed, source_of
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.picking import CORRUPT, Picking, named, picked
from rmq_spark.previous import stretch_of
from rmq_spark.session import Progress, watched
from rmq_spark.tables import Shown, tables_of
from rmq_wire.implied.topics import COPY_PREFIXES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PLACES: Final = 20
"""Of a key that are listed; the first ones by store time."""
INNER_BATCH: Final = 0x80
"""`MessageSysFlag.INNER_BATCH_FLAG`: a unit that holds several messages."""
COMPRESSION: Final = 0x701
"""`MessageSysFlag`: compressed, and by what."""

_AT: Final = "one.brokerName, '/', one.queueId, ':', one.queueOffset, '@', one.physicalOffset"
REPORT: Final = (
    Shown(
        "topics",
        "Topics with duplicates",
        ("topic", "keys", "copies", "msApartMax", "bodiesDiffer"),
        ("keys desc", "topic"),
        units={"keys": Unit.COUNT},
    ),
    Shown(
        "duplicates",
        "Keys that are there more than once",
        (
            "topic",
            "key",
            "copies",
            "msApart",
            "bodiesEqual",
            f"array_join(transform(places, one -> concat({_AT})), ', ') as places",
        ),
        ("copies desc", "topic", "key"),
        is_finding=True,
    ),
)


def duplicates(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each key that is there more than once.

    topic, key, copies, msApart (first to last store time), bodiesEqual, places (brokerName, queueId, queueOffset, physicalOffset,
    storeTimestamp, bornTimestamp, msAfterFirst of the first copies).  options: `by`, those of the format.  Raises `BadOption`.
    """
    given, rest = JOB.arguments(options)
    return found_in(spark, source_of(paths, rest), given["by"])


def hashes(spark: SparkSession, source: Source, by: str) -> DataFrame:
    """First pass: hash, topic and whether there was a key, of every message that counts; one row for each key of a message."""
    from pyspark.sql import functions as F

    rows = _keyed(spark, source, by, ("topic", "sysFlag"))
    packed = (F.col("sysFlag").bitwiseAND(INNER_BATCH) != 0) & (F.col("number") == 0)
    return rows.select(
        "topic", F.when(F.col("key").isNotNull(), F.xxhash64("topic", "key")).alias("hash"), packed.alias("isPacked"), CORRUPT
    )


def _keyed(spark: SparkSession, source: Source, by: str, columns: tuple[str, ...]) -> DataFrame:
    """Messages with their keys in the column `key`, a row for each, numbered; exempt topics left out, unreadable rows kept."""
    from pyspark.sql import functions as F

    column, name = named(by, "_key")
    read = columns if name is not None else (*columns, column)
    wanted = Picking(tuple(dict.fromkeys(read)), ((column, name),) if name is not None else ())
    rows = picked(spark, source, wanted, includeSystemTopics="false")
    for prefix in COPY_PREFIXES:
        rows = rows.where(~F.coalesce(F.col("topic"), F.lit("")).startswith(prefix))
    kept = [one for one in rows.columns if one in columns or one == CORRUPT]
    own = F.col(column).cast("string")
    if column != "keys":
        return rows.select(*kept, F.lit(0).alias("number"), own.alias("key"))
    # A set: a key that a message names twice is no duplicate.
    each = F.posexplode_outer(F.array_distinct(F.filter(F.split(own, " "), lambda one: one != "")))
    return rows.select(*kept, each.alias("place", "key")).withColumn("number", F.coalesce("place", F.lit(0))).drop("place")


def candidates(every: DataFrame) -> DataFrame:
    """Hashes that came more than once."""
    from pyspark.sql import functions as F

    return every.where("hash is not null").groupBy("hash").agg(F.count("*").alias("n")).where("n > 1").select("hash")


def found_in(spark: SparkSession, source: Source, by: str, twice: DataFrame | None = None) -> DataFrame:
    """Second pass.  twice: hashes to look at."""
    from pyspark.sql import functions as F

    twice = candidates(hashes(spark, source, by)) if twice is None else twice
    columns = (
        "brokerName",
        "topic",
        "queueId",
        "queueOffset",
        "physicalOffset",
        "storeTimestamp",
        "bornTimestamp",
        "bodySize",
        "bodyCrc",
        "sysFlag",
    )
    rows = _keyed(spark, source, by, columns).where("key is not null").withColumn("hash", F.xxhash64("topic", "key"))
    rows = perhaps(rows, marked(twice, F.col("hash")), F.col("hash"))
    place = F.struct(
        "storeTimestamp",
        "brokerName",
        "physicalOffset",
        "queueId",
        "queueOffset",
        "bornTimestamp",
    )
    body = F.struct("bodySize", "bodyCrc", F.col("sysFlag").bitwiseAND(COMPRESSION))
    stretch = F.expr(f"physicalOffset div {stretch_of(extent(source)[0])}")
    # first within stretches of a log: the copies of one key may be half of all messages
    parts = rows.select("topic", "key", "brokerName", stretch.alias("stretch"), body.alias("body"), place.alias("place"))
    parts = parts.groupBy("topic", "key", "brokerName", "stretch").agg(
        F.count("*").alias("copies"),
        F.min("body").alias("least"),
        F.max("body").alias("most"),
        F.max("place.storeTimestamp").alias("last"),
        _first_of(F.collect_list("place")).alias("places"),
    )
    grouped = parts.groupBy("topic", "key").agg(
        F.sum("copies").alias("copies"),
        (F.min("least") == F.max("most")).alias("bodiesEqual"),
        F.max("last").alias("last"),
        _first_of(F.flatten(F.collect_list("places"))).alias("places"),
    )
    first = F.col("places")[0]["storeTimestamp"]
    shown = ("brokerName", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp")

    def of_first(one: Column) -> Column:
        after = F.unix_millis(one["storeTimestamp"]) - F.unix_millis(first)
        return F.struct(*(one[name].alias(name) for name in shown), after.alias("msAfterFirst"))

    return grouped.where("copies > 1").select(
        "topic",
        "key",
        "copies",
        (F.unix_millis("last") - F.unix_millis(first)).alias("msApart"),
        "bodiesEqual",
        F.transform("places", of_first).alias("places"),
    )


def _first_of(places: Column) -> Column:
    from pyspark.sql import functions as F

    return F.slice(F.sort_array(places), 1, PLACES)


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """Both passes; the second only when a hash came twice."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    by = given["by"]
    seen = Observation()
    every = hashes(spark, source, by)
    counts = (
        F.expr("count_if(hash is not null)").alias("keys"),
        F.expr(f"count_if(hash is null and {CORRUPT} is null)").alias("without"),
        F.expr("count_if(isPacked)").alias("packed"),
        F.expr(f"count_if({CORRUPT} is not null)").alias("corrupt"),
    )
    twice = keep(candidates(every.observe(seen, *counts)))
    with watched(spark, "counting keys", progress):
        suspects = twice.count()
        totals = observed(seen, every, *counts)
    found = keep(found_in(spark, source, by, twice))
    keys, copies, topics = 0, 0, 0
    by_topic = keep(_by_topic(found))
    if suspects:
        with watched(spark, "comparing those that came twice", progress):
            [total] = by_topic.agg(F.sum("keys"), F.sum("copies"), F.count("*")).collect()
            keys, copies, topics = total[0] or 0, total[1] or 0, total[2]
    tables = tables_of(REPORT, {"topics": by_topic, "duplicates": found}, topics=topics, duplicates=keys)
    figures = [
        Figure("keysJudged", "keys looked at", totals["keys"]),
        Figure("keysDuplicated", "keys that are there more than once", keys),
        Figure("copiesTooMany", "messages that are there too much", copies - keys),
        Figure("withoutKey", f"messages without {by}, not judged", totals["without"]),
        Figure("packedUnits", "units of batch queues, their inner messages not judged", totals["packed"]),
    ]
    looked = totals["keys"] + totals["without"] + totals["corrupt"]
    notes = [f"{totals['corrupt']} places of the log could not be read"] if totals["corrupt"] else []
    if not totals["keys"]:
        notes.append(f"no message has {by}: nothing was judged")
    verdict = f"{keys} keys are there more than once ({by})" if keys else f"clean: no {by} twice among {totals['keys']} keys"
    plot = Plot("Keys that are there more than once, by topic", tables[0].bars("topic", "keys"))
    return Outcome(
        "duplicates", verdict, not keys, figures, tables, [plot] if topics else [], notes, {"duplicates": found}, looked
    )


def _by_topic(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return found.groupBy("topic").agg(
        F.count("*").alias("keys"),
        F.sum("copies").alias("copies"),
        F.max("msApart").alias("msApartMax"),
        F.expr("count_if(not bodiesEqual)").alias("bodiesDiffer"),
    )


JOB: Final = Job(
    name="duplicates",
    line="Find messages that are there more than once, by unique key or by business key.",
    parameters=(Parameter("by", str, "uniqKey, keys (each of the keys that blanks divide) or property:NAME.", "uniqKey", "KEY"),),
    examples=("/data/broker-a/store /data/broker-b/store", "/data/brokers --by property:orderId --topic Orders"),
    found="a key is there more than once",
    run=run,
    function=duplicates,
)
