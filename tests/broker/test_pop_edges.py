"""Edges of POP where ours once answered otherwise than the real 5.5.0: found by asking both the same at random."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker_impl.state.pop_lines import QueueOfGroup
from rmq_wire.bodies.pop import BatchAckMessageRequestBody
from rmq_wire.command import Command
from rmq_wire.headers.groups import QuerySubscriptionByConsumer
from rmq_wire.headers.offsets import ResetOffset
from rmq_wire.headers.pop import (
    BatchAckMessage,
    Notification,
    NotificationResponse,
    PeekMessage,
    PollingInfo,
    PopMessageResponse,
)
from rmq_wire.headers.topics import DeleteTopic
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.pop_client import Got
from tests.support.popping import INVISIBLE_MS, ack, ack_of, batch_of, change_of, pop, take
from tests.support.requests import pairs, send, units

AGAIN_MS = INVISIBLE_MS + 6_000
UNTOUCHED = "not set any response code"


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return Harness(tmp_path).begun()


@pytest.fixture
def client(broker: Harness) -> Client:
    return broker.connect()


def fill(client: Client, count: int, topic: str = "T", queue_id: int = 0, **properties: str) -> None:
    for number in range(count):
        assert client.ask(send(topic, queue_id, pairs(**properties)), b"m%d" % number).code == 0


def peek(count: int = 32, queue_id: int = 0) -> PeekMessage:
    return PeekMessage(consumer_group="G", topic="T", queue_id=queue_id, max_msg_nums=count)


def notification(**more: Any) -> Notification:
    said: dict[str, Any] = {"consumer_group": "G", "topic": "T", "queue_id": 0, "poll_time": 0, "born_time": 0}
    return Notification(**{**said, **more})


def said(answer: Command) -> tuple[int, str | None]:
    return answer.code, answer.remark


@pytest.mark.parametrize("order", [False, True])
def test_a_batch_that_names_no_broker_means_this_one(broker: Harness, client: Client, order: bool) -> None:
    fill(client, 2)
    found = take(client, order=order)
    request, body = batch_of(found)
    unnamed = msgspec.structs.replace(BatchAckMessageRequestBody.read(body), broker_name=None)
    assert client.ask(request, unnamed.encode()).code == 0
    broker.driver.advance(AGAIN_MS)
    assert take(client, order=order) == []


def test_a_batch_ends_what_was_popped_from_a_queue_that_the_topic_has_no_more(broker: Harness, client: Client) -> None:
    """One by one they are refused, as in the reference."""
    fill(client, 2, queue_id=3)
    found = take(client, queue_id=3)
    broker.topic("T", queues=2)
    assert client.ask(ack_of(found[0])).code == 13
    assert client.ask(*batch_of(found)).code == 0
    assert client.ask(*batch_of([one_of_nowhere(found[0])])).code == 0
    broker.driver.advance(AGAIN_MS)
    broker.topic("T", queues=4)
    assert take(client, queue_id=-1) == []


def one_of_nowhere(one: Got) -> Got:
    return one._replace(receipt=one.receipt._replace(queue_id=77))


def test_nobody_asks_for_less_than_none(client: Client) -> None:
    fill(client, 1)
    assert said(client.ask(pop(count=-1))) == (1, "Illegal Capacity: -1")
    assert said(client.ask(peek(-2))) == (1, "Illegal Capacity: -2")
    assert client.ask(pop(count=-1, exp="||", exp_type="TAG")).code == 23
    assert client.ask(pop(count=0)).header(PopMessageResponse).rest_num == 1


def test_remarks_that_java_leaves(client: Client) -> None:
    fill(client, 2)
    plain = take(client, count=1)[0]
    ordered = take(client, consumer_group="O", order=True)[0]
    assert said(client.ask(change_of(plain, 5_000))) == (0, UNTOUCHED)
    assert said(client.ask(change_of(ordered, 5_000, group="O"))) == (0, UNTOUCHED)
    assert said(client.ask(change_of(plain, 5_000, offset=2))) == (208, UNTOUCHED)
    assert said(client.ask(notification())) == (0, UNTOUCHED)
    assert said(client.ask(notification(consumer_group="O"))) == (0, UNTOUCHED)
    assert said(client.ask(PollingInfo(consumer_group="G", topic="T", queue_id=0))) == (0, UNTOUCHED)


def test_an_end_of_a_lite_message_ends_no_other(broker: Harness, client: Client) -> None:
    fill(client, 1)
    [one] = take(client)
    refused = (29, "group type or bind topic not match.")
    assert said(client.ask(ack_of(one, lite_topic="lite"))) == refused
    assert said(client.ask(change_of(one, 60_000, lite_topic="lite"))) == refused
    assert client.ask(ack_of(one, lite_topic=" ", offset=5)).code == 208
    broker.driver.advance(AGAIN_MS)
    assert len(take(client)) == 1


def test_a_notification_does_not_filter_retries(broker: Harness, client: Client) -> None:
    fill(client, 1, TAGS="A")
    assert len(take(client)) == 1
    broker.driver.advance(AGAIN_MS)
    wanted = {"exp_type": "TAG", "exp": "B"}
    assert client.ask(notification(**wanted)).header(NotificationResponse).has_msg
    fill(client, 1, TAGS="A")
    other = notification(consumer_group="other", **wanted)
    assert not client.ask(other).header(NotificationResponse).has_msg


def test_a_peek_goes_up_through_the_queues(broker: Harness, client: Client) -> None:
    for queue_id in range(4):
        fill(client, 1, queue_id=queue_id)
    seen = [[unit.queue_id for unit in units(client.ask(peek(queue_id=-1)).body)] for _ in range(8)]
    assert all(ids == [(ids[0] + step) % 4 for step in range(4)] for ids in seen)
    item = broker.node.pops.stats.item("GROUP_GET_NUMS", "T@G")
    assert item is not None
    assert item.value == 8 * 4


def test_what_is_left_counts_all_queues_of_a_retry_topic(tmp_path: Path) -> None:
    """Also of one that is looked at last, and where the pop is full after its first."""
    broker = Harness(tmp_path, popFromRetryProbability=0).begun()
    broker.topic("%RETRY%G_T", queues=2)
    client = broker.connect()
    for queue_id in (0, 1):
        fill(client, 2, "%RETRY%G_T", queue_id)
    answer = client.ask(pop(count=2))
    assert (answer.code, answer.header(PopMessageResponse).rest_num) == (0, 2)
    while peeked := client.ask(peek(1, queue_id=-1)):
        if peeked.code == 0:
            assert peeked.header(PopMessageResponse).rest_num == 2
            break


@pytest.mark.parametrize("late", [False, True])
def test_what_an_ordered_acknowledgement_frees(broker: Harness, client: Client, late: bool) -> None:
    """It is not in flight any more; `late`: also when another pop has it meanwhile."""
    fill(client, 2)
    found = take(client, order=True)
    place = QueueOfGroup("T", "G", 0)
    assert broker.node.pops.lines.in_flight(place) == 2
    if late:
        broker.driver.advance(AGAIN_MS)
        assert len(take(client, order=True)) == 2
    ack(client, found[0])
    assert broker.node.pops.lines.in_flight(place) == 1


def test_what_an_earlier_run_handed_out_frees_nothing_of_this_one(broker: Harness) -> None:
    """It was not counted in it."""
    client = broker.connect()
    fill(client, 4)
    found = take(client, count=2)
    broker.driver.advance(1)
    broker.restart()
    client = broker.connect()
    assert len(take(client, count=2)) == 2
    ack(client, *found)
    assert broker.node.pops.lines.in_flight(QueueOfGroup("T", "G", 0)) == 2


def test_what_a_reset_frees(broker: Harness, client: Client) -> None:
    """The group starts anew: what it had counts no more towards what may be in flight."""
    fill(client, 2)
    take(client)
    place = QueueOfGroup("T", "G", 0)
    assert broker.node.pops.lines.in_flight(place) == 2
    asked = ResetOffset(group="G", topic="T", timestamp=-1, is_force=True, queue_id=0, offset=0)
    assert client.ask(asked).code == 0
    assert broker.node.pops.lines.in_flight(place) == 0


def test_retries_of_a_topic_that_is_gone_do_not_come_again(tmp_path: Path) -> None:
    broker = Harness(tmp_path, clearRetryTopicWhenDeleteTopic=False).begun()
    client = broker.connect()
    fill(client, 1)
    take(client)
    broker.driver.advance(AGAIN_MS)
    [again] = take(client)
    assert again.topic == "%RETRY%G_T"
    assert client.ask(DeleteTopic(topic="T")).code == 0
    broker.driver.advance(AGAIN_MS)
    assert len(broker.stored("%RETRY%G_T")) == 1


def test_the_end_of_nothing(client: Client) -> None:
    assert client.ask(BatchAckMessage(), b'{"acks":[]}').code == 208


def test_tools_are_shown_the_tags_that_a_pop_wants(tmp_path: Path) -> None:
    harness = Harness(tmp_path).begun()
    client = harness.connect()
    assert client.ask(send("T"), b"m").code == 0
    take(client, exp="TagB || TagA", exp_type="TAG")
    shown = {}
    for topic in ("T", "%RETRY%G_T"):
        answer = client.ask(QuerySubscriptionByConsumer(group="G", topic=topic))
        shown[topic] = json.loads(bytes(answer.body))["subscriptionData"]["tagsSet"]
    assert shown == {"T": ["TagB", "TagA"], "%RETRY%G_T": []}
