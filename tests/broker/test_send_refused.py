"""Sends that are not taken: every check, its code and its text as the reference has them, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_wire.batch import Item, pack_items
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.locks import QueueName
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.send import SendBatchMessage
from tests.support.engine import Harness
from tests.support.requests import WALL_MS, pairs, props, said, send

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
ILLEGAL = (
    "the message is illegal, maybe msg body or properties length not matched. msg body length limit 4194304B, "
    "msg properties length limit 32KB."
)
REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.topic("T")
    return harness


def refused(harness: Harness, asked: Any, body: bytes = b"x") -> tuple[int, str | None]:
    """Code and text of a send that must not be stored; region and trace switch are answered all the same."""
    before = harness.node.store.written_offset
    code, remark, ext = said(harness.connect().ask(asked, body))
    assert code != 0
    assert harness.node.store.written_offset == before, "stored after all"
    assert ext == REGION
    return code, remark


def test_a_broker_that_starts_later(harness: Harness) -> None:
    harness.node.config.start_accept_send_request_time_stamp = WALL_MS + 1
    assert refused(harness, send()) == (1, "broker unable to service, until 2023-11-14 22:13:20,001")
    harness.driver.advance(1)
    assert harness.connect().ask(send(), b"x").code == 0


def test_a_broker_without_write_permission_refuses_ordered_topics_only(harness: Harness) -> None:
    harness.topic("Ordered", order=True)
    client = harness.connect()
    client.ask(send("Ordered"), b"x")
    client.ask(send("T"), b"x")
    harness.node.config.broker_permission = 4
    assert refused(harness, send("Ordered")) == (16, "the broker[127.0.0.1] sending message is forbidden")
    assert client.ask(send("T"), b"x").code == 0


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        (" ", "The specified topic is blank."),
        ("..", "The specified topic: .., contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("a/b", "The specified topic: a/b, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("a\nb", "The specified topic: a\nb, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("é", "The specified topic: é, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("t" * 128, f"The specified topic: {'t' * 128}, is longer than topic max length: 127"),
    ],
)
def test_names(harness: Harness, topic: str, remark: str) -> None:
    assert refused(harness, send(topic)) == (ResponseCode.INVALID_PARAMETER, remark)
    assert not (harness.root / "consumequeue" / "..").joinpath("b").exists()


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "rmq_sys_wheel_timer",
        "rmq_sys_REVIVE_LOG_DefaultCluster",
    ],
)
def test_topics_of_the_system(harness: Harness, topic: str) -> None:
    assert refused(harness, send(topic)) == (16, f"Sending message to topic[{topic}] is forbidden.")


def test_an_unknown_topic_without_template(harness: Harness) -> None:
    remark = f"topic[New] not exist, apply first please!{FAQ}"
    assert refused(harness, send("New", default_topic="None")) == (17, remark)
    assert refused(harness, send("New", default_topic="T")) == (17, remark)  # a topic that passes nothing on
    assert harness.node.topics.get("New") is None


def test_a_queue_that_the_topic_does_not_have(harness: Harness) -> None:
    client = harness.connect()
    code, remark, _ = said(client.ask(send(queue_id=4), b"x"))
    port = client.peer.remote[1]
    assert code == ResponseCode.INVALID_PARAMETER
    assert remark == (
        "request queueId[4] is illegal, TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=4, perm=RW-, "
        f"topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={{}}] Producer: 127.0.0.1:{port}"
    )


def test_a_topic_without_queues_to_choose_from(harness: Harness) -> None:
    topic = harness.topic("NoWrite")
    topic.write_queue_nums = 0
    assert refused(harness, send("NoWrite", queue_id=-1)) == (1, "java.lang.ArithmeticException: / by zero")


def test_no_body(harness: Harness) -> None:
    code, remark, _ = said(harness.connect().ask(send(), b""))
    assert code == 1
    assert remark is not None
    assert remark.startswith("java.lang.NullPointerException")


def test_sizes(harness: Harness) -> None:
    client = harness.connect()
    harness.node.config.max_message_size = 4 << 20
    for _ in range(2):  # by the rules, on the fast path
        assert refused(harness, send(), b"x" * (900 << 10) * 5) == (13, ILLEGAL)
        assert refused(harness, send(properties=pairs(a="x" * 32_760))) == (13, ILLEGAL)
        assert client.ask(send(), b"x").code == 0


def test_timers_without_a_wheel(tmp_path: Path) -> None:
    harness = Harness(tmp_path, timerWheelEnable="false")
    harness.topic("T")
    for name in ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"):
        assert refused(harness, send(properties=pairs(**{name: "5"}))) == (
            1,
            "accurate timer message is not enabled, timerWheelEnable is false",
        )


def test_a_delay_that_is_no_number(harness: Harness) -> None:
    code, remark = refused(harness, send(properties=pairs(DELAY="soon")))
    assert (code, remark) == (1, 'java.lang.NumberFormatException: For input string: "soon"')


def test_inner_batches_belong_into_batch_queues(harness: Harness) -> None:
    harness.connect().ask(send(), b"x")
    assert refused(harness, send(properties=pairs(INNER_NUM="3"))) == (13, ILLEGAL)
    assert refused(harness, send(sys_flag=0x80)) == (13, ILLEGAL)


def test_a_compacted_topic_wants_keys(harness: Harness) -> None:
    harness.topic("Compacted", attributes={"+cleanup.policy": "COMPACTION"})
    for _ in range(2):
        assert refused(harness, send("Compacted", properties=pairs(KEYS="  "))) == (13, "Required message key is missing")
        assert harness.connect().ask(send("Compacted", properties=pairs(KEYS="k")), b"x").code == 0


def test_a_retry_topic_of_nobody(harness: Harness) -> None:
    harness.node.config.auto_create_subscription_group = False
    remark = f"subscription group not exist, G {FAQ}"
    assert refused(harness, send("%RETRY%G")) == (26, remark)


def test_a_consumer_that_sends_back_by_itself(harness: Harness) -> None:
    client = harness.connect()
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=3))
    assert client.ask(send("%RETRY%G", reconsume_times=3, properties=pairs(DELAY="0")), b"x").code == 0
    assert len(harness.stored("%RETRY%G", 0)) == 1
    assert client.ask(send("%RETRY%G", reconsume_times=4, properties=pairs(DELAY="5")), b"dead").code == 0
    [dead] = harness.stored("%DLQ%G", 0)
    assert (dead.body, props(dead)["DELAY"]) == (b"dead", "-1")
    assert client.ask(send("%RETRY%G", reconsume_times=4, max_reconsume_times=9, properties=pairs(DELAY="0")), b"x").code == 0
    assert len(harness.stored("%RETRY%G", 0)) == 2
    harness.capability(310).rules._locks.lock("G", [QueueName(topic="T", broker_name="broker-a", queue_id=0)], "c1")
    assert client.ask(send("%RETRY%G", properties=pairs(DELAY="0")), b"in order").code == 0
    assert len(harness.stored("%DLQ%G", 0)) == 2
    harness.driver.advance(60_001)
    assert client.ask(send("%RETRY%G", properties=pairs(DELAY="0")), b"x").code == 0
    assert len(harness.stored("%RETRY%G", 0)) == 3


def batch(body: bytes, **more: Any) -> tuple[SendBatchMessage, bytes]:
    asked = send(batch=True, **more)
    return SendBatchMessage(**{name: getattr(asked, name) for name in asked.__struct_fields__}), body


GOOD = pack_items([Item(0, b"one", b"a\x011\x02"), Item(0, b"two", b"")])


@pytest.mark.parametrize(
    "body",
    [
        GOOD[:-1],
        GOOD + b"\0",
        b"\0\0\0\0" + GOOD[4:],
        b"\xff\xff\xff\xff" + GOOD[4:],
        GOOD[:16] + b"\x7f\xff\xff\xff" + GOOD[20:],
        pack_items([Item(0, b"", b"")] * 40_000),
        b"not a batch at all",
    ],
    ids=["cut", "longer", "size 0", "size -1", "body past the end", "40,000 items", "text"],
)
def test_a_broken_batch_is_illegal_as_a_whole(harness: Harness, body: bytes) -> None:
    harness.connect().ask(*batch(GOOD))
    assert refused(harness, *batch(body)) == (13, ILLEGAL)
    assert len(harness.stored("T", 0)) == 2


def test_a_batch_in_a_batch_is_a_body_like_any_other(harness: Harness) -> None:
    assert harness.connect().ask(*batch(pack_items([Item(0, GOOD, b"")]))).code == 0
    assert [bytes(unit.body) for unit in harness.stored("T", 0)] == [GOOD]


def test_what_a_batch_may_not_have(harness: Harness) -> None:
    assert refused(harness, *batch(GOOD, properties=pairs(DELAY="1"))) == (13, ILLEGAL)
    assert refused(harness, *batch(GOOD, properties=pairs(INNER_NUM="1"))) == (13, ILLEGAL)
    assert refused(harness, *batch(GOOD, sys_flag=4)) == (13, ILLEGAL)
    assert refused(harness, *batch(GOOD, sys_flag=0x80)) == (13, ILLEGAL)
    assert refused(harness, *batch(GOOD, properties=pairs(TIMER_DELAY_MS="1")))[0] == 13
    retry = "batch request does not support retry group %RETRY%G"
    assert refused(harness, *batch(GOOD, topic="%RETRY%G")) == (13, retry)
    long = "%RETRY%" + "g" * 121
    assert refused(harness, *batch(GOOD, topic=long)) == (13, f"message topic length too long {len(long)}")
    harness.node.config.max_message_size = 10
    assert refused(harness, *batch(GOOD)) == (1, "java.lang.RuntimeException: message body size exceeded")


def test_one_bad_message_spoils_the_batch(harness: Harness) -> None:
    second = pack_items([Item(0, b"two", b"")])
    broken = pack_items([Item(0, b"one", b"")]) + second[:-2] + b"\xff\xfe"
    assert refused(harness, *batch(broken)) == (13, ILLEGAL)
    assert harness.stored("T", 0) == []


def test_a_batch_that_fits_into_no_file(harness: Harness) -> None:
    body = pack_items([Item(0, b"x" * 1000, b"")] * 1_030)
    assert len(body) < harness.node.config.max_message_size
    assert refused(harness, *batch(body)) == (13, ILLEGAL)
