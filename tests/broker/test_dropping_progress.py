"""Progress of a deleted topic or group goes in slices; nobody finds any of it meanwhile."""

from __future__ import annotations

import tracemalloc

from broker_impl.config import BrokerConfig, Machine
from broker_impl.engine.slices import finished
from broker_impl.env import Env
from broker_impl.state.consumer_offsets import ABSENT, ConsumerOffsets


def offsets() -> ConsumerOffsets:
    return ConsumerOffsets(BrokerConfig({}, Machine()), Env())


def test_progress_that_is_being_dropped_is_gone_for_who_looks_and_new_progress_stays() -> None:
    """A topic of the same name may be made, and read, before the last slice of its deletion."""
    table = offsets()
    groups = [f"G{number}" for number in range(1_000)]
    for group in groups:
        for topic in ("T", "U"):
            table.commit(group, topic, 0, 5)
            table.commit_pull(group, topic, 0, 6)
    work = table.dropping_topic("T")
    next(work)
    assert table.groups_of("T") == []
    assert table.topics_of("G999") == ["U"]
    assert table.query("G999", "T", 0) == table.query_pull("G998", "T", 0) == ABSENT
    assert table.queues("G997", "T") is None
    table.commit("G996", "T", 1, 7)
    table.commit_pull("G995", "T", 1, 8)
    other = table.dropping_group("G994")
    finished(other)
    assert 5 < sum(1 for _ in work) < 30, "slices"
    assert table.groups_of("T") == ["G996"]
    assert (table.query("G996", "T", 0), table.query("G996", "T", 1)) == (ABSENT, 7)
    assert table.query_pull("G995", "T", 1) == 8
    assert (table.query("G0", "U", 0), table.query("G994", "U", 0)) == (5, ABSENT)
    again = offsets()
    again.load(table.encode())
    assert again.groups_of("T") == ["G996"]


def test_the_first_slice_of_a_deletion_does_not_grow_with_what_there_is() -> None:
    """It marked every row: 85 ms with 100,000.  Counted in bytes, for it did so in a few calls of C.

    Each row that goes has a block of the order copied, so the numbers are those where no two of a slice lie in one block.
    """

    def memory(rows: int, *, group: bool) -> int:
        table = offsets()
        for number in range(rows):
            table.commit("G" if group else f"G{number}", f"T{number}" if group else "T", 0, 1)
            table.commit_pull("G" if group else f"G{number}", f"T{number}" if group else "T", 0, 1)
        work = table.dropping_group("G") if group else table.dropping_topic("T")
        tracemalloc.start()
        try:
            next(work)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    for group in (True, False):
        memory(200, group=group)
        assert memory(24_000, group=group) < 1.5 * memory(12_000, group=group)
