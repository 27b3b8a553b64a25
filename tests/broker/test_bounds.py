"""What unknown peers make a broker remember has an end: topics, groups, subscriptions, locks, progress, counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_impl.engine.limits import Limits
from broker_impl.engine.slices import finished
from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from rmq_wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from rmq_wire.bodies.locks import LockBatchRequest, LockBatchResponse, QueueName
from rmq_wire.bodies.topics import TopicConfig, TopicConfigList
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.clients import Heartbeat
from rmq_wire.headers.groups import (
    GetSubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateSubscriptionGroupList,
    UpdateGroupForbidden,
)
from rmq_wire.headers.locks import LockBatchMq, UnlockBatchMq
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.headers.topics import CreateTopicList, DeleteTopic
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.popping import ack, pop, take
from tests.support.requests import beat, create_topic, pull, send

FAILED = ResponseCode.SYSTEM_ERROR


def refused(answer: Command, remark: str) -> None:
    assert answer.code == FAILED
    assert remark in (answer.remark or ""), answer.remark


def full(root: Path, *, topics: int = 1 << 30, groups: int = 1 << 30) -> tuple[Harness, Client]:
    """A broker with room for so many topics and groups more than it has by itself, in which topic T and group G are."""
    harness = Harness(root)
    harness.topic("T")
    client = harness.connect()
    assert client.ask(*beat("G", "T")).code == 0
    node = harness.node
    harness.stop()
    harness.limits = Limits(topics_max=len(node.topics) + topics, groups_max=len(node.groups) + groups)
    harness.open()
    return harness, harness.connect()


def test_topics_have_an_end_whoever_makes_them(tmp_path: Path) -> None:
    harness, client = full(tmp_path, topics=1)
    lists = [TopicConfigList(topic_config_list=[TopicConfig(topic_name=name) for name in ("T", "A", "B")])]
    refused(client.ask(CreateTopicList(), lists[0].encode()), "topics, no more than")
    assert "A" not in harness.node.topics, "all or none"
    assert client.ask(create_topic("A")).code == 0
    there = set(harness.node.topics.table)
    refused(client.ask(create_topic("B")), "topics, no more than")
    refused(client.ask(send("B"), b"x"), "topics, no more than")
    refused(client.ask(*beat("G2", "T")), "topics, no more than")
    assert harness.node.clients.consumer_group("G2") is None
    assert set(harness.node.topics.table) == there
    assert client.ask(create_topic("A", perm=4)).code == 0, "what is there can be changed"
    assert client.ask(send("T"), b"x").code == 0
    assert client.ask(*beat("G", "T")).code == 0
    assert client.ask(DeleteTopic(topic="A")).code == 0
    assert client.ask(send("B"), b"x").code == 0


def test_groups_have_an_end_whoever_makes_them(tmp_path: Path) -> None:
    harness, client = full(tmp_path, groups=1)
    several = SubscriptionGroupList(group_config_list=[SubscriptionGroupConfig(group_name=name) for name in ("A", "B")])
    refused(client.ask(UpdateAndCreateSubscriptionGroupList(), several.encode()), "groups, no more than")
    assert client.ask(UpdateAndCreateSubscriptionGroup(), SubscriptionGroupConfig(group_name="A").encode()).code == 0
    there = set(harness.node.groups.table)
    refused(client.ask(UpdateAndCreateSubscriptionGroup(), SubscriptionGroupConfig(group_name="B").encode()), "no more than")
    refused(client.ask(*beat("B", "T")), "no more than")
    refused(client.ask(pull("T", consumer_group="B")), "no more than")
    refused(client.ask(GetSubscriptionGroupConfig(group="B")), "no more than")
    assert set(harness.node.groups.table) == there
    changed = SubscriptionGroupConfig(group_name="A", consume_enable=False)
    assert client.ask(UpdateAndCreateSubscriptionGroup(), changed.encode()).code == 0
    assert client.ask(*beat("G", "T")).code == 0


def test_a_file_with_more_is_read_whole(tmp_path: Path) -> None:
    harness, client = full(tmp_path, topics=3)
    for name in ("A", "B"):
        assert client.ask(create_topic(name)).code == 0
    harness.stop()
    harness.limits = Limits(topics_max=1)
    harness.open()
    assert "B" in harness.node.topics
    refused(harness.connect().ask(create_topic("C")), "no more than 1")


def forbid(group: str, topic: str) -> UpdateGroupForbidden:
    return UpdateGroupForbidden(group=group, topic=topic, readable=False)


def test_what_is_forbidden_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.state.groups.FORBIDDEN_TOPICS_MAX", 2)
    harness = Harness(tmp_path, Limits(groups_max=2))
    client = harness.connect()
    for topic in ("A", "B", "A"):
        assert client.ask(forbid("G1", topic)).code == 0
    refused(client.ask(forbid("G1", "C")), "topics forbidden to a group")
    assert client.ask(forbid("G2", "A")).code == 0
    refused(client.ask(forbid("G3", "A")), "forbidden groups")


def consumers(groups: range, text: str = "*") -> bytes:
    said = [SubscriptionData(topic="T", sub_string=text, sub_version=1)]
    data = [ConsumerData(group_name=f"G{number}", subscription_data_set=said) for number in groups]
    return HeartbeatData(client_id="c", consumer_data_set=data).encode()


def test_attack_10_what_one_connection_subscribes_to_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.capabilities.clients.SAID_BYTES_MAX", 100_000)
    harness = Harness(tmp_path)
    harness.topic("T")
    unknown, client = harness.connect(), harness.connect()
    codes = [unknown.ask(Heartbeat(), consumers(range(number, number + 1), "x" * 30_000)).code for number in range(5)]
    assert codes == [0, 0, 0, FAILED, FAILED]
    for _ in range(3):
        assert unknown.ask(Heartbeat(), consumers(range(3), "x" * 30_000)).code == 0, "what is said again counts once"
    assert client.ask(Heartbeat(), consumers(range(3))).code == 0, "others in its groups are not blamed for it"
    assert client.ask(Heartbeat(), consumers(range(5, 6), "x" * 90_000)).code == 0
    name = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="P" * 2_000)])
    assert unknown.ask(Heartbeat(), name.encode()).code == 0
    assert not harness.node.clients.producer_groups, "passed over, as other names that cannot be"


def test_what_pulls_say_of_their_groups_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.state.clients.COMPENSATED_CHARACTERS_MAX", 10_000)
    harness = Harness(tmp_path)
    harness.topic("T")
    client = harness.connect()
    for number in range(10):
        client.ask(pull("T", consumer_group=f"G{number}", subscription="x" * 2_000))
    clients = harness.node.clients
    noted = [number for number in range(10) if clients.compensated(f"G{number}", "T") is not None]
    assert noted == [0, 1]
    harness.driver.advance(3_600_000)
    client = harness.connect()
    client.ask(pull("T", consumer_group="G9", subscription="x" * 2_000))
    assert clients.compensated("G9", "T") is not None
    assert clients.compensated("G0", "T") is None


def locked(client: Client, group: str, queues: range, code: type = LockBatchMq) -> int:
    names = [QueueName(topic="T", broker_name="broker-a", queue_id=number) for number in queues]
    answer = client.ask(code(), LockBatchRequest(consumer_group=group, client_id="c", mq_set=names).encode())
    assert answer.code == 0
    return len(LockBatchResponse.read(answer.body).lock_ok_mq_set) if code is LockBatchMq else 0


def test_locks_have_an_end_for_all_groups_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.state.locks.LOCKS_MAX", 10)
    harness = Harness(tmp_path)
    client = harness.connect()
    assert locked(client, "G1", range(6)) == 6
    assert locked(client, "G2", range(6)) == 4
    assert locked(client, "G3", range(6)) == 0
    assert locked(client, "G1", range(6)) == 6, "one's own are renewed"
    locked(client, "G1", range(3), UnlockBatchMq)
    assert locked(client, "G3", range(6)) == 3
    harness.driver.advance(300_000)
    assert locked(harness.connect(), "G4", range(20)) == 10


def test_rows_of_progress_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic of a group is a row of tables that grow all at once."""
    monkeypatch.setattr("broker_impl.state.consumer_offsets.ROWS_MAX", 2)
    harness = Harness(tmp_path)
    harness.topic("T", queues=8)
    client = harness.connect()
    codes = []
    for group in ("G", "G2", "G3"):
        assert client.ask(*beat(group, "T")).code == 0
        codes.append(client.ask(UpdateConsumerOffset(consumer_group=group, topic="T", queue_id=0, commit_offset=0)).code)
    assert codes == [0, 0, 1]


def test_progress_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.state.consumer_offsets.PROGRESS_MAX", 3)
    harness = Harness(tmp_path)
    harness.topic("T", queues=8)
    client = harness.connect()
    for group in ("G", "G2"):
        assert client.ask(*beat(group, "T")).code == 0

    def commit(group: str, queue_id: int) -> Command:
        return client.ask(UpdateConsumerOffset(consumer_group=group, topic="T", queue_id=queue_id, commit_offset=0))

    assert [commit("G", queue_id).code for queue_id in range(3)] == [0, 0, 0]
    for group in ("G", "G2"):
        refused(commit(group, 3), "no more is taken")
    assert commit("G", 2).code == 0
    harness.restart()
    client = harness.connect()
    refused(commit("G", 3), "no more is taken")
    finished(harness.node.offsets.dropping_group("G"))
    assert commit("G2", 3).code == 0


@pytest.mark.parametrize("order", [False, True])
def test_a_pop_gets_nothing_where_its_progress_would_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: bool
) -> None:
    """It would get the same again and again, also what is acknowledged."""
    harness = Harness(tmp_path).begun()
    client = harness.connect()
    for queue_id in (0, 1):
        assert client.ask(send(queue_id=queue_id), b"old").code == 0
    ack(client, *take(client, order=order))
    known = harness.node.offsets._queues
    monkeypatch.setattr("broker_impl.state.consumer_offsets.PROGRESS_MAX", known)
    refused(client.ask(pop(queue_id=1, order=order)), "no more is taken")
    waiting = pop(queue_id=-1, order=order, poll_time=5_000, born_time=harness.env.wall_ms)
    refused(client.ask(waiting), "no more is taken")
    refused(client.ask(pop(order=order, consumer_group="other")), "no more is taken")
    for number in range(8):
        assert client.ask(send(), b"%d" % number).code == 0
    for _ in range(8):  # the others go on, whichever is looked at first
        [one] = take(client, queue_id=-1, count=1, order=order)
        assert one.unit.queue_id == 0
        ack(client, one)
    assert harness.node.offsets._queues == known
    monkeypatch.setattr("broker_impl.state.consumer_offsets.PROGRESS_MAX", known + 1)
    assert len(take(client, queue_id=1, order=order)) == 1
    assert take(client, queue_id=1, order=order) == []


def test_counters_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.state.stats.ITEMS_MAX", 3)
    harness = Harness(tmp_path)
    client = harness.connect()
    for number in range(8):
        assert client.ask(send(f"T{number}"), b"x").code == 0
    stats = harness.capability(pull().code)._stats
    assert stats.put_now == 8
    assert all(len(table) <= 3 for table in stats.tables.values())
    assert len(stats._puts) <= 3
