"""Ends and places of single queues, each made by hand: what is found, what is cut, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rmq_store.disk.disk import Buffer, File, RealDisk, write_all
from rmq_store.disk.segments import OpenFiles, Segments
from rmq_store.layouts import BATCH_UNIT, EXT_UNIT, QUEUE_UNIT
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import NOTHING, PRE_BLANK, ConsumeQueue
from rmq_store.queues.extended_queue import ExtendedConsumeQueue
from rmq_store.queues.key_heads import KeyHeads
from rmq_store.recovery import queue_repair
from rmq_wire.layout.consume_queue import EXT_ADDRESS_FIRST, EXT_ADDRESS_LAST
from tests.support.memory_disk import MemoryDisk

PAGE = queue_repair.PAGE_UNITS
SIZE = 90
"""Bytes of a message; the first begins at 0, each next one a hundred further on."""
CODE = 77
FILLER = PRE_BLANK
EXT_FILE = 100


def physical(number: int) -> int:
    return number * 100


def unit(number: int, code: int = CODE) -> bytes:
    return QUEUE_UNIT.pack(physical(number), SIZE, code)


def batch(number: int, count: int = 3) -> bytes:
    """Holds as many offsets as all before it."""
    return BATCH_UNIT.pack(physical(number), SIZE, CODE, 0, number * 3, count, -1, 0)


UNIT = {ConsumeQueue: unit, BatchConsumeQueue: batch}
KINDS = pytest.mark.parametrize("kind", [ConsumeQueue, BatchConsumeQueue], ids=["plain", "batch"])


def segments_of(disk: MemoryDisk, directory: str, file_bytes: int, data: bytes, first: int = 0) -> Segments:
    """Files with these bytes and zeros behind them, from the file number `first` on."""
    segments = Segments(OpenFiles(disk, 8), directory, file_bytes, {})
    for at in range(0, len(data), file_bytes):
        segments.create(first * file_bytes + at).write_at(0, data[at : at + file_bytes])
    return segments


def queue_of(
    units: Sequence[bytes],
    per_file: int,
    *,
    first: int = 0,
    kind: type[ConsumeQueue] = ConsumeQueue,
    disk: MemoryDisk | None = None,
) -> ConsumeQueue:
    """Its files as they lie there; nobody has looked at them yet."""
    segments = segments_of(disk or MemoryDisk(), "/q", per_file * kind.unit_bytes, b"".join(units), first)
    queue = kind("T", 0, segments, KeyHeads("T"))
    queue.max_offset = queue.next_offset = queue.end_physical = 4711
    return queue


def found(queue: ConsumeQueue) -> tuple[int, int]:
    """Units, counted from the first there ever was, and where the last one's message ends."""
    assert queue.next_offset == queue.max_offset
    if isinstance(queue, BatchConsumeQueue):
        assert queue.max_offset == queue.end_place * 3
        return queue.end_place, queue.end_physical
    return queue.max_offset, queue.end_physical


def ending(count: int) -> tuple[int, int]:
    """What is found of so many units."""
    return count, physical(count - 1) + SIZE if count else NOTHING


def bytes_of(queue: ConsumeQueue) -> bytes:
    segments = queue.segments
    return b"".join(segments.file(start).read_at(0, segments.file_bytes) for start in segments.starts)


# --- after a clean stop


@KINDS
@pytest.mark.parametrize("count", [1, 2, PAGE - 1, PAGE, PAGE + 1, PAGE + 2, 150, 199, 200])
@pytest.mark.parametrize("first", [0, 3])
def test_the_end_is_found_wherever_it_is(kind: type[ConsumeQueue], count: int, first: int) -> None:
    """Within the page that is read first, at its end, behind it, at the end of the file."""
    units = [UNIT[kind](first * 200 + number) for number in range(count)]
    queue = queue_of(units, 200, first=first, kind=kind)
    queue_repair.find_end(queue)
    assert found(queue) == ending(first * 200 + count)


@KINDS
@pytest.mark.parametrize("count", [11, 15, 20, 21, 30])
def test_the_end_is_found_in_the_last_file(kind: type[ConsumeQueue], count: int) -> None:
    queue = queue_of([UNIT[kind](number) for number in range(count)], 10, kind=kind)
    queue_repair.find_end(queue)
    assert found(queue) == ending(count)


@KINDS
@pytest.mark.parametrize("count", [0, 10, 17, 20])
def test_files_without_a_unit_go_and_the_end_is_in_the_one_before(kind: type[ConsumeQueue], count: int) -> None:
    units = [UNIT[kind](number) for number in range(count)]
    rest = bytes((40 - count) * kind.unit_bytes)
    queue = queue_of([*units, rest], 10, kind=kind)
    queue_repair.find_end(queue)
    assert found(queue) == ending(count)
    assert queue.segments.starts == [start * 10 * kind.unit_bytes for start in range(-(-count // 10))]


@KINDS
def test_a_file_may_have_room_for_one_unit_only(kind: type[ConsumeQueue]) -> None:
    queue = queue_of([UNIT[kind](number) for number in range(3)], 1, kind=kind)
    queue_repair.find_end(queue)
    assert found(queue) == ending(3)


@pytest.mark.parametrize("size", [128, 1 << 15, 1 << 23, 0x7FFFFFFE])
def test_messages_may_be_of_any_size(size: int) -> None:
    queue = queue_of([QUEUE_UNIT.pack(number, size, CODE) for number in range(5)], 200)
    queue_repair.find_end(queue)
    assert found(queue) == (5, 4 + size)


@pytest.mark.parametrize(
    ("position", "size", "is_unit"),
    [(0, 1, True), (0, 90, True), (1, 1, True), (-1, 90, False), (-5, 90, False), (7, 0, False), (7, -1, False), (7, -90, False)],
)
def test_a_unit_leads_to_a_position_and_some_bytes(position: int, size: int, is_unit: bool) -> None:
    for look in (queue_repair.find_end, queue_repair.scan_end):
        queue = queue_of([QUEUE_UNIT.pack(position, size, CODE)], 10)
        look(queue)
        assert found(queue) == ((1, position + size) if is_unit else (0, NOTHING))


@pytest.mark.parametrize("place", range(4))
def test_few_pieces_of_a_queue_are_read_to_find_its_end(place: int) -> None:
    """A queue of few messages is seen at once; a long one is halved."""
    reads: list[str] = []
    disk = MemoryDisk()
    queue = queue_of([unit(number) for number in range([1, PAGE - 1, PAGE, 30_000][place])], 32_768, disk=disk)
    disk.before = lambda operation, path: reads.append(path) if operation == "read" else None
    queue_repair.find_end(queue)
    at_most = [2, 2, 20, 20][place]
    assert len(reads) <= at_most


# --- after an unclean stop


@KINDS
@pytest.mark.parametrize("count", [1, 5, 9, 10, 11, 20, 29, 30, 31, 45, 50])
def test_all_units_that_make_sense_are_kept(kind: type[ConsumeQueue], count: int) -> None:
    """Only the last three files are looked at."""
    units = [UNIT[kind](number) for number in range(count)]
    queue = queue_of(units, 10, kind=kind)
    before = bytes_of(queue)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(count)
    assert bytes_of(queue) == before


@KINDS
def test_a_queue_without_files_has_nothing(kind: type[ConsumeQueue]) -> None:
    for look in (queue_repair.find_end, queue_repair.scan_end):
        queue = queue_of([], 10, kind=kind)
        look(queue)
        assert found(queue) == ending(0)


@KINDS
@pytest.mark.parametrize("bad", [21, 25, 29, 30, 31, 40, 44])
@pytest.mark.parametrize("how", ["zeros", "older", "again"])
def test_the_end_is_before_the_first_unit_that_cannot_be(kind: type[ConsumeQueue], bad: int, how: str) -> None:
    """What was behind it does not come back."""
    units = [UNIT[kind](number) for number in range(45)]
    units[bad] = {"zeros": bytes(kind.unit_bytes), "older": UNIT[kind](bad - 2), "again": UNIT[kind](bad - 1)}[how]
    queue = queue_of(units, 10, kind=kind)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(bad)
    assert bytes_of(queue).rstrip(b"\0") == b"".join(units[:bad]).rstrip(b"\0")
    assert len(queue.segments.starts) == -(-bad // 10)


@KINDS
def test_no_more_than_three_files_are_looked_at(kind: type[ConsumeQueue]) -> None:
    units = [UNIT[kind](number) for number in range(45)]
    units[19] = bytes(kind.unit_bytes)
    queue = queue_of(units, 10, kind=kind)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(45)


@KINDS
@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_files_behind_a_missing_one_go(kind: type[ConsumeQueue], gone: int) -> None:
    queue = queue_of([UNIT[kind](number) for number in range(50)], 10, kind=kind)
    queue.segments.remove(gone * 10 * kind.unit_bytes)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(gone * 10)
    assert queue.segments.starts == [number * 10 * kind.unit_bytes for number in range(gone)]


@KINDS
@pytest.mark.parametrize("bad", [2, 3, 4, 7, 8, 9])
def test_a_file_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch, kind: type[ConsumeQueue], bad: int) -> None:
    monkeypatch.setattr(queue_repair, "SCAN_UNITS", 4)
    units = [UNIT[kind](number) for number in range(10)]
    whole = queue_of(units, 10, kind=kind)
    queue_repair.scan_end(whole)
    assert found(whole) == ending(10)
    units[bad] = UNIT[kind](bad - 1)
    queue = queue_of(units, 10, kind=kind)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(bad)


def test_a_batch_has_to_begin_where_the_one_before_ends() -> None:
    units = [batch(number) for number in range(25)]
    units[13] = BATCH_UNIT.pack(physical(13), SIZE, CODE, 0, 13 * 3 + 1, 3, -1, 0)
    queue = queue_of(units, 10, kind=BatchConsumeQueue)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(13)


@pytest.mark.parametrize("position", [-1, 11, 12])
def test_batches_are_in_the_order_of_the_log(position: int) -> None:
    """Whatever their offsets say."""
    units = [batch(number) for number in range(25)]
    units[13] = BATCH_UNIT.pack(physical(position), SIZE, CODE, 0, 13 * 3, 3, -1, 0)
    queue = queue_of(units, 10, kind=BatchConsumeQueue)
    queue_repair.scan_end(queue)
    assert found(queue) == ending(13)


def test_fillers_are_counted_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_repair, "SCAN_UNITS", 4)
    queue = queue_of([FILLER] * 10, 10, first=30)
    queue_repair.scan_end(queue)
    assert found(queue) == (310, NOTHING)
    assert queue.segments.starts == [6_000], "nothing of it was cut"


@KINDS
@pytest.mark.parametrize("first", [0, 30])
def test_of_a_queue_that_makes_no_sense_nothing_is_left(kind: type[ConsumeQueue], first: int) -> None:
    queue = queue_of([bytes(kind.unit_bytes), *[UNIT[kind](number) for number in range(1, 15)]], 10, first=first, kind=kind)
    queue_repair.scan_end(queue)
    assert queue.segments.starts == []
    assert queue.end_physical == NOTHING
    assert queue.max_offset == (0 if queue.is_batch else first * 10), "whatever it said before"


def test_fillers_make_sense_anywhere_and_are_no_message() -> None:
    units = [FILLER, FILLER, unit(2), unit(3), FILLER]
    queue = queue_of(units, 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (5, NOTHING)
    units[4:] = [FILLER, unit(3)]
    queue = queue_of(units, 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (5, NOTHING), "the order of messages counts over fillers"


def test_entries_over_a_gap_lead_to_one_message() -> None:
    """Those without tags: so many as there are, and the message's own."""
    bridges = [unit(0), unit(4, 0), unit(4, 0), unit(4, 0), unit(4), unit(5)]
    queue = queue_of(bridges, 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (6, physical(5) + SIZE)
    queue = queue_of([*bridges[:5], unit(4), unit(5)], 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (5, physical(4) + SIZE)
    queue = queue_of([*bridges[:3], unit(3), unit(4)], 10)
    queue_repair.scan_end(queue)
    assert found(queue) == (3, physical(4) + SIZE), "not to an older one"


# --- what is senseless among the newest


@KINDS
@pytest.mark.parametrize("units_max", [1, 9, 10, 11, 15, 25, 44, 45, 60])
def test_senseless_units_are_found_among_the_newest_only(kind: type[ConsumeQueue], units_max: int) -> None:
    units = [UNIT[kind](number) for number in range(45)]
    queue = queue_of(units, 10, kind=kind)
    queue_repair.find_end(queue)
    assert queue_repair.first_senseless(queue, units_max) is None
    assert queue_repair.end_position(queue) == 45 * kind.unit_bytes
    for bad in (44, 43, 40, 39, 31, 30, 29, 12):
        within = bad % 10 * kind.unit_bytes
        file = queue.segments.file(bad // 10 * 10 * kind.unit_bytes)
        was = file.read_at(within, kind.unit_bytes)
        file.write_at(within, bytes(kind.unit_bytes))
        expected = bad * kind.unit_bytes if bad >= 45 - units_max else None
        assert queue_repair.first_senseless(queue, units_max) == expected, bad
        file.write_at(within, was)


@KINDS
@pytest.mark.parametrize(("units_max", "files"), [(5, [40]), (6, [30, 40]), (15, [30, 40]), (16, [20, 30, 40])])
def test_older_files_are_not_even_read(kind: type[ConsumeQueue], units_max: int, files: list[int]) -> None:
    disk = MemoryDisk()
    queue = queue_of([UNIT[kind](number) for number in range(45)], 10, kind=kind, disk=disk)
    queue_repair.find_end(queue)
    read: list[str] = []
    disk.before = lambda operation, path: read.append(path) if operation == "read" else None
    assert queue_repair.first_senseless(queue, units_max) is None
    assert read == [queue.segments.path(place * kind.unit_bytes) for place in files]


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
