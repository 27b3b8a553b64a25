"""The rule book: what a stored message implies for queues and index."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire import property_names as prop
from rmq_wire.implied import delay_levels, inner_batch, light_queues
from rmq_wire.implied.filler import FILLER_TOPIC, is_filler
from rmq_wire.implied.index_keys import index_hash, index_keys, is_indexed, key_hash, stored_index_keys, topic_hash
from rmq_wire.implied.queue_entries import OFFSET_END, QueueEntry, queue_entries, why_no_queue
from rmq_wire.implied.tags import stored_tags_code, tags_code
from rmq_wire.implied.topics import allows_light_queues, is_users_topic
from rmq_wire.java import parse_int, string_hash
from rmq_wire.message import StoredMessage, pack_unit, read_unit
from rmq_wire.message_id import pack_host
from rmq_wire.names import SCHEDULE_TOPIC
from rmq_wire.properties import decode, encode, find
from rmq_wire.sys_flag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

HOST = pack_host("127.0.0.1", 10911)
STORED_MS = 1_700_000_000_000
HOSTILE = st.lists(
    st.sampled_from([b"\x01", b"\x02", b"TAGS", b"KEYS", b"a", b" ", b"\xff", b"\xe4\xb8", b"5", b"TAGS\x01\x02"]), max_size=24
).map(b"".join)


def unit(topic: str | bytes = "T", properties: dict[str, str] | bytes = b"", **fields: Any) -> StoredMessage:
    raw = topic.encode() if isinstance(topic, str) else topic
    text = properties if isinstance(properties, bytes) else encode(properties).encode()
    given = {"queue_id": 3, "queue_offset": 7, "sys_flag": 0, **fields}
    return read_unit(
        pack_unit(
            given["queue_id"],
            0,
            given["queue_offset"],
            100,
            given["sys_flag"],
            STORED_MS,
            HOST,
            STORED_MS,
            HOST,
            0,
            0,
            b"x",
            raw,
            text,
        )
    )


def entries(stored: StoredMessage, batch: bool = False) -> list[QueueEntry]:
    return queue_entries(stored, delay_levels.DELAY_LEVELS_MS, lambda _: batch)


# --- queues


def test_a_plain_message() -> None:
    assert entries(unit(properties={prop.TAGS: "TagA"})) == [QueueEntry("T", 3, 7, 1, 2598919)]
    assert entries(unit()) == [QueueEntry("T", 3, 7, 1, 0)]
    assert entries(unit(sys_flag=TRANSACTION_COMMIT)) == [QueueEntry("T", 3, 7, 1, 0)]


@pytest.mark.parametrize("kind", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK])
def test_transactions_without_a_place(kind: int) -> None:
    assert entries(unit(sys_flag=kind)) == []
    assert is_indexed(kind) is (kind == TRANSACTION_PREPARED)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"topic": "a/b"}, "topic"),
        ({"topic": ".."}, "topic"),
        ({"topic": b"\xff"}, "topic"),
        ({"topic": ""}, "topic"),
        ({"queue_id": -1}, "queue -1"),
        ({"queue_offset": -1}, "offset -1"),
        ({"queue_offset": OFFSET_END}, f"offset {OFFSET_END}"),
    ],
)
def test_what_no_queue_can_hold(fields: dict[str, Any], why: str) -> None:
    light = {prop.INNER_MULTI_DISPATCH: "%LMQ%a", prop.INNER_MULTI_QUEUE_OFFSET: "1"}
    stored = unit(**{"properties": light, **fields})
    assert why in why_no_queue(stored)
    assert entries(stored) == []


def test_a_half_message_may_have_any_offset() -> None:
    assert why_no_queue(unit(queue_offset=-1, sys_flag=TRANSACTION_PREPARED)) == ""


# --- delay levels


def test_levels() -> None:
    assert delay_levels.parse_delay_levels("1s 2m 3h 4d") == (1000, 120_000, 10_800_000, 345_600_000)
    assert len(delay_levels.DELAY_LEVELS_MS) == 18
    for wrong in ("", "1", "1x", "s", "one", "1s  2s", "-1s"):
        with pytest.raises(ValueError, match="times like"):
            delay_levels.parse_delay_levels(wrong)


@pytest.mark.parametrize(
    ("text", "delay"),
    [("1", 1000), ("18", 7_200_000), ("19", 7_200_000), ("+3", 10_000), ("0" * 70 + "2", 5000), (str((1 << 31) - 1), 7_200_000)],
)
def test_when_a_delayed_message_is_due(text: str, delay: int) -> None:
    stored = unit(SCHEDULE_TOPIC, {prop.DELAY: text, prop.TAGS: "TagA"})
    assert [one.tags_code for one in entries(stored)] == [STORED_MS + delay]
    assert [one.tags_code for one in entries(stored._replace(topic=b"T"))] == [tags_code("TagA")]


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", str(1 << 31), "9" * 5000, "\u0661"])
def test_without_a_level_it_has_its_tags(text: str) -> None:
    assert [one.tags_code for one in entries(unit(SCHEDULE_TOPIC, {prop.DELAY: text, prop.TAGS: "TagA"}))] == [2598919]


def test_without_levels_a_second() -> None:
    assert delay_levels.delay_of(5, ()) == 1000


# --- inner batches


@pytest.mark.parametrize(
    ("text", "count"),
    [("2", 2), ("9999", 9999), ("10000", 10_000), ("32767", 32_767), ("32768", 1), ("0", 1), ("-3", 1), ("x", 1), ("000012", 12)],
)
def test_inner_batches(text: str, count: int) -> None:
    stored = unit(properties={prop.INNER_NUM: text}, sys_flag=INNER_BATCH)
    assert [one.span for one in entries(stored, batch=True)] == [count]
    assert [one.span for one in entries(stored, batch=False)] == [1]
    assert [one.span for one in entries(unit(properties={prop.INNER_NUM: text}), batch=True)] == [1]


def test_a_batch_that_does_not_say_its_count() -> None:
    assert inner_batch.inner_count(b"") is None
    assert inner_batch.message_count(INNER_BATCH, b"") == 1


# --- light queues


def places(names: str, offsets: str, topic: str = "T") -> dict[str, int]:
    return light_queues.light_places(
        topic, 0, encode({prop.INNER_MULTI_DISPATCH: names, prop.INNER_MULTI_QUEUE_OFFSET: offsets}).encode()
    )


@pytest.mark.parametrize(
    ("names", "offsets", "expected"),
    [
        ("%LMQ%a", "5", {"%LMQ%a": 5}),
        ("%LMQ%a,%LMQ%b", "5,6", {"%LMQ%a": 5, "%LMQ%b": 6}),
        ("%LMQ%a,", "5", {"%LMQ%a": 5}),
        ("x,%LMQ%a", ",5", {"%LMQ%a": 5}),
        ("%LMQ%a,%LMQ%a", "5,6", {"%LMQ%a": 5}),
        ("%LMQ%a,%LMQ%b", "5", {}),
        ("%LMQ%a", "5,6", {}),
        ("%LMQ%a", "-5", {}),
        ("%LMQ%a", "\u0665", {}),
        ("%LMQ%a", "1" * 19, {}),
        ("%LMQ%a", "", {}),
        ("%LMQ%a/b,%LMQ%c", "0,4", {"%LMQ%c": 4}),
        ("x", "5", {}),
        (" ", "5", {}),
    ],
)
def test_light_places(names: str, offsets: str, expected: dict[str, int]) -> None:
    assert places(names, offsets) == expected
    stored = unit(properties={prop.INNER_MULTI_DISPATCH: names, prop.INNER_MULTI_QUEUE_OFFSET: offsets, prop.TAGS: "a"})
    light = [QueueEntry(name, 0, offset, 1, 97, is_light=True) for name, offset in expected.items()]
    assert entries(stored) == [QueueEntry("T", 3, 7, 1, 97), *light]


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g", "rmq_sys_wheel_timer", SCHEDULE_TOPIC])
def test_copies_are_in_no_light_queue(topic: str) -> None:
    assert places("%LMQ%a", "5", topic) == {}
    assert light_queues.light_names(topic, encode({prop.INNER_MULTI_DISPATCH: "%LMQ%a"}).encode()) == []


def test_a_message_that_names_its_own_queue_is_there_once() -> None:
    light = {prop.INNER_MULTI_DISPATCH: "%LMQ%a,%LMQ%b", prop.INNER_MULTI_QUEUE_OFFSET: "4,5"}
    b = QueueEntry("%LMQ%b", 0, 5, 1, 0, is_light=True)
    assert entries(unit("%LMQ%a", light, queue_id=0)) == [QueueEntry("%LMQ%a", 0, 7, 1, 0), b]
    assert entries(unit("%LMQ%a", light)) == [
        QueueEntry("%LMQ%a", 3, 7, 1, 0),
        QueueEntry("%LMQ%a", 0, 4, 1, 0, is_light=True),
        b,
    ]


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_properties_are_read_for_light_queues(names: bytes, offsets: bytes) -> None:
    stored = b"INNER_MULTI_DISPATCH\x01" + names + b"\x02INNER_MULTI_QUEUE_OFFSET\x01" + offsets + b"\x02"
    found = light_queues.light_names("T", stored)
    for name, offset in light_queues.light_places("T", 0, stored).items():
        assert name in found
        assert light_queues.is_light_queue(name)
        assert offset >= 0


# --- tags and index


@given(HOSTILE)
def test_stored_bytes_and_decoded_text_say_the_same(properties: bytes) -> None:
    """The quick look for one property, and reading all of them."""
    values = decode(properties.decode("utf-8", "replace"))
    for name in (prop.TAGS, prop.KEYS, "a"):
        found = find(properties, name.encode())
        assert (found.decode("utf-8", "replace") if found else None) == values.get(name)
    assert stored_tags_code(properties) == tags_code(values.get(prop.TAGS))
    assert stored_index_keys(properties) == index_keys(values.get(prop.UNIQ_KEY), values.get(prop.KEYS), values.get(prop.TAGS))


def test_a_value_that_is_empty_hides_none() -> None:
    assert find(b"TAGS\x01a\x02TAGS\x01\x02", b"TAGS") == b"a"
    assert find(b"TAGS\x01\x02", b"TAGS") is None


def test_index_keys() -> None:
    stored = encode({prop.UNIQ_KEY: "U", prop.KEYS: "a  b", prop.TAGS: "t t"}).encode()
    assert stored_index_keys(stored) == ("U", "a", "b", "T#t t")
    assert index_hash("T", "a") == abs(string_hash("T#a")) == key_hash(topic_hash("T"), "a")


@given(st.integers(-(1 << 33), 1 << 33), st.integers(0, 12), st.sampled_from(["", "+"]))
def test_java_ints(number: int, zeros: int, plus: str) -> None:
    text = f"-{'0' * zeros}{-number}" if number < 0 else f"{plus}{'0' * zeros}{number}"
    assert parse_int(text) == (number if -(1 << 31) <= number < 1 << 31 else None)
    for wrong in ("", "+", "-", "1 ", "1_0", "--1"):
        assert parse_int(wrong) is None


# --- topics


@pytest.mark.parametrize(
    ("topic", "users", "light"),
    [
        ("T", True, True),
        ("%LMQ%a", True, True),
        ("%RETRY%g", False, False),
        ("%DLQ%g", False, False),
        ("rmq_sys_x", False, False),
        (SCHEDULE_TOPIC, False, False),
        ("RMQ_SYS_TRACE_TOPIC", False, True),
    ],
)
def test_topics(topic: str, users: bool, light: bool) -> None:
    assert (is_users_topic(topic), allows_light_queues(topic)) == (users, light)


def test_fillers() -> None:
    filler = unit(FILLER_TOPIC, sys_flag=TRANSACTION_ROLLBACK, queue_id=0, queue_offset=0)
    for one in (filler, filler._replace(topic=b""), filler._replace(topic=b"RMQ_I")):
        assert is_filler(one)
        assert not entries(one)
        assert not is_indexed(one.sys_flag)
    for other in (
        filler._replace(topic=b"T"),
        filler._replace(sys_flag=0),
        filler._replace(queue_offset=1),
        filler._replace(queue_id=1),
        filler._replace(properties=b"a\x01b\x02"),
    ):
        assert not is_filler(other)
