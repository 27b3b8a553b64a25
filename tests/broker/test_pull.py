"""Pulls that are answered at once: every check and every outcome, with the reference's codes, texts and fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rmq_store.errors import Cold
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.heartbeat import CONSUME_ACTIVELY
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Form
from rmq_wire.headers.groups import QuerySubscriptionByConsumer
from rmq_wire.headers.pull import LitePullMessage, PullMessage
from tests.support.engine import Harness
from tests.support.requests import COMMIT, SUBSCRIPTION, heartbeat, pairs, props, pull, said, send, units

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.topic("T")
    client = harness.connect()
    for number in range(5):
        assert client.ask(send(properties=pairs(TAGS="AB"[number % 2], n=str(number))), f"m{number}".encode()).code == 0
    return harness


def found(harness: Harness, asked: PullMessage) -> list[str]:
    answer = harness.connect().ask(asked)
    assert answer.code == 0, answer.remark
    return [bytes(unit.body).decode() for unit in units(answer.body)]


def fields(next_offset: int, lowest: int = 0, highest: int = 5) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(lowest),
        "maxOffset": str(highest),
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }


@pytest.mark.parametrize("form", list(Form))
def test_found(harness: Harness, form: Form) -> None:
    answer = harness.connect().ask(pull(offset=1, max_msg_nums=3), form=form)
    assert said(answer) == (0, "FOUND", fields(4))
    got = units(answer.body)
    assert [unit.queue_offset for unit in got] == [1, 2, 3]
    assert got == harness.stored("T", 0)[1:4]
    assert answer.form == form


@pytest.mark.parametrize(
    ("queue", "offset", "code", "status", "expected"),
    [
        (0, 5, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", fields(5)),
        (0, 6, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", fields(5)),
        (0, 2**63 - 1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", fields(5)),
        (0, -1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", fields(0)),
        (1, 0, ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", fields(0, 0, 0)),
        (1, 7, ResponseCode.PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE", fields(0, 0, 0)),
    ],
)
def test_nothing_there(harness: Harness, queue: int, offset: int, code: int, status: str, expected: dict[str, str]) -> None:
    assert said(harness.connect().ask(pull(queue_id=queue, offset=offset))) == (code, status, expected)


def test_reading_makes_no_queue(harness: Harness) -> None:
    harness.connect().ask(pull(queue_id=3))
    assert not (harness.root / "consumequeue" / "T" / "3").exists()


@pytest.mark.parametrize(("most", "count"), [(1, 1), (0, 1), (-5, 1), (3, 3), (2**31 - 1, 5)])
def test_how_many(harness: Harness, most: int, count: int) -> None:
    assert len(found(harness, pull(max_msg_nums=most))) == count


def test_tags(harness: Harness) -> None:
    assert found(harness, pull(subscription="A")) == ["m0", "m2", "m4"]
    assert found(harness, pull(subscription="B || C")) == ["m1", "m3"]
    assert found(harness, pull(subscription="A||B", max_msg_nums=2)) == ["m0", "m1"]
    nothing = harness.connect().ask(pull(subscription="C"))
    assert said(nothing) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", fields(5))


def test_by_heartbeat(harness: Harness) -> None:
    client = harness.connect()
    heartbeat(client, expression="B")
    assert [bytes(unit.body) for unit in units(client.ask(pull(flags=0, subscription=None, sub_version=1)).body)] == [
        b"m1",
        b"m3",
    ]


def refused(harness: Harness, asked: PullMessage) -> tuple[int, str | None, dict[str, str]]:
    return said(harness.connect().ask(asked))


def test_the_broker_is_not_readable(harness: Harness) -> None:
    harness.node.config.broker_permission = 2
    assert refused(harness, pull()) == (16, "the broker[127.0.0.1] pulling message is forbidden", {"forbiddenType": "1"})


def test_lite_pull_can_be_switched_off(harness: Harness) -> None:
    lite = LitePullMessage(**{name: getattr(pull(), name) for name in PullMessage.__struct_fields__})
    assert harness.connect().ask(lite).code == 0
    harness.node.config.lite_pull_message_enable = False
    remark = "the broker[127.0.0.1] for lite pull consumer is forbidden"
    assert refused(harness, lite) == (16, remark, {"forbiddenType": "1"})
    assert harness.connect().ask(pull()).code == 0


def test_groups(harness: Harness) -> None:
    harness.node.groups.put(SubscriptionGroupConfig(group_name="Off", consume_enable=False))
    remark = "subscription group no permission, Off"
    assert refused(harness, pull(consumer_group="Off")) == (16, remark, {"forbiddenType": "2"})
    harness.node.config.auto_create_subscription_group = False
    assert refused(harness, pull(consumer_group="New")) == (26, f"subscription group [New] does not exist, {FAQ}", {})


def test_topics(harness: Harness) -> None:
    assert refused(harness, pull("None")) == (17, f"topic[None] not exist, apply first please! {FAQ}", {})
    harness.topic("WriteOnly", perm=2)
    remark = "the topic[WriteOnly] pulling message is forbidden"
    assert refused(harness, pull("WriteOnly")) == (16, remark, {"forbiddenType": "3"})
    client = harness.connect()
    for queue in (-1, 4):
        code, reported, ext = said(client.ask(pull(queue_id=queue)))
        assert (code, ext) == (ResponseCode.INVALID_PARAMETER, {})
        assert reported == (
            f"queueId[{queue}] is illegal, topic:[T] topicConfig.readQueueNums:[4] consumer:[/127.0.0.1:{client.peer.remote[1]}]"
        )


@pytest.mark.parametrize("expression", ["||", "x" * (1 << 17)], ids=["bars", "long"])
def test_expressions_that_cannot_be_read(harness: Harness, expression: str) -> None:
    assert refused(harness, pull(subscription=expression)) == (23, "parse the consumer's subscription failed", {})


def test_expressions_of_another_kind(harness: Harness) -> None:
    remark = "The broker does not support consumer to filter message by SQL92"
    assert refused(harness, pull(subscription="a > 1", expression_type="SQL92")) == (1, remark, {})
    client = harness.connect()
    heartbeat(client, expression="a > 1", expression_type="SQL92")
    assert said(client.ask(pull(flags=0)))[:2] == (1, remark)


@pytest.mark.parametrize(("ratio", "suggested"), [("40", "3"), ("0", "2")])
def test_where_slaves_may_be_read_the_group_says_whom_to_ask_next(tmp_path: Path, ratio: str, suggested: str) -> None:
    """What is far behind the log's end, which with a ratio of 0 is everything, is the slave's."""
    harness = Harness(tmp_path, slaveReadEnable="true", accessMessageInMemoryMaxRatio=ratio)
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G", broker_id=3, which_broker_when_consume_slowly=2))
    client = harness.connect()
    assert client.ask(send(), b"m").code == 0
    assert client.ask(pull()).ext_map()["suggestWhichBrokerId"] == suggested
    assert client.ask(pull(offset=1)).ext_map()["suggestWhichBrokerId"] == "3"
    assert client.ask(pull(consumer_group="other", offset=1)).ext_map()["suggestWhichBrokerId"] == "0"
    harness.node.config.slave_read_enable = False
    assert client.ask(pull()).ext_map()["suggestWhichBrokerId"] == "0"


def test_without_heartbeat(harness: Harness) -> None:
    bare: dict[str, Any] = {"flags": 0, "subscription": None}
    assert refused(harness, pull(**bare)) == (24, f"the consumer's group info not exist{FAQ}", {})
    heartbeat(harness.connect(), topic="Other")
    assert refused(harness, pull(**bare)) == (24, f"the consumer's subscription not exist{FAQ}", {})
    heartbeat(harness.connect())
    assert refused(harness, pull(**bare, sub_version=2)) == (25, "the consumer's subscription not latest", {})
    harness.node.groups.set_forbidden("G", "T", 2, True)
    assert refused(harness, pull(**bare)) == (16, "the consumer group[G] is forbidden for topic[T]", {"forbiddenType": "5"})


def test_broadcasting_that_is_not_wanted(harness: Harness) -> None:
    heartbeat(harness.connect())
    group = harness.node.clients.consumer_group("G")
    assert group is not None
    group.message_model = "BROADCASTING"
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G", consume_broadcast_enable=False))
    remark = "the consumer group[G] can not consume by broadcast way"
    assert refused(harness, pull(flags=0, subscription=None)) == (16, remark, {"forbiddenType": "4"})
    harness.node.groups.put(SubscriptionGroupConfig(group_name="G"))
    assert harness.connect().ask(pull(flags=0, subscription=None)).code == 0


def test_pull_consumers_can_be_rejected(harness: Harness) -> None:
    harness.node.config.reject_pull_consumer_enable = True
    remark = f"the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}"
    assert refused(harness, pull()) == (24, remark, {})
    assert harness.connect().ask(pull(consumer_group="TOOLS_CONSUMER")).code == 0
    heartbeat(harness.connect())
    assert harness.connect().ask(pull()).code == 0
    member = harness.connect()
    heartbeat(member, group="H")
    group = harness.node.clients.consumer_group("H")
    assert group is not None
    group.consume_type = CONSUME_ACTIVELY
    assert member.ask(pull(consumer_group="H")).code == 0
    assert refused(harness, pull(consumer_group="H")) == (24, remark, {}), "of those who pull only the members may"


def test_what_a_pull_wants_is_noted_again_when_the_clock_has_gone_back(harness: Harness) -> None:
    client = harness.connect()
    for by_ms in (0, 999, -5_000):
        harness.env.wall_ms += by_ms
        assert client.ask(pull(subscription="A")).code == 0
    noted = harness.node.clients.compensated("G", "T")
    assert noted is not None
    assert noted.sub_version == harness.env.wall_ms


@pytest.mark.parametrize(
    ("asked", "tags", "codes"),
    [
        ({"subscription": "TagB || TagA||TagB || "}, ["TagB", "TagA"], [2598919, 2598920]),
        ({"subscription": "*"}, [], []),
        ({"subscription": None}, [], []),
        ({"subscription": " || "}, [], []),
        ({"subscription": "TagA", "expression_type": ""}, [], []),
        ({"subscription": "TagA > 1", "expression_type": "SQL92"}, [], []),
    ],
)
def test_tools_are_shown_the_tags_that_a_pull_wants(
    tmp_path: Path, asked: dict[str, Any], tags: list[str], codes: list[int]
) -> None:
    harness = Harness(tmp_path, enablePropertyFilter="true")
    harness.topic("T")
    client = harness.connect()
    assert client.ask(pull(**asked)).code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
    shown = json.loads(bytes(client.ask(QuerySubscriptionByConsumer(group="G", topic="T")).body))["subscriptionData"]
    assert (shown["tagsSet"], shown["codeSet"]) == (tags, codes)


def test_each_tag_that_is_noted_counts(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_impl.state.clients.COMPENSATED_CHARACTERS_MAX", 10_000)
    client = harness.connect()
    for count in (100, 10):
        client.ask(pull(subscription="||".join(map(str, range(count)))))
        noted = harness.node.clients.compensated("G", "T")
        assert (noted is not None) is (count == 10), "a tag costs memory, however short it is"


@pytest.mark.parametrize(("committed", "stored"), [(3, 3), (5, 5), (0, 0), (6, -1), (-5, -1), (2**63 - 1, -1)])
def test_commit_with_a_pull(harness: Harness, committed: int, stored: int) -> None:
    harness.connect().ask(pull(flags=SUBSCRIPTION | COMMIT, commit_offset=committed))
    assert harness.node.offsets.query("G", "T", 0) == stored
    assert harness.node.offsets.query_pull("G", "T", 0) == 5


def test_no_commit_without_the_flag(harness: Harness) -> None:
    harness.connect().ask(pull(commit_offset=3))
    assert harness.node.offsets.query("G", "T", 0) == -1


def test_a_reset_is_found_once(harness: Harness) -> None:
    harness.node.offsets.assign_reset("G", "T", 0, 2)
    answer = harness.connect().ask(pull(offset=4))
    assert said(answer) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", fields(2))
    assert found(harness, pull(offset=4)) == ["m4"]


def test_statistics(harness: Harness) -> None:
    body = harness.connect().ask(pull()).body
    stats = harness.capability(11)._stats
    assert stats.item("GROUP_GET_NUMS", "T@G").value == 5
    assert stats.item("GROUP_GET_SIZE", "T@G").value == len(body)


def test_cold_bytes_park_the_pull(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    real = harness.node.store.read_queue
    loads: list[str] = []
    cold = Cold(lambda: loads.append("loaded"), "somewhere")

    def read(*arguments: Any, **more: Any) -> Any:
        if not loads:
            raise cold
        return real(*arguments, **more)

    monkeypatch.setattr(harness.node.store, "read_queue", read)
    harness.node.groups.find("G")
    harness.driver.run()
    harness.driver.held = True
    clients = [harness.connect() for _ in range(3)]
    asked = [client.send(pull(flags=SUBSCRIPTION | COMMIT, commit_offset=2)) for client in clients]
    clients[2].close()
    assert len(harness.driver.jobs) == 1  # one read for all
    assert not any(client.answers for client in clients)
    harness.driver.end_job()
    harness.driver.run()
    for client, opaque in zip(clients[:2], asked, strict=False):
        assert len(units(client.answers.pop(opaque).body)) == 5
    assert harness.node.offsets.query("G", "T", 0) == 2


def test_a_cold_read_that_fails_is_an_error_for_its_askers_only(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    real = harness.node.store.read_queue

    def read(topic: str, queue_id: int, *rest: Any, **more: Any) -> Any:
        if queue_id == 0:
            raise Cold(lambda: None, "somewhere")
        return real(topic, queue_id, *rest, **more)

    monkeypatch.setattr(harness.node.store, "read_queue", read)
    harness.driver.held = True
    client = harness.connect()
    opaque = client.send(pull())
    harness.driver.end_job(OSError(5, "Input/output error"))
    harness.driver.run()
    assert client.answers.pop(opaque).code == ResponseCode.SYSTEM_ERROR
    assert client.ask(pull(queue_id=1)).code == ResponseCode.PULL_NOT_FOUND


def test_many_small_pieces_come_as_one_body(harness: Harness) -> None:
    client = harness.connect()
    for number in range(20):
        client.ask(send(queue_id=2 + number % 2), str(number).encode())
    assert found(harness, pull(queue_id=2)) == [str(number) for number in range(0, 20, 2)]
    assert [props(unit)["UNIQ_KEY"] for unit in harness.stored("T", 3)]


def test_a_lite_queue_that_does_not_exist(harness: Harness) -> None:
    assert said(harness.connect().ask(pull(lite_topic="child")))[1] == "NO_MESSAGE_IN_QUEUE"
