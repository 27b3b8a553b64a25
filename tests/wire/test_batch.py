"""Batch bodies: all or nothing."""

from __future__ import annotations

import pytest
from construct import ConstructError
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.batch import Item, pack_items, read_items
from rmq_wire.errors import BadBody
from rmq_wire.layout.message import ITEM, ITEMS
from tests.support.given import GOLDEN, I32, damaged

ITEM_LISTS = st.lists(st.builds(Item, I32, st.binary(max_size=60), st.binary(max_size=60)), min_size=1, max_size=6)


def as_declared(items: list[Item]) -> bytes:
    return b"".join(
        ITEM.build(
            {
                "total_size": 22 + len(item.body) + len(item.properties),
                "magic": 0,
                "body_crc": 0,
                "flag": item.flag,
                "body": bytes(item.body),
                "properties": item.properties,
            }
        )
        for item in items
    )


@given(ITEM_LISTS)
def test_items_survive_and_look_as_declared(items: list[Item]) -> None:
    raw = pack_items(items)
    assert raw == as_declared(items)
    assert read_items(raw) == read_items(memoryview(raw)) == items
    assert len(ITEMS.parse(raw)["items"]) == len(items)


@given(ITEM_LISTS, st.data())
def test_no_truncation_is_accepted(items: list[Item], data: st.DataObject) -> None:
    raw = pack_items(items)
    ends = {len(pack_items(items[:count])) for count in range(1, len(items))}
    size = data.draw(st.integers(0, len(raw) - 1).filter(lambda size: size not in ends))
    with pytest.raises(BadBody):
        read_items(raw[:size])
    with pytest.raises(ConstructError):
        ITEMS.parse(raw[:size])


@given(ITEM_LISTS.map(pack_items).flatmap(damaged))
def test_damage_is_a_bad_body_or_a_body_that_packs_to_the_same_lengths(raw: bytes) -> None:
    try:
        items = read_items(raw)
    except BadBody:
        return
    assert len(pack_items(items)) == len(raw)


def test_a_body_that_java_wrote() -> None:
    raw = bytes.fromhex(GOLDEN["units"]["batch"])
    items = read_items(raw)
    assert [(item.flag, bytes(item.body)) for item in items] == [(5, b"body"), (0, b"empty")]
    assert "名\x01值\x02" in items[1].properties.decode()
    assert pack_items(items) == raw


@pytest.mark.parametrize(
    "body",
    [
        b"",
        bytes(22),
        bytes(4),
        b"\x00\x00\x00\x16" + bytes(17),
        b"\x00\x00\x00\x16" + bytes(18) + b"\x00",
        b"\xff\xff\xff\xff" + bytes(18),
        b"\x00\x00\x00\x16" + bytes(12) + b"\xff\xff\xff\xff" + bytes(2),
        b"\x00\x00\x00\x16" + bytes(12) + b"\x7f\xff\xff\xff" + bytes(2),
        b"\x00\x00\x00\x16" + bytes(16) + b"\xff\xff",
        b"\x00\x00\x00\x15" + bytes(18),
    ],
)
def test_items_that_do_not_add_up(body: bytes) -> None:
    with pytest.raises(BadBody):
        read_items(body)


def test_a_negative_length_that_does_add_up() -> None:
    """The properties' length is read out of the flag; the next item begins in it and takes in all the rest."""
    first = (14).to_bytes(4, "big") + bytes(12) + (-8).to_bytes(4, "big", signed=True)
    second_size = 0xFFFF
    body = bytearray(first + bytes(14 + second_size - len(first)))
    body[30:34] = (second_size - 22).to_bytes(4, "big")
    with pytest.raises(BadBody, match="body of -8 bytes"):
        read_items(bytes(body))
