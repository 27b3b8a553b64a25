"""Retried and dead messages, back to where they came from: a row for each chain.

A chain is what one group did with one message: its copies in the group's retry topic (`%RETRY%group`, by POP with a topic behind
it), the copies that wait for their delay in the schedule's or the timer's topic, the one in `%DLQ%group`.  Every copy carries
ORIGIN_MESSAGE_ID, the first one's place in the log; copies of POP carry only the unique key, and where the client sent a message
back by itself ORIGIN_MESSAGE_ID is the unique key.

States: `dead`; `waiting` (its delay is not over); `unread` (delivered to the retry topic, not yet passed by the group's
position); `consumed` (the position is behind the last copy, and no further one was made); `unknown` (the group has no position).

Clean, however many there are; with `--fail-on-dead` each dead letter is a finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rmq_spark.jobs import Parameter, Source
from rmq_spark.jobs.lag import retry_group
from rmq_spark.measuring import (
    SUFFIX,
    WORST,
    cell,
    collected,
    lenient,
    property_value,
    queue_topics,
    small_table,
    source_of,
    taken,
    underscored,
    without,
)
from rmq_spark.outcome import Column, Figure, Outcome, Plot, Table, Unit
from rmq_spark.session import Progress, watched
from rmq_wire import property_names as names
from rmq_wire.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARAMETERS = (Parameter("fail-on-dead", bool, "each dead letter is a finding", False),)
OWN: Final = ("fail_on_dead",)
DEAD, WAITING, UNREAD, CONSUMED, UNKNOWN = "dead", "waiting", "unread", "consumed", "unknown"
STATES: Final = (DEAD, WAITING, UNREAD, CONSUMED, UNKNOWN)
RETRY: Final = "retry"
"""Kind of a copy, as DEAD and WAITING are."""
WAITING_ROOMS: Final = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC)
MESSAGE_ID: Final = "^([0-9A-F]{32}|[0-9A-F]{56})$"
"""Address, port and place in the log, with IPv4 or IPv6 (`MessageDecoder.createMessageId`)."""
CHAIN: Final = ("brokerName", "group", "chain")


def retries(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each chain: brokerName, group, uniqKey, originMessageId, originTopic, originQueueId, originQueueOffset,
    originStoreTimestamp, originInLog, attempts (of each retryTimes and storeTimestamp), retryTimes, firstRetry, lastRetry,
    deadTimestamp, state.

    options: those of the format; `topics` are the origins'.  Raises `BadOption`, `CannotRead`.
    """
    _, rest = taken(options, OWN)
    return chains(spark, source_of(paths, rest))


def chains(spark: SparkSession, source: Source) -> DataFrame:
    """As `retries`.  Reads the log twice: once for the copies, once for the origins."""
    from pyspark.sql import functions as F

    found = _summed(copies(spark, source))
    positions = [
        (row["brokerName"], row["group"], row["topic"], row["queueId"], row["offset"])
        for row in small_table(Source(source.paths, without(source.options, ("topics", "queueIds"))), "consumerOffsets")
        if row["group"] and row["offset"] is not None and row["topic"].startswith(RETRY_PREFIX)
    ]
    kind = "brokerName string, group string, lastTopic string, lastQueueId int, position bigint"
    held = spark.createDataFrame(positions, kind)
    passed = F.col("position") > F.col("lastOffset")
    state = (
        F.when(F.col("deadTimestamp").isNotNull(), DEAD)
        .when(F.col("lastWaiting") > F.coalesce("lastDelivered", F.lit(-1)), WAITING)
        .when(passed, CONSUMED).when(~passed, UNREAD).otherwise(UNKNOWN)
    )  # fmt: skip
    judged = found.join(F.broadcast(held), ["brokerName", "group", "lastTopic", "lastQueueId"], "left").withColumn("state", state)
    origins = _origins(spark, source, found.select(*CHAIN, "uniqKey", "originPlace"))
    traced = judged.join(origins, list(CHAIN), "left").withColumn("originInLog", F.col("originOffset").isNotNull())
    traced = traced.withColumn("originTopic", F.coalesce("originTopicFound", "originTopic"))
    topics = _asked_topics(source)
    if topics is not None:
        traced = traced.where(F.col("originTopic").isin(topics))
    return traced.select(
        "brokerName", "group", "uniqKey", "keys", "originMessageId", "originTopic", "originQueueId",
        F.col("originOffset").alias("originQueueOffset"), "originStoreTimestamp", "originInLog", "attempts", "retryTimes",
        "firstRetry", "lastRetry", "deadTimestamp", "state",
    )  # fmt: skip


def _asked_topics(source: Source) -> list[str] | None:
    from rmq_columns import parse_options

    asked = [value for name, value in source.options.items() if name.lower() == "topics"]
    return sorted(parse_options({"path": "-", "topics": asked[0]}).topics or ()) if asked else None


def copies(spark: SparkSession, source: Source) -> DataFrame:
    """All copies: `kind`, `group`, `chain`, `originMessageId`, `originTopic` and what the messages themselves have."""
    from pyspark.sql import functions as F

    options = lenient(without(source.options, ("topics", "queueIds", "columns", "includeProperties")))
    known = _retry_topics(source)
    chosen = {"topics": ",".join([*known, *WAITING_ROOMS])} if known else {"includeSystemTopics": "true"}
    columns = "brokerName,topic,queueId,queueOffset,physicalOffset,uniqKey,keys,reconsumeTimes,storeTimestamp,properties"
    read = Source(source.paths, options).read(spark, "messages", columns=columns, includeProperties="raw", **chosen)
    text = F.concat(F.lit(SUFFIX), F.coalesce(F.col("properties").cast("string"), F.lit("")))
    is_waiting = F.col("topic").isin(*WAITING_ROOMS)
    read = read.withColumn("propertyText", text)
    real = F.when(is_waiting, F.expr(property_value(names.REAL_TOPIC))).otherwise(F.col("topic"))
    read = read.withColumn("realTopic", real)
    is_dead, is_retry = F.col("realTopic").startswith(DLQ_PREFIX), F.col("realTopic").startswith(RETRY_PREFIX)
    read = read.where(is_dead | is_retry)
    origin = F.expr(property_value(names.ORIGIN_MESSAGE_ID))
    topic = F.coalesce(F.expr(property_value(names.RETRY_TOPIC)), F.expr(property_value(names.DLQ_ORIGIN_TOPIC)))
    bare = F.regexp_replace("realTopic", "^%(RETRY|DLQ)%", "")
    owners = spark.createDataFrame(sorted(known.items()), "realTopic string, owner string")
    rows = read.join(F.broadcast(owners), "realTopic", "left").withColumn("group", F.coalesce("owner", bare))
    return rows.select(
        "brokerName", "group", "topic", "queueId", "queueOffset", "physicalOffset", "uniqKey", "keys", "reconsumeTimes",
        "storeTimestamp", F.coalesce(origin, "uniqKey").alias("chain"), origin.alias("originMessageId"),
        topic.alias("originTopic"),
        F.when(is_waiting, WAITING).when(is_dead, DEAD).otherwise(RETRY).alias("kind"),
    )  # fmt: skip


def _retry_topics(source: Source) -> dict[str, str]:
    """Retry and dead-letter topics of these stores -> their groups; empty when nothing tells them."""
    everywhere = Source(source.paths, without(source.options, ("topics", "queueIds")))
    listed = {row["topic"] for row in small_table(everywhere, "topics")}
    if not listed:
        return {}
    listed |= queue_topics(everywhere)
    groups = {row["group"] for row in small_table(everywhere, "consumerOffsets") if row["group"]}
    found = {one: owner for one in listed if (owner := retry_group(one, groups)) is not None}
    return found | {one: one.removeprefix(DLQ_PREFIX) for one in listed if one.startswith(DLQ_PREFIX)}


def _summed(found: DataFrame) -> DataFrame:
    """A row for each chain."""
    from pyspark.sql import functions as F

    def of(kind: str, column: str) -> Any:
        return F.when(F.col("kind") == kind, F.col(column))

    delivered = F.when(F.col("kind") == RETRY, F.struct(F.col("reconsumeTimes").alias("retryTimes"), "storeTimestamp"))
    place = F.struct("topic", "queueId", "queueOffset")
    chain = found.groupBy(*CHAIN).agg(
        F.max("uniqKey").alias("uniqKey"), F.max("keys").alias("keys"), F.max("originMessageId").alias("originMessageId"),
        F.max("originTopic").alias("originTopic"), F.array_sort(F.collect_list(delivered)).alias("attempts"),
        F.max("reconsumeTimes").alias("retryTimes"), F.min(of(RETRY, "storeTimestamp")).alias("firstRetry"),
        F.max(of(RETRY, "storeTimestamp")).alias("lastRetry"), F.max(of(DEAD, "storeTimestamp")).alias("deadTimestamp"),
        F.max(of(WAITING, "reconsumeTimes")).alias("lastWaiting"), F.max(of(RETRY, "reconsumeTimes")).alias("lastDelivered"),
        F.max_by(F.when(F.col("kind") == RETRY, place), of(RETRY, "reconsumeTimes")).alias("last"),
    )  # fmt: skip
    is_place = F.col("originMessageId").rlike(MESSAGE_ID) & ~F.coalesce(
        F.col("originMessageId") == F.col("uniqKey"), F.lit(False)
    )
    place_in_log = F.when(is_place, F.conv(F.right("originMessageId", F.lit(16)), 16, 10).cast("bigint"))
    return chain.select(
        *CHAIN, "uniqKey", "keys", "originMessageId", "originTopic", "attempts", "retryTimes", "firstRetry", "lastRetry",
        "deadTimestamp", "lastWaiting", "lastDelivered", F.col("last.topic").alias("lastTopic"),
        F.col("last.queueId").alias("lastQueueId"), F.col("last.queueOffset").alias("lastOffset"),
        place_in_log.alias("originPlace"),
    )  # fmt: skip


def _origins(spark: SparkSession, source: Source, wanted: DataFrame) -> DataFrame:
    """Of the chains whose origin is in the log: originTopicFound, originQueueId, originOffset, originStoreTimestamp.

    By its place, or by its unique key where that is all that is known.  The inner joins let Spark send the few chains to the many
    messages.
    """
    from pyspark.sql import functions as F

    options = lenient(without(source.options, ("topics", "queueIds", "columns")))
    columns = "brokerName,topic,queueId,queueOffset,physicalOffset,uniqKey,storeTimestamp"
    read = Source(source.paths, options).read(spark, "messages", columns=columns).where("topic is not null")
    stored = read.select(
        F.col("brokerName").alias("storedAt"), F.col("topic").alias("originTopicFound"), F.col("queueId").alias("originQueueId"),
        F.col("queueOffset").alias("originOffset"), "physicalOffset", F.col("uniqKey").alias("storedKey"),
        F.col("storeTimestamp").alias("originStoreTimestamp"),
    )  # fmt: skip
    same_broker = F.col("brokerName") == F.col("storedAt")
    same_key = F.col("uniqKey").isNull() | F.col("storedKey").isNull() | (F.col("uniqKey") == F.col("storedKey"))
    is_copy = F.col("originTopicFound").startswith(RETRY_PREFIX) | F.col("originTopicFound").startswith(DLQ_PREFIX)
    placed = wanted.where("originPlace is not null").join(stored, same_broker & (F.col("originPlace") == F.col("physicalOffset")))
    keyed = wanted.where("originPlace is null").join(
        stored.where(~is_copy), same_broker & (F.col("uniqKey") == F.col("storedKey"))
    )  # fmt: skip
    first = F.min(F.struct("physicalOffset", "originTopicFound", "originQueueId", "originOffset", "originStoreTimestamp"))
    every = placed.where(same_key).unionByName(keyed).groupBy(*CHAIN).agg(first.alias("one"))
    parts = ("originTopicFound", "originQueueId", "originOffset", "originStoreTimestamp")
    return every.select(*CHAIN, *[F.col(f"one.{name}") for name in parts])


def run(spark: SparkSession, source: Source, given: dict[str, Any], tell: Progress) -> Outcome:
    """Chains, and their sums by group and origin."""
    from pyspark.sql import functions as F

    given = underscored(given)
    found = chains(spark, source).persist()
    counted = [F.sum((F.col("state") == state).cast("int")).alias(state) for state in STATES]
    sums = (
        F.count("*").alias("chains"),
        F.sum("retryTimes").alias("retries"),
        F.max("retryTimes").alias("retryTimesMax"),
        *counted,
    )
    with watched(spark, "chains", tell):
        total = found.agg(*sums, F.sum((~F.col("originInLog")).cast("int")).alias("noOrigin")).first()
    assert total is not None
    groups = found.groupBy("brokerName", "group").agg(*sums)
    topics = found.groupBy("brokerName", "originTopic").agg(*sums)
    dead = found.where(F.col("state") == DEAD)
    given_up = dead.groupBy("brokerName", "group", "retryTimes").agg(
        F.count("*").alias("dead"), F.max("deadTimestamp").alias("lastDead")
    )
    order = (F.desc("chains"), "brokerName")
    worst_groups = collected(groups.orderBy(*order, "group"))
    worst_topics = collected(topics.orderBy(*order, "originTopic"))
    steps = found.groupBy("retryTimes").count().orderBy("retryTimes").limit(WORST).collect()
    dead_count = int(total[DEAD] or 0)
    is_clean = not (dead_count and given.get("fail_on_dead"))
    verdict = f"{total['chains']} chains, {dead_count} of them dead"
    return Outcome(
        "retries", verdict, is_clean,
        figures=[
            Figure("chains", "messages that were retried or died", total["chains"]),
            Figure("retries", "retries in all", total["retries"] or 0),
            Figure("retryTimesMax", "most of one", total["retryTimesMax"] or 0),
            *[Figure(state, label, total[state] or 0) for state, label in LABELS.items()],
            Figure("noOrigin", "whose origin is not in the log any more", total["noOrigin"] or 0),
        ],
        tables=[
            _table("dead", "Dead letters, the newest first", _CHAIN, collected(dead.orderBy(F.desc("deadTimestamp"), "uniqKey")),
                   dead_count, not is_clean),
            _table("groups", "Groups", ("brokerName", "group", *_SUMS), worst_groups, groups.count()),
            _table("topics", "Where they came from", ("brokerName", "originTopic", *_SUMS), worst_topics, topics.count()),
            _table("givenUp", "Given up after so many retries", ("brokerName", "group", "retryTimes", "dead", "lastDead"),
                   collected(given_up.orderBy(F.desc("dead"), "brokerName", "group", "retryTimes")), given_up.count()),
            _table("chains", "Most retried", _CHAIN,
                   collected(found.orderBy(F.desc("retryTimes"), "brokerName", "group", "uniqKey")), total["chains"]),
        ],
        plots=[
            Plot("Chains by group", bars=[(row["group"], float(row["chains"])) for row in worst_groups[:BARS]]),
            Plot("Chains by retries", bars=[(str(row["retryTimes"]), float(row["count"])) for row in steps]),
        ],
        notes=["consumed: the group's position is behind the last copy, and no further one was made"],
        frames={"retries": found, "groups": groups, "topics": topics},
    )  # fmt: skip


LABELS: Final = {
    DEAD: "dead", WAITING: "waiting for their delay", UNREAD: "in the retry topic, not read yet", CONSUMED: "consumed in the end",
    UNKNOWN: "of groups without a position",
}  # fmt: skip
BARS: Final = 20
_SUMS: Final = ("chains", "retries", "retryTimesMax", *STATES)
_CHAIN: Final = (
    "brokerName", "group", "uniqKey", "keys", "originTopic", "originQueueId", "originQueueOffset", "originInLog", "retryTimes",
    "firstRetry", "lastRetry", "deadTimestamp", "state",
)  # fmt: skip
_TEXTS: Final = {"brokerName", "group", "uniqKey", "keys", "originTopic", "originInLog", "state"}
_TIMES: Final = {"firstRetry", "lastRetry", "deadTimestamp", "lastDead"}


def _table(
    name: str, title: str, columns: tuple[str, ...], found: list[dict[str, Any]], total: int, is_finding: bool = False
) -> Table:  # fmt: skip
    kinds = tuple(Column(one, Unit.TEXT if one in _TEXTS else Unit.TIME if one in _TIMES else Unit.COUNT) for one in columns)
    return Table(name, title, kinds, [tuple(cell(row[one]) for one in columns) for row in found[:WORST]], total, is_finding)
