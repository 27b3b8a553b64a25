"""What a message becomes on the wire, and which messages are refused before anything is sent."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_client import namespaces
from rmq_client.errors import BrokerError, InvalidMessage, InvalidName, Unreadable
from rmq_client.messages import Message, SendStatus, check_batch, check_message
from rmq_client.producing.requests import prepare, prepare_batch, request_to, result_of, split_batch
from rmq_client.settings import ProducerSettings
from rmq_wire import properties, sys_flag
from rmq_wire.batch import read_items
from rmq_wire.command import Command, Form, encode_response
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Header
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.send import SendBatchMessage, SendMessageResponse, SendMessageV2
from rmq_wire.packed_body import compression_of, unpack

SETTINGS = ProducerSettings()
QUEUE = MessageQueue("T", "broker-a", 3)
KEY = "7F000001" + "0" * 24


def prepared(message: Message, topic: str = "T", namespace: str = "", settings: ProducerSettings = SETTINGS) -> Any:
    return prepare(message, topic, "G", settings, namespace, lambda: KEY)


def props(fields: dict[str, Any]) -> dict[str, str]:
    return properties.decode(fields["properties"])


def test_the_fields_of_a_plain_message() -> None:
    message = Message("T", b"body", tags="A", keys=["k1", "k2"], properties={"colour": "blue"}, flag=5)
    request = request_to(prepared(message), QUEUE, born_ms=9)
    assert isinstance(request, SendMessageV2)
    assert not isinstance(request, SendBatchMessage)
    assert (request.topic, request.queue_id, request.broker_name) == ("T", 3, "broker-a")
    assert (request.default_topic, request.default_topic_queue_nums, request.born_timestamp) == ("TBW102", 4, 9)
    assert (request.flag, request.sys_flag, request.batch, request.reconsume_times) == (5, 0, False, 0)
    assert properties.decode(request.properties or "") == {
        "TAGS": "A",
        "KEYS": "k1 k2",
        "WAIT": "true",
        "colour": "blue",
        "UNIQ_KEY": KEY,
    }


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"delay_time_level": 3}, "DELAY", "3"),
        ({"delay_time_sec": 10}, "TIMER_DELAY_SEC", "10"),
        ({"delay_time_ms": 0}, "TIMER_DELAY_MS", "0"),
        ({"deliver_time_ms": 1_700_000_000_000}, "TIMER_DELIVER_MS", "1700000000000"),
        ({"wait_store_msg_ok": False}, "WAIT", "false"),
        ({"sharding_key": "s"}, "__SHARDINGKEY", "s"),
        ({"unique_key": "MINE"}, "UNIQ_KEY", "MINE"),
    ],
)
def test_what_options_say_on_the_wire(options: dict[str, Any], name: str, value: str) -> None:
    assert props(prepared(Message("T", b"x", **options)).fields)[name] == value


def test_the_name_space_is_in_names_and_in_a_property() -> None:
    topic = namespaces.wrap("ns", "T")
    ready = prepared(Message("T", b"x"), topic, "ns")
    assert ready.fields["topic"] == "ns%T"
    assert props(ready.fields)["INSTANCE_ID"] == "ns"


@pytest.mark.parametrize(("how", "flag"), [("zlib", 0x301), ("lz4", 0x101), ("zstd", 0x201)])
def test_long_bodies_are_packed(how: str, flag: int) -> None:
    if how != "zlib":
        pytest.importorskip("pyarrow")
    settings = ProducerSettings(compress_type=how)
    short, long = b"x" * 4_095, b"x" * 4_096
    assert prepared(Message("T", short), settings=settings).body == short
    ready = prepared(Message("T", long), settings=settings)
    assert ready.fields["sys_flag"] == flag
    assert len(ready.body) < 100
    packing = compression_of(ready.fields["sys_flag"])
    assert packing == how
    assert unpack(ready.body, packing) == long
    if how == "zlib":
        assert ready.body == zlib.compress(long, 5)


def test_a_half_message_is_flagged_and_a_retry_carries_its_count() -> None:
    half = Message("T", b"x", properties={"TRAN_MSG": "true"})
    assert prepared(half).fields["sys_flag"] == sys_flag.TRANSACTION_PREPARED
    again = Message("%RETRY%G", b"x", properties={"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16"})
    ready = prepared(again, "%RETRY%G")
    assert (ready.fields["reconsume_times"], ready.fields["max_reconsume_times"]) == (3, 16)
    assert props(ready.fields).keys() == {"WAIT", "UNIQ_KEY"}
    assert props(prepared(again).fields)["RECONSUME_TIME"] == "3", "in another topic it is a property like any other"


@pytest.mark.parametrize(
    ("message", "error", "why"),
    [
        (Message("T", b""), InvalidMessage, "length is zero"),
        (Message("T", b"x" * 101), InvalidMessage, "101 bytes"),
        (Message("T", "text"), InvalidMessage, "not str"),  # type: ignore[arg-type]
        (Message("", b"x"), InvalidName, "blank"),
        (Message("a b", b"x"), InvalidName, "illegal"),
        (Message("x" * 128, b"x"), InvalidName, "longer"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), InvalidName, "forbidden"),
        (Message("T", b"x", keys="k1 k2"), InvalidMessage, "several texts"),
        (Message("T", b"x", keys=["a b"]), InvalidMessage, "without blanks"),
        (Message("T", b"x", properties={"TAGS": "a"}), InvalidMessage, "RocketMQ uses"),
        (Message("T", b"x", properties={"a": ""}), InvalidMessage, "not empty"),
        (Message("T", b"x", properties={"a": "b\x01c"}), InvalidMessage, "separates"),
        (Message("T", b"x", tags="b\x02c"), InvalidMessage, "separates"),
        (Message("T", b"x", tags="b\udcff"), InvalidMessage, "UTF-8"),
        (Message("T", b"x", keys=["ä", "b\ud800"]), InvalidMessage, "UTF-8"),
        (Message("T", b"x", properties={"a": "\udcff"}), InvalidMessage, "UTF-8"),
        (Message("T", b"x", properties={"\udcff": "a"}), InvalidMessage, "UTF-8"),
        (Message("T", b"x", sharding_key="\udcff"), InvalidMessage, "UTF-8"),
        (Message("T", b"x", unique_key="\udcff"), InvalidMessage, "UTF-8"),
        (Message("T", b"x", delay_time_level=1, delay_time_ms=5), InvalidMessage, "one delay"),
        (Message("T", b"x", delay_time_level=-1), InvalidMessage, "levels begin"),
        (Message("T", b"x", properties={"INNER_MULTI_DISPATCH": "a/b"}), InvalidMessage, "has a /"),
    ],
)
def test_what_is_refused_before_it_is_sent(message: Message, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why) as raised:
        check_message(message, message.topic, 100)
    assert raised.value.fault == "caller"  # type: ignore[attr-defined]


# Batches


def test_a_batch_is_items_with_ids_of_their_own() -> None:
    keys = iter(["K1", "K2"])
    batch = [Message("T", b"one", tags="A"), Message("T", b"two")]
    ready = prepare_batch(batch, "T", "G", SETTINGS, "", lambda: next(keys))
    request = request_to(ready, QUEUE, born_ms=1)
    assert isinstance(request, SendBatchMessage)
    assert request.batch is True
    assert ready.message_id == "K1,K2"
    items = read_items(ready.body)
    assert [bytes(item.body) for item in items] == [b"one", b"two"]
    assert properties.decode(items[0].properties.decode()) == {"TAGS": "A", "WAIT": "true", "UNIQ_KEY": "K1"}
    assert props(ready.fields) == {"WAIT": "true"}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "without messages"),
        ([Message("T", b"a"), Message("U", b"a")], "one topic"),
        ([Message("T", b"a", delay_time_level=1)], "delayed"),
        ([Message("T", b"a"), Message("T", b"a", wait_store_msg_ok=False)], "agree"),
        ([Message("%RETRY%G", b"a")], "retry topic"),
    ],
)
def test_what_is_no_batch(messages: list[Message], why: str) -> None:
    with pytest.raises(InvalidMessage, match=why):
        check_batch(messages)


@given(st.lists(st.integers(1, 900), min_size=1, max_size=40), st.integers(1_100, 4_000))
def test_a_batch_is_split_in_order_and_no_part_is_too_long(sizes: list[int], most: int) -> None:
    messages = [Message("T", b"x" * size, tags=f"t{at}") for at, size in enumerate(sizes)]
    parts = list(split_batch(messages, "T", "", most))
    assert [message for part in parts for message in part] == messages
    bodies = [len(prepare_batch(part, "T", "G", SETTINGS, "", lambda: KEY).body) for part in parts]
    assert max(bodies) <= most
    for body, part in zip(bodies[:-1], parts[1:], strict=True):
        first = len(prepare_batch(part[:1], "T", "G", SETTINGS, "", lambda: "0" * 56).body)
        assert body + first + 24 * 40 > most, "parts are not smaller than they must be"


def test_one_message_that_no_batch_can_hold() -> None:
    with pytest.raises(InvalidMessage, match="max_message_size"):
        list(split_batch([Message("T", b"x" * 100)], "T", "", 100))


# Answers


def answered(code: int, header: Header | None = None, remark: str | None = None) -> Command:
    frame = encode_response(code, 1, form=Form.JSON, header=header, remark=remark)
    assert isinstance(frame, bytes)
    [command] = Conversation().feed(frame)
    assert isinstance(command, Command)
    return command


@pytest.mark.parametrize("status", list(SendStatus))
def test_what_an_answer_says(status: SendStatus) -> None:
    header = SendMessageResponse(
        msg_id="OID", queue_id=3, queue_offset=8, msg_region="R", trace_on=False, recall_handle="H", transaction_id="X"
    )
    result = result_of(prepared(Message("T", b"x")), QUEUE, answered(status.value, header), "h:1", "T")
    assert (result.status, result.message_id, result.offset_message_id) == (status, KEY, "OID")
    assert (result.queue, result.queue_offset) == (MessageQueue("T", "broker-a", 3), 8)
    assert (result.region_id, result.trace_on, result.recall_handle, result.transaction_id) == ("R", False, "H", "X")


def test_what_a_broker_refuses_or_garbles() -> None:
    ready = prepared(Message("T", b"x"))
    with pytest.raises(BrokerError, match=r"h:1 answers 13 \(MESSAGE_ILLEGAL\): too long") as raised:
        result_of(ready, QUEUE, answered(13, remark="too long"), "h:1", "T")
    assert raised.value.fault == "broker"
    with pytest.raises(Unreadable):
        result_of(ready, QUEUE, answered(0), "h:1", "T")


# Name spaces


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("T", "ns%T"),
        ("ns%T", "ns%T"),
        ("%RETRY%G", "%RETRY%ns%G"),
        ("%DLQ%G", "%DLQ%ns%G"),
        ("TBW102", "TBW102"),
        ("rmq_sys_x", "rmq_sys_x"),
        ("CID_RMQ_SYS_x", "CID_RMQ_SYS_x"),
        ("", ""),
    ],
)
def test_names_with_the_name_space_before_them(name: str, wrapped: str) -> None:
    assert namespaces.wrap("ns", name) == wrapped
    assert namespaces.wrap("", name) == name
    assert namespaces.unwrap("ns", wrapped) == name.removeprefix("ns%")
    assert namespaces.unwrap("other", wrapped) == wrapped
