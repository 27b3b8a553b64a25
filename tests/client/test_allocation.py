"""Sharing queues: nobody is left out, nothing is given twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_client.consuming.allocation import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateStrategy,
)
from rmq_client.errors import CallerError
from rmq_wire.fastjson import MessageQueue

NEARBY = AllocateMachineRoomNearby(
    AllocateMessageQueueAveragely(), lambda queue: queue.broker_name[:2], lambda client: client[:2]
)
FAIR: list[AllocateStrategy] = [
    AllocateMessageQueueAveragely(),
    AllocateMessageQueueAveragelyByCircle(),
    AllocateMessageQueueConsistentHash(),
    AllocateMessageQueueByMachineRoom(["r1", "r2", "r3"]),
    NEARBY,
]
members = st.lists(st.builds("r{}-c{}".format, st.integers(1, 3), st.integers(0, 99)), min_size=1, max_size=9, unique=True)
counts = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)


def queues_of(given: list[int]) -> list[MessageQueue]:
    return [MessageQueue("T", f"r{room}@b", at) for room, count in enumerate(given, 1) for at in range(count)]


@pytest.mark.parametrize("strategy", FAIR, ids=lambda one: one.name)
@given(members, counts)
def test_each_queue_has_one_member(strategy: AllocateStrategy, clients: list[str], given_counts: list[int]) -> None:
    clients.sort()
    queues = queues_of(given_counts)
    shared = [queue for client in clients for queue in strategy.allocate(client, queues, clients)]
    assert sorted(shared) == queues


@pytest.mark.parametrize("strategy", FAIR[:2], ids=lambda one: one.name)
@given(members, counts)
def test_shares_differ_by_one_at_most(strategy: AllocateStrategy, clients: list[str], given_counts: list[int]) -> None:
    sizes = [len(strategy.allocate(client, queues_of(given_counts), clients)) for client in clients]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("strategy", FAIR, ids=lambda one: one.name)
def test_who_is_no_member_gets_nothing_and_nothing_cannot_be_shared(strategy: AllocateStrategy) -> None:
    queues = queues_of([1, 1, 1])
    assert strategy.allocate("r1-me", queues, ["r1-other"]) == []
    for own, some, clients in (("r1-me", [], ["r1-me"]), ("r1-me", queues, []), ("", queues, ["r1-me"])):
        with pytest.raises(CallerError):
            strategy.allocate(own, some, clients)


def test_five_queues_for_two_and_for_six() -> None:
    queues = queues_of([5, 0, 0])
    pick = AllocateMessageQueueAveragely().allocate
    assert [[q.queue_id for q in pick(c, queues, ["a", "b"])] for c in "ab"] == [[0, 1, 2], [3, 4]]
    assert [[q.queue_id for q in pick(c, queues, [*"abcdef"])] for c in "abcdef"] == [[0], [1], [2], [3], [4], []]
    deal = AllocateMessageQueueAveragelyByCircle().allocate
    assert [[q.queue_id for q in deal(c, queues, ["a", "b"])] for c in "ab"] == [[0, 2, 4], [1, 3]]


def test_a_member_more_moves_few_queues_on_the_ring() -> None:
    queues = queues_of([200, 0, 0])
    strategy = AllocateMessageQueueConsistentHash()
    before = {q: c for c in "abcd" for q in strategy.allocate(c, queues, [*"abcd"])}
    after = {q: c for c in "abcde" for q in strategy.allocate(c, queues, [*"abcde"])}
    moved = [queue for queue in queues if before[queue] != after[queue]]
    assert {after[queue] for queue in moved} == {"e"}, "only to the new one"
    assert 0 < len(moved) < 100
    assert AllocateMessageQueueConsistentHash(0).allocate("a", queues, ["a"]) == []
    with pytest.raises(CallerError):
        AllocateMessageQueueConsistentHash(-1)


def test_rooms() -> None:
    queues = [MessageQueue("T", broker, 0) for broker in ("r1@a", "r1@a@b", "r2@a", "plain")]
    assert AllocateMessageQueueByMachineRoom(["r1"]).allocate("a", queues, ["a"]) == queues[:1]
    assert AllocateMessageQueueByConfig(queues[1:2]).allocate("a", queues, ["b"]) == queues[1:2]
    lost = AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), lambda queue: "", lambda client: "r1")
    with pytest.raises(CallerError, match="in no machine room"):
        lost.allocate("a", queues, ["a"])
