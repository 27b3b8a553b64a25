"""Places in single queues, each made by hand: what is found, what is cut, what is written again, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rmq_store.disk.disk import Buffer, File, RealDisk, write_all
from rmq_store.layouts import EXT_UNIT, QUEUE_UNIT
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import NOTHING, ConsumeQueue
from rmq_store.queues.extended_queue import ExtendedConsumeQueue
from rmq_store.queues.key_heads import KeyHeads
from rmq_store.recovery import queue_repair
from rmq_wire.layout.consume_queue import EXT_ADDRESS_FIRST, EXT_ADDRESS_LAST
from tests.store.queue_kit import (
    CODE,
    FILLER,
    KINDS,
    SIZE,
    UNIT,
    bytes_of,
    ending,
    found,
    physical,
    queue_of,
    segments_of,
    unit,
)
from tests.support.memory_disk import MemoryDisk

# --- places


def test_fillers_between_messages_are_passed_over() -> None:
    queue = queue_of([FILLER, FILLER, unit(2), unit(3), FILLER, FILLER, unit(6), FILLER], 10)
    queue_repair.find_end(queue)
    at = [queue_repair.first_at_or_after(queue, physical(number)) for number in range(8)]
    assert at == [2, 2, 2, 3, 6, 6, 6, 8]


@KINDS
@pytest.mark.parametrize("first", [0, 30])
def test_a_place_is_found_by_offset_and_by_position(kind: type[ConsumeQueue], first: int) -> None:
    low, high = first * 10, first * 10 + 25
    queue = queue_of([UNIT[kind](number) for number in range(low, high)], 10, first=first, kind=kind)
    queue_repair.find_end(queue)
    each = 3 if kind is BatchConsumeQueue else 1
    for place in range(low, high):
        for offset in range(place * each, (place + 1) * each):
            assert queue_repair.place_of(queue, offset) == place
            assert queue_repair.unit_at(queue, offset) == (physical(place), SIZE, CODE)
        for position in (physical(place) - 99, physical(place)):
            assert queue_repair.first_at_or_after(queue, position) == place
            queue_repair.correct_min(queue, position)
            assert queue.min_offset == place * each
    assert queue_repair.place_of(queue, high * each) == high
    assert queue_repair.first_at_or_after(queue, 0) == low
    assert queue_repair.first_at_or_after(queue, physical(high)) == high
    queue_repair.correct_min(queue, physical(high))
    assert queue.min_offset == queue.max_offset == high * each


@KINDS
def test_a_queue_without_files_has_no_place_but_its_end(kind: type[ConsumeQueue]) -> None:
    queue = queue_of([], 10, kind=kind)
    queue.max_offset = 7
    if isinstance(queue, BatchConsumeQueue):
        queue.end_place = 7
    assert queue_repair.first_at_or_after(queue, 0) == 7
    queue_repair.correct_min(queue, 0)
    assert queue.min_offset == 7


# --- cutting


@KINDS
@pytest.mark.parametrize("place", [300, 301, 304, 305, 309, 310, 311, 320, 321, 324, 325])
def test_what_is_cut_is_gone_from_the_files_too(kind: type[ConsumeQueue], place: int) -> None:
    units = [UNIT[kind](number) for number in range(300, 325)]
    queue = queue_of(units, 10, first=30, kind=kind)
    queue_repair.find_end(queue)
    queue_repair.cut_to(queue, place)
    kept = b"".join(units[: place - 300])
    assert bytes_of(queue).rstrip(b"\0") == kept.rstrip(b"\0")
    assert queue.segments.starts == [number * 10 * kind.unit_bytes for number in range(30, -(-place // 10))]
    if place > 300:
        assert found(queue) == ending(place)
    else:
        assert (queue.max_offset, queue.end_physical) == (900 if queue.is_batch else 300, NOTHING)
    if isinstance(queue, BatchConsumeQueue):
        assert queue.bases == {start: start // kind.unit_bytes * 3 for start in queue.segments.starts}
        assert queue.end_place == (place if place > 300 else 0)


@pytest.mark.parametrize("files", [1, 2])
def test_fillers_behind_messages_stay(files: int) -> None:
    """Without them the queue would have a hole."""
    units = [*map(unit, range(files * 10)), FILLER, FILLER, unit(files * 10 + 2)]
    queue = queue_of(units, 10)
    queue_repair.find_end(queue)
    queue_repair.cut_to(queue, files * 10 + 2)
    assert len(queue.segments.starts) == files + 1
    assert bytes_of(queue) == b"".join(units[:-1]).ljust((files + 1) * 200, b"\0")


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_file_that_would_have_fillers_alone_goes(place: int) -> None:
    queue = queue_of([FILLER, FILLER, FILLER, unit(3), unit(4)], 10)
    queue_repair.find_end(queue)
    queue_repair.cut_to(queue, place)
    assert queue.segments.starts == []
    assert found(queue) == (place, NOTHING)


def test_a_file_with_a_message_behind_its_fillers_stays() -> None:
    queue = queue_of([FILLER, FILLER, unit(2), unit(3)], 10)
    queue_repair.find_end(queue)
    queue_repair.cut_to(queue, 3)
    assert found(queue) == ending(3)
    assert bytes_of(queue).rstrip(b"\0") == FILLER + FILLER + unit(2)


# --- gaps


@pytest.mark.parametrize("pieces", [2, 3, 4, 100])
def test_a_gap_is_bridged_to_the_offset_and_no_further(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    monkeypatch.setattr(queue_repair, "SCAN_UNITS", pieces)
    queue = queue_of([unit(number) for number in range(300, 304)], 10, first=30)
    queue_repair.find_end(queue)
    dirty: dict[str, int] = {}
    queue_repair.bridge(queue, 317, 99_999, 55, dirty)
    assert queue.max_offset == 317
    assert queue.end_physical == ending(304)[1], "the message itself is still to come"
    assert queue.pending == []
    leads = QUEUE_UNIT.pack(99_999, 55, 0)
    assert bytes_of(queue) == (b"".join(map(unit, range(300, 304))) + leads * 13).ljust(400, b"\0")
    assert dirty.keys() == {queue.segments.path(6_000), queue.segments.path(6_200)}


# --- zeros, and writing again


@pytest.mark.parametrize("piece", [1, 7, 100, 300, 4096, 1 << 20])
@pytest.mark.parametrize("within", [0, 1, 99, 4096, 4100, 9_000])
def test_zeros_are_put_where_anything_else_is(monkeypatch: pytest.MonkeyPatch, piece: int, within: int) -> None:
    monkeypatch.setattr(queue_repair, "ZEROS_BYTES", piece)
    disk = MemoryDisk()
    data = bytearray(12_288)
    data[50:60] = data[4_090:4_110] = b"x" * 10
    data[8_999:9_001] = b"yy"
    file = disk.create("/file", len(data))
    file.write_at(0, data)
    disk.log.clear()
    total = queue_repair.zero_from(file, within)
    assert file.read_at(0, len(data)) == bytes(data[:within]).ljust(len(data), b"\0")
    written = [(at, size) for operation, _, at, size in disk.log if operation == "write"]
    assert total == sum(size for _, size in written)
    assert all(at >= within and size <= piece and any(data[at : at + size]) for at, size in written)
    assert queue_repair.zero_from(file, within) == 0


@pytest.mark.parametrize("piece", [1, 7, 100, 4096, 1 << 20])
def test_all_that_a_file_shows_is_written_again(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(queue_repair, "ZEROS_BYTES", piece)
    disk = MemoryDisk()
    data = bytes(8_192) + b"ab" * 2_100 + bytes(12_000) + b"c"
    file = disk.create("/file", len(data))
    file.write_at(0, data)
    disk.log.clear()
    queue_repair.write_again(file)
    assert file.read_at(0, len(data) + 1) == data
    written = {at + n for operation, _, at, size in disk.log if operation == "write" for n in range(size)}
    assert written >= {at for at, byte in enumerate(data) if byte}
    assert written <= {at for low, high in file.data_ranges(0) for at in range(low, high)}, "holes stay holes"
    assert all(size <= piece for _, _, _, size in disk.log)


def test_a_file_of_the_real_disk_is_written_again_and_cleared(disk_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().create(str(disk_path / "file"), 100_000)
    data = b"ab" * 2_100 + bytes(80_000) + b"c" * 15_800
    file.write_at(0, data)
    again = bytearray(len(data))

    def written(file: File, offset: int, data: Buffer) -> None:
        again[offset : offset + len(data)] = data
        write_all(file, offset, data)

    monkeypatch.setattr(queue_repair, "write_all", written)
    queue_repair.write_again(file)
    assert file.read_at(0, 100_001) == again == data
    assert queue_repair.zero_from(file, 90_001) >= 9_999
    assert file.read_at(0, 100_001) == data[:90_001].ljust(100_000, b"\0")


# --- extensions


EXT_FILE = 100


def extension(size: int = EXT_UNIT.size) -> bytes:
    return EXT_UNIT.pack(size, CODE, 0, size - EXT_UNIT.size) + b"\xaa" * (size - EXT_UNIT.size)


def extended(addresses: Sequence[int], ext: bytes, first: int = 0) -> ExtendedConsumeQueue:
    """An entry for each address; -1 stands for one that leads to none."""
    disk = MemoryDisk()
    units = [unit(number, EXT_ADDRESS_FIRST + at if at >= 0 else CODE) for number, at in enumerate(addresses)]
    segments = segments_of(disk, "/q", 10 * QUEUE_UNIT.size, b"".join(units), first)
    return ExtendedConsumeQueue("T", 0, segments, KeyHeads("T"), segments_of(disk, "/e", EXT_FILE, ext), True)


EXTENSIONS = extension() * 3 + extension(30) + bytes(10) + extension() * 2 + extension(30) + extension() + bytes(10) + extension()
"""At 0, 20, 40, 60; in the next file at 100, 120, 140, 170; in the last at 200.  Those at 60 and 140 have a bit map."""


@pytest.mark.parametrize("find", [queue_repair.find_end, queue_repair.scan_end])
@pytest.mark.parametrize(
    ("address", "end"),
    [(-1, 0), (0, 20), (20, 40), (40, 60), (60, 90), (100, 120), (140, 170), (170, 190), (200, 220), (260, 280), (400, 420)],
)
@pytest.mark.parametrize(("before", "behind"), [(1, 0), (1, 1), (1, 2), (1, 12), (12, 0), (12, 3), (12, 9)])
def test_extensions_end_behind_the_last_that_an_entry_leads_to(
    monkeypatch: pytest.MonkeyPatch, find: object, address: int, end: int, before: int, behind: int
) -> None:
    """However many entries without one come after it; what follows is cleared."""
    monkeypatch.setattr(queue_repair, "SCAN_UNITS", 4)
    queue = extended([-1] * before + [0 if address >= 0 else -1, address] + [-1] * behind, EXTENSIONS)
    assert callable(find)
    find(queue)
    assert queue.ext_end == end
    assert queue.ext.starts == [start for start in (0, 100, 200) if start < end]
    left = b"".join(queue.ext.file(start).read_at(0, EXT_FILE) for start in queue.ext.starts)
    assert left == EXTENSIONS[:end].ljust(300, b"\0")[: len(left)]


@pytest.mark.parametrize(("code", "end"), [(EXT_ADDRESS_LAST, True), (EXT_ADDRESS_LAST + 1, False)])
def test_the_greatest_address_is_one_and_the_least_hash_is_none(code: int, end: bool) -> None:
    queue = extended([code - EXT_ADDRESS_FIRST], b"")
    queue_repair.find_end(queue)
    assert queue.ext_end == (code - EXT_ADDRESS_FIRST + EXT_UNIT.size if end else 0)


@pytest.mark.parametrize(("address", "end"), [(-1, 0), (40, 60)])
def test_a_queue_without_its_first_files_has_extensions(address: int, end: int) -> None:
    queue = extended([address] + [-1] * 24, EXTENSIONS, first=30)
    queue_repair.find_end(queue)
    assert (queue.max_offset, queue.ext_end) == (325, end)


def test_extensions_of_a_queue_without_entries_go() -> None:
    queue = extended([], EXTENSIONS)
    queue_repair.find_end(queue)
    assert queue.ext_end == 0
    assert queue.ext.starts == []
