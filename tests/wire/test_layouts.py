"""One declaration of every layout: pinned as text, and the derived structs read and write what construct does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from construct import (
    Bytes,
    BytesInteger,
    Flag,
    GreedyBytes,
    Int8sb,
    Int16sb,
    Int16ul,
    Int24ub,
    Int32sb,
    Int64sb,
    Prefixed,
    Struct,
)
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.layout import checkpoint, consume_queue, frame, index, message, message_id, registration, replication, timer
from rmq_wire.layout.flat import flat, length_of, lengths_of
from rmq_wire.layout.table import table

PINNED = Path(__file__).parent / "layouts.txt"
FIXED: dict[str, Struct] = {
    "frame.PREFIX": frame.PREFIX,
    "frame.BINARY_HEAD": frame.BINARY_HEAD,
    "message.HEAD": message.HEAD,
    "message.BLANK": message.BLANK,
    "message.ITEM_HEAD": message.ITEM_HEAD,
    "message.fixed v4": message.fixed(False, False),
    "message.fixed v6": message.fixed(True, True),
    "consume_queue.UNIT": consume_queue.UNIT,
    "consume_queue.EXT_UNIT_HEAD": consume_queue.EXT_UNIT_HEAD,
    "consume_queue.BATCH_UNIT": consume_queue.BATCH_UNIT,
    "index.HEADER": index.HEADER,
    "index.SLOT": index.SLOT,
    "index.ENTRY": index.ENTRY,
    "checkpoint.FIELDS": checkpoint.FIELDS,
    "message.HOST_V4": message.HOST_V4,
    "message.HOST_V6": message.HOST_V6,
    "message_id.OFFSET_ID_V4": message_id.OFFSET_ID_V4,
    "message_id.OFFSET_ID_V6": message_id.OFFSET_ID_V6,
    "message_id.UNIQUE_KEY_V4": message_id.UNIQUE_KEY_V4,
    "message_id.UNIQUE_KEY_V6": message_id.UNIQUE_KEY_V6,
    "registration.COUNT": registration.COUNT,
    "replication.REPORT": replication.REPORT,
    "replication.TRANSFER_HEAD": replication.TRANSFER_HEAD,
    "timer.LOG_UNIT": timer.LOG_UNIT,
    "timer.LOG_BLANK": timer.LOG_BLANK,
    "timer.SLOT": timer.SLOT,
    "timer.CHECK": timer.CHECK,
}
SIZES = {
    "message.HEAD": 48,
    "message.fixed v4": 88,
    "message.HOST_V4": 8,
    "message.HOST_V6": 20,
    "message_id.OFFSET_ID_V4": 16,
    "message_id.OFFSET_ID_V6": 28,
    "message_id.UNIQUE_KEY_V4": 16,
    "message_id.UNIQUE_KEY_V6": 28,
    "consume_queue.UNIT": 20,
    "consume_queue.BATCH_UNIT": 46,
    "index.HEADER": 40,
    "index.ENTRY": 20,
    "checkpoint.FIELDS": 48,
    "replication.TRANSFER_HEAD": 12,
    "timer.LOG_UNIT": 52,
    "timer.LOG_BLANK": 16,
    "timer.SLOT": 32,
    "timer.CHECK": 56,
}
"""As `facts` and the reference's own constants say."""


def test_no_byte_has_moved() -> None:
    """To accept a change: `python -m rmq_wire.layout.table > tests/wire/layouts.txt`."""
    assert table() == PINNED.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIXED)
@given(data=st.data())
def test_derived_structs_agree_with_the_declaration(name: str, data: st.DataObject) -> None:
    layout = FIXED[name]
    derived = flat(layout)
    raw = data.draw(st.binary(min_size=derived.size, max_size=derived.size))
    read = layout.parse(raw)
    values = derived.packed.unpack(raw)
    assert dict(zip(derived.names, values, strict=True)) == {key: read[key] for key in derived.names}
    assert derived.packed.pack(*values) == raw == layout.build(read)
    for key in derived.names:
        ahead: Any = read[key]
        rest = Struct(layout.subcons[derived.names.index(key)])
        assert rest.parse(raw[derived.at[key] :])[key] == ahead


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_sizes_are_the_references(name: str, size: int) -> None:
    assert flat(FIXED[name]).size == size


@pytest.mark.parametrize(
    "field",
    [
        "a" / Int16ul,
        "a" / Flag,
        "a" / BytesInteger(3),
        "a" / Prefixed(Int32sb, Int64sb),
        "a" / Struct("b" / Int32sb),
    ],
)
def test_what_is_not_plain_is_refused(field: Any) -> None:
    with pytest.raises(TypeError, match="not a fixed big-endian field"):
        flat(Struct(field))


def test_files_of_one_page() -> None:
    values = dict.fromkeys(flat(checkpoint.FIELDS).names, 1)
    raw = checkpoint.FILE.build(values)
    assert len(raw) == checkpoint.FILE_SIZE == 4096
    assert raw[:48] == flat(checkpoint.FIELDS).packed.pack(*values.values())
    assert not any(raw[48:])
    assert checkpoint.FILE.parse(raw).logics_physical_offset == 1
    assert len(timer.CHECK_FILE.build(dict.fromkeys(flat(timer.CHECK).names, 2))) == 4096


def test_a_blank_begins_as_a_unit_does() -> None:
    blank, head = flat(message.BLANK), flat(message.HEAD)
    assert head.packed.format.startswith(blank.packed.format)
    assert head.names[: len(blank.names)] == blank.names


@pytest.mark.parametrize("length", [Int8sb, Int16sb, Int32sb, Int64sb])
@given(data=st.binary(max_size=100), name=st.binary(max_size=100))
def test_lengths_follow_the_declaration(length: Any, data: bytes, name: bytes) -> None:
    """Another length in the declaration is another struct, wherever it is used."""
    layout = Struct("name" / Prefixed(Int16sb, GreedyBytes) * "with a meaning", "value" / Prefixed(length, GreedyBytes))
    raw = layout.build({"name": name, "value": data})
    of_name, of_value = length_of(layout, "name"), length_of(layout.subcons[1])
    assert of_value.size == length.sizeof()
    assert of_value.unpack_from(raw, of_name.size + len(name)) == (len(data),)
    assert lengths_of(layout, len(name)).unpack_from(raw) == (len(name), len(data))


@given(st.lists(st.tuples(st.integers(-128, 127), st.binary(min_size=3, max_size=3), st.integers(0, 99)), min_size=1, max_size=9))
def test_rows_follow_the_declaration(rows: list[tuple[int, bytes, int]]) -> None:
    """Fields are found wherever they stand, the last as well as one in the middle."""
    layout = Struct("a" / Int8sb, "b" / Bytes(3), "c" / Int64sb)
    raw = b"".join(layout.build({"a": a, "b": b, "c": c}) for a, b, c in rows)
    derived = flat(layout)
    assert derived.rows(len(rows)).unpack(raw) == tuple(value for row in rows for value in row)
    assert derived.rows(len(rows), "b").unpack(raw) == tuple(b for _, b, _ in rows)
    assert derived.rows(len(rows), "a", "c").unpack(raw) == tuple(value for a, _, c in rows for value in (a, c))
    assert derived.rows(len(rows), "b", "c").unpack(raw) == tuple(value for _, b, c in rows for value in (b, c))


@pytest.mark.parametrize("names", [("c", "a"), ("a", "x"), ("a", "a")])
def test_rows_in_another_order_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(TypeError, match="order"):
        flat(Struct("a" / Int8sb, "b" / Bytes(3), "c" / Int64sb)).rows(2, *names)


@pytest.mark.parametrize("field", ["a" / Int8sb, "a" / Prefixed(Int24ub, GreedyBytes), "a" / Prefixed(Int16ul, GreedyBytes)])
def test_lengths_that_are_not_plain_are_refused(field: Any) -> None:
    with pytest.raises(TypeError):
        length_of(Struct(field), "a")


def test_lengths_stand_where_the_units_have_them() -> None:
    """A change of the declaration reaches the hand walks, or this fails."""
    from rmq_store import layouts as of_store
    from rmq_wire import batch, command, encoding
    from rmq_wire import message as walk

    def code(field: Any) -> str:
        while not isinstance(field, Prefixed):
            field = field.subcon
        return str(field.lengthfield.fmtstr)

    unit, item = ({field.name: field for field in layout.subcons} for layout in (message.UNIT, message.ITEM))
    name, value = frame.EXT_ENTRY.subcons
    choice = unit["topic"].subcon
    for struct, field in (
        (walk.PROPERTIES_LENGTH, unit["properties"]),
        (of_store.PROPERTIES_LENGTH, unit["properties"]),
        (batch._PROPERTIES_LENGTH, item["properties"]),
        (walk._TOPIC_LENGTH_V1, choice.elsesubcon),
        (of_store.TOPIC_LENGTH_V1, choice.elsesubcon),
        (walk._TOPIC_LENGTH_V2, choice.thensubcon),
        (of_store.TOPIC_LENGTH_V2, choice.thensubcon),
        (command._VALUE_LENGTH, value),
        (encoding._VALUE_LENGTH, value),
        (encoding._NAME_LENGTH, name),
    ):
        assert struct.format == code(field)
    for fixed, layout in ((message.FIXED[0], unit), (flat(message.ITEM_HEAD), item)):
        assert f">{fixed.codes[fixed.names.index('body_size')]}" == code(layout["body"])
        assert fixed.names[-1] == "body_size"
