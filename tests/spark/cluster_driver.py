"""A driver of the cluster tests: reads a store through the format and through a table of work, and writes what it saw as JSON.

cluster_driver.py STORE DIRECTORY OUTCOME [die] [job] [calls]

`calls`: jobs while which an executor is killed, as DIRECTORY/calls.json lists them.
"""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import cluster_probe
from pyspark.sql import SparkSession

import rmq_cli.spark
import rmq_columns
from pyspark_rocketmq_store import register
from rmq_columns import parse_options, plan_splits, read_split, schema_of

COLUMNS = "topic,queueId,queueOffset,physicalOffset,bodyCrc"
OPTIONS = {"columns": COLUMNS, "includeSystemTopics": "true", "splitBytes": "8k", "blockBytes": "4k", "batchRows": "4"}


def rows(frame: Any) -> list[list[Any]]:
    """Sorted: tasks end in any order."""
    return sorted([list(row) for row in frame.collect()], key=repr)


def by_name(spark: Any, store: str) -> str:
    """Empty when Spark finds the format by itself; else what it says."""
    try:
        spark.read.format("rocketmq_store").options(table="topics").load(store).count()
    except Exception as reason:
        return str(reason)
    return ""


def job(*words: str) -> dict[str, Any]:
    """The command, in this driver's session."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            rmq_cli.spark.main(words)
        except SystemExit as over:
            return {"status": over.code, "outcome": json.loads(said.getvalue())}
    raise AssertionError("it goes on")


def killed(spark: Any, directory: Path) -> dict[str, Any]:
    """Runs each call [name, job, store, given, step, signal] (`mortal`); what came out, and the rows of its frames.

    With SIGSTOP: also how many rows Spark sees in the directory of an export before and after the lost task ends.
    """
    from tests.spark.kit import outcome_of
    from tests.spark.mortal import KILLED, let_go, mortal_tasks

    found: dict[str, Any] = {}
    for name, job_name, store, given, step, how in json.loads((directory / "calls.json").read_text()):
        marks = directory / "marks" / name
        with mortal_tasks(marks, step, how=how):
            made = outcome_of(spark, job_name, store, splitBytes="8k", **given)
        reported = {frame: [list(row) for row in rows.collect()] for frame, rows in made.frames.items()}
        found[name] = made.as_json() | {"frames": reported, "killed": int((marks / KILLED).read_text())}
        if how == signal.SIGSTOP:
            before = spark.read.parquet(given["to"]).count()
            let_go(marks)
            found[name]["seen"] = [before, spark.read.parquet(given["to"]).count()]
    return found


def main(store: str, directory: str, outcome: str, *more: str) -> None:
    """Everything that the tests look at."""
    spark = SparkSession.builder.appName("cluster-test").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    meeting = Path(directory) / "meeting"
    meeting.mkdir(parents=True)
    named = by_name(spark, store)  # before anything registers the format
    seen = cluster_probe.called(spark, partial(cluster_probe.look, str(meeting)), list(range(4)), cluster_probe.SEEN)
    found: dict[str, Any] = {"driver": rmq_columns.__file__, "seen": [row.asDict() for row in seen.collect()]}
    found["named"] = named
    register(spark)
    found["format"] = rows(spark.read.format("rocketmq_store").options(**OPTIONS).load(store))
    options = parse_options({**OPTIONS, "path": store})
    splits = plan_splits(options)
    found["splits"] = len(splits)
    found["worked"] = rows(cluster_probe.called(spark, read_split, splits, schema_of(options)))
    for whom in ("python", "executor") if "die" in more else ():
        work = partial(cluster_probe.read_and_die, f"{directory}/killed", whom)
        written = f"{directory}/{whom}.parquet"
        cluster_probe.called(spark, work, splits, schema_of(options)).write.mode("append").parquet(written)
        found[whom] = rows(spark.read.parquet(written))
    if "calls" in more:
        found["killed"] = killed(spark, Path(directory))
    if "job" in more:
        found["job"] = job("audit", store, "--json", "--out", f"{directory}/found")
    Path(outcome).write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
