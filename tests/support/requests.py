"""Requests as stock clients send them, typed, and the messages and words of what comes back."""

from __future__ import annotations

from typing import Any

from broker_impl.state.consumer_group import ConsumerGroup
from rmq_wire.batch import Item, pack_items
from rmq_wire.bodies.connections import ConsumerIdList
from rmq_wire.bodies.heartbeat import CLUSTERING, CONSUME_PASSIVELY, ConsumerData, HeartbeatData, SubscriptionData
from rmq_wire.command import Command
from rmq_wire.headers.clients import Heartbeat
from rmq_wire.headers.pull import PullMessage
from rmq_wire.headers.send import SendBatchMessage, SendMessageV2
from rmq_wire.headers.topics import CreateTopic
from rmq_wire.java import string_hash
from rmq_wire.message import StoredMessage, read_unit
from rmq_wire.properties import decode
from tests.support.driver import Client

WALL_MS = 1_700_000_000_000
SUSPEND, COMMIT, SUBSCRIPTION = 2, 1, 4


def units(body: bytes | memoryview) -> list[StoredMessage]:
    """The messages in an answer's body."""
    found: list[StoredMessage] = []
    at = 0
    while at < len(body):
        unit = read_unit(bytes(body), at)
        found.append(unit)
        at += unit.total_size
    return found


def props(unit: StoredMessage) -> dict[str, str]:
    return decode(unit.properties.decode())


def pairs(**values: str) -> str:
    """A property string."""
    return "".join(f"{name}\x01{value}\x02" for name, value in values.items())


def send(topic: str = "T", queue_id: int = 0, properties: str | None = None, **more: Any) -> SendMessageV2:
    """What a stock producer sends."""
    header: dict[str, Any] = {
        "producer_group": "P",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id,
        "sys_flag": 0,
        "born_timestamp": WALL_MS - 5,
        "flag": 0,
        "properties": properties if properties is not None else pairs(UNIQ_KEY="7F000001" + "0" * 24, WAIT="true"),
        "reconsume_times": 0,
        "unit_mode": False,
        "batch": False,
        "broker_name": "broker-a",
    }
    return SendMessageV2(**{**header, **more})


def create_topic(topic: str = "T", queues: int = 4, **more: Any) -> CreateTopic:
    """What `mqadmin updateTopic` sends."""
    header: dict[str, Any] = {
        "topic": topic,
        "default_topic": "TBW102",
        "read_queue_nums": queues,
        "write_queue_nums": queues,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        "order": False,
    }
    return CreateTopic(**{**header, **more})


def send_batch(topic: str = "T", queue_id: int = 0, **more: Any) -> SendBatchMessage:
    """The header of what a stock producer sends as a batch."""
    single = send(topic, queue_id, **{"batch": True, **more})
    return SendBatchMessage(**{name: getattr(single, name) for name in single.__struct_fields__})


def batch(*items: Item, **more: Any) -> tuple[SendBatchMessage, bytes]:
    """The same with its messages."""
    return send_batch(**more), pack_items(items)


def pull(topic: str = "T", queue_id: int = 0, offset: int = 0, flags: int = SUBSCRIPTION, **more: Any) -> PullMessage:
    """A pull that brings its own subscription to everything and does not wait, unless asked otherwise."""
    header: dict[str, Any] = {
        "consumer_group": "G",
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": flags,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "sub_version": 0,
        "subscription": "*",
        "expression_type": "TAG",
    }
    return PullMessage(**{**header, **more})


def beat(
    group: str = "G", topic: str = "T", expression: str = "*", client_id: str = "c1", model: str = CLUSTERING, **more: Any
) -> tuple[Heartbeat, bytes]:
    """The heartbeat of a push consumer of the topic, and its body."""
    tags = [tag.strip() for tag in expression.split("||")] if expression != "*" else []
    hashes = [string_hash(tag) for tag in tags]
    more = {"sub_version": 1, **more}
    subscription = SubscriptionData(topic=topic, sub_string=expression, tags_set=tags, code_set=hashes, **more)
    consumer = ConsumerData(
        group_name=group,
        consume_type=CONSUME_PASSIVELY,
        message_model=model,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=[subscription],
    )
    return Heartbeat(), HeartbeatData(client_id=client_id, consumer_data_set=[consumer]).encode()


def heartbeat(client: Client, group: str = "G", topic: str = "T", expression: str = "*", **more: Any) -> None:
    """Make the client a push consumer of the topic."""
    answer = client.ask(*beat(group, topic, expression, f"c{client.peer.id}", **more))
    assert answer.code == 0, answer.remark


def said(answer: Command) -> tuple[int, str | None, dict[str, str]]:
    """Code, remark and fields of an answer."""
    return answer.code, answer.remark, answer.ext_map()


def member_ids(group: ConsumerGroup | None) -> list[str]:
    """Client ids of the members of a group, as code 38 tells them."""
    return [] if group is None else ConsumerIdList.read(group.id_list()).consumer_id_list
