"""Units of batch queues, extensions and check sums: built one way, read another, by construct as the judge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmq_store.layouts import BATCH_UNIT, EXT_END, EXT_UNIT
from rmq_store.log.property_staging import with_seal_place
from rmq_store.queues.batch_queue import Unit
from rmq_wire import property_names as prop
from rmq_wire.checksum import body_crc
from rmq_wire.layout import consume_queue
from rmq_wire.message import SEAL_BYTES, crc32_property, has_good_seal, parse_crc32_property
from rmq_wire.properties import decode, encode

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
SHORT = st.integers(-(1 << 15), (1 << 15) - 1)
WORD = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02,"), min_size=1, max_size=8)
PROPERTIES = st.dictionaries(WORD, WORD, max_size=6)
FIELDS = ("physical_offset", "size", "tags_code", "store_timestamp", "base_offset", "batch_size", "compacted_offset", "reserved")


@given(st.tuples(LONG, INT, LONG, LONG, LONG, SHORT, INT, INT))
def test_batch_units(fields: tuple[int, ...]) -> None:
    data = BATCH_UNIT.pack(*fields)
    parsed = consume_queue.BATCH_UNIT.parse(data)
    assert tuple(parsed[name] for name in FIELDS) == fields
    assert consume_queue.BATCH_UNIT.build(dict(zip(FIELDS, fields, strict=True))) == data
    assert len(data) == 46
    unit = Unit(*fields)
    assert unit.is_valid is (fields[0] >= 0 and fields[1] > 0 and fields[4] >= 0 and fields[5] > 0)
    assert unit.end_offset == fields[4] + fields[5]


@given(LONG, LONG, st.binary(max_size=60))
def test_extensions(tags_code: int, store_timestamp: int, bit_map: bytes) -> None:
    head = {"size": 20 + len(bit_map), "tags_code": tags_code, "store_timestamp": store_timestamp, "bit_map_size": len(bit_map)}
    data = consume_queue.EXT_UNIT.build({**head, "bit_map": bit_map})
    assert len(data) == 20 + len(bit_map)
    assert EXT_UNIT.unpack_from(data) == tuple(head.values())
    assert EXT_END.pack(-1) == b"\xff\xff" == consume_queue.EXT_END.build({"size": -1})


@given(PROPERTIES, st.booleans(), st.binary(min_size=1, max_size=80), st.integers(0, (1 << 31) - 1))
def test_a_place_for_the_check_sum(values: dict[str, str], ends: bool, unit: bytes, forged: int) -> None:
    values.pop(prop.CRC32, None)
    sent = encode(values).encode() + crc32_property(forged)
    sent = sent if ends else sent[:-1]
    made = with_seal_place(sent)
    assert made.endswith(crc32_property(0))
    assert with_seal_place(made) == made
    assert {name: value for name, value in decode(made.decode()).items() if name != prop.CRC32} == decode(encode(values))
    sealed = unit + crc32_property(body_crc(unit))
    assert has_good_seal(sealed)
    for at in range(len(sealed)):
        assert not has_good_seal(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :])
    assert not has_good_seal(sealed[:SEAL_BYTES])
    assert parse_crc32_property(crc32_property(forged)[-11:-1].decode()) == forged
