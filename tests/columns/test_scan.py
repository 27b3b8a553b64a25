"""The scan of a log file: what it yields tiles the file, and damage costs no more than the units it hit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_columns.decode import scan as scanning
from rmq_columns.decode.scan import Batch, End, Ending, Gap, scan
from rmq_columns.decode.units import Fault
from rmq_wire.message import pack_blank, pack_unit, read_unit
from tests.support.given import damaged
from tests.support.golden import store_files

FILE_BYTES = 8192
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


@dataclass
class Held:
    """A file in memory that counts what is read of it."""

    data: bytes
    bytes_read: int = 0

    def size(self) -> int:
        return len(self.data)

    def read(self, at: int, size: int) -> bytes:
        self.bytes_read += size
        return self.data[at : at + size]

    def read_into(self, at: int, buffer: memoryview) -> int:
        piece = self.data[at : at + len(buffer)]
        buffer[: len(piece)] = piece
        self.bytes_read += len(piece)
        return len(piece)

    def data_ranges(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """Holes of 512 bytes, as a file system with small blocks would have them."""
        for at in range(start, len(self.data), 512):
            if any(self.data[at : at + 512]):
                yield at, min(at + 512, len(self.data))


def unit(at: int, body: bytes, properties: bytes = b"TAGS\x01T\x02") -> bytes:
    return pack_unit(0, 0, 0, at, 0, 0, HOST, 0, HOST, 0, 0, body, b"Topic", properties)


def log_file(start: int = 0, blank: bool = True, size: int = FILE_BYTES) -> tuple[bytearray, list[int]]:
    """A file full of units of different sizes, and where they begin."""
    raw, places = bytearray(), []
    number = 0
    while True:
        made = unit(start + len(raw), bytes([number % 251]) * (number * 37 % 300))
        if len(raw) + len(made) + 8 > size:
            break
        places.append(len(raw))
        raw += made
        number += 1
    if blank:
        raw += pack_blank(size - len(raw))
    return raw.ljust(size, b"\0"), places


def run(raw: bytes, start: int = 0, block_bytes: int = 1024) -> tuple[list[int], list[Gap], End]:
    """Places of the units, gaps, end; checks that together they tile the file."""
    at, places, gaps = 0, [], []
    for item in scan(Held(bytes(raw)), start, block_bytes=block_bytes):
        if isinstance(item, Batch):
            for begin, size in zip(item.units.at.tolist(), item.units["total_size"].tolist(), strict=True):
                assert item.base + begin == at
                assert bytes(item.buffer[begin : begin + size]) == raw[at : at + size]
                assert read_unit(bytes(raw), at).total_size == size
                places.append(at)
                at += size
        elif isinstance(item, Gap):
            assert item.start == at
            assert item.end > at
            assert item.is_zero is not any(raw[item.start : item.end])
            gaps.append(item)
            at = item.end
        else:
            assert item.at == at
            return places, gaps, item
    raise AssertionError("no end")


@pytest.mark.parametrize("block_bytes", [64, 300, 1024, 1 << 20])
@pytest.mark.parametrize("start", [0, 1 << 40])
def test_a_sound_file_is_all_units(block_bytes: int, start: int) -> None:
    raw, places = log_file(start)
    found, gaps, end = run(raw, start, block_bytes)
    assert (found, gaps) == (places, [])
    assert (end.how, end.displaced_by) == (Ending.BLANK, 0)
    raw, places = log_file(start, blank=False)
    found, gaps, end = run(raw[: len(raw)], start, block_bytes)
    assert (found, gaps, end.how) == (places, [], Ending.ZEROS)


def test_the_golden_store_has_no_gap() -> None:
    for name, raw in store_files("commitlog").items():
        found, gaps, end = run(raw, int(name.rpartition("/")[2]), 4096)
        assert found
        assert not gaps
        assert end.how in (Ending.BLANK, Ending.ZEROS)


@pytest.mark.parametrize("block_bytes", [200, 1024, 1 << 20])
@pytest.mark.parametrize(
    ("at", "data", "fault"),
    [
        (0, b"\x7f", Fault.SIZE),
        (3, b"\xff", None),
        (0, b"\xff", Fault.SIZE),
        (4, b"\x00", Fault.MAGIC),
        (84, b"\x80", Fault.BODY),
        (0, bytes(91), Fault.SIZE),
    ],
)
def test_a_damaged_unit_is_a_gap_of_its_size(block_bytes: int, at: int, data: bytes, fault: Fault | None) -> None:
    raw, places = log_file()
    hit = places[7]
    raw[hit + at : hit + at + len(data)] = data
    found, gaps, end = run(raw, 0, block_bytes)
    assert found == [*places[:7], *places[8:]]
    [gap] = gaps
    assert (gap.start, gap.end) == (hit, places[8])
    assert fault is None or gap.fault is fault
    assert end.how is Ending.BLANK


def test_zeros_in_the_middle_are_a_gap_of_zeros() -> None:
    raw, places = log_file()
    raw[places[3] : places[12]] = bytes(places[12] - places[3])
    found, [gap], end = run(raw)
    assert found == places[:3] + places[12:]
    assert gap == Gap(places[3], places[12], Fault.SIZE, True)
    assert end.how is Ending.BLANK


def test_ends() -> None:
    raw, places = log_file(blank=False)
    torn = raw[: places[9] + 50] + bytes(len(raw) - places[9] - 50)
    assert run(torn)[2] == End(places[9], Ending.TORN, Fault.BODY, 0) or run(torn)[2].how is Ending.TORN
    assert run(raw[: places[9] + 50])[2] == End(places[9], Ending.TORN, Fault.SIZE, 0)
    assert run(raw[: places[9]])[2].how is Ending.FULL
    assert run(raw[: places[9] + 3])[2].at == places[9]
    raw, places = log_file()
    last = max(range(len(raw) - 8), key=lambda at: raw[at + 4 : at + 8] == b"\xcb\xd4\x31\x94")
    raw[last + 3] ^= 1
    assert run(raw)[2].how is Ending.BLANK_SIZE
    assert run(b"")[2] == End(0, Ending.FULL, Fault.NONE, 0)


def test_a_displaced_file_is_read_where_it_is() -> None:
    raw, places = log_file(3 * FILE_BYTES)
    raw[places[4]] = 0x7F
    found, [gap], end = run(raw, 0)
    assert found == [*places[:4], *places[5:]]
    assert end.displaced_by == 3 * FILE_BYTES
    assert gap.end == places[5]


def test_units_forged_in_a_body_are_not_found() -> None:
    forged = unit(10**6, b"forged") * 3
    raw = unit(0, b"first")
    at = len(raw)
    raw += unit(at, forged)
    behind = len(raw)
    raw += unit(behind, b"last")
    broken = bytearray(raw.ljust(FILE_BYTES, b"\0"))
    broken[at + 4] = 0
    found, [gap], _ = run(broken)
    assert found == [0, behind]
    assert (gap.start, gap.end) == (at, behind)


def test_dense_damage_costs_linear_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "GAPS_MAX", 500)
    raw, places = log_file(size=1 << 17)
    for place in places[::2]:
        raw[place] = 0x7F
    held = Held(bytes(raw))
    items = list(scan(held, 0, block_bytes=4096))
    assert sum(isinstance(item, Gap) for item in items) == len(places[::2])
    assert held.bytes_read < 60 * len(raw)
    monkeypatch.setattr(scanning, "GAPS_MAX", 5)
    items = list(scan(Held(bytes(raw)), 0, block_bytes=4096))
    assert sum(isinstance(item, Gap) for item in items) == 5
    assert isinstance(items[-1], End)
    assert items[-1].how is Ending.HOPELESS


@given(st.data())
def test_whatever_the_bytes_are_the_scan_tiles_them(data: st.DataObject) -> None:
    raw, _ = log_file(size=2048)
    broken = data.draw(st.one_of(damaged(bytes(raw)), st.binary(max_size=600), damaged(bytes(raw)).flatmap(damaged)))
    run(broken, 0, data.draw(st.sampled_from([64, 257, 4096])))


def test_a_unit_larger_than_a_block() -> None:
    raw = unit(0, b"a") + b""
    big_at = len(raw)
    raw += unit(big_at, b"x" * 5000)
    last = len(raw)
    raw += unit(last, b"z")
    places, gaps, end = run(raw.ljust(FILE_BYTES, b"\0"), 0, 200)
    assert (places, gaps, end.how) == ([0, big_at, last], [], Ending.ZEROS)
    assert np.dtype(np.int64).itemsize == 8
