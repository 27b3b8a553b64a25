"""Retried and dead messages, back to where they came from: a row for each chain.

A chain is what one group did with one message: its copies in the group's retry topic (`%RETRY%group`, by POP with a topic behind
it), the copies that wait for their delay in the schedule's or the timer's topic, the one in `%DLQ%group`.  Every copy carries
ORIGIN_MESSAGE_ID, the first one's place in the log; copies of POP carry only the unique key, and where the client sent a message
back by itself ORIGIN_MESSAGE_ID is the unique key.

States: `dead`; `waiting` (its delay is not over, or the broker has not come to it yet); `undelivered` (the broker has passed it,
and there is no copy in the retry topic: nobody gets it); `unread` (delivered to the retry topic, not yet passed by the group's
position); `consumed` (the position is behind the last copy, and no further one was made); `unknown` (cannot tell: the group has
no position, or nothing says whether the copy that waits was delivered, see `rmq_spark.progress`).

Clean, however many there are, unless one was never delivered; with `--fail-on-dead` each dead letter is a finding.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import Job, Source
from rmq_spark.jobs.lag import retry_group
from rmq_spark.jobs.retries_origins import CHAIN, origins_of
from rmq_spark.kept import Keep, keeps, nothing
from rmq_spark.known import brokers_of
from rmq_spark.ledger import MESSAGE_ID, place_of
from rmq_spark.local import local
from rmq_spark.measuring import (
    SUFFIX,
    WORST,
    lenient,
    property_value,
    small_table,
    source_of,
    without,
)
from rmq_spark.outcome import Figure, Outcome, Plot, Table
from rmq_spark.picking import OFFSETS, TOPICS_MAX, refuse_ranges
from rmq_spark.progress import on_its_way, progress_of, timer_passed, usual_delay_ms
from rmq_spark.session import Progress, watched
from rmq_spark.tables import Shown, tables_of
from rmq_wire import property_names as prop
from rmq_wire.implied.pop import plain_topic
from rmq_wire.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

DEAD, WAITING, UNDELIVERED, UNREAD = "dead", "waiting", "undelivered", "unread"
CONSUMED, UNKNOWN = "consumed", "unknown"
STATES: Final = (DEAD, WAITING, UNDELIVERED, UNREAD, CONSUMED, UNKNOWN)
RETRY: Final = "retry"
"""Kind of a copy, as DEAD and WAITING are."""
WAITING_ROOMS: Final = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC)


def retries(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each chain: brokerName, group, uniqKey, originMessageId, originTopic, originQueueId, originQueueOffset,
    originStoreTimestamp, originInLog, attempts (of each retryTimes and storeTimestamp), retryTimes, firstRetry, lastRetry,
    deadTimestamp, state.

    options: those of the format; `topics` are the origins'.  Raises `BadOption`, `CannotRead`.
    """
    _, rest = JOB.arguments(options)
    return chains(spark, source_of(paths, rest))


def chains(spark: SparkSession, source: Source, keep: Keep = nothing) -> DataFrame:
    """As `retries`.  Reads the log for the copies and once more for their origins; of both only what may matter is shuffled.

    Where the copies' sums are not kept, those are looked for three times: for what they are, and for which origins to look.
    """
    from pyspark.sql import functions as F

    refuse_ranges(source, "retries", OFFSETS)  # a copy has its offset in another queue
    progress = progress_of(spark, source)
    found = keep(_summed(copies(spark, source)))
    positions = [
        (row["brokerName"], row["group"], row["topic"], row["queueId"], row["offset"])
        for row in small_table(Source(source.paths, without(source.options, ("topics", "queueIds"))), "consumerOffsets")
        if row["group"] and row["offset"] is not None and row["topic"].startswith(RETRY_PREFIX)
    ]
    kind = "brokerName string, group string, lastTopic string, lastQueueId int, position bigint"
    held = local(spark, positions, kind)
    passed = F.col("position") > F.col("lastOffset")
    state = (
        F.when(F.col("deadTimestamp").isNotNull(), DEAD)
        .when(F.col("lastWaiting") > F.coalesce("lastDelivered", F.lit(-1)), F.expr(_ON_ITS_WAY))
        .when(passed, CONSUMED)
        .when(~passed, UNREAD)
        .otherwise(UNKNOWN)
    )
    judged = found.join(F.broadcast(held), ["brokerName", "group", "lastTopic", "lastQueueId"], "left")
    judged = judged.join(F.broadcast(progress), "brokerName", "left").withColumn("due", _due()).withColumn("state", state)
    origins = origins_of(spark, source, found.select(*CHAIN, "uniqKey", "originPlace"))
    traced = judged.join(origins, list(CHAIN), "left").withColumn("originInLog", F.col("originOffset").isNotNull())
    traced = traced.withColumn("originTopic", F.coalesce("originTopicFound", "originTopic"))
    topics = source.topics()
    if topics is not None:
        traced = traced.where(F.col("originTopic").isin(topics))
    return traced.select(
        "brokerName",
        "group",
        "uniqKey",
        "keys",
        "originMessageId",
        "originTopic",
        "originQueueId",
        F.col("originOffset").alias("originQueueOffset"),
        "originStoreTimestamp",
        "originInLog",
        "attempts",
        "retryTimes",
        "firstRetry",
        "lastRetry",
        "deadTimestamp",
        "state",
    )


_IS_DELAYED: Final = f"waits.topic = '{SCHEDULE_TOPIC}'"
_ON_ITS_WAY: Final = on_its_way(
    "due",
    f"if({_IS_DELAYED}, delayOffsets is not null, timerReadMs is not null)",
    f"""if({_IS_DELAYED}, waits.queueOffset < coalesce(delayOffsets[waits.queueId], 0),
        {timer_passed("due", "waits.queueOffset")})""",
)


def _due() -> Any:
    """Of the copy that waits, ms: as it says, or by its level and the usual delays."""
    from pyspark.sql import functions as F

    return F.coalesce("waits.due", F.unix_millis("waits.storeTimestamp") + usual_delay_ms("waits.queueId"))


def copies(spark: SparkSession, source: Source) -> DataFrame:
    """All copies: `kind`, `group`, `chain`, `originMessageId`, `originTopic` and what the messages themselves have."""
    from pyspark.sql import functions as F

    options = lenient(without(source.options, ("topics", "queueIds", "columns", "includeProperties")))
    known, is_every = _retry_topics(source)
    is_told = is_every and len(known) <= TOPICS_MAX
    chosen = {"topics": json.dumps([*known, *WAITING_ROOMS])} if is_told else {"includeSystemTopics": "true"}
    columns = "brokerName,topic,queueId,queueOffset,physicalOffset,uniqKey,keys,reconsumeTimes,storeTimestamp,properties"
    read = Source(source.paths, options).read(spark, "messages", columns=columns, includeProperties="raw", **chosen)
    text = F.concat(F.lit(SUFFIX), F.coalesce(F.col("properties").cast("string"), F.lit("")))
    is_waiting = F.col("topic").isin(*WAITING_ROOMS)
    read = read.withColumn("propertyText", text)
    real = F.when(is_waiting, F.expr(property_value(prop.REAL_TOPIC))).otherwise(F.col("topic"))
    read = read.withColumn("realTopic", real)
    is_dead, is_retry = F.col("realTopic").startswith(DLQ_PREFIX), F.col("realTopic").startswith(RETRY_PREFIX)
    read = read.where(is_dead | is_retry)
    origin = F.expr(property_value(prop.ORIGIN_MESSAGE_ID))
    topic = F.coalesce(F.expr(property_value(prop.RETRY_TOPIC)), F.expr(property_value(prop.DLQ_ORIGIN_TOPIC)))
    bare = F.regexp_extract("realTopic", r"^%(?:RETRY|DLQ)%([^+]*)", 1)
    named = [(retry, owner, _popped_from(retry, owner)) for retry, owner in sorted(known.items())]
    owners = local(spark, named, "realTopic string, owner string, poppedFrom string")
    rows = read.join(F.broadcast(owners), "realTopic", "left").withColumn("group", F.coalesce("owner", bare))
    return rows.select(
        "brokerName",
        "group",
        "topic",
        "queueId",
        "queueOffset",
        "physicalOffset",
        "uniqKey",
        "keys",
        "reconsumeTimes",
        "storeTimestamp",
        F.expr(f"try_cast({property_value(prop.TIMER_OUT_MS)} as bigint)").alias("due"),
        F.coalesce(origin, "uniqKey").alias("chain"),
        origin.alias("originMessageId"),
        F.coalesce(topic, "poppedFrom").alias("originTopic"),
        F.when(is_waiting, WAITING).when(is_dead, DEAD).otherwise(RETRY).alias("kind"),
    )


def _popped_from(retry: str, owner: str) -> str | None:
    """The topic that a retry topic of POP is for; its name alone says so.  None: it is no such topic."""
    topic = plain_topic(retry, owner)
    return None if topic == retry else topic


def _retry_topics(source: Source) -> tuple[dict[str, str], bool]:
    """(retry and dead-letter topics that the brokers name -> their groups; whether these are all, since each names its own)."""
    everywhere = Source(source.paths, without(source.options, ("topics", "queueIds")))
    brokers = brokers_of(everywhere)
    listed = {topic for broker in brokers for topic in broker.topics or ()}
    groups = {row["group"] for row in small_table(everywhere, "consumerOffsets") if row["group"]}
    found = {one: owner for one in listed if (owner := retry_group(one, groups)) is not None}
    dead = {one: one.removeprefix(DLQ_PREFIX) for one in listed if one.startswith(DLQ_PREFIX)}
    return found | dead, all(broker.isConfigured for broker in brokers)


def _summed(found: DataFrame) -> DataFrame:
    """A row for each chain."""
    from pyspark.sql import functions as F

    def of(kind: str, column: str) -> Any:
        return F.when(F.col("kind") == kind, F.col(column))

    delivered = F.when(F.col("kind") == RETRY, F.struct(F.col("reconsumeTimes").alias("retryTimes"), "storeTimestamp"))
    place = F.struct("topic", "queueId", "queueOffset")
    waits = F.struct("topic", "queueId", "queueOffset", "storeTimestamp", "due")
    chain = found.groupBy(*CHAIN).agg(
        F.max("uniqKey").alias("uniqKey"),
        F.max("keys").alias("keys"),
        F.max("originMessageId").alias("originMessageId"),
        F.max("originTopic").alias("originTopic"),
        F.array_sort(F.collect_list(delivered)).alias("attempts"),
        F.max("reconsumeTimes").alias("retryTimes"),
        F.min(of(RETRY, "storeTimestamp")).alias("firstRetry"),
        F.max(of(RETRY, "storeTimestamp")).alias("lastRetry"),
        F.max(of(DEAD, "storeTimestamp")).alias("deadTimestamp"),
        F.max(of(WAITING, "reconsumeTimes")).alias("lastWaiting"),
        F.max(of(RETRY, "reconsumeTimes")).alias("lastDelivered"),
        F.max_by(F.when(F.col("kind") == RETRY, place), of(RETRY, "reconsumeTimes")).alias("last"),
        F.max_by(F.when(F.col("kind") == WAITING, waits), of(WAITING, "reconsumeTimes")).alias("waits"),
    )
    is_place = F.col("originMessageId").rlike(MESSAGE_ID) & ~F.coalesce(
        F.col("originMessageId") == F.col("uniqKey"), F.lit(False)
    )
    place_in_log = F.when(is_place, place_of("originMessageId"))
    return chain.select(
        *CHAIN,
        "uniqKey",
        "keys",
        "originMessageId",
        "originTopic",
        "attempts",
        "retryTimes",
        "firstRetry",
        "lastRetry",
        "deadTimestamp",
        "lastWaiting",
        "lastDelivered",
        "waits",
        F.col("last.topic").alias("lastTopic"),
        F.col("last.queueId").alias("lastQueueId"),
        F.col("last.queueOffset").alias("lastOffset"),
        place_in_log.alias("originPlace"),
    )


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """Chains, and their sums by group and origin."""
    from pyspark.sql import functions as F

    found = keep(chains(spark, source, keep))
    sums = _sums()
    with watched(spark, "chains", progress):
        total = found.agg(*sums, F.sum((~F.col("originInLog")).cast("int")).alias("noOrigin")).first()
    assert total is not None
    groups, topics = (found.groupBy("brokerName", one).agg(*sums) for one in ("group", "originTopic"))
    frames = {"retries": found, "groups": groups, "topics": topics, "givenUp": _given_up(found)}
    dead, forgotten = int(total[DEAD] or 0), int(total[UNDELIVERED] or 0)
    is_dead_wrong = bool(dead and given["fail_on_dead"])
    verdict = f"{total['chains']} chains, {dead} of them dead"
    verdict += f", {forgotten} never delivered" if forgotten else ""
    counted = {DEAD: dead, UNDELIVERED: forgotten, "chains": total["chains"]}
    if not dead:
        counted["givenUp"] = 0
    if not total["chains"]:
        counted |= {"groups": 0, "topics": 0}
    tables = tables_of(report(is_dead_wrong=is_dead_wrong, is_any_forgotten=bool(forgotten)), frames, **counted)
    return Outcome(
        "retries",
        verdict,
        not (is_dead_wrong or forgotten),
        figures=_figures(total),
        tables=tables,
        plots=_plots(found, tables),
        notes=["consumed: the group's position is behind the last copy, and no further one was made"],
        frames={name: frame for name, frame in frames.items() if name != "givenUp"},
    )


def _sums() -> list[Column]:
    from pyspark.sql import functions as F

    return [
        F.count("*").alias("chains"),
        F.sum("retryTimes").alias("retries"),
        F.max("retryTimes").alias("retryTimesMax"),
        *(F.sum((F.col("state") == state).cast("int")).alias(state) for state in STATES),
    ]


def _figures(total: Row) -> list[Figure]:
    return [
        Figure("chains", "messages that were retried or died", total["chains"]),
        Figure("retries", "retries in all", total["retries"] or 0),
        Figure("retryTimesMax", "most of one", total["retryTimesMax"] or 0),
        *[Figure(state, label, total[state] or 0) for state, label in LABELS.items()],
        Figure("noOrigin", "whose origin is not in the log any more", total["noOrigin"] or 0),
    ]


def _given_up(found: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    dead = found.where(F.col("state") == DEAD).groupBy("brokerName", "group", "retryTimes")
    return dead.agg(F.count("*").alias("dead"), F.max("deadTimestamp").alias("lastDead"))


def _plots(found: DataFrame, tables: list[Table]) -> list[Plot]:
    steps = found.groupBy("retryTimes").count().orderBy("retryTimes").limit(WORST).collect()
    [groups] = [one for one in tables if one.name == "groups"]
    return [
        Plot("Chains by group", bars=groups.bars("group", "chains")[:BARS]),
        Plot("Chains by retries", bars=[(str(row["retryTimes"]), float(row["count"])) for row in steps]),
    ]


LABELS: Final = {
    DEAD: "dead",
    WAITING: "waiting for their delay",
    UNDELIVERED: "passed by the broker, never delivered",
    UNREAD: "in the retry topic, not read yet",
    CONSUMED: "consumed in the end",
    UNKNOWN: "cannot tell",
}
BARS: Final = 20
_SUMMED: Final = ("chains", "retries", "retryTimesMax", *STATES)
_CHAIN: Final = (
    "brokerName",
    "group",
    "uniqKey",
    "keys",
    "originTopic",
    "originQueueId",
    "originQueueOffset",
    "originInLog",
    "retryTimes",
    "firstRetry",
    "lastRetry",
    "deadTimestamp",
    "state",
)
_GIVEN_UP: Final = ("brokerName", "group", "retryTimes")


def report(*, is_dead_wrong: bool, is_any_forgotten: bool) -> tuple[Shown, ...]:
    """is_dead_wrong: whether each dead letter is a finding; is_any_forgotten: whether anything was never delivered."""
    of_groups, of_topics = ("brokerName", "group"), ("brokerName", "originTopic")
    return (
        Shown(
            DEAD,
            "Dead letters, the newest first",
            _CHAIN,
            ("deadTimestamp desc", "uniqKey"),
            "retries",
            f"state = '{DEAD}'",
            is_finding=is_dead_wrong,
        ),
        Shown(
            UNDELIVERED,
            "Retries that the broker has passed, and never delivered",
            _CHAIN,
            ("lastRetry desc", "uniqKey"),
            "retries",
            f"state = '{UNDELIVERED}'",
            is_finding=is_any_forgotten,
        ),
        Shown("groups", "Groups", (*of_groups, *_SUMMED), ("chains desc", *of_groups)),
        Shown("topics", "Where they came from", (*of_topics, *_SUMMED), ("chains desc", *of_topics)),
        Shown("givenUp", "Given up after so many retries", (*_GIVEN_UP, "dead", "lastDead"), ("dead desc", *_GIVEN_UP)),
        Shown("chains", "Most retried", _CHAIN, ("retryTimes desc", "brokerName", "group", "uniqKey"), "retries"),
    )


JOB: Final = Job(
    name="retries",
    line="Trace retried and dead messages back to where they came from.",
    parameters=(Parameter("fail_on_dead", bool, "Each dead letter is a finding."),),
    examples=("/data/broker-a/store", "/data/brokers --topic Orders --fail-on-dead"),
    found="a retry was never delivered; with --fail-on-dead, there are dead letters",
    run=run,
    function=retries,
)
