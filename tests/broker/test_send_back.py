"""Messages given back: the copy, its way through the delay levels, the end among the dead, and whose may be given back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_store.errors import Cold
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.command import Command
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.message import StoredMessage, pack_unit
from rmq_wire.message_id import offset_message_id
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import heartbeat, pairs, props, said, send

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
FIRST_MS = 10_000
"""The third delay level, which is the first retry's."""


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.topic("T")
    client = harness.connect("10.0.0.9")
    client.ask(send(flag=3, sys_flag=0x301, properties=pairs(UNIQ_KEY="K" * 32, TAGS="A", KEYS="k", WAIT="true")), b"once more")
    return harness


def back(offset: int, level: int = 0, **more: Any) -> ConsumerSendMsgBack:
    header: dict[str, Any] = {
        "offset": offset,
        "group": "G",
        "delay_level": level,
        "origin_topic": "T",
        "max_reconsume_times": 16,
    }
    return ConsumerSendMsgBack(**{**header, **more})


def give_back(client: Client, unit: StoredMessage, level: int = 0, **more: Any) -> Command:
    return client.ask(back(unit.physical_offset, level, **more))


def test_the_copy_waits_in_its_delay_level(harness: Harness) -> None:
    [original] = harness.stored("T", 0)
    assert said(give_back(harness.connect(), original)) == (0, None, {})
    [waiting] = harness.stored("SCHEDULE_TOPIC_XXXX", 2)
    assert props(waiting) == {
        **props(original),
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": offset_message_id(original.store_host, original.physical_offset),
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": "%RETRY%G",
        "REAL_QID": "0",
    }
    kept = ("body", "flag", "sys_flag", "born_timestamp", "born_host")
    assert [getattr(waiting, name) for name in kept] == [getattr(original, name) for name in kept]
    assert waiting.reconsume_times == 1


def test_then_in_the_retry_topic_and_so_on_until_it_is_dead(harness: Harness) -> None:
    client = harness.connect()
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=16))
    [unit] = harness.stored("T", 0)
    first_id = offset_message_id(unit.store_host, unit.physical_offset)
    for attempt in range(3):
        assert give_back(client, unit, max_reconsume_times=3).code == 0
        harness.driver.advance([10_000, 30_000, 60_000][attempt] + 1_000)
        unit = harness.stored("%RETRY%G", 0)[attempt]
        assert unit.reconsume_times == attempt + 1
        assert props(unit)["RETRY_TOPIC"] == "T"
        assert props(unit)["ORIGIN_MESSAGE_ID"] == first_id
        assert props(unit)["DELAY"] == str(3 + attempt)
    assert give_back(client, unit, max_reconsume_times=3).code == 0
    [dead] = harness.stored("%DLQ%G", 0)
    assert (dead.body, dead.reconsume_times, props(dead)["DELAY"]) == (b"once more", 4, "0")
    topic = harness.node.topics.get("%DLQ%G")
    assert topic is not None
    assert (topic.perm, topic.read_queue_nums) == (6, 1)


@pytest.mark.parametrize(("level", "queue"), [(1, 0), (18, 17), (99, 17)])
def test_the_consumer_may_choose_the_level(harness: Harness, level: int, queue: int) -> None:
    give_back(harness.connect(), harness.stored("T", 0)[0], level)
    [waiting] = harness.stored("SCHEDULE_TOPIC_XXXX", queue)
    assert props(waiting)["DELAY"] == str(queue + 1)


def test_a_negative_level_is_the_end(harness: Harness) -> None:
    give_back(harness.connect(), harness.stored("T", 0)[0], -1)
    assert len(harness.stored("%DLQ%G", 0)) == 1


def test_a_dead_letter_needs_the_name_of_its_topic(harness: Harness) -> None:
    """As in Java, which looks whether it is a system topic; a retry needs none, when the group is known to read the topic."""
    client = harness.connect()
    [unit] = harness.stored("T", 0)
    heartbeat(client, topic="T")
    answer = give_back(client, unit, -1, origin_topic=None)
    assert (answer.code, answer.remark) == (1, "a message that becomes a dead letter needs its originTopic")
    assert harness.stored("%DLQ%G", 0) == []
    assert give_back(client, unit, origin_topic=None).code == 0


def test_old_clients_do_not_choose_how_often(harness: Harness) -> None:
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=1))
    client = harness.connect()
    [unit] = harness.stored("T", 0)
    frame = client.frame(back(unit.physical_offset, max_reconsume_times=0))
    client.raw(frame.replace(b'"version":513', b'"version":120'))
    assert len(harness.stored("SCHEDULE_TOPIC_XXXX", 2)) == 1
    give_back(client, unit, max_reconsume_times=0)
    assert len(harness.stored("%DLQ%G", 0)) == 1


def test_a_group_without_retry_queues(harness: Harness) -> None:
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G", retry_queue_nums=0))
    written = harness.node.store.written_offset
    assert give_back(harness.connect(), harness.stored("T", 0)[0]).code == 0
    assert harness.node.store.written_offset == written


def test_refusals(harness: Harness) -> None:
    client = harness.connect()
    [unit] = harness.stored("T", 0)
    assert said(client.ask(back(999_999)))[:2] == (1, "look message by offset failed, 999999")
    assert said(client.ask(back(-1)))[:2] == (1, "look message by offset failed, -1")
    retry = harness.node.topics.get("%RETRY%G")
    assert retry is not None
    retry.perm = 4
    assert said(give_back(client, unit))[:2] == (16, "the topic[%RETRY%G] sending message is forbidden")
    harness.node.config.broker_permission = 4
    assert said(give_back(client, unit))[:2] == (16, "the broker[127.0.0.1] sending message is forbidden")
    harness.node.config.auto_create_subscription_group = False
    assert said(give_back(client, unit, group="New"))[:2] == (26, f"subscription group not exist, New {FAQ}")


def test_a_body_that_looks_like_a_message_is_none(harness: Harness) -> None:
    """The place of the inner unit can be guessed from the last message id; Java would copy it (attack 16)."""
    client = harness.connect()
    at = harness.node.store.written_offset
    [unit] = harness.stored("T", 0)
    inner_at = at + 88  # behind the fixed part of the unit that carries it
    inner = pack_unit(0, 0, 0, inner_at, 0, 0, unit.born_host, 0, unit.store_host, 0, 0, b"forged", b"T", b"")
    client.ask(send(queue_id=1), inner)
    assert harness.node.store.lookup(inner_at) is not None, "the test does not hit the place"
    assert give_back_at(client, inner_at).remark == f"look message by offset failed, {inner_at}"


def give_back_at(client: Client, offset: int) -> Command:
    return client.ask(back(offset))


def test_messages_of_others_cannot_be_given_back(harness: Harness) -> None:
    """The copy would land in a retry topic that the asker may read (attack 24)."""
    client = harness.connect()
    harness.topic("Secret", perm=2)
    harness.topic("Other")
    client.ask(send("Secret"), b"secret")
    client.ask(send("Other"), b"other")
    [secret], [other], [mine] = harness.stored("Secret", 0), harness.stored("Other", 0), harness.stored("T", 0)
    harness.node.groups.set_forbidden("Locked", "T", 2, True)
    written = harness.node.store.written_offset
    for answer in (
        give_back(client, secret, origin_topic="Secret"),
        give_back(client, other, origin_topic="T"),
        give_back(client, other, origin_topic=None),
        give_back(client, mine, group="Locked"),
        give_back(client, mine, origin_topic="%RETRY%G"),
    ):
        assert answer.code == 16, answer.remark
    assert harness.node.store.written_offset == written
    heartbeat(client, topic="T")
    assert give_back(client, mine, origin_topic=None).code == 0


def test_a_retry_topic_of_another_group(harness: Harness) -> None:
    client = harness.connect()
    give_back(client, harness.stored("T", 0)[0])
    harness.driver.advance(FIRST_MS + 1_000)
    [retried] = harness.stored("%RETRY%G", 0)
    assert give_back(client, retried, group="Thief").code == 16
    assert give_back(client, retried, origin_topic="Other").code == 16
    assert give_back(client, retried, origin_topic=None).code == 0
    assert give_back(client, retried).code == 0


def test_a_cold_original(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    real = harness.node.store.lookup
    loads: list[int] = []
    cold = Cold(lambda: loads.append(1), "somewhere")

    def lookup(*arguments: Any, **more: Any) -> Any:
        if not loads:
            raise cold
        return real(*arguments, **more)

    [unit] = harness.stored("T", 0)
    monkeypatch.setattr(harness.node.store, "lookup", lookup)
    assert give_back(harness.connect(), unit).code == 0
    assert len(harness.stored("SCHEDULE_TOPIC_XXXX", 2)) == 1


def test_statistics(harness: Harness) -> None:
    give_back(harness.connect(), harness.stored("T", 0)[0])
    stats = harness.capability(36)._stats
    assert stats.item("SNDBCK_PUT_NUMS", "T@G").value == 1
    assert stats.item("TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX").value == 1


@pytest.mark.parametrize(("retry_queues", "used"), [(1, {0}), (3, {0, 1, 2})])
def test_the_copy_goes_to_a_queue_that_there_is(harness: Harness, retry_queues: int, used: set[int]) -> None:
    """A group may have more of them by now than its retry topic, or fewer.  (Java stores it where nobody reads.)"""
    client = harness.connect()
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G", retry_queue_nums=retry_queues))
    heartbeat(client, "G", "T")
    retry = harness.node.topics.get("%RETRY%G")
    assert retry is not None
    assert retry.read_queue_nums == retry_queues
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G", retry_queue_nums=5))
    [original] = harness.stored("T", 0)
    for _ in range(40):
        assert give_back(client, original, level=1).code == 0
    harness.driver.advance(5_000)
    assert {number for number in range(5) if harness.stored("%RETRY%G", number)} == used
