"""The command with a job of its own in place of `skew`, which does as it is asked: for what a real job does not do by itself."""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import Iterator
from functools import partial
from typing import Any

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import Job, Source
from rmq_spark.outcome import Figure, Outcome, Unit
from rmq_spark.session import Progress, watched

FOREVER = 10**15
"""Rows that no machine counts while a test lasts."""
PARAMETERS = (Parameter("do", str, "what", metavar="WHAT"),)


def spoil(what: str, _item: int) -> Iterator[Any]:
    """In a task."""
    if what == "defect":
        raise KeyError("planted")
    raise OSError(28, "No space left on device")
    yield


def run(spark: Any, source: Source, given: dict[str, Any], progress: Progress) -> Outcome:
    """do: `master` says where it runs; `read`, `wait`, `defect`, `full`, and `die`, which ends the JVM."""
    frames = {}
    match given["do"]:
        case "read":
            with watched(spark, "reading", progress):
                source.read(spark).count()
        case "wait":
            print("waiting", flush=True)
            with watched(spark, "waiting", progress):
                spark.range(FOREVER).selectExpr("sum(hash(id))").collect()
        case "die":
            os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
            spark.range(10).count()
        case "defect" | "full" as what:
            import pyarrow as pa

            from tests.spark.cluster_probe import called

            called(spark, partial(spoil, what), [1], pa.schema([("a", pa.int64())])).count()
        case "frames":
            frames = {"few": spark.range(3), "times": spark.sql("select timestamp_millis(1700000000123) as t, 'ä' as s")}
    settings = ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone")
    figures = [Figure("master", "master", spark.sparkContext.master, Unit.TEXT)]
    figures += [Figure(name, name, spark.conf.get(name), Unit.TEXT) for name in settings]
    return Outcome("skew", "clean", True, figures, frames=frames)


def module() -> types.ModuleType:
    """Stands for `rmq_spark.jobs.skew`."""
    made = types.ModuleType("rmq_spark.jobs.skew")
    vars(made).update(JOB=Job("skew", "Do as asked.", PARAMETERS, ("PATH",), "never", run, run))
    return made


if __name__ == "__main__":
    from rmq_cli.spark import main

    sys.modules["rmq_spark.jobs.skew"] = module()
    main()
