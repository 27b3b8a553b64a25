"""One declaration of every layout: pinned as text, and the derived structs read and write what construct does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from construct import BytesInteger, Flag, Int16ul, Int32sb, Int64sb, Prefixed, Struct
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.layout import checkpoint, consume_queue, frame, index, message, replication, timer
from rmq_wire.layout.flat import flat
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
