"""What our client does with any RocketMQ: played on our broker by `tests/client`, on the real one by `tests/java`.

Each is written once and played by all three faces of the client (`client_faces`), in a topic and in groups of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from rmq_client.consuming.listener import ConsumeConcurrentlyStatus, Context
from rmq_client.consuming.pull_result import PullStatus
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.subscriptions import Subscription
from rmq_client.errors import BrokerError, CallerError, ClientClosed, InvalidName, NoRoute, Unreachable
from rmq_client.messages import Message, SendStatus
from tests.support.client_faces import Face

QUEUES: Final = 4
FIRST: Final = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET", "rebalance_interval_ms": 500}
Messages = Sequence[ReceivedMessage]


@dataclass
class Played:
    """A behaviour on one face.  `client`: of that face."""

    face: Face
    namesrv: str
    client: Any
    directory: Path


Behaviour = Callable[[Played, str], Awaitable[None]]
"""With a topic of four queues of its own."""


def play(behaviour: Behaviour, face: Face, namesrv: str, directory: Path) -> None:
    """On a broker that knows nothing of it yet."""
    topic = f"{behaviour.__name__}-{face.name}"

    async def whole() -> None:
        async with face.connect(namesrv) as client:
            await client.topics.create(topic, queues=QUEUES)
            await behaviour(Played(face, namesrv, client, directory), topic)

    face.play(whole)


@dataclass
class Heard:
    """A plain listener, which runs in threads: what it got, and where.  `says`: what it returns for one of these bodies."""

    says: Callable[[ReceivedMessage], ConsumeConcurrentlyStatus | None] = lambda message: None
    messages: list[ReceivedMessage] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def __call__(self, messages: Messages, context: Context) -> Any:
        self.threads.add(threading.get_ident())
        self.messages.extend(messages)
        return self.says(messages[0])

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


async def all_are_in_their_queues(played: Played, topic: str, count: int) -> None:
    """The real broker does that after its answer."""
    puller = played.client.puller()

    async def there() -> bool:
        return sum([await puller.max_offset(queue) for queue in await puller.queues(topic)]) >= count

    await played.face.until(there, f"{count} messages in {topic}")


async def read_all(played: Played, topic: str, sent: int, subscription: Subscription | None = None) -> list[ReceivedMessage]:
    """Every message of a topic, queue by queue, once all that were sent are in their queues."""
    await all_are_in_their_queues(played, topic, sent)
    puller = played.client.puller()
    found: list[ReceivedMessage] = []
    for queue in await puller.queues(topic):
        found += [one async for one in puller.messages(queue, subscription=subscription or Subscription())]
    return found


async def fill(played: Played, topic: str, count: int, **how: Any) -> None:
    """Bodies `0` and so on."""
    producer = played.client.producer(f"{topic}-fill")
    for number in range(count):
        await producer.send(Message(topic, b"%d" % number), **how)


def numbers(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


async def all_that_a_message_says_comes_back(played: Played, topic: str) -> None:
    message = Message(topic, b"\x00body\xff", tags="A", keys=["k1", "k2"], properties={"farbe": "grün", "x": "1 2"}, flag=7)
    sent = await played.client.producer(f"{topic}-p").send(message)
    [found] = await read_all(played, topic, 1)
    assert (found.body, found.tags, found.keys, found.unit.flag) == (b"\x00body\xff", "A", ["k1", "k2"], 7)
    assert (found.properties["farbe"], found.properties["x"]) == ("grün", "1 2")
    assert (found.message_id, found.offset_message_id) == (sent.message_id, sent.offset_message_id)
    assert (found.queue, found.queue_offset) == (sent.queue, sent.queue_offset)
    assert (found.topic, found.reconsume_times, sent.status) == (topic, 0, SendStatus.SEND_OK)
    assert abs(found.store_timestamp - found.born_timestamp) < 60_000


async def round_robin_fills_all_queues(played: Played, topic: str) -> None:
    producer = played.client.producer(f"{topic}-p")
    queues = [(await producer.send(Message(topic, b"%d" % number))).queue.queue_id for number in range(2 * QUEUES)]
    assert sorted(queues) == sorted([*range(QUEUES)] * 2)
    assert queues[:QUEUES] == queues[QUEUES:]


async def one_key_stays_in_order_in_one_queue(played: Played, topic: str) -> None:
    producer = played.client.producer(f"{topic}-p")
    for number in range(10):
        await producer.send(Message(topic, b"%d" % number), order_key="order-7")
    found = await read_all(played, topic, 10)
    assert [message.body for message in found] == [b"%d" % number for number in range(10)]
    assert len({message.queue for message in found}) == 1


async def batches_are_split_and_each_message_is_there(played: Played, topic: str) -> None:
    producer = played.client.producer(f"{topic}-p", max_message_size=4_000)
    bodies = [b"%03d" % number + b"x" * 500 for number in range(20)]
    results = await producer.send_batch([Message(topic, body, tags="B") for body in bodies])
    assert [len(result.message_id.split(",")) for result in results] == [6, 6, 6, 2]
    found = await read_all(played, topic, 20)
    assert sorted(message.body for message in found) == bodies
    assert {message.message_id for message in found} == {key for result in results for key in result.message_id.split(",")}


async def long_bodies_travel_packed(played: Played, topic: str) -> None:
    body = b"a long text, again and again " * 1_000
    ways = ["zlib"]
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        pass
    else:
        ways += ["lz4", "zstd"]
    for how in ways:
        await played.client.producer(f"{topic}-{how}", compress_type=how).send(Message(topic, body))
    found = await read_all(played, topic, len(ways))
    assert len(found) == len(ways)
    assert all(message.body == body and len(message.unit.body) < len(body) for message in found)


async def oneway_arrives(played: Played, topic: str) -> None:
    producer = played.client.producer(f"{topic}-p")
    puller = played.client.puller()
    [queue, *_] = await puller.queues(topic)
    await producer.send_oneway(Message(topic, b"gone"), queue=queue)
    result = await puller.pull(queue, 0, hold_ms=30_000)
    assert [message.body for message in result.messages] == [b"gone"]


async def tags_and_properties_filter(played: Played, topic: str) -> None:
    producer = played.client.producer(f"{topic}-p")
    for tag in ("A", "B", "C"):
        await producer.send(Message(topic, tag.encode(), tags=tag, properties={"price": str(ord(tag))}))
    found = await read_all(played, topic, 3, Subscription("A || C"))
    assert sorted(message.body for message in found) == [b"A", b"C"]
    found = await read_all(played, topic, 3, Subscription("price > 65", "SQL92"))
    assert sorted(message.body for message in found) == [b"B", b"C"]


async def pulls_say_where_there_is_nothing(played: Played, topic: str) -> None:
    puller = played.client.puller()
    [queue, *_] = await puller.queues(topic)
    await played.client.producer(f"{topic}-p").send(Message(topic, b"only", tags="A"), queue=queue)
    assert (await puller.pull(queue, 0, hold_ms=30_000)).status is PullStatus.FOUND
    at_end = await puller.pull(queue, 1)
    assert (at_end.status, at_end.next_offset, at_end.max_offset) == (PullStatus.NO_NEW_MSG, 1, 1)
    other = await puller.pull(queue, 0, subscription=Subscription("B"))
    assert (other.status, other.next_offset, other.messages) == (PullStatus.NO_MATCHED_MSG, 1, ())
    beyond = await puller.pull(queue, 100)
    assert beyond.status is PullStatus.OFFSET_ILLEGAL
    assert beyond.next_offset <= 1


async def progress_is_kept(played: Played, topic: str) -> None:
    producer, puller = played.client.producer(f"{topic}-p"), played.client.puller(f"{topic}-g")
    [queue, *_] = await puller.queues(topic)
    for number in range(3):
        await producer.send(Message(topic, b"%d" % number), queue=queue)
    await all_are_in_their_queues(played, topic, 3)
    before = await puller.committed_offset(queue)
    assert before in (None, 0)
    await puller.pull(queue, 0)
    await puller.commit_offset(queue, 2)
    assert await puller.committed_offset(queue) == 2
    assert await puller.min_offset(queue) == 0
    first = await puller.earliest_store_time(queue)
    assert first is not None
    assert await puller.offset_at(queue, first) == 0
    assert await puller.offset_at(queue, first + 3_600_000) >= 2


async def topics_come_and_go(played: Played, topic: str) -> None:
    topics = played.client.topics
    name = f"{topic}-made"
    [broker] = await topics.create(name, queues=3)
    assert name in await topics.names()
    assert "TBW102" not in await topics.names()
    shown = await topics.show(name)
    assert [(row.queue.queue_id, row.max_offset, row.last_update_ms) for row in shown.queues] == [
        (at, 0, None) for at in range(3)
    ]
    assert [(row.broker_name, row.write_queue_nums, row.perm) for row in shown.brokers] == [(broker, 3, 6)]
    await played.client.producer(f"{topic}-p").send(Message(name, b"x"))
    await all_are_in_their_queues(played, name, 1)
    assert sum(row.max_offset for row in (await topics.show(name)).queues) == 1
    assert await topics.delete(name) == [broker]
    with pytest.raises(NoRoute, match="no name server knows"):
        await topics.show(name)


async def what_a_broker_refuses_is_said(played: Played, topic: str) -> None:
    producer = played.client.producer(f"{topic}-p", max_message_size=64 << 20, compress_msg_body_over_howmuch=64 << 20)
    with pytest.raises(BrokerError) as raised:
        await producer.send(Message(topic, b"x" * ((4 << 20) + 1)))
    assert raised.value.name == "MESSAGE_ILLEGAL"
    assert not raised.value.maybe_stored


async def many_senders_at_once(played: Played, topic: str) -> None:
    producer = played.client.producer(f"{topic}-p")
    offsets: list[tuple[int, int]] = []

    async def send() -> None:
        for _ in range(5):
            result = await producer.send(Message(topic, b"x"))
            offsets.append((result.queue.queue_id, result.queue_offset))

    await played.face.at_once(*[send] * 8)
    assert len(set(offsets)) == len(offsets) == 40


async def a_delayed_message_comes_later(played: Played, topic: str) -> None:
    await played.client.producer(f"{topic}-p").send(Message(topic, b"later", delay_time_level=1))
    [found] = await read_all(played, topic, 1)
    assert found.body == b"later"
    assert found.store_timestamp >= found.born_timestamp


async def an_iteration_waits_for_what_is_to_come(played: Played, topic: str) -> None:
    puller = played.client.puller()
    producer = played.client.producer(f"{topic}-p")
    [queue, *_] = await puller.queues(topic)
    await producer.send(Message(topic, b"0"), queue=queue)
    found = []
    async for message in puller.messages(queue, 0, hold_ms=30_000):
        found.append(message.body)
        if len(found) == 3:
            break
        await producer.send(Message(topic, b"%d" % len(found)), queue=queue)
    assert found == [b"0", b"1", b"2"]
    await all_are_in_their_queues(played, topic, 3)
    assert [message.body async for message in puller.messages(queue, 2)] == [b"2"]
    assert [message.body async for message in puller.messages(queue, 9)] == []


async def a_group_consumes_each_once_and_keeps_its_progress(played: Played, topic: str) -> None:
    await fill(played, topic, 12)
    heard, mine = Heard(), threading.get_ident()
    async with played.client.push_consumer(f"{topic}-g", {topic: "*"}, heard, **FIRST) as consumer:
        await played.face.until(lambda: len(heard.messages) >= 12, "twelve messages")
        assert [(queue.topic, queue.queue_id) for queue in consumer.queues] == [(topic, at) for at in range(QUEUES)]
    assert sorted(heard.bodies) == numbers(12)
    assert mine not in heard.threads
    puller = played.client.puller(f"{topic}-g")

    async def kept() -> bool:
        return sum([await puller.committed_offset(queue) or 0 for queue in await puller.queues(topic)]) == 12

    await played.face.until(kept, "the progress, which goes out without an answer as Java's does,")


async def an_async_listener_runs_where_its_caller_runs(played: Played, topic: str) -> None:
    await fill(played, topic, 4)
    seen: list[bytes] = []
    threads: set[int] = set()

    async def listen(messages: Messages, context: Context) -> None:
        await played.face.pause(0)
        threads.add(threading.get_ident())
        seen.extend(message.body for message in messages)

    listener = listen if played.face.listen_async else Heard(messages=[])
    async with played.client.push_consumer(f"{topic}-g", {topic: "*"}, listener, **FIRST):
        got = seen if played.face.listen_async else listener.messages  # type: ignore[union-attr]
        await played.face.until(lambda: len(got) >= 4, "four messages")
    if played.face.listen_async:
        assert threads == {threading.get_ident()}


async def what_failed_comes_again(played: Played, topic: str) -> None:
    await fill(played, topic, 4)

    def says(message: ReceivedMessage) -> ConsumeConcurrentlyStatus | None:
        if message.reconsume_times:
            return None
        if message.body == b"1":
            raise RuntimeError("not yet")
        return ConsumeConcurrentlyStatus.RECONSUME_LATER if message.body == b"2" else None

    heard = Heard(says)
    async with played.client.push_consumer(f"{topic}-g", {topic: "*"}, heard, **FIRST):
        await played.face.until(lambda: len(heard.messages) >= 6, "two once more")
    assert sorted(heard.bodies) == [b"0", b"1", b"1", b"2", b"2", b"3"]
    assert sorted(message.body for message in heard.messages if message.reconsume_times == 1) == [b"1", b"2"]
    assert {message.topic for message in heard.messages} == {topic}


async def in_order_each_queue_is_one_line(played: Played, topic: str) -> None:
    await fill(played, topic, 20, order_key="order-7")
    failed: list[bytes] = []

    def says(message: ReceivedMessage) -> None:
        if message.body == b"3" and not failed:
            failed.append(message.body)
            raise RuntimeError("not yet")

    heard = Heard(says)
    settings = {**FIRST, "orderly": True, "suspend_current_queue_time_ms": 10}
    async with played.client.push_consumer(f"{topic}-g", {topic: "*"}, heard, **settings):
        await played.face.until(lambda: len(heard.messages) >= 21, "all, one of them twice")
    assert heard.bodies == [b"%d" % number for number in (0, 1, 2, 3, 3, *range(4, 20))]


async def two_members_share_the_queues(played: Played, topic: str) -> None:
    first, second = Heard(), Heard()
    group = f"{topic}-g"
    async with (
        played.face.connect(played.namesrv) as other,
        played.client.push_consumer(group, {topic: "*"}, first, **FIRST) as one,
        other.push_consumer(group, {topic: "*"}, second, **FIRST) as two,
    ):

        def is_shared() -> bool:  # who is given its first queues may be seen while it has some of them
            own, others = set(one.queues), set(two.queues)
            return len(own) == len(others) == QUEUES // 2 and not own & others

        await played.face.until(is_shared, "half of the queues for each")
        await fill(played, topic, 8)
        await played.face.until(lambda: len(set(first.bodies + second.bodies)) == 8, "eight messages")
        assert {message.queue for message in first.messages} <= set(one.queues)


async def all_members_get_all(played: Played, topic: str) -> None:
    await fill(played, topic, 6)
    first, second = Heard(), Heard()
    settings = {**FIRST, "message_model": "BROADCASTING", "local_offset_store_dir": played.directory}
    for heard in (first, second):
        async with (
            played.face.connect(played.namesrv, instance_name=f"{id(heard)}") as client,
            client.push_consumer(f"{topic}-g", {topic: "*"}, heard, **settings),
        ):
            await played.face.until(lambda heard=heard: len(heard.messages) >= 6, "all")
    assert sorted(first.bodies) == sorted(second.bodies) == numbers(6)


async def a_consumer_pauses_and_goes_on(played: Played, topic: str) -> None:
    heard = Heard()
    async with played.client.push_consumer(f"{topic}-g", {topic: "*"}, heard, **FIRST) as consumer:
        consumer.pause()
        consumer.resume()
        assert consumer.consume_thread_max == 20
        consumer.consume_thread_max = 3
        assert consumer.consume_thread_max == 3
        with pytest.raises(CallerError):
            consumer.consume_thread_max = 0
        await fill(played, topic, 4)
        await played.face.until(lambda: len(heard.messages) >= 4, "what came after the pause")


async def a_subscription_by_properties_is_heeded(played: Played, topic: str) -> None:
    producer = played.client.producer(f"{topic}-p")
    for price in range(6):
        await producer.send(Message(topic, b"%d" % price, tags="T", properties={"price": str(price)}))
    heard = Heard()
    wanted = Subscription("price > 1 AND TAGS = 'T'", "SQL92")
    async with played.client.push_consumer(f"{topic}-g", {topic: wanted}, heard, **FIRST):
        await played.face.until(lambda: len(heard.messages) >= 4, "four messages")
    assert sorted(heard.bodies) == [b"2", b"3", b"4", b"5"]
    wrong = Subscription("price > > 1", "SQL92")
    with pytest.raises(BrokerError, match="SUBSCRIPTION_PARSE_FAILED"):
        async with played.client.push_consumer(f"{topic}-g2", {topic: wrong}, heard, **FIRST):
            raise AssertionError("it joined")


async def what_a_group_has_before_it_is_seen(played: Played, topic: str) -> None:
    group, groups = f"{topic}-g", played.client.groups
    await fill(played, topic, 6)
    heard = Heard()
    async with played.client.push_consumer(group, {topic: "*"}, heard, **FIRST):
        await played.face.until(lambda: len(heard.messages) >= 6, "six messages")

        async def owned() -> bool:
            seen = await groups.lag(group)
            return [*seen.members] * QUEUES == [one.owner for one in seen.queues if one.queue.topic == topic]

        await played.face.until(owned, "one owner of all queues")
    producer = played.client.producer(f"{topic}-p")
    for number in range(3):
        await producer.send(Message(topic, b"%d" % number))
    await all_are_in_their_queues(played, topic, 9)
    behind = await groups.lag(group, owners=False)
    assert (behind.group, behind.lag, behind.members) == (group, 3, ())
    assert behind.delay_ms is not None

    async def named() -> bool:
        return group in await groups.names()

    await played.face.until(named, "its name")
    with pytest.raises(InvalidName):
        await groups.lag("no name")


async def errors_say_whose_fault_it_is(played: Played, topic: str) -> None:
    with pytest.raises(NoRoute):
        async with played.client.push_consumer(f"{topic}-g", {f"{topic}-never-made": "*"}, print):
            pass
    with pytest.raises(CallerError, match="no such setting"):
        async with played.client.push_consumer(f"{topic}-g", {topic: "*"}, print, colour=1):
            pass
    with pytest.raises(CallerError, match="no such setting"):
        played.client.producer("p", colour=1)
    with pytest.raises(KeyError):
        async with played.client.push_consumer(f"{topic}-g", {topic: "*"}, print):
            raise KeyError("mine")
    async with played.face.connect("127.0.0.1:1") as lost:
        with pytest.raises(Unreachable, match="no name server answers"):
            await lost.producer("p").send(Message(topic, b"x"))
    with pytest.raises(ClientClosed):
        await lost.puller().queues(topic)
    with pytest.raises(CallerError, match="no address of a server"):
        async with played.face.connect("nowhere"):
            pass
    assert topic in await played.client.topics.names()


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
    many_senders_at_once,
    a_delayed_message_comes_later,
    an_iteration_waits_for_what_is_to_come,
    a_group_consumes_each_once_and_keeps_its_progress,
    an_async_listener_runs_where_its_caller_runs,
    what_failed_comes_again,
    in_order_each_queue_is_one_line,
    two_members_share_the_queues,
    all_members_get_all,
    a_consumer_pauses_and_goes_on,
    a_subscription_by_properties_is_heeded,
    what_a_group_has_before_it_is_seen,
    errors_say_whose_fault_it_is,
]
