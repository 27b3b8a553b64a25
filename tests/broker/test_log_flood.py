"""Every line that an unknown peer can cause again and again is written so often and no more, at INFO as at WARNING."""

from __future__ import annotations

import itertools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from rmq_net.log import LINES_MAX, WINDOW_MS
from rmq_wire.codes import RequestCode as Code
from tests.broker.admin_calls import consumer, group, heartbeat, offset, send, topic
from tests.support.driver import Driver
from tests.support.engine import Harness
from tests.support.engine_session import EngineSession
from tests.support.exchange import framed
from tests.support.loops import each
from tests.support.requests import pull

TIMES = 2 * LINES_MAX
Sent = Iterable[tuple[int, dict[str, Any], str]]
"""Requests by code, header fields and body."""


def lock(client: str) -> str:
    queue = {"topic": "T", "brokerName": "broker-a", "queueId": 0}
    return json.dumps({"consumerGroup": "G", "clientId": client, "mqSet": [queue]})


def broker_addr(number: int, **fields: Any) -> dict[str, Any]:
    """Header of 103 and 104."""
    named = {"brokerName": f"b{number}", "brokerAddr": f"h:{number}", "clusterName": "C", "brokerId": 0, **fields}
    return {"haServerAddr": "h:1", "compressed": "false", **named}


def topics(*names: str, state: int = 0) -> str:
    """Body of 103."""
    table = {name: {"topicName": name} for name in names}
    wrapper = {"topicConfigTable": table, "dataVersion": {"stateVersion": state, "timestamp": 1, "counter": 1}}
    return json.dumps({"topicConfigSerializeWrapper": wrapper, "filterServerList": []})


AT_A_BROKER: dict[str, Callable[[int], Sent]] = {
    "producer connects": lambda n: [(Code.HEART_BEAT, {}, heartbeat("c", [], [f"P{n}"]))],
    "consumer connects": lambda n: [(Code.HEART_BEAT, {}, heartbeat("c", [consumer(f"G{n}", "T")], []))],
    "connection speaks for another": lambda n: [(Code.HEART_BEAT, {}, heartbeat(f"c{n}", [consumer("G", "T")], []))],
    "consumer leaves": lambda n: [
        (Code.HEART_BEAT, {}, heartbeat("c", [consumer("H", "T")], [])),
        (Code.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": "H"}, ""),
    ],
    "subscriptions change": lambda n: [(Code.HEART_BEAT, {}, heartbeat("c", [consumer("G", f"T{n}")], []))],
    "group is made": lambda n: [(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group(f"N{n}"))],
    "group is made by a pull": lambda n: [(Code.PULL_MESSAGE, pull(consumer_group=f"X{n}").encode(), "")],
    "pull behind the end": lambda n: [(Code.PULL_MESSAGE, pull(offset=100 + n).encode(), "")],
    "group is deleted": lambda n: [(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": f"G{n}"}, "")],
    "topic is made": lambda n: [(Code.UPDATE_AND_CREATE_TOPIC, topic(f"M{n}"), "")],
    "topic is made by a send": lambda n: [(Code.SEND_MESSAGE_V2, *send(f"S{n}", "0", "x"))],
    "topic is not made": lambda n: [(Code.SEND_MESSAGE_V2, {**send(f"S{n}", "0", "x")[0], "c": "NONE"}, "x")],
    "topic is deleted": lambda n: [(Code.DELETE_TOPIC_IN_BROKER, {"topic": f"T{n}"}, "")],
    "progress goes back": lambda n: [
        (Code.UPDATE_CONSUMER_OFFSET, offset("TOOLS_CONSUMER", "T", "0", "1"), ""),
        (Code.UPDATE_CONSUMER_OFFSET, offset("TOOLS_CONSUMER", "T", "0", "0"), ""),
    ],
    "configuration changes": lambda n: [(Code.UPDATE_BROKER_CONFIG, {}, f"maxMessageSize={5000 + n}")],
    "configuration is refused": lambda n: [(Code.UPDATE_BROKER_CONFIG, {}, f"flushDiskType=NONE{n}")],
    "queues are cleaned": lambda n: [(Code.CLEAN_EXPIRED_CONSUMEQUEUE, {}, "")],
    "topics are cleaned": lambda n: [(Code.CLEAN_UNUSED_TOPIC, {}, "")],
    "files are cleaned": lambda n: [(Code.DELETE_EXPIRED_COMMITLOG, {}, "")],
}
AT_A_NAME_SERVER: dict[str, Callable[[int], Sent]] = {
    "check sum": lambda n: [(Code.REGISTER_BROKER, broker_addr(n, bodyCrc32=7), topics("T"))],
    "registers": lambda n: [(Code.REGISTER_BROKER, broker_addr(n), topics("T", "U"))],
    "moves": lambda n: [(Code.REGISTER_BROKER, broker_addr(0, brokerAddr=f"h:{n}"), topics("T", "U"))],
    "increment of nobody": lambda n: [(Code.REGISTER_BROKER, broker_addr(n), topics("T"))],
    "older state": lambda n: [
        (Code.REGISTER_BROKER, broker_addr(0), topics("T", "U", state=5)),
        (Code.REGISTER_BROKER, broker_addr(0, brokerAddr="h:9"), topics("T", "U")),
    ],
    "leaves": lambda n: [(Code.REGISTER_BROKER, broker_addr(0), topics("T", "U")), (Code.UNREGISTER_BROKER, broker_addr(0), "")],
    "is not here": lambda n: [(Code.UNREGISTER_BROKER, broker_addr(n), "")],
    "no writing": lambda n: [(Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": f"b{n}"}, "")],
    "writing": lambda n: [(Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": f"b{n}"}, "")],
    "topic of nobody": lambda n: [
        (Code.REGISTER_TOPIC_IN_NAMESRV, {"topic": f"T{n}"}, json.dumps({"queueDatas": [{"brokerName": "none"}]}))
    ],
    "topic is deleted": lambda n: [(Code.DELETE_TOPIC_IN_NAMESRV, {"topic": f"T{n}"}, "")],
    "key is set": lambda n: [(Code.PUT_KV_CONFIG, {"namespace": "N", "key": f"k{n}", "value": "v"}, "")],
    "key is deleted": lambda n: [(Code.DELETE_KV_CONFIG, {"namespace": "N", "key": f"k{n}"}, "")],
    "configuration changes": lambda n: [(Code.UPDATE_NAMESRV_CONFIG, {}, f"scanNotActiveBrokerInterval={5000 + n}")],
}


def check_floods(
    floods: dict[str, Callable[[int], Sent]], server: Callable[[str], Driver], log: pytest.LogCaptureFixture
) -> None:
    """Each against a server of its own, as fast as it can: something is logged, and nothing of it too often."""
    log.set_level(logging.INFO)

    def check(name: str) -> None:
        unknown = server(name.replace(" ", "-")).connect()
        log.clear()
        opaque = itertools.count(1)
        for number in range(TIMES):
            for code, ext, body in floods[name](number):
                unknown.raw(framed(code, ext, body.encode(), next(opaque)))
        kinds = Counter(record.msg for record in log.records)
        assert kinds, "nothing is logged"
        assert max(kinds.values()) == LINES_MAX, kinds

    each(floods, check)


def test_a_broker_s_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def server(name: str) -> Driver:
        harness = Harness(tmp_path / name)
        header, body = send("T", "0", "x")
        harness.connect().raw(framed(Code.SEND_MESSAGE_V2, header, body.encode(), 1))
        harness.driver.advance(WINDOW_MS)
        return harness.driver

    check_floods(AT_A_BROKER, server, caplog)


def test_a_name_server_s_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check_floods(AT_A_NAME_SERVER, lambda name: EngineSession(str(tmp_path / name)).driver, caplog)


def test_a_deleted_topic_and_a_deleted_group_are_everyday(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    harness = Harness(tmp_path)
    harness.topic("T")
    for code, ext in ((Code.DELETE_TOPIC_IN_BROKER, {"topic": "T"}), (Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G"})):
        harness.connect().raw(framed(code, ext, b"", 1))
    reported = {record.levelname for record in caplog.records if " deleted by " in record.getMessage()}
    assert reported == {"INFO"}
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
