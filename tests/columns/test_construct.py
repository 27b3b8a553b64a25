"""Any units that the declaration itself builds are the rows that it reads, in whatever pieces they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmq_columns import parse_options, plan_splits, read_split, schema_of
from rmq_columns.read.arrow import host_text, microseconds
from rmq_wire import properties
from rmq_wire.checksum import body_crc
from rmq_wire.layout import message
from rmq_wire.message_id import offset_message_id
from tests.columns.rows import listed
from tests.support.given import PAIRS
from tests.support.given import units as unit_fields

LOG_BYTES = 1 << 15
EVERY = "brokerName,topic,queueId,queueOffset,body,bodySize,tags,keys,uniqKey,properties,bornTimestamp,storeTimestamp,bornHost"
EVERY += ",storeHost,reconsumeTimes,flag,sysFlag,bodyCrc,preparedTransactionOffset,physicalOffset,storeSize,offsetMsgId,crcOk"
KNOWN = PAIRS.flatmap(
    lambda held: st.fixed_dictionaries({}, optional={"TAGS": st.just("t"), "KEYS": st.just("k é")}).map(held.__or__)
)


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def build(fields: dict[str, Any], at: int, total_size: int = 0) -> bytes:
    """By construct, whose layout says nothing of how long the whole is."""
    raw: bytes = message.UNIT.build({**fields, "physical_offset": at, "total_size": total_size})
    return raw if total_size else build(fields, at, len(raw))


def micros(ms: int) -> int:
    return int(microseconds(np.array([ms], np.int64))[0])


def row_of(raw: bytes) -> dict[str, Any]:
    """Of what construct parses."""
    unit = message.UNIT.parse(raw)
    pairs = properties.decode(text(unit.properties))
    return {
        "brokerName": "b",
        "topic": text(unit.topic),
        "queueId": unit.queue_id,
        "queueOffset": unit.queue_offset,
        "body": unit.body,
        "bodySize": len(unit.body),
        "tags": pairs.get("TAGS"),
        "keys": pairs.get("KEYS"),
        "uniqKey": pairs.get("UNIQ_KEY"),
        "properties": list(pairs.items()),
        "bornTimestamp": micros(unit.born_timestamp),
        "storeTimestamp": micros(unit.store_timestamp),
        "bornHost": host_text(unit.born_host),
        "storeHost": host_text(unit.store_host),
        "reconsumeTimes": unit.reconsume_times,
        "flag": unit.flag,
        "sysFlag": unit.sys_flag,
        "bodyCrc": unit.body_crc,
        "preparedTransactionOffset": unit.prepared_transaction_offset,
        "physicalOffset": unit.physical_offset,
        "storeSize": len(raw),
        "offsetMsgId": offset_message_id(unit.store_host, unit.physical_offset),
        "crcOk": not unit.body or body_crc(unit.body) == unit.body_crc,
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(unit_fields(), KNOWN | st.none(), st.booleans()), min_size=1, max_size=8),
    st.sampled_from([64, 900, 1 << 20]),
    st.integers(200, 4000),
    st.integers(1, 5),
)
def test_any_units(tmp_path: Path, drawn: list[Any], block: int, split: int, batch: int) -> None:
    log, wanted = b"", []
    for fields, held, is_sound in drawn:
        made = dict(fields)
        if held is not None:
            made["properties"] = properties.encode(held).encode()
        if is_sound:
            made["body_crc"] = body_crc(made["body"])
        raw = build(made, len(log))
        log += raw
        wanted.append(row_of(raw))
    (tmp_path / f"{0:020}").write_bytes(log.ljust(LOG_BYTES, b"\0"))
    options = parse_options(
        {"path": tmp_path, "brokerName": "b", "mode": "PERMISSIVE", "includeSystemTopics": True, "columns": f"{EVERY},_corrupt"}
        | {"blockBytes": block, "splitBytes": split, "batchRows": batch}
    )
    found = []
    for one in plan_splits(options):
        for rows in read_split(one):
            rows.validate(full=True)
            assert rows.schema == schema_of(options)
            assert 0 < rows.num_rows <= batch
            found += listed(rows)
    assert [row.pop("_corrupt") is None for row in found] == [row["crcOk"] for row in wanted]
    assert found == wanted
