"""How far each group is behind its queues: committed positions held against the queues as they are on disk.

A row for each queue of each group.  Which those are: every queue for which it has a position, every other queue of the topics for
which it has one, and its retry topics.  Beginning and end of a queue come from its units (not from the size of its files), so do
bytes and messages behind; of the log only a head is read for each queue and position.  The work is one task for each split of
queue files, on the driver stay only the broker's own configuration tables.

`diff` and `inflight` are what `mqadmin consumerProgress` shows: it counts from 0 where nothing was committed.  `lag` counts what
is really there to be read, from the position or the queue's beginning.

A queue whose messages have all expired begins and ends where its next message will be: a group that had read them is done.  Where
nothing of a queue is on disk (removed by `cleanExpiredConsumeQueue`, lost, or kept in RocksDB), a position above 0 cannot be
judged: `unknown`.

Not clean: a position ahead of its queue's end (what comes next will be skipped), one below its beginning (messages were deleted
before the group read them), one that cannot be judged, a broker without consumerOffset.json, and whatever `--max-lag` and
`--max-lag-time` forbid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import RANGE, Job, Source
from rmq_spark.kept import Keep, keeps
from rmq_spark.known import brokers_of
from rmq_spark.local import local
from rmq_spark.measuring import (
    lenient,
    small_table,
    source_of,
    unreadable,
    without,
)
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.picking import RANGES, refuse_ranges
from rmq_spark.session import Progress, watched
from rmq_spark.tables import Shown, tables_of
from rmq_wire.names import RETRY_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

AHEAD, BELOW, UNKNOWN, GONE, NEVER, BEHIND, DONE = "ahead", "below", "unknown", "gone", "never", "behind", "done"
STATES: Final = {
    AHEAD: "ahead of the queue's end: messages to come will be skipped",
    BELOW: "below the queue's beginning: messages were deleted before the group read them",
    UNKNOWN: "nothing of the queue is on disk: whether the position is right is unknown",
    GONE: "of a deleted topic",
    NEVER: "nothing was committed",
    BEHIND: "some messages are left to read",
    DONE: "all messages were read",
}
FINDINGS: Final = (AHEAD, BELOW, UNKNOWN)


class Wanted(NamedTuple):
    """One queue of one group, as the broker's configuration has it.

    hasTopic: the broker has it, or nobody knows, since it has no topics.json.  hasQueues: its queues are files that can be read.
    """

    brokerName: str
    group: str
    topic: str
    queueId: int
    offset: int | None
    pullOffset: int | None
    hasTopic: bool
    isRetry: bool
    hasQueues: bool


def lag(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """All rows: brokerName, group, topic, queueId, offset, pullOffset, minOffset, maxOffset, lag, diff, inflight, bytesBehind,
    nextStoreTimestamp, lastStoreTimestamp, lagMs, lost, isRetry, state, isFinding.

    options: max_lag, max_lag_time, now (ms); the rest are the format's.  Raises `BadOption`, `CannotRead`.
    """
    given, rest = JOB.arguments(options)
    return rows(spark, source_of(paths, rest), given)


def rows(spark: SparkSession, source: Source, given: dict[str, Any]) -> DataFrame:
    """As `lag`, of a job's arguments.  Lazy but for the configuration tables."""
    from pyspark.sql import functions as F

    refuse_ranges(source, "lag")
    brokers = brokers_of(source)
    readable = {broker.name for broker in brokers if broker.hasQueues}
    configured = {broker.name for broker in brokers if broker.isConfigured}
    wanted = wanted_of(small_table(source, "consumerOffsets"), small_table(source, "topics"), configured)
    wanted = [one._replace(hasQueues=one.brokerName in readable) for one in wanted]
    asked: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for one in wanted:
        asked[one.brokerName, one.topic, one.queueId].add(max(one.offset or 0, 0))
    found = _found(spark, source, asked)
    key = ["brokerName", "topic", "queueId"]
    queues = (
        found.where("position is null")
        .groupBy(*key)
        .agg(
            F.coalesce(F.min("firstOffset"), F.max("endOffset")).alias("minOffset"),
            F.max("endOffset").alias("maxOffset"),
            F.max_by("lastStoreTimestamp", "endOffset").alias("lastStoreTimestamp"),
        )
    )
    behind = (
        found.where("position is not null")
        .groupBy(*key, "position")
        .agg(
            F.sum("messages").alias("lag"),
            F.sum("bytes").alias("bytesBehind"),
            F.min_by("nextStoreTimestamp", "nextOffset").alias("nextStoreTimestamp"),
        )
    )
    held = local(spark, [tuple(one) for one in wanted], _schema()).withColumn(
        "position", F.greatest(F.coalesce("offset", F.lit(0)), F.lit(0))
    )
    joined = held.join(queues, key, "left").join(behind, [*key, "position"], "left")
    return _judged(joined, given)


def _schema() -> StructType:
    from pyspark.sql import types as T

    text, number, flag = T.StringType(), T.LongType(), T.BooleanType()
    kinds = (text, text, text, T.IntegerType(), number, number, flag, flag, flag)
    return T.StructType([T.StructField(name, kind) for name, kind in zip(Wanted._fields, kinds, strict=True)])


def _found(spark: SparkSession, source: Source, asked: dict[tuple[str, str, int], set[int]]) -> DataFrame:
    """Rows of `POSITIONS`, only of queues that are asked for."""
    from rmq_spark.reading import worked

    kept = lenient(without(source.options, (*RANGES, "columns", "table", "topics", "verifyCrc", "includeSystemTopics")))
    topics = sorted({topic for _, topic, _ in asked}) or [""]
    positions = [[*queue, sorted(found)] for queue, found in sorted(asked.items())]
    return worked(spark, "positions", {**kept, "paths": source.paths, "topics": topics}, positions=positions)


def _judged(joined: DataFrame, given: dict[str, Any]) -> DataFrame:
    from pyspark.sql import functions as F

    most, longest = given["max_lag"], given["max_lag_time"]
    until = F.col("lastStoreTimestamp") if given["now"] is None else F.timestamp_millis(F.lit(given["now"]))
    offset, end = F.col("offset"), F.col("maxOffset")
    is_nothing = F.col("isNothing")
    state = (
        F.when(is_nothing & ~F.col("hasTopic"), GONE)
        .when(is_nothing & (~F.col("hasQueues") | (F.coalesce(offset, F.lit(0)) > 0)), UNKNOWN)
        .when(offset.isNull() | (offset < 0), F.when(end > F.col("minOffset"), NEVER).otherwise(DONE))
        .when(offset > end, AHEAD)
        .when(offset < F.col("minOffset"), BELOW)
        .when(F.col("lag") > 0, BEHIND)
        .otherwise(DONE)
    )
    made = (
        joined.withColumn("isNothing", F.col("maxOffset").isNull())
        .withColumn("maxOffset", F.coalesce("maxOffset", F.lit(0)))
        .withColumn("minOffset", F.coalesce("minOffset", F.lit(0)))
        .withColumn("lag", F.coalesce("lag", F.lit(0)))
        .withColumn("bytesBehind", F.coalesce("bytesBehind", F.lit(0)))
        .withColumn("diff", F.col("maxOffset") - F.col("position"))
        .withColumn("inflight", F.greatest(F.coalesce("pullOffset", F.lit(0)), "position") - F.col("position"))
        .withColumn("lagMs", F.when(F.col("lag") > 0, F.unix_millis(until) - F.unix_millis("nextStoreTimestamp")).otherwise(0))
        .withColumn("state", state)
        .withColumn("lost", F.when(F.col("state") == BELOW, F.col("minOffset") - offset).otherwise(0))
    )
    finding = F.col("state").isin(*FINDINGS)
    if most is not None:
        finding = finding | (F.col("lag") > most)
    if longest is not None:
        finding = finding | (F.col("lagMs") > longest)
    return made.withColumn("isFinding", F.coalesce(finding, F.lit(False))).select(
        "brokerName",
        "group",
        "topic",
        "queueId",
        "offset",
        "pullOffset",
        "minOffset",
        "maxOffset",
        "lag",
        "diff",
        "inflight",
        "bytesBehind",
        "nextStoreTimestamp",
        "lastStoreTimestamp",
        "lagMs",
        "lost",
        "isRetry",
        "state",
        "isFinding",
    )


def wanted_of(offsets: list[dict[str, Any]], topics: list[dict[str, Any]], configured: Collection[str]) -> list[Wanted]:
    """A row for each queue of each group; queues without a position, too.  Rows of the tables consumerOffsets and topics.

    configured: names of brokers that have named their topics.
    """
    queues = {(row["brokerName"], row["topic"]): max(row["readQueueNums"] or 0, 0) for row in topics}
    held: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in offsets:
        if row["group"]:
            held[row["brokerName"], row["group"], row["topic"]][row["queueId"]] = row
    groups: dict[str, set[str]] = defaultdict(set)
    for broker, group, _ in held:
        groups[broker].add(group)
    for broker, topic in queues:
        if (owner := retry_group(topic, groups[broker])) is not None:
            held.setdefault((broker, owner, topic), {})
    found = [one for key, known in sorted(held.items()) for one in _queues_of(key, known, queues.get((key[0], key[2])))]
    return [one if one.brokerName in configured else one._replace(hasTopic=True) for one in found]


def _queues_of(key: tuple[str, str, str], known: dict[int, dict[str, Any]], count: int | None) -> Iterator[Wanted]:
    broker, group, topic = key
    for queue_id in sorted({*known, *range(count or 0)}):
        row = known.get(queue_id, {})
        is_retry = retry_group(topic, {group}) == group
        offset, pulled = row.get("offset"), row.get("pullOffset")
        yield Wanted(broker, group, topic, queue_id, offset, pulled, count is not None, is_retry, hasQueues=True)


def retry_group(topic: str, groups: set[str]) -> str | None:
    """Whose retry topic this is: `%RETRY%group`, by POP `%RETRY%group_topic` or `%RETRY%group+topic` (`KeyBuilder`).

    The last two are known by the groups that there are; a name that is no group's is a group of its own.  None for other topics.
    """
    if not topic.startswith(RETRY_PREFIX):
        return None
    name = topic.removeprefix(RETRY_PREFIX)
    if name in groups:
        return name
    owners = [group for group in groups if name.startswith((f"{group}+", f"{group}_"))]
    return max(owners, key=len, default=name.partition("+")[0])


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """Queues of groups, their sums, and what is wrong with positions."""
    from pyspark.sql import functions as F

    every = keep(rows(spark, source, given))
    with watched(spark, "queues", progress):
        total = every.agg(
            F.count("*").alias("rows"),
            F.countDistinct("brokerName", "group").alias("groups"),
            F.sum("lag").alias("lag"),
            F.max("lag").alias("lagMax"),
            F.max("lagMs").alias("lagMsMax"),
            F.sum("bytesBehind").alias("bytes"),
            F.sum(F.col("isFinding").cast("int")).alias("findings"),
            F.sum("lost").alias("lost"),
            *[F.sum((F.col("state") == state).cast("int")).alias(state) for state in STATES],
        ).first()
    assert total is not None
    groups = (
        every.groupBy("brokerName", "group")
        .agg(
            F.count("*").alias("queues"),
            F.sum("lag").alias("lag"),
            F.sum(F.when(F.col("isRetry"), F.col("lag"))).alias("retryLag"),
            F.sum("diff").alias("diff"),
            F.sum("inflight").alias("inflight"),
            F.sum("bytesBehind").alias("bytesBehind"),
            F.max("lagMs").alias("lagMs"),
            F.sum((F.col("state") == NEVER).cast("int")).alias("neverCommitted"),
        )
        .withColumn("retryLag", F.coalesce("retryLag", F.lit(0)))
    )
    wrong = int(total["findings"] or 0)
    spoilt = unreadable(source, "consumerOffsets")
    problems = [f"{wrong} of {total['rows']} queues of groups need a look"] if wrong else []
    problems += [f"{len(spoilt)} positions cannot be read"] if spoilt else []
    verdict = "; ".join(problems) or "no position is out of place"
    brokers = brokers_of(source)
    bare = [broker.name for broker in brokers if not broker.hasPositions]
    if not total["rows"] and not spoilt:
        verdict = "no group has committed anything"
    if bare:
        more = f"; {verdict}" if len(bare) < len(brokers) else ""
        verdict = f"nothing is known of {', '.join(bare)}: no consumerOffset.json{more}"
    shown = {"lag": every, "unreadable": [{"position": line} for line in spoilt], "groups": groups}
    tables = tables_of(REPORT, shown, findings=wrong, groups=total["groups"])
    bars = [one for one in tables[2].bars("group", "lag") if one[1]]
    return Outcome(
        "lag",
        verdict,
        not (wrong or bare or spoilt),
        figures=[
            Figure("groups", "groups", total["groups"]),
            Figure("queues", "queues of groups", total["rows"]),
            Figure("lag", "messages behind", total["lag"] or 0),
            Figure("lagMax", "most on one queue", total["lagMax"] or 0),
            Figure("lagMsMax", "longest lag in time", total["lagMsMax"] or 0, Unit.MS),
            Figure("bytesBehind", "bytes behind", total["bytes"] or 0, Unit.BYTES),
            Figure("neverCommitted", "queues never committed", total[NEVER] or 0),
            Figure("ahead", "positions ahead of the end", total[AHEAD] or 0),
            Figure("below", "positions below the beginning", total[BELOW] or 0),
            Figure("lost", "messages deleted before they were read", total["lost"] or 0),
            Figure("unknown", "positions that cannot be judged", total[UNKNOWN] or 0),
            Figure("gone", "positions of topics that are gone", total[GONE] or 0),
            Figure("unreadable", "positions that cannot be read", len(spoilt)),
        ],
        tables=tables,
        plots=[Plot("Messages behind, by group", bars=bars[:BARS])],
        notes=_notes(total, given),
        frames={"lag": every, "groups": groups},
    )


def _notes(total: Any, given: dict[str, Any]) -> list[str]:
    until = "the newest message of each queue" if given["now"] is None else "the time given as now"
    notes = [f"lag in time: from the store time of the next message to that of {until}"]
    if total[UNKNOWN]:
        notes.append(
            f"{total[UNKNOWN]} positions cannot be judged, since nothing of their queues is on disk: removed by"
            " cleanExpiredConsumeQueue, lost, or kept in RocksDB"
        )
    if total[GONE]:
        notes.append(f"{total[GONE]} offsets are of deleted topics; they do no harm")
    return notes


BARS: Final = 20
"""Of the plot."""
QUEUE_COLUMNS: Final = (
    "brokerName",
    "group",
    "topic",
    "queueId",
    "state",
    "offset",
    "minOffset",
    "maxOffset",
    "lag",
    "lagMs",
    "bytesBehind",
)
GROUP_COLUMNS: Final = (
    "brokerName",
    "group",
    "queues",
    "lag",
    "retryLag",
    "diff",
    "inflight",
    "bytesBehind",
    "lagMs",
    "neverCommitted",
)
_WORST_FIRST: Final = ("lag desc", "brokerName", "group", "topic", "queueId")
REPORT: Final = (
    Shown(
        "findings",
        "Positions to look at",
        QUEUE_COLUMNS,
        (f"state in {FINDINGS} desc", *_WORST_FIRST),
        "lag",
        "isFinding",
        is_finding=True,
    ),
    Shown("unreadable", "Positions that cannot be read", ("position",), is_finding=True),
    Shown("groups", "Groups, the worst first", GROUP_COLUMNS, ("lag desc", "brokerName", "group")),
    Shown("queues", "Queues with something left to read", QUEUE_COLUMNS, _WORST_FIRST, "lag", "lag > 0"),
)


JOB: Final = Job(
    name="lag",
    line="Measure how far each consumer group is behind its queues.",
    parameters=(
        Parameter("max_lag", int, "More messages behind than this, on one queue, are a finding.", least=0),
        Parameter("max_lag_time", "duration", "A longer lag in time, on one queue, is a finding: 90s, 10m, 2h."),
        Parameter("now", "time", "Lag in time is measured up to then.  To the queue's newest message by default."),
    ),
    examples=("/data/broker-a/store --max-lag 10000", "/data/brokers --max-lag-time 10m --now now"),
    found="a position is out of place, cannot be read or judged, or is behind by more than allowed",
    run=run,
    function=lag,
    left_out=RANGE,
)
