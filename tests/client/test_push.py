"""Push consumers on our own broker: groups, progress, retries, dead letters, leaving.  Delay levels take milliseconds here."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from rmq_client.client import connect
from rmq_client.consuming.listener import ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus, acknowledged
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.errors import CallerError, NoRoute, Unreachable
from rmq_client.messages import Message
from rmq_wire.names import dlq_topic
from tests.client.consumers import FIRST, Heard, fill
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
Messages = Sequence[ReceivedMessage]
Context = ConsumeConcurrentlyContext


async def test_each_message_comes_once_and_progress_is_where_it_ended(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "once", 40)
        heard = Heard()
        async with client.push_consumer("once-g", {"once": "*"}, heard, **FIRST) as consumer:
            await heard.until(40)
            assert len(consumer.queues) == 4
            assert {queue.topic for queue in consumer.queues} == {"once"}
        assert sorted(heard.bodies) == sorted(b"%d" % number for number in range(40))
        puller = client.puller("once-g")
        for queue in await puller.queues("once"):
            assert await puller.committed_offset(queue) == await puller.max_offset(queue)
        again = Heard()
        async with client.push_consumer("once-g", {"once": "*"}, again, **FIRST):
            await client.producer("once-p2").send(Message("once", b"new"))
            await again.until(1)
        assert again.bodies == [b"new"]


async def test_tags_choose(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "tags", 3, tag="A")
        producer = client.producer("tags-p2")
        await producer.send(Message("tags", b"B", tags="B"))
        heard = Heard()
        async with client.push_consumer("tags-g", {"tags": "B || C"}, heard, **FIRST):
            await heard.until(1)
        assert heard.bodies == [b"B"]


async def test_what_failed_comes_again_under_its_own_topic_and_id(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "again", 3)
        heard = Heard()

        async def listen(messages: Messages, context: Context) -> None:
            heard.add(messages)
            [message] = messages
            if message.body == b"1" and message.reconsume_times < 2:
                raise RuntimeError("not yet")

        async with client.push_consumer("again-g", {"again": "*"}, listen, rebalance_interval_ms=200, **FIRST):
            with trio.fail_after(PATIENCE_S):
                while heard.bodies.count(b"1") < 3:
                    await heard.until(len(set(heard.bodies)))
                    await trio.lowlevel.checkpoint()
        tries = [message for message in heard.messages if message.body == b"1"]
        assert [message.reconsume_times for message in tries] == [0, 1, 2]
        assert {message.topic for message in tries} == {"again"}
        assert len({message.message_id for message in tries}) == 1
        assert Counter(heard.bodies) == {b"0": 1, b"1": 3, b"2": 1}


async def test_a_message_goes_to_the_dead_letters_at_once_or_after_its_retries(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "dead", 2, queues=1)
        gone = Heard()

        async def listen(messages: Messages, context: Context) -> ConsumeConcurrentlyStatus:
            if messages[0].body == b"0":
                context.delay_level_when_next_consume = -1
            gone.add(messages)
            return LATER

        settings = {"max_reconsume_times": 2, "rebalance_interval_ms": 200, **FIRST}
        async with client.push_consumer("dead-g", {"dead": "*"}, listen, **settings):
            await gone.until(2)
            puller = client.puller()
            found: list[ReceivedMessage] = []
            with trio.fail_after(PATIENCE_S):
                while len(found) < 2:
                    try:
                        [queue] = await puller.queues(dlq_topic("dead-g"))
                    except (NoRoute, ValueError):
                        continue
                    found += (await puller.pull(queue, len(found), hold_ms=5_000)).messages
        assert sorted(message.body for message in found) == [b"0", b"1"]
        assert Counter(gone.bodies) == {b"0": 1, b"1": 3}


async def test_two_members_share_and_one_takes_over(ours: Subject) -> None:
    async with connect(ours.namesrv) as client, connect(ours.namesrv) as other:
        await fill(client, "share", 0)
        first, second = Heard(), Heard()
        settings = {"rebalance_interval_ms": 500, **FIRST}
        async with client.push_consumer("share-g", {"share": "*"}, first, **settings) as one:
            async with other.push_consumer("share-g", {"share": "*"}, second, **settings) as two:
                with trio.fail_after(PATIENCE_S):
                    while (len(one.queues), len(two.queues)) != (2, 2):
                        await trio.lowlevel.checkpoint()
                assert not set(one.queues) & set(two.queues)
                producer = client.producer("share-p2")
                for number in range(40):
                    await producer.send(Message("share", b"%d" % number))
                with trio.fail_after(PATIENCE_S):
                    while len({*first.bodies, *second.bodies}) < 40:
                        await trio.lowlevel.checkpoint()
                assert first.bodies
                assert second.bodies
            with trio.fail_after(PATIENCE_S):
                while len(one.queues) != 4:
                    await trio.lowlevel.checkpoint()


async def test_a_plain_function_runs_in_threads_and_so_many_at_once(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "threads", 12)
        lock, done = threading.Lock(), threading.Event()
        seen: list[bytes] = []
        working: list[int] = [0, 0]
        both = threading.Barrier(2)

        def listen(messages: Messages, context: Context) -> None:
            with lock:
                working[0] += 1
                working[1] = max(working)
            both.wait(PATIENCE_S)
            with lock:
                working[0] -= 1
                seen.extend(message.body for message in messages)
                if len(seen) == 12:
                    done.set()

        async with client.push_consumer("threads-g", {"threads": "*"}, listen, consume_thread_max=2, **FIRST) as consumer:
            with trio.fail_after(PATIENCE_S):
                while not done.is_set():
                    await trio.lowlevel.checkpoint()
            consumer.consume_thread_max = 5
            assert consumer.consume_thread_max == 5
            with pytest.raises(CallerError):
                consumer.consume_thread_max = 0
        assert working[1] == 2
        assert len(set(seen)) == 12


async def test_part_of_a_batch(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "part", 6, queues=1)
        batches: list[list[bytes]] = []
        heard = Heard()

        async def listen(messages: Messages, context: Context) -> None:
            batches.append([message.body for message in messages])
            if len(messages) > 1:
                context.ack_index = 0
            heard.add(messages)

        settings = {"consume_message_batch_max_size": 3, "rebalance_interval_ms": 200, **FIRST}
        async with client.push_consumer("part-g", {"part": "*"}, listen, **settings):
            with trio.fail_after(PATIENCE_S):
                while len(heard.messages) < 10:
                    await trio.lowlevel.checkpoint()
        assert sorted(batches[:2]) == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]  # two listeners at once
        assert Counter(heard.bodies)[b"0"] == Counter(heard.bodies)[b"3"] == 1


async def test_paused_takes_nothing_and_leaving_waits_for_who_is_at_work(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        await fill(client, "pause", 1, queues=1)
        heard, began, go_on = Heard(), trio.Event(), trio.Event()

        async def listen(messages: Messages, context: Context) -> None:
            began.set()
            await go_on.wait()
            heard.add(messages)

        async with trio.open_nursery() as nursery:
            async with client.push_consumer("pause-g", {"pause": "*"}, listen, **FIRST) as consumer:
                with trio.fail_after(PATIENCE_S):
                    await began.wait()
                consumer.pause()
                nursery.start_soon(_later, go_on)
            assert heard.bodies == [b"0"]
        puller = client.puller("pause-g")
        [queue] = await puller.queues("pause")
        assert await puller.committed_offset(queue) == 1


async def _later(event: trio.Event) -> None:
    await trio.testing.wait_all_tasks_blocked()
    event.set()


async def test_what_cannot_be_consumed_is_said(ours: Subject) -> None:
    async with connect(ours.namesrv) as client:
        heard = Heard()
        wrong: list[tuple[str, dict[str, Any], dict[str, Any], type[Exception]]] = [
            ("g", {"never-made": "*"}, {}, NoRoute),
            ("a b", {"once": "*"}, {}, CallerError),
            ("g", {"once": ""}, {}, CallerError),
            ("g", {"once": "*"}, {"consume_from_where": "anywhere"}, CallerError),
            ("g", {"once": "*"}, {"colour": "blue"}, CallerError),
        ]
        for group, topics, settings, error in wrong:
            with pytest.raises(error):
                async with client.push_consumer(group, topics, heard, **settings):
                    pass
    with pytest.raises(Unreachable):
        async with connect("127.0.0.1:1") as nobody, nobody.push_consumer("g", {"t": "*"}, heard):
            pass


@pytest.mark.parametrize(
    ("count", "status", "ack_index", "done"),
    [
        *[(3, None, None, 3), (3, ConsumeConcurrentlyStatus.CONSUME_SUCCESS, None, 3), (3, LATER, None, 0), (3, LATER, 1, 0)],
        *[(3, None, 0, 1), (3, None, 1, 2), (3, None, 99, 3), (3, None, -1, 0), (3, None, -5, 0)],
    ],
)
def test_what_of_a_batch_is_done(count: int, status: Any, ack_index: int | None, done: int) -> None:
    assert acknowledged(count, status, ack_index) == done
