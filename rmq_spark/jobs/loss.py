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

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import RANGE, Job, Source
from rmq_spark.jobs.loss_blocks import IS_EXACT, QUEUE
from rmq_spark.jobs.loss_judge import judged
from rmq_spark.jobs.loss_ledger import BLOCK, BLOCK_BITS
from rmq_spark.jobs.loss_match import Matching
from rmq_spark.jobs.loss_tables import LABELS, REPORT, VERDICTS, WRONG
from rmq_spark.kept import Keep, Short, keeping, keeps, shortened
from rmq_spark.ledger import LEDGER_PARAMETERS
from rmq_spark.measuring import source_of
from rmq_spark.outcome import Figure, Frames, Outcome, Plot
from rmq_spark.session import Progress, silent, watched
from rmq_spark.tables import tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


NAMES_MAX: Final = 20
"""Of brokers, in a note."""


def loss(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each row of the ledger.

    topic, queueId, queueOffset, uniqKey, offsetMsgId, brokerName as the ledger has them; verdict; foundBrokerName, foundTopic
    (the system's, of one that waits), foundQueueId, foundQueueOffset, physicalOffset, storeSize of the message; deadIn: groups
    whose dead letter it is.  Reads the log at once.  options: `ledger` (a path or several), `ledger_format`, `column`, `no_crc`,
    those of the format.  Raises `BadOption`.
    """
    given, rest = JOB.arguments(options)
    with keeping() as keep:
        job = Matching(spark, source_of(paths, rest), given, Short(keep), silent)
        return judged(job, with_places=True).drop("isPlain").unionByName(job.sound())


def by_topic(job: Matching, verdicts: DataFrame) -> DataFrame:
    """A row for each topic: a count of each verdict, of dead letters, of what is wrong."""
    from pyspark.sql import functions as F

    of_verdicts = verdicts.groupBy("topic").agg(
        *(F.count_if(F.col("verdict") == one).alias(one) for one in VERDICTS),
        F.count_if(F.expr("size(deadIn) > 0")).alias("dead"),
        (-F.count_if("isPlain")).alias("told"),
    )
    told = job.blocks.where("acknowledged > 0").groupBy("topic").agg(F.sum("acknowledged").alias("told"))
    counts = (*VERDICTS, "dead", "told")
    every = of_verdicts.unionByName(told, True).groupBy("topic").agg(*(F.sum(one).alias(one) for one in counts))
    every = every.na.fill(0).withColumn("stored", F.col("stored") + F.col("told"))
    return every.withColumn("wrong", F.expr(" + ".join(WRONG)))


def ahead(job: Matching) -> DataFrame:
    """Positions behind the end of their queue: what comes until there will never be read."""
    from pyspark.sql import functions as F

    rows = job.bounds().join(job.few_positions(), list(QUEUE))
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
    wrong = ", ".join(f"'{one}'" for one in WRONG if one != "unknown")
    positions = job.few_positions()
    none = (F.lit(0).alias("passedWrong"), F.lit(0).alias("dead"))
    looked_at = rows.join(positions, list(QUEUE)).select(
        "group",
        "topic",
        F.expr("int(at < offset)").alias("passed"),
        F.expr("int(at >= offset)").alias("notYet"),
        F.expr(f"int(at < offset and verdict in ({wrong}))").alias("passedWrong"),
        F.expr("int(array_contains(deadIn, group))").alias("dead"),
    )
    # whole blocks, less what of them was looked at
    less = verdicts.where("isPlain").select(
        F.coalesce("brokerName", F.lit(job.own)).alias("brokerName"),
        "topic",
        "queueId",
        F.col("queueOffset").alias("at"),
        F.lit(-1).alias("n"),
    )
    every = job.blocks.where(f"acknowledged > 0 and {IS_EXACT}").select(*BLOCK, "acknowledged", "offsets")
    within = f"least(greatest(offset - shiftleft(block, {BLOCK_BITS}), 0), {1 << BLOCK_BITS})"
    whole = every.join(positions, list(QUEUE)).select(
        "group",
        "topic",
        F.expr(f"bit_count(offsets & (shiftleft(1L, int({within})) - 1))").alias("passed"),
        "acknowledged",
    )
    whole = whole.select("group", "topic", "passed", F.expr("acknowledged - passed").alias("notYet"), *none)
    single = less
    if job.sums.inexact:
        blocks = job.blocks.where(f"acknowledged > 0 and not {IS_EXACT}").select(*BLOCK)
        rows = job.ledger.rows().where("isPlain").join(blocks, list(BLOCK), "left_semi")
        single = less.unionByName(rows.select(*QUEUE, F.col("claimed.queueOffset").alias("at"), F.lit(1).alias("n")))
    single = single.join(positions, list(QUEUE)).select(
        "group", "topic", F.expr("if(at < offset, n, 0)").alias("passed"), F.expr("if(at < offset, 0, n)").alias("notYet"), *none
    )
    sound = whole.unionByName(single)
    sums = [F.sum(F.coalesce(one, F.lit(0))).alias(one) for one in ("passed", "notYet", "passedWrong", "dead")]
    return looked_at.unionByName(sound).groupBy("group", "topic").agg(*sums).where("passed + notYet > 0")


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """Sum up, look at what does not come out even, and keep its verdicts."""
    from pyspark.sql import functions as F

    keep = Short(keep)
    job = Matching(spark, source, given, keep, progress)
    with watched(spark, "judging", progress):
        verdicts = keep(judged(job))
        topics = shortened(by_topic(job, verdicts))
        [sums] = topics.agg(F.count("*").alias("topics"), *(F.sum(one).alias(one) for one in (*VERDICTS, "dead"))).collect()
    more = job.sums.messages - job.found.told if job.is_small else job.found.untold
    with watched(spark, "summing up", progress):
        rows = verdicts.drop("isPlain")
        frames = Frames(
            {
                "findings": rows.where(F.col("verdict").isin(list(WRONG))),
                "expired": rows.where("verdict = 'expired'"),
                "groups": shortened(by_group(job, verdicts)),
                "positionsAhead": shortened(ahead(job)),
            }
        )
        wrong_count = sum(sums[one] or 0 for one in WRONG)
        sizes = {} if job.positions_count else {"groups": 0, "positionsAhead": 0}
        tables = tables_of(REPORT, {**frames, "topics": topics}, topics=sums["topics"], findings=wrong_count, **sizes)
    ahead_count = tables[-1].total
    counts = {one: sums[one] or 0 for one in VERDICTS}
    is_strict = given["strict"]
    if is_strict:
        frames["notInLedger"] = job.unmatched()
    wrong = [f"{counts[one]} {one}" for one in WRONG if counts[one]]
    wrong += [f"{ahead_count} positions behind the end of their queue"] if ahead_count else []
    wrong += [f"{job.ledger.unusable} rows of the ledger could not be judged"] if job.ledger.unusable else []
    wrong += [f"{more} messages that the ledger does not have"] if is_strict and more else []
    labels = [Figure(one, LABELS.get(one, one), counts[one]) for one in VERDICTS]
    figures = [
        Figure("acknowledged", "rows of the ledger", job.ledger.count),
        *labels,
        Figure("dead", "became dead letters", sums["dead"] or 0),
        Figure("notInLedger", "messages of these topics that the ledger does not have", more),
        Figure("unusable", "rows of the ledger without topic or any identity", job.ledger.unusable),
    ]
    verdict = ", ".join(wrong) if wrong else f"clean: all {job.ledger.count} acknowledged messages are accounted for"
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


JOB: Final = Job(
    name="loss",
    line="Hold a ledger of what was sent against log, queues, committed positions and dead letters.",
    parameters=(
        replace(LEDGER_PARAMETERS[0], is_required=True),
        *LEDGER_PARAMETERS[1:],
        Parameter("strict", bool, "A message of the ledger's topics that the ledger does not have is a finding, too."),
        Parameter("no_crc", bool, "Leave out check sums of bodies: faster, and a damaged body counts as stored."),
    ),
    examples=(
        "/data/broker-a/store --ledger sent.jsonl",
        "/data/brokers --ledger sent.csv --column uniqKey=id --out found",
    ),
    found="an acknowledged message is not as it should be or cannot be judged, or a position is ahead",
    run=run,
    function=loss,
    left_out=RANGE,
    has_topics_of_its_own=True,  # of the ledger: of one that is in no store any more everything is lost
)
