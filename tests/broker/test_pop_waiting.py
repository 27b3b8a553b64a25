"""Pops and notifications that wait (200050, 200054), and how many do (200055), on a whole broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_store.errors import Cold
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.pop import Notification, NotificationResponse, PollingInfo, PollingInfoResponse
from rmq_wire.property_names import TAGS
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.pop_client import Popped, ack, bodies, change, pop, popped
from tests.support.requests import pairs, send

POLL_MS = 10_000


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    found = Harness(tmp_path)
    found.topic("T")
    found.node.groups.find("G")
    found.driver.run()
    return found


def waiting(harness: Harness, client: Client, **more: Any) -> int:
    """A pop that waits: its number."""
    opaque = client.send(pop(born_ms=harness.env.wall_ms, **{"poll_time": POLL_MS, **more}))
    assert opaque not in client.answers
    return opaque


def came(client: Client, opaque: int) -> Popped:
    return popped(client.answers.pop(opaque), "T", "G")


def notification(harness: Harness, **more: Any) -> Notification:
    said = {"topic": "T", "consumer_group": "G", "queue_id": -1, "poll_time": 0, "born_time": harness.env.wall_ms, **more}
    return Notification(**said)


def has_message(client: Client, asked: Notification) -> tuple[bool, bool]:
    answer = client.ask(asked)
    assert answer.code == 0, answer.remark
    header = answer.header(NotificationResponse)
    return header.has_msg, header.polling_full


def polling_count(harness: Harness, queue: int = -1) -> int:
    asked = PollingInfo(topic="T", consumer_group="G", queue_id=queue)
    return harness.connect().ask(asked).header(PollingInfoResponse).polling_num


def test_it_waits_for_the_first_message(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    any_queue, one_queue, other = (waiting(harness, client, queue=queue) for queue in (-1, 2, 3))
    assert (polling_count(harness), polling_count(harness, 2)) == (1, 1)
    producer.ask(send(queue_id=2), b"x")
    assert bodies(came(client, any_queue).got) == [b"x"]
    assert other not in client.answers
    assert one_queue not in client.answers  # it was woken, found nothing, and waits again
    assert polling_count(harness, 2) == 1
    producer.ask(send(queue_id=2), b"y")
    assert bodies(came(client, one_queue).got) == [b"y"]


def test_its_time_is_up(harness: Harness) -> None:
    client = harness.connect()
    opaque = waiting(harness, client)
    harness.driver.advance(POLL_MS - 200)
    assert opaque not in client.answers
    harness.driver.advance(200)
    found = came(client, opaque)
    assert (found.answer.code, found.answer.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
    assert (found.header.rest_num, found.header.start_offset_info) == (0, "")
    assert polling_count(harness) == 0


def test_too_many_wait(tmp_path: Path) -> None:
    harness = Harness(tmp_path, popPollingSize=3)
    harness.topic("T")
    client = harness.connect()
    for _ in range(4):
        waiting(harness, client)
    found = popped(client.ask(pop(born_ms=harness.env.wall_ms, poll_time=POLL_MS)), "T", "G")
    assert (found.answer.code, found.answer.remark) == (ResponseCode.POLLING_FULL, "NO_MESSAGE_IN_QUEUE")


def test_a_retry_wakes_who_waits_for_the_topic(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    producer.ask(send(), b"x")
    first = popped(client.ask(pop(born_ms=harness.env.wall_ms, invisible_time=5_000)), "T", "G")
    opaque = waiting(harness, client, poll_time=30_000)
    harness.driver.advance(5_000)
    assert opaque not in client.answers
    harness.driver.advance(5_000)
    [again] = came(client, opaque).got
    assert (again.body, again.topic, again.unit.reconsume_times) == (first.got[0].body, "%RETRY%G_T", 1)


def test_what_a_pop_leaves_is_for_the_next_who_waits(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    opaques = [waiting(harness, client, count=1) for _ in range(3)]
    frames = [(producer, producer.frame(send(), b"%d" % number)) for number in range(3)]
    harness.driver.run(*frames)
    assert [bodies(came(client, opaque).got) for opaque in opaques] == [[b"0"], [b"1"], [b"2"]]


def test_an_ordered_queue_that_is_acknowledged_wakes(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    for number in range(3):
        producer.ask(send(), b"%d" % number)
    first = popped(client.ask(pop(born_ms=harness.env.wall_ms, queue=0, count=2, order=True)), "T", "G")
    opaque = waiting(harness, client, order=True)
    for one in first.got:
        assert opaque not in client.answers
        assert client.ask(ack(one, "G")).code == 0
    found = came(client, opaque)
    assert bodies(found.got) == [b"2"]
    assert found.header.order_count_info == "0 0 0"


def test_an_ordered_queue_whose_time_is_over_wakes(harness: Harness) -> None:
    """As the real broker answered: 2,052 ms after the pop of 2,000, with the count of each message and of the queue."""
    client, producer = harness.connect(), harness.connect()
    producer.ask(send(), b"x")
    popped(client.ask(pop(born_ms=harness.env.wall_ms, queue=0, count=1, order=True, invisible_time=2_000)), "T", "G")
    opaque = waiting(harness, client, order=True, queue=0)
    harness.driver.advance(1_999)
    assert opaque not in client.answers
    harness.driver.advance(1)
    found = came(client, opaque)
    assert bodies(found.got) == [b"x"]
    assert found.header.order_count_info == "0 qo0%0 1;0 0 1"


def test_a_change_of_an_ordered_message_moves_the_wake(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    producer.ask(send(), b"x")
    [one] = popped(client.ask(pop(born_ms=harness.env.wall_ms, queue=0, order=True)), "T", "G").got
    opaque = waiting(harness, client, order=True, queue=0)
    harness.driver.advance(1_000)
    assert client.ask(change(one, "G", 500)).code == 0
    harness.driver.advance(500)
    assert bodies(came(client, opaque).got) == [b"x"]


def test_ordered_messages_come_in_order_through_retries(harness: Harness) -> None:
    """The first is given back three times; the second waits for it."""
    client, producer = harness.connect(), harness.connect()
    for number in range(2):
        producer.ask(send(), b"%d" % number)
    for times in range(4):
        asked = pop(born_ms=harness.env.wall_ms, queue=0, count=1, order=True)
        found = popped(client.ask(asked), "T", "G")
        assert bodies(found.got) == [b"0"]
        assert found.counts.get("0@qo0%0", 0) == times
        assert found.counts["0@0"] == times
        if times < 3:
            assert client.ask(change(found.got[0], "G", 1)).code == 0
            harness.driver.advance(1)
    assert client.ask(ack(found.got[0], "G")).code == 0
    assert bodies(popped(client.ask(pop(born_ms=harness.env.wall_ms, queue=0, order=True)), "T", "G").got) == [b"1"]


def test_cold_bytes_do_not_lose_a_poller(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """P16: a message comes to a queue that was looked at while another one is being read from the disk."""
    client, producer = harness.connect(), harness.connect()
    store = harness.node.store
    real, cold = store.read_queue, [True]

    def read(topic: str, queue_id: int, *more: Any) -> Any:
        if cold and queue_id == 0:
            cold.clear()
            raise Cold(lambda: None, ("log", 0))
        return real(topic, queue_id, *more)

    producer.ask(send(), b"old")
    producer.ask(send(), b"older")
    popped(client.ask(pop(born_ms=harness.env.wall_ms, invisible_time=60_000)), "T", "G")
    monkeypatch.setattr(store, "read_queue", read)
    harness.driver.held = True
    opaque = client.send(pop(born_ms=harness.env.wall_ms, poll_time=POLL_MS))
    for queue in range(4):
        producer.ask(send(queue_id=queue), b"new")
    harness.driver.held = False
    harness.driver.run()
    harness.driver.advance(100)
    assert came(client, opaque).got


def test_who_leaves_leaves_nothing(harness: Harness) -> None:
    client = harness.connect()
    waiting(harness, client)
    client.close()
    assert polling_count(harness) == 0


# Notifications


def test_is_there_something(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    assert has_message(client, notification(harness)) == (False, False)
    producer.ask(send(queue_id=1), b"x")
    assert has_message(client, notification(harness)) == (True, False)
    assert has_message(client, notification(harness, queue_id=1)) == (True, False)
    assert has_message(client, notification(harness, queue_id=0)) == (False, False)
    client.ask(pop(born_ms=harness.env.wall_ms))
    assert has_message(client, notification(harness)) == (False, False)


def test_the_last_notification_is_woken(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    opaques = [client.send(notification(harness, poll_time=ms)) for ms in (9_000, 5_000)]
    producer.ask(send(), b"x")
    assert client.answers.pop(opaques[0]).header(NotificationResponse).has_msg
    harness.driver.advance(5_100)
    assert client.answers.pop(opaques[1]).header(NotificationResponse).has_msg  # its time is up, and there is one


def test_a_notification_whose_time_is_up(harness: Harness) -> None:
    client = harness.connect()
    opaque = client.send(notification(harness, poll_time=5_000))
    harness.driver.advance(5_100)
    header = client.answers.pop(opaque).header(NotificationResponse)
    assert (header.has_msg, header.polling_full) == (False, False)


def test_too_many_notifications(tmp_path: Path) -> None:
    harness = Harness(tmp_path, popPollingSize=0)
    harness.topic("T")
    client = harness.connect()
    client.send(notification(harness, poll_time=5_000))
    assert has_message(client, notification(harness, poll_time=5_000)) == (False, True)


def test_tags_of_a_notification(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    for _ in range(33):
        producer.ask(send(properties=pairs(**{TAGS: "A"})), b"x")
    assert has_message(client, notification(harness, exp_type="TAG", exp="A")) == (True, False)
    assert has_message(client, notification(harness, exp_type="TAG", exp="B")) == (False, False)
    for _ in range(31):
        producer.ask(send(properties=pairs(**{TAGS: "B"})), b"x")
    assert has_message(client, notification(harness, exp_type="TAG", exp="C")) == (True, False)  # 64 are not looked at
    assert client.ask(notification(harness, exp_type="SQL92", exp="a >")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_notification_in_order_and_of_retries(harness: Harness) -> None:
    client, producer = harness.connect(), harness.connect()
    for _ in range(2):
        producer.ask(send(), b"x")
    client.ask(pop(born_ms=harness.env.wall_ms, queue=0, count=1, order=True))
    assert has_message(client, notification(harness, order=True)) == (False, False)
    assert has_message(client, notification(harness)) == (True, False)
    opaque = client.send(notification(harness, order=True, poll_time=20_000))
    harness.driver.advance(10_000)
    assert client.answers.pop(opaque).header(NotificationResponse).has_msg


def test_a_topic_of_many_queues_is_looked_through_in_slices(harness: Harness) -> None:
    harness.topic("Wide", 1_000)
    client = harness.connect()
    work = harness.capability(Notification.code).notification(
        type("Call", (), {"detach": lambda _: type("P", (), {"peer": client.peer, "oneway": False})()})(),
        notification(harness, topic="Wide"),
    )
    assert sum(1 for _ in work) >= 1_000 // 64 - 1
