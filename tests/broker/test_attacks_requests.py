"""Attacks by sound requests that ask for too much, or for what is not theirs.  Numbered as in docs/attacks.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities import pull as pulling
from rmq_wire.codes import RequestCode
from rmq_wire.command import Form, encode_request, encode_response
from rmq_wire.headers.clients import ConsumeMessageDirectly, GetConsumerRunningInfo, Heartbeat
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rmq_wire.headers.positions import GetEarliestMsgStoretime, GetMaxOffset, GetMinOffset, SearchOffset
from rmq_wire.headers.query import QueryMessage
from rmq_wire.headers.stats import GetTopicStatsInfo
from rmq_wire.message_id import offset_message_id
from tests.broker.siege import Siege, is_safe_echo, siege, two_topics
from tests.support.bad_frames import WITNESS
from tests.support.driver import Client
from tests.support.requests import SUBSCRIPTION, SUSPEND, WALL_MS, pairs, pull, send, units

I32_MAX, I64_MAX = 2**31 - 1, 2**63 - 1


# 11: questions that are relayed to a client


RELAYED = [
    GetConsumerRunningInfo(consumer_group="G", client_id="c", jstack_enable=True),
    ConsumeMessageDirectly(consumer_group="G", client_id="c", msg_id="", broker_name="broker-a", topic="Secret"),
]


def consumer(broker: Siege) -> Client:
    """A push consumer of Secret with client id `c`."""
    client = broker.connect()
    group = {
        "groupName": "G",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [{"topic": "Secret", "subString": "*", "subVersion": 1}],
    }
    body = json.dumps({"clientID": "c", "consumerDataSet": [group]}).encode()
    assert client.ask(Heartbeat(), body, ext=None).code == 0
    return client


def whole_response(opaque: int, body: bytes) -> bytes:
    """Success with this body."""
    head, *pieces = encode_response(0, opaque, form=Form.JSON, body=body)
    assert isinstance(head, bytes)
    return b"".join((head, *pieces))


def to_relay(broker: Siege, asked: Any) -> Any:
    if isinstance(asked, ConsumeMessageDirectly):
        [unit] = broker.stored("Secret", 0)
        asked.msg_id = offset_message_id(unit.store_host, unit.physical_offset)
    return asked


@pytest.mark.parametrize("asked", RELAYED, ids=lambda asked: str(int(asked.code)))
def test_attack_11_a_client_that_is_silent(tmp_path: Path, asked: Any) -> None:
    with two_topics(tmp_path) as broker:
        silent = consumer(broker)
        with broker.unharmed():
            asker = broker.connect()
            opaques = [asker.send(to_relay(broker, asked)) for _ in range(3)]
            assert not asker.answers
            broker.driver.advance(10_000)
            assert [asker.answers.pop(opaque).code for opaque in opaques] == [207] * 3
            silent.raw(whole_response(silent.asked[-1].opaque, b"too late"))
            assert not asker.answers


@pytest.mark.parametrize("asked", RELAYED, ids=lambda asked: str(int(asked.code)))
def test_attack_11_a_client_that_answers_16_mib(tmp_path: Path, asked: Any) -> None:
    with two_topics(tmp_path) as broker:
        heavy = consumer(broker)
        with broker.unharmed():
            asker = broker.connect()
            opaque = asker.send(to_relay(broker, asked))
            heavy.raw(whole_response(heavy.asked[-1].opaque, bytes(16_000_000)))
            answer = asker.answers.pop(opaque)
            assert answer.code == 1
            assert is_safe_echo(answer.remark)
            assert not answer.body


@pytest.mark.parametrize("asked", RELAYED, ids=lambda asked: str(int(asked.code)))
def test_attack_11_who_was_not_asked_cannot_answer(tmp_path: Path, asked: Any) -> None:
    """Also attack 9: a pending question belongs to one connection."""
    with two_topics(tmp_path) as broker:
        asked_one = consumer(broker)
        with broker.unharmed("progress"):
            asker, forger = broker.connect(), broker.connect()
            opaque = asker.send(to_relay(broker, asked))
            number = asked_one.asked[-1].opaque
            for client in (forger, asker):
                for guess in range(number - 2, number + 3):
                    client.raw(whole_response(guess, b"forged"))
            assert opaque not in asker.answers
            asked_one.raw(whole_response(number, b"mine"))
            assert asker.answers.pop(opaque).body == b"mine"
            asker.send(to_relay(broker, asked))
            asked_one.close()
            assert [answer.code for answer in asker.answers.values()] == [207]


# 12: a heartbeat of everything


def heartbeat_of(**members: Any) -> bytes:
    return json.dumps({"clientID": "c", **members}).encode()


def groups_of(count: int) -> bytes:
    return heartbeat_of(consumerDataSet=[{"groupName": f"g{n}"} for n in range(count)])


def producers_of(count: int) -> bytes:
    return heartbeat_of(producerDataSet=[{"groupName": f"g{n}"} for n in range(count)])


def subscriptions_of(count: int) -> bytes:
    return heartbeat_of(consumerDataSet=[{"groupName": "g", "subscriptionDataSet": [{"topic": f"t{n}"} for n in range(count)]}])


@pytest.mark.parametrize("body_of", [groups_of, producers_of, subscriptions_of])
def test_attack_12_a_heartbeat_with_a_hundred_thousand_members(tmp_path: Path, body_of: Callable[[int], bytes]) -> None:
    with siege(tmp_path) as broker, broker.unharmed():
        for count, why in ((10_000, "more than "), (100_000, "a body of 2")):
            answer = broker.connect().ask(Heartbeat(), body_of(count))
            assert answer.code == 1
            assert why in (answer.remark or "")
        assert not broker.node.clients.consumer_groups
        assert not broker.node.clients.producer_groups


def test_attack_12_many_heartbeats_leave_with_their_connection(tmp_path: Path) -> None:
    with siege(tmp_path) as broker, broker.unharmed("groups", "topics"):
        unknown = broker.connect()
        for n in range(10):
            body = heartbeat_of(
                consumerDataSet=[{"groupName": f"g{n}-{k}", "subscriptionDataSet": [{"topic": f"t{n}.{k}"}]} for k in range(50)],
                producerDataSet=[{"groupName": f"p{n}.{k}"} for k in range(50)],
            )
            unknown.ask(Heartbeat(), body)
        assert len(broker.node.clients.consumer_groups) == 500
        unknown.close()
        clients = broker.node.clients
        assert not clients.consumer_groups
        assert not clients.producer_groups
        assert not clients._consumes
        assert not clients._produces
        assert not clients._groups_of_topic


# 27: numbers at their ends


@pytest.mark.parametrize("n", [0, -1, -(2**31), I32_MAX])
def test_attack_27_how_many_messages(tmp_path: Path, n: int) -> None:
    with two_topics(tmp_path) as broker:
        for _ in range(64):
            broker.witness.ask(send("T"), b"x")
        with broker.unharmed():
            answer = broker.connect().ask(pull("T", max_msg_nums=n))
            assert answer.code == 0
            assert 1 <= len(units(answer.body)) <= 32


@pytest.mark.parametrize(
    ("topic", "offset", "code"),
    [
        (WITNESS, -1, 21),
        (WITNESS, -(2**63), 21),
        (WITNESS, I64_MAX, 21),
        (WITNESS, I64_MAX // 20, 21),
        ("T", -1, 21),
        ("T", I64_MAX, 21),
        ("T", 1, 21),
    ],
)
def test_attack_27_where_to_begin(tmp_path: Path, topic: str, offset: int, code: int) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        answer = broker.connect().ask(pull(topic, offset=offset, flags=SUBSCRIPTION | SUSPEND))
        assert answer.code == code, answer.remark
        begin = int(answer.ext_map()["nextBeginOffset"])
        assert 0 <= begin <= 1


@pytest.mark.parametrize("suspend_ms", [I64_MAX, 10**12, 300_001])
def test_attack_27_how_long_to_wait(tmp_path: Path, suspend_ms: int) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        patient = broker.connect()
        opaque = patient.send(pull("T", flags=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=suspend_ms))
        for _ in range(5):
            broker.pass_time(59_000)
            patient.ask(GetMaxOffset(topic="T", queue_id=0))  # or it would be closed as idle
            assert opaque not in patient.answers
        broker.driver.advance(6_000)
        assert patient.answers.pop(opaque).code == 19


@pytest.mark.parametrize("suspend_ms", [0, -1, -(2**63)])
def test_attack_27_not_to_wait_at_all(tmp_path: Path, suspend_ms: int) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        hasty = broker.connect()
        opaque = hasty.send(pull("T", flags=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=suspend_ms))
        broker.driver.advance(1_000)
        assert hasty.answers.pop(opaque).code == 19


@pytest.mark.parametrize("expression", ["t" * 900_000, "a||" * 250_000, "||" * 400_000], ids=["one", "many", "none"])
def test_attack_27_a_subscription_of_a_mebibyte(tmp_path: Path, expression: str) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        assert broker.connect().ask(pull("T", subscription=expression)).code == 23


@pytest.mark.parametrize("field", ["maxMsgNums", "sysFlag", "queueId", "queueOffset", "suspendTimeoutMillis", "commitOffset"])
@pytest.mark.parametrize("value", [str(2**31), str(2**63), "x"])
@pytest.mark.parametrize("form", list(Form))
def test_attack_27_numbers_beyond_their_type(tmp_path: Path, field: str, value: str, form: Form) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        client = broker.connect()
        fields = {**pull("T").encode(), field: value}
        client.raw(encode_request(RequestCode.PULL_MESSAGE, None, opaque=7, ext=fields, form=form))
        broker.driver.advance(1_000)
        assert client.answers.pop(7).code in (1, 19, 21, 29)


def test_attack_27_queue_ids_that_are_none(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        for queue_id in (-1, 4, I32_MAX, -(2**31)):
            assert broker.connect().ask(pull("T", queue_id=queue_id)).code == 29


def test_attack_27_more_waiting_pulls_than_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "HOLDS_MAX", 100)
    with two_topics(tmp_path) as broker, broker.unharmed():
        greedy = broker.connect()
        for _ in range(150):
            greedy.send(pull("T", flags=SUBSCRIPTION | SUSPEND))
        assert [answer.code for answer in greedy.answers.values()] == [2] * 50


# 29: progress that nobody made


def test_attack_29_progress_in_a_million_queues(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        for queue_id in (4, 5, 1_000_000, I32_MAX, -1, -(2**31)):
            answer = unknown.ask(UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=queue_id, commit_offset=0))
            assert answer.code == 29, answer.remark
        for number in range(3_000):
            unknown.send_oneway(UpdateConsumerOffset(consumer_group="G", topic="T", queue_id=4 + number, commit_offset=0))
        for topic in ("Unknown", "../x", ""):
            code = unknown.ask(UpdateConsumerOffset(consumer_group="G", topic=topic, queue_id=0, commit_offset=0)).code
            assert code in (17, 29)
        for group in ("Unknown", "../x", ""):
            code = unknown.ask(UpdateConsumerOffset(consumer_group=group, topic="T", queue_id=0, commit_offset=0)).code
            assert code in (26, 29)


@pytest.mark.parametrize("offset", [-5, -1, -(2**63), 2, I64_MAX])
def test_attack_29_progress_beyond_the_queue(tmp_path: Path, offset: int) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        commit = UpdateConsumerOffset(consumer_group="G", topic="Secret", queue_id=0, commit_offset=offset)
        assert unknown.ask(commit).code == 29
        unknown.send_oneway(commit)
        by_pull = pull("Secret", flags=SUBSCRIPTION | 1, commit_offset=offset)
        assert unknown.ask(by_pull).code == 0
        broker.driver.advance(20_000)
        assert unknown.ask(QueryConsumerOffset(consumer_group="G", topic="Secret", queue_id=0)).ext_map() == {"offset": "0"}


def test_attack_29_reading_makes_no_queue(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed("groups"):
        unknown = broker.connect()
        queues = [
            ("Unknown", 0),
            ("T", 3),
            ("T", 99),
            ("T", -1),
            ("T", I32_MAX),
            ("..", 0),
            ("a/../../b", 0),
            ("", 0),
            ("%RETRY%G", 0),
        ]
        known = {topic: set(found) for topic, found in broker.node.store._queues.by_topic.items()}
        for topic, queue_id in queues:
            for asked in (
                GetMaxOffset(topic=topic, queue_id=queue_id),
                GetMinOffset(topic=topic, queue_id=queue_id),
                SearchOffset(topic=topic, queue_id=queue_id, timestamp=WALL_MS),
                GetEarliestMsgStoretime(topic=topic, queue_id=queue_id),
                QueryConsumerOffset(consumer_group="New", topic=topic, queue_id=queue_id),
                pull(topic, queue_id),
                GetTopicStatsInfo(topic=topic),
                QueryMessage(topic=topic, key="k", max_num=1, begin_timestamp=0, end_timestamp=I64_MAX),
            ):
                unknown.ask(asked)
        assert {topic: set(found) for topic, found in broker.node.store._queues.by_topic.items()} == known


# 30: look-ups by key


def test_attack_30_a_query_for_everything(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker:
        for n in range(100):
            broker.witness.ask(send("T", properties=pairs(UNIQ_KEY=f"{n:032}", KEYS="k")), b"%d" % n)
        with broker.unharmed():
            unknown = broker.connect()
            for most in (I32_MAX, 1_000, 65):
                asked = QueryMessage(topic="T", key="k", max_num=most, begin_timestamp=0, end_timestamp=I64_MAX)
                answer = unknown.ask(asked)
                assert answer.code == 0
                assert len(units(answer.body)) == 64
            for most in (0, -1, -(2**31)):
                asked = QueryMessage(topic="T", key="k", max_num=most, begin_timestamp=0, end_timestamp=I64_MAX)
                assert len(units(unknown.ask(asked).body)) <= 64
            for begin, end in ((I64_MAX, 0), (-(2**63), -(2**63)), (I64_MAX, I64_MAX)):
                asked = QueryMessage(topic="T", key="k", max_num=10, begin_timestamp=begin, end_timestamp=end)
                assert unknown.ask(asked).code in (0, 22)


def test_attack_30_keys_with_one_hash_are_told_apart(tmp_path: Path) -> None:
    """`Aa` and `BB` have one Java hash, and so have all words of them."""
    with two_topics(tmp_path) as broker:
        twins = ["AaAaAa", "BBBBBB", "AaBBAa", "BBAaBB", "AaAaBB"]
        for twin in twins:
            broker.witness.ask(send("T", properties=pairs(UNIQ_KEY=twin * 4, KEYS=twin)), twin.encode())
        with broker.unharmed():
            for twin in twins:
                asked = QueryMessage(topic="T", key=twin, max_num=64, begin_timestamp=0, end_timestamp=I64_MAX)
                assert [bytes(unit.body) for unit in units(broker.connect().ask(asked).body)] == [twin.encode()]
            for key in ("BBAaAa", "secret", "S" * 32):
                asked = QueryMessage(topic="T", key=key, max_num=64, begin_timestamp=0, end_timestamp=I64_MAX)
                assert broker.connect().ask(asked).code == 22


def test_attack_30_message_ids_that_are_none(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed("groups", "topics"):
        client = consumer(broker)
        for text in ("", "x", "F" * 32, "g" * 32, "0" * 31, "0" * 64, "\0" * 32):
            asked = ConsumeMessageDirectly(consumer_group="G", client_id="c", msg_id=text, topic="Secret")
            answer = broker.connect().ask(asked)
            assert answer.code == 1
            assert is_safe_echo(answer.remark)
        assert not [question for question in client.asked if question.code == RequestCode.CONSUME_MESSAGE_DIRECTLY]
