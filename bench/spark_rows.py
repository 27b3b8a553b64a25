"""The loads of `make bench-spark`: each is one thing that an operator would have done, on a clean store that was made for it.

Each says whether it came out as it must (a clean store is clean, every message is counted): else its figure would be none.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from planted_stores.generate import Wanted, generate
from rmq_spark.jobs import JOBS, Source
from rmq_spark.outcome import Outcome
from rmq_spark.session import silent

BODY_BYTES: Final = 1024
READ_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Made:
    """A store to be read, and where results may go.  log_bytes: up to the last message's end, what GB/s are counted in."""

    root: Path
    scratch: Path
    messages: int
    log_bytes: int

    @property
    def sent(self) -> Path:
        """The ledger."""
        return self.root.parent / "sent"

    def paths(self, *areas: str) -> list[Path]:
        """All files of some directories of the store."""
        return sorted(path for area in areas for path in (self.root / area).rglob("*") if path.is_file())


@dataclass(frozen=True)
class Row:
    """work: does it, and raises unless it came out as it must.  areas: directories of the store that it reads."""

    name: str
    target_gb_s: float | None
    work: Callable[[SparkSession, Made], None]
    job: str | None = None
    areas: tuple[str, ...] = ("commitlog",)
    result: str = ""
    """directory of the scratch directory that it writes"""
    has_many_topics: bool = False
    """whether its store is the one of `bench.spark_topics`"""

    def clear(self, store: Made) -> None:
        """Remove what it wrote, which is no part of its time."""
        if self.result and (store.scratch / self.result).exists():
            shutil.rmtree(store.scratch / self.result)

    def is_there(self) -> bool:
        """Whether its job exists."""
        return self.job is None or importlib.util.find_spec(f"rmq_spark.jobs.{self.job.replace('-', '_')}") is not None


def make_store(directory: Path, size_bytes: int, workers: int) -> Made:
    """A clean store with queues and index, and the ledger of what was sent beside it."""
    made = generate(directory / "made", Wanted(size_bytes, BODY_BYTES, workers=workers))
    scratch = directory / "results"
    scratch.mkdir()
    return Made(made.store, scratch, made.messages, made.log_end)


def read_plainly(paths: list[Path]) -> None:
    """Files from one end to the other into one buffer."""
    buffer = memoryview(bytearray(READ_BYTES))
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _run(spark: SparkSession, store: Made, job: str, *, may_find: bool = False, **given: Any) -> Outcome:
    """A job over every message, its parameters as they are by default but for those that are given.

    may_find: what it looks for is in a clean store, too, as messages that were retried.
    """
    own, options = JOBS[job].arguments({"includeSystemTopics": "true", **given})
    outcome = JOBS[job].run(spark, Source((str(store.root),), options), own, silent)
    outcome.close()
    if not outcome.is_clean and not may_find:
        raise SystemExit(f"{job} of a clean store: {outcome.verdict}")
    return outcome


def full_rows(spark: SparkSession, store: Made) -> None:
    """Every column of every row into a sink that takes all and keeps nothing."""
    rows = Source((str(store.root),), {"includeSystemTopics": "true"}).read(spark)
    rows.write.format("noop").mode("overwrite").save()


def counted(spark: SparkSession, store: Made) -> None:
    """Two narrow columns; what an aggregation gets to see."""
    rows = Source((str(store.root),), {"includeSystemTopics": "true"}).read(spark, columns="queueId,queueOffset")
    if rows.count() != store.messages:
        raise SystemExit("rows are missing")


def audit_log(spark: SparkSession, store: Made) -> None:
    """Chain, check sums, continuity of queue offsets, as the log alone shows them."""
    _run(spark, store, "audit", no_queues=True, no_index=True)


def audit_all(spark: SparkSession, store: Made) -> None:
    """The same with every queue unit and every index entry held against the log."""
    _run(spark, store, "audit")


def export(spark: SparkSession, store: Made) -> None:
    """Parquet, zstd 1, all columns."""
    _run(spark, store, "export", to=str(store.scratch / "export"))


def rebuild_queues(spark: SparkSession, store: Made) -> None:
    """All queues from the log into a directory of their own."""
    _run(spark, store, "rebuild-queues", to=str(store.scratch / "queues"))


def rebuild_by_shuffle(spark: SparkSession, store: Made) -> None:
    """The same, each file put whole."""
    _run(spark, store, "rebuild-queues", to=str(store.scratch / "shuffled"), shuffle=True)


def loss(spark: SparkSession, store: Made) -> None:
    """Every line of the ledger of what was sent, against log, queues and positions."""
    _run(spark, store, "loss", ledger=[str(store.sent)], includeSystemTopics="false")


def duplicates(spark: SparkSession, store: Made) -> None:
    """By unique key."""
    _run(spark, store, "duplicates", includeSystemTopics="false")


def retries(spark: SparkSession, store: Made) -> None:
    """Retried and dead messages to where they came from."""
    _run(spark, store, "retries", may_find=True, includeSystemTopics="false")


def order(spark: SparkSession, store: Made) -> None:
    """Within sharding keys, by a sequence that producers gave, and within queues."""
    _run(spark, store, "order", sequence="property:sequence", includeSystemTopics="false")


def latency(spark: SparkSession, store: Made) -> None:
    """From born to stored, and the windows of it."""
    _run(spark, store, "latency", may_find=True, includeSystemTopics="false")


def audit_queues(spark: SparkSession, store: Made) -> None:
    """With every queue unit."""
    _run(spark, store, "audit", no_index=True)


def skew(spark: SparkSession, store: Made) -> None:
    """Hot queues, keys and producers."""
    _run(spark, store, "skew", may_find=True)


QUEUES_TOO: Final = ("commitlog", "consumequeue", "index")
LEDGER: Final = "../sent"
"""Beside the store."""
ROWS: Final = (
    Row("audit: chain, CRC, queue continuity", 1.5, audit_log, "audit"),
    Row("audit: queue units and index, too", 0.3, audit_all, "audit", QUEUES_TOO),
    Row("full rows, every column", 0.8, full_rows),
    Row("two columns, counted", None, counted),
    Row("export to Parquet, zstd 1", 0.4, export, "export", result="export"),
    Row("consume queues rebuilt", 1.0, rebuild_queues, "rebuild-queues", result="queues"),
    Row("consume queues rebuilt by a shuffle", 1.2, rebuild_by_shuffle, "rebuild-queues", result="shuffled"),
    Row("loss, against the ledger of what was sent", 0.2, loss, "loss", (*QUEUES_TOO[:2], LEDGER)),
    Row("duplicates by unique key", 0.2, duplicates, "duplicates"),
    Row("retries traced back", 0.2, retries, "retries"),
    Row("order, in sharding keys and queues", 0.2, order, "order"),
    Row("latency, born to stored", 0.2, latency, "latency"),
    Row("50,000 topics: audit of log and queues", 0.2, audit_queues, "audit", QUEUES_TOO[:2], has_many_topics=True),
    Row("50,000 topics: duplicates by unique key", 0.2, duplicates, "duplicates", has_many_topics=True),
    Row("50,000 topics: skew", 0.2, skew, "skew", has_many_topics=True),
)
