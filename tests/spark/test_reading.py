"""`rmq_spark.read` and `rmq_spark.count`: the rows that Spark itself would choose, with less of the store decoded and sent."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rmq_spark
from rmq_columns import BadOption
from rmq_spark import reasons
from rmq_spark.reading import chosen_by
from tests.support.stores import golden_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_of("mix", tmp_path_factory.mktemp("reading") / "broker-a")


@pytest.mark.parametrize(
    ("where", "options", "left"),
    [
        ("topic = 'a'", {"topics": ["a"]}, ""),
        ("Topic in ('a', 'b and c') AND queueId = 3", {"topics": ["a", "b and c"], "queueIds": ["3"]}, ""),
        ("queueId IN (1,2) and tags = 'x'", {"queueIds": ["1", "2"]}, "tags = 'x'"),
        ("physicalOffset >= 5 and physicalOffset < 9 and physicalOffset < 8", None, "physicalOffset < 8"),
        ("topic = 'a' or queueId = 1", {}, "topic = 'a' or queueId = 1"),
        ("not topic = 'a'", {}, "not topic = 'a'"),
        ("queueId between 1 and 2", {}, "queueId between 1 and 2"),
        ("topic = 3", {}, "topic = 3"),
        ("queueId = '3'", {}, "queueId = '3'"),
        ("topic > 'a'", {}, "topic > 'a'"),
        ('topic = "a"', {}, 'topic = "a"'),
        ("(tags = 'x' and topic = 'a' and keys = 'y')", {}, "(tags = 'x' AND topic = 'a' AND keys = 'y')"),
        ("any(tags = 'x' and topic = 'a' and keys = 'y')", {}, "any(tags = 'x' AND topic = 'a' AND keys = 'y')"),
        ("tags = 'a or b' and topic = 'it''s'", {"topics": ["it's"]}, "tags = 'a or b'"),
        ("storeTimestamp >= 'then'", {}, "storeTimestamp >= 'then'"),
        ("storeTimestamp < '2026-01-31 12:00:00.000001'", {}, "storeTimestamp < '2026-01-31 12:00:00.000001'"),
    ],
)
def test_what_becomes_options(where: str, options: dict[str, Any] | None, left: str) -> None:
    wanted = {"startingPhysicalOffset": "5", "endingPhysicalOffset": "9"} if options is None else options
    assert chosen_by(where, {}) == (wanted, left)
    assert chosen_by(where, dict.fromkeys(wanted, "x"))[0] == {}, "what was said as an option stays"


def test_the_rows_that_spark_would_choose(spark: Any, store: Path) -> None:
    every = rmq_spark.read(spark, store)
    topic = every.groupBy("topic").count().orderBy("count", ascending=False).first().topic
    middle = (
        every.where(f"topic = '{topic}'").selectExpr("cast(percentile(unix_millis(storeTimestamp), 0.5) as bigint) at").first().at
    )
    at = spark.sql(f"select date_format(timestamp_millis({middle}), 'yyyy-MM-dd HH:mm:ss.SSS') t").first().t
    for where in (
        f"topic = '{topic}'",
        f"topic in ('{topic}', 'nobody') and queueId = 0 and bodySize > 5",
        f"storeTimestamp >= '{at}' and topic = '{topic}'",
        f"storeTimestamp < '{at}'",
        "queueId in (0, 1) and tags is not null",
        "queueId = 0 or tags = 'a'",
    ):
        wanted = sorted(map(tuple, every.where(where).select("topic", "physicalOffset").collect()))
        found = rmq_spark.read(spark, store, ["topic", "physicalOffset"], where)
        assert found.columns == ["topic", "physicalOffset"]
        assert sorted(map(tuple, found.collect())) == wanted, where
        assert rmq_spark.count(spark, store, where) == len(wanted)
        assert [row.topic for row in rmq_spark.read(spark, store, "topic", where).collect()].count(topic) == len(
            [one for one in wanted if one[0] == topic]
        )


def test_ranges_of_offsets(spark: Any, store: Path) -> None:
    """As JSON, by queue, as Spark's Kafka source takes them: of the format, and of `rmq_spark.read`."""
    columns = ["topic", "queueId", "queueOffset"]
    every = sorted(map(tuple, rmq_spark.read(spark, store, columns).collect()))
    topic = Counter(one[0] for one in every).most_common(1)[0][0]
    offsets: dict[int, list[int]] = {}
    for _, queue, offset in (one for one in every if one[0] == topic):
        offsets.setdefault(queue, []).append(offset)
    ends = {queue: max(own) + 1 for queue, own in offsets.items()}
    first, *others = sorted(ends, key=lambda queue: -ends[queue])
    assert others
    assert ends[first] > 3
    starting = {topic: {str(first): 1, **{str(queue): -2 for queue in others}}}
    ending = {topic: {str(first): ends[first] - 1, **{str(queue): -1 for queue in others}}}
    wanted = [one for one in every if one[0] == topic and (one[1] != first or 1 <= one[2] < ends[first] - 1)]
    assert len(wanted) == sum(map(len, offsets.values())) - 2
    given = {"startingOffsets": json.dumps(starting), "endingOffsets": json.dumps(ending)}
    for pruning in ("auto", "off"):
        frame = spark.read.format("rocketmq_store").options(**given, pruning=pruning, columns=",".join(columns)).load(str(store))
        assert sorted(map(tuple, frame.collect())) == wanted
    read = rmq_spark.read(spark, store, columns, f"queueId = {first}", startingOffsets=starting, endingOffsets=ending)
    assert sorted(map(tuple, read.collect())) == [one for one in wanted if one[1] == first]
    for wrong, said in (
        ({"startingOffsets": "{"}, "startingOffsets: '{'"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets: "),
        ({"endingOffsets": '{"a": {"0": 1}}', "topics": "b"}, "endingOffsets: a, which topics leaves out"),
    ):
        with pytest.raises(Exception) as raised:
            spark.read.format("rocketmq_store").options(**wrong).load(str(store)).count()
        line = reasons.reason_of(raised.value)
        assert line.startswith(said), line
        assert "\n" not in line


def test_counting_and_one_column_ship_no_bodies(spark: Any, store: Path) -> None:
    for frame in (rmq_spark.read(spark, store, "topic"), rmq_spark.read(spark, store, "queueId", "topic = 'a' and bodySize > 0")):
        plan = frame._jdf.queryExecution().optimizedPlan().toString()
        assert "body#" not in plan
        assert "properties" not in plan
    assert rmq_spark.count(spark, store) == rmq_spark.read(spark, store).count() > 0
    assert rmq_spark.count(spark, store, table="consumequeue") > 0


def test_each_reading_is_planned_anew(spark: Any, tmp_path: Path) -> None:
    """A condition of one reading is none of the next, nor of the frame that it was made of."""
    store = golden_of("mix", tmp_path / "broker-a")
    whole = rmq_spark.count(spark, store)
    assert rmq_spark.count(spark, store, "queueId = 0") < whole
    assert rmq_spark.count(spark, store) == whole


def test_what_is_wrong_is_one_line(spark: Any, store: Path) -> None:
    with pytest.raises(BadOption, match="no option topc; did you mean topics"):
        rmq_spark.read(spark, store, topc="a")
    with pytest.raises(Exception, match="columns: no bdy"):
        rmq_spark.read(spark, store, "bdy")


def test_what_a_store_is_not(spark: Any, store: Path, tmp_path: Path) -> None:
    """Spark says it in many lines, with Python's traceback; `reason_of` in one."""
    rmq_spark.register(spark)
    frame = rmq_spark.read(spark, store, "topic")

    def stream() -> None:
        spark.readStream.format("rocketmq_store").load(str(store)).writeStream.format("noop").start().processAllAvailable()

    def write() -> None:
        frame.write.format("rocketmq_store").mode("append").save(str(tmp_path / "x"))

    for attempt, said in (
        (stream, "rocketmq_store: readStream: a store is read as it stands, by spark.read; load it anew for what came since"),
        (write, "rocketmq_store: write: nothing is written into a store"),
        (lambda: rmq_spark.read(spark, tmp_path / "nothing").count(), f"{tmp_path}/nothing: no such file or directory"),
    ):
        with pytest.raises(Exception) as raised:
            attempt()
        assert reasons.reason_of(raised.value) == said
