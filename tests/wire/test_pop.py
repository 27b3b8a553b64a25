"""POP on the wire and in the rule book: receipts, infos, the records of the revive topic, the copies that come again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire import names, pop_receipt
from rmq_wire import property_names as prop
from rmq_wire.bodies import pop as pop_bodies
from rmq_wire.bodies.pop import (
    AckMsg,
    BatchAck,
    BatchAckMessageRequestBody,
    BatchAckMsg,
    PopCheckPoint,
    bits_text,
    diffs_of,
    read_bits,
)
from rmq_wire.errors import BadBody, BadReceipt
from rmq_wire.fastjson import dumps_fastjson
from rmq_wire.implied import pop
from rmq_wire.java import parse_long
from rmq_wire.pop_receipt import Receipt, read_receipt
from rmq_wire.properties import decode, encode_java, find
from tests.support.given import GOLDEN, I32, I64, TEXT

JAVA = GOLDEN["pop"]
NAME = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)
FLAG = st.sampled_from(["0", "1", "2"])
GROUP = st.text("abAB_-%|", min_size=1, max_size=10)

points = st.builds(
    PopCheckPoint,
    start_offset=I64,
    pop_time=I64,
    invisible_time=I64,
    bit_map=I32,
    num=st.integers(0, 32),
    queue_id=I32,
    topic=TEXT | st.none(),
    group=TEXT | st.none(),
    revive_offset=I64,
    diffs=st.lists(I32, max_size=32) | st.none(),
    broker_name=TEXT | st.none(),
    re_put_times=TEXT | st.none(),
    suspend=st.booleans(),
)
acks = st.builds(
    BatchAckMsg,
    ack_offset=I64,
    start_offset=I64,
    group=TEXT | st.none(),
    topic=TEXT | st.none(),
    queue_id=I32,
    pop_time=I64,
    broker_name=TEXT | st.none(),
    offsets=st.lists(I64, max_size=32),
)


def point(**changes: Any) -> PopCheckPoint:
    fields: dict[str, Any] = {
        "start_offset": 5,
        "pop_time": 1_700_000_000_000,
        "invisible_time": 60_000,
        "num": 2,
        "queue_id": 3,
        "topic": 'T"é\x01/',
        "group": "g",
        "diffs": [0, 4],
        "broker_name": "b",
    }
    return PopCheckPoint(**{**fields, **changes})


# --- receipts


@pytest.mark.parametrize(("topic", "whole", "old"), JAVA["receipts"])
def test_receipts_are_javas(topic: str, whole: str, old: str) -> None:
    flag = pop_receipt.flag_of(topic)
    assert Receipt(5, 1_700_000_000_000, 60_000, 3, flag, "b", 2, 7).text() == whole
    assert Receipt(5, 1_700_000_000_000, 60_000, 999, flag, "b", 2).text() == old
    assert read_receipt(whole).queue_offset == 7
    assert not read_receipt(whole).is_ordered
    assert read_receipt(old).is_ordered
    assert read_receipt(old).queue_offset is None


def test_the_proxy_adds_a_place_in_the_log() -> None:
    assert read_receipt("1 2 3 4 0 b 5 6 7890") == read_receipt("1 2 3 4 0 b 5 6")


@given(st.builds(Receipt, I64, I64, I64, I32, FLAG, NAME, I32, I64 | st.none()))
def test_a_receipt_reads_back(receipt: Receipt) -> None:
    assert read_receipt(receipt.text()) == receipt


@given(st.text(max_size=60) | st.lists(st.sampled_from(["0", "1", "", "x", "-1", "9" * 30, "b"]), max_size=10).map(" ".join))
def test_what_is_no_receipt_is_refused(text: str) -> None:
    try:
        receipt = read_receipt(text)
    except BadReceipt:
        return
    assert len(text.split(" ")) in (len(receipt.text().split(" ")), 9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no receipt",
        "1 2 3 4 0 b 5 6 x",
        "1 2 3 4 0 b 5 6 7 8",
        "1 2 3 4 3 b 5 6",
        "1 2 3 4 0 b 5 x",
        f"1 2 3 {2**31} 0 b 5 6",
        f"{2**63} 2 3 4 0 b 5 6",
        "1 2 3 4 0 b 1_0 6",
        "1 2 3 4 0 " + "b" * 2_000 + " 5 6",
    ],
)
def test_forged_receipts(text: str) -> None:
    with pytest.raises(BadReceipt):
        read_receipt(text)


@given(FLAG, GROUP, GROUP)
def test_a_flag_stands_for_a_topic(flag: str, topic: str, group: str) -> None:
    named = pop_receipt.topic_of_flag(flag, topic, group)
    assert pop_receipt.flag_of(named) == flag or topic.startswith(names.RETRY_PREFIX)
    assert pop_receipt.is_v2_retry_topic(named) == (flag == "2")
    if not topic.startswith(names.RETRY_PREFIX):
        assert pop.plain_topic(named, group) == topic


# --- infos


def test_infos_are_javas() -> None:
    starts, offsets, counts = JAVA["infos"]
    flags = ("0", "1", "2")
    assert ";".join(pop_receipt.start_offset_entry(flag, 1, 1 << 40) for flag in flags) == starts
    assert ";".join(pop_receipt.msg_offset_entry(flag, 1, [3, 4, 1 << 40]) for flag in flags) == offsets
    entries = [
        entry
        for flag in flags
        for entry in (pop_receipt.queue_count_entry(flag, 1, 2), pop_receipt.offset_count_entry(flag, 1, 8, 2))
    ]
    assert ";".join(entries) == counts


@pytest.mark.parametrize("told", JAVA["parsed"], ids=lambda told: told["info"])
def test_infos_are_read_as_java_reads_them(told: dict[str, str]) -> None:
    """But for `;`, of which Java makes an empty table."""
    readers = {
        "starts": pop_receipt.read_start_offsets,
        "offsets": pop_receipt.read_msg_offsets,
        "counts": pop_receipt.read_order_counts,
    }
    for name, read in readers.items():
        if name not in told or told["info"] == ";":
            with pytest.raises(BadReceipt):
                read(told["info"])
        else:
            found = sorted(read(told["info"]).items())
            assert "{" + ", ".join(f"{key}={value}" for key, value in found) + "}" == told[name]


def test_no_info_is_none() -> None:
    assert pop_receipt.read_start_offsets(None) == pop_receipt.read_msg_offsets("") == pop_receipt.read_order_counts(None) == {}


# --- records


def test_records_are_javas() -> None:
    records = [
        PopCheckPoint(),
        point(),
        point(bit_map=-1, revive_offset=9, re_put_times="2", suspend=True),
        AckMsg(),
        BatchAckMsg(),
        BatchAckMsg(-1, 5, "g", "T", 3, 17, "b", [5, 9]),
    ]
    assert [record.encode().decode() for record in records] == JAVA["records"]


@given(points)
def test_a_check_point_reads_back(one: PopCheckPoint) -> None:
    encoded = one.encode()
    assert encoded == dumps_fastjson(dict(sorted({**one.plain(), "reviveTime": one.due_ms}.items())))
    assert PopCheckPoint.read(encoded) == one


@given(acks)
def test_an_acknowledgement_reads_back(one: BatchAckMsg) -> None:
    assert one.encode() == dumps_fastjson(one.plain())
    assert BatchAckMsg.read(one.encode()) == one
    single = AckMsg(*(getattr(one, name) for name in AckMsg.__struct_fields__))
    assert single.encode() == dumps_fastjson(single.plain())
    assert AckMsg.read(single.encode()) == single


def test_acknowledgements_have_long_names_too() -> None:
    said = {"ackOffset": 6, "startOffset": 5, "consumerGroup": "g", "topic": "t", "queueId": 1, "popTime": 2, "brokerName": "b"}
    found = BatchAckMsg.read(json.dumps({**said, "ackOffsetList": [1]}).encode())
    assert found == BatchAckMsg(6, 5, "g", "t", 1, 2, "b", [1])
    assert AckMsg.read(json.dumps(said).encode()) == AckMsg(6, 5, "g", "t", 1, 2, "b")


@given(st.binary(max_size=80))
def test_what_is_no_record_is_refused(body: bytes) -> None:
    for tag in ("ck", "ack", "bAck"):
        try:
            pop.read_record(tag, body)
        except BadBody:
            pass
    assert pop.read_record("other", body) is None


@given(points, st.integers(0, 31))
def test_bits_and_offsets(one: PopCheckPoint, at: int) -> None:
    one.bit_map = 0
    one.set_bit(at)
    assert [bit for bit in range(32) if one.has_bit(bit)] == [at]
    assert PopCheckPoint.read(one.encode()).has_bit(at)
    if not one.diffs or at < len(one.diffs):
        found = one.index_of(one.offset_at(at))
        assert found in (-1, at) or (one.diffs and one.diffs[found] == one.diffs[at])
    else:
        with pytest.raises(BadBody):
            one.offset_at(at)


def test_where_messages_of_a_check_point_lie() -> None:
    assert [point().index_of(offset) for offset in (4, 5, 6, 9, 10)] == [-1, 0, -1, 1, -1]
    assert [point().offset_at(at) for at in (0, 1)] == [5, 9]
    old = point(diffs=None)
    assert [old.index_of(offset) for offset in (4, 5, 6, 7)] == [-1, 0, 1, -1]


# --- request 200151


def test_a_batch_is_javas() -> None:
    said = BatchAckMessageRequestBody.read(JAVA["batch"].encode())
    assert said.encode().decode() == JAVA["batch"]
    assert said.acks is not None
    assert [*said.acks[0].offsets(64)] == [5 + 63]


@pytest.mark.parametrize(("bits", "text"), JAVA["bit_sets"])
def test_bit_sets_are_javas(bits: list[int], text: str) -> None:
    assert bits_text(bits) == text
    assert read_bits(text, 64) == bits


@given(st.lists(st.integers(0, 100), unique=True))
def test_bit_sets_read_back(bits: list[int]) -> None:
    assert read_bits(bits_text(bits), 101) == sorted(bits)
    assert read_bits(bits_text(bits), 32) == sorted(bit for bit in bits if bit < 32)


@pytest.mark.parametrize("text", ["zz!", "A", "AQ", "é"])
def test_no_bit_sets(text: str) -> None:
    with pytest.raises(BadBody):
        read_bits(text, 32)


def test_a_batch_has_long_names_too() -> None:
    ack = {"consumerGroup": "g", "topic": "t", "retry": "0", "startOffset": 5, "queueId": 1, "reviveQueueId": 2}
    said = {"brokerName": "b", "acks": [{**ack, "popTime": 3, "invisibleTime": 4, "bitSet": "Aw=="}]}
    found = BatchAckMessageRequestBody.read(json.dumps(said).encode())
    expected = BatchAck(
        group="g", topic="t", retry="0", start_offset=5, queue_id=1, revive_queue=2, pop_time=3, invisible_time=4, bits="Aw=="
    )
    assert found.acks == [expected]
    assert [*expected.offsets(32)] == [5, 6]


# --- the rule book


def test_keys_are_javas() -> None:
    ack = BatchAckMsg(-1, 5, "g", "T", 3, 17, "b", [5, 9])
    assert [pop.check_point_key(point()), pop.ack_key(ack), pop.batch_ack_key(ack)] == JAVA["keys"]


def test_properties_of_records_are_javas() -> None:
    due, waiting = JAVA["record_properties"]
    assert pop.record_properties("bAck", 1_700_000_060_000, "key").decode() == due
    stored = pop.waiting_properties("bAck", 1_700_000_060_000, "key", 1_700_000_059_000, pop.revive_topic("c"), 7)
    assert stored.decode() == waiting
    assert decode(due) == pop.record_values("bAck", 1_700_000_060_000, "key")
    odd = decode(pop.waiting_properties("ck", 5, "k%sé", 4, "a%d%s", 3).decode())
    told = {prop.TIMER_OUT_MS: "4", prop.REAL_TOPIC: "a%d%s", prop.REAL_QID: "3"}
    assert odd == {**pop.record_values("ck", 5, "k%sé"), **told}


@pytest.mark.parametrize(("topic", "plain", "group"), JAVA["plain_topics"])
def test_the_way_back_from_a_retry_topic(topic: str, plain: str, group: str) -> None:
    assert pop.plain_topic(topic, "g") == plain
    assert not group or names.group_of_retry_topic(topic) == group


def test_acknowledgements_find_their_check_point() -> None:
    ack = AckMsg(5, 5, "g", point().topic, 3, 1_700_000_000_000)
    assert pop.pop_of(ack, "b") == pop.pop_of(point(), "other")
    assert pop.pop_of(ack, "c") != pop.pop_of(point(), "other")
    with pytest.raises(BadBody):
        pop.pop_of(AckMsg(), "b")


def test_when_records_are_due() -> None:
    assert pop.check_point_due_ms(point()) == 1_700_000_059_000
    assert point().due_ms == 1_700_000_060_000


def test_the_copy_that_comes_again() -> None:
    first = pop.revived_values({"k": "v", "TAGS": "a"}, point(), 0)
    assert first == {"TAGS": "a", "k": "v", "1ST_POP_TIME": "1700000000000", "ORIGIN_GROUP": "g"}
    assert next(iter(first)) == "TAGS"
    assert pop.revived_values({"1ST_POP_TIME": "1"}, point(), 1)["1ST_POP_TIME"] == "1"
    assert pop.revived_values({"1ST_POP_TIME": "1"}, point(), 0)["1ST_POP_TIME"] == "1700000000000"
    assert (pop.revived_times(point(), 3), pop.revived_times(point(suspend=True), 3)) == (4, 3)
    assert decode(pop.revived_properties(first).decode()) == first


def test_copies_stay_in_a_retry_topic() -> None:
    assert pop.retry_topic_for("T", "g", v2=False) == "%RETRY%g_T"
    assert pop.retry_topic_for("T", "g", v2=True) == "%RETRY%g+T"
    assert pop.retry_topic_for("%RETRY%g_T", "g", v2=True) == "%RETRY%g_T"


def test_a_check_point_that_is_stored_again() -> None:
    due_ms = point().due_ms
    once = pop.re_put(point(suspend=True), 9, due_ms)
    assert (once.start_offset, once.num, once.diffs, once.re_put_times, once.suspend) == (9, 1, [0], "1", True)
    assert once.due_ms == due_ms + 10_000
    assert pop.re_put(once, 9, once.due_ms).due_ms == once.due_ms + 20_000
    assert pop.re_put(once, 9, once.due_ms - 1).due_ms == once.due_ms
    assert pop.re_put(point(re_put_times="x"), 9, due_ms).due_ms == due_ms + 7_200_000


@given(points, st.data())
def test_what_is_acknowledged_is_done(one: PopCheckPoint, data: st.DataObject) -> None:
    """As bit by bit; others at those places say nothing."""
    one.num, one.bit_map = len(one.diffs or ()) or one.num % 33, 0
    own = [one.offset_at(index) for index in range(one.num)]
    acked = frozenset(data.draw(st.lists(st.sampled_from([*own, one.start_offset - 1, one.start_offset + 99_999]))))
    one.end(acked)
    assert [one.has_bit(index) for index in range(one.num)] == [offset in acked for offset in own]
    assert one.is_done == acked.issuperset(own)
    one.end(frozenset(own))
    assert one.is_done
    assert -(1 << 31) <= one.bit_map < 1 << 31


def test_members_that_nobody_knows_are_passed_over() -> None:
    read = BatchAckMessageRequestBody.read(b'{"acks":[{"c":"g","so":"7","else":[{}]}],"brokerName":"b","else":{"acks":[]}}')
    assert (read.broker_name, read.acks) == ("b", [BatchAck(group="g", start_offset=7)])
    assert AckMsg.read(b'{"ao":3,"else":null,"t":"T"}') == AckMsg(ack_offset=3, topic="T")
    assert AckMsg.read(b'{"ackOffset":3,"else":null,"topic":"T"}') == AckMsg(ack_offset=3, topic="T")


@pytest.mark.parametrize("group", ["c", "consumerGroup"])
@pytest.mark.parametrize("more", [{}, {"else": {"acks": [1]}}], ids=["known", "unknown"])
def test_a_batch_of_thousands(group: str, more: dict[str, Any]) -> None:
    """As large as the request's body may be: what is spelled right is not looked at value by value, whatever stands beside it."""
    said = {"acks": [{group: "g", "b": "AQ==", "pt": at, "q": 0, "r": "0", "so": at, "t": "t", **more} for at in range(3_000)]}
    read = BatchAckMessageRequestBody.read(json.dumps({**said, **more}).encode())
    assert read.acks == [
        BatchAck(group="g", bits="AQ==", pop_time=at, retry="0", start_offset=at, topic="t") for at in range(3_000)
    ]


@given(st.integers(-5, 1 << 40) | st.integers(95, 12_000), st.integers(0, 250))
def test_numbers_one_behind_another(first: int, count: int) -> None:
    numbers = range(first, first + count)
    assert pop_receipt.numbers_text(numbers) == ",".join(map(str, numbers)) == pop_receipt.numbers_text([*numbers])


def test_who_acknowledges_for_groups_with_endless_names_fills_no_memory() -> None:
    for size, more in ((9, 1), (255, 1), (256, 0), (1 << 16, 0)):
        for record in (AckMsg(group="g" * size), BatchAckMsg(group="g" * size), PopCheckPoint(group="g" * size)):
            forms = pop_bodies._point_form if isinstance(record, PopCheckPoint) else pop_bodies._ack_form
            forms.cache_clear()
            assert type(record).read(record.encode()) == record
            assert forms.cache_info().currsize == more


@given(st.integers(0, 1 << 40), st.integers(0, 40), st.integers(0, 3))
def test_distances_of_messages_one_behind_another(start: int, count: int, behind: int) -> None:
    offsets = range(start + behind, start + behind + count)
    distances = diffs_of(offsets, start)
    assert distances == diffs_of([*offsets], start) == [offset - start for offset in offsets]


@given(st.integers(0, 1 << 40), st.sets(st.integers(0, 64)) | st.integers(1, 64).map(lambda count: {*range(count)}))
def test_offsets_of_a_batch(start: int, bits: set[int]) -> None:
    found = BatchAck(start_offset=start, bits=bits_text(sorted(bits))).offsets(64)
    assert [*found] == [start + bit for bit in sorted(bits) if bit < 64]
    several = BatchAckMsg(-1, start, "g", "t", 0, 1, "b", found)
    assert BatchAckMsg.read(several.encode()) == BatchAckMsg(-1, start, "g", "t", 0, 1, "b", [*found])


@given(st.integers(0, 1 << 40), st.integers(1, 32), st.integers(0, 32), st.data())
def test_a_whole_pop_is_done_at_once(start: int, num: int, others: int, data: st.DataObject) -> None:
    whole = [*range(start, start + num)]
    acked = data.draw(st.sampled_from([whole, whole[:-1], whole[1:], [*whole, start + num + others], [one + 1 for one in whole]]))
    one = PopCheckPoint(start, 1, 2, 0, num, 0, "t", "g", 0, [*range(num)], "b")
    one.end(acked)
    assert [one.has_bit(index) for index in range(num)] == [offset in acked for offset in whole]
    assert one.is_done == set(acked).issuperset(whole)


LEFT = {prop.TIMER_ENQUEUE_MS: "1700000000123", prop.TIMER_DEQUEUE_MS: "1700000060123"}
WAITED = {prop.TIMER_OUT_MS: "1700000060000", prop.REAL_TOPIC: "rmq_sys_REVIVE_LOG_c", prop.REAL_QID: "3"}
ODD = st.dictionaries(
    st.sampled_from([prop.TAGS, prop.TIMER_DELIVER_MS, prop.UNIQ_KEY, "X"]), st.text("ack019-\x01", max_size=25)
)


@given(st.sampled_from(["ck", "ack", "bAck"]), st.integers(0, 1 << 60), NAME, ODD, st.booleans())
def test_what_a_stored_record_says_first(tag: str, deliver_ms: int, key: str, odd: dict[str, str], is_odd: bool) -> None:
    """As `find` reads it, whatever the properties are."""
    values = {**pop.record_values(tag, deliver_ms, key), **WAITED, **LEFT, **(odd if is_odd else {})}
    properties = encode_java(values)
    told = find(properties, prop.TAGS.encode()) or b"", find(properties, prop.TIMER_DELIVER_MS.encode()) or b""
    assert pop.tag_and_time(properties) == (told[0].decode(), parse_long(told[1].decode()))
    assert bool(pop._RECORD.match(encode_java({**pop.record_values(tag, 1_700_000_060_000, key), **WAITED, **LEFT})))
