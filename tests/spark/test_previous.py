"""The row before each row, also where half of all rows have one key: as by a plain window, and no task has most of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rmq_wire.message import pack_blank, pack_unit
from tests.spark import traffic
from tests.spark.cluster import needs_spark
from tests.support.logs import BLANK_BYTES, HOST

MESSAGES = 30_000
FILE_BYTES = 2 << 20
EVEN = {"spark.sql.shuffle.partitions": "8", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
"""Spark would give so few rows to one task."""
RECORDS_MIN = 5000
"""Of a stage that says something."""
BUSY_MIN = 100
TIMES_MAX = 3


def test_as_a_plain_window(spark: Any) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    from rmq_spark.previous import hot_buckets, with_previous

    chance = random.Random(1)
    keys = ["hot" if chance.random() < 0.5 else f"k{chance.randrange(3000)}" for _ in range(6000)]
    rows = spark.createDataFrame([(key, at * 7, f"v{at}") for at, key in enumerate(keys)], "key string, at long, what string")
    hot = hot_buckets(rows, ("key",))
    assert 0 < len(hot) < 100
    for buckets in (hot, []):
        made = with_previous(rows, ("key",), ("at",), F.struct("at", "what"), buckets, F.expr("at div 500"))
        plain = rows.withColumn("previous", F.lag(F.struct("at", "what")).over(Window.partitionBy("key").orderBy("at")))
        assert made.columns == plain.columns
        assert sorted(made.collect(), key=lambda row: row["at"]) == sorted(plain.collect(), key=lambda row: row["at"])


def test_a_hot_key_is_no_task_of_its_own(spark: Any) -> None:
    """And by a plain window it is, so this test can fail.  Spark leaves out a window whose column nobody uses."""
    from pyspark.sql import functions as F

    from rmq_spark.previous import hot_buckets, with_previous

    rows = spark.range(20_000).selectExpr("if(id % 2 = 0, 'hot', string(id % 3001)) as key", "id as at")
    before = {name: spark.conf.get(name) for name in EVEN}
    try:
        for name, value in EVEN.items():
            spark.conf.set(name, value)
        most = {}
        for buckets in (hot_buckets(rows, ("key",)), []):
            made = with_previous(rows, ("key",), ("at",), F.col("at"), buckets, F.expr("at div 100"))
            used = (F.count("*").alias("count"), F.max("previous"))
            counts = [row["count"] for row in made.groupBy(F.spark_partition_id()).agg(*used).collect()]
            most[bool(buckets)] = max(counts) / median(counts)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert most[True] <= TIMES_MAX < most[False]


def write_uneven(root: Path) -> None:
    """A log in which every second message has the same sharding key; each key is in its queue, and its sequence goes up."""
    log = bytearray()
    offsets = dict.fromkeys(range(8), 0)
    for number in range(MESSAGES):
        key = "hot" if number % 2 else f"key-{number // 2 % 5000}"
        queue = sum(key.encode()) % 8
        pairs = f"__SHARDINGKEY\x01{key}\x02n\x01{number}\x02UNIQ_KEY\x01{number:032X}\x02".encode()

        def made(at: int, number: int = number, queue: int = queue, pairs: bytes = pairs) -> bytes:
            ms = 1_700_000_000_000 + number
            return pack_unit(queue, 0, offsets[queue], at, 0, ms, HOST, ms, HOST, 0, 0, b"body", b"orders", pairs)

        one = made(len(log))
        left = FILE_BYTES - len(log) % FILE_BYTES
        if len(one) + BLANK_BYTES > left:
            log += pack_blank(left).ljust(left, b"\0")
            one = made(len(log))
        offsets[queue] += 1
        log += one
    (root / "commitlog").mkdir(parents=True)
    for at in range(0, len(log), FILE_BYTES):
        (root / "commitlog" / f"{at:020}").write_bytes(bytes(log[at : at + FILE_BYTES]).ljust(FILE_BYTES, b"\0"))


def test_no_task_has_three_times_as_many_records_as_the_median(tmp_path: Path) -> None:
    needs_spark()
    write_uneven(tmp_path / "store")
    given = {"sequence": "property:n", "splitBytes": "512k"}
    [took] = traffic.run(tmp_path / "run", [("order", [str(tmp_path / "store")], given)], EVEN)
    judged = [counts for counts in map(busy, took.task_records) if sum(counts) > RECORDS_MIN]
    assert judged
    for counts in judged:
        assert max(counts) <= TIMES_MAX * median(counts), counts


def busy(counts: Sequence[int]) -> list[int]:
    """Of a stage's tasks those that have a part of the messages: others only hand on what was found, or what is cached."""
    return [count for count in counts if count >= BUSY_MIN]
