"""Moving a group's progress in its place (222, 314, 308), and asking its members where they are (223), through the engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_impl.state import consumer_offsets
from rmq_wire import fastjson
from rmq_wire.codes import VERSION_RESETS_OFFSET, RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.clients import GetConsumerStatus
from rmq_wire.headers.offsets import (
    CloneGroupOffset,
    QueryConsumerOffset,
    QueryCorrectionOffset,
    ResetOffset,
    UpdateConsumerOffset,
)
from rmq_wire.headers.query import QueryConsumeQueue
from rmq_wire.headers.stats import QueryConsumeTimeSpan
from tests.support import remoting
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import COMMIT, SUBSCRIPTION, SUSPEND, beat, heartbeat, pull, send, units

STATUS = b'{"messageQueueTable":{{"brokerName":"b","queueId":%d,"topic":"T"}:%d}}'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Harness]:
    """Topic T with four messages in each of two queues; group G has read them all."""
    made = Harness(tmp_path / "store")
    fill(made)
    yield made
    made.stop()


def fill(broker: Harness) -> None:
    broker.topic("T", 2)
    client = broker.connect()
    heartbeat(client)
    for number in range(8):
        broker.env.advance(1_000)
        assert client.ask(send("T", number % 2), b"m%d" % number).code == 0
    for queue_id in range(2):
        commit(client, 4, queue_id)
    client.close()


def commit(client: Client, offset: int, queue_id: int = 0, group: str = "G") -> Command:
    asked = UpdateConsumerOffset(consumer_group=group, topic="T", queue_id=queue_id, commit_offset=offset)
    answer = client.ask(asked)
    assert answer.code == 0, answer.remark
    return answer


def progress(client: Client, queue_id: int = 0, group: str = "G") -> int | None:
    asked = QueryConsumerOffset(consumer_group=group, topic="T", queue_id=queue_id, set_zero_if_not_found=False)
    answer = client.ask(asked)
    return int(answer.ext_map()["offset"]) if answer.code == 0 else None


def reset(timestamp: int = 0, *, force: bool = True, **more: int) -> ResetOffset:
    return ResetOffset(group="G", topic="T", timestamp=timestamp, is_force=force, **more)


def table(answer: Command) -> dict[int, int]:
    """Offsets by queue of answers 222 and requests 220."""
    assert answer.code in (0, RequestCode.RESET_CONSUMER_CLIENT_OFFSET), answer.remark
    found = fastjson.loads(bytes(answer.body))["offsetTable"]
    return {json.loads(key)["queueId"] if isinstance(key, str) else key.queue_id: offset for key, offset in found.items()}


def asked_for(client: Client, code: int) -> list[Command]:
    return [command for command in client.asked if command.code == code]


# -- resets by the server


def test_a_reset_moves_every_queue_and_the_next_pull_is_told(broker: Harness) -> None:
    client = broker.connect()
    third_ms = broker.env.wall_ms - 3_000
    assert table(client.ask(reset(third_ms))) == {0: 2, 1: 2}
    assert (progress(client, 0), progress(client, 1)) == (2, 2)
    late = commit(client, 4)
    assert late.remark == "Offset has been previously reset", "the members have not heard of it"
    assert progress(client) == 2
    told = client.ask(pull("T", 0, 4))
    assert (told.code, told.ext_map()["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "2")
    assert [bytes(unit.body) for unit in units(client.ask(pull("T", 0, 2)).body)] == [b"m4", b"m6"]
    commit(client, 3)
    assert progress(client) == 3, "once the pull has found it commits count again"


def test_the_pull_that_is_told_of_a_reset_does_not_take_it_back(broker: Harness) -> None:
    """Stock clients say in each pull how far they are; one may die before it says where it goes on.  (Java takes it back.)"""
    client = broker.connect()
    assert table(client.ask(reset(queue_id=0, offset=1))) == {0: 1}
    told = client.ask(pull("T", 0, 4, COMMIT | SUSPEND | SUBSCRIPTION, commit_offset=4))
    assert (told.code, told.ext_map()["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "1")
    assert progress(broker.connect()) == 1
    client.ask(pull("T", 0, 1, COMMIT | SUBSCRIPTION, commit_offset=2))
    assert progress(client) == 2


def test_a_reset_to_an_offset_of_one_queue(broker: Harness) -> None:
    client = broker.connect()
    assert table(client.ask(reset(queue_id=1, offset=3))) == {1: 3}
    assert (progress(client, 0), progress(client, 1)) == (4, 3)
    for queue_id, offset, code in ((0, 6, 1), (0, -2, 1), (9, 0, ResponseCode.INVALID_PARAMETER)):
        assert client.ask(reset(queue_id=queue_id, offset=offset)).code == code, (queue_id, offset)
    assert (progress(client, 0), progress(client, 1)) == (4, 3)


def test_a_reset_gives_no_new_progress_where_there_is_too_much(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = broker.connect()
    heartbeat(client, group="New")
    monkeypatch.setattr(consumer_offsets, "PROGRESS_MAX", 2)
    assert client.ask(ResetOffset(group="New", topic="T", timestamp=0, is_force=True)).remark == consumer_offsets.FULL
    assert progress(client, group="New") is None
    assert table(client.ask(reset(0))) == {0: 0, 1: 0}, "where there is some, it moves"


def test_a_reset_survives_a_stop(broker: Harness) -> None:
    broker.connect().ask(reset(queue_id=0, offset=1))
    broker.restart()
    assert progress(broker.connect()) == 1


def test_a_reset_one_beyond_the_end_heals_with_the_next_pulls(broker: Harness) -> None:
    client = broker.connect()
    assert table(client.ask(reset(queue_id=0, offset=5))) == {0: 5}
    assert client.ask(pull("T", 0, 4)).ext_map()["nextBeginOffset"] == "5"
    healed = client.ask(pull("T", 0, 5))
    assert (healed.code, healed.ext_map()["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "4")


def test_a_reset_of_a_topic_with_many_queues_leaves_others_time(tmp_path: Path) -> None:
    broker = Harness(tmp_path / "many")
    broker.topic("T", 1_000)
    client, other = broker.connect(), broker.connect()
    heartbeat(client)
    frame = client.frame(reset(-1))
    broker.driver.turn((client, frame))
    turns = 0
    while not client.answers:
        assert other.peer is not None
        broker.driver.turn()
        turns += 1
        assert turns < 1_000
    assert turns > 5, "in one piece"
    [answer] = client.answers.values()
    assert len(table(answer)) == 1_000
    broker.stop()


# -- resets by the members


def by_members(tmp_path: Path) -> Harness:
    broker = Harness(tmp_path / "members", useServerSideResetOffset="false")
    fill(broker)
    return broker


def test_members_are_told_and_nothing_is_changed_here(tmp_path: Path) -> None:
    broker = by_members(tmp_path)
    one, two, tool = broker.connect(), broker.connect(), broker.connect()
    heartbeat(one)
    heartbeat(two)
    commit(tool, 1, 1)
    first_ms = broker.env.wall_ms - 5_000
    assert table(tool.ask(reset(first_ms, force=False))) == {0: 1, 1: 1}
    for member in (one, two):
        [notice] = asked_for(member, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
        assert table(notice) == {0: 1, 1: 1}
        assert (notice.ext_map()["group"], notice.ext_map()["topic"]) == ("G", "T")
    assert (progress(tool, 0), progress(tool, 1)) == (4, 1), "the members commit, not the broker"
    assert table(tool.ask(reset(-1))) == {0: 4, 1: 4}
    assert table(tool.ask(reset(-1, force=False))) == {0: 4, 1: 1}, "not forward, unless forced"
    broker.stop()


def test_a_reset_by_members_is_refused_where_nobody_can_hear_it(tmp_path: Path) -> None:
    broker = by_members(tmp_path)
    tool = broker.connect()
    answer = tool.ask(reset(0))
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    assert answer.remark == "Consumer not online, so can not reset offset, Group: G Topic: T Timestamp: 0"
    new = ResetOffset(group="New", topic="T", timestamp=0, is_force=True)
    assert tool.ask(new).remark == "THe consumer group <New> not exist"
    broker.stop()


@pytest.mark.parametrize(("version", "code"), [(VERSION_RESETS_OFFSET - 1, 1), (VERSION_RESETS_OFFSET, 0)])
def test_a_reset_by_members_needs_clients_that_know_of_it(tmp_path: Path, version: int, code: int) -> None:
    broker = by_members(tmp_path)
    member, tool = broker.connect(), broker.connect()
    frame = member.frame(*beat())
    member.raw(re.sub(rb'("version":)(\d+)', lambda said: said[1] + b"%-*d" % (len(said[2]), version), frame))
    answer = tool.ask(reset(0))
    assert (answer.code, answer.remark) == (
        (code, f"the client does not support this feature. version={version}") if code else (code, None)
    )
    assert len(asked_for(member, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)) == int(not code)
    broker.stop()


def test_a_tool_in_c_has_members_told_in_its_own_spelling(tmp_path: Path) -> None:
    broker = by_members(tmp_path)
    member, tool = broker.connect(), broker.connect()
    heartbeat(member)
    fields = {"group": "G", "topic": "T", "timestamp": "0", "isForce": "true"}
    frame = remoting.frame(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, b"", opaque=7)
    tool.raw(frame.replace(b'"JAVA"', b'"CPP" '))
    assert tool.answers.pop(7).code == 0
    [notice] = asked_for(member, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    rows = json.loads(bytes(notice.body))["offsetTable"]
    assert rows[0] == {"brokerName": "broker-a", "offset": 0, "queueId": 0, "topic": "T"}
    broker.stop()


# -- cloning and comparing


def test_a_clone_without_a_topic_copies_all_of_them(broker: Harness) -> None:
    client = broker.connect()
    broker.topic("U", 1)
    client.ask(send("U", 0), b"x")
    client.ask(UpdateConsumerOffset(consumer_group="G", topic="U", queue_id=0, commit_offset=1))
    assert client.ask(CloneGroupOffset(src_group="G", dest_group="H")).code == 0
    assert broker.node.offsets.queues("H", "T") == {0: 4, 1: 4}
    assert broker.node.offsets.queues("H", "U") == {0: 1}
    commit(client, 1, 0)
    assert progress(client, 0, "H") == 4, "a copy, not a second name"
    broker.node.offsets.commit("G", "Gone", 0, 3)
    assert client.ask(CloneGroupOffset(src_group="G", dest_group="I", offline=True)).code == 0
    assert broker.node.offsets.topics_of("I") == ["T", "U"], "of topics that there are"


def test_a_clone_leaves_out_what_the_online_members_do_not_subscribe_to(broker: Harness) -> None:
    member, tool = broker.connect(), broker.connect()
    heartbeat(member, topic="Other")
    clone = CloneGroupOffset(src_group="G", dest_group="H", topic="T")
    assert tool.ask(clone).code == 0
    assert progress(tool, 0, "H") is None
    assert tool.ask(CloneGroupOffset(src_group="G", dest_group="H", topic="T", offline=True)).code == 0
    assert progress(tool, 0, "H") == 4


@pytest.mark.parametrize("name", ["a@b", "", "a/../b", "g" * 121])
def test_a_clone_to_an_illegal_name_is_refused(broker: Harness, name: str) -> None:
    asked = CloneGroupOffset(src_group="G", dest_group=name, topic="T")
    assert broker.connect().ask(asked).code == ResponseCode.INVALID_PARAMETER


def corrected(client: Client, group: str, without: str | None = None) -> dict[str, int]:
    answer = client.ask(QueryCorrectionOffset(compare_group=group, topic="T", filter_groups=without))
    return {str(key): value for key, value in fastjson.loads(bytes(answer.body))["correctionOffsets"].items()}


def test_the_smallest_progress_and_who_is_beyond_it(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = broker.connect()
    commit(client, 2, 0, "G")
    client.ask(CloneGroupOffset(src_group="G", dest_group="H", topic="T"))
    broker.node.offsets.commit("H", "T", 0, 1)
    broker.node.offsets.commit("H", "T", 1, 3)
    assert corrected(client, "G") == {"0": 1, "1": 3}
    assert corrected(client, "G", "H") == {"0": 2, "1": 4}
    assert progress(client, 0, "H") == 1, "asking changes nothing"
    bounds = broker.node.store.queue_bounds
    monkeypatch.setattr(broker.node.store, "queue_bounds", lambda topic, queue_id: (2, bounds(topic, queue_id)[1]))
    assert corrected(client, "G") == {"0": 2, "1": 3}, "what leads to nothing any more does not count"


# -- asking members


def answered(member: Client, body: bytes) -> None:
    for question in asked_for(member, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT):
        member.raw(remoting.frame(0, {}, body, opaque=question.opaque, flag=1))


def test_all_members_are_asked_at_once_and_the_silent_are_left_out(broker: Harness) -> None:
    members = [broker.connect() for _ in range(4)]
    for member in members:
        heartbeat(member)
    tool = broker.connect()
    number = tool.send(GetConsumerStatus(group="G", topic="T"))
    answered(members[0], STATUS % (0, 7))
    answered(members[1], b"[no such thing")
    answered(members[2], b" " * (1 << 20))
    broker.driver.advance(4_900)
    assert number not in tool.answers
    broker.driver.advance(200)
    found = fastjson.loads(bytes(tool.answers[number].body))["consumerTable"]
    assert list(found) == [f"c{members[0].peer.id}"]
    assert tool.ask(GetConsumerStatus(group="Nobody", topic="T")).code == 1


def test_one_member_alone(broker: Harness) -> None:
    one, two, tool = broker.connect(), broker.connect(), broker.connect()
    heartbeat(one)
    heartbeat(two)
    number = tool.send(GetConsumerStatus(group="G", topic="T", client_addr=f"c{two.peer.id}"))
    assert not asked_for(one, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
    answered(two, STATUS % (1, 3))
    assert b'"queueId":1' in bytes(tool.answers[number].body)
    assert tool.ask(GetConsumerStatus(group="G", topic="T", client_addr="c-nobody")).code == 0


# -- looking


def test_more_entries_than_an_answer_holds_are_refused(broker: Harness) -> None:
    client = broker.connect()
    assert client.ask(QueryConsumeQueue(topic="T", queue_id=0, index=0, count=1 << 30)).code == 0
    entries = json.loads(bytes(client.ask(QueryConsumeQueue(topic="T", queue_id=0, index=3, count=9)).body))
    assert len(entries["queueData"]) == 1


def test_how_old_is_what_a_group_reads_next(broker: Harness) -> None:
    client = broker.connect()
    commit(client, 1)
    spans = json.loads(bytes(client.ask(QueryConsumeTimeSpan(topic="T", group="G")).body))["consumeTimeSpanSet"]
    now = broker.env.wall_ms
    assert [span["delayTime"] for span in spans] == [5_000, 0]
    times = [spans[0][name] - now for name in ("minTimeStamp", "consumeTimeStamp", "maxTimeStamp")]
    assert times == [-7_000, -7_000, -1_000]


# -- members who differ


def test_members_who_subscribe_differently_are_named_once_a_minute(broker: Harness, caplog: pytest.LogCaptureFixture) -> None:
    one, two = broker.connect(), broker.connect()
    for _ in range(1_000):
        one.ask(*beat("G", "T", "a", "one"))
        two.ask(*beat("G", "T", "b", "two"))
    [line] = [record.getMessage() for record in caplog.records if "subscribes otherwise" in record.getMessage()]
    assert "group G: member two subscribes otherwise than member one: T: 'b' against 'a'" in line
    broker.env.advance(60_000)
    one.ask(*beat("G", "U", "a", "one"))
    lines = [record.getMessage() for record in caplog.records if "subscribes otherwise" in record.getMessage()]
    assert len(lines) == 2
    assert "U: 'a' against nothing; T: nothing against" in lines[1]


def test_of_members_who_differ_the_newest_subscription_counts_of_the_last_heartbeat_s_topics(
    broker: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Java (`ConsumerGroupInfo.updateSubscription`), and the line says so."""
    one, two = broker.connect(), broker.connect()
    one.ask(*beat("G", "T", "a", "one", sub_version=10))
    two.ask(*beat("G", "T", "b", "two", sub_version=5))
    group = broker.node.clients.consumer_group("G")
    assert group is not None
    assert group.subscriptions["T"].sub_string == "a"
    [line] = [record.getMessage() for record in caplog.records if "subscribes otherwise" in record.getMessage()]
    assert "For all of them counts whoever subscribed last, and the last heartbeat decides which topics" in line
    two.ask(*beat("G", "U", "b", "two", sub_version=5))
    assert list(group.subscriptions) == ["U"]


def test_members_who_agree_are_not_named(broker: Harness, caplog: pytest.LogCaptureFixture) -> None:
    one, two = broker.connect(), broker.connect()
    for client, name in ((one, "one"), (two, "two"), (one, "one")):
        client.ask(*beat("G", "T", "a", name))
    one.ask(*beat("G", "T", "b", "one"))
    one.ask(*beat("G", "T", "c", "one"))
    assert not [record for record in caplog.records if "subscribes otherwise" in record.getMessage()], "one may change its mind"


def test_a_thousand_changes_in_a_turn_notify_members_once(broker: Harness) -> None:
    one, two = broker.connect(), broker.connect()
    heartbeat(one)
    heartbeat(two)
    before = len(asked_for(two, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))
    frames = [one.frame(*beat("G", f"T{number % 2}", "*", f"c{one.peer.id}")) for number in range(1_000)]
    one.raw(b"".join(frames))
    heard = len(asked_for(two, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)) - before
    assert 0 < heard <= 100, heard
    assert len(one.answers) == 1_000


def test_one_client_in_two_groups_reads_for_each(broker: Harness) -> None:
    client = broker.connect()
    heartbeat(client, "G")
    heartbeat(client, "H")
    assert client.ask(pull("T", 0, 0, consumer_group="H")).code == 0
    commit(client, 1, 0, "H")
    assert (progress(client, 0, "G"), progress(client, 0, "H")) == (4, 1)
    tool = broker.connect()
    number = tool.send(GetConsumerStatus(group="H", topic="T"))
    [question] = asked_for(client, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
    assert question.ext_map()["group"] == "H"
    client.close()
    broker.driver.run()
    assert tool.answers[number].code == 0, "who goes has not answered"
