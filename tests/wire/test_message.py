"""Message units: the hand walk against the declaration, the reference's own bytes, and everything that is not a unit."""

from __future__ import annotations

from typing import Any

import pytest
from construct import ConstructError
from hypothesis import example, given
from hypothesis import strategies as st

from rmq_wire.errors import BadRecord
from rmq_wire.implied.index_keys import index_hash, index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.java import string_hash
from rmq_wire.layout.message import BLANK, HEAD, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, UNIT
from rmq_wire.message import (
    CRC32_PROPERTY_SIZE,
    StoredMessage,
    crc32_property,
    has_good_crc,
    pack_blank,
    pack_unit,
    parse_crc32_property,
    read_size_and_magic,
    read_unit,
    unit_parts,
    unit_size,
)
from tests.support.given import GOLDEN, I32, TEXT, damaged, units

V1_UNIT = bytes.fromhex(
    "000000a5daa320a73610a686000000000000000700000000000000000000000000000000000000000000018bcfe5687b0a0102030000d431000001a1fb73a604"
    "7f00000100002a9f0000000000000000000000000000000568656c6c6f06546f70696341003f4b455953016b31206b3202554e49515f4b455901304130313032"
    "30333034303530363037303830393041304230433044304530460254414753015461674102"
)
V6_UNIT = bytes.fromhex(
    "0000007cdaa320a7431726fb0000000100000007000000000000000000000000000000a5000000300000018bcfe5687b20010db8000000000000000000000001"
    "000004d2000001a1fb73a6310000000000000000000000000000000100002a9f0000000000000000000000000000000373697806546f706963410000"
)


def built(unit: dict[str, Any]) -> bytes:
    """What construct makes of the fields."""
    size = len(UNIT.build({**unit, "total_size": 0}))
    return bytes(UNIT.build({**unit, "total_size": size}))


def packed(unit: StoredMessage) -> bytes:
    """The bytes again, by the hand walk; the check sum is computed anew."""
    return pack_unit(*unit[3:14], unit.body, unit.topic, unit.properties)


@given(units(), st.binary(max_size=20), st.binary(max_size=20))
def test_the_walk_reads_what_the_declaration_says(unit: dict[str, Any], before: bytes, after: bytes) -> None:
    raw = built(unit)
    slow = UNIT.parse(raw)
    for buffer in (before + raw + after, memoryview(before + raw + after), bytearray(before + raw + after)):
        fast = read_unit(buffer, len(before))
        assert fast._asdict() == {name: slow[name] for name in StoredMessage._fields}
        assert fast._asdict() == {"total_size": len(raw), **unit}
        parts = (len(before) + len(raw), fast.queue_offset, fast.born_timestamp, fast.body, fast.properties)
        assert unit_parts(buffer, len(before)) == parts


@given(units())
def test_the_walk_writes_what_the_declaration_says(unit: dict[str, Any]) -> None:
    raw = packed(read_unit(built(unit)))
    read = UNIT.parse(raw)
    assert UNIT.build(read) == raw
    assert read_unit(raw) == read_unit(built(unit))._replace(body_crc=read.body_crc)
    assert has_good_crc(read_unit(raw))
    sizes = {f"{part}_size": len(unit[part]) for part in ("body", "topic", "properties")}
    assert unit_size(sys_flag=unit["sys_flag"], **sizes) == len(raw)


@given(units(), st.data())
def test_no_truncation_is_accepted(unit: dict[str, Any], data: st.DataObject) -> None:
    raw = built(unit)
    for size in (data.draw(st.integers(0, len(raw) - 1)), len(raw) - 1):
        for reader in (read_unit, unit_parts):
            with pytest.raises(BadRecord):
                reader(raw[:size], 0)
        with pytest.raises(ConstructError):
            UNIT.parse(raw[:size])


@given(units().map(built).flatmap(damaged), st.integers(-3, 3))
def test_damage_is_a_bad_record_or_a_unit_that_the_declaration_reads_alike(raw: bytes, at: int) -> None:
    try:
        unit = read_unit(raw, at)
    except BadRecord:
        return
    read = UNIT.parse(raw[at:])
    assert unit._asdict() == {name: read[name] for name in StoredMessage._fields}
    assert unit.total_size <= len(raw) - at


def test_units_that_java_wrote() -> None:
    first = read_unit(V1_UNIT + V6_UNIT)
    assert (first.queue_id, first.flag, first.born_timestamp, first.body) == (0, 7, 1700000000123, b"hello")
    assert (first.topic, first.magic, first.total_size) == (b"TopicA", MAGIC_V1, 165)
    second = read_unit(V1_UNIT + V6_UNIT, 165)
    assert (second.physical_offset, second.sys_flag, len(second.born_host), len(second.store_host)) == (165, 0x30, 20, 20)
    assert packed(first) + packed(second) == V1_UNIT + V6_UNIT


@pytest.mark.parametrize("name", ["v4", "v6"])
def test_units_that_java_encoded(name: str) -> None:
    raw = bytes.fromhex(GOLDEN["units"][name])
    unit = read_unit(raw)
    assert packed(unit) == raw == UNIT.build(UNIT.parse(raw))
    assert (unit.queue_offset, unit.physical_offset) == (42, 1 << 33)
    assert (unit.reconsume_times, unit.prepared_transaction_offset) == (2, 99)
    assert has_good_crc(unit)
    assert not has_good_crc(unit._replace(body=b"hullo"))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\x00\x00\x00\xa4"),
        (0, b"\x00\x00\x00\xa6"),
        (0, b"\x80\x00\x00\x00"),
        (4, b"\xcb\xd4\x31\x94"),
        (4, b"\x00\x00\x00\x00"),
        (84, b"\x80\x00\x00\x00"),
        (84, b"\x7f\xff\xff\xff"),
        (93, b"\x80"),
        (93, b"\x7f"),
        (100, b"\xff\xff"),
        (100, b"\x00\x40"),
    ],
)
def test_lengths_that_do_not_add_up(at: int, value: bytes) -> None:
    raw = bytearray(V1_UNIT)
    raw[at : at + len(value)] = value
    with pytest.raises(BadRecord):
        read_unit(raw)


@pytest.mark.parametrize(
    ("total", "body_size", "rest"),
    [
        (83, -8, b""),  # topic and properties are read out of the zeros of the field before
        (90, 5, b"\0\0\0\0\0\xfd"),  # topic of -3 bytes: the properties' length is read out of the body
    ],
)
def test_negative_lengths_that_do_add_up(total: int, body_size: int, rest: bytes) -> None:
    raw = bytearray(V1_UNIT[:84] + bytes(200))
    raw[0:4] = total.to_bytes(4, "big")
    raw[84:88] = body_size.to_bytes(4, "big", signed=True)
    raw[88 : 88 + len(rest)] = rest
    if rest:
        raw[0:4] = (88 + body_size + 1 - 3 + 2).to_bytes(4, "big")
    with pytest.raises(BadRecord):
        read_unit(raw)


@pytest.mark.parametrize("at", [-1, -165, 1, 165, 10**12])
def test_no_unit_begins_there(at: int) -> None:
    with pytest.raises(BadRecord):
        read_unit(V1_UNIT, at)


def test_a_long_topic_makes_version_2() -> None:
    for size, magic in ((127, MAGIC_V1), (128, MAGIC_V2), (255, MAGIC_V2)):
        unit = read_unit(pack_unit(0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, b"", b"t" * size, b""))
        assert (unit.magic, len(unit.topic), unit.body_crc) == (magic, size, 0)


@given(I32)
def test_blanks(left: int) -> None:
    assert pack_blank(left) == BLANK.build({"total_size": left, "magic": MAGIC_BLANK})
    assert read_size_and_magic(pack_blank(left), 0) == (left, MAGIC_BLANK)
    with pytest.raises(BadRecord):
        read_unit(pack_blank(left) + bytes(200))
    with pytest.raises(BadRecord):
        read_size_and_magic(pack_blank(left)[:7], 0)


def test_what_a_message_implies() -> None:
    assert tags_code("TagA") == 2598919
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("x" * 1000) == tags_code("x" * 1000)
    assert index_hash("TopicA", "k1") == 1903240649
    assert index_keys("U", "k1  k2 ", "TagA") == ("U", "k1", "k2", "T#TagA")
    assert index_keys(None, None, None) == index_keys("", " ", "") == ()


@given(TEXT, TEXT)
@example("", "olygenelubricants")
def test_index_hashes_are_never_negative(topic: str, key: str) -> None:
    assert 0 <= index_hash(topic, key) < 1 << 31


def test_the_smallest_hash_counts_as_zero() -> None:
    """Its absolute value is no Java int (`IndexFile.indexKeyHashMethod`)."""
    key = _key_with_hash("topic", -(1 << 31))
    assert string_hash(f"topic#{key}") == -(1 << 31)
    assert index_hash("topic", key) == 0


def _key_with_hash(topic: str, wanted: int) -> str:
    """A key that gives `topic#key` this hash: seven digits of base 31 over one prefix."""
    base = (string_hash(f"{topic}#") * pow(31, 7, 1 << 32)) % (1 << 32)
    rest = (wanted - base) % (1 << 32) + (1 << 32) * 12
    digits = []
    for _ in range(7):
        rest, digit = divmod(rest, 31)
        digits.append(digit)
    digits[-1] += rest * 31
    return "".join(map(chr, reversed(digits)))


def test_the_check_sum_property() -> None:
    raw = bytes.fromhex(GOLDEN["units"]["crc32_property"])
    assert crc32_property(443450849) == raw
    assert len(raw) == CRC32_PROPERTY_SIZE
    assert parse_crc32_property("9480543440") == 443450849
    for wrong in ("", "948054344", "94805434400", "948054344x", "９480543440"):
        with pytest.raises(BadRecord):
            parse_crc32_property(wrong)


def test_offsets_of_the_head_come_from_the_declaration() -> None:
    assert HEAD.sizeof() == 48
