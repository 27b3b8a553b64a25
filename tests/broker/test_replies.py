"""Replies of consumers: pushed to the requester, stored, answered; requesters that are silent, gone or slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities import replies
from broker_impl.engine.engine import BUSY
from broker_impl.engine.limits import Limits
from rmq_store.errors import Cold
from rmq_wire import encoding
from rmq_wire.bodies.heartbeat import HeartbeatData, ProducerData
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command, Form, encode_response
from rmq_wire.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo, Heartbeat
from rmq_wire.headers.replies import PushReplyMessageToClient, SendReplyMessage, SendReplyMessageV2
from rmq_wire.properties import decode
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.requests import WALL_MS, beat, heartbeat, pairs, props, said, send

REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def reply_to(client: str = "R", *, kind: type[SendReplyMessageV2] = SendReplyMessageV2, **more: Any) -> SendReplyMessageV2:
    fields = {"topic": REPLY_TOPIC, "properties": pairs(REPLY_TO_CLIENT=client, CORRELATION_ID="c"), **more}
    asked = send(**fields)
    return kind(**{name: getattr(asked, name) for name in kind.__struct_fields__})


def requester(harness: Harness, client_id: str = "R") -> Client:
    client = harness.connect("10.0.0.7")
    data = HeartbeatData(client_id=client_id, producer_data_set=[ProducerData(group_name="P")])
    assert client.ask(Heartbeat(), data.encode()).code == 0
    return client


def answer(client: Client, pushed: Command, code: int = 0) -> None:
    client.raw(encode_response(code, pushed.opaque, form=Form.JSON))


def test_it_is_pushed_then_stored_then_answered(harness: Harness) -> None:
    asker, replier = requester(harness), harness.connect("10.0.0.8")
    number = replier.send(reply_to(flag=3, sys_flag=1, reconsume_times=2), b"the answer")
    assert not replier.answers, "not before the requester has taken it"
    assert not harness.stored(REPLY_TOPIC)
    [pushed] = asker.asked
    header = pushed.header(PushReplyMessageToClient)
    assert (bytes(pushed.body), header.topic, header.flag, header.sys_flag, header.reconsume_times) == (
        b"the answer",
        REPLY_TOPIC,
        3,
        1,
        2,
    )
    assert (header.born_host, header.store_host) == (f"10.0.0.8:{replier.peer.remote[1]}", "127.0.0.1:10911")
    assert header.store_timestamp == WALL_MS
    sent = {"REPLY_TO_CLIENT": "R", "CORRELATION_ID": "c", **REGION}
    assert decode(header.properties or "") == {**sent, "PUSH_REPLY_TIME": str(WALL_MS)}
    answer(asker, pushed)
    [unit] = harness.stored(REPLY_TOPIC)
    assert (unit.body, unit.flag, unit.sys_flag, unit.reconsume_times) == (b"the answer", 3, 0, 2)
    assert props(unit) == sent
    code, remark, ext = said(replier.answers[number])
    assert (code, remark, {"queueId": "0", "queueOffset": "0", **REGION}.items() <= ext.items()) == (0, None, True)
    assert int(ext["msgId"][-16:], 16) == unit.physical_offset


@pytest.mark.parametrize("kind", [SendReplyMessageV2, SendReplyMessage])
def test_both_headers(harness: Harness, kind: Any) -> None:
    asker, replier = requester(harness), harness.connect()
    number = replier.send(reply_to(kind=kind), b"a")
    answer(asker, asker.asked[0])
    assert replier.answers[number].code == 0


def test_not_stored_when_the_broker_is_told_not_to(tmp_path: Path) -> None:
    harness = Harness(tmp_path, storeReplyMessageEnable=False)
    asker, replier = requester(harness), harness.connect()
    number = replier.send(reply_to(), b"a")
    answer(asker, asker.asked[0])
    assert said(replier.answers[number]) == (0, None, {"msgId": "0", "queueId": "0", "queueOffset": "0", **REGION})
    assert not harness.stored(REPLY_TOPIC)


def test_a_requester_that_says_no_or_nothing(harness: Harness) -> None:
    asker, replier = requester(harness), harness.connect()
    refused = replier.send(reply_to(), b"refused")
    answer(asker, asker.asked[0], code=1)
    silent = replier.send(reply_to(), b"in vain")
    harness.driver.advance(replies.PUSH_MS - 1)
    assert silent not in replier.answers
    harness.driver.advance(1)
    for number in (refused, silent):
        code, remark, ext = said(replier.answers[number])
        assert (code, remark, "msgId" in ext) == (1, "push reply message to Rfail.", True)
    assert [unit.body for unit in harness.stored(REPLY_TOPIC)] == [b"refused", b"in vain"]
    answer(asker, asker.asked[1])
    assert len(harness.stored(REPLY_TOPIC)) == 2, "what comes late counts for nothing"


def test_a_requester_that_goes_while_it_is_asked(harness: Harness) -> None:
    asker, replier = requester(harness), harness.connect()
    number = replier.send(reply_to(), b"a")
    asker.close()
    assert said(replier.answers[number])[:2] == (1, "push reply message to Rfail.")
    later = replier.ask(reply_to(), b"b")
    assert said(later)[:2] == (1, "push reply message fail, channel of <R> not found.")
    assert [unit.body for unit in harness.stored(REPLY_TOPIC)] == [b"a", b"b"]


def test_a_replier_that_goes_first(harness: Harness) -> None:
    """Its reply is delivered and stored all the same."""
    asker, replier = requester(harness), harness.connect()
    replier.send(reply_to(), b"a")
    replier.close()
    answer(asker, asker.asked[0])
    assert [unit.body for unit in harness.stored(REPLY_TOPIC)] == [b"a"]


def test_one_way(harness: Harness) -> None:
    asker, replier = requester(harness), harness.connect()
    replier.send_oneway(reply_to(), b"a")
    answer(asker, asker.asked[0])
    assert [unit.body for unit in harness.stored(REPLY_TOPIC)] == [b"a"]
    assert not replier.answers


def test_what_a_send_is_refused_for_a_reply_is_refused_for(harness: Harness) -> None:
    replier = harness.connect()
    assert replier.ask(reply_to(topic="No", default_topic="No"), b"a").code == 17
    assert replier.ask(reply_to(queue_id=1), b"a").code == 29
    assert said(replier.ask(reply_to(), b""))[0] == 1
    assert said(replier.ask(reply_to(properties=None), b"a"))[:2] == (1, "reply message properties[REPLY_TO_CLIENT] is null")


def test_a_delayed_reply_is_pushed_now_and_stored_later(harness: Harness) -> None:
    asker, replier = requester(harness), harness.connect()
    replier.send(reply_to(properties=pairs(REPLY_TO_CLIENT="R", DELAY="1")), b"a")
    answer(asker, asker.asked[0])
    assert not harness.stored(REPLY_TOPIC)
    harness.driver.advance(2_000)
    assert [unit.body for unit in harness.stored(REPLY_TOPIC)] == [b"a"]


def test_a_requester_that_takes_nothing_holds_only_so_much(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does it fill the memory nor keep others from being answered."""
    monkeypatch.setattr(replies, "REQUESTER_BYTES_MAX", 2_500)
    asker, other, replier = requester(harness), requester(harness, "S"), harness.connect()
    asker.reads = False
    waiting = [replier.send(reply_to(), b"x" * 1_000) for _ in range(2)]
    refused = replier.ask(reply_to(), b"x" * 1_000)
    assert said(refused)[:2] == (1, "push reply message to Rfail.")
    number = replier.send(reply_to("S"), b"for the other")
    answer(other, other.asked[0])
    assert replier.answers[number].code == 0
    assert not any(number in replier.answers for number in waiting)
    harness.driver.advance(replies.PUSH_MS)
    assert all(replier.answers[number].code == 1 for number in waiting)
    asker.read()
    taken = replier.send(reply_to(), b"x" * 2_000)
    answer(asker, asker.asked[-1])
    assert replier.answers[taken].code == 0, "there is room again"


def test_one_larger_than_all_room_is_still_taken(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "REQUESTER_BYTES_MAX", 10)
    asker, replier = requester(harness), harness.connect()
    number = replier.send(reply_to(), b"x" * 1_000)
    answer(asker, asker.asked[0])
    assert replier.answers[number].code == 0


def test_all_that_wait_have_a_limit(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "WAITING_BYTES_MAX", 1_500)
    asker, replier = requester(harness), harness.connect()
    replier.send(reply_to(), b"x" * 1_000)
    assert said(replier.ask(reply_to(), b"x" * 1_000)) == (2, BUSY, REGION)
    answer(asker, asker.asked[0])
    assert len(harness.stored(REPLY_TOPIC)) == 1
    number = replier.send(reply_to(), b"x" * 1_000)
    answer(asker, asker.asked[1])
    assert replier.answers[number].code == 0, "there is room again"


def test_a_reply_whose_push_fits_into_no_frame_is_stored_and_leaves_nothing_behind(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header of a push is longer.  Eight such, of 16 MiB, ended request and reply for everybody."""
    monkeypatch.setattr(replies, "WAITING_BYTES_MAX", 1_500)
    asker, replier = requester(harness), harness.connect()
    with monkeypatch.context() as patch:
        patch.setattr(encoding, "FRAME_BYTES_MAX", len(replier.frame(reply_to(), b"x" * 1_000)))
        for _ in range(2):
            code, remark, ext = said(replier.ask(reply_to(), b"x" * 1_000))
            assert (code, remark, "msgId" in ext) == (1, "push reply message to Rfail.", True)
    assert ([len(unit.body) for unit in harness.stored(REPLY_TOPIC)], asker.asked) == ([1_000] * 2, [])
    number = replier.send(reply_to(), b"x" * 1_000)
    answer(asker, asker.asked[0])
    assert replier.answers[number].code == 0, "there is room"


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_message_that_fits_into_no_frame_with_the_question_about_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, is_cold: bool
) -> None:
    """309 of a tool: it is told so, and not left to wait."""
    tool, consumer = harness.connect(), harness.connect()
    sent = tool.ask(send("T"), b"x" * 1_000).ext_map()["msgId"]
    consumer.ask(*beat(client_id="one"))
    store, colds = harness.node.store, [Cold(lambda: None, "the message")] * is_cold
    lookup = store.lookup

    def cold_lookup(offset: int, **more: bool) -> memoryview | None:
        if colds:
            raise colds.pop()
        return lookup(offset, **more)

    monkeypatch.setattr(store, "lookup", cold_lookup)
    asked = ConsumeMessageDirectly(consumer_group="G", client_id="one", msg_id=sent, topic="T")
    with monkeypatch.context() as patch:
        patch.setattr(encoding, "FRAME_BYTES_MAX", 1_000)
        answered = tool.ask(asked)
    assert (answered.code, colds) == (1, [])
    assert (answered.remark or "").startswith("invoke consumer <G> <one> Exception: ")
    assert ConsumeMessageDirectly.code not in [command.code for command in consumer.asked]


def test_a_requester_that_pauses_gets_every_small_reply(harness: Harness) -> None:
    """Java's threads wait for it up to 10 s each."""
    asker, replier = requester(harness), harness.connect()
    count = Limits().client_requests_max + 100
    numbers = [replier.send(reply_to(), b"a") for _ in range(count)]
    harness.driver.advance(500)
    assert (len(asker.asked), replier.answers) == (count, {})
    for pushed in asker.asked:
        answer(asker, pushed)
    assert {replier.answers[number].code for number in numbers} == {0}
    assert len(harness.stored(REPLY_TOPIC)) == count


def test_other_questions_to_a_requester_have_places_of_their_own(tmp_path: Path) -> None:
    harness = Harness(tmp_path, Limits(client_requests_max=1))
    asker, replier = requester(harness), harness.connect()
    heartbeat(asker)
    running_info = GetConsumerRunningInfo(consumer_group="G", client_id=f"c{asker.peer.id}")
    for _ in range(2):
        for _ in range(2):
            replier.send(reply_to(), b"a")
        replier.send(running_info)
        pushed = [question for question in asker.asked if question.code == PushReplyMessageToClient.code]
        assert (len(pushed), asker.asked[-1].code) == (2, GetConsumerRunningInfo.code)
        for question in asker.asked:
            answer(asker, question)
        asker.asked.clear()
    assert all(found.code == 0 for found in replier.answers.values())
    replier.send(running_info)
    assert replier.ask(running_info).code == ResponseCode.CONSUME_MSG_TIMEOUT, "one place, as before"


def test_only_so_many_wait_for_a_requester(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "REQUESTER_MAX", 2)
    asker, replier = requester(harness), harness.connect()
    for _ in range(2):
        replier.send(reply_to(), b"a")
    assert said(replier.ask(reply_to(), b"a"))[:2] == (1, "push reply message to Rfail.")
    answer(asker, asker.asked[0])
    replier.send(reply_to(), b"a")
    assert len(asker.asked) == 3, "there is room again"


def test_only_so_many_wait_for_all_requesters(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "WAITING_MAX", 1)
    asker, other, replier = requester(harness), requester(harness, "S"), harness.connect()
    replier.send(reply_to(), b"a")
    assert said(replier.ask(reply_to("S"), b"a")) == (2, BUSY, REGION)
    asker.close()
    replier.send(reply_to("S"), b"a")
    assert len(other.asked) == 1, "there is room again"


def test_properties_count_as_bodies_do(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "REQUESTER_BYTES_MAX", 1_500)
    requester(harness)
    replier = harness.connect()
    long = reply_to(properties=pairs(REPLY_TO_CLIENT="R", a="x" * 1_000))
    replier.send(long, b"a")
    assert said(replier.ask(long, b"a"))[:2] == (1, "push reply message to Rfail.")


def test_the_queue_that_is_asked_for(harness: Harness) -> None:
    harness.topic("T", 8)
    for queue_id in (0, 0, 0, 7):
        harness.connect().ask(reply_to("nobody", topic="T", queue_id=queue_id), b"a")
    assert (len(harness.stored("T", 0)), len(harness.stored("T", 7))) == (3, 1)


def test_a_store_that_takes_nothing_changes_nothing_for_the_requester(harness: Harness) -> None:
    asker, replier = requester(harness), harness.connect()
    number = replier.send(reply_to(properties=pairs(REPLY_TO_CLIENT="R", INNER_NUM="2")), b"a")
    answer(asker, asker.asked[0])
    assert said(replier.answers[number]) == (0, None, {"msgId": "0", "queueId": "0", "queueOffset": "0", **REGION})


def test_under_sync_flush_the_answer_waits_for_the_disk(tmp_path: Path) -> None:
    harness = Harness(tmp_path, flushDiskType="SYNC_FLUSH")
    asker, replier = requester(harness), harness.connect()
    number = replier.send(reply_to(), b"a")
    harness.driver.held = True
    answer(asker, asker.asked[0])
    assert number not in replier.answers
    harness.driver.held = False
    harness.driver.run()
    assert replier.answers[number].code == 0
