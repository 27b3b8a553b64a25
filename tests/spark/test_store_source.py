"""Stores that the real broker wrote, read by Spark: the rows, splits and errors are those of `rmq_columns`."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import Malformed, parse_options, plan_splits, read_split, read_store
from tests.support.stores import golden_of, golden_store

ROOT = Path(__file__).parents[2]
TABLES = ("messages", "consumequeue", "index", "files", "topics", "consumerOffsets", "gaps")
LOGS = {"light": {"storePathCommitLog": "logs-a:logs-b"}}
"""Where a store keeps its log in directories beside it."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("stores")
    return {"plain": golden_store(root / "plain")} | {kind: golden_of(kind, root / kind) for kind in ("batch", "light", "mix")}


def load(spark: Any, root: Path, **options: str) -> Any:
    return spark.read.format("rocketmq_store").options(**options).load(str(root))


def rows_of(table: Any) -> list[dict[str, Any]]:
    """In an order that does not depend on which task came first; times as numbers, for Spark shows them in its own zone."""
    rows = table.to_pylist()
    return sorted(
        ({name: value.timestamp() if isinstance(value, datetime) else value for name, value in row.items()} for row in rows),
        key=repr,
    )


def assert_same(spark: Any, root: Path, **options: str) -> Any:
    """Spark's rows are those that are read without it, and there are some; gives the DataFrame."""
    frame = load(spark, root, **options)
    found, wanted = frame.toArrow(), read_store(root, **options).read_all()
    assert found.schema.names == wanted.schema.names
    assert rows_of(found) == rows_of(wanted)
    assert wanted.num_rows
    return frame


@pytest.mark.parametrize("kind", ["plain", "batch", "light", "mix"])
def test_messages(spark: Any, stores: dict[str, Path], kind: str) -> None:
    """Found by its name alone: nobody registered it."""
    root = stores[kind]
    logs = {name: ":".join(str(root / one) for one in value.split(":")) for name, value in LOGS.get(kind, {}).items()}
    assert_same(spark, root, includeSystemTopics="true", verifyCrc="true", **logs)


@pytest.mark.parametrize("table", TABLES[1:])
def test_other_tables(spark: Any, stores: dict[str, Path], table: str) -> None:
    assert_same(spark, stores["plain"], table=table, **({"tail": "report"} if table == "gaps" else {}))


def test_schema(spark: Any, stores: dict[str, Path]) -> None:
    types = dict(load(spark, stores["plain"], verifyCrc="true").dtypes)
    assert types["body"] == "binary"
    assert types["properties"] == "map<string,string>"
    assert types["storeTimestamp"] == "timestamp"
    assert (types["queueId"], types["queueOffset"], types["crcOk"]) == ("int", "bigint", "boolean")
    assert dict(load(spark, stores["plain"], includeProperties="raw").dtypes)["properties"] == "binary"
    assert load(spark, stores["plain"], columns="topic,queueId").dtypes == [("topic", "string"), ("queueId", "int")]


def test_what_every_message_has_is_not_null(spark: Any, stores: dict[str, Path]) -> None:
    frame = load(spark, stores["plain"])
    assert [field.name for field in frame.schema if field.nullable] == ["tags", "keys", "uniqKey"]
    assert not frame.schema["properties"].dataType.valueContainsNull
    damaged = load(spark, stores["plain"], mode="PERMISSIVE")
    assert all(field.nullable for field in damaged.schema)
    assert damaged.schema["properties"].dataType.valueContainsNull
    assert all(field.nullable for field in load(spark, stores["plain"], table="index").schema)
    assert rows_of(damaged.drop("_corrupt").toArrow()) == rows_of(frame.toArrow())


def test_a_schema_of_the_user_says_null_or_not(spark: Any, stores: dict[str, Path]) -> None:
    """Both are true of a column that is never null."""
    for text in ("queueId int not null, properties map<string, string>", "queueId int, properties map<string, string> not null"):
        frame = spark.read.format("rocketmq_store").schema(text).load(str(stores["plain"]))
        wanted = read_store(stores["plain"], columns="queueId,properties").read_all()
        assert rows_of(frame.toArrow()) == rows_of(wanted)


def test_no_null_where_none_may_be(stores: dict[str, Path]) -> None:
    """What Spark was given as never null is looked at before Spark gets it: it would read what is not there."""
    pytest.importorskip("pyspark")
    from pyspark.sql.types import StringType, StructField, StructType

    from rmq_spark.types import arrow_schema

    options = parse_options({"path": str(stores["plain"]), "columns": "tags", "includeSystemTopics": "true"})
    [split] = plan_splits(options)
    for nullable in (True, False):
        reported = arrow_schema(StructType([StructField("tags", StringType(), nullable)]), options)
        assert reported.field("tags").nullable is nullable
        if nullable:
            assert any(None in batch["tags"].to_pylist() for batch in read_split(split, schema=reported))
            continue
        with pytest.raises(ValueError, match="without what every message has"):
            list(read_split(split, schema=reported))


def test_splits(spark: Any, stores: dict[str, Path]) -> None:
    given = {"splitBytes": "4k", "includeSystemTopics": "true"}
    planned = plan_splits(parse_options({"path": str(stores["plain"]), **given}))
    assert len(planned) > 3
    assert assert_same(spark, stores["plain"], **given).rdd.getNumPartitions() == len(planned)


def test_options_choose_rows(spark: Any, stores: dict[str, Path]) -> None:
    middle = read_store(stores["plain"]).read_all().column("physicalOffset").to_pylist()[20]
    chosen = {"topics": "kinds-5_5_0", "startingPhysicalOffset": str(middle), "columns": "topic,physicalOffset,offsetMsgId,body"}
    found = assert_same(spark, stores["plain"], **chosen, decompress="true", mode="DROPMALFORMED").collect()
    assert {row.topic for row in found} == {"kinds-5_5_0"}
    assert min(row.physicalOffset for row in found) >= middle


def test_several_stores(spark: Any, stores: dict[str, Path]) -> None:
    roots = [str(stores["plain"]), str(stores["mix"])]
    frame = spark.read.format("rocketmq_store").load(roots)
    assert frame.count() == read_store(roots).read_all().num_rows
    assert {row.brokerName for row in frame.select("brokerName").distinct().collect()} == {"plain", "mix"}


def test_a_schema_of_the_user_chooses_columns(spark: Any, stores: dict[str, Path]) -> None:
    frame = spark.read.format("rocketmq_store").schema("queueOffset bigint, topic string").load(str(stores["plain"]))
    wanted = read_store(stores["plain"], columns="queueOffset,topic").read_all()
    assert rows_of(frame.toArrow()) == rows_of(wanted)


@pytest.mark.parametrize(
    ("schema", "options", "said"),
    [
        ("topic string, nothing int", {}, "no nothing; there are brokerName"),
        ("queueId bigint", {}, "queueId is int, not bigint"),
        ("tags string not null", {}, "tags is string, not string not null"),
        ("queueId int not null", {"mode": "PERMISSIVE"}, "queueId is int, not int not null"),
        ("topic string, queueId int", {"columns": "topic"}, "schema: queueId, which the option columns leaves out"),
    ],
)
def test_a_schema_that_cannot_be(spark: Any, stores: dict[str, Path], schema: str, options: dict[str, str], said: str) -> None:
    frame = spark.read.format("rocketmq_store").schema(schema).options(**options)
    with pytest.raises(Exception, match=re.escape(said)):
        frame.load(str(stores["plain"])).count()


def test_an_option_that_there_is_not(spark: Any, stores: dict[str, Path]) -> None:
    with pytest.raises(Exception, match="BadOption: no option topik"):
        load(spark, stores["plain"], topik="Orders")


def test_nothing_to_read(spark: Any, stores: dict[str, Path], tmp_path: Path) -> None:
    """No split at all."""
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    assert load(spark, tmp_path / "store", pathLayout="store").count() == 0
    assert load(spark, stores["plain"], topics="nobody-sent-here").count() == 0


def test_damage_reaches_the_driver(spark: Any, tmp_path: Path) -> None:
    """With file and byte; and the session goes on."""
    root = golden_store(tmp_path / "broker-a")
    places = read_store(root, columns="physicalOffset,storeSize").read_all().to_pylist()
    at = places[3]["physicalOffset"]
    log = root / "commitlog" / f"{0:020}"
    raw = bytearray(log.read_bytes())
    raw[at + 4] ^= 0xFF
    log.write_bytes(raw)
    with pytest.raises(Malformed) as alone:
        read_store(root).read_all()
    assert str(alone.value).startswith(f"{log}, byte {at}: ")
    with pytest.raises(Exception, match=re.escape(f"Malformed: {alone.value}")):
        load(spark, root).count()
    frame = assert_same(spark, root, mode="PERMISSIVE")
    assert [row._corrupt for row in frame.where("_corrupt is not null").collect()]
    assert_same(spark, root, mode="DROPMALFORMED")


def test_registered_by_hand(spark: Any, stores: dict[str, Path]) -> None:
    from rmq_spark import register

    session = spark.newSession()
    register(session)
    assert load(session, stores["plain"]).count() == read_store(stores["plain"]).read_all().num_rows


def test_sql(spark: Any, stores: dict[str, Path]) -> None:
    spark.sql(f"create temporary view kept using rocketmq_store options (path '{stores['plain']}', table 'topics')")
    wanted = read_store(stores["plain"], table="topics").read_all().num_rows
    assert spark.sql("select count(*) from kept").first()[0] == wanted


def test_no_filter_is_pushed(spark: Any, stores: dict[str, Path]) -> None:
    """A pushed filter would stay on in the next query of the same DataFrame."""
    frame = load(spark, stores["plain"], columns="topic")
    everything = frame.count()
    assert 0 < frame.where("topic = 'kinds-5_5_0'").count() < everything
    assert frame.count() == everything


def test_the_example_of_the_docs(spark: Any, stores: dict[str, Path], capsys: Any) -> None:
    """What is typed into the shell there, typed here; only the store lies elsewhere."""
    typed = re.search(r"<<'PY'\n(.*?)\nPY\n", (ROOT / "docs" / "spark.md").read_text(), re.DOTALL)
    assert typed
    exec(typed[1].replace("build/broker-a", str(stores["mix"])), {"spark": spark})
    shown = capsys.readouterr().out
    assert re.search(r"\|topic +\|count\|", shown)
    assert re.search(r"\|brokerName\|group +\|topic +\|queueId\|", shown)
