"""Was everything that was acknowledged also kept?  A ledger of sends against log, queues, committed positions and dead letters.

Each row of the ledger gets one verdict:

    stored       in the log where its producer's answer said, and its queue's unit points to it
    waiting      kept, but not in its topic yet: delayed, timed, or a half message
    recalled     it was timed, and recalled before it was due
    expired      its place lies before the first that its queue still has: gone by retention
    elsewhere    in the log, at another queue or queue offset than its producer's answer said
    unindexed    in the log, but its queue has no unit for it, or one that points to something else: nobody gets it
    unreadable   it has its place, but its bytes there are damaged (what is no message, or a body with another CRC)
    undelivered  its broker has passed it in the topic of delayed or timed messages, and its own topic has no copy: nobody gets it
    lost         nowhere
    unknown      cannot tell: expired or lost, waiting or lost, rolled back or lost, kept by this broker or by that one

A message is found by its topic and unique key, or, where the ledger has none, by its offsetMsgId, or by queue and queue offset.
The place that a producer of delayed, timed or half messages was answered is that in the system's topic, so for those any place is
right (`loss_verdicts`, `loss_waiting`).  The ledger is never brought to the driver: it is joined with narrow columns of the log
and of the queues.  A message of the ledger's topics that the ledger does not have is counted, and a finding with `--strict` only.

`is_clean`: nothing elsewhere, unindexed, unreadable, undelivered, lost or unknown; no group's position behind the end of its
queue; no row of the ledger that could not be judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter, arguments_of
from rmq_spark.jobs import RANGE, Source, loss_waiting
from rmq_spark.jobs import loss_verdicts as sql
from rmq_spark.jobs.loss_match import Matching
from rmq_spark.jobs.loss_tables import LABELS, VERDICTS, WRONG, of_findings, of_groups, of_positions, of_topics
from rmq_spark.kept import Keep, keeping, keeps
from rmq_spark.ledger import LEDGER_PARAMETERS
from rmq_spark.measuring import collected, observed, source_of
from rmq_spark.outcome import Figure, Outcome, Plot
from rmq_spark.session import Progress, silent, watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARAMETERS: Final = (
    replace(LEDGER_PARAMETERS[0], is_required=True),
    *LEDGER_PARAMETERS[1:],
    Parameter("strict", bool, "A message that the ledger does not have is a finding."),
    Parameter("no_crc", bool, "Leave out check sums: a damaged body counts as stored."),
)
EXAMPLES: Final = (
    "/data/broker-a/store --ledger sent.jsonl",
    "/data/brokers --ledger sent.csv --column uniqKey=id --out found",
)
LEFT_OUT: Final = RANGE
HAS_TOPICS_OF_ITS_OWN: Final = True
"""The ledger's: of a topic that is in no store any more everything is lost."""
FOUND: Final = "an acknowledged message is not as it should be or cannot be judged, or a position is ahead"


NAMES_MAX: Final = 20
"""Of brokers, in a note."""


def loss(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each row of the ledger.

    topic, queueId, queueOffset, uniqKey, offsetMsgId, brokerName as the ledger has them; verdict; foundBrokerName, foundTopic
    (the system's, of one that waits), foundQueueId, foundQueueOffset, physicalOffset, storeSize of the message; deadIn: groups
    whose dead letter it is.  Reads the log at once.  options: `ledger` (a path or several), `ledger_format`, `column`, `no_crc`,
    those of the format.  Raises `BadOption`.
    """
    given, rest = arguments_of(PARAMETERS, options)
    with keeping() as keep:
        return judge(Matching(spark, source_of(paths, rest), given), silent, keep)[0].drop("units")


def judge(job: Matching, progress: Progress, keep: Keep) -> tuple[DataFrame, DataFrame, int]:
    """(verdicts, kept; the log; how many messages the ledger does not have)."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    bits, seen = Observation(), Observation()
    log = job.log()
    own = f"size({sql.HERE}))"
    matched = job.matched(log.observe(bits, *job.detour_bits()))
    unknown = F.expr(f"sum(if(claimed is null, {own}, 0))").alias("unknown")
    met = keep(job.met(matched.observe(seen, unknown)))
    with watched(job.spark, "matching ledger and log", progress):
        met.count()
    verdicts = job.verdicts(met, job.detours(observed(bits, log, *job.detour_bits())))
    with watched(job.spark, "judging", progress):
        there = {row["verdict"] for row in verdicts.select("verdict").distinct().collect()}
    if there & {"lost", "unknown"}:
        verdicts = job.unreadable(verdicts)
    if "waiting" in there:
        verdicts = loss_waiting.judged(job.spark, job.source, verdicts, keep)
    if job.has_one_identity:
        return keep(verdicts), log, int(observed(seen, matched, unknown)["unknown"] or 0)
    with watched(job.spark, "what the ledger does not have", progress):
        return keep(verdicts), log, job.not_in_ledger(log).count()


def ahead(job: Matching) -> DataFrame:
    """Positions behind the end of their queue: what comes until there will never be read."""
    from pyspark.sql import functions as F

    rows = job.offsets().join(F.broadcast(job.bounds()), ["brokerName", "topic", "queueId"])
    found = rows.where("offset > end").withColumn("ahead", F.expr("offset - end"))
    return found.select("brokerName", "group", "topic", "queueId", "offset", "end", "ahead")


def by_group(job: Matching, verdicts: DataFrame) -> DataFrame:
    """By group and topic, how many were passed, not yet, passed though nobody could have got them, and how many died."""
    from pyspark.sql import functions as F

    rows = verdicts.where("coalesce(foundTopic, topic) = topic").select(
        "topic",
        "verdict",
        "deadIn",
        F.col("foundBrokerName").alias("brokerName"),
        F.coalesce("foundQueueId", "queueId").alias("queueId"),
        F.coalesce("foundQueueOffset", "queueOffset").alias("at"),
    )
    rows = rows.join(F.broadcast(job.offsets()), ["brokerName", "topic", "queueId"])
    wrong = ", ".join(f"'{one}'" for one in WRONG if one != "unknown")
    return rows.groupBy("group", "topic").agg(
        F.expr("count_if(at < offset)").alias("passed"),
        F.expr("count_if(at >= offset)").alias("notYet"),
        F.expr(f"count_if(at < offset and verdict in ({wrong}))").alias("passedWrong"),
        F.expr("count_if(array_contains(deadIn, group))").alias("dead"),
    )


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """Join once, keep the verdicts, and sum them up."""
    from pyspark.sql import functions as F

    with watched(spark, "reading the ledger", progress):
        job = Matching(spark, source, given)
    verdicts, log, more = judge(job, progress, keep)
    with watched(spark, "summing up", progress):
        sums = verdicts.groupBy("topic", "verdict").agg(
            F.count("*").alias("n"), F.expr("count_if(size(deadIn) > 0)").alias("dead")
        )
        by_topic = sums.collect()
        groups = keep(by_group(job, verdicts))
        passed = collected(groups.orderBy(F.desc("passedWrong"), F.desc("notYet"), "group", "topic"))
        positions = keep(ahead(job))
        of_ahead, ahead_count = collected(positions.orderBy(F.desc("ahead"))), positions.count()
        verdicts = verdicts.drop("units")
        findings = verdicts.where(F.col("verdict").isin(list(WRONG)))
        rank = F.array_position(F.array(*map(F.lit, WRONG)), F.col("verdict"))
        worst = collected(findings.orderBy(rank, "topic", "queueId", "queueOffset"))
    counts = {one: sum(row["n"] for row in by_topic if row["verdict"] == one) for one in VERDICTS}
    dead = sum(row["dead"] for row in by_topic)
    frames = {
        "findings": findings,
        "expired": verdicts.where("verdict = 'expired'"),
        "groups": groups,
        "positionsAhead": positions,
    }
    is_strict = given["strict"]
    if is_strict:
        frames["notInLedger"] = job.not_in_ledger(log)
    wrong = [f"{counts[one]} {one}" for one in WRONG if counts[one]]
    wrong += [f"{ahead_count} positions behind the end of their queue"] if ahead_count else []
    wrong += [f"{job.unusable} rows of the ledger could not be judged"] if job.unusable else []
    wrong += [f"{more} messages that the ledger does not have"] if is_strict and more else []
    labels = [Figure(one, LABELS.get(one, one), counts[one]) for one in VERDICTS]
    figures = [
        Figure("acknowledged", "rows of the ledger", job.count),
        *labels,
        Figure("dead", "became dead letters", dead),
        Figure("notInLedger", "messages of these topics that the ledger does not have", more),
        Figure("unusable", "rows of the ledger without topic or any identity", job.unusable),
    ]
    tables = [of_topics(by_topic), of_findings(worst, sum(counts[one] for one in WRONG))]
    tables += [of_groups(passed), of_positions(of_ahead, ahead_count)]
    verdict = ", ".join(wrong) if wrong else f"clean: all {job.count} acknowledged messages are accounted for"
    bars = [(one, float(counts[one])) for one in VERDICTS if counts[one]]
    plots = [Plot("What became of acknowledged messages", bars)]
    return Outcome("loss", verdict, not wrong, figures, tables, plots, _notes(job, verdicts, counts), frames)


def _notes(job: Matching, verdicts: DataFrame, counts: dict[str, int]) -> list[str]:
    """What could not be looked at, and why."""
    notes = []
    if counts["unknown"]:
        notes.append(f"of {counts['unknown']} messages it is not known what became of them; docs/spark-jobs.md says when that is")
        known = [one.name for one in job.brokers]
        others = verdicts.where("verdict = 'unknown'").select("brokerName").distinct()
        missing = sorted(
            row["brokerName"] for row in others.limit(NAMES_MAX).collect() if row["brokerName"] not in (*known, None)
        )
        if missing:
            notes.append(f"brokers of the ledger that are not among {', '.join(known)}: {', '.join(missing)}")
        if len(known) > 1 and others.where("brokerName is null").count():
            notes.append("a brokerName in the ledger would tell the brokers apart")
    if bare := [one.name for one in job.brokers if not one.hasQueues]:
        notes.append(f"no queue files of {', '.join(bare)}: whether messages there are indexed was not looked at")
    return notes
