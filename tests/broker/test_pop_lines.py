"""Where pops begin and what counts as progress, and the pairing of a revive queue: tables without a broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.pop_lines import PopLines, QueueOfGroup
from broker_impl.state.revive_queue import EARLY_MAX, ReviveQueue
from rmq_wire import fastjson
from rmq_wire.bodies.offsets import ConsumerOffsetTable
from rmq_wire.bodies.pop import MESSAGES_MAX, AckMsg, PopCheckPoint

PLACE = QueueOfGroup("T", "G", 0)


@given(some.permutations(range(6)), some.sets(some.integers(0, 5)))
def test_progress_passes_no_open_stretch(order: list[int], undone: set[int]) -> None:
    offsets = ConsumerOffsets(BrokerConfig(), Env(wall_ms=1, mono_ms=1))
    lines = PopLines(offsets)
    stretches = [lines.open(PLACE, 10 * (number + 1)) for number in range(6)]
    settled: set[int] = set()
    for number in order:
        assert lines.latest(PLACE) == 60
        if number in undone:
            break
        lines.settle(stretches[number])
        settled.add(number)
        done = next((at for at in range(6) if at not in settled), 6)
        assert offsets.query("G", "T", 0) == (10 * done if done else -1)
        if done == 6:
            assert lines.latest(PLACE) == -1
            return


def test_a_line_that_was_cleared_counts_no_more() -> None:
    offsets = ConsumerOffsets(BrokerConfig(), Env(wall_ms=1, mono_ms=1))
    lines = PopLines(offsets)
    old = lines.open(PLACE, 10)
    lines.clear(PLACE)
    new = lines.open(PLACE, 5)
    lines.settle(old)
    assert offsets.query("G", "T", 0) == -1
    lines.settle(new)
    assert offsets.query("G", "T", 0) == 5
    lines.undo(old)
    assert len(lines) == 0


def point(start: int, pop_ms: int, count: int = 2) -> PopCheckPoint:
    return PopCheckPoint(start, pop_ms, 1_000, 0, count, 0, "T", "G", 0, list(range(count)), "b")


def test_a_check_point_is_due_two_seconds_after_its_acknowledgements_may_come() -> None:
    queue = ReviveQueue(0, "b", 0)
    queue.take(point(0, 10_000), 0)
    queue.next_offset = 1
    for end_ms, due in ((11_000, False), (13_000, False), (13_001, True)):
        queue.saw(end_ms, end_ms)
        assert (queue.next_due() is not None) == due
    assert queue.done == -1
    found = queue.next_due()
    assert found is not None
    queue.finish(*found)
    assert queue.done == 0
    assert queue.next_due() is None


def test_what_is_acknowledged_is_done_in_any_order_and_progress_keeps_it() -> None:
    queue = ReviveQueue(0, "b", 0)
    queue.take(point(0, 10_000), 0)
    queue.take(point(2, 10_000, 1), 1)
    queue.take(AckMsg(2, 2, "G", "T", 0, 10_000, "b"), 2)
    queue.next_offset = 3
    assert (len(queue), queue.done) == (1, -1)
    queue.take(AckMsg(0, 0, "G", "T", 0, 9_999, "b"), 3)  # of another pop
    queue.take(AckMsg(0, 0, "G", "T", 0, 10_000), 4)
    queue.take(AckMsg(1, 0, "G", "T", 0, 10_000), 5)
    queue.next_offset = 6
    assert (len(queue), queue.done) == (0, 5)


def test_a_clock_that_goes_back_takes_the_end_with_it() -> None:
    queue = ReviveQueue(0, "b", 0)
    queue.saw(100_000, 100_500)
    queue.saw(40_000, 50_000)
    queue.take(point(0, 49_000), 0)
    assert queue.next_due() is None


def test_what_comes_late_waits_for_its_acknowledgements() -> None:
    """After a crash a timer brings again what it has brought: the acknowledgements are behind it."""
    queue = ReviveQueue(0, "b", 0)
    queue.saw(50_000, 50_000)
    queue.take(point(0, 10_000), 0)
    queue.take(point(2, 10_000), 1)
    queue.saw(52_000, 52_000)
    assert queue.next_due() is None
    queue.take(AckMsg(0, 0, "G", "T", 0, 10_000, "b"), 2)
    queue.take(AckMsg(1, 0, "G", "T", 0, 10_000, "b"), 3)
    queue.saw(52_001, 52_001)
    found = queue.next_due()
    assert found is not None
    assert found[1].start_offset == 2


def test_what_came_late_by_a_clock_that_was_ahead_does_not_wait_for_that_time() -> None:
    queue = ReviveQueue(0, "b", 0)
    queue.saw(9_000_000, 9_000_000)
    queue.take(point(0, 10_000), 0)
    queue.take(point(2, 30_000), 1)
    queue.saw_nothing(20_000)
    queue.saw_nothing(22_000)
    assert queue.next_due() is None
    queue.saw_nothing(22_001)
    found = queue.next_due()
    assert found is not None
    queue.finish(*found)
    queue.saw_nothing(33_000)
    assert queue.next_due() is None, "the second is due at 31 s"
    queue.saw_nothing(33_001)
    assert queue.next_due() is not None


def test_a_clock_that_goes_back_while_the_queue_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came late still waits for its acknowledgement when the queue is read from where it was again."""
    monkeypatch.setattr("broker_impl.state.revive_queue.OPEN_MAX", 2)
    queue = ReviveQueue(0, "b", 0)
    queue.saw(100_000, 100_000)
    queue.take(point(0, 10_000), 0)
    queue.take(point(2, 10_000), 1)
    queue.moved(2)
    queue.look_ahead()
    queue.take(AckMsg(0, 0, "G", "T", 0, 10_000, "b"), 2)
    queue.take(AckMsg(1, 0, "G", "T", 0, 10_000, "b"), 3)
    queue.saw(50_000, 50_000)
    queue.moved(4)
    queue.look_ahead()
    assert queue.position == 2
    assert queue.next_due() is None


def test_no_more_check_points_are_known_at_once_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand that nobody acknowledges, read ten at a time: what waits for room is read again when there is some."""
    monkeypatch.setattr("broker_impl.state.revive_queue.OPEN_MAX", 30)
    queue, known = ReviveQueue(0, "b", 0), []
    while queue.next_offset < 1_000:
        queue.look_ahead()
        begin, end = queue.position, min(queue.position + 10, 1_000)
        for place in range(begin, end):
            queue.take(point(2 * place, 10_000), place)
        queue.moved(end)
        assert len(queue) < 30 + 10
        if begin >= end:
            queue.saw_nothing(100_000)
            found = queue.next_due()
            while found is not None:
                known.append(found[1].start_offset)
                queue.finish(*found)
                found = queue.next_due()
    known += [one.start_offset for one in queue._open.values()]
    assert known == [2 * place for place in range(1_000)]


def test_what_was_read_ahead_delays_no_check_point_that_is_taken_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the records of an hour that was only read for its acknowledgements."""
    monkeypatch.setattr("broker_impl.state.revive_queue.OPEN_MAX", 2)
    queue = ReviveQueue(0, "b", 0)
    queue.take(point(0, 10_000), 0)
    queue.take(point(2, 10_000), 1)
    queue.moved(2)
    queue.look_ahead()
    for number, place in enumerate((0, 1, 2, 3)):
        queue.take(AckMsg(place, place // 2 * 2, "G", "T", 0, 10_000, "b"), 3 + number)
    queue.saw(3_600_000, 4_000_000)
    queue.look_ahead()
    assert (len(queue), queue.position) == (0, 2)
    queue.take(point(4, 10_000), 2)
    queue.saw(14_000, 4_000_000)
    assert queue.next_due() is not None


def test_two_check_points_of_one_name_both_count() -> None:
    """A message got another time in the millisecond of a pop that begins at it."""
    queue = ReviveQueue(0, "b", 0)
    queue.take(point(3, 10_000, 1), 0)
    queue.take(point(3, 10_000, 4), 1)
    queue.take(AckMsg(4, 3, "G", "T", 0, 10_000, "b"), 2)
    queue.take(AckMsg(3, 3, "G", "T", 0, 10_000, "b"), 3)
    queue.next_offset = 4
    assert (len(queue), queue.done) == (1, 0)
    queue.saw(20_000, 20_000)
    found = queue.next_due()
    assert found is not None
    left = found[1]
    assert (left.num, [left.has_bit(index) for index in range(4)]) == (4, [True, True, False, False])
    queue.finish(*found)
    assert (queue.next_due(), queue.done) == (None, 3)


def test_the_same_check_point_twice_is_one() -> None:
    """As a timer brings it after a crash."""
    queue = ReviveQueue(0, "b", 0)
    queue.take(point(3, 10_000), 0)
    queue.take(point(3, 10_000), 1)
    assert len(queue) == 1


def test_those_that_wait_before_others_that_are_done() -> None:
    queue = ReviveQueue(0, "b", 0)
    for offset, pop_ms in enumerate((90_000, 10_000, 80_000)):
        queue.take(point(offset, pop_ms), offset)
    assert queue.overtaken() == []
    queue.saw(20_000, 20_000)
    found = queue.next_due()
    assert found is not None
    queue.finish(*found)
    assert [one.pop_time for one in queue.overtaken()] == [90_000]


def test_a_reset_is_not_passed_by_what_was_in_flight() -> None:
    offsets = ConsumerOffsets(BrokerConfig(), Env(wall_ms=1, mono_ms=1))
    lines = PopLines(offsets)
    stretch = lines.open(PLACE, 10)
    offsets.assign_reset("G", "T", 0, 3)
    lines.settle(stretch)
    assert offsets.queues("G", "T") == {0: 3}


def in_file(offsets: ConsumerOffsets) -> int:
    """What a crash would find, once this is written."""
    document = offsets.encode()
    offsets.written()
    return ConsumerOffsetTable.from_plain(fastjson.loads(document)).offset_table["T@G"][0]


def test_the_file_has_no_progress_whose_check_point_the_disk_does_not_have() -> None:
    flushed = [100]
    offsets = ConsumerOffsets(BrokerConfig(), Env(wall_ms=1, mono_ms=1), lambda: flushed[0])
    lines = PopLines(offsets)
    offsets.commit("G", "T", 0, 0)
    first, second, third = (lines.open(PLACE, number) for number in (10, 20, 30))
    first.rests_on(90)
    second.rests_on(150)
    for stretch in (second, third, first):
        lines.settle(stretch)
    assert (offsets.query("G", "T", 0), in_file(offsets), offsets.dirty) == (30, 0, True)
    flushed[0] = 149
    assert in_file(offsets) == 0
    flushed[0] = 150
    assert (in_file(offsets), offsets.dirty) == (30, False)


def test_progress_that_is_set_rests_on_nothing() -> None:
    offsets = ConsumerOffsets(BrokerConfig(), Env(wall_ms=1, mono_ms=1))
    for number, end_offset in ((0, 0), (10, 100), (20, 200)):
        offsets.commit_resting("G", "T", 0, number, end_offset)
    assert in_file(offsets) == 0
    offsets.commit("G", "T", 0, 20)
    assert (in_file(offsets), offsets.dirty) == (20, False)
    offsets.commit_resting("G", "T", 0, 30, 300)
    for _ in offsets.dropping_topic("T"):
        pass
    assert not offsets._safe


def test_progress_that_is_cloned_rests_on_nothing() -> None:
    offsets = ConsumerOffsets(BrokerConfig(), Env(wall_ms=1, mono_ms=1))
    offsets.commit("H", "T", 0, 5)
    for number, end_offset in ((0, 0), (10, 100)):
        offsets.commit_resting("G", "T", 0, number, end_offset)
    offsets.clone("H", "G", "T")
    assert (offsets.query("G", "T", 0), in_file(offsets), offsets.dirty) == (5, 5, False)


def test_acknowledgements_that_come_before_their_check_point_count() -> None:
    """A stop puts a check point behind others; what was on its way to the timer then, and due at the start, comes first."""
    queue = ReviveQueue(0, "b", 0)
    queue.take(AckMsg(1, 0, "G", "T", 0, 10_000, "b"), 0)
    queue.take(AckMsg(0, 0, "G", "T", 0, 9_999, "b"), 1)  # of another pop
    queue.take(point(0, 10_000, 3), 2)
    assert len(queue) == 1
    queue.saw(20_000, 20_000)
    found = queue.next_due()
    assert found is not None
    assert found[1].bit_map == 0b010
    queue.take(AckMsg(5, 5, "G", "T", 0, 10_000, "b"), 3)
    queue.take(point(5, 10_000, 1), 4)
    assert len(queue) == 1, "all of the second was acknowledged"


def test_of_early_acknowledgements_the_latest_are_kept() -> None:
    queue = ReviveQueue(0, "b", 0)
    for number in range(EARLY_MAX + 1):
        queue.take(AckMsg(number, number, "G", "T", 0, 10_000, "b"), number)
    queue.take(point(0, 10_000, 1), EARLY_MAX + 1)
    assert len(queue) == 1, "the first is forgotten"
    queue.take(point(EARLY_MAX, 10_000, 1), EARLY_MAX + 2)
    assert len(queue) == 1


def test_one_pop_s_early_acknowledgements_are_no_more_than_it_may_have_messages() -> None:
    """Whoever acknowledges for ever what is over, or what never was, costs nothing."""
    queue = ReviveQueue(0, "b", 0)
    queue.take(AckMsg(2, 0, "G", "T", 0, 10_000, "b"), 0)
    for number in range(10 * MESSAGES_MAX):
        queue.take(AckMsg(2, 0, "G", "T", 0, 10_000, "b"), number)
        queue.take(AckMsg(100 + number, 0, "G", "T", 0, 10_000, "b"), number)
    [known] = queue._early.values()
    assert len(known) == MESSAGES_MAX
    queue.take(point(0, 10_000, 3), 9_999)
    queue.saw(20_000, 20_000)
    found = queue.next_due()
    assert found is not None
    assert found[1].bit_map == 0b100
