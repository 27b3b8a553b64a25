"""Ordered consumption on our own broker: nothing overtakes, whatever a listener answers and whoever comes and goes."""

from __future__ import annotations

import pytest
import trio

from rmq_client.client import connect
from rmq_client.consuming.listener import ConsumeOrderlyContext, ConsumeOrderlyStatus, Outcome
from rmq_client.consuming.orderly import pause_ms
from rmq_client.errors import NoRoute
from rmq_client.messages import Message
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse, QueueName
from rmq_wire.headers.locks import LockBatchMq, UnlockBatchMq
from rmq_wire.names import dlq_topic
from tests.client.consumers import FIRST, Heard, Messages, fill
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S

SUSPEND, COMMIT = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, ConsumeOrderlyStatus.COMMIT
ROLLBACK, SUCCESS = ConsumeOrderlyStatus.ROLLBACK, ConsumeOrderlyStatus.SUCCESS
Context = ConsumeOrderlyContext
ORDERLY = {"orderly": True, "rebalance_interval_ms": 500, "suspend_current_queue_time_ms": 10, **FIRST}


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_what_fails_is_tried_in_place_and_nothing_overtakes(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "order", 6, queues=1)
        heard, tries = Heard(), []

        async def listen(messages: Messages, context: Context) -> Outcome:
            [message] = messages
            tries.append((message.body, message.reconsume_times))
            if message.body == b"2" and message.reconsume_times < 2:
                if message.reconsume_times:
                    return SUSPEND
                raise RuntimeError("not yet")
            heard.add(messages)
            return None

        async with client.push_consumer("order-g", {"order": "*"}, listen, **ORDERLY):
            await heard.until(6)
        assert heard.bodies == numbers(6)
        assert tries == [(body, times) for body in numbers(6) for times in ((0, 1, 2) if body == b"2" else (0,))]
        puller = client.puller("order-g")
        [queue] = await puller.queues("order")
        assert await puller.committed_offset(queue) == 6


async def test_a_batch_is_put_back_whole_and_given_up_at_its_maximum(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "batch", 4, queues=1)
        batches: list[list[tuple[bytes, int]]] = []
        last = Heard()

        async def listen(messages: Messages, context: Context) -> Outcome:
            batches.append([(message.body, message.reconsume_times) for message in messages])
            if messages[0].body == b"0":
                return SUSPEND
            last.add(messages)
            return SUCCESS

        settings = {**ORDERLY, "consume_message_batch_max_size": 2, "max_reconsume_times": 1}
        async with client.push_consumer("batch-g", {"batch": "*"}, listen, **settings):
            await last.until(2)
            puller = client.puller()
            dead: list[bytes] = []
            with trio.fail_after(PATIENCE_S):
                while len(dead) < 2:
                    try:
                        [queue] = await puller.queues(dlq_topic("batch-g"))
                    except (NoRoute, ValueError):
                        continue
                    dead += [one.body for one in (await puller.pull(queue, len(dead), hold_ms=5_000)).messages]
        assert batches == [[(b"0", 0), (b"1", 0)], [(b"0", 1), (b"1", 1)], [(b"2", 0), (b"3", 0)]]
        assert dead == [b"0", b"1"]


async def test_without_auto_commit_the_listener_says_when(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "commit", 4, queues=1)
        heard = Heard()
        answers = [SUCCESS, SUCCESS, ROLLBACK, SUCCESS, COMMIT, SUCCESS, SUCCESS]

        async def listen(messages: Messages, context: Context) -> Outcome:
            context.auto_commit = False
            heard.add(messages)
            return answers.pop(0)

        async with client.push_consumer("commit-g", {"commit": "*"}, listen, **ORDERLY):
            await heard.until(4)
            while answers:
                await trio.lowlevel.checkpoint()
        assert heard.bodies == [b"0", b"1", b"2", b"0", b"1", b"2", b"3"]
        puller = client.puller("commit-g")
        [queue] = await puller.queues("commit")
        assert await puller.committed_offset(queue) == 2, "what came behind the COMMIT comes again"


async def test_one_batch_of_a_queue_at_a_time_and_queues_beside_each_other(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "beside", 8, queues=2)
        at_work: list[int] = []
        both, heard = trio.Event(), Heard()

        async def listen(messages: Messages, context: Context) -> Outcome:
            assert context.queue.queue_id not in at_work
            at_work.append(context.queue.queue_id)
            if len(at_work) == 2:
                both.set()
            await both.wait()
            await trio.lowlevel.checkpoint()
            at_work.remove(context.queue.queue_id)
            heard.add(messages)
            return None

        async with client.push_consumer("beside-g", {"beside": "*"}, listen, **ORDERLY):
            await heard.until(8)
        by_queue = {queue: [m.queue_offset for m in heard.messages if m.queue.queue_id == queue] for queue in range(2)}
        assert by_queue == {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}


async def test_a_queue_goes_over_in_order(ours: Subject) -> None:
    async with connect(ours.namesrv) as client, connect(ours.namesrv) as other:
        await fill(client, "over", 0, queues=4)
        log: list[tuple[int, int]] = []

        async def listen(messages: Messages, context: Context) -> Outcome:
            log.extend((message.queue.queue_id, message.queue_offset) for message in messages)
            await trio.lowlevel.checkpoint()
            return None

        producer = client.producer("over-p2")
        queues = await producer.queues("over")
        count = 0

        async def send() -> None:
            nonlocal count
            for queue in queues:
                await producer.send(Message("over", b"%d" % count), queue=queue)
                count += 1

        async def all_consumed() -> None:
            with trio.fail_after(PATIENCE_S):
                while len(set(log)) < count:
                    await trio.lowlevel.checkpoint()

        async with client.push_consumer("over-g", {"over": "*"}, listen, **ORDERLY) as one:
            await send()
            await all_consumed()
            async with other.push_consumer("over-g", {"over": "*"}, listen, **ORDERLY) as two:
                with trio.fail_after(PATIENCE_S):
                    while (len(one.queues), len(two.queues)) != (2, 2):
                        await send()
                for _ in range(5):
                    await send()
                await all_consumed()
            await send()
            await all_consumed()
        for queue in range(4):
            offsets = [offset for at, offset in log if at == queue]
            firsts = list(dict.fromkeys(offsets))
            assert firsts == sorted(firsts), "the first time that each is seen is in order"


async def test_who_leaves_gives_its_locks_back(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "locks", 1, queues=1)
        heard = Heard()
        name = QueueName(broker_name=ours.broker_name, queue_id=0, topic="locks")
        body = LockBatchRequest(client_id="somebody", consumer_group="locks-g", mq_set=[name]).encode()

        async def got() -> list[QueueName]:
            answer = await client.ask(ours.address, LockBatchMq(), body)
            return LockBatchResponse.read(bytes(answer.body)).lock_ok_mq_set

        async with client.push_consumer("locks-g", {"locks": "*"}, heard, **ORDERLY):
            await heard.until(1)
            assert await got() == []
        assert await got() == [name]
        again = Heard()
        async with client.push_consumer("locks-g", {"locks": "*"}, again, **ORDERLY) as consumer:
            await client.producer("locks-p2").send(Message("locks", b"new"))
            for _ in range(20):
                await client.ask(ours.address, LockBatchMq(), body)
            assert consumer.queues == []
            await client.ask(ours.address, UnlockBatchMq(), body)
            await again.until(1)
        assert again.bodies == [b"new"]


@pytest.mark.parametrize(("asked", "waits"), [(None, 10), (-1, 10), (0, 10), (700, 700), (99_999, 30_000)])
def test_how_long_a_queue_waits(asked: int | None, waits: int) -> None:
    assert pause_ms(asked, 10) == waits
