"""Invariants where state changes hands: each is broken on purpose, and the store fences itself and says which one it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmq_store.errors import Closed, CommitFailed, InvariantBroken
from tests.support.store_rig import START_MS, Rig, draft, small


def fenced(rig: Rig, invariant: str) -> None:
    """Nothing is taken any more, nobody sees more than before, the next start looks at everything."""
    store = rig.store
    assert store.refusal is Closed.FENCED
    assert invariant in store.refusal_text
    assert store.dispatch(START_MS) == []
    assert not store.close(START_MS)


def a_byte_less(rig: Rig) -> None:
    rig.store.stage(draft(2), START_MS)
    rig.store._log._pieces[-1] = bytes(rig.store._log._pieces[-1])[:-1]


def an_end_too_far(rig: Rig) -> None:
    rig.store.stage(draft(2), START_MS)
    rig.store._log.staged[-1].end_offset += 1


def a_turn_that_is_written_already(rig: Rig) -> None:
    rig.store.stage(draft(2), START_MS)
    rig.store._log.written_offset += 10_000


@pytest.mark.parametrize(
    ("breaks", "invariant"),
    [
        (a_byte_less, "units are as long as their places"),
        (an_end_too_far, "a turn lies between the written and the reserved end"),
        (a_turn_that_is_written_already, "a turn lies between the written and the reserved end"),
    ],
)
def test_a_commit(breaks: Callable[[Rig], None], invariant: str) -> None:
    rig = Rig()
    rig.put(draft(1))
    breaks(rig)
    with pytest.raises(CommitFailed, match=invariant):
        rig.store.commit()
    fenced(rig, invariant)
    assert rig.numbers() == [1]


def test_a_big_turn_is_as_long_as_its_places() -> None:
    rig = Rig(settings=small(mapped_file_size_commit_log=1 << 20))
    for number in range(200):
        rig.store.stage(draft(number, body_bytes=1_000), START_MS)
    rig.store._log._pieces[-1] = b""
    with pytest.raises(CommitFailed, match="units are as long as their places"):
        rig.store.commit()
    fenced(rig, "units are as long as their places")


def test_a_rollback() -> None:
    rig = Rig()
    rig.put(draft(1))
    rig.store.stage(draft(2), START_MS)
    rig.store._log._end -= 1
    rig.store.rollback_to(0)
    fenced(rig, "what is taken back is the newest")


def test_what_is_committed_twice() -> None:
    rig = Rig()
    rig.store.stage(draft(1), START_MS)
    [staged] = rig.store._log.staged
    rig.store._dispatcher.waiting.append(staged)
    with pytest.raises(CommitFailed, match="what is committed follows what waits for the dispatch"):
        rig.store.commit()
    fenced(rig, "what is committed follows what waits for the dispatch")


def test_another_order() -> None:
    """A gap is in `test_dispatch`."""
    rig = Rig()
    rig.put(draft(1))
    [queue] = rig.store._queues
    queue.end_physical = 1 << 40
    rig.store.stage(draft(2), START_MS)
    rig.store.commit()
    assert rig.store.dispatch(START_MS) == []
    fenced(rig, "a queue has its units in the order of the log")
    assert rig.store.queue_bounds("TopicA", 0) == (0, 1)


def test_a_ticket_that_comes_back_twice() -> None:
    rig = Rig()
    rig.put(draft(1))
    ticket = rig.store.begin_sync(0, force=True)
    assert ticket is not None
    rig.store.end_sync(ticket, None)
    with pytest.raises(InvariantBroken, match="a ticket that comes back is the one that is out"):
        rig.store.end_sync(ticket, None)
    fenced(rig, "a ticket that comes back is the one that is out")


def test_a_ticket_beyond_the_log() -> None:
    rig = Rig()
    rig.put(draft(1))
    flushed = rig.store.flushed_offset
    ticket = rig.store.begin_sync(0, force=True)
    assert ticket is not None
    ticket.upto += 1
    with pytest.raises(InvariantBroken, match="what is flushed only grows, up to what is written"):
        rig.store.end_sync(ticket, None)
    fenced(rig, "what is flushed only grows, up to what is written")
    assert rig.store.flushed_offset == flushed
