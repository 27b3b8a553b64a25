"""kafkaCompatible: the columns of Spark's Kafka source, made of the same messages."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from rmq_columns import BadOption, parse_options, read_store, schema_of
from rmq_columns.decode import units
from rmq_columns.read import arrow
from rmq_columns.read.schema import KAFKA
from rmq_wire import properties
from rmq_wire.message import pack_unit
from tests.support.given import PROPERTIES
from tests.support.given import units as unit_fields
from tests.support.stores import golden_of, golden_store, plain_store

SPARKS_OWN = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def expected(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": None if row["keys"] is None else row["keys"].encode(),
        "value": row["body"],
        "topic": row["topic"],
        "partition": row["queueId"],
        "offset": row["queueOffset"],
        "timestamp": row["storeTimestamp"],
        "timestampType": 1,
        "headers": [{"key": name, "value": value.encode()} for name, value in row["properties"]],
    }


@pytest.mark.parametrize("kind", ["plain", "mix", "batch"])
def test_the_same_messages(tmp_path: Path, kind: str) -> None:
    root = golden_store(tmp_path / "a") if kind == "plain" else golden_of(kind, tmp_path / "a")
    found = read_store(root, kafkaCompatible=True).read_all()
    assert found.schema == KAFKA
    assert found.schema.names == SPARKS_OWN
    rows = found.to_pylist()
    assert rows == [expected(row) for row in read_store(root, decompress=True).read_all().to_pylist()]
    assert any(row["key"] for row in rows)


def test_values_are_those_that_were_sent(tmp_path: Path) -> None:
    """Unpacked, as a consumer gets them, unless that is declined."""
    root = plain_store(tmp_path / "a")
    sent = read_store(root, kafkaCompatible=True, columns="value").read_all().column("value").to_pylist()
    stored = read_store(root, kafkaCompatible=True, columns="value", decompress="false").read_all().column("value").to_pylist()
    assert b"5: unpacked" in sent
    assert b"5: unpacked" not in stored
    assert zlib.compress(b"5: unpacked") in stored


@given(unit_fields(), PROPERTIES)
def test_any_properties(fields: dict[str, Any], held: bytes) -> None:
    """Values are the bytes that are stored, also those that are no text; of two values of a name the last."""
    given_fields = {name: value for name, value in fields.items() if name not in ("magic", "body_crc")}
    raw = np.frombuffer(pack_unit(**{**given_fields, "properties": held, "store_timestamp": 1}), np.uint8)
    read = units.read(raw, np.array([0], np.int64), len(raw))
    made = arrow.record_batch(raw, read, pa.schema([KAFKA.field("headers"), KAFKA.field("key")]))
    made.validate(full=True)
    [row] = made.to_pylist()
    pairs = properties.decode(held.decode("latin-1"))
    assert row["headers"] == [{"key": name, "value": value.encode("latin-1")} for name, value in pairs.items()]
    assert row["key"] == (pairs["KEYS"].encode() if "KEYS" in pairs else None)


def test_columns(tmp_path: Path) -> None:
    def names(**options: Any) -> list[str]:
        return list(schema_of(parse_options({"path": "x", "kafkaCompatible": "true", **options})).names)

    assert names() == SPARKS_OWN
    assert names(includeProperties="none") == SPARKS_OWN[:-1]
    assert names(includeBody="false") == [name for name in SPARKS_OWN if name != "value"]
    assert names(mode="PERMISSIVE", verifyCrc="true") == [*SPARKS_OWN, "_corrupt"]
    assert names(columns="offset,brokerName,bornTimestamp") == ["offset", "brokerName", "bornTimestamp"]
    with pytest.raises(BadOption, match="no partition; there are brokerName"):
        schema_of(parse_options({"path": "x", "columns": "partition"}))
    with pytest.raises(BadOption, match="kafkaCompatible: of messages only, not of index"):
        names(table="index")


def test_damage(tmp_path: Path) -> None:
    root = golden_store(tmp_path / "a")
    log = root / "commitlog" / f"{0:020}"
    raw = bytearray(log.read_bytes())
    at = read_store(root, columns="physicalOffset").read_all().column(0).to_pylist()[2]
    raw[at + 4] ^= 0xFF
    log.write_bytes(raw)
    rows = read_store(root, kafkaCompatible=True, mode="PERMISSIVE").read_all().to_pylist()
    [bad] = [row for row in rows if row["_corrupt"]]
    assert f"{log}, byte {at}: " in bad["_corrupt"]
    assert {value for name, value in bad.items() if name != "_corrupt"} == {None}
