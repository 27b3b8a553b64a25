"""Python push consumers beside the real RocketMQ 5.5.0: its broker, its producers, and its consumers in the same group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import trio

from rmq_client.client import connect
from rmq_client.consuming.listener import ConsumeConcurrentlyContext, ConsumeOrderlyContext
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.heartbeats import Heartbeats
from rmq_client.messages import Message
from rmq_wire.bodies.heartbeat import HeartbeatData
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.subject import Subject, start_subject
from tests.support.talk import PATIENCE_S

pytestmark = pytest.mark.java
QUEUES = 6
COUNT = 120


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    java()
    properties = {"messageDelayLevel": " ".join(["1s"] * 18)}  # what fails comes again soon
    running = start_subject("java", tmp_path_factory.mktemp("real"), properties=properties)
    yield running
    running.end()


async def test_one_group_of_a_java_and_a_python_consumer(real: Subject, clients: JavaDriver) -> None:
    topic = f"mixed-{clients.version.replace('.', '-')}"
    group = f"{topic}-g"
    seen: list[ReceivedMessage] = []

    async def listen(messages: Sequence[ReceivedMessage], context: ConsumeConcurrentlyContext) -> None:
        for message in messages:
            if message.body == b"7" and not message.reconsume_times:
                raise RuntimeError("not yet")
        seen.extend(messages)

    def java_has() -> set[int]:
        return {one["queue"] for one in clients.call("push.queues", consumer=topic) if one["topic"] == topic}

    async with connect(real.namesrv) as client:
        await client.topics.create(topic, queues=QUEUES)
        settings = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", "rebalance_interval_ms": 500}
        quick = {"persist_consumer_offset_interval_ms": 200}
        async with client.push_consumer(group, {topic: "*"}, listen, **settings, **quick) as consumer:
            start = {"name": topic, "group": group, "namesrv": real.namesrv, "topic": topic}
            await trio.to_thread.run_sync(lambda: clients.call("push.start", **start))
            try:
                with trio.fail_after(PATIENCE_S):
                    while True:
                        own, others = {queue.queue_id for queue in consumer.queues}, await trio.to_thread.run_sync(java_has)
                        if len(own) == len(others) == QUEUES // 2 and not own & others:
                            break
                producer = client.producer(f"{topic}-p")
                for number in range(COUNT):
                    await producer.send(Message(topic, b"%d" % number))
                everything = {str(number) for number in range(COUNT)}
                with trio.fail_after(PATIENCE_S):
                    while True:
                        theirs = {message["body"] for message in clients.messages(topic)}
                        if {message.body.decode() for message in seen} | theirs == everything:
                            break
                        await trio.lowlevel.checkpoint()
            finally:
                await trio.to_thread.run_sync(lambda: clients.call("push.stop", consumer=topic))
            puller = client.puller(group)

            async def done() -> int:
                return sum([await puller.committed_offset(queue) or 0 for queue in await puller.queues(topic)])

            with trio.fail_after(PATIENCE_S):  # what the other one had in hand when it left comes again, here
                while len(consumer.queues) != QUEUES or await done() < COUNT:
                    await trio.lowlevel.checkpoint()
        assert await done() == COUNT, "each consumed, by either"


async def test_short_heartbeats_keep_a_member_and_its_subscription(real: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    short: list[bool] = []
    body = Heartbeats.body

    def noted(self: Heartbeats, *said: Any) -> bytes:
        found = body(self, *said)
        short.append(HeartbeatData.read(found).without_sub)
        return found

    monkeypatch.setattr(Heartbeats, "body", noted)
    seen: list[ReceivedMessage] = []

    async def listen(messages: Sequence[ReceivedMessage], context: ConsumeConcurrentlyContext) -> None:
        seen.extend(messages)

    async with connect(real.namesrv, use_heartbeat_v2=True) as client:
        await client.topics.create("short-beats", queues=2)
        async with client.push_consumer("short-beats-g", {"short-beats": "A"}, listen, rebalance_interval_ms=200) as consumer:
            with trio.fail_after(PATIENCE_S):
                while len(consumer.queues) < 2 or short[-3:] != [True] * 3:
                    await client.heartbeat()
            found = (await client.groups.lag("short-beats-g")).members
            assert found == (client.client_id,)
            producer = client.producer("short-beats-p")
            for tag in ("B", "A"):
                await producer.send(Message("short-beats", tag.encode(), tags=tag))
            with trio.fail_after(PATIENCE_S):
                while not seen:
                    await trio.lowlevel.checkpoint()
    assert [message.body for message in seen] == [b"A"]
    assert not short[0]


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
async def test_mqadmin_looks_at_a_python_consumer(real: Subject, clients: JavaDriver) -> None:
    """`consumerStatus`, with and without a stack dump, and a message that is handed to it."""
    group = "seen-by-mqadmin"
    done = trio.Event()

    async def listener_that_is_seen(messages: Sequence[ReceivedMessage], context: ConsumeConcurrentlyContext) -> None:
        if messages[0].body == b"last":
            done.set()
            await trio.Event().wait()

    async def mqadmin(*words: str) -> str:
        return (await trio.to_thread.run_sync(lambda: clients.mqadmin(*words))).out

    async with connect(real.namesrv) as client:
        await client.topics.create(group, queues=2)
        producer = client.producer(f"{group}-p")
        first = await producer.send(Message(group, b"first"))
        await producer.send(Message(group, b"last"))
        settings = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", "await_termination_ms": 10}
        async with client.push_consumer(group, {group: "*"}, listener_that_is_seen, **settings):
            with trio.fail_after(PATIENCE_S):
                await done.wait()
            status = ("consumerStatus", "-n", real.namesrv, "-g", group, "-i", client.client_id)
            printed = await mqadmin(*status, "-s")
            assert "#Consumer MQ Detail#" in printed
            assert "listener_that_is_seen" in printed
            lines = [line.split() for line in printed.splitlines()]
            assert ["PROP_CLIENT_VERSION", ":", "V5_5_0"] in lines
            assert sum(line[:2] == [group, real.broker_name] for line in lines) == 4, "offset and detail of two queues"
            assert "001 Topic:" in printed
            direct = ("queryMsgByUniqueKey", "-n", real.namesrv, "-t", group, "-i", first.message_id)
            assert "CR_SUCCESS" in await mqadmin(*direct, "-g", group, "-d", client.client_id)


async def test_order_goes_over_between_java_and_python(real: Subject, clients: JavaDriver) -> None:
    """Each queue is consumed in order, by whomever; what is seen first of each message is in the order of its offsets."""
    topic = f"ordered-{clients.version.replace('.', '-')}"
    group = f"{topic}-g"
    log: list[tuple[int, int]] = []

    async def listen(messages: Sequence[ReceivedMessage], context: ConsumeOrderlyContext) -> None:
        log.extend((message.queue.queue_id, message.queue_offset) for message in messages)

    def theirs() -> list[tuple[int, int]]:
        return [(message["queue"], message["offset"]) for message in clients.messages(topic)]

    def java_has() -> set[int]:
        return {one["queue"] for one in clients.call("push.queues", consumer=topic) if one["topic"] == topic}

    async with connect(real.namesrv) as client:
        await client.topics.create(topic, queues=QUEUES)
        producer = client.producer(f"{topic}-p")
        queues = await producer.queues(topic)
        sent = 0

        async def send() -> None:
            nonlocal sent
            for queue in queues:
                await producer.send(Message(topic, b"%d" % sent), queue=queue)
                sent += 1

        async def all_seen() -> None:
            with trio.fail_after(PATIENCE_S):
                while len({*log, *theirs()}) < sent:
                    await trio.lowlevel.checkpoint()

        settings = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", "rebalance_interval_ms": 500, "orderly": True}
        async with client.push_consumer(group, {topic: "*"}, listen, **settings) as consumer:
            await send()
            await all_seen()
            start = {"name": topic, "group": group, "namesrv": real.namesrv, "topic": topic, "orderly": True}
            await trio.to_thread.run_sync(lambda: clients.call("push.start", **start))
            try:
                with trio.fail_after(PATIENCE_S):
                    while True:
                        await send()
                        own, others = {queue.queue_id for queue in consumer.queues}, await trio.to_thread.run_sync(java_has)
                        if len(own) == len(others) == QUEUES // 2 and not own & others:
                            break
                for _ in range(10):
                    await send()
                await all_seen()
            finally:
                await trio.to_thread.run_sync(lambda: clients.call("push.stop", consumer=topic))
            await send()
            await all_seen()
    for queue in range(QUEUES):
        for seen in (log, theirs()):
            firsts = list(dict.fromkeys(offset for at, offset in seen if at == queue))
            assert firsts == sorted(firsts)
    assert theirs(), "both took part"
