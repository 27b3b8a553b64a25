"""The JSON bodies of administration and client management: what we write is read back; both dialects are read."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmq_wire import fastjson
from rmq_wire.bodies import (
    assignment,
    connections,
    consumer_answers,
    data_version,
    groups,
    heartbeat,
    locks,
    offsets,
    stats,
    topics,
)
from rmq_wire.bodies.body import Body, DialectBody
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.heartbeat import HeartbeatData
from rmq_wire.bodies.locks import LockBatchRequest, QueueName
from rmq_wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from rmq_wire.bodies.stats import ConsumeStats, ConsumeStatsList, OffsetWrapper, TopicOffset, TopicStatsTable
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue
from tests.support.body_values import TEXT, bodies
from tests.support.loops import each

MODULES = (assignment, connections, consumer_answers, data_version, groups, heartbeat, locks, offsets, stats, topics)
PLAIN = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Body) and kind.__module__ == module.__name__
    if not issubclass(kind, (stats.QueueTable, ConsumeStatsList))
]
slow = settings(max_examples=40)
LONG = st.integers(-(2**63), 2**63 - 1)
ANY_BODY = st.sampled_from(PLAIN).flatmap(bodies)
many = settings(max_examples=12 * len(PLAIN))
"""Of each class about a dozen."""
NO_BODIES = (b"", b"{", b"[]", b"5", b'"x"', b"null", b"\xff", b"[" * 10_000, b'{"a":' * 10_000)


@many
@given(ANY_BODY)
def test_a_body_reads_back(value: Body) -> None:
    for text in (value.encode(), fastjson.dumps_fastjson(value.plain()), fastjson.dumps_pretty(value.plain())):
        assert type(value).read(text).plain() == value.plain()


@many
@given(ANY_BODY.filter(lambda value: not isinstance(value, DialectBody)))
def test_a_body_is_strict_json_with_sorted_names_and_without_nulls(value: Body) -> None:
    plain = json.loads(value.encode(), object_pairs_hook=lambda pairs: pairs)
    names = [name for name, _ in plain]
    assert names == sorted(names)
    assert all(item is not None for _, item in plain)


def test_an_empty_body_of_each_class_reads_back() -> None:
    each(PLAIN, lambda kind: comes_back(kind()))


def comes_back(value: Body) -> None:
    assert type(value).read(value.encode()).plain() == value.plain()


def test_what_is_no_body_is_refused() -> None:
    each(product(PLAIN, NO_BODIES), lambda both: refuses(*both))


def refuses(kind: type[Body], text: bytes) -> None:
    with pytest.raises(BadBody):
        kind.read(text)


@many
@given(st.sampled_from(PLAIN), st.binary(max_size=60))
def test_any_bytes_are_a_body_or_refused(kind: type[Body], text: bytes) -> None:
    try:
        kind.read(text)
    except BadBody:
        pass


# -- tables keyed by queue

QUEUES = st.builds(MessageQueue, TEXT, TEXT, st.integers(0, 2**31 - 1))


@slow
@given(st.dictionaries(QUEUES, st.builds(TopicOffset, min_offset=LONG, max_offset=LONG, last_update_timestamp=LONG), max_size=4))
def test_a_table_keyed_by_queue_reads_back(rows: dict[MessageQueue, TopicOffset]) -> None:
    text = TopicStatsTable(offset_table=rows, topic_put_tps=0.5).encode()
    found = fastjson.loads(text)
    assert found["topicPutTps"] == 0.5
    assert found["offsetTable"] == {queue: row.plain() for queue, row in rows.items()}


def test_a_table_keyed_by_queue_is_written_as_java_does() -> None:
    row = OffsetWrapper(broker_offset=3, consumer_offset=1, last_timestamp=9, pull_offset=2)
    body = ConsumeStats(offset_table={MessageQueue("T", "b", 0): row}, consume_tps=1.5)
    text = (
        b'{"consumeTps":1.5,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:'
        b'{"brokerOffset":3,"consumerOffset":1,"lastTimestamp":9,"pullOffset":2}}}'
    )
    assert body.encode() == text
    assert (body.total_diff(), body.inflight_diff()) == (2, 1)
    listed = ConsumeStatsList(broker_addr="a:1", consume_stats_list=[{"G": [body]}], total_diff=2, total_inflight_diff=1)
    assert listed.encode() == (
        b'{"brokerAddr":"a:1","consumeStatsList":[{"G":[' + text + b']}],"totalDiff":2,"totalInflightDiff":1}'
    )


# -- dialects


def test_bare_integer_keys_are_read_and_written_where_java_does() -> None:
    text = b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"offsetTable":{1:10,18:0}}'
    found = DelayOffsetTable.read(text)
    assert found.offset_table == {1: 10, 18: 0}
    assert found.encode() == text
    offsets_text = b'{"offsetTable":{"T@G":{0:5,"1":6}},"groupTopicMap":{"G":["T"]},"pullOffsetTable":{}}'
    assert ConsumerOffsetTable.read(offsets_text).offset_table == {"T@G": {0: 5, 1: 6}}


def test_numbers_in_quotes_nulls_and_unknown_fields_are_lenient() -> None:
    text = b'{"topicName":"T","readQueueNums":"3","perm":null,"attributes":null,"order":"true","futureField":{"a":[1]}}'
    found = TopicConfig.read(text)
    assert found == TopicConfig(topic_name="T", read_queue_nums=3, perm=0, order=True)


def test_a_heartbeat_of_a_real_client() -> None:
    text = (
        b'{"clientID":"172.17.0.2@DEFAULT@1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":'
        b'"CONSUME_PASSIVELY","groupName":"G","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,'
        b'"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1700000000000,"tagsSet":[],"topic":"T"}],"unitMode":'
        b'false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"P"}],"withoutSub":false}'
    )
    found = HeartbeatData.read(text)
    assert found.client_id == "172.17.0.2@DEFAULT@1"
    [consumer] = found.consumer_data_set
    assert (consumer.group_name, consumer.subscription_data_set[0].topic) == ("G", "T")
    assert found.encode() == text


def test_a_memory_view_is_read() -> None:
    view = memoryview(b'{"mqSet":[{"topic":"T","brokerName":"b","queueId":1}]}')
    assert LockBatchRequest.read(view).mq_set == [QueueName(topic="T", broker_name="b", queue_id=1)]


def test_data_versions_move_and_compare() -> None:
    version = DataVersion(counter=1, timestamp=5)
    copy = version.copy()
    assert copy == version
    version.advance(9, 2)
    assert (version.counter, version.state_version, version.timestamp) == (2, 2, 9)
    assert copy != version
    copy.assign(version)
    assert copy == version


def test_a_table_of_topics_leaves_out_what_java_leaves_out() -> None:
    assert json.loads(TopicConfigTable().encode()) == {
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0},
        "topicConfigTable": {},
    }
