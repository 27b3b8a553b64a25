"""What a selector selects of a queue: the same whether it is shown many units at once, one after the other, or as Java does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock
from weakref import WeakValueDictionary

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_store.errors import Cold
from rmq_store.layouts import QUEUE_UNIT
from rmq_store.read import columns, entries
from rmq_store.read.asked import UNITS_MAX, NumbersMet, UnitFilter
from rmq_store.read.pull import AHEAD, PIECES_MAX
from rmq_store.results import GetStatus, Read
from rmq_wire import property_values
from rmq_wire.errors import BadRecord
from rmq_wire.layout.message import FIXED
from rmq_wire.message import stored_properties
from rmq_wire.properties import mark_of
from rmq_wire.property_values import LOOK, WANTED, SeenValues, seen_values
from rmq_wire.sql92.selector import Selector
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, number_of, small, tags_code, units_of

QUEUE_FILE_UNITS = 1_000


@pytest.fixture(autouse=True)
def nothing_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Selectors that a broker of another test keeps have met values of the same names, and maybe too many to be remembered."""
    monkeypatch.setattr(property_values, "_SEEN", WeakValueDictionary())


class Each(UnitFilter):
    """Shown unit by unit."""

    rows_max = 1 << 20

    def __init__(self, text: str) -> None:
        self.selector = Selector(text)

    def __call__(self, unit: memoryview, /) -> bool:
        return self.selector.matches_stored(stored_properties(unit))


class Many(Each):
    """Shown as many at once as there are."""

    topic = ""

    def begin(self, topic: str) -> None:
        if topic != self.topic:
            self.topic, self.selector = topic, self.selector.of_topic(topic)

    def add_wanted(self, *asked: Any) -> Sequence[NumbersMet]:
        return self.selector.add_selected(*asked)

    def value_verdicts(self) -> Sequence[tuple[SeenValues, bytes]]:
        return self.selector.value_verdicts()

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
    with mock.patch.object(entries, "BLOCK_UNITS", data.draw(st.sampled_from([16, 256]))):
        for _ in range(3):
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


def test_what_is_remembered_that_lies() -> None:
    """An entry that leads where the one before it leads: of each is known what is said of it, from different pulls."""
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    put(rig, [1] * 100, [40] * 100)
    file = disk.open(f"{ROOT}/consumequeue/TopicA/0/00000000000000000000")
    file.write_at(50 * 20, file.read_at(49 * 20, 20))
    many = Many("n = 1")
    many.rows_max = 32  # no more are shown to it at once
    for offset in (18, 50):
        assert answer(rig, many, offset, 32, 1 << 20)[1] == offset + 32
    assert answer(rig, many, 40, 32, 1 << 20) == answer(rig, Each("n = 1"), 40, 32, 1 << 20, tagged=True)


def test_how_many_units_one_read_looks_at() -> None:
    """Of those that are like others many, of those that are all different as many as the filter says."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=20_000 * 20, max_filter_message_size=1 << 20))
    put(rig, [1] * 1_000 + list(range(2, 1_002)), [40] * 2_000)
    for rows_max in (1, 10, 64, 100, 256):
        many, each = Many("n = 7000"), Each("n = 7000")
        many.rows_max = each.rows_max = rows_max
        assert many.selector.matches_stored(b"n\x011\x02") is False
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


class Counted(Many):
    """Counts the units that it is shown."""

    shown = 0

    def add_wanted(self, log: memoryview, base: int, positions: Sequence[int], *rest: Any) -> Sequence[NumbersMet]:
        self.shown += len(positions)
        return super().add_wanted(log, base, positions, *rest)


TEXTS = (
    *("p = 1", "p <> 1", "p IS NULL", "q = 'a'", "p = 1 AND q = 'a'", "q = 'b' AND p > 0", "p = 2 AND q IS NULL AND TAGS = 'A'"),
    *("p = 1 OR q = 'a'", "p BETWEEN 0 AND 1 AND q <> 'a'", "TRUE", "q = 'c'"),
)
properties = st.lists(
    st.sampled_from(
        [b"p\x010\x02", b"p\x011\x02", b"p\x012\x02", b"p\x01\x02", b"q\x01a\x02", b"q\x01b\x02", b"q\x01%s\x02" % (b"x" * 60)]
    ),
    max_size=3,
).map(b"".join)


def put_properties(rig: Rig, first: int, stored: list[bytes], queues: int) -> None:
    """Messages from this number on, with these properties, in turn in so many queues."""
    for number, one_more in enumerate(stored, first):
        one = draft(number, queue_id=number % queues, body_bytes=5 + number % 7, tags="A")
        one.properties = one_more + one.properties if number % 3 else one.properties + one_more
        rig.put(one)


@given(data=st.data())
@settings(max_examples=60)
def test_what_was_met_before_changes_nothing(data: st.DataObject) -> None:
    """Whoever asks, in whatever order, gets what he gets from a store that remembers nothing; while more comes."""
    limits = data.draw(
        st.fixed_dictionaries(
            {
                "max_transfer_bytes_on_message_in_memory": st.sampled_from([900, 1 << 18]),
                "max_filter_message_size": st.sampled_from([160, 16_000]),
                "physical_memory_bytes": st.sampled_from([20_000, 1 << 40]),
            }
        )
    )
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20, **limits))
    queues, put_so_far = data.draw(st.integers(1, 2)), 0
    filters = {text: Counted(text) for text in TEXTS}
    with (
        mock.patch.object(columns, "BLOCK_UNITS", data.draw(st.sampled_from([7, 4_096]))),
        mock.patch.object(entries, "BLOCK_UNITS", data.draw(st.sampled_from([9, 256]))),
    ):
        for _ in range(data.draw(st.integers(1, 8))):
            stored = data.draw(st.lists(properties, min_size=1, max_size=12)) * data.draw(st.sampled_from([1, 6]))
            put_properties(rig, put_so_far, stored, queues)
            put_so_far += len(stored)
            for text in data.draw(st.lists(st.sampled_from(TEXTS), max_size=6)):
                end = rig.store.queue_bounds("TopicA", 0)[1]
                offset = data.draw(st.integers(0, max(end - 1, 0)))
                asked = (offset, data.draw(st.sampled_from([1, 3, 32])), data.draw(st.sampled_from([700, 1 << 20])))
                assert answer(rig, filters[text], *asked) == answer(rig, Each(text), *asked)


def test_what_others_looked_at_is_not_looked_at_again() -> None:
    """Nor by another selector over the same properties; of what nobody asked for, only what it needs."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20, max_filter_message_size=1 << 20))
    letters = [b"ab"[number // 100 % 2 :][:1] for number in range(400)]
    put_properties(rig, 0, [b"p\x01%d\x02q\x01%s\x02" % (number % 100, letter) for number, letter in enumerate(letters)], 1)
    whole = (0, 500, 1 << 20)
    first = Counted("p = 1 AND q = 'b'")
    for shown in (400, 0):
        first.shown = 0
        assert answer(rig, first, *whole)[:2] == (GetStatus.FOUND, 400)
        assert first.shown == shown
    # Of what the second one needs the first one asked for either property, seldom for both.
    for text, most in (("p > 3", 0), ("p = 7 AND q = 'b'", 68)):
        other = Counted(text)
        answer(rig, other, 300, 500, 1 << 20)  # now it has met all values
        for most_shown in (most, 0):
            other.shown = 0
            assert answer(rig, other, *whole) == answer(rig, Each(text), *whole)
            assert other.shown <= most_shown, text


def test_what_lies_behind_a_full_pull_is_looked_at_once() -> None:
    """The next pulls find it remembered.  Of a filter of which nothing can be remembered each pull is shown what it may need."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    put(rig, [number // 50 % 2 for number in range(300)], [40] * 300)
    for text, once in (("n = 1", True), ("n = 1 AND (n > 0 OR TAGS = 'B')", False)):
        matches, each, offset = Counted(text), Each(text), 0
        while offset < 300:
            asked = (offset, 10, 1 << 20)
            found = answer(rig, matches, *asked)
            assert found == answer(rig, each, *asked)
            offset = found[1]
        assert (matches.shown == 300) is once, text


def test_who_asks_for_one_has_few_looked_at() -> None:
    """As those who look whether a pull that waits is to be woken."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    put(rig, [1] * 300, [40] * 300)
    matches = Counted("n = 1")
    assert answer(rig, matches, 0, 1, 1 << 20)[1] == 1
    assert matches.shown == AHEAD
    assert answer(rig, matches, 100, 2, 1 << 20)[1] == 102
    assert matches.shown == 3 * AHEAD


@pytest.mark.parametrize("broken", [5, 40])
def test_one_that_cannot_be_read_hurts_only_those_who_reach_it(broken: int) -> None:
    """Behind a full pull it is looked at, too."""
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    put(rig, [1] * 100, [40] * 100)
    at, _ = units_at(rig, broken)
    rig.store._log.segments.file(0).write_at(at + FIXED[0].at["body_size"], b"\x7f" * 4)
    matches = Many("n = 1")
    for offset in (0, 0, 10, 20, 30, 32):
        asked = (offset, 8, 1 << 20)
        assert answer(rig, matches, *asked) == answer(rig, Each("n = 1"), *asked)
    assert answer(rig, matches, broken - 2, 8, 1 << 20)[0] is None


def units_at(rig: Rig, number: int) -> tuple[int, int]:
    """(position, size) of that message of the first queue."""
    return QUEUE_UNIT.unpack(rig.store._queues.get("TopicA", 0).read(number, 1))[:2]


def test_values_that_differ_everywhere_are_not_remembered() -> None:
    """Nor is what was remembered of them believed any more."""
    name = b"wide"
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    put_properties(rig, 0, [b"%s\x01%d\x02" % (name, number) for number in range(900)], 1)
    filters = [Counted("wide = 3"), Counted("wide > 250"), Counted("wide = 3 OR wide = 777")]
    for _ in range(2):
        for matches in filters:
            for offset in (0, 200, 700):
                asked = (offset, 32, 1 << 20)
                each = Each(matches.selector.text)
                each.rows_max = matches.rows_max
                assert answer(rig, matches, *asked) == answer(rig, each, *asked)
    assert seen_values(mark_of(name), "TopicA").is_wide
    assert filters[0].selector.value_verdicts() == ()


def test_what_is_known_with_a_gap() -> None:
    """Enough to fill a pull, but of those between nothing is known: these are looked at."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    put(rig, [number % 2 for number in range(120)], [40] * 120)
    matches, each = Counted("n = 1"), Each("n = 1")
    for offset, count in ((0, 2), (60, 9), (0, 9), (0, 9)):
        assert answer(rig, matches, offset, count, 1 << 20) == answer(rig, each, offset, count, 1 << 20)
    shown = matches.shown
    assert answer(rig, matches, 0, 9, 1 << 20)[1] == 18
    assert matches.shown == shown


def test_a_topic_that_was_deleted_is_forgotten() -> None:
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20))
    matches = Many("n = 1")
    for value in (1, 2, 1):
        put(rig, [value] * 20, [30] * 20)
        for _ in range(2):
            status, following, units = answer(rig, matches, 0, 32, 1 << 20)
            assert (status, following) == (GetStatus.FOUND if value == 1 else GetStatus.NO_MATCHED_MESSAGE, 20)
            assert len(units_of([units])) == (20 if value == 1 else 0)
        rig.store.delete_topics(["TopicA"])


@pytest.mark.parametrize("every", [2, 30])
def test_what_is_remembered_may_be_gone_or_not_in_memory(every: int) -> None:
    """Files of the log that were removed, and such that a thread has to read first."""
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20, max_filter_message_size=90 * 20))
    put(rig, [int(number % every == 1) for number in range(600)], [200] * 600)
    matches = Many("n = 1")
    before = [answer(rig, matches, offset, 32, 1 << 20) for offset in range(0, 600, 40)]
    rig.reopen()
    assert [answer(rig, matches, offset, 32, 1 << 20) for offset in range(0, 600, 40)] == before
    disk.cold = {path for path in disk.contents() if "/commitlog/" in path}
    rig.store._reader.forget_residency()
    with pytest.raises(Cold):
        rig.store.read_queue("TopicA", 0, 0, 32, 1 << 20, None, matches)
    assert [answer(rig, matches, offset, 32, 1 << 20) for offset in range(0, 600, 40)] == before
    start, path = min((start, rig.store._log.segments.path(start)) for start in rig.store._log.segments.starts)
    assert start == 0
    rig.store._log.segments.remove(start)
    rig.store._reader.forget_file(start)
    for offset in range(0, 600, 40):
        assert answer(rig, matches, offset, 32, 1 << 20) == answer(rig, Each("n = 1"), offset, 32, 1 << 20), path


def test_what_is_remembered_of_old_messages_leaves_their_limits() -> None:
    """Fewer messages that have to come from a disk go out at once, also when they were met while they were new."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=QUEUE_FILE_UNITS * 20, physical_memory_bytes=20_000))
    put(rig, [1] * 20, [30] * 20)
    matches, asked = Many("n = 1"), (0, 20, 1 << 20)
    assert [answer(rig, matches, *asked)[1] for _ in range(2)] == [20, 20]
    put(rig, [2] * 300, [30] * 300)
    assert answer(rig, matches, *asked) == answer(rig, Each("n = 1"), *asked)
    assert answer(rig, matches, *asked)[1] < 20


def test_what_is_known_stays_known() -> None:
    """Where one looked again and did not ask for it."""
    kept, rig = columns.Columns(), Rig()
    put(rig, [1], [30])
    queue = rig.store._queues.get("TopicA", 0)
    values, table = seen_values(mark_of(b"n")), bytes([LOOK] * 2 + [WANTED] * 254)
    kept.keep(queue, columns.BLOCK_UNITS - 3, [(values, bytes([2, 0, 2, 0, 3]))])
    kept.keep(queue, columns.BLOCK_UNITS - 2, [(values, bytes([3, 0, 4]))])
    said = kept.say(queue, columns.BLOCK_UNITS - 3, 6, [(values, table)])
    assert said == bytes([WANTED] * 5 + [LOOK])


def test_what_is_remembered_has_a_limit() -> None:
    """What was not used for longest is forgotten, and met again when somebody asks."""
    kept = columns.Columns(blocks_max=4)
    rig = Rig()
    put(rig, [1] * 4, [30] * 4, queues=4)
    queues = [rig.store._queues.get("TopicA", queue_id) for queue_id in range(4)]
    values = seen_values(mark_of(b"n"))
    table = bytes([LOOK] * 2 + [WANTED] * 254)
    for block in range(3):
        for queue in queues[:2]:
            kept.keep(queue, block * columns.BLOCK_UNITS, [(values, bytes([2]))])
        assert kept.say(queues[0], 0, 1, [(values, table)]) == bytes([WANTED])
    assert len(kept._blocks) == 4
    assert kept.say(queues[1], 0, 1, [(values, table)]) == b""
    assert kept.say(queues[1], 2 * columns.BLOCK_UNITS, 2, [(values, table)]) == bytes([WANTED, LOOK])
