"""What a push consumer holds of a queue, and from where it may commit: no message is committed that is not done."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from rmq_client.consuming.process_queue import LOCK_LIVES_MS, PULL_LIVES_MS, ProcessQueue

MINUTES_15 = 15 * 60_000


class Note(NamedTuple):
    queue_offset: int
    body_size: int = 10


def notes(*offsets: int) -> list[Note]:
    return [Note(offset) for offset in offsets]


def filled(*offsets: int) -> ProcessQueue:
    queue = ProcessQueue(0)
    queue.put(notes(*offsets))
    return queue


def test_the_smallest_that_is_not_done_is_what_may_be_committed() -> None:
    queue = filled(5, 6, 7, 8)
    assert queue.remove(notes(6), 1) == 5
    assert queue.remove(notes(5), 1) == 7
    assert queue.remove(notes(8), 1) == 7
    assert queue.remove(notes(7), 1) == 9, "nothing left: behind the last that ever came"
    assert queue.remove(notes(7), 1) is None, "nothing was held"
    assert (queue.count, queue.size) == (0, 0)


def test_what_comes_twice_counts_once() -> None:
    queue = filled(1, 2)
    queue.put(notes(2, 3))
    assert (queue.count, queue.size, queue.span) == (3, 30, 2)


def test_one_stuck_message_holds_the_commit_and_stretches_the_span() -> None:
    queue = filled(*range(2_002))
    assert queue.remove(notes(*range(1, 2_002)), 1) == 0
    assert queue.span == 0
    queue.put(notes(2_002))
    assert queue.too_full(count_max=1_000, size_max=100 << 20, span_max=2_000) == "a span of 2002, 2000 is the most"
    assert queue.too_full(count_max=1_000, size_max=100 << 20, span_max=None) is None


@pytest.mark.parametrize(
    ("count_max", "size_max", "why"),
    [(4, 50, None), (5, 49, "0 MiB"), (3, 50, "4 messages, 3 are the most"), (4, 39, "MiB")],
)
def test_flow_control(count_max: int, size_max: int, why: str | None) -> None:
    found = filled(1, 2, 3, 4).too_full(count_max=count_max, size_max=size_max, span_max=2_000)
    assert (found is None) if why is None or size_max == 49 else (found is not None and why in found)


def test_expired_heads_are_named_sixteen_at_a_time_and_up_to_the_first_that_is_not() -> None:
    queue = filled(*range(40))
    queue.started(notes(*range(30)), 1_000)
    assert queue.expired(1_000 + MINUTES_15, MINUTES_15) == []
    late = queue.expired(1_001 + MINUTES_15, MINUTES_15)
    assert late == notes(*range(16))
    queue.remove(late, 0)
    queue.started(notes(18), 5_000 + MINUTES_15)
    assert queue.expired(1_001 + MINUTES_15, MINUTES_15) == notes(16, 17), "the head alone: 18 is young"
    assert filled(1, 2).expired(10**12, MINUTES_15) == [], "no listener has them yet: waiting here is no fault"


def test_ordered_messages_are_taken_and_committed_or_put_back_in_order() -> None:
    queue = ProcessQueue(0)
    assert queue.put(notes(1, 2, 3, 4))
    assert not queue.put(notes(5)), "somebody is at it"
    assert queue.take(2, 7) == notes(1, 2)
    assert queue.count == 5, "what was taken is not done"
    queue.rollback()
    assert queue.take(3, 8) == notes(1, 2, 3)
    queue.consume_again(notes(2))
    assert queue.commit() == 4
    assert queue.commit() is None
    assert queue.take(9, 9) == notes(2, 4, 5)
    assert queue.commit() == 6
    assert queue.take(1, 9) == []
    assert queue.put(notes(6)), "nobody was at it any more"
    assert (queue.count, queue.last_consume_ms) == (1, 9)


def test_locks_and_pulls_get_old() -> None:
    queue = ProcessQueue(1_000)
    assert (queue.lock_expired(1_000 + LOCK_LIVES_MS), queue.lock_expired(1_001 + LOCK_LIVES_MS)) == (False, True)
    assert (queue.pull_expired(1_000 + PULL_LIVES_MS), queue.pull_expired(1_001 + PULL_LIVES_MS)) == (False, True)


def test_what_a_tool_sees() -> None:
    queue = filled(3, 4, 5)
    queue.take(1, 2)
    shown = queue.info(commit_offset=3, ahead_ms=0)
    assert (shown.cached_msg_count, shown.cached_msg_min_offset, shown.cached_msg_max_offset) == (2, 4, 5)
    assert (shown.transaction_msg_count, shown.transaction_msg_min_offset, shown.commit_offset) == (1, 3, 3)
    queue.clear()
    assert (queue.count, queue.info(0, 0).cached_msg_count) == (0, 0)


@given(st.lists(st.lists(st.integers(0, 50), unique=True, max_size=8), max_size=8))
def test_whatever_the_order_of_arrival_the_first_is_the_smallest(pulls: list[list[int]]) -> None:
    queue = ProcessQueue(0)
    for pull in pulls:
        queue.put(notes(*pull))
    everything = sorted({offset for pull in pulls for offset in pull})
    assert queue.take(100, 0) == notes(*everything)


class Consumer(RuleBasedStateMachine):
    """Concurrent consumption against a plain set: pulls in order, results in any."""

    held = Bundle("held")

    @initialize(begin=st.integers(0, 100))
    def start(self, begin: int) -> None:
        self.queue = ProcessQueue(0)
        self.next = begin
        self.undone: set[int] = set()
        self.committed = begin

    @rule(target=held, gaps=st.lists(st.integers(1, 3), min_size=1, max_size=5))
    def pull(self, gaps: list[int]) -> object:
        offsets = []
        for gap in gaps:
            offsets.append(self.next)
            self.next += gap
        self.queue.put(notes(*offsets))
        self.undone |= set(offsets)
        self.last = offsets[-1]
        return multiple(*offsets)

    @rule(offset=consumes(held))
    def done(self, offset: int) -> None:
        commit = self.queue.remove(notes(offset), 0)
        self.undone.discard(offset)
        assert commit == min(self.undone, default=self.last + 1)
        assert commit >= self.committed
        self.committed = commit

    @invariant()
    def counts_agree(self) -> None:
        assert self.queue.count == len(self.undone)
        assert self.queue.size == 10 * len(self.undone)


TestConsumer = Consumer.TestCase


def test_what_is_taken_and_put_back_copies_nothing() -> None:
    queue = filled(*range(1, 1_000))
    waiting = queue._waiting
    for _ in range(3):
        queue.consume_again(queue.take(2, 1))
    assert queue._waiting is waiting
    assert list(waiting) == list(range(1, 1_000))
    taken = queue.take(2, 1)
    queue.put(notes(0))
    queue.consume_again(taken)
    assert list(queue._waiting) == list(range(1_000)), "what came late is before it"
