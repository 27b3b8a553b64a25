"""Spark's reading and jobs beside a plain sequential read of the same files, in the same run: `make bench-spark`.

For each size a clean store is made in a scratch directory and lies in the page cache then.  A round is, for each size: the files
read plainly, then the load; one round before those that count warms the JVM.  Medians of the rounds.  GB are 10^9 bytes of the
commit log up to its last message, whatever else a load reads; core seconds are those of driver, JVM and Python workers together.
Starting the session is timed apart, as is what a load costs where there is next to nothing to do (`fixed`): GB/s have it in
them.

By default: 5 rounds at 1, 2 and 8 GB, targets held against the figure at 2 GB, cost per GB held together over the sizes; about 10
minutes on two cores, 23 GB of disk.  The exit status is 1 when a target was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from bench.machine import processor
from bench.spark_rows import ROWS, Made, Row, make_store, read_plainly
from bench.spark_table import Figure, Round, line_of, missed, page
from bench.spark_topics import make_topics
from rmq_spark.session import make_session

GB: Final = 1_000_000_000
TINY_GB: Final = 0.008
"""A store in which only what is fixed costs anything."""
STORE_SHARE: Final = 1.5
"""Bytes on the disk for each byte of a log: its queues, its index, the ledger.  As much as the largest
log again is for results."""
TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
JAVA_VERSION: Final = "select java_method('java.lang.System', 'getProperty', 'java.version')"
PACKAGES: Final = ("pyspark", "pyarrow", "numpy")


def core_seconds() -> float:
    """Of this process and all below it, ended ones included."""
    times: dict[int, tuple[int, int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        times[int(entry)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours, found = {os.getpid()}, 0
    while found != len(ours):
        found = len(ours)
        ours |= {process for process, (parent, _) in times.items() if parent in ours}
    return sum(times[process][1] for process in ours if process in times) / TICKS_A_SECOND


def measure(spark: SparkSession, stores: dict[float, Made], row: Row, rounds: int) -> dict[float, Figure]:
    """One row at every size.  A round is all sizes: where the machine is slow for a while, all of them are."""
    took: dict[float, list[Round]] = {size: [] for size in stores}
    for number in range(1 + rounds):
        for size, store in stores.items():
            row.clear(store)
            paths = store.paths(*row.areas)
            begun = time.perf_counter()
            read_plainly(paths)
            plain = time.perf_counter() - begun
            core, begun = core_seconds(), time.perf_counter()
            row.work(spark, store)
            if number:
                took[size].append(Round(time.perf_counter() - begun, plain, core_seconds() - core))
            row.clear(store)
    return {size: Figure(stores[size].log_bytes / GB, tuple(took[size])) for size in stores}


def session_of(master: str, scratch: Path) -> tuple[SparkSession, float, float]:
    """(session, seconds until it was there, seconds of its first query)."""
    begun = time.perf_counter()
    spark = make_session(master, {"spark.local.dir": str(scratch)}, "bench-spark")
    started = time.perf_counter()
    spark.range(1).count()
    return spark, started - begun, time.perf_counter() - started


def make_stores(sizes: list[float], make: Callable[[float], Made]) -> dict[float, Made]:
    """One of each size, and the tiny one."""
    made = {}
    for size in (TINY_GB, *sizes):
        begun = time.perf_counter()
        made[size] = make(size)
        print(f"store of {size:g} GB made in {time.perf_counter() - begun:.1f} s", file=sys.stderr)
    os.sync()
    return made


def figures(spark: SparkSession, rows: list[Row], stores: dict[float, Made], rounds: int) -> dict[str, dict[float, Figure]]:
    """Row -> size -> figure."""
    found = {}
    for row in rows:
        found[row.name] = measure(spark, stores, row, rounds)
        text = ", ".join(f"{size:g} GB {figure.seconds:.2f} s" for size, figure in found[row.name].items())
        print(f"  {row.name}: {text}", file=sys.stderr)
    return found


def check_space(directory: Path, sizes: list[float]) -> None:
    """Raises SystemExit where the stores would not fit."""
    needed, free = (sum(sizes) * STORE_SHARE + max(sizes)) * GB, shutil.disk_usage(directory).free
    if free < needed:
        raise SystemExit(f"{directory} has {free / GB:.0f} GB, {needed / GB:.0f} GB are needed")


def bench(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, as `--json` has it."""
    wanted: list[str] = options.row or []
    rows = [row for row in ROWS if row.is_there() and (not wanted or any(one in row.name for one in wanted))]
    sizes: list[float] = sorted(options.sizes)
    with tempfile.TemporaryDirectory(prefix="rmq-bench-spark-", dir=options.directory) as scratch:
        directory = Path(scratch)
        check_space(directory, sizes)
        spark, session_s, first_s = session_of(options.master, directory / "spark")
        try:
            found: dict[str, dict[float, Figure]] = {}
            makers: dict[bool, Callable[[float], Made]] = {
                False: lambda size: make_store(directory / f"{size}", int(size * GB), options.workers),
                True: lambda size: make_topics(directory / f"topics-{size}", int(size * GB)),
            }
            for has_many_topics, make in makers.items():
                if own := [row for row in rows if row.has_many_topics is has_many_topics]:
                    stores = make_stores(sizes, make)
                    found |= figures(spark, own, stores, options.rounds)
                    for store in stores.values():  # the next ones need their place
                        shutil.rmtree(store.root.parent)
            versions = {"java": spark.sql(JAVA_VERSION).collect()[0][0]}
        finally:
            spark.stop()
    versions |= {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    return {
        "machine": processor(),
        "versions": versions,
        "master": options.master,
        "rounds": options.rounds,
        "sizesGb": sizes,
        "sessionS": session_s,
        "firstQueryS": first_s,
        "load": os.getloadavg()[0],
        "missing": [row.name for row in ROWS if not row.is_there()],
        "rows": [line_of(row.name, row.target_gb_s, found[row.name], sizes, TINY_GB) for row in rows],
    }


def _sizes(text: str) -> list[float]:
    return [float(one) for one in text.split(",")]


def main() -> None:
    """Measure, print.  Exit status 1 when a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=_sizes, default=[1.0, 2.0, 8.0], help="GB: 1,2,8")
    parser.add_argument("--row", action="append", help="only rows whose name contains this (repeatable)")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--directory", type=Path, help="where the scratch directory is made")
    parser.add_argument("--workers", type=int, default=2, help="processes that make the stores")
    parser.add_argument("--json", type=Path, help="write all figures there, too")
    parser.add_argument("--markdown", type=Path, help="write the tables there, too")
    options = parser.parse_args()
    if options.rounds < 1 or not options.sizes or min(options.sizes) <= 0:
        parser.error("at least one round, and sizes above 0")
    begun = time.monotonic()
    result = bench(options)
    result |= {"tookS": time.monotonic() - begun, "date": str(date.today())}
    text = "\n".join(page(result)) + "\n"
    print(text, end="")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(text)
    sys.exit(bool(missed(result["rows"])))


if __name__ == "__main__":
    main()
