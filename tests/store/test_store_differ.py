"""The differ, with one byte changed in each kind of file: it must name the file, the byte and the field that holds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from construct import Struct

from rmq_wire.layout import checkpoint, consume_queue, index
from rmq_wire.layout.message import fixed
from rmq_wire.message import read_unit
from tests.support.golden import STORE, store_files, store_sizes
from tests.support.store_differ import DATA, Difference, Files, by_age, differences, first_difference, main, read_files

SLOTS = 100
"""maxHashSlotNum of the golden store."""
LOG = "commitlog/00000000000000000000"
QUEUE = "consumequeue/kinds-5_5_0/1/00000000000000000000"


@pytest.fixture(scope="module")
def store() -> Files:
    files = {name: data for part in (*DATA, "checkpoint", "config") for name, data in store_files(part).items()}
    return by_age(files | {"checkpoint": (STORE / "checkpoint").read_bytes().ljust(store_sizes()["checkpoint"], b"\0")})


def changed(store: Files, name: str, at: int) -> dict[str, bytes]:
    """The store with the bits of one byte turned."""
    data = bytearray(store[name])
    data[at] ^= 0xFF
    return {**store, name: bytes(data)}


def found(store: Files, name: str, at: int) -> Difference:
    difference = first_difference(store, changed(store, name, at), hash_slots=SLOTS)
    assert difference is not None
    assert difference == first_difference(store, changed(store, name, at), hash_slots=SLOTS)
    assert difference.file == name
    return difference


def fields(layout: Struct) -> list[tuple[str, int, int]]:
    """Name, first byte, size of each field, by construct alone."""
    at, reported = 0, []
    for field in layout.subcons:
        reported.append((str(field.name), at, field.sizeof()))
        at += field.sizeof()
    return reported


def test_the_same_is_the_same(store: Files) -> None:
    assert first_difference(store, dict(store)) is None


def test_every_byte_of_a_message_unit(store: Files) -> None:
    first = read_unit(store[LOG])
    begin, unit = first.total_size, read_unit(store[LOG], first.total_size)
    ranges = fields(fixed(born_v6=False, store_v6=False))
    sizes = {
        "body": len(unit.body),
        "topic_size": 1,
        "topic": len(unit.topic),
        "properties_size": 2,
        "properties": len(unit.properties),
    }
    for name, size in sizes.items():
        ranges.append((name, ranges[-1][1] + ranges[-1][2], size))
    assert ranges[-1][1] + ranges[-1][2] == unit.total_size
    title = f"unit 1 ({unit.topic.decode()} queue {unit.queue_id} offset {unit.queue_offset}): "
    for name, at, size in ranges:
        for offset in range(begin + at, begin + at + size):
            difference = found(store, LOG, offset)
            assert (difference.offset, difference.field) == (offset, title + name)


def test_whichever_side_is_damaged(store: Files) -> None:
    spoilt = changed(store, LOG, 4)  # the magic: this side's unit cannot be read any more
    for pair in ((store, spoilt), (spoilt, store)):
        difference = first_difference(*pair)
        assert difference is not None
        assert difference.field.endswith("magic")


def test_the_blank_and_what_lies_behind_it(store: Files) -> None:
    at = 0
    while (size := int.from_bytes(store[LOG][at : at + 4], "big")) != len(store[LOG]) - at:
        at += size
    assert found(store, LOG, at).field == "blank: total_size"
    assert found(store, LOG, at + 5).field == "blank: magic"
    assert found(store, LOG, at + 8).field == f"byte after the last unit at {at}"


def test_every_byte_of_a_queue_entry(store: Files) -> None:
    size = consume_queue.UNIT.sizeof()
    for name, at, width in fields(consume_queue.UNIT):
        for offset in range(2 * size + at, 2 * size + at + width):
            assert found(store, QUEUE, offset)[1:3] == (offset, f"entry 2: {name}")


def test_every_byte_of_an_index_header_a_slot_and_an_entry(store: Files) -> None:
    name = "index/000"
    for field, at, width in fields(index.HEADER):
        for offset in range(at, at + width):
            assert found(store, name, offset)[1:3] == (offset, f"header: {field}")
    slot_at = index.HEADER.sizeof() + 7 * index.SLOT.sizeof()
    assert found(store, name, slot_at + 3).field == "slot 7: newest"
    entry_at = index.HEADER.sizeof() + SLOTS * index.SLOT.sizeof() + 3 * index.ENTRY.sizeof()
    for field, at, width in fields(index.ENTRY):
        for offset in range(entry_at + at, entry_at + at + width):
            assert found(store, name, offset)[1:3] == (offset, f"entry 3: {field}")


def test_every_byte_of_the_checkpoint(store: Files) -> None:
    for field, at, width in fields(checkpoint.FIELDS):
        for offset in range(at, at + width):
            assert found(store, "checkpoint", offset)[1:3] == (offset, field)
    assert found(store, "checkpoint", checkpoint.FIELDS.sizeof()).field == "byte"


def test_a_value_of_a_configuration_file_and_its_style(store: Files) -> None:
    name = "config/topics.json"
    text = store[name]
    difference = first_difference(store, {**store, name: text.replace(b'"readQueueNums":8', b'"readQueueNums":9', 1)})
    assert difference is not None
    assert difference.field.endswith("/readQueueNums")
    assert (difference.left, difference.right) == ("8", "9")
    restyled = first_difference(store, {**store, name: text.replace(b"\t", b"  ", 1)})
    assert restyled is not None
    assert (restyled.field, restyled.offset) == ("style", text.index(b"\t"))


def test_a_file_that_only_one_side_has_and_one_that_is_shorter(store: Files) -> None:
    without = {name: data for name, data in store.items() if name != QUEUE}
    assert first_difference(store, without) == Difference(QUEUE, -1, "file", f"{len(store[QUEUE])} bytes", "absent")
    cut = {**store, QUEUE: store[QUEUE][:40]}
    assert first_difference(store, cut) == Difference(QUEUE, 40, "length", f"{len(store[QUEUE])} bytes", "40 bytes")


def test_one_difference_for_each_file(store: Files) -> None:
    spoilt = changed(changed(store, LOG, 40), QUEUE, 25)
    assert [(d.file, d.offset) for d in differences(store, spoilt, hash_slots=SLOTS)] == [(LOG, 40), (QUEUE, 25)]


def test_two_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str], store: Files) -> None:
    for side, index_name in (("a", "20260101000000000"), ("b", "20270101000000000")):
        for name, data in store.items():
            path = tmp_path / side / name.replace("index/000", f"index/{index_name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    sides = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main([*sides, "--hash-slots", str(SLOTS)]) == 0
    assert by_age(read_files(tmp_path / "a")) == by_age(read_files(tmp_path / "b"))
    with (tmp_path / "b" / LOG).open("r+b") as log:
        log.seek(3)
        log.write(b"\xff")
    assert main(sides) == 1
    assert f"{LOG} at byte 3: unit 0" in capsys.readouterr().out
    assert main([*sides, "--only", "consumequeue"]) == 0
    assert main([str(tmp_path / "absent"), sides[0]]) == 2
