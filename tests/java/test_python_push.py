"""Python push consumers beside the real RocketMQ 5.5.0: its broker, its producers, and its consumers in the same group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import trio

from rmq_client.client import connect
from rmq_client.consuming.listening import ConsumeConcurrentlyContext
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.messages import Message
from tests.support.clients import JavaDriver
from tests.support.java import java
from tests.support.subject import Subject, start_subject
from tests.support.talk import PATIENCE_S

pytestmark = pytest.mark.java
QUEUES = 6
COUNT = 120


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    java()
    running = start_subject("java", tmp_path_factory.mktemp("real"))
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
        async with client.push_consumer(group, {topic: "*"}, listen, **settings) as consumer:
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
            with trio.fail_after(PATIENCE_S):
                while len(consumer.queues) != QUEUES:
                    await trio.lowlevel.checkpoint()
        puller = client.puller(group)
        done = [await puller.committed_offset(queue) for queue in await puller.queues(topic)]
        assert sum(offset or 0 for offset in done) == COUNT, "each consumed, by either"
