"""How many slots an index file has is found whatever they are, also where it is damaged, or not all of it was written yet."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as some

from rmq_columns.decode.index_slots import Header, geometry_of, likely_geometry
from rmq_wire.layout.index import DEFAULT_ENTRIES, DEFAULT_SLOTS, ENTRY_FLAT, HEADER_FLAT, SLOT_FLAT, Geometry, divided

HASHES = some.lists(some.integers(1 << 16, (1 << 31) - 1), min_size=8, max_size=90)


class Bytes:
    """An open file of these bytes."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = bytes(data)

    def read(self, at: int, size: int) -> bytes:
        return self.data[at : at + size]

    def data_ranges(self, start: int = 0) -> Iterator[tuple[int, int]]:
        yield start, len(self.data)


def index_file(geometry: Geometry, hashes: list[int], first: int, keys: int = 1) -> tuple[bytearray, Header]:
    """As `IndexFile.putKey` leaves it: a message of 100 bytes for so many hashes, one after the other."""
    data = bytearray(geometry.size)
    newest: dict[int, int] = {}
    for number, key_hash in enumerate(hashes, 1):
        slot = key_hash % geometry.slots
        entry = (key_hash, first + 100 * ((number - 1) // keys), number, newest.get(slot, 0))
        ENTRY_FLAT.packed.pack_into(data, geometry.entry_at(number), *entry)
        SLOT_FLAT.packed.pack_into(data, geometry.slot_at(slot), number)
        newest[slot] = number
    last, count = first + 100 * ((len(hashes) - 1) // keys), len(hashes) + 1
    HEADER_FLAT.packed.pack_into(data, 0, 1, 2, first, last, len(newest), count)
    return data, Header(first, last, count)


def test_the_default_file_has_420000040_bytes() -> None:
    assert Geometry(DEFAULT_SLOTS, DEFAULT_ENTRIES).size == 420_000_040
    assert geometry_of(Bytes(b""), 420_000_040, Header(0, 0, 0)) == (DEFAULT_SLOTS, DEFAULT_ENTRIES)


@given(some.integers(2, 300), some.integers(91, 700), HASHES, some.sampled_from([0, 7, 1 << 40]))
@example(67, 91, [1 << 16] * 6 + [14693167, 64271499], 0)  # slots 7 and 10 look like an entry of a file of two slots
def test_it_is_found(slots: int, entries: int, hashes: list[int], first: int) -> None:
    wanted = Geometry(slots, entries)
    data, header = index_file(wanted, hashes, first)
    assert divided(len(data), slots) == wanted
    assert geometry_of(Bytes(data), len(data), header) == likely_geometry(Bytes(data), len(data), header) == wanted


@given(some.integers(2, 300), HASHES)
def test_it_is_found_where_the_newest_entry_is_damaged_or_its_slot_was_not_written_yet(slots: int, hashes: list[int]) -> None:
    wanted = Geometry(slots, 97)
    data, header = index_file(wanted, hashes, 1000)
    at = wanted.entry_at(len(hashes))
    data[at : at + ENTRY_FLAT.size] = b"\xff" * ENTRY_FLAT.size
    assert likely_geometry(Bytes(data), len(data), header) == wanted


@given(some.integers(2, 300), some.integers(91, 700), HASHES, some.sampled_from(["entry", "unused", "header"]), some.data())
def test_it_is_found_where_the_first_entry_is_damaged(
    slots: int, entries: int, hashes: list[int], where: str, some_data: some.DataObject
) -> None:
    """On sizes that tell nothing the newest entry is as good a beginning as the first; all of one message count as one."""
    wanted = Geometry(slots, entries)
    data, header = index_file(wanted, hashes, 1000, keys=some_data.draw(some.integers(1, 3)))
    at = wanted.entry_at(0 if where == "unused" else 1)
    if where == "header":
        header = header._replace(begin_physical_offset=1 << 60)
    else:
        data[at : at + ENTRY_FLAT.size] = b"\xff" * ENTRY_FLAT.size
    assert likely_geometry(Bytes(data), len(data), header) == wanted


def test_a_file_without_entries_has_what_its_size_says() -> None:
    usual, other = Geometry(50, 200), Geometry(50, 197)
    for empty in (Header(0, 0, 0), Header(0, 0, 1)):
        assert likely_geometry(Bytes(bytes(usual.size)), usual.size, empty) == usual
        assert geometry_of(Bytes(bytes(usual.size)), usual.size, empty) is None
        assert likely_geometry(Bytes(bytes(other.size)), other.size, empty) is None
