"""Is a message of the ledger that lies in a topic of the system's on its way, or was it forgotten there?

What the broker says of its progress is read first, and the log after that (once more, as `pending` does): what was delivered by
then has its copy in the log.

    delayed   delayOffset.json has the next offset of each level
    timed     timercheck has up to which time the wheel was read, and up to where its topic was taken into it
    half      an op message, or the position of the broker's own group

A message that its broker has passed without a copy in its topic is undelivered.  Where the copy may only be behind the end of
this log (it was due in the log's last minute, or later: a replica that is behind, a tail that is gone), where the progress is not
known although the message was due, and where a half message was ended without a commit (rolled back, or its commit is lost: an op
does not say which), it is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmq_spark.jobs import Source
from rmq_spark.kept import Keep
from rmq_spark.progress import on_its_way, progress_of, timer_passed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STATE: Final = f"""case
    when state is null then 'unknown'
    when state = 'delivered' then 'stored'
    when state = 'recalled' then 'recalled'
    when kind = 'half' then if(state in ('waiting', 'again'), 'waiting', 'unknown')
    when kind = 'timed' then {on_its_way("due", "timerReadMs is not null", timer_passed("due", "systemQueueOffset"))}
    else {on_its_way("due", "delayOffsets is not null", "state in ('undelivered', 'unknown')")} end"""


def judged(spark: SparkSession, source: Source, verdicts: DataFrame, keep: Keep) -> DataFrame:
    """The same rows; those that are `waiting` get the verdict that the broker's progress allows."""
    from pyspark.sql import functions as F

    from rmq_spark.jobs.pending import promises

    progress = progress_of(spark, source)
    found = (
        promises(spark, source, progress, keep)[0]
        .where("kind <> 'pop'")
        .select(
            F.col("brokerName").alias("foundBrokerName"),
            "physicalOffset",
            "kind",
            "state",
            "systemQueueOffset",
            F.unix_millis("dueTimestamp").alias("due"),
        )
    )
    waiting = verdicts.where("verdict = 'waiting'").join(found, ["foundBrokerName", "physicalOffset"], "left")
    progress = progress.withColumnRenamed("brokerName", "foundBrokerName")
    waiting = waiting.join(F.broadcast(progress), "foundBrokerName", "left").withColumn("verdict", F.expr(_STATE))
    return verdicts.where("verdict <> 'waiting'").unionByName(waiting.select(*verdicts.columns))
