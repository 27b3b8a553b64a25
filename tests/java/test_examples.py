"""The mains of stock `rocketmq-example`, side by side: what they print, reduced to sent, received, order and outcome.

None of them is changed, and most never end: each runs until it has printed what is expected of it.  The topics are made first,
for a consumer looks only every 30 s whether a topic is there.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby

import pytest

from tests.java.flows import pull_all
from tests.java.mains import QUEUES, SECONDS, Main, create_topic
from tests.support import remoting
from tests.support.clients import JavaDriver
from tests.support.java import REFERENCE, java
from tests.support.process import until
from tests.support.requests import props, units
from tests.support.subject import SUBJECTS, Subject, start_subject
from tests.support.talk import pulled_once

pytestmark = pytest.mark.java

Fresh = Callable[[str], str]
CONSUMERS = {
    "ordermessage.Consumer": "please_rename_unique_group_name_3",
    "schedule.ScheduledMessageConsumer": "ExampleConsumer",
    "schedule.TimerMessageConsumer": "TimerMessageConsumerGroup",
}
"""With their groups.  They are there before anybody sends."""
PRODUCERS = (
    "transaction.TransactionProducer",
    "schedule.ScheduledMessageProducer",
    "schedule.TimerMessageProducer",
    "quickstart.Producer",
    "ordermessage.Producer",
)
"""What takes longest comes first; the waits overlap."""
TOPICS = ("TopicTestjjj", "TopicTest", "TestTopic", "TimerTopic", "TopicTest1234")
GET_CONSUMER_LIST_BY_GROUP = 38
HEARD_IN_ORDER = 60
"""Of a thousand: every tenth call of the ordered consumer suspends its queue for 3 s."""
CHECKED_SOON = {"transactionTimeOut": "1000", "transactionCheckInterval": "1000"}

IN_ORDER = re.compile(r"Receive New Messages: \[MessageExt \[brokerName=[^,]*, queueId=(\d+), storeSize=\d+, queueOffset=(\d+)")
LATER = re.compile(r"Receive message\[msgId=(\w+) (-?\d+)  ms later\]")


@pytest.fixture(scope="module", params=SUBJECTS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A name server and a master that asks producers about their transactions each second."""
    java()
    running = start_subject(request.param, tmp_path_factory.mktemp("examples"), properties=CHECKED_SOON)
    yield running
    running.end()


Mains = Callable[[str], Main]


@pytest.fixture(scope="module")
def mains(broker: Subject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mains]:
    """All of them, by name, beside each other."""
    directory = tmp_path_factory.mktemp("mains")
    for topic in TOPICS:
        create_topic(broker, topic)

    def is_member(main: Main) -> bool:
        return remoting.ask(broker.address, GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": CONSUMERS[main.main]}).code == 0

    with contextlib.ExitStack() as stack:
        started: dict[str, Main] = {}
        for name in (*CONSUMERS, *PRODUCERS):
            main = started[name] = Main(directory, name, broker.namesrv)
            stack.callback(main.end)
            main.begin(is_member if name in CONSUMERS else lambda main: "SendResult" in main.printed())
        yield started.__getitem__


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_an_order_s_messages_are_in_one_queue_in_order(broker: Subject, mains: Mains, clients: JavaDriver, fresh: Fresh) -> None:
    producer = mains("ordermessage.Producer")
    sent = producer.sent(100)
    assert {one.status for one in sent} == {"SEND_OK"}
    assert [one.queue for one in sent] == [i % 10 % QUEUES for i in range(100)]
    until(lambda: not producer.running, "its end", seconds=SECONDS)
    stored = pull_all(clients, broker, fresh, "TopicTestjjj", 100)
    orders: dict[int, list[int]] = defaultdict(list)
    for message in stored:
        orders[message["queue"]].append(int(message["body"].removeprefix("Hello RocketMQ ")))
    assert orders == {queue: [i for i in range(100) if i % 10 % QUEUES == queue] for queue in range(QUEUES)}
    assert {(m["keys"], m["tags"]) for m in stored} == {(f"KEY{i}", f"Tag{'ABCDE'[i % 5]}") for i in range(100)}


def test_the_ordered_consumer_hears_each_queue_in_order_and_again_what_it_suspended(broker: Subject, mains: Mains) -> None:
    consumer, producer = mains("ordermessage.Consumer"), mains("quickstart.Producer")

    def heard() -> list[tuple[int, int]]:
        return [(int(queue), int(offset)) for queue, offset in IN_ORDER.findall(consumer.printed())]

    until(lambda: len(heard()) >= HEARD_IN_ORDER, f"messages in {consumer.log}", seconds=SECONDS)
    sent = producer.sent(1000)
    assert {one.status for one in sent} == {"SEND_OK"}
    stored: dict[int, list[int]] = defaultdict(list)
    for one in sent:
        stored[one.queue].append(one.offset)
    assert stored == {queue: list(range(len(stored[queue]))) for queue in range(QUEUES)}
    received: dict[int, list[int]] = defaultdict(list)
    for queue, offset in heard():
        received[queue].append(offset)
    again = 0
    for queue, offsets in received.items():
        once = [offset for offset, _ in groupby(offsets)]
        assert once == stored[queue][: len(once)], f"queue {queue}"
        again += len(offsets) - len(once)
    assert again >= len(heard()) // 10 - QUEUES, "every tenth call suspends a queue, whose message then comes again"


def test_a_hundred_messages_of_level_3(broker: Subject, mains: Mains) -> None:
    consumer, producer = mains("schedule.ScheduledMessageConsumer"), mains("schedule.ScheduledMessageProducer")
    sent = producer.sent(100)
    received = until(lambda: _all_later(consumer, 100), f"messages in {consumer.log}", seconds=SECONDS)
    assert {one.status for one in sent} == {"SEND_OK"}
    assert sorted(id_ for id_, _ in received) == sorted(one.id for one in sent)


def test_ten_timers(broker: Subject, mains: Mains) -> None:
    consumer, producer = mains("schedule.TimerMessageConsumer"), mains("schedule.TimerMessageProducer")
    sent = producer.sent(10)
    received = until(lambda: _all_later(consumer, 10), f"messages in {consumer.log}", seconds=SECONDS)
    assert {one.status for one in sent} == {"SEND_OK"}
    assert sorted(id_ for id_, _ in received) == sorted(one.id for one in sent)
    answers = [pulled_once(broker.address, "TimerTopic", queue, 0) for queue in range(QUEUES)]
    stored = [unit for answer in answers for unit in units(answer.body)]
    early = [int(props(unit)["TIMER_DELIVER_MS"]) - unit.store_timestamp for unit in stored]
    assert len(early) == 10
    assert max(early) <= 1_000, "a second's precision, rounded down"


@pytest.mark.parametrize("clients", [REFERENCE], indirect=True)
def test_ten_transactions(broker: Subject, mains: Mains, clients: JavaDriver, fresh: Fresh) -> None:
    """None is known at first; asked, the producer commits the second of three, rolls the third back, never knows the first."""
    producer = mains("transaction.TransactionProducer")
    sent = producer.sent(10)
    assert {one.status for one in sent} == {"SEND_OK"}
    expected = {(f"Hello RocketMQ {i}", sent[i].id) for i in (1, 4, 7)}

    def committed() -> set[tuple[str, str]]:
        return {(m["body"], m["msg_id"]) for m in pull_all(clients, broker, fresh, "TopicTest1234", 1)}

    until(lambda: committed() >= expected, "the three that are committed", seconds=SECONDS)
    assert committed() == expected, "nothing else; Java asks again before it has seen an answer, and then commits twice"


def _all_later(consumer: Main, count: int) -> list[tuple[str, int]]:
    """Unique key and delay of what a consumer of delayed messages printed; nothing until there are so many."""
    found = [(id_, int(ms)) for id_, ms in LATER.findall(consumer.printed())]
    return found if len(found) >= count else []
