"""The rule book on columns against the rule book message by message: any properties, hostile ones among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from rmq_columns.decode import implied
from rmq_columns.decode.texts import Hasher, properties_of
from rmq_columns.decode.units import read, slices, topics, walk
from rmq_columns.rebuild.entries import Kind, Maker, Rules
from rmq_wire import property_names as prop
from rmq_wire.implied.index_keys import index_hash, is_indexed, stored_index_keys, topic_hash
from rmq_wire.implied.queue_entries import OFFSET_END, UNQUEUED, queue_entries, why_no_queue
from rmq_wire.message import StoredMessage, pack_unit, read_unit
from rmq_wire.message_id import pack_host
from rmq_wire.names import SCHEDULE_TOPIC
from rmq_wire.sys_flag import INNER_BATCH, TRANSACTION_MASK

HOST = pack_host("127.0.0.1", 10911)
BATCH = "Packed"
LEVELS = (1000, 5000, 10_000)
TOPICS = [b"T", BATCH.encode(), SCHEDULE_TOPIC.encode(), b"%RETRY%g", b"%DLQ%g", b"rmq_sys_x", b"%LMQ%own", "Thema-ä".encode()]
FORGED_TOPICS = [b"", b".", b"a/b", b"\xff\xfe", b"a\x00b", b"%LMQ%a/b"]
NAMES = [one.encode() for one in (prop.TAGS, prop.KEYS, prop.UNIQ_KEY, prop.DELAY, prop.INNER_NUM)]
LIGHT_NAMES = [one.encode() for one in (prop.INNER_MULTI_DISPATCH, prop.INNER_MULTI_QUEUE_OFFSET)]
VALUES = some.one_of(
    some.sampled_from(
        [b"1", b"2", b"3", b"12", b"+2", b"-1", b"0", b"007", b"9999", b"10000", b"32767", b"32768", b"2147483648"]
    ),
    some.sampled_from(
        [b"9" * 40, b"0" * 40 + b"2", "\u0661".encode(), b"1 ", b"a b", b"  a  b ", b"\xe4\xb8", b"\xed\xa0\x80", b"\xff"]
    ),
    some.sampled_from(["Ärger".encode(), "標\U0001f600".encode(), b"polygenelubricants", b"x" * 300]),
    some.binary(max_size=8),
)
LIGHT = some.lists(
    some.sampled_from([b"%LMQ%a", b"%LMQ%b", b"%LMQ%own", b"x", b"", b"%LMQ%a/b", b"%LMQ%\xff", b"%LMQ%"]), max_size=4
)
OFFSETS = some.lists(some.sampled_from([b"0", b"3", b"7", b"", b"-1", b"x", b"9" * 18, b"9" * 19, "\u0661".encode()]), max_size=4)
PAIRS = some.one_of(
    some.tuples(some.sampled_from(NAMES), VALUES),
    some.tuples(some.just(LIGHT_NAMES[0]), LIGHT.map(b",".join)),
    some.tuples(some.just(LIGHT_NAMES[1]), OFFSETS.map(b",".join)),
    some.tuples(some.sampled_from([*NAMES, *LIGHT_NAMES, b"", b"a"]), some.sampled_from([b"", b"\x01", b"\x01x"])),
)


def joined(pairs: list[tuple[bytes, bytes]], end: bytes) -> bytes:
    return b"\x02".join(name + b"\x01" + value for name, value in pairs) + end


PROPERTIES = some.builds(joined, some.lists(PAIRS, max_size=7), some.sampled_from([b"\x02", b"", b"\x01", b"\x02\x02"]))


class Stored(NamedTuple):
    topic: bytes
    queue_id: int
    queue_offset: int
    sys_flag: int
    stored_ms: int
    properties: bytes


UNITS = some.lists(
    some.builds(
        Stored,
        some.one_of(some.sampled_from(TOPICS), some.sampled_from(FORGED_TOPICS)),
        some.sampled_from([0, 1, 7, -1, (1 << 31) - 1]),
        some.sampled_from([0, 1, 5, -1, OFFSET_END - 1, OFFSET_END, (1 << 63) - 1]),
        some.sampled_from([0, 0, INNER_BATCH, UNQUEUED, TRANSACTION_MASK, INNER_BATCH | UNQUEUED]),
        some.integers(0, 1 << 45),
        PROPERTIES,
    ),
    min_size=1,
    max_size=12,
)


def written(messages: list[Stored]) -> tuple[bytes, list[StoredMessage]]:
    log = b""
    for one in messages:
        log += pack_unit(
            *(one.queue_id, 0, one.queue_offset, len(log), one.sys_flag, one.stored_ms, HOST, one.stored_ms, HOST, 0, 0),
            b"b",
            one.topic,
            one.properties,
        )
    found, at = [], 0
    while at < len(log):
        found.append(read_unit(log, at))
        at += found[-1].total_size
    return log, found


def is_batch(topic: str) -> bool:
    return topic == BATCH


@settings(max_examples=300)
@given(UNITS)
def test_queue_entries(messages: list[Stored]) -> None:
    log, stored = written(messages)
    places, _ = walk(log, 0, len(log))
    buffer = np.frombuffer(log, np.uint8)
    maker = Maker(Rules(LEVELS, batch_topics=frozenset({BATCH})))
    made = maker.take(buffer, read(buffer, np.array(places), len(log)))
    found = [
        (physical, key.topic, key.queue_id, offset, span, code, size, ms)
        for key, offset, physical, size, code, ms, span in zip(
            [maker.queues[number] for number in made.queue.tolist()], *[column.tolist() for column in made[1:]], strict=True
        )
    ]
    expected = [
        (one.physical_offset, *entry[:5], one.total_size, one.store_timestamp)
        for one in stored
        for entry in queue_entries(one, LEVELS, is_batch)
    ]
    assert found == expected
    assert all((key.kind is Kind.LIGHT) is key.topic.startswith("%LMQ%") for key in maker.queues)
    assert maker.in_no_queue == sum(bool(not one.sys_flag & UNQUEUED and why_no_queue(one)) for one in stored)


@settings(max_examples=300)
@given(UNITS)
def test_index_entries(messages: list[Stored]) -> None:
    log, stored = written(messages)
    places, _ = walk(log, 0, len(log))
    buffer = np.frombuffer(log, np.uint8)
    units = read(buffer, np.array(places), len(log))
    properties = properties_of(list(slices(buffer.data, units.properties_at, units.properties_size)), units.properties_size)
    values = [properties.values(name.encode()) for name in (prop.UNIQ_KEY, prop.KEYS, prop.TAGS)]
    texts = [topic.decode("utf-8", "replace") for topic in topics(buffer.data, units)]
    hashes = np.array([topic_hash(topic) for topic in texts], np.int32)
    made = implied.index_entries(Hasher(properties.data), *values, hashes, implied.is_indexed(units["sys_flag"]))
    expected = [
        (row, index_hash(topic, key), key.startswith("T#") and number == len(keys) - 1)
        for row, (topic, one) in enumerate(zip(texts, stored, strict=True))
        if is_indexed(one.sys_flag)
        for keys in [stored_index_keys(one.properties)]
        for number, key in enumerate(keys)
    ]
    assert list(zip(*[column.tolist() for column in made], strict=True)) == expected
