"""What a job costs that no clock shows: passes over the log, records shuffled, bytes to and from the driver, what is kept.

Jobs run in a driver of their own, and Spark's metrics of them are read afterwards: its event log has stages, shuffles and
results, its log the size of every task as it is sent and of every broadcast.  Bytes of the log are counted where our readers
read them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.spark.cluster import DRIVER_S_MAX, QUICK, own_environment, run_driver

Call = tuple[str, Sequence[str], Mapping[str, Any]]
"""job, paths, what it is given"""
RUN_S_MAX: Final = 2 * DRIVER_S_MAX
"""All jobs are a driver for more than a minute on an idle machine."""
COUNTER: Final = Path(__file__).with_name("counted_reads")
SAID: Final = """
status = error
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{UNIX_MILLIS}} %m{{nolookups}}%n
"""
"""Log4j's settings: all that Spark says, `TaskSetManager` and `MemoryStore` sizes among it."""
JVM: Final = f"{QUICK} -XX:ReservedCodeCacheSize=256m"
"""With its first compiler alone it has 48 MB for code, which all jobs together fill."""
TASK: Final = re.compile(r"(\d+) Starting task .* (\d+) bytes\)")
BROADCAST: Final = re.compile(
    r"(\d+) Block broadcast_\d+_piece\d+ stored as bytes in memory \(estimated size ([\d.]+) ([KMGT]?i?B)"
)
UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


@dataclass(frozen=True)
class Traffic:
    """Of one run of a job."""

    passes: float
    """bytes that were read of the log, by its bytes; of the log of all stores that the job was given"""
    shuffled: int
    """records that were written for a shuffle"""
    stages: int
    tasks: int
    largest_task: int
    """bytes, as it is sent"""
    sent: int
    """bytes from the driver: tasks, and what is broadcast, once"""
    taken: int
    """bytes of the tasks' results"""
    kept: int
    """RDDs that are persisted when its outcome is closed"""
    task_records: tuple[tuple[int, ...], ...] = ()
    """records that each task of a stage read of its shuffles, for each stage that read some"""


def run(
    directory: Path, calls: Sequence[Call], more: Mapping[str, str] | None = None, seconds: float = RUN_S_MAX
) -> list[Traffic]:
    """Runs the calls one after another; what each took, in order.  directory: an empty one; more: settings of Spark."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "events").mkdir()
    (directory / "calls.json").write_text(json.dumps(calls))
    (directory / "log4j2.properties").write_text(SAID.format(file=directory / "said"))
    settings = {
        **SETTINGS,
        "spark.master": "local[2]",
        "spark.eventLog.dir": (directory / "events").as_uri(),
        **(more or {}),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.extraJavaOptions": f"{JVM} -Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    own = own_environment()
    environment = {
        **own,
        "PYTHONPATH": os.pathsep.join([str(COUNTER), own["PYTHONPATH"]]),
        "RMQ_COUNTED_READS": str(directory / "reads"),
        "PYSPARK_SUBMIT_ARGS": " ".join([*(f'"{word}"' for word in words), "pyspark-shell"]),
    }
    command = [sys.executable, "-m", "tests.spark.traffic_driver", str(directory)]
    made = run_driver(command, directory, environment, directory / "calls-made.json", seconds)["made"]
    [events] = (directory / "events").iterdir()
    told = [json.loads(line) for line in events.read_text().splitlines()]
    said = list(sizes_said((directory / "said").read_text()))
    reads = (directory / "reads").read_bytes()
    return [_traffic(one, call, told, said, reads) for one, call in zip(made, calls, strict=True)]


def sizes_said(text: str) -> Iterator[tuple[int, str, int]]:
    """(ms, task or broadcast, bytes)"""
    for line in text.splitlines():
        if (task := TASK.match(line)) is not None:
            yield int(task[1]), "task", int(task[2])
        elif (piece := BROADCAST.match(line)) is not None:
            yield int(piece[1]), "broadcast", round(float(piece[2]) * UNITS[piece[3]])


def _traffic(
    made: Mapping[str, Any], call: Call, told: Sequence[Any], said: Sequence[tuple[int, str, int]], reads: bytes
) -> Traffic:
    begun, ended = made["begun"], made["ended"]
    stages = [
        event["Stage Info"]
        for event in told
        if event["Event"] == "SparkListenerStageCompleted" and begun <= event["Stage Info"]["Submission Time"] <= ended
    ]
    numbers = {(stage["Stage ID"], stage["Stage Attempt ID"]) for stage in stages}
    tasks = [
        event
        for event in told
        if event["Event"] == "SparkListenerTaskEnd" and (event["Stage ID"], event["Stage Attempt ID"]) in numbers
    ]
    metrics = [task["Task Metrics"] for task in tasks if task.get("Task Metrics")]
    read_by: dict[int, list[int]] = {}
    for task in tasks:
        if task.get("Task Metrics"):
            read_by.setdefault(task["Stage ID"], []).append(task["Task Metrics"]["Shuffle Read Metrics"]["Total Records Read"])
    sizes = [size for at, what, size in said if what == "task" and begun <= at <= ended]
    broadcast = [size for at, what, size in said if what == "broadcast" and begun <= at <= ended]
    lines = reads[made["reads"][0] : made["reads"][1]].splitlines()
    log = sum(int(size) for size, path in (line.split(b" ", 1) for line in lines) if b"/commitlog/" in path)
    return Traffic(
        log / sum(map(log_bytes, _stores(call))),
        sum(one["Shuffle Write Metrics"]["Shuffle Records Written"] for one in metrics),
        len(stages),
        len(tasks),
        max(sizes, default=0),
        sum(sizes) + sum(broadcast),
        sum(one["Result Size"] for one in metrics),
        made["kept"],
        tuple(tuple(counts) for counts in read_by.values() if any(counts)),
    )


def _stores(call: Call) -> list[str]:
    _, paths, given = call
    return [*paths, *([given["other"]] if "other" in given else [])]


def log_bytes(store: str) -> int:
    """Of all files of its log, with the empty rest of the last one."""
    return sum(file.stat().st_size for file in Path(store, "commitlog").iterdir())
