"""Where messages of a queue lie: the same from a block that is kept as from the file, and no more is kept than is said."""

from __future__ import annotations

from unittest import mock

import pytest

from broker_impl.filtering import PropertyFilter
from rmq_store.layouts import QUEUE_UNIT
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.read import entries
from rmq_store.read.entries import BLOCK_UNITS, Entries, are_in_order
from rmq_store.results import GetStatus
from rmq_wire.sql92.selector import compiled
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, small, tags_code

FILE_UNITS = 700
"""No multiple of a block's."""


def rig_of(count: int, queues: int = 1, file_units: int = FILE_UNITS) -> Rig:
    """So many messages, in turn in so many queues."""
    rig = Rig(MemoryDisk(), small(mapped_file_size_consume_queue=file_units * 20, mapped_file_size_commit_log=1 << 20))
    more(rig, range(count), queues)
    return rig


def more(rig: Rig, numbers: range, queues: int = 1) -> None:
    for at in range(0, len(numbers), 100):
        rig.put(*[draft(number, queue_id=number % queues) for number in numbers[at : at + 100]])


def the_queue(rig: Rig, queue_id: int = 0) -> ConsumeQueue:
    queue = rig.store._queues.find("TopicA", queue_id)
    assert queue is not None
    return queue


@pytest.mark.parametrize("file_units", [70, 80])
def test_the_same_as_from_the_file(file_units: int) -> None:
    """Of any messages that are visible, while more come; those of one file at most."""
    rig, known = rig_of(1, file_units=file_units), Entries(blocks_max=3)
    queue = the_queue(rig)
    with mock.patch.object(entries, "BLOCK_UNITS", 40):
        for end in (30, 90, 115, 200):
            more(rig, range(queue.max_offset, end))
            for offset in range(end):
                for count in {min(count, end - offset) for count in (1, 5, 32, 40, 41)}:
                    expected = [*QUEUE_UNIT.iter_unpack(queue.read(offset, count))]
                    positions, sizes = known.places(queue, offset, count)
                    assert [*zip(positions, sizes, strict=True)] == [(at, size) for at, size, _ in expected]
    assert len(known._blocks) <= 3


def test_a_block_is_read_once() -> None:
    """By whom ever; the one that is not whole yet each time."""
    rig = rig_of(600)
    queue, known = the_queue(rig), Entries()
    with mock.patch.object(ConsumeQueue, "read", autospec=True, side_effect=ConsumeQueue.read) as read:
        for _ in range(2):
            for offset in range(0, 2 * BLOCK_UNITS, 32):
                known.places(queue, offset, 32)
        assert read.call_count == 2
        for offset in (BLOCK_UNITS - 31, BLOCK_UNITS - 1):
            known.places(queue, offset, 32)
        assert read.call_count == 2
        for _ in range(2):
            known.places(queue, 2 * BLOCK_UNITS, 32)
        assert read.call_count == 4


def test_the_first_made_makes_room() -> None:
    rig = rig_of(5 * BLOCK_UNITS, queues=5)
    known = Entries(blocks_max=4)
    for queue_id in range(5):
        known.places(the_queue(rig, queue_id), 0, 32)
    assert [queue.queue_id for queue, _ in known._blocks] == [1, 2, 3, 4]


@pytest.mark.parametrize(("at", "position_of", "size"), [(40, 39, 100), (40, 20, 100), (255, 0, 100), (9, 9, 0), (9, 9, -5)])
def test_what_is_not_in_order_is_answered_entry_by_entry(at: int, position_of: int, size: int) -> None:
    rig = rig_of(2 * BLOCK_UNITS)
    file = rig.disk.open(f"{ROOT}/consumequeue/TopicA/0/{0:020d}")
    position, _, code = QUEUE_UNIT.unpack(file.read_at(position_of * 20, 20))
    file.write_at(at * 20, QUEUE_UNIT.pack(position, size, code))
    begin = at - at % 32
    assert not are_in_order(*Entries().places(the_queue(rig), begin, 32))
    assert are_in_order(*Entries().places(the_queue(rig), BLOCK_UNITS, 32))
    tags = frozenset(tags_code(f"Tag{number}") for number in range(3))
    for offset in range(0, BLOCK_UNITS, 32):
        read, expected = (rig.store.read_queue("TopicA", 0, offset, 32, 1 << 20, accepts) for accepts in (None, tags))
        assert [*map(bytes, read.chunks)] == [*map(bytes, expected.chunks)], offset
        assert (read.status, read.next_offset, read.message_count) == (
            expected.status,
            expected.next_offset,
            expected.message_count,
        )


@pytest.mark.parametrize("offset", [FILE_UNITS, FILE_UNITS + 4, 740])
def test_the_file_before_is_not_asked_for(offset: int) -> None:
    """Somebody has removed it: what stands in the next one is found, in the block that they share, too."""
    rig = rig_of(2 * FILE_UNITS)
    queue = the_queue(rig)
    rig.disk.unlink(queue.segments.path(0))
    queue.segments.files.forget(queue.segments.path(0))
    for selector in ("TAGS IS NOT NULL", "TAGS = 'Tag1' or TAGS = 'Tag2'"):
        for _ in range(2):  # the second time what it has met is remembered
            read = rig.store.read_queue("TopicA", 0, offset, 32, 1 << 20, None, PropertyFilter(compiled(selector)))
            assert (read.status, read.message_count) == (GetStatus.FOUND, 32)


def test_of_many_as_of_few() -> None:
    """In pieces, up to the end of the file; nothing is kept for each number of them."""
    rig, known = rig_of(2 * FILE_UNITS), Entries()
    queue = the_queue(rig)
    for offset, count in ((0, 600), (3, 513), (500, 600), (FILE_UNITS, 650)):
        found = min(count, queue.units_to_file_end(offset))
        expected = [*QUEUE_UNIT.iter_unpack(queue.read(offset, found))]
        positions, sizes = known.places(queue, offset, count)
        assert [*zip(positions, sizes, strict=True)] == [(at, size) for at, size, _ in expected]
    assert max(known._structs) <= BLOCK_UNITS
