"""`rmq_columns` beside the slow readers that it must equal, row by row: types, units, hashes, properties, queue units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_columns.decode import dtypes, queues, texts, units
from rmq_wire import properties
from rmq_wire.errors import BadRecord
from rmq_wire.java import string_hash
from rmq_wire.layout import consume_queue, index, message
from rmq_wire.layout.flat import flat
from rmq_wire.message import has_good_crc, pack_unit, read_unit
from tests.support.given import damaged
from tests.support.given import units as unit_fields
from tests.support.golden import store_files

FIXED_LAYOUTS = [
    *message.FIXED.values(),
    *(flat(one) for one in (consume_queue.UNIT, consume_queue.BATCH_UNIT, index.HEADER, index.ENTRY, index.SLOT)),
]


@pytest.mark.parametrize("layout", FIXED_LAYOUTS, ids=lambda layout: f"{layout.size}")
def test_types_are_those_of_the_layouts(layout: flat) -> None:  # type: ignore[valid-type]
    made = dtypes.dtype_of(layout)
    raw = bytes(range(1, 1 + layout.size))
    [record] = np.frombuffer(raw, made)
    values = dict(zip(layout.names, layout.packed.unpack(raw), strict=True))
    assert {name: record[name].tobytes() if made[name].kind == "V" else int(record[name]) for name in layout.names} == values


def test_no_type_for_a_run_that_is_not_bytes() -> None:
    strange = flat(consume_queue.UNIT)._replace(packed=__import__("struct").Struct(">fi"))
    with pytest.raises(TypeError):
        dtypes.dtype_of(strange)


def test_gather_refuses_what_does_not_fit() -> None:
    with pytest.raises(IndexError):
        dtypes.gather(np.zeros(19, np.uint8), np.zeros(1, np.int64), dtypes.QUEUE_UNIT)
    with pytest.raises(IndexError):
        dtypes.gather(np.zeros(20, np.uint8), np.ones(1, np.int64), dtypes.QUEUE_UNIT)


def columns(raw: bytes, positions: list[int]) -> units.Units:
    return units.read(np.frombuffer(raw, np.uint8), np.array(positions, np.int64), len(raw))


def assert_equal_rows(raw: bytes, positions: list[int]) -> None:
    """Each row is what the walk by hand reads, or faulty where that refuses."""
    found = columns(raw, positions)
    crcs = units.bad_crcs(raw, found.take(found.fault == 0)).tolist()
    for row, at in enumerate(positions):
        try:
            wanted = read_unit(raw, at)
        except BadRecord:
            assert found.fault[row]
            continue
        assert not found.fault[row]
        for name in units.COLUMNS:
            if name != "body_size":
                assert int(found[name][row]) == getattr(wanted, name)
        for name, at_column, size_column in (
            ("body", found.body_at, found.body_size),
            ("topic", found.topic_at, found.topic_size),
            ("properties", found.properties_at, found.properties_size),
        ):
            assert raw[at_column[row] : at_column[row] + size_column[row]] == getattr(wanted, name)
        assert crcs.pop(0) is not has_good_crc(wanted)


@given(st.lists(unit_fields(), min_size=1, max_size=6))
def test_units_are_read_as_by_hand(drawn: list[dict[str, object]]) -> None:
    packed = [pack_unit(**{k: v for k, v in one.items() if k not in ("magic", "body_crc")}) for one in drawn]  # type: ignore[arg-type]
    raw = b"".join(packed)
    positions, stop = units.walk(raw, 0, len(raw))
    assert stop == len(raw)
    assert positions == [sum(map(len, packed[:i])) for i in range(len(packed))]
    assert_equal_rows(raw, positions)
    assert_equal_to_construct(raw, positions)


def assert_equal_to_construct(raw: bytes, positions: list[int]) -> None:
    """Each row is what the declaration itself parses."""
    found = columns(raw, positions)
    for row, at in enumerate(positions):
        parsed = message.UNIT.parse(raw[at:])
        assert all(int(found[name][row]) == parsed[name] for name in units.COLUMNS if name != "body_size")
        assert found.body_size[row] == len(parsed.body)
        topic = raw[found.topic_at[row] : found.topic_at[row] + found.topic_size[row]]
        held = raw[found.properties_at[row] : found.properties_at[row] + found.properties_size[row]]
        assert (topic, held) == (parsed.topic, parsed.properties)


@given(st.data())
def test_damaged_units_are_refused_when_the_hand_refuses(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(unit_fields(), min_size=1, max_size=3))
    packed = [pack_unit(**{k: v for k, v in one.items() if k not in ("magic", "body_crc")}) for one in drawn]  # type: ignore[arg-type]
    raw = data.draw(damaged(b"".join(packed)))
    starts = {sum(map(len, packed[:i])) for i in range(len(packed))} | set(data.draw(st.lists(st.integers(0, len(raw)))))
    assert_equal_rows(raw, sorted(starts))


@pytest.mark.parametrize("flag", [message.BORN_V6, message.STORE_V6, message.BORN_V6 | message.STORE_V6])
def test_a_host_for_which_there_is_no_room(flag: int) -> None:
    """Whole with IPv4 hosts; with those of which its flags speak it would reach behind the end."""
    raw = bytearray(pack_unit(0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, b"", b"T", b""))
    assert not columns(bytes(raw), [0]).fault.any()
    at = message.FIXED[0].at["sys_flag"]
    raw[at : at + 4] = flag.to_bytes(4, "big")
    assert_equal_rows(bytes(raw), [0])
    assert columns(bytes(raw), [0]).fault.tolist() == [units.Fault.SIZE]


def test_units_of_the_golden_store() -> None:
    for raw in store_files("commitlog").values():
        positions, _ = units.walk(raw, 0, len(raw))
        assert len(positions) > 10
        assert_equal_rows(raw, positions)
        sound = columns(raw, positions)
        assert_equal_to_construct(raw, sound.at[sound.fault == 0].tolist())


def test_a_walk_ends_where_asked_and_before_a_size_that_leads_back() -> None:
    one = pack_unit(0, 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0, 0, b"body", b"T", b"")
    raw = one * 3 + (-5).to_bytes(4, "big", signed=True) + bytes(60)
    assert units.walk(raw, 0, len(raw)) == ([0, len(one), 2 * len(one)], 3 * len(one))
    assert units.walk(raw, 0, len(raw), 2) == ([0, len(one)], 2 * len(one))


TEXTS = st.lists(st.one_of(st.text(st.characters(max_codepoint=127), max_size=70), st.text(max_size=9)), max_size=12)


@given(TEXTS)
def test_hashes_are_javas(drawn: list[str]) -> None:
    raw = [text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode() for text in drawn]
    sizes = np.array([len(one) for one in raw], np.int64)
    starts = np.cumsum(sizes) - sizes
    found = texts.Hasher(b"".join(raw)).hashes(starts, sizes)
    assert found.tolist() == [string_hash(one.decode()) for one in raw]


@given(st.lists(st.text(st.characters(max_codepoint=127), max_size=30), min_size=1, max_size=5), st.text(max_size=10))
def test_hashes_continue(drawn: list[str], prefix: str) -> None:
    sizes = np.array([len(one) for one in drawn], np.int64)
    hashes = np.array([string_hash(one) for one in drawn], np.int32)
    heads = np.full(len(drawn), string_hash(prefix), np.int32)
    assert texts.continued(heads, hashes, sizes).tolist() == [string_hash(prefix + one) for one in drawn]


PAIR = st.sampled_from(["KEYS\x01", "TAGS\x01", "KEY\x01", "a b  c", "é", "\x01", "\x02", " ", "T", "TAGS"])


@given(st.lists(st.lists(PAIR, max_size=8).map("".join), max_size=6))
def test_properties_are_cut_as_by_decode(drawn: list[str]) -> None:
    raw = [text.encode() for text in drawn]
    sizes = np.array([len(one) for one in raw], np.int64)
    found = texts.properties_of([memoryview(one) for one in raw], sizes)
    wanted = [properties.decode(text) for text in drawn]
    for name in ("KEYS", "TAGS", "T"):
        spans = found.values(name.encode())
        values = [found.data[s : s + n].decode() for s, n in zip(spans.starts, spans.sizes, strict=True)]
        assert values == [pairs.get(name, "") for pairs in wanted]
        cut: list[list[str]] = [[] for _ in raw]
        for row, start, size in zip(*texts.pieces(found.data, spans, ord(" ")), strict=True):
            cut[row].append(found.data[start : start + size].decode())
        assert cut == [[piece for piece in pairs.get(name, "").split(" ") if piece] for pairs in wanted]


def test_queue_units() -> None:
    packed = flat(consume_queue.UNIT).packed
    rows = [(0, queues.FILLER_SIZE, 0), (100, 165, 7), (265, 124, -9), (0, 0, 0), (5, 5, 5)]
    found = queues.queue_units(b"".join(packed.pack(*row) for row in rows) + b"rest")
    assert [tuple(map(int, row)) for row in found] == rows
    assert queues.is_filler(found).tolist() == [True, False, False, False, False]
    assert queues.is_empty(found).tolist() == [False, False, False, True, False]
    assert len(queues.queue_units(b"")) == len(queues.batch_units(b"short")) == 0
