"""Requests of clients that do not spell JSON as Java does: ordinals, numbers in quotes, texts without, nulls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmq_wire.bodies.connections import ConsumerConnection, ConsumerIdList
from rmq_wire.bodies.locks import LockBatchResponse
from rmq_wire.declare import Request
from rmq_wire.headers.clients import CheckClientConfig, GetConsumerConnectionList, GetConsumerListByGroup, Heartbeat
from rmq_wire.headers.groups import UpdateAndCreateSubscriptionGroup, UpdateAndCreateSubscriptionGroupList
from rmq_wire.headers.locks import LockBatchMq, UnlockBatchMq
from rmq_wire.headers.topics import CreateTopicList
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.loops import each

SUCCESS, SYSTEM_ERROR = 0, 1


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    made = Harness(tmp_path / "store")
    yield made.connect()
    made.stop()


def ask(client: Client, request: Request, body: Any) -> tuple[int, str]:
    answer = client.ask(request, json.dumps(body).encode())
    return answer.code, answer.remark or ""


def heartbeat(**consumer: Any) -> dict[str, Any]:
    return {"clientID": "1@x", "consumerDataSet": [{"groupName": "G", **consumer}]}


def test_a_member_that_says_ordinals_is_known_by_names(client: Client) -> None:
    """Without this the C++ client 2.x is never a member of its group, finds no queues, and consumes nothing."""
    said = [{"topic": "T", "subString": "*", "subVersion": "1795440088321"}]
    beat = heartbeat(consumeType=1, messageModel="1", consumeFromWhere=0, subscriptionDataSet=said)
    assert ask(client, Heartbeat(), beat) == (SUCCESS, "")
    assert ConsumerIdList.read(client.ask(GetConsumerListByGroup(consumer_group="G")).body).consumer_id_list == ["1@x"]
    found = ConsumerConnection.read(client.ask(GetConsumerConnectionList(consumer_group="G")).body)
    assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert found.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert found.subscription_table["T"].sub_version == 1795440088321


def test_other_bodies_are_read_the_same_way(client: Client) -> None:
    queue = {"topic": "T", "brokerName": "broker-a", "queueId": "0"}
    topic = {"topicName": 5, "readQueueNums": "2", "writeQueueNums": 2.0, "perm": "6", "topicFilterType": 1, "order": "false"}
    group = {"groupName": 7, "retryMaxTimes": "3", "consumeEnable": 1, "groupRetryPolicy": {"type": "1"}, "attributes": None}
    each(
        [
            (CreateTopicList(), {"topicConfigList": topic}),
            (UpdateAndCreateSubscriptionGroup(), group),
            (UpdateAndCreateSubscriptionGroupList(), {"groupConfigList": [None, group]}),
            (CheckClientConfig(), {"clientId": 1, "subscriptionData": {"expressionType": None, "tagsSet": "a"}}),
            (LockBatchMq(), {"clientId": 1, "consumerGroup": "G", "mqSet": queue, "onlyThisBroker": "1"}),
            (UnlockBatchMq(), {"clientId": 1, "consumerGroup": "G", "mqSet": [queue], "onlyThisBroker": None}),
        ],
        lambda sent: taken(client, *sent),
    )
    locked = client.ask(LockBatchMq(), json.dumps({"clientId": 1, "consumerGroup": "G", "mqSet": queue}).encode())
    assert [queue.queue_id for queue in LockBatchResponse.read(locked.body).lock_ok_mq_set] == [0]


def taken(client: Client, request: Request, body: Any) -> None:
    code, remark = ask(client, request, body)
    assert code == SUCCESS, remark


def test_what_java_refuses_is_an_error_that_names_the_member(client: Client) -> None:
    """There the parser throws in the processor: code 1 with its text."""
    each(
        [
            (Heartbeat(), heartbeat(consumeType=7), "consumerDataSet[0].consumeType: one of CONSUME_ACTIVELY"),
            (Heartbeat(), heartbeat(unitMode="yes"), "consumerDataSet[0].unitMode: a truth value expected, got 'yes'"),
            (Heartbeat(), {"heartbeatFingerprint": 2**31}, "heartbeatFingerprint: an integer"),
            (LockBatchMq(), {"mqSet": [{"queueId": "x"}]}, "mqSet[0].queueId: an integer"),
            (CreateTopicList(), {"topicConfigList": [{"perm": "rw"}]}, "topicConfigList[0].perm: an integer"),
            (UpdateAndCreateSubscriptionGroup(), {"groupRetryPolicy": {"exponentialRetryPolicy": 5}}, "an object expected"),
        ],
        lambda sent: refused(client, *sent),
    )


def refused(client: Client, request: Request, body: Any, remark: str) -> None:
    code, said = ask(client, request, body)
    assert code == SYSTEM_ERROR
    assert remark in said
