"""What a broker registers with a name server, in every spelling: Java's own bytes, ours, and what an attacker makes of them."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.bodies import registration
from rmq_wire.bodies.cluster import BrokerMemberGroup, BrokerMemberGroupAnswer, ClusterInfo
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.kv import KVConfig, KVTable
from rmq_wire.bodies.registration import RegisterBrokerBody, read_register_body, write_compressed
from rmq_wire.bodies.route import BrokerData, QueueData, TopicQueueMappingInfo, TopicRouteData
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.errors import BadBody

JAVA: dict[str, str] = json.loads((Path(__file__).parent / "java_register_body.json").read_text())
PACKED = base64.b64decode(JAVA["compressed"])
V5_5_0, V4_9_8 = 513, 409


def described(body: RegisterBrokerBody) -> dict[str, Any]:
    table = body.topic_config_serialize_wrapper
    return {
        "filters": body.filter_server_list,
        "version": table.data_version,
        "topics": {name: config.plain() for name, config in table.topic_config_table.items()},
        "mappings": {name: info.plain() for name, info in body.queue_mappings().items()},
    }


def test_javas_json_is_read_and_written() -> None:
    body = read_register_body(JAVA["plain"].encode(), compressed=False, version=V5_5_0)
    table = body.topic_config_serialize_wrapper
    assert table.data_version == DataVersion(counter=7, state_version=3, timestamp=1_700_000_000_000)
    assert table.topic_config_table["T"].plain() == {
        "attributes": {"+message.type": "FIFO"},
        "order": True,
        "perm": 7,
        "readQueueNums": 8,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "T",
        "topicSysFlag": 2,
        "writeQueueNums": 4,
    }
    mapping = body.queue_mappings()["T"]
    assert (mapping.bname, mapping.total_queues, mapping.epoch, mapping.curr_id_map) == ("broker-a", 8, 5, {0: 3, 1: 2})
    again = read_register_body(body.encode(), compressed=False, version=V5_5_0)
    assert described(again) == described(body)


@pytest.mark.parametrize("announced", [True, False])
def test_javas_compressed_body_says_the_same(announced: bool) -> None:
    plain = described(read_register_body(JAVA["plain"].encode(), compressed=False, version=V5_5_0))
    packed = described(read_register_body(PACKED, compressed=announced, version=V5_5_0))
    for config in plain["topics"].values():
        config |= {"order": False, "topicSysFlag": 0}  # this spelling has no room for them
    assert packed == plain


def test_before_5_0_no_mappings_follow() -> None:
    inner = zlib.decompress(PACKED)
    mappings = inner.index(b'["f:1","f:2"]') + len(b'["f:1","f:2"]')
    body = read_register_body(zlib.compress(inner[:mappings]), compressed=True, version=V4_9_8)
    assert body.topic_config_serialize_wrapper.topic_config_table.keys() == {"T", "%RETRY%g"}
    with pytest.raises(BadBody, match="middle of a piece"):
        read_register_body(zlib.compress(inner[:mappings]), compressed=True, version=V5_5_0)


def test_before_3_0_11_the_topic_table_stands_alone() -> None:
    table = {"dataVersion": {"counter": 3}, "topicConfigTable": {"T": {"topicName": "T", "perm": 4}}}
    body = read_register_body(json.dumps(table).encode(), compressed=False, version=30)
    assert body.topic_config_serialize_wrapper.topic_config_table["T"].perm == 4
    assert read_register_body(b"", compressed=False, version=V5_5_0).topic_config_serialize_wrapper.data_version == DataVersion()


names = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=8)
topics = st.builds(
    TopicConfig,
    topic_name=names,
    read_queue_nums=st.integers(0, 64),
    write_queue_nums=st.integers(0, 64),
    perm=st.integers(0, 15),
    topic_filter_type=st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    attributes=st.dictionaries(names, names, max_size=2),
)


@given(st.dictionaries(names, topics, max_size=4), st.integers(0, 2**62), st.lists(names, max_size=2))
def test_what_we_compress_reads_back(table: dict[str, TopicConfig], counter: int, filters: list[str]) -> None:
    for name, config in table.items():
        config.topic_name = name
    body = RegisterBrokerBody(
        filter_server_list=filters,
        topic_config_serialize_wrapper=TopicConfigTable(
            data_version=DataVersion(counter=counter),
            topic_config_table=table,
            topic_queue_mapping_info_map={"T": TopicQueueMappingInfo(topic="T", bname="b", curr_id_map={3: 4}).plain()},
        ),
    )
    assert described(read_register_body(write_compressed(body), compressed=True, version=V5_5_0)) == described(body)


def packed(*pieces: bytes | int) -> bytes:
    """A stream of length-prefixed pieces; a number stands for itself."""
    inner = b"".join(
        struct.pack(">i", piece) if isinstance(piece, int) else struct.pack(">i", len(piece)) + piece for piece in pieces
    )
    return zlib.compress(inner)


VERSION = b'{"counter":1,"stateVersion":0,"timestamp":2}'


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (b"x", "ends in the middle|incorrect"),
        (packed(-1), "a piece of -1 bytes"),
        (packed(2**31 - 1), "inflates to more than"),
        (packed(VERSION, 2**31 - 1), "ends in the middle"),
        (packed(VERSION, 1, 100), "ends in the middle"),
        (packed(VERSION, 1, b""), "not a topic"),
        (packed(VERSION, 1, b"T 1 2 3"), "not a topic"),
        (packed(VERSION, 1, b"T 1 2 x SINGLE_TAG"), "not a topic"),
        (packed(VERSION, 1, b"T 1 2 99999999999 SINGLE_TAG"), "not a topic"),
        (packed(VERSION, 1, b"T 1 2 6 NO_TAG"), "not a topic"),
        (packed(VERSION, 1, b"\xff 1 2 6 SINGLE_TAG"), "invalid start byte"),
        (packed(b"not json", 0), "JSON"),
        (packed(b"[" * 1000, 0), "64 levels"),
        (packed(VERSION, 0, b"[]", 1, b"{}"), "without topic"),
        (packed(VERSION, 0, b"[]", 1, b'{"topic":"T","currIdMap":{"a":1}}'), "int"),
        (packed(VERSION, 0, b"[]")[:-8], "ends in the middle|incorrect"),
        (b"\x78\x9c" + bytes(20), "invalid|ends"),
    ],
)
def test_broken_streams_are_refused(stream: bytes, complaint: str) -> None:
    with pytest.raises(BadBody, match=complaint):
        read_register_body(stream, compressed=True, version=V5_5_0)


def test_counts_below_zero_are_none_and_broken_attributes_are_left_out() -> None:
    body = read_register_body(packed(VERSION, -5, b"not json", -1), compressed=True, version=V5_5_0)
    assert body.filter_server_list == []
    body = read_register_body(packed(VERSION, 1, b"T +8 4 6 MULTI_TAG {oops", b"[]", 0), compressed=True, version=V5_5_0)
    assert body.topic_config_serialize_wrapper.topic_config_table["T"].attributes == {}
    assert body.topic_config_serialize_wrapper.topic_config_table["T"].read_queue_nums == 8


def test_a_bomb_costs_no_memory_beyond_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "INFLATED_BYTES_MAX", 1 << 20)
    bomb = zlib.compress(struct.pack(">i", (1 << 20) - 64) + bytes(64 << 20))
    endless = zlib.compress(
        b"".join(
            [
                struct.pack(">i", len(VERSION)),
                VERSION,
                struct.pack(">i", 2**31 - 1),
                *([struct.pack(">i", 20) + b"T 1 2 6 SINGLE_TAG {}"[:20]] * 60_000),
            ]
        )
    )
    tracemalloc.start()
    try:
        for stream in (bomb, endless):
            with pytest.raises(BadBody):
                read_register_body(stream, compressed=True, version=V5_5_0)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_a_changed_byte_is_read_or_refused(at: int, change: int) -> None:
    spoiled = bytearray(PACKED)
    spoiled[at] ^= change
    try:
        read_register_body(bytes(spoiled), compressed=True, version=V5_5_0)
    except BadBody:
        pass


@given(st.integers(0, len(zlib.decompress(PACKED)) - 1), st.integers(1, 255))
def test_a_changed_byte_within_is_read_or_refused(at: int, change: int) -> None:
    inner = bytearray(zlib.decompress(PACKED))
    inner[at] ^= change
    for version in (V5_5_0, V4_9_8):
        try:
            read_register_body(zlib.compress(bytes(inner), 1), compressed=True, version=version).queue_mappings()
        except BadBody:
            pass


def test_routes_in_both_spellings() -> None:
    route = TopicRouteData(
        queue_datas=[QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6)],
        broker_datas=[BrokerData(cluster="C", broker_name="b", broker_addrs={1: "h:2", 0: "é:1"})],
        topic_queue_mapping_by_broker={"b": TopicQueueMappingInfo(topic="T", bname="b", total_queues=1, curr_id_map={0: 0})},
    )
    assert (
        route.encode()
        == (
            '{"brokerDatas":[{"brokerAddrs":{"0":"é:1","1":"h:2"},"brokerName":"b","cluster":"C","enableActingMaster":false}],'
            '"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}],'
            '"topicQueueMappingByBroker":{"b":{"bname":"b","currIdMap":{"0":0},"dirty":false,"epoch":0,"scope":"__global__",'
            '"topic":"T","totalQueues":1}}}'
        ).encode()
    )
    bare = route.encode_fastjson()
    assert b'{0:"' in bare
    assert b'"currIdMap":{0:0}' in bare
    for text in (route.encode(), bare):
        again = TopicRouteData.read(text)
        assert again.broker_datas == route.broker_datas
        assert again.queue_datas == route.queue_datas


def test_clusters_members_and_key_values() -> None:
    broker = BrokerData(cluster="C", broker_name="b", broker_addrs={0: "h:1"})
    info = ClusterInfo(broker_addr_table={"b": broker}, cluster_addr_table={"C": ["b"]})
    assert info.encode_fastjson() == (
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"C","enableActingMaster":false}},'
        b'"clusterAddrTable":{"C":["b"]}}'
    )
    assert ClusterInfo.read(info.encode_fastjson()) == info
    answer = BrokerMemberGroupAnswer(broker_member_group=BrokerMemberGroup(cluster="C", broker_name="b", broker_addrs={0: "h:1"}))
    assert answer.encode_fastjson() == b'{"brokerMemberGroup":{"brokerAddrs":{0:"h:1"},"brokerName":"b","cluster":"C"}}'
    assert KVTable.read(b'{"table":{"k":"v"}}').table == {"k": "v"}
    assert KVConfig.read(b'{"configTable":{"n":{"k":"v"}}}').config_table == {"n": {"k": "v"}}
