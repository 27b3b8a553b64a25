"""`read_store` on the stores of the real broker: every table, row by row equal to the declarations' own reading."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rmq_columns import BadOption, CannotRead, Malformed, parse_options, plan_splits, read_split, read_store, schema_of
from rmq_columns.read.arrow import host_text
from rmq_inspect.decode import files as inspecting
from rmq_inspect.decode.directory import list_store
from rmq_wire import properties, sys_flag
from rmq_wire.layout import message
from rmq_wire.layout.message import MAGIC_BLANK
from tests.support.stores import golden_of, golden_store

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KINDS = ("plain", "batch", "light", "mix")
EVERY: dict[str, Any] = {"includeSystemTopics": True}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    above = tmp_path_factory.mktemp("stores")
    made = {kind: golden_of(kind, above / kind) for kind in KINDS[1:]}
    return {"plain": golden_store(above / "plain"), **made}


def logs_of(root: Path) -> dict[str, Any]:
    return {"storePathCommitLog": [str(root / "logs-a"), str(root / "logs-b")]} if (root / "logs-a").exists() else {}


def construct_rows(root: Path) -> list[dict[str, Any]]:
    """Every unit of the log, parsed by the declaration itself, as a row."""
    found = []
    for path in sorted([*root.glob("commitlog/*"), *root.glob("logs-*/*")], key=lambda path: path.name):
        raw, at = path.read_bytes(), 0
        while at + 8 <= len(raw):
            size = int.from_bytes(raw[at : at + 4], "big")
            if not size or int.from_bytes(raw[at + 4 : at + 8], "big", signed=True) == MAGIC_BLANK:
                break
            found.append(row_of(message.UNIT.parse(raw[at : at + size]), root.name, bool(size)))
            at += size
    return found


def row_of(unit: Any, broker: str, crc_ok: bool) -> dict[str, Any]:
    pairs = properties.decode(unit.properties.decode())
    return {
        "brokerName": broker,
        "topic": unit.topic.decode(),
        "queueId": unit.queue_id,
        "queueOffset": unit.queue_offset,
        "body": unit.body,
        "bodySize": len(unit.body),
        "tags": pairs.get("TAGS"),
        "keys": pairs.get("KEYS"),
        "uniqKey": pairs.get("UNIQ_KEY"),
        "properties": list(pairs.items()),
        "bornTimestamp": EPOCH + timedelta(milliseconds=unit.born_timestamp),
        "storeTimestamp": EPOCH + timedelta(milliseconds=unit.store_timestamp),
        "bornHost": host_text(unit.born_host),
        "storeHost": host_text(unit.store_host),
        "reconsumeTimes": unit.reconsume_times,
        "flag": unit.flag,
        "sysFlag": unit.sys_flag,
        "bodyCrc": unit.body_crc,
        "preparedTransactionOffset": unit.prepared_transaction_offset,
        "physicalOffset": unit.physical_offset,
        "storeSize": unit.total_size,
        "crcOk": crc_ok,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_messages_are_what_construct_reads(stores: dict[str, Path], kind: str) -> None:
    root = stores[kind]
    wanted = construct_rows(root)
    assert len(wanted) > 30
    read = read_store(root, verifyCrc=True, **EVERY, **logs_of(root)).read_all()
    read.validate(full=True)
    assert read.to_pylist() == wanted
    assert read_store(root, table="gaps", **logs_of(root)).read_all().num_rows == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["magic", "auto", "file"])
def test_splits_tile_the_table(stores: dict[str, Path], kind: str, strategy: str) -> None:
    root = stores[kind]
    options = parse_options(
        {"path": str(root), "splitBytes": 900, "batchRows": 7, "blockBytes": 2048, "splitStrategy": strategy, **EVERY}
        | logs_of(root)
    )
    splits = plan_splits(options)
    batches = [batch for split in splits for batch in read_split(split)]
    assert all(batch.schema == schema_of(options) and batch.num_rows <= 7 for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["physicalOffset"] for row in rows] == [row["physicalOffset"] for row in construct_rows(root)]
    files = {part.path for split in splits for part in split.parts}
    assert len(splits) == len(files) if strategy == "file" else len(splits) > 4 * len(files)


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"decompress": True},
        {"columns": "body"},
        {"columns": "bodySize,body,tags"},
        {"kafkaCompatible": True},
        {"kafkaCompatible": True, "columns": "value,offset,body"},
        {"includeBody": False},
        {"topics": "clicks"},
        {"mode": "PERMISSIVE"},
        {"batchRows": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [1, 700, 5000, 1 << 20])
def test_batches_of_few_bytes(stores: dict[str, Path], chosen: dict[str, Any], size: int) -> None:
    for kind in KINDS:
        options = parse_options({"path": str(stores[kind]), **EVERY, **chosen} | logs_of(stores[kind]))
        for split in plan_splits(options):
            whole, pieces = list(read_split(split)), list(read_split(split, batch_bytes=size))
            schema = schema_of(options)
            assert all(piece.schema == schema and 0 < piece.num_rows <= options.batch_rows for piece in pieces)
            assert pa.Table.from_batches(pieces, schema).to_pylist() == pa.Table.from_batches(whole, schema).to_pylist()
            if size == 1 and {"body", "value"} & set(schema.names):
                assert {piece.num_rows for piece in pieces} <= {1}


@pytest.mark.parametrize("kind", KINDS)
def test_queue_units_are_what_inspect_reads(stores: dict[str, Path], kind: str) -> None:
    read = read_store(stores[kind], table="consumequeue", **EVERY).read_all().to_pylist()
    found = Counter((row["topic"], row["queueId"], row["queueOffset"], row["physicalOffset"], row["tagsCode"]) for row in read)
    wanted: Counter[tuple[Any, ...]] = Counter()
    store = list_store(stores[kind])
    for (topic, queue_id), files in [*store.queues.items(), *store.batch_queues.items()]:
        for file in files:
            for row in inspecting.rows(file):
                if row.get("means") != "filler":
                    offset = row["queue_offset"] if "queue_offset" in row else row["base_offset"]
                    wanted[topic, queue_id, offset, row["physical_offset"], row["tags_code"]] += 1
    assert found == wanted
    assert found


@pytest.mark.parametrize("kind", KINDS)
def test_index_entries_are_what_inspect_reads(stores: dict[str, Path], kind: str) -> None:
    read = read_store(stores[kind], table="index").read_all().to_pylist()
    wanted = [row for file in list_store(stores[kind]).index for row in inspecting.rows(file)]
    assert [(row["number"], row["keyHash"], row["phyOffset"], row["slot"], row["previous"]) for row in read] == [
        (row["number"], row["key_hash"], row["physical_offset"], row["slot"], row["previous"]) for row in wanted
    ]
    assert wanted
    assert all(row["storeTime"].year == 2026 for row in read)


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_all_files(stores: dict[str, Path], kind: str) -> None:
    root = stores[kind]
    read = read_store(root, table="files", **logs_of(root)).read_all().to_pylist()
    wanted = {str(path): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    assert {row["path"]: row["size"] for row in read} == wanted
    assert all((row["firstStoreTimestamp"] is not None) is (row["kind"] == "commitlog") for row in read)


def test_topics_and_consumer_offsets(stores: dict[str, Path]) -> None:
    topics = {row["topic"]: row for row in read_store(stores["plain"], table="topics", **EVERY).read_all().to_pylist()}
    assert topics["SCHEDULE_TOPIC_XXXX"]["readQueueNums"] == 18
    assert topics["kinds-5_5_0"]["perm"] == 6
    assert "SCHEDULE_TOPIC_XXXX" not in set(read_store(stores["plain"], table="topics").read_all()["topic"].to_pylist())
    offsets = read_store(stores["plain"], table="consumerOffsets", **EVERY).read_all().to_pylist()
    found = {(row["group"], row["topic"], row["queueId"]): (row["offset"], row["pullOffset"]) for row in offsets}
    assert found["GID-4_9_8", "kinds-4_9_8", 1] == (4, 8)
    assert found["group-drain-4", "%DLQ%GID-5_5_0", 0] == (None, 6)
    light = read_store(stores["light"], table="consumerOffsets", **EVERY).read_all()
    kept = json.loads((stores["light"] / "config" / "lmqConsumerOffset.json").read_bytes())
    assert light.num_rows == len(kept.get("lmqOffsetTable", {}))


def test_several_brokers_at_once(stores: dict[str, Path]) -> None:
    paths = [stores["plain"], stores["mix"]]
    read = read_store(paths, columns="brokerName,topic", **EVERY).read_all()
    assert Counter(read["brokerName"].to_pylist()) == {root.name: len(construct_rows(root)) for root in paths}
    named = read_store(paths, brokerName="a,b", columns=["brokerName"], **EVERY).read_all()
    assert set(named["brokerName"].to_pylist()) == {"a", "b"}
    above = read_store(stores["plain"].parent, columns=["brokerName"], table="files").read_all()
    assert set(above["brokerName"].to_pylist()) == set(KINDS)


def test_what_a_path_may_be(stores: dict[str, Path]) -> None:
    log = stores["plain"] / "commitlog"
    rows = construct_rows(stores["plain"])
    assert read_store(log, **EVERY).read_all().num_rows == len(rows)
    one = read_store(sorted(log.iterdir())[1], **EVERY).read_all()
    assert one["physicalOffset"].to_pylist() == [row["physicalOffset"] for row in rows if 16384 <= row["physicalOffset"] < 32768]
    assert set(one["brokerName"].to_pylist()) == {"plain"}
    with pytest.raises(CannotRead):
        read_store(log / "nothing")
    with pytest.raises(CannotRead, match="not a RocketMQ store"):
        read_store(stores["plain"] / "consumequeue")


def test_bodies_are_decompressed(stores: dict[str, Path]) -> None:
    stored = read_store(stores["plain"], **EVERY).read_all().to_pylist()
    plain = read_store(stores["plain"], decompress=True, **EVERY).read_all().to_pylist()
    packed = [row for row in stored if row["sysFlag"] & sys_flag.COMPRESSED]
    assert packed
    for before, after in zip(stored, plain, strict=True):
        is_packed = bool(before["sysFlag"] & sys_flag.COMPRESSED)
        assert (len(after["body"]) > len(before["body"])) is is_packed
        assert {**before, "body": 0} == {**after, "body": 0}


def test_columns_and_properties(stores: dict[str, Path]) -> None:
    root = stores["mix"]
    names = read_store(root).schema.names
    assert not {"offsetMsgId", "crcOk", "_corrupt"} & set(names)
    assert read_store(root, mode="permissive").schema.names == [*names, "_corrupt"]
    assert "properties" not in read_store(root, includeProperties="none").schema.names
    assert "body" not in read_store(root, includeBody="false").schema.names
    raw = read_store(root, includeProperties="raw", columns="properties,offsetMsgId", **EVERY).read_all().to_pylist()
    both = zip(raw, construct_rows(root), strict=True)
    assert all(list(properties.decode(one["properties"].decode()).items()) == row["properties"] for one, row in both)
    assert all(len(one["offsetMsgId"]) in (32, 56) for one in raw)


@pytest.mark.parametrize(
    "options",
    [
        {"nothing": 1},
        {"mode": "x"},
        {"splitBytes": "0"},
        {"columns": "topic,nothing"},
        {"table": "topics", "queueIds": "1"},
        {"table": "consumequeue", "startingTimestamp": 5},
        {"startingTimestamp": "2026-01-01T00:00:00"},
        {"verifyCrc": "perhaps"},
        {"columns": "_corrupt"},
    ],
)
def test_bad_options(stores: dict[str, Path], options: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        read_store(stores["plain"], **options)


def test_a_damaged_configuration_is_said(stores: dict[str, Path], tmp_path: Path) -> None:
    root = golden_store(tmp_path / "broken")
    (root / "config" / "topics.json").write_text("{")
    with pytest.raises(CannotRead, match=r"topics\.json"):
        read_store(root, table="topics").read_all()
    (root / "config" / "topics.json.bak").write_bytes((stores["plain"] / "config" / "topics.json").read_bytes())
    assert read_store(root, table="topics").read_all().num_rows
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T@g":{"0":7,"x":1},"nothing":{}}}')
    with pytest.raises(Malformed):
        read_store(root, table="consumerOffsets").read_all()
    shown = read_store(root, table="consumerOffsets", mode="PERMISSIVE").read_all().to_pylist()
    assert [(row["group"], row["offset"], row["_corrupt"] is None) for row in shown] == [
        ("g", 7, True),
        (None, None, False),
        (None, None, False),
    ]
    numbers = '{"0":9223372036854775808,"1":[],"2":-9223372036854775809,"2147483648":1,"3":9223372036854775807}'
    (root / "config" / "consumerOffset.json").write_text(f'{{"offsetTable":{{"T@g":{numbers}}}}}')
    shown = read_store(root, table="consumerOffsets", mode="PERMISSIVE").read_all().to_pylist()
    assert [row["offset"] for row in shown if row["_corrupt"] is None] == [(1 << 63) - 1]
    assert len(shown) == 5
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"T":{"attributes":["+a"]}}}')
    assert [row["attributes"] for row in read_store(root, table="topics").read_all().to_pylist()] == [[]]
