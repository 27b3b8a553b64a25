"""Spark's reading and jobs beside a plain sequential read of the same files, in the same run: `make bench-spark`.

For each size a clean store is made in a scratch directory and lies in the page cache then.  A round is: the files read plainly,
then the load; one round before those that count warms the JVM.  Medians of the rounds.  GB are 10^9 bytes of the commit log up to
its last message, whatever else a load reads; core seconds are those of driver, JVM and Python workers together.  Starting the
session is told apart, and so is what a load costs where there is next to nothing to do (`fixed`): GB/s have it in them.

By default: 5 rounds at 1, 2 and 8 GB, targets held against the figure at 2 GB; about 15 minutes on two cores, 17 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from bench.machine import processor
from bench.spark_rows import COST_SPREAD_MAX, ROWS, Made, Row, make_store, read_plainly
from rmq_spark.session import make_session

GB: Final = 1_000_000_000
TINY_GB: Final = 0.008
"""A store in which only what is fixed costs anything."""
DISK_SHARE: Final = 2.0
"""Bytes on the disk for each byte of the largest log: its queues and index, an export, rebuilt queues."""
TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
PACKAGES: Final = ("pyspark", "pyarrow", "numpy")


class Figure(NamedTuple):
    """Medians of one row at one size.  Seconds; plain_s: the plain read of the same files."""

    row: str
    gigabytes: float
    seconds: float
    plain_s: float
    core_s: float
    rounds: list[float]

    @property
    def gb_s(self) -> float:
        return self.gigabytes / self.seconds


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


def measure(spark: SparkSession, store: Made, row: Row, rounds: int) -> Figure:
    """One row at one size."""
    paths = store.paths(*row.areas)
    row.clear(store)
    row.work(spark, store)
    took: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        row.clear(store)
        begun = time.perf_counter()
        read_plainly(paths)
        plain = time.perf_counter() - begun
        core, begun = core_seconds(), time.perf_counter()
        row.work(spark, store)
        took.append((time.perf_counter() - begun, plain, core_seconds() - core))
    row.clear(store)
    seconds, plain_s, core_s = (statistics.median(column) for column in zip(*took, strict=True))
    return Figure(row.name, store.log_bytes / GB, seconds, plain_s, core_s, [one[0] for one in took])


def session_of(master: str, scratch: Path) -> tuple[SparkSession, float, float]:
    """(session, seconds until it was there, seconds of its first query)."""
    begun = time.perf_counter()
    spark = make_session(master, {"spark.local.dir": str(scratch)}, "bench-spark")
    started = time.perf_counter()
    spark.range(1).count()
    return spark, started - begun, time.perf_counter() - started


def figures(
    spark: SparkSession, rows: list[Row], sizes: list[float], rounds: int, directory: Path, workers: int
) -> Iterator[Figure]:
    """Of every row at every size, size by size: only one store lies there at a time."""
    for size in (TINY_GB, *sizes):
        begun = time.perf_counter()
        store = make_store(directory / f"{size}", int(size * GB), workers)
        os.sync()
        print(f"store of {size:g} GB made in {time.perf_counter() - begun:.1f} s", file=sys.stderr)
        for row in rows:
            figure = measure(spark, store, row, rounds)
            print(f"  {row.name}: {figure.seconds:.2f} s, {figure.gb_s:.2f} GB/s", file=sys.stderr)
            yield figure
        shutil.rmtree(directory / f"{size}")


def judged_size(sizes: list[float]) -> float:
    """At which the targets are held: the one in the middle, where neither what is fixed nor what grows is hidden."""
    return sorted(sizes)[(len(sizes) - 1) // 2]


def line_of(row: Row, found: dict[float, Figure], sizes: list[float]) -> dict[str, Any]:
    """A line of the table.  found: by the size that was asked for."""
    at = found[judged_size(sizes)]
    costs = [found[size].seconds / found[size].gigabytes for size in sizes]
    spread = max(costs) / min(costs) - 1
    return {
        "row": row.name, "targetGbS": row.target_gb_s, "gbS": at.gb_s,
        "isReached": None if row.target_gb_s is None else at.gb_s >= row.target_gb_s,
        "plainGbS": at.gigabytes / at.plain_s, "shareOfPlain": at.plain_s / at.seconds,
        "coreSecondsPerGb": at.core_s / at.gigabytes,
        "fixedS": found[TINY_GB].seconds, "gbSBySize": {f"{size:g}": found[size].gb_s for size in sizes},
        "costSpread": spread if len(sizes) > 1 else None,
        "isSpreadReached": spread <= COST_SPREAD_MAX if len(sizes) > 1 else None,
        "secondsOfRounds": {f"{size:g}": found[size].rounds for size in (TINY_GB, *sizes)},
    }  # fmt: skip


def table(lines: list[dict[str, Any]], sizes: list[float]) -> Iterator[str]:
    """Markdown."""
    judged = f"{judged_size(sizes):g}"
    others = [f"{size:g}" for size in sizes]
    heads = [
        "load", "target", f"GB/s at {judged} GB", "reached", "of a plain read", "core s/GB", "fixed s",
        f"GB/s at {', '.join(others)} GB", "cost spread",
    ]  # fmt: skip
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for one in lines:
        cells = [
            one["row"], "" if one["targetGbS"] is None else f"{one['targetGbS']}", f"{one['gbS']:.2f}", _said(one["isReached"]),
            f"{one['shareOfPlain']:.0%} of {one['plainGbS']:.1f} GB/s", f"{one['coreSecondsPerGb']:.2f}", f"{one['fixedS']:.2f}",
            ", ".join(f"{one['gbSBySize'][size]:.2f}" for size in others),
            "" if one["costSpread"] is None else f"{one['costSpread']:.0%}, {_said(one['isSpreadReached'])}",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _said(is_reached: bool | None) -> str:
    return "" if is_reached is None else "yes" if is_reached else "NO"


def check_space(directory: Path, sizes: list[float]) -> None:
    """Raises SystemExit where the stores would not fit."""
    needed, free = max(sizes) * GB * DISK_SHARE, shutil.disk_usage(directory).free
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
            all_sizes = [TINY_GB, *sizes]
            for number, one in enumerate(figures(spark, rows, sizes, options.rounds, directory, options.workers)):
                found.setdefault(one.row, {})[all_sizes[number // len(rows)]] = one
            versions = {"java": spark.sparkContext._jvm.System.getProperty("java.version")}
        finally:
            spark.stop()
    versions |= {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    return {
        "machine": processor(), "versions": versions, "master": options.master, "rounds": options.rounds, "sizesGb": sizes,
        "sessionS": session_s, "firstQueryS": first_s, "load": os.getloadavg()[0],
        "missing": [row.name for row in ROWS if not row.is_there()],
        "rows": [line_of(row, found[row.name], sizes) for row in rows],
    }  # fmt: skip


def _sizes(text: str) -> list[float]:
    return [float(one) for one in text.split(",")]


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=_sizes, default=[1.0, 2.0, 8.0], help="GB: 1,2,8")
    parser.add_argument("--row", action="append", help="only rows whose name contains this (repeatable)")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--directory", type=Path, help="where the scratch directory is made")
    parser.add_argument("--workers", type=int, default=2, help="processes that make the stores")
    parser.add_argument("--json", type=Path, help="write all figures there, too")
    options = parser.parse_args()
    if options.rounds < 1 or not options.sizes or min(options.sizes) <= 0:
        parser.error("at least one round, and sizes above 0")
    begun = time.monotonic()
    result = bench(options)
    print("\n".join(table(result["rows"], result["sizesGb"])))
    used = ", ".join(f"{name} {text}" for name, text in result["versions"].items())
    print(f"\n{result['machine']}; {used}; {result['master']}, median of {result['rounds']}, 1 KiB bodies, warm page cache")
    print(f"before the first load: session {result['sessionS']:.1f} s, first query {result['firstQueryS']:.1f} s")
    print(f"the run took {time.monotonic() - begun:.0f} s; load of the machine {result['load']:.1f} at the end")
    for name in result["missing"]:
        print(f"not there: {name}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
