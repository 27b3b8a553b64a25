"""Attacks by what is sent to be stored, and by what is said to be stored already.  Numbered as in docs/attacks.md."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine.limits import Limits
from rmq_store.log.batch import UNITS_MAX
from rmq_wire import java, properties
from rmq_wire.batch import Item, pack_items
from rmq_wire.headers.clients import ConsumeMessageDirectly
from rmq_wire.headers.query import ViewMessage
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.headers.transactions import EndTransaction
from rmq_wire.message import pack_unit, read_unit
from rmq_wire.message_id import offset_message_id
from tests.broker.attack_checks import check_plans_are_bounded
from tests.broker.siege import Siege, siege, two_topics
from tests.support.bad_frames import WITNESS
from tests.support.requests import WALL_MS, heartbeat, pairs, props, pull, send, send_batch, units

I64_MAX = 2**63 - 1


# 14: bombs


COMPRESSED = {"zlib": 1, "lz4": 1 | 1 << 8, "zstd": 1 | 2 << 8, "zlib-3": 1 | 3 << 8, "unknown": 1 | 7 << 8}


@pytest.mark.parametrize("sys_flag", COMPRESSED.values(), ids=COMPRESSED.keys())
def test_attack_14_a_body_is_stored_and_handed_out_as_it_came(tmp_path: Path, sys_flag: int) -> None:
    """Whatever it says it is: 50 MB of zeros in 48 KB here."""
    bomb = zlib.compress(bytes(50_000_000), 9)
    with siege(tmp_path) as broker:
        broker.topic("T")
        unknown = broker.connect()
        assert unknown.ask(send("T", sys_flag=sys_flag), bomb).code == 0
        [unit] = units(unknown.ask(pull("T")).body)
        assert unit.body == bomb
        assert unit.sys_flag & 1


# 15: batches


GOOD = pack_items([Item(0, b"one", b"")])
ITEM = struct.Struct(">iiiii")


def item(size: int, body_size: int = 0, tail: bytes = b"\0\0") -> bytes:
    return ITEM.pack(size, 0, 0, 0, body_size) + tail


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(GOOD + item(0), id="size-0"),
        pytest.param(GOOD + item(-1), id="size-negative"),
        pytest.param(GOOD + item(-(2**31)), id="size-most-negative"),
        pytest.param(GOOD + item(2**31 - 1), id="size-past-the-end"),
        pytest.param(GOOD + item(23), id="size-one-too-many"),
        pytest.param(GOOD + item(21), id="size-one-too-few"),
        pytest.param(GOOD + item(22, body_size=-1), id="body-negative"),
        pytest.param(GOOD + item(22, body_size=2**31 - 1), id="body-past-the-end"),
        pytest.param(GOOD + item(22, tail=b"\xff\xff"), id="properties-negative"),
        pytest.param(GOOD + item(22, tail=b"\x7f\xff"), id="properties-past-the-end"),
        pytest.param(GOOD + GOOD[:-1], id="cut"),
        pytest.param(GOOD + b"\0", id="one-byte-more"),
        pytest.param(item(22) * 190_000, id="all-that-4-MiB-hold"),
        pytest.param(b"no batch", id="no-batch"),
    ],
)
def test_attack_15_a_broken_batch_is_illegal_as_a_whole(tmp_path: Path, body: bytes) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        answer = broker.connect().ask(send_batch(), body)
        assert answer.code == 13, answer.remark
        assert len(answer.remark or "") < 300


def test_attack_15_a_batch_of_more_messages_than_are_stored_at_once(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        answer = broker.connect().ask(send_batch(), item(22) * (UNITS_MAX + 1))
        assert (answer.code, answer.remark) == (13, f"more than {UNITS_MAX} messages in a batch")


def test_attack_15_a_batch_of_keys_is_indexed_in_portions(tmp_path: Path) -> None:
    """4 MiB may hold two million of them: 2.3 s in one turn."""
    body = pack_items([Item(0, b"x", pairs(KEYS=" ".join(f"k{number}" for number in range(60))).encode())] * 4)
    with two_topics(tmp_path, limits=Limits(dispatch_keys_max=100)) as broker:
        client, seen = broker.connect(), []
        broker.driver.turn((client, client.frame(send_batch(), body)))
        while broker.node.store.undispatched:
            seen.append(broker.node.store.queue_bounds("T", 0)[1])
            broker.driver.turn()
        assert seen == [1, 2, 3], "one message has 60 keys, two have too many"
        assert len(client.answers) == 1


def test_attack_15_a_batch_in_a_batch_is_a_body(tmp_path: Path) -> None:
    """Nobody unpacks it."""
    with two_topics(tmp_path) as broker:
        inner = pack_items([Item(0, b"inner", b"")] * 3)
        with broker.unharmed("messages", "log", "directories"):
            assert broker.connect().ask(send_batch(), pack_items([Item(0, inner, b"")] * 2)).code == 0
        assert [unit.body for unit in broker.stored("T", 0)] == [inner, inner]


@pytest.mark.parametrize(
    "more",
    [
        {"properties": pairs(INNER_NUM="2")},
        {"properties": pairs(DELAY="1")},
        {"sys_flag": 1 << 7},
        {"sys_flag": 4},
        {"sys_flag": 8},
        {"topic": "%RETRY%G"},
    ],
    ids=str,
)
def test_attack_15_a_batch_of_another_kind(tmp_path: Path, more: dict[str, Any]) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed("topics"):
        assert broker.connect().ask(send_batch(**more), GOOD).code == 13


def test_attack_15_one_message_too_large_spoils_its_batch(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        assert unknown.ask(send_batch(), GOOD + pack_items([Item(0, bytes(1 << 20), b"")])).code == 13
        assert unknown.ask(send_batch(), pack_items([Item(0, bytes(700_000), b"")] * 2)).code == 13


# 16: a body that is a message


def forge(broker: Siege, topic: str) -> tuple[int, int]:
    """Store a message whose body is a unit that says it lies exactly where it lies.  Where both begin."""
    offset_of_body = 88  # as a client can compute from the id of its last message
    at = broker.node.store.written_offset
    inner_at = at + offset_of_body
    [secret] = broker.stored("Secret", 0)

    def unit(body: bytes) -> bytes:
        return pack_unit(
            0,
            0,
            0,
            inner_at,
            0,
            WALL_MS,
            secret.born_host,
            WALL_MS,
            secret.store_host,
            0,
            0,
            body,
            b"Secret",
            pairs(UNIQ_KEY="F" * 32, KEYS="forged", PGROUP="P", TRAN_MSG="true", RETRY_TOPIC="Secret").encode(),
        )

    message = broker.witness.ask(send("T"), unit(b"forged"))
    assert message.code == 0
    stored = broker.stored("T", 0)[-1]
    assert stored.physical_offset == at
    inner = bytes(stored.body)
    assert broker.node.store.lookup(at) is not None
    whole = bytes(broker.node.store.lookup(at) or b"")
    assert whole.index(inner) == offset_of_body, "the forger's arithmetic is right"
    assert read_unit(inner).physical_offset == inner_at
    return at, inner_at


def test_attack_16_a_body_that_is_a_stored_unit_is_never_found(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker:
        at, inner_at = forge(broker, "T")
        heartbeat(broker.connect(), "Mine", "Secret")
        with broker.unharmed("topics"):
            unknown = broker.connect()
            assert unknown.ask(ViewMessage(offset=at)).code == 0
            answer = unknown.ask(ViewMessage(offset=inner_at))
            assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {inner_at}")
            back = ConsumerSendMsgBack(offset=inner_at, group="Mine", delay_level=0, origin_topic="Secret")
            assert unknown.ask(back).code in (1, 16)
            end = EndTransaction(
                producer_group="P",
                tran_state_table_offset=0,
                commit_log_offset=inner_at,
                commit_or_rollback=8,
                topic="Secret",
                msg_id="x",
                transaction_id="x",
            )
            assert unknown.ask(end).code in (1, 3)
            host = broker.stored("Secret", 0)[0].store_host
            direct = ConsumeMessageDirectly(
                consumer_group="Mine", client_id=f"c{unknown.peer.id}", msg_id=offset_message_id(host, inner_at), topic="Secret"
            )
            assert unknown.ask(direct).code == 1
            for offset in (*range(inner_at - 3, inner_at + 4), -1, I64_MAX, -(2**63), broker.node.store.written_offset):
                assert unknown.ask(ViewMessage(offset=offset)).code == 1


def test_attack_16_every_offset_but_the_beginnings_of_units_is_empty(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker:
        forge(broker, "T")
        queues = [("T", 0), ("Secret", 0), (WITNESS, 0)]
        begins = {unit.physical_offset for queue in queues for unit in broker.stored(*queue)}
        with broker.unharmed():
            found = {
                offset
                for offset in range(broker.node.store.written_offset + 100)
                if broker.node.store.lookup(offset, checked=True) is not None
            }
            assert found == begins


# 24: giving back what one was never given


def test_attack_24_a_message_of_somebody_else_is_not_given_back(tmp_path: Path) -> None:
    with two_topics(tmp_path) as broker:
        [secret] = broker.stored("Secret", 0)
        heartbeat(broker.connect(), "Mine", "T")
        heartbeat(broker.connect(), "Other", "Secret")
        with broker.unharmed("topics", "groups"):
            thief = broker.connect()
            for group, origin in (("Mine", None), ("Mine", "T"), ("Mine", "%RETRY%Other"), ("Nobody", None), ("Nobody", "T")):
                back = ConsumerSendMsgBack(offset=secret.physical_offset, group=group, delay_level=-1, origin_topic=origin)
                answer = thief.ask(back)
                assert answer.code == 16, (group, origin, answer.remark)
        assert not broker.stored("%DLQ%Mine", 0)


def test_attack_24_nor_what_may_not_be_read(tmp_path: Path) -> None:
    with siege(tmp_path) as broker:
        broker.topic("WriteOnly", queues=1, perm=2)
        assert broker.witness.ask(send("WriteOnly"), b"x").code == 0
        physical = broker.node.store.written_offset - len(b"x")
        [place] = [broker.node.store.queue_unit("WriteOnly", 0, 0)]
        assert place[0] < physical
        with broker.unharmed("topics", "groups"):
            back = ConsumerSendMsgBack(offset=place[0], group="Mine", delay_level=-1, origin_topic="WriteOnly")
            assert broker.connect().ask(back).code == 16


# 18: properties that mean something to the broker


OWN = {
    "REAL_TOPIC": "Secret",
    "REAL_QID": "0",
    "TIMER_OUT_MS": "1700000000000",
    "TIMER_ROLL_TIMES": "1",
    "POP_CK": "0 1 2 3 4",
    "TRANSACTION_CHECK_TIMES": "99",
    "INNER_MULTI_QUEUE_OFFSET": "0,1",
    "INNER_MULTI_DISPATCH": "%LMQ%x,../../y,Secret",
    "__LITE_TOPIC": "../../z",
    "RETRY_TOPIC": "Secret",
    "ORIGIN_MESSAGE_ID": "0" * 32,
    "PGROUP": "P",
    "DLQ_ORIGIN_TOPIC": "Secret",
    "CLUSTER": "forged",
    "MSG_REGION": "forged",
}


@pytest.mark.parametrize("name", OWN)
def test_attack_18_the_brokers_own_properties_from_a_client_steer_nothing(tmp_path: Path, name: str) -> None:
    """The message is stored where it was sent to, in one queue, and stays there."""
    with two_topics(tmp_path) as broker:
        with broker.unharmed("messages", "log", "directories"):
            text = pairs(**{"UNIQ_KEY": "K" * 32, name: OWN[name]})
            assert broker.connect().ask(send("T", properties=text), b"x").code == 0
            broker.pass_time(30_000)
        messages = broker.state()["messages"]
        assert [unit.body for unit in messages["T", 0]] == [b"x"]
        assert set(messages) == {("T", 0), ("Secret", 0)}
        assert len(messages["Secret", 0]) == 1
        assert props(messages["T", 0][0])["CLUSTER"] == "DefaultCluster"
        directories = broker.state()["directories"]
        assert not [path for path in directories if "LMQ" in path or path.endswith(("y", "z"))]


def test_attack_18_a_delayed_message_goes_where_it_was_sent_to(tmp_path: Path) -> None:
    """REAL_TOPIC counts in what the broker itself put into the schedule topic, and that overwrites the client's."""
    with two_topics(tmp_path) as broker:
        text = pairs(UNIQ_KEY="K" * 32, DELAY="1", REAL_TOPIC="Secret", REAL_QID="0")
        assert broker.connect().ask(send("T", queue_id=2, properties=text), b"later").code == 0
        broker.pass_time(5_000)
        messages = broker.state()["messages"]
        assert [unit.body for unit in messages["T", 2]] == [b"later"]
        assert len(messages["Secret", 0]) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (pairs(INNER_NUM="5"), 13),
        (pairs(TIMER_DELAY_SEC="soon"), 13),
        (pairs(TIMER_DELIVER_MS="9" * 19), 13),
        (pairs(TIMER_DELIVER_MS="1", TIMER_DEL_UNIQKEY="K"), 13),
        (pairs(DELAY="1_0"), 1),
        (pairs(DELAY="99999999999"), 1),
    ],
)
def test_attack_18_what_is_refused(tmp_path: Path, text: str, code: int) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        answer = broker.connect().ask(send("T", properties=text), b"x")
        assert answer.code == code, answer.remark


@pytest.mark.parametrize(
    "text",
    ["a\x01b\x01c\x02", "\x01\x02\x01\x02", "a\x02b\x01", "\x02" * 1_000, "\x01" * 1_000, "KEYS\x01k\x01k\x02"],
)
def test_attack_18_separators_within_properties(tmp_path: Path, text: str) -> None:
    """What is stored reads back as pairs, and holds what the broker adds."""
    with two_topics(tmp_path) as broker:
        assert broker.connect().ask(send("T", properties=text), b"x").code == 0
        [unit] = broker.stored("T", 0)
        assert props(unit)["CLUSTER"] == "DefaultCluster"
        assert len(props(unit)["UNIQ_KEY"]) == 32


# 19: names to fill memory or time with


def test_attack_19_ever_new_names_of_properties_are_forgotten(tmp_path: Path) -> None:
    """Server bug V13: the remembered orders of names are bounded."""
    with two_topics(tmp_path) as broker:
        check_plans_are_bounded(broker, 3 * properties.PLANS_MAX)


@pytest.mark.parametrize("count", [33, 1_024, 1_025, 3_500])
def test_attack_19_many_names_in_one_message(tmp_path: Path, count: int) -> None:
    with two_topics(tmp_path) as broker:
        before = java.permutation.cache_info().currsize
        text = "".join(f"{n:x}\x01v\x02" for n in range(count))
        answer = broker.connect().ask(send("T", properties=text), b"x")
        assert answer.code == 0, answer.remark
        assert len(props(broker.stored("T", 0)[0])) == count + 4
        assert java.permutation.cache_info().currsize <= before + 1


def test_attack_19_names_that_collide_in_a_java_map(tmp_path: Path) -> None:
    """All 1,024 words of `Aa` and `BB` with ten letters have one hash."""
    words = ["".join("Aa" if n >> bit & 1 else "BB" for bit in range(10)) for n in range(1_024)]
    assert len({java.string_hash(word) for word in words}) == 1
    with two_topics(tmp_path) as broker:
        text = "".join(f"{word}\x01v\x02" for word in words)
        assert broker.connect().ask(send("T", properties=text), b"x").code == 0
        assert set(words) < set(props(broker.stored("T", 0)[0]))


@pytest.mark.parametrize("text", ["n\x01" + "v" * 32_768 + "\x02", "".join(f"name{n}\x01value\x02" for n in range(10_000))])
def test_attack_19_properties_beyond_a_java_short(tmp_path: Path, text: str) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        assert broker.connect().ask(send("T", properties=text), b"x").code == 13


# 20 and 21: topics that are the broker's own


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param(name, id=f"{number}-{name}")
        for number, name in [
            (20, "SCHEDULE_TOPIC_XXXX"),
            (20, "RMQ_SYS_TRANS_HALF_TOPIC"),
            (20, "RMQ_SYS_TRANS_OP_HALF_TOPIC"),
            (20, "TRANS_CHECK_MAX_TIME_TOPIC"),
            (20, "SELF_TEST_TOPIC"),
            (20, "OFFSET_MOVED_EVENT"),
            (20, "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"),
            (20, "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"),
            (21, "rmq_sys_wheel_timer"),
            (21, "rmq_sys_REVIVE_LOG_DefaultCluster"),
            (21, "rmq_sys_REVIVE_LOG_Other"),
        ]
    ],
)
def test_attack_20_and_21_sends_to_the_brokers_own_topics(tmp_path: Path, topic: str) -> None:
    with two_topics(tmp_path) as broker, broker.unharmed():
        unknown = broker.connect()
        for asked, body in ((send(topic), b"x"), (send_batch(topic), GOOD), (send(topic, properties=pairs(DELAY="1")), b"x")):
            answer = unknown.ask(asked, body)
            assert (answer.code, answer.remark) == (16, f"Sending message to topic[{topic}] is forbidden.")
        unknown.send_oneway(send(topic), b"x")
