"""A driver that runs jobs one after another as the command does, and writes when each began and ended, in ms.

traffic_driver.py DIRECTORY, which has calls.json: [job, paths, given] of each; what came out is in calls-made.json.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from tests.spark.kit import outcome_of

NS_IN_MS: Final = 1_000_000


def now_ms() -> int:
    """A whole millisecond between two jobs: what Spark says of one has milliseconds of its own."""
    begun = time.time_ns() // NS_IN_MS
    while (now := time.time_ns() // NS_IN_MS) < begun + 2:
        pass
    return now - 1


def main(directory: str) -> None:
    """Run them."""
    place = Path(directory)
    spark = SparkSession.builder.appName("traffic").getOrCreate()
    spark.sparkContext.setLogLevel("INFO")
    counted = Path(os.environ["RMQ_COUNTED_READS"])
    made: list[dict[str, Any]] = []
    for job, paths, given in json.loads((place / "calls.json").read_text()):
        lines, begun = counted.stat().st_size if counted.exists() else 0, now_ms()
        outcome = outcome_of(spark, job, paths, **given)
        outcome.close()
        ended = now_ms()
        kept = spark.sparkContext._jsc.getPersistentRDDs().size()
        spark.catalog.clearCache()
        reads = [lines, counted.stat().st_size]
        made.append({"job": job, "begun": begun, "ended": ended, "reads": reads, "kept": kept, "verdict": outcome.verdict})
    (place / "calls-made.json").write_text(json.dumps({"made": made}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
