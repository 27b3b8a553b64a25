"""What our client does with any RocketMQ: played on our broker by `tests/client`, on the real one by `tests/java`.

By the blocking face, so that both faces are shown: what it calls is the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from rmq_client.blocking import Client
from rmq_client.consuming.pulling import PullStatus
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.subscriptions import Subscription
from rmq_client.errors import BrokerError, NoRoute
from rmq_client.messages import Message, SendStatus
from tests.support.process import until
from tests.support.talk import PATIENCE_S

Behaviour = Callable[[Client, str], None]
"""With a topic of four queues of its own."""
QUEUES: Final = 4


def read_all(client: Client, topic: str, sent: int, subscription: Subscription | None = None) -> list[ReceivedMessage]:
    """Every message of a topic, queue by queue, once all that were sent are in their queues: the real broker does that later."""
    puller = client.puller()
    until(lambda: sum(map(puller.max_offset, puller.queues(topic))) >= sent, f"{sent} messages in {topic}", seconds=PATIENCE_S)
    found: list[ReceivedMessage] = []
    for queue in puller.queues(topic):
        offset = puller.min_offset(queue)
        while offset < puller.max_offset(queue):
            result = puller.pull(queue, offset, subscription=subscription or Subscription())
            found += result.messages
            offset = result.next_offset
    return found


def all_that_a_message_says_comes_back(client: Client, topic: str) -> None:
    message = Message(topic, b"\x00body\xff", tags="A", keys=["k1", "k2"], properties={"farbe": "grün", "x": "1 2"}, flag=7)
    sent = client.producer(f"{topic}-p").send(message)
    [found] = read_all(client, topic, 1)
    assert (found.body, found.tags, found.keys, found.unit.flag) == (b"\x00body\xff", "A", ["k1", "k2"], 7)
    assert (found.properties["farbe"], found.properties["x"]) == ("grün", "1 2")
    assert (found.message_id, found.offset_message_id) == (sent.message_id, sent.offset_message_id)
    assert (found.queue, found.queue_offset) == (sent.queue, sent.queue_offset)
    assert (found.topic, found.reconsume_times, sent.status) == (topic, 0, SendStatus.SEND_OK)
    assert abs(found.store_timestamp - found.born_timestamp) < 60_000


def round_robin_fills_all_queues(client: Client, topic: str) -> None:
    producer = client.producer(f"{topic}-p")
    queues = [producer.send(Message(topic, b"%d" % number)).queue.queue_id for number in range(2 * QUEUES)]
    assert sorted(queues) == sorted([*range(QUEUES)] * 2)
    assert queues[:QUEUES] == queues[QUEUES:]


def one_key_stays_in_order_in_one_queue(client: Client, topic: str) -> None:
    producer = client.producer(f"{topic}-p")
    for number in range(10):
        producer.send(Message(topic, b"%d" % number), order_key="order-7")
    found = read_all(client, topic, 10)
    assert [message.body for message in found] == [b"%d" % number for number in range(10)]
    assert len({message.queue for message in found}) == 1


def batches_are_split_and_each_message_is_there(client: Client, topic: str) -> None:
    producer = client.producer(f"{topic}-p", max_message_size=4_000)
    bodies = [b"%03d" % number + b"x" * 500 for number in range(20)]
    results = producer.send_batch([Message(topic, body, tags="B") for body in bodies])
    assert [len(result.message_id.split(",")) for result in results] == [6, 6, 6, 2]
    found = read_all(client, topic, 20)
    assert sorted(message.body for message in found) == bodies
    assert {message.message_id for message in found} == {key for result in results for key in result.message_id.split(",")}


def long_bodies_travel_packed(client: Client, topic: str) -> None:
    body = b"a long text, again and again " * 1_000
    ways = ["zlib"]
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        pass
    else:
        ways += ["lz4", "zstd"]
    for how in ways:
        client.producer(f"{topic}-{how}", compress_type=how).send(Message(topic, body))
    found = read_all(client, topic, len(ways))
    assert len(found) == len(ways)
    assert all(message.body == body and len(message.unit.body) < len(body) for message in found)


def oneway_arrives(client: Client, topic: str) -> None:
    producer = client.producer(f"{topic}-p")
    puller = client.puller()
    [queue, *_] = puller.queues(topic)
    producer.send_oneway(Message(topic, b"gone"), queue=queue)
    result = puller.pull(queue, 0, hold_ms=30_000)
    assert [message.body for message in result.messages] == [b"gone"]


def tags_and_properties_filter(client: Client, topic: str) -> None:
    producer = client.producer(f"{topic}-p")
    for tag in ("A", "B", "C"):
        producer.send(Message(topic, tag.encode(), tags=tag, properties={"price": str(ord(tag))}))
    found = read_all(client, topic, 3, Subscription("A || C"))
    assert sorted(message.body for message in found) == [b"A", b"C"]
    found = read_all(client, topic, 3, Subscription("price > 65", "SQL92"))
    assert sorted(message.body for message in found) == [b"B", b"C"]


def pulls_say_where_there_is_nothing(client: Client, topic: str) -> None:
    puller = client.puller()
    [queue, *_] = puller.queues(topic)
    client.producer(f"{topic}-p").send(Message(topic, b"only", tags="A"), queue=queue)
    assert puller.pull(queue, 0, hold_ms=30_000).status is PullStatus.FOUND
    at_end = puller.pull(queue, 1)
    assert (at_end.status, at_end.next_offset, at_end.max_offset) == (PullStatus.NO_NEW_MSG, 1, 1)
    other = puller.pull(queue, 0, subscription=Subscription("B"))
    assert (other.status, other.next_offset, other.messages) == (PullStatus.NO_MATCHED_MSG, 1, ())
    beyond = puller.pull(queue, 100)
    assert beyond.status is PullStatus.OFFSET_ILLEGAL
    assert beyond.next_offset <= 1


def progress_is_kept(client: Client, topic: str) -> None:
    producer, puller = client.producer(f"{topic}-p"), client.puller(f"{topic}-g")
    [queue, *_] = puller.queues(topic)
    for number in range(3):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    until(lambda: puller.max_offset(queue) == 3, "three messages", seconds=PATIENCE_S)
    before = puller.committed_offset(queue)
    assert before in (None, 0)
    puller.pull(queue, 0)
    puller.commit_offset(queue, 2)
    assert puller.committed_offset(queue) == 2
    assert puller.min_offset(queue) == 0
    first = puller.earliest_store_time(queue)
    assert first is not None
    assert puller.offset_at(queue, first) == 0
    assert puller.offset_at(queue, first + 3_600_000) >= 2


def topics_come_and_go(client: Client, topic: str) -> None:
    topics = client.topics
    name = f"{topic}-made"
    [broker] = topics.create(name, queues=3)
    assert name in topics.names()
    assert "TBW102" not in topics.names()
    shown = topics.show(name)
    assert [(row.queue.queue_id, row.max_offset, row.last_update_ms) for row in shown.queues] == [
        (at, 0, None) for at in range(3)
    ]
    assert [(row.broker_name, row.write_queue_nums, row.perm) for row in shown.brokers] == [(broker, 3, 6)]
    client.producer(f"{topic}-p").send(Message(name, b"x"))
    until(lambda: sum(row.max_offset for row in topics.show(name).queues) == 1, "the message", seconds=PATIENCE_S)
    assert topics.delete(name) == [broker]
    with pytest.raises(NoRoute, match="no name server knows"):
        topics.show(name)


def what_a_broker_refuses_is_said(client: Client, topic: str) -> None:
    producer = client.producer(f"{topic}-p", max_message_size=64 << 20, compress_msg_body_over_howmuch=64 << 20)
    with pytest.raises(BrokerError) as raised:
        producer.send(Message(topic, b"x" * ((4 << 20) + 1)))
    assert raised.value.name == "MESSAGE_ILLEGAL"
    assert not raised.value.maybe_stored


BEHAVIOURS: Final[list[Behaviour]] = [
    all_that_a_message_says_comes_back,
    round_robin_fills_all_queues,
    one_key_stays_in_order_in_one_queue,
    batches_are_split_and_each_message_is_there,
    long_bodies_travel_packed,
    oneway_arrives,
    tags_and_properties_filter,
    pulls_say_where_there_is_nothing,
    progress_is_kept,
    topics_come_and_go,
    what_a_broker_refuses_is_said,
]
