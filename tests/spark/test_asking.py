"""What a session's tasks ask for of stores comes to whoever counts, and is printed by every job."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
from pyspark.accumulators import Accumulator

import rmq_spark
from rmq_columns import parse_options
from rmq_columns.files.counted import Asked
from rmq_spark.asking import COUNTER
from rmq_spark.counted_reader import CountedReader, Sum
from rmq_spark.store import StoreDataSource, StoreReader
from rmq_spark.types import spark_schema
from rmq_spark.work import as_text
from tests.spark.kit import made
from tests.spark.traffic import log_bytes
from tests.support.rare_topic import GROUPS, IN_GROUP, SHARE, Stored, gaps_read_through
from tests.support.stores import golden_of

ROWS = GROUPS * IN_GROUP


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    stored = Stored(tmp_path_factory.mktemp("rare") / "broker-a")
    stored.write()
    return stored


def test_a_topic_of_one_percent(spark: Any, rare: Stored) -> None:
    """Queues and configuration, which are read where it is planned, are in it."""
    with rmq_spark.asked(spark) as asked:
        read = rmq_spark.read(spark, rare.root, where="topic = 'Rare'", splitBytes="16m")
        assert len(read.select("body").collect()) == ROWS
    size = rare.units["Rare", 0][0][1]
    assert asked.bytes["commitlog"] >= ROWS * size
    assert asked.bytes["consumequeue"] >= ROWS * 20
    assert sum(asked.bytes.values()) - gaps_read_through(rare.places, size) <= SHARE * len(rare.log)
    assert GROUPS <= sum(asked.requests.values()) < 6 * GROUPS


def test_each_reading_counts(spark: Any, rare: Stored) -> None:
    """A scan, twice; what is made outside of the block does not count, nor does it in another block."""
    with rmq_spark.asked(spark) as asked:
        read = rmq_spark.read(spark, rare.root, ["queueId"], "bodySize = 1024")
        assert read.count() == ROWS
    once = asked.bytes["commitlog"]
    assert log_bytes(str(rare.root)) <= once <= 1.1 * log_bytes(str(rare.root))
    with rmq_spark.asked(spark) as other:
        assert read.count() == ROWS
    assert asked.bytes["commitlog"] == 2 * once
    assert not other.bytes
    rmq_spark.read(spark, rare.root, ["queueId"]).count()
    assert asked.bytes["commitlog"] == 2 * once


def test_a_store_without_rows(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "broker-a" / "commitlog").mkdir(parents=True)
    with rmq_spark.asked(spark) as asked:
        assert rmq_spark.count(spark, tmp_path / "broker-a") == 0
    assert not asked.bytes


def test_every_job_says_it(spark: Any, tmp_path: Path) -> None:
    """Of an audit: each byte of the log once, and the queues."""
    from rmq_cli.spark import command

    store = made(tmp_path / "made", 5 << 20) / "store"
    done = CliRunner().invoke(command, ["audit", str(store), "--json", "--option", "splitBytes=1m"])
    assert done.exit_code == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    log = log_bytes(str(store))
    assert log <= figures["logBytesAsked"] <= 1.2 * log
    queues = sum(file.stat().st_size for file in (store / "consumequeue").rglob("0*"))
    assert queues <= figures["bytesAsked"] - figures["logBytesAsked"] <= 3 * queues
    assert 0 < figures["requests"] < 10_000
    done = CliRunner().invoke(command, ["lag", str(store)])
    assert "bytes asked for, of the log" in done.stdout


def test_what_is_counted_can_be_added() -> None:
    one, other = Asked(), Asked()
    one.came("commitlog", 5)
    for count in (7, 9):
        other.came("commitlog", count)
    other.listed = 3
    one.add(pickle.loads(pickle.dumps(other)))
    assert (one.bytes, one.requests, one.listed) == ({"commitlog": 21}, {"commitlog": 3}, 3)


def test_a_split_is_sent_packed(tmp_path: Path) -> None:
    store = golden_of("mix", tmp_path / "broker-a")
    options = {"path": str(store), "splitBytes": "1k"}
    reader = StoreReader(options, spark_schema(parse_options(options)))
    parts = reader.partitions()
    assert len(parts) > 3
    assert max(len(pickle.dumps(one)) for one in parts) < 1000
    rows = sum(len(batch) for one in parts for batch in reader.read(one))
    [whole] = StoreReader({"path": str(store)}, reader.schema).partitions()
    assert rows == sum(len(batch) for batch in reader.read(whole)) > 0


def test_a_reader_adds_what_it_asks_for(tmp_path: Path) -> None:
    """Without Spark: what planning asked for goes with the first split alone, and a reader that nobody counts adds nothing."""
    store = golden_of("mix", tmp_path / "broker-a")
    total = Accumulator(1 << 40, Asked(), Sum())
    options = {"path": str(store), "splitBytes": "1k", "topics": "mix", COUNTER: as_text(total)}
    source = StoreDataSource(options)
    reader = pickle.loads(pickle.dumps(source.reader(source.schema())))
    assert isinstance(reader, CountedReader)
    first, *others = reader.partitions()
    assert others
    assert first.value[1].bytes["consumequeue"] > 0
    assert all(one.value[1] == Asked() for one in others)
    rows = sum(len(batch) for one in (first, *others) for batch in reader.read(one))
    assert rows > 0
    assert total.value.bytes["consumequeue"] >= first.value[1].bytes["consumequeue"] > 0
    assert total.value.bytes["commitlog"] > 0
    before = pickle.loads(pickle.dumps(total.value))
    plain = StoreDataSource({name: value for name, value in options.items() if name != COUNTER})
    own = plain.reader(plain.schema())
    assert sum(len(batch) for one in own.partitions() for batch in own.read(one)) == rows
    assert total.value == before
