"""What a selector selects of a queue: the same whether it is shown many units at once, one after the other, or as Java does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_store.errors import Cold
from rmq_store.layouts import QUEUE_UNIT
from rmq_store.read.asked import UNITS_MAX, UnitFilter
from rmq_store.read.pull import PIECES_MAX
from rmq_store.results import GetStatus, Read
from rmq_wire.errors import BadRecord
from rmq_wire.message import stored_properties
from rmq_wire.sql92.selector import Selector
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, number_of, small, tags_code, units_of

QUEUE_FILE_UNITS = 1_000


class Each(UnitFilter):
    """Shown unit by unit."""

    rows_max = 1 << 20

    def __init__(self, text: str) -> None:
        self.selector = Selector(text)

    def __call__(self, unit: memoryview, /) -> bool:
        return self.selector.matches_stored(stored_properties(unit))


class Many(Each):
    """Shown as many at once as there are."""

    def add_wanted(self, *asked: Any) -> None:
        self.selector.add_selected(*asked)

    def evaluated(self) -> int:
        return self.selector.evaluated_stored()


def put(rig: Rig, values: list[int], sizes: list[int], queues: int = 1) -> None:
    """Message k with the property `n`, in turn in so many queues."""
    drafts = []
    for number, (value, size) in enumerate(zip(values, sizes, strict=True)):
        one = draft(number, queue_id=number % queues, body_bytes=size, tags="A")
        one.properties += b"n\x01%d\x02" % value
        drafts.append(one)
    for at in range(0, len(drafts), 100):
        rig.put(*drafts[at : at + 100])


def answer(rig: Rig, matches: UnitFilter, *asked: Any, tagged: bool = False) -> tuple[GetStatus | None, int, bytes]:
    """Status, next offset and units; no status where a unit cannot be read.

    `tagged`: a filter of tags, which lets all pass, has it read unit by unit, as the reference does.
    """
    accepts = frozenset([tags_code("A")]) if tagged else None
    for _ in range(200):
        try:
            read: Read = rig.store.read_queue("TopicA", 0, *asked, accepts, matches)
        except Cold as cold:
            cold.run()
        except BadRecord:
            return None, 0, b""
        else:
            units = b"".join(map(bytes, read.chunks))
            assert len(units) == read.size
            return read.status, read.next_offset, units
    raise AssertionError("still cold")


@given(data=st.data())
@settings(max_examples=150)
def test_the_same_however_it_is_shown(data: st.DataObject) -> None:
    """Over the ends of files, at all limits, in memory or not, and with entries of the queue that lie."""
    count = data.draw(st.integers(1, 150))
    limits = data.draw(
        st.fixed_dictionaries(
            {
                "max_transfer_bytes_on_message_in_memory": st.sampled_from([700, 3_000, 1 << 18]),
                "max_transfer_count_on_message_in_memory": st.sampled_from([1, 6, 32]),
                "max_filter_message_size": st.sampled_from([160, 16_000]),
                "physical_memory_bytes": st.sampled_from([20_000, 1 << 40]),
            }
        )
    )
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20, **limits))
    sizes = data.draw(st.lists(st.integers(5, 400), min_size=1, max_size=5))
    values = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=9))
    queues = data.draw(st.integers(1, 3))
    put(rig, [values[n % len(values)] for n in range(count)], [sizes[n % len(sizes)] for n in range(count)], queues)
    if data.draw(st.booleans()):
        rig.reopen()
        disk.cold = {path for path in disk.contents() if path.count("/") > 2}
    units = rig.store.queue_bounds("TopicA", 0)[1]
    asked = (data.draw(st.integers(0, units - 1)), data.draw(st.integers(0, 40)), data.draw(st.sampled_from([100, 900, 1 << 20])))
    if data.draw(st.booleans()):
        file = disk.open(f"{ROOT}/consumequeue/TopicA/0/00000000000000000000")
        at = data.draw(st.integers(0, units - 1)) * 20
        position, size, code = QUEUE_UNIT.unpack(file.read_at(at, 20))
        position += data.draw(st.sampled_from([0, 0, -1, 300, 32_768, -40_000]))
        size += data.draw(st.sampled_from([0, -1, 7, 500, -size, 40_000]))
        file.write_at(at, QUEUE_UNIT.pack(position, size, code))
    text = data.draw(st.sampled_from(["n = 1", "n > 0", "n >= 0 AND TAGS = 'A'", "n > 5", "n = 1 OR TAGS = 'B'"]))
    expected = answer(rig, Each(text), *asked)
    many = Many(text)
    assert answer(rig, many, *asked) == expected
    assert answer(rig, many, *asked) == expected
    assert answer(rig, Each(text), *asked, tagged=True) == expected


@pytest.mark.parametrize(
    ("at", "position_of", "more_bytes"), [(10, 10, 32_000), (64, 63, 0), (64, 10, 0), (63, 65, 0), (70, 70, -60), (0, 0, 32_000)]
)
def test_an_entry_that_lies(at: int, position_of: int, more_bytes: int) -> None:
    """One that ends in another file, or that leads where an entry before it leads: all ways agree about it."""
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    put(rig, [int(number in (5, 63, 80)) for number in range(200)], [200] * 200)
    file = disk.open(f"{ROOT}/consumequeue/TopicA/0/00000000000000000000")
    position, size, code = QUEUE_UNIT.unpack(file.read_at(position_of * 20, 20))
    file.write_at(at * 20, QUEUE_UNIT.pack(position, size + more_bytes, code))
    asked = (0, 32, 1 << 20)
    for text in ("n = 1", "n >= 0"):
        expected = answer(rig, Each(text), *asked, tagged=True)
        assert answer(rig, Each(text), *asked) == expected
        assert answer(rig, Many(text), *asked) == expected


def test_how_many_units_one_read_looks_at() -> None:
    """Of those that are like others many, of those that are all different as many as the filter says."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=20_000 * 20, max_filter_message_size=1 << 20))
    put(rig, [1] * 1_000 + list(range(2, 1_002)), [40] * 2_000)
    for rows_max in (1, 10, 64, 100, 256):
        many, each = Many("n = 7000"), Each("n = 7000")
        many.rows_max = each.rows_max = rows_max
        assert many.selector.matches_tail(b"\x02n\x011\x02", 1) is False
        assert answer(rig, many, 0, 32, 1 << 20) == (GetStatus.NO_MATCHED_MESSAGE, min(UNITS_MAX, PIECES_MAX * rows_max), b"")
        assert answer(rig, many, 1_000, 32, 1 << 20) == (GetStatus.NO_MATCHED_MESSAGE, 1_000 + rows_max, b"")
        assert answer(rig, each, 0, 32, 1 << 20) == (GetStatus.NO_MATCHED_MESSAGE, rows_max, b"")


def test_as_many_are_evaluated_where_they_are_read_one_by_one() -> None:
    """Of old messages, too: a long selector takes some milliseconds for each, and others wait meanwhile."""
    sizes = {"mapped_file_size_consume_queue": 20_000 * 20, "max_filter_message_size": 1 << 20}
    rig = Rig(settings=small(**sizes, physical_memory_bytes=0))
    put(rig, [1] * 300 + list(range(2, 702)), [40] * 1_000)
    for rows_max in (1, 10, 256):
        many, each = Many("n = 7000"), Each("n = 7000")
        many.rows_max = each.rows_max = rows_max
        assert many.selector.matches_stored(b"n\x011\x02") is False
        assert answer(rig, many, 0, 32, 1 << 20) == (GetStatus.NO_MATCHED_MESSAGE, min(300 + rows_max, UNITS_MAX), b"")
        assert answer(rig, each, 300, 32, 1 << 20) == (GetStatus.NO_MATCHED_MESSAGE, 300 + rows_max, b"")


def test_no_more_is_read_than_it_takes() -> None:
    """What lies behind a full pull is not looked at, whatever is there."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    put(rig, [1] * 100, [40] * 100)
    each, many = Each("n = 1"), Many("n = 1")
    for matches in (each, many):
        status, following, units = answer(rig, matches, 3, 5, 1 << 20)
        assert (status, following) == (GetStatus.FOUND, 8)
        assert [number_of(unit.body) for unit in units_of([units])] == list(range(3, 8))
    assert each.evaluated() == 5
    assert rig.store.earliest_store_time("TopicA", 0) == START_MS
