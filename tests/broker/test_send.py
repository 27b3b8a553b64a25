"""Sends that are taken: what is stored, what the sender is answered, and that the fast path and the rules store the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmq_wire.batch import Item
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Form
from rmq_wire.headers.send import SendBatchMessage, SendMessage, SendMessageResponse
from rmq_wire.message import read_unit
from rmq_wire.properties import Rewriter
from tests.support.engine import Harness
from tests.support.requests import WALL_MS, batch, pairs, props, said, send

UNIQUE = "7F0000010000123456" + "0" * 14


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path)
    harness.topic("T")
    return harness


def test_the_answer_says_where(harness: Harness) -> None:
    client = harness.connect()
    for number in range(3):
        code, remark, ext = said(client.ask(send(queue_id=1, properties=pairs(UNIQ_KEY=UNIQUE)), b"body"))
        unit = harness.stored("T", 1)[number]
        assert (code, remark) == (ResponseCode.SUCCESS, None)
        assert ext == {
            "msgId": f"7F00000100002A9F{unit.physical_offset:016X}",
            "queueId": "1",
            "queueOffset": str(number),
            "transactionId": UNIQUE,
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        }


def test_the_unit_is_what_was_sent(harness: Harness) -> None:
    client = harness.connect("10.1.2.3")
    asked = send(
        queue_id=2, flag=7, sys_flag=0x300 | 1, reconsume_times=4, properties=pairs(UNIQ_KEY=UNIQUE, TAGS="A", KEYS="k1 k2")
    )
    client.ask(asked, b"\x00\x01binary")
    [unit] = harness.stored("T", 2)
    assert unit.body == b"\x00\x01binary"
    assert (unit.flag, unit.sys_flag, unit.reconsume_times, unit.born_timestamp) == (7, 0x301, 4, WALL_MS - 5)
    assert unit.born_host == bytes([10, 1, 2, 3]) + client.peer.remote[1].to_bytes(4, "big")
    assert unit.store_host == bytes([127, 0, 0, 1]) + (10911).to_bytes(4, "big")
    assert (unit.store_timestamp, unit.prepared_transaction_offset) == (WALL_MS, 0)
    assert props(unit) == {
        "UNIQ_KEY": UNIQUE,
        "TAGS": "A",
        "KEYS": "k1 k2",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }


def test_old_and_new_header_and_both_forms_store_the_same(harness: Harness) -> None:
    client = harness.connect()
    new = send(properties=pairs(UNIQ_KEY=UNIQUE, a="1"))
    shared = {name: getattr(new, name) for name in SendMessage.__struct_fields__ if hasattr(new, name)}
    client.ask(new, b"one")
    client.ask(SendMessage(**shared), b"one")
    binary = client.ask(new, b"one", form=Form.ROCKETMQ)
    assert binary.form == Form.ROCKETMQ
    assert binary.header(SendMessageResponse).queue_offset == 2
    units = harness.stored("T", 0)
    assert len(units) == 3
    assert len({(unit.body, unit.properties) for unit in units}) == 1


def test_a_one_way_send_is_stored_and_not_answered(harness: Harness) -> None:
    client = harness.connect()
    client.send_oneway(send(), b"first")
    client.send_oneway(send(), b"second")
    assert [bytes(unit.body) for unit in harness.stored("T", 0)] == [b"first", b"second"]
    assert client.answers == {}


def test_a_missing_unique_key_is_made(harness: Harness) -> None:
    client = harness.connect()
    keys = {client.ask(send(properties=""), b"x").ext_map()["transactionId"] for _ in range(5)}
    assert len(keys) == 5
    assert {props(unit)["UNIQ_KEY"] for unit in harness.stored("T", 0)} == keys


def test_queue_minus_one_is_any_queue(harness: Harness) -> None:
    client = harness.connect()
    queues = {client.ask(send(queue_id=-1), b"x").ext_map()["queueId"] for _ in range(64)}
    assert queues == {"0", "1", "2", "3"}
    assert sum(len(harness.stored("T", queue)) for queue in range(4)) == 64


def test_an_unknown_topic_is_made_after_its_template(harness: Harness) -> None:
    client = harness.connect()
    assert client.ask(send("New", default_topic_queue_nums=3), b"x").code == 0
    made = harness.node.topics.get("New")
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)


def test_an_ipv6_sender(harness: Harness) -> None:
    client = harness.connect("2001:db8::1")
    client.ask(send(sys_flag=0x20), b"x")
    [unit] = harness.stored("T", 0)
    assert unit.sys_flag == 0x10  # the flag for the store host, which the client made up, is gone
    assert len(unit.born_host) == 20


def test_a_multi_tag_topic_marks_its_messages(harness: Harness) -> None:
    harness.topic("Multi", topic_filter_type="MULTI_TAG")
    client = harness.connect()
    client.ask(send("Multi"), b"x")
    client.ask(send("Multi"), b"x")
    assert [unit.sys_flag for unit in harness.stored("Multi", 0)] == [2, 2]


def test_pop_ck_is_not_stored(harness: Harness) -> None:
    client = harness.connect()
    for _ in range(2):
        client.ask(send(properties=pairs(UNIQ_KEY=UNIQUE, POP_CK="forged", a="b")), b"x")
    assert all("POP_CK" not in props(unit) for unit in harness.stored("T", 0))


def test_priority_chooses_the_queue(harness: Harness) -> None:
    client = harness.connect()
    ext = client.ask(send(properties=pairs(_SYS_MSG_PRIORITY_="9")), b"x").ext_map()
    assert ext["queueId"] == "3"
    assert props(harness.stored("T", 3)[0])["_SYS_MSG_PRIORITY_"] == "9"
    client.ask(send(properties=pairs(_SYS_MSG_PRIORITY_="2", __SHARDINGKEY="k")), b"x")
    assert "_SYS_MSG_PRIORITY_" not in props(harness.stored("T", 0)[0])
    assert client.ask(send(properties=pairs(_SYS_MSG_PRIORITY_="9" * 5_000)), b"x").code == 0, "more digits than Python reads"


def test_a_lite_topic_is_noted(harness: Harness) -> None:
    harness.connect().ask(send(properties=pairs(__LITE_TOPIC="child")), b"x")
    assert props(harness.stored("T", 0)[0])["INNER_MULTI_DISPATCH"] == "%LMQ%$T$child"


def test_the_second_send_takes_the_fast_path(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = harness.connect()
    client.ask(send(), b"x")
    monkeypatch.setattr(harness.capability(310).rules, "answer", lambda *_: pytest.fail("not the fast path"))
    client.ask(send(queue_id=3), b"x")
    harness.node.topics.put(TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1))
    monkeypatch.undo()
    assert client.ask(send(queue_id=3), b"x").code == ResponseCode.INVALID_PARAMETER


def test_statistics_count_messages(harness: Harness) -> None:
    client = harness.connect()
    for _ in range(3):
        client.ask(send(), b"x")
    size = sum(unit.total_size for unit in harness.stored("T", 0))
    stats = harness.capability(310)._stats
    assert stats.item("TOPIC_PUT_NUMS", "T").value == 3
    assert stats.item("TOPIC_PUT_SIZE", "T").value == size


def test_a_batch_becomes_units_with_their_own_properties(harness: Harness) -> None:
    client = harness.connect()
    sent = [pairs(UNIQ_KEY=f"K{n}", TAGS=f"T{n}", z="1", a="2").encode() for n in range(3)]
    items = [Item(n, f"body {n}".encode(), sent[n]) for n in range(3)]
    code, remark, ext = said(client.ask(*batch(*items, queue_id=1, properties=pairs(UNIQ_KEY=UNIQUE, WAIT="true"))))
    units = harness.stored("T", 1)
    assert (code, remark) == (0, None)
    assert [(unit.flag, bytes(unit.body), unit.properties, unit.queue_offset) for unit in units] == [
        (n, f"body {n}".encode(), sent[n], n) for n in range(3)
    ]
    assert ext["msgId"] == ",".join(f"7F00000100002A9F{unit.physical_offset:016X}" for unit in units)
    assert (ext["queueOffset"], ext["transactionId"], ext["queueId"]) == ("0", UNIQUE, "1")


def test_a_batch_without_unique_key_has_no_transaction_id(harness: Harness) -> None:
    ext = harness.connect().ask(*batch(Item(0, b"x", b""), properties="")).ext_map()
    assert "transactionId" not in ext


def test_a_batch_is_found_by_the_keys_of_its_messages(harness: Harness) -> None:
    client = harness.connect()
    client.ask(*batch(*[Item(0, b"x", pairs(UNIQ_KEY=f"U{n}", KEYS=f"order{n}").encode()) for n in range(3)]))
    found = harness.node.store.query("T", "order1", 32, 0, 1 << 62)
    assert [props(read_unit(bytes(unit)))["UNIQ_KEY"] for unit in found.units] == ["U1"]


def test_batch_says_so_by_its_flag_not_by_its_code(harness: Harness) -> None:
    asked, body = batch(Item(0, b"inner", b""))
    client = harness.connect()
    client.ask(send(batch=True), body)
    plain = SendBatchMessage(**{name: getattr(send(), name) for name in asked.__struct_fields__})
    client.ask(plain, body)
    assert [bytes(unit.body) for unit in harness.stored("T", 0)] == [b"inner", body]


names = st.text("ABCabc_1é", min_size=1, max_size=4)
values = st.text("xyz 1é", min_size=1, max_size=5)
lists = st.lists(st.tuples(names, values), max_size=12)
special = st.lists(
    st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "WAIT", "POP_CK", "CLUSTER", "TRACE_ON"]), unique=True, max_size=4
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(lists, special, st.sampled_from(["", "\x02", "\x01", "a\x01\x02"]))
def test_both_ways_store_the_same(harness: Harness, sent: list[tuple[str, str]], more: list[str], tail: str) -> None:
    """The second send of the same names takes the fast path; a made-up key would differ, so there is always one."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in [*sent, *((name, f"v{name}") for name in more)])
    text += pairs(UNIQ_KEY=UNIQUE) + tail
    client = harness.connect()
    capability = harness.capability(310)
    capability._paths.clear()
    capability._rewriter = capability.rules.rewriter = Rewriter(cluster="DefaultCluster", region="DefaultRegion", trace_on=True)
    for _ in range(3):
        assert client.ask(send(properties=text), b"x").code == 0
    first, *others = harness.stored("T", 0)[-3:]
    for unit in others:
        assert unit.properties == first.properties
    assert harness.node.store.query("T", UNIQUE, 64, 0, 1 << 62).units
