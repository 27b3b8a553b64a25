"""Locks of ordered consumption by the clock: asked for every 20 s, lost after 30 s without an answer; none, no work."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rmq_client.consuming.listener import Context
from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.queue_locks import QueueLocks
from rmq_client.world import mono_ms
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.offsets import QueryConsumerOffsetResponse
from tests.client.consumers import FIRST, Heard, Messages
from tests.client.fake_cluster import Answer, FakeCluster, Reply, client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET
MINE = ("T", 0)
"""The queue of broker a that has messages."""
QUEUES = [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1), MessageQueue("T", "broker-b", 0)]


def granting(*queue_ids: int) -> Answer:
    def answer(command: Command) -> Reply:
        asked = LockBatchRequest.read(bytes(command.body))
        body = LockBatchResponse(lock_ok_mq_set=[one for one in asked.mq_set if one.queue_id in queue_ids]).encode()
        return ResponseCode.SUCCESS, None, body

    return answer


async def test_they_are_asked_for_every_twenty_seconds(autojump_clock: MockClock) -> None:
    cluster = FakeCluster(brokers=("broker-a",))
    cluster.a.answers[LOCK] = granting(0, 1)
    async with client_of(cluster, instance_name="me") as client:
        members = b'{"consumerIdList":["%s"]}' % client.client_id.encode()
        cluster.a.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda command: (0, None, members)
        offset = QueryConsumerOffsetResponse(offset=0)
        cluster.a.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda command: (0, offset, b"")
        cluster.a.answers[RequestCode.PULL_MESSAGE] = lambda command: None
        async with client.push_consumer("G", {"T": "*"}, Heard(), orderly=True) as consumer:
            await pass_time(0.5)
            assert len(consumer.queues) == cluster.a.count(LOCK) == 2, "one for each queue that came"
            await pass_time(100)
            assert cluster.a.count(LOCK) == 2 + 5, "after 1, 21, 41, 61, 81 seconds, for all at once"
        assert cluster.a.count(UNLOCK) == 1
        [goodbye] = [command for command in cluster.a.heard if command.code == UNLOCK]
        assert len(LockBatchRequest.read(bytes(goodbye.body)).mq_set) == 2


async def test_what_is_granted_is_noted_and_no_answer_changes_nothing(autojump_clock: MockClock) -> None:
    cluster = FakeCluster()
    cluster.a.answers[LOCK] = granting(0)
    cluster.b.deaf = True
    async with client_of(cluster) as client:
        await client.route("T")
        locks = QueueLocks(client, "G")
        held = {queue: ProcessQueue(mono_ms()) for queue in QUEUES}
        for one in held.values():
            one.locked = True
        await pass_time(31)
        await locks.renew(held)
        assert [one.locked for one in held.values()] == [True, False, True]
        assert [one.lock_expired(mono_ms()) for one in held.values()] == [False, True, True]
        assert await locks.lock(QUEUES[0])
        assert not await locks.lock(QUEUES[1])
        assert not await locks.lock(QUEUES[2])
        held[QUEUES[0]].dropped = True
        before = cluster.a.count(LOCK)
        await locks.renew({QUEUES[0]: held[QUEUES[0]]})
        assert cluster.a.count(LOCK) == before, "one that is given up is not asked for"


@pytest.mark.parametrize("body", [b"", b"[", b'{"lockOKMQSet":7}'])
async def test_garbage_locks_nothing(autojump_clock: MockClock, body: bytes) -> None:
    cluster = FakeCluster()
    cluster.a.answers[LOCK] = lambda command: (0, None, body)
    async with client_of(cluster) as client:
        await client.route("T")
        assert not await QueueLocks(client, "G").lock(QUEUES[0])


def locks_asked(cluster: SimCluster, code: int, since_s: float) -> list[tuple[float, list[tuple[str, int]]]]:
    """When broker a was asked to give locks, or got them back, and of which queues."""
    return [
        (at_s, [(one.topic, one.queue_id) for one in LockBatchRequest.read(bytes(command.body)).mq_set])
        for at_s, command in cluster.a.asked(code, since_s)
    ]


def place(command: Command) -> tuple[str, int]:
    fields = command.ext_map()
    return fields["topic"], int(fields["queueId"])


class Working:
    """A listener that takes its time."""

    def __init__(self, cluster: SimCluster, takes_s: float) -> None:
        self.began: list[float] = []
        self.cluster = cluster
        self.takes_s = takes_s

    async def __call__(self, messages: Messages, context: Context) -> None:
        self.began.append(trio.current_time())
        await pass_time(self.takes_s)
        for message in messages:
            self.cluster.done.add((message.queue.broker_name, message.unit.physical_offset))


async def test_a_queue_without_its_lock_asks_for_it_in_ten_ms_and_then_every_three_seconds(autojump_clock: MockClock) -> None:
    """000-36: somebody else has it for a while, and the listener, which has a backlog, gets nothing."""
    cluster = SimCluster(1)
    cluster.fill(60)
    listener = Working(cluster, 0.9)
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listener, orderly=True, **FIRST):
        await pass_time(15)
        locks = cluster.kept["broker-a"].locks
        locks["G", "T", 0] = ("somebody", trio.current_time())
        await pass_time(15)
        del locks["G", "T", 0]
        await pass_time(4)
    asked = locks_asked(cluster, LOCK, 15)
    renewal, *single = [at_s for at_s, queues in asked if MINE in queues]
    last = max(at_s for at_s in listener.began if at_s < renewal)
    assert last < renewal < last + 0.9, "the lock is found lost while the listener is at work"
    assert single == pytest.approx([last + 0.9 + 0.01 + 3.01 * times for times in range(4)])
    assert [queues for _, queues in asked[1:5]] == [[MINE]] * 4
    assert min(at_s for at_s in listener.began if at_s > renewal) == pytest.approx(single[-1] + 0.01), "it was free at the fourth"


@pytest.mark.parametrize(
    ("takes_s", "goes_s"),
    [
        pytest.param(0.9, 22.9, id="it ends within half a second"),
        pytest.param(4.0, 28.0, id="it has ended by another round"),
        pytest.param(60.0, 42.0, id="its lock is older than 20 s"),
    ],
)
async def test_a_queue_that_moves_waits_for_its_listener(autojump_clock: MockClock, takes_s: float, goes_s: float) -> None:
    """000-38: half a second in each round; then its progress is told, and its lock given back one-way."""
    cluster = SimCluster(1)
    listener = Working(cluster, takes_s)
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listener, orderly=True, **FIRST) as consumer:
        await pass_time(22)  # the locks were renewed a moment ago
        cluster.fill(1)
        await pass_time(0.5)
        for broker in cluster.kept.values():
            broker.members["G"] |= {"!another"}  # he comes before ours: the queues of broker a are his
        for at_s in (22.5, 25, 28, 40, 42, 45):
            await pass_time(at_s - trio.current_time())
            cluster.tell(cluster.kept["broker-a"], "G")
        assert {queue.broker_name for queue in consumer.queues} == {"broker-b"}
        told = [at_s for at_s, command in cluster.a.asked(UPDATE) if place(command) == MINE]
        assert told[-1] == pytest.approx(goes_s), "then nobody tells it any more"
        [gone_s] = [at_s for at_s, queues in locks_asked(cluster, UNLOCK, 0) if MINE in queues]
        assert gone_s == pytest.approx(goes_s)
        assert all(command.is_oneway for _, command in cluster.a.asked(UNLOCK))
