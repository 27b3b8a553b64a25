"""Locks of ordered consumption by the clock: asked for every 20 s, lost after 30 s without an answer; none, no work."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.queue_locks import QueueLocks
from rmq_client.world import mono_ms
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.offsets import QueryConsumerOffsetResponse
from tests.client.consumers import Heard
from tests.client.fake_cluster import Answer, FakeCluster, Reply, client_of, pass_time

LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ
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
