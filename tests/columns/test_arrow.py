"""Arrow record batches equal the units that they are made of, row by row; wrong places never reach Arrow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_columns.decode import units
from rmq_columns.decode.ragged import ragged
from rmq_columns.read import arrow
from rmq_columns.read.schema import MESSAGES
from rmq_wire import properties
from rmq_wire.message import StoredMessage, has_good_crc, pack_unit, read_unit
from rmq_wire.message_id import offset_message_id
from tests.support.given import PROPERTIES
from tests.support.given import units as unit_fields
from tests.support.golden import store_files

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def expected(unit: StoredMessage) -> dict[str, Any]:
    pairs = properties.decode(text(unit.properties))
    return {
        "brokerName": "",
        "offsetMsgId": offset_message_id(unit.store_host, unit.physical_offset),
        "topic": text(unit.topic),
        "body": bytes(unit.body),
        "bodySize": len(unit.body),
        "crcOk": has_good_crc(unit),
        "tags": pairs.get("TAGS"),
        "keys": pairs.get("KEYS"),
        "uniqKey": pairs.get("UNIQ_KEY"),
        "properties": list(pairs.items()),
        "bornHost": arrow.host_text(unit.born_host),
        "storeHost": arrow.host_text(unit.store_host),
        "storeSize": unit.total_size,
        "bornTimestamp": EPOCH + timedelta(milliseconds=unit.born_timestamp),
        "storeTimestamp": EPOCH + timedelta(milliseconds=unit.store_timestamp),
        "queueId": unit.queue_id,
        "queueOffset": unit.queue_offset,
        "reconsumeTimes": unit.reconsume_times,
        "flag": unit.flag,
        "sysFlag": unit.sys_flag,
        "bodyCrc": unit.body_crc,
        "preparedTransactionOffset": unit.prepared_transaction_offset,
        "physicalOffset": unit.physical_offset,
    }


def batch_of(raw: bytes, columns: list[str] | None = None) -> tuple[Any, list[StoredMessage]]:
    positions, _ = units.walk(raw, 0, len(raw))
    found = units.read(np.frombuffer(raw, np.uint8), np.array(positions, np.int64), len(raw))
    sound = found.take(found.fault == 0)
    schema = MESSAGES if columns is None else pa.schema([MESSAGES.field(name) for name in columns])
    made = arrow.record_batch(np.frombuffer(raw, np.uint8), sound, schema)
    made.validate(full=True)
    return made, [read_unit(raw, at) for at in sound.at.tolist()]


def test_units_of_the_golden_store() -> None:
    for raw in store_files("commitlog").values():
        made, read = batch_of(raw)
        assert made.schema == MESSAGES
        assert [{**row} for row in made.to_pylist()] == [expected(unit) for unit in read]


MS = st.integers(-(10**12), 4 * 10**12)


@given(st.lists(st.tuples(unit_fields(), PROPERTIES, MS, MS), min_size=1, max_size=5))
def test_any_units(drawn: list[tuple[dict[str, Any], bytes, int, int]]) -> None:
    raw = b"".join(
        pack_unit(
            **{
                **{name: value for name, value in fields.items() if name not in ("magic", "body_crc")},
                "properties": held,
                "born_timestamp": born,
                "store_timestamp": stored,
            }
        )
        for fields, held, born, stored in drawn
    )
    made, read = batch_of(raw)
    assert made.to_pylist() == [expected(unit) for unit in read]
    assert len(read) == len(drawn)


@pytest.mark.parametrize("doubled", [0, -1])
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65])
def test_a_name_that_comes_twice(count: int, doubled: int) -> None:
    """However many names there are: one bit each, of as few bytes as hold them, or none where they are more than 64."""
    names = [f"name{number}" for number in range(count)]
    rows = [[(name, "1") for name in names], [(names[doubled], "1"), (names[doubled], "2")], [], [(names[doubled], "3")]]
    host = bytes(8)
    raw = b"".join(
        pack_unit(0, 0, 0, 0, 0, 0, host, 0, host, 0, 0, b"", b"T", b"".join(f"{n}\x01{v}\x02".encode() for n, v in row))
        for row in rows
    )
    made, _ = batch_of(raw, ["properties"])
    assert [row["properties"] for row in made.to_pylist()] == [list(dict(row).items()) for row in rows]


def unit_with(pairs: list[tuple[str, str]]) -> bytes:
    host = bytes(8)
    held = b"".join(f"{name}\x01{value}\x02".encode() for name, value in pairs)
    return pack_unit(0, 0, 0, 0, 0, 0, host, 0, host, 0, 0, b"", b"T", held)


NAMES_ALIKE = st.sampled_from(["A", "AB", "ABC", "B", "BC", "C", "CA", "TAGS", "KEYS", "N" * 255, "N" * 256])


@given(st.lists(st.lists(st.tuples(NAMES_ALIKE, st.sampled_from(["x", "y", "Ä"])), max_size=5), max_size=9))
def test_names_that_run_together(rows: list[list[tuple[str, str]]]) -> None:
    """AB, C and A, BC, CA and A, B, C are the same letters."""
    made, _ = batch_of(b"".join(map(unit_with, rows)), ["properties", "tags", "keys"])
    wanted = [dict(row) for row in rows]
    assert made["properties"].to_pylist() == [list(row.items()) for row in wanted]
    assert made["tags"].to_pylist() == [row.get("TAGS") for row in wanted]
    assert made["keys"].to_pylist() == [row.get("KEYS") for row in wanted]


@pytest.mark.parametrize(
    "rows",
    [
        [["AB", "C"], ["A", "BC"]],
        [["A", "BC"], ["AB", "C"], ["A", "BC"]],
        [["TAGS"], ["TA", "GS"]],
        [[], [], []],
        [["N" * 300], ["TAGS"]],
    ],
)
def test_the_same_letters_in_other_names(rows: list[list[str]]) -> None:
    made, _ = batch_of(b"".join(unit_with([(name, "v") for name in row]) for row in rows), ["properties", "tags"])
    assert made["properties"].to_pylist() == [[(name, "v") for name in row] for row in rows]
    assert made["tags"].to_pylist() == ["v" if "TAGS" in row else None for row in rows]


@pytest.mark.parametrize(
    "texts",
    [
        [b"a\x01b\x02c", b"d\x01e\x02"],
        [b"a\x01", b"b\x02"],
        [b"a\x01b\x02", b"c", b"\x01d\x02"],
        [b"", b"a\x01b\x02c", b"", b"\x01d\x02"],
    ],
    ids=repr,
)
def test_a_text_that_ends_within_a_pair(texts: list[bytes]) -> None:
    """Behind one another they are pairs, each by itself is none."""
    made, read = batch_of(b"".join(pack_unit(0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, b"", b"T", text) for text in texts))
    assert made.to_pylist() == [expected(unit) for unit in read]


def test_columns_are_chosen() -> None:
    [raw, *_] = store_files("commitlog").values()
    made, _ = batch_of(raw, ["queueOffset", "tags"])
    assert made.schema.names == ["queueOffset", "tags"]
    with pytest.raises(KeyError):
        batch_of(raw, ["nothing"])


def test_times_beyond_every_calendar_do_not_overflow() -> None:
    host = bytes(8)
    raw = pack_unit(0, 0, 0, 0, 0, 2**63 - 1, host, -(2**63), host, 0, 0, b"", b"T", b"")
    made, _ = batch_of(raw, ["bornTimestamp", "storeTimestamp"])
    born, stored = (made.column(i).cast("int64").to_pylist()[0] for i in (0, 1))
    assert born > 0 > stored


@pytest.mark.parametrize(
    ("starts", "sizes"), [([0, 5], [6, 1]), ([5, 0], [1, 1]), ([0], [11]), ([-1], [2]), ([3], [-1]), ([2**62], [1])]
)
def test_wrong_runs_never_reach_arrow(starts: list[int], sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        ragged(np.zeros(10, np.uint8), np.array(starts), np.array(sizes))


def test_a_faulty_unit_has_no_columns() -> None:
    raw = bytes(200)
    found = units.read(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), len(raw))
    with pytest.raises(ValueError, match="fault"):
        arrow.record_batch(np.frombuffer(raw, np.uint8), found, MESSAGES)
