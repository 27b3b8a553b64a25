"""Our broker and the real Java broker under the same load in the same run: `make bench`.

Both brokers run side by side with the same properties file under a name server of their own; the load (`bench/load.c`) goes to
one of them at a time, and the other one stands still meanwhile (SIGSTOP): a JVM still compiles, flushes and collects for seconds
after its load.  Each row is warmed by its own load on both sides until it gets no quicker, sides take turns, the median of the
rounds counts.  CPU is what the operating system charged the whole broker process while the load was measured.  Writes a table and
the raw figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from bench.machine import processor
from bench.processes import OurBroker, cpu_seconds, drop_cache, listening_seconds, load_generator, rss_anon_mib
from tests.support.java import REFERENCE
from tests.support.reference import JavaBroker, JavaNameServer

DEFAULT_SIZES = {
    "enablePropertyFilter": "true",
    "mappedFileSizeCommitLog": "1073741824",
    "mappedFileSizeConsumeQueue": "6000000",
    "mappedFileSizeTimerLog": "104857600",
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}


class Row(NamedTuple):
    """One load.  `rate_min` and `cpu_max` are ours divided by Java's; None: reported only."""

    name: str
    kind: str
    connections: int
    depth: int
    sync_flush: bool
    rate_min: float | None
    cpu_max: float | None


ROWS = (
    Row("send 1 x 64", "send", 1, 64, False, 1.0, 0.7),
    Row("send 64 x 1", "send", 64, 1, False, 1.0, 0.6),
    Row("send 16 x 16", "send", 16, 16, False, 1.0, 0.6),
    Row("send 1 x 1", "send", 1, 1, False, None, None),
    Row("send 64 x 1, sync flush", "send", 64, 1, True, 1.0, 0.6),
    Row("pull 32, 1 connection", "pull", 1, 32, False, 0.9, None),
    Row("pull 32, 16 connections", "pull", 16, 32, False, 0.9, None),
    Row("pop 32 + batch ack, 1 connection", "pop", 1, 32, False, 1.0, 0.6),
    Row("pop 32 + batch ack, 16 connections", "pop", 16, 32, False, 1.0, 0.6),
    Row("SQL92, one of a hundred, 1 connection", "select_few", 1, 32, False, 1.0, None),
    Row("SQL92, one of a hundred, 16 connections", "select_few", 16, 32, False, 1.0, None),
    Row("SQL92, half, 1 connection", "select_half", 1, 32, False, 1.0, None),
    Row("SQL92, half, 16 connections", "select_half", 16, 32, False, 1.0, None),
    Row("SQL92, one of a hundred, first looks, 8 connections", "first_few", 8, 32, False, 1.0, None),
    Row("SQL92, half, first looks, 8 connections", "first_half", 8, 32, False, 1.0, None),
    Row("transaction (half + commit) 16 x 16", "transact", 16, 16, False, 1.0, 0.7),
)
"""Transactions last: three seconds after the last of them a thread of Java's 5.5.0 (`TransactionalOpBatchService`) begins to turn
round without a pause, and takes a core from whatever is measured then.
"""
GRADED = Row("graded messages", "grade", 1, 64, False, None, None)
"""What a row reads is sent before it, the same for all that read the same topic."""
FILLS = {
    "pull": ("bench_pull", ROWS[0]),
    "pop": ("bench_pull", ROWS[0]),
    "select_few": ("bench_select", GRADED),
    "select_half": ("bench_select", GRADED),
}
FIRST_LOOKS = {"first_few": "select_few", "first_half": "select_half"}
"""Each message is looked at once: every round has a topic of its own, of which each connection reads a queue to its end."""
FIRST_LOOKS_S = 60.0
"""More than any broker needs for that."""


WARM_S = 4.0
WARM_RUNS_MAX = 6
SETTLED = 1.05
"""A side is warm when one more run of so many seconds is not quicker by this factor, or after so many runs."""
BROKER_NAMES = {"ours": "broker-o", "java": "broker-a"}
INVISIBLE_MS = 60_000
"""For how long a pop has its messages."""


class Figure(NamedTuple):
    """What one round measured."""

    rate: float
    cpu_us: float
    p50_us: float
    p99_us: float
    generator_us: float
    refused: int


class Side(NamedTuple):
    """A broker under load.  `namesrv`: where its routes are, for stock clients."""

    name: str
    port: int
    pid: int
    namesrv: str = ""


def drive(side: Side, row: Row, topic: str, seconds: float, warm: float, *more: object) -> Figure:
    """Run the generator against one broker; the broker's CPU is read at the edges of the measured part.

    `more`: what else the generator takes.
    """
    numbers = (row.connections, row.depth, seconds, warm, *more)
    command = [str(load_generator()), row.kind, "127.0.0.1", str(side.port), topic, *map(str, numbers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = cpu_seconds(side.pid)
        last = process.stdout.readline()
        used = cpu_seconds(side.pid) - before
    if not last:
        raise SystemExit(f"the load generator failed against {side.name} ({row.name})")
    done: dict[str, Any] = json.loads(last)
    if done["refused"]:
        print(f"  {side.name}: {done['refused']} refused, first {done['first_refusal']} {done['refusal']}", file=sys.stderr)
    messages = done["messages"] or 1
    return Figure(
        done["rate"], used * 1e6 / messages, done["p50_us"], done["p99_us"], done["generator_cpu_us_per_message"], done["refused"]
    )


@contextlib.contextmanager
def brokers(directory: Path, *, sync_flush: bool, more: Mapping[str, str] | None = None) -> Iterator[tuple[Side, Side]]:
    """Ours and Java's, each under a Java name server, with equal properties: these and `more`."""
    properties = {**DEFAULT_SIZES, "flushDiskType": "SYNC_FLUSH" if sync_flush else "ASYNC_FLUSH", **(more or {})}
    with (
        JavaNameServer(directory / "ns") as names,
        JavaBroker(directory / "java", names.address, properties=properties, jvm=(), heap="768m", patient=False) as java,
        OurBroker(directory / "ours", names.address, name=BROKER_NAMES["ours"], properties=properties) as ours,
    ):
        yield Side("ours", ours.port, ours.pid, names.address), Side("java", java.port, java.pid, names.address)


def in_turn(sides: Sequence[Side]) -> Iterator[Side]:
    """One after the other; meanwhile the others stand still."""
    for side in sides:
        others = [other.pid for other in sides if other.pid != side.pid]
        try:
            for pid in others:
                os.kill(pid, signal.SIGSTOP)
            yield side
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)


def median(figures: list[Figure]) -> Figure:
    """Field by field."""
    return Figure(*(statistics.median(column) for column in zip(*figures, strict=True)))


def more(side: Side, row: Row) -> tuple[object, ...]:
    """What the generator must know besides: of a pop for how long, and the name that acknowledgements say."""
    return (INVISIBLE_MS, BROKER_NAMES[side.name]) if row.kind == "pop" else ()


def measure(row: Row, sides: tuple[Side, Side], rounds: int, seconds: float) -> dict[str, Any]:
    """All rounds of one row on both sides, taking turns."""
    if row.kind in FIRST_LOOKS:
        return summary(row, sides, [first_looks(row, sides, turn) for turn in range(rounds + 1)][1:])
    topic, fill = FILLS.get(row.kind, (f"bench_{row.kind}_{row.connections}_{row.depth}", None))
    for side in in_turn(sides):
        if fill is not None:
            drive(side, fill, topic, 6.0, 0.5)
        warm(side, row, topic)
    found: list[dict[str, Figure]] = [{} for _ in range(rounds)]
    for turn, figures in enumerate(found):
        for side in in_turn(sides if turn % 2 == 0 else sides[::-1]):
            figures[side.name] = drive(side, row, topic, seconds, 1.0, *more(side, row))
    return summary(row, sides, found)


def warm(side: Side, row: Row, topic: str) -> None:
    """The row's own load until it gets no quicker."""
    quickest = 0.0
    for _ in range(WARM_RUNS_MAX):
        rate = drive(side, row, topic, WARM_S, 0.1, *more(side, row)).rate
        if rate < quickest * SETTLED:
            return
        quickest = max(quickest, rate)


def first_looks(row: Row, sides: tuple[Side, Side], turn: int) -> dict[str, Figure]:
    """One round of a row of `FIRST_LOOKS`, by side."""
    topic, figures = f"bench_{row.kind}_{turn}", {}
    reading = row._replace(kind=FIRST_LOOKS[row.kind])
    for side in in_turn(sides if turn % 2 == 0 else sides[::-1]):
        drive(side, GRADED, topic, 6.0, 0.5)
        figures[side.name] = drive(side, reading, topic, FIRST_LOOKS_S, 0.0, 0, "once")
    return figures


def summary(row: Row, sides: tuple[Side, Side], rounds: list[dict[str, Figure]]) -> dict[str, Any]:
    """Medians of a row, and what they are of."""
    rounds_of = {side.name: [figures[side.name] for figures in rounds] for side in sides}
    result: dict[str, Any] = {name: median(figures)._asdict() for name, figures in rounds_of.items()}
    result["rounds"] = {name: [f._asdict() for f in figures] for name, figures in rounds_of.items()}
    return {"row": row._asdict(), "rss_anon_mib": {s.name: rss_anon_mib(s.pid) for s in sides}, **result}


def cold_read(sides: tuple[Side, Side], stores: dict[str, Path], seconds: float) -> dict[str, float]:
    """p99 of sends (16 x 1) while one consumer reads data that is not in the page cache; microseconds per side."""
    row = Row("send 16 x 1 beside a cold read", "send", 16, 1, False, None, None)
    found = {}
    for side in in_turn(sides):
        drop_cache(stores[side.name])
        command = [str(load_generator()), "pull", "127.0.0.1", str(side.port), "bench_pull", "1", "32", str(seconds + 3), "0.1"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as reader:
            found[side.name] = drive(side, row, "bench_beside", seconds, 0.5).p99_us
            reader.wait()
    return found


def verdict(ratio: float, bound: float | None, *, at_least: bool) -> str:
    """The ratio, and whether it reaches its bound."""
    if bound is None:
        return f"{ratio:.2f}"
    reached = ratio >= bound if at_least else ratio <= bound
    return f"{ratio:.2f} ({'reached' if reached else 'NOT reached'}: {'≥' if at_least else '≤'} {bound})"


def table(results: list[dict[str, Any]]) -> str:
    """Markdown, as it stands in the README."""
    lines = [
        "| load | ours msg/s | Java msg/s | ours ÷ Java | ours CPU µs | Java CPU µs | CPU ÷ Java | ours p99 ms | Java p99 ms |",
        "|---|---:|---:|---|---:|---:|---|---:|---:|",
    ]
    for result in results:
        ours, java, row = result["ours"], result["java"], result["row"]
        rate = verdict(ours["rate"] / java["rate"], row["rate_min"], at_least=True)
        cpu = verdict(ours["cpu_us"] / java["cpu_us"], row["cpu_max"], at_least=False)
        lines.append(
            f"| {row['name']} | {ours['rate']:,.0f} | {java['rate']:,.0f} | {rate} "
            f"| {ours['cpu_us']:.1f} | {java['cpu_us']:.1f} | {cpu} | {ours['p99_us'] / 1000:.2f} | {java['p99_us'] / 1000:.2f} |"
        )
    return "\n".join(lines)


def machine() -> str:
    """What these figures were measured on."""
    versions = f"Python {platform.python_version()}, RocketMQ {REFERENCE} on JDK 17"
    return f"{processor()}, {versions}"


def main() -> None:
    """Measure, print, keep the raw figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="measured part of a round")
    parser.add_argument("--row", action="append", help="only rows whose name contains this (repeatable)")
    parser.add_argument("--raw", type=Path, help="where the raw figures go (JSON)")
    options = parser.parse_args()
    wanted = [row for row in ROWS if not options.row or any(part in row.name for part in options.row)]
    results: list[dict[str, Any]] = []
    extra: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="rmq-bench-") as scratch:
        for sync_flush in (False, True):
            rows = [row for row in wanted if row.sync_flush == sync_flush]
            if not rows:
                continue
            directory = Path(scratch) / ("sync" if sync_flush else "async")
            with brokers(directory, sync_flush=sync_flush) as sides:
                for row in rows:
                    results.append(measure(row, sides, options.rounds, options.seconds))
                    print(table(results[-1:]).splitlines()[-1], flush=True)
                if not options.row and not sync_flush:
                    stores = {side.name: directory / side.name / "store" for side in sides}
                    extra["p99_us_of_sends_beside_a_cold_read"] = cold_read(sides, stores, options.seconds)
                extra.setdefault("rss_anon_mib_after_load", {side.name: rss_anon_mib(side.pid) for side in sides})
        if not options.row:
            extra["seconds_until_listening_on_an_empty_store"] = listening_seconds(Path(scratch) / "start", options.rounds)
    print(f"\n{machine()}, {date.today()}\n\n{table(results)}\n")
    for name, value in extra.items():
        print(f"{name.replace('_', ' ')}: {value}")
    if options.raw:
        options.raw.write_text(json.dumps({"machine": machine(), "when": time.time(), "rows": results, **extra}, indent=1))


if __name__ == "__main__":
    main()
