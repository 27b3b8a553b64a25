"""Digests of messages: what they see, and what they are meant not to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmq_columns import parse_options, plan_splits
from rmq_columns.decode.units import read, walk
from rmq_columns.read.digests import BLOCK_OFFSETS, DigestTask, How, digest_split, hashes, kept
from rmq_wire.layout import message
from rmq_wire.message import pack_unit
from tests.support.logs import HOST, HOST_V6, unit

KEY = b"k" * 64
PLAIN: dict[str, Any] = {
    "queue": 1,
    "flag": 0,
    "offset": 5,
    "place": 1000,
    "sys": 0,
    "born": 7,
    "born_host": HOST,
    "stored": 9,
    "store_host": HOST,
    "again": 0,
    "prepared": 0,
    "body": b"body",
    "topic": b"Topic",
    "properties": b"TAGS\x01a\x02CLUSTER\x01c\x02",
}


PLAINLY = How(KEY)


def digest(how: How = PLAINLY, **changes: Any) -> bytes:
    one = PLAIN | changes
    unit = pack_unit(
        one["queue"],
        one["flag"],
        one["offset"],
        one["place"],
        one["sys"],
        one["born"],
        one["born_host"],
        one["stored"],
        one["store_host"],
        one["again"],
        one["prepared"],
        one["body"],
        one["topic"],
        one["properties"],
    )
    buffer = np.frombuffer(bytearray(unit), np.uint8)
    positions, _ = walk(buffer.data, 0, len(buffer))
    units = read(buffer, np.array(positions, np.int64), len(buffer))
    assert not units.fault.any()
    [found] = hashes(buffer, units, how)
    return found


CONTENT: dict[str, Any] = {
    "queue": 2,
    "flag": 1,
    "offset": 6,
    "sys": 1,
    "born": 8,
    "born_host": HOST[:3] + b"\x09" + HOST[4:],
    "again": 1,
    "body": b"bodz",
    "topic": b"Topid",
    "properties": b"TAGS\x01b\x02CLUSTER\x01c\x02",
}
PLACE: dict[str, Any] = {"place": 2000, "stored": 10, "store_host": HOST[:3] + b"\x09" + HOST[4:], "prepared": 77}


@pytest.mark.parametrize("field", CONTENT)
def test_what_a_message_is(field: str) -> None:
    assert digest(**{field: CONTENT[field]}) != digest()
    assert len(digest()) == 16


@pytest.mark.parametrize("field", PLACE)
def test_where_a_message_is(field: str) -> None:
    assert digest(**{field: PLACE[field]}) == digest()
    exact = How(KEY, is_exact=True)
    assert digest(exact, **{field: PLACE[field]}) != digest(exact)


def test_another_width_of_the_store_host() -> None:
    assert digest(sys=message.STORE_V6, store_host=HOST_V6) == digest()
    both = message.STORE_V6 | message.BORN_V6
    assert digest(sys=both, store_host=HOST_V6, born_host=HOST_V6) == digest(sys=message.BORN_V6, born_host=HOST_V6) != digest()


def test_nobody_knows_it_beforehand() -> None:
    assert digest(How(b"x" * 64)) != digest()


def test_properties_that_do_not_count() -> None:
    how = How(KEY, ignored=(b"CLUSTER",))
    assert digest(how, properties=b"TAGS\x01a\x02CLUSTER\x01other\x02") == digest(how)
    assert digest(how, properties=b"TAGS\x01a\x02") == digest(how)
    assert digest(how, properties=b"TAGS\x01b\x02CLUSTER\x01c\x02") != digest(how)
    assert kept(b"A\x011\x02CLUSTER\x012\x02B\x013", (b"CLUSTER",)) == b"A\x011\x02B\x013\x02"


@pytest.mark.parametrize("far", [1 << 56, (1 << 63) - 1, -(1 << 56)])
def test_queue_offsets_that_cannot_be(tmp_path: Path, far: int) -> None:
    """Damage no check sum covers: that message has a block of its own, and no other queue's block has it."""
    rows = [(b"A", 0), (b"B", 0), (b"A", far), (b"B", 1)]
    log = bytearray()
    for topic, offset in rows:
        log += unit(len(log), b"body", topic=topic, number=offset)
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(log).ljust(4096, b"\0"))
    [split] = plan_splits(parse_options({"path": str(tmp_path), "brokerName": "b"}))
    [batch] = digest_split(DigestTask(split, 0, 0, "b", PLAINLY))
    found = {(row["topic"], row["block"]): row["count"] for row in batch.to_pylist()}
    assert found == {("A", 0): 1, ("B", 0): 2, ("A", far // BLOCK_OFFSETS): 1}
