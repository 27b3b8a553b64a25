"""A whole broker without sockets: every capability on a real store; a test says what arrives and what time it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.limits import Limits
from broker_impl.node import BrokerNode
from rmq_store.disk import RealDisk
from rmq_wire.bodies.heartbeat import CLUSTERING, CONSUME_PASSIVELY, ConsumerData, HeartbeatData, SubscriptionData
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import Command
from rmq_wire.headers.clients import Heartbeat
from rmq_wire.headers.pull import PullMessage
from rmq_wire.headers.send import SendMessageV2
from rmq_wire.java import string_hash
from rmq_wire.message import StoredMessage, read_unit
from rmq_wire.properties import decode
from tests.support.driver import Client, Driver

WALL_MS = 1_700_000_000_000
SUSPEND, COMMIT, SUBSCRIPTION = 2, 1, 4
SETTINGS = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerIP1": "127.0.0.1",
    "listenPort": "10911",
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": "6000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "diskSpaceWarningLevelRatio": "99",
}


class House:
    """One broker in a directory.  `restart` closes it cleanly (or just drops it, `kill=True`) and opens it again."""

    def __init__(self, root: Path, limits: Limits | None = None, **settings: Any) -> None:
        self.root = root
        self.limits = limits
        self.settings = {**SETTINGS, **{key: str(value) for key, value in settings.items()}}
        self.env = Env(wall_ms=WALL_MS, mono_ms=1_000, host=self.settings["brokerIP1"])
        self._open()

    def _open(self) -> None:
        config = BrokerConfig({**self.settings, "storePathRootDir": str(self.root)})
        self.node = BrokerNode(self.env, config, RealDisk(), self.limits)
        self.driver = Driver(self.node.engine)
        self.driver.run()

    def restart(self, *, kill: bool = False) -> None:
        if kill:
            self.node.store._lock.release()
        else:
            assert self.node.close(), "no clean stop"
        self._open()

    def connect(self, remote: str = "127.0.0.1") -> Client:
        return self.driver.connect(remote)

    def topic(self, name: str = "T", queues: int = 4, perm: int = 6, **more: Any) -> TopicConfig:
        """Make a topic as a tool would."""
        made = TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, **more)
        self.node.topics.put(made)
        return made

    def capability(self, code: int) -> Any:
        """Whoever answers this code."""
        handle: Any = self.node.engine._rows[code].handle
        return handle.__self__

    def stored(self, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
        """Every message of a queue, as it lies in the log."""
        low, high = self.node.store.queue_bounds(topic, queue_id)
        found: list[StoredMessage] = []
        while low < high:
            read = self.node.store.read_queue(topic, queue_id, low, high - low, 1 << 27)
            found += units(b"".join(bytes(chunk) for chunk in read.chunks))
            low = read.next_offset
        return found


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


def pull(topic: str = "T", queue_id: int = 0, offset: int = 0, flags: int = SUBSCRIPTION, **more: Any) -> PullMessage:
    """A pull that brings its own subscription to everything and does not wait, unless told otherwise."""
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


def heartbeat(client: Client, group: str = "G", topic: str = "T", expression: str = "*", **more: Any) -> None:
    """Make the client a push consumer of the topic."""
    tags = [tag.strip() for tag in expression.split("||")] if expression != "*" else []
    subscription = SubscriptionData(
        topic=topic, sub_string=expression, tags_set=tags, code_set=[string_hash(tag) for tag in tags], sub_version=1, **more
    )
    consumer = ConsumerData(
        group_name=group,
        consume_type=CONSUME_PASSIVELY,
        message_model=CLUSTERING,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=[subscription],
    )
    answer = client.ask(Heartbeat(), HeartbeatData(client_id=f"c{client.peer.id}", consumer_data_set=[consumer]).encode())
    assert answer.code == 0, answer.remark


def said(answer: Command) -> tuple[int, str | None, dict[str, str]]:
    """Code, remark and fields of an answer."""
    return answer.code, answer.remark, answer.ext_map()
