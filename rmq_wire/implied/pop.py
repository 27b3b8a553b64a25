"""POP: what the records of the revive topic say, and what becomes of a message that nobody acknowledged.

A pop stores a check point (`ck`) and each acknowledgement a record (`ack`, `bAck` for several) in one queue of the revive topic.
Both are timer messages: a check point is due a second before the message may be handed out again, an acknowledgement at that
time, so the queue is in the order of due times, and an acknowledgement comes behind its check point.  Who reads the queue pairs
them, and stores a copy of what was not acknowledged in the group's retry topic.

Sources: `PopAckConstants`, `KeyBuilder`, `PopMessageProcessor` (buildCkMsg, gen…UniqueId), `AckMessageProcessor.appendAck`,
`PopReviveService` (reviveRetry, rePutCK, consumeReviveMessage).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.bodies.pop import MESSAGES_MAX, AckMsg, BatchAckMsg, PopCheckPoint
from rmq_wire.errors import BadBody
from rmq_wire.implied.index_keys import tags_key
from rmq_wire.implied.tags import tags_code
from rmq_wire.java import iteration_order, parse_long
from rmq_wire.properties import decode, encode_java, find

REVIVE_GROUP: Final = names.SYSTEM_GROUP_PREFIX + "REVIVE_GROUP"
"""Whose committed offset in a queue of the revive topic is the last record that is done with, not the next one."""
REVIVE_QUEUES: Final = 8
"""`reviveQueueNum`."""
CHECK_POINT_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"
ACK_INTERVAL_MS: Final = 1_000
"""`PopAckConstants.ackTimeInterval`: so much earlier a check point is due than its acknowledgements."""
BATCH_ACK_OFFSET: Final = -1
"""`ackOffset` of a record that acknowledges several."""
RETRY_QUEUE: Final = 0
"""Where copies go in a retry topic: it has `PopAckConstants.retryQueueNum`, one."""
RECORD_BYTES_MAX: Final = 16_384
"""Of a record: 32 messages and the longest names are some 2 KiB."""
RE_PUT_S: Final = (10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
"""After how long a check point is due again whose message could not be stored (`ckRewriteIntervalsInSeconds`)."""
_RECORD_BUCKETS: Final = 16
"""Of a map that nobody gave a size."""


def revive_topic(cluster: str) -> str:
    """`PopAckConstants.buildClusterReviveTopic`."""
    return names.REVIVE_LOG_PREFIX + cluster


# Records


class Pop(NamedTuple):
    """What pairs acknowledgements with their check point: the pop of one queue that gave the messages out.

    (*Differs*: Java joins these to one text without separators, so that two pops may look alike.)
    """

    topic: str
    group: str
    queue_id: int
    start_offset: int
    pop_time: int
    broker_name: str


_as_tuple: Final = tuple.__new__
"""What `Pop(…)` does, without the call in between."""


def pop_of(record: PopCheckPoint | AckMsg, broker_name: str) -> Pop:
    """The pop that a record is about.  `broker_name`: the reader's, which a record may leave out.  Raises `BadBody`."""
    if record.topic is None or record.group is None:
        raise BadBody(f"{type(record).__name__}: it names no topic or no group")
    said = record.topic, record.group, record.queue_id, record.start_offset, record.pop_time, record.broker_name or broker_name
    return _as_tuple(Pop, said)


def read_record(tag: str, body: bytes | bytearray | memoryview) -> PopCheckPoint | AckMsg | None:
    """A record of the revive topic with this tag; None for a tag that means nothing there.

    Raises `BadBody`, also for what no broker writes: one record must not stop those behind it.
    """
    kind = _KINDS.get(tag)
    if kind is None:
        return None
    if len(body) > RECORD_BYTES_MAX:
        raise BadBody(f"a record of {len(body)} bytes")
    record = kind.read(body)
    if isinstance(record, PopCheckPoint):
        if not 0 <= record.num <= MESSAGES_MAX or (record.diffs and len(record.diffs) < record.num):
            raise BadBody(f"a check point of {record.num} messages that names {len(record.diffs or ())}")
        if record.topic is None or record.group is None:
            raise BadBody("a check point of no topic or no group")
    return record


def acked_offsets(record: AckMsg) -> Sequence[int]:
    """The queue offsets of the messages that a record acknowledges."""
    return record.offsets if isinstance(record, BatchAckMsg) else [record.ack_offset]


def open_offsets(point: PopCheckPoint, acked: Set[int]) -> list[int]:
    """The queue offsets of its messages that are not acknowledged, neither by its own bits nor by these records.

    Raises `BadBody` for a check point that names too few.
    """
    numbers = range(max(min(point.num, MESSAGES_MAX), 0))
    found = [point.offset_at(index) for index in numbers if not point.has_bit(index)]
    return [offset for offset in found if offset not in acked]


def is_same_point(one: PopCheckPoint, other: PopCheckPoint) -> bool:
    """Of two check points of one pop: they are one, as a timer brings it twice, not two that only share their name.

    Two may: a message that gets another time in the millisecond of a pop that begins at it, or a clock that was set back.  Both
    count, and an acknowledgement for either ends the message in both.
    """
    return _say(one) == _say(other)


def _say(point: PopCheckPoint) -> tuple[object, ...]:
    return point.num, point.diffs or None, point.invisible_time, point.re_put_times, point.suspend


_KINDS: Final[Mapping[str, type[PopCheckPoint] | type[AckMsg]]] = {
    CHECK_POINT_TAG: PopCheckPoint,
    ACK_TAG: AckMsg,
    BATCH_ACK_TAG: BatchAckMsg,
}


def check_point_key(point: PopCheckPoint) -> str:
    """UNIQ_KEY of its record (`genCkUniqueId`)."""
    return (
        f"{point.topic}@{point.queue_id}@{point.start_offset}@{point.group}"
        f"@{point.pop_time}@{_java(point.broker_name)}@{CHECK_POINT_TAG}"
    )


def ack_key(ack: AckMsg) -> str:
    """UNIQ_KEY of an acknowledgement, and of several that a request brings (`genAckUniqueId`)."""
    return f"{ack.topic}@{ack.queue_id}@{ack.ack_offset}@{ack.group}@{ack.pop_time}@{_java(ack.broker_name)}@{ACK_TAG}"


def batch_ack_key(ack: BatchAckMsg) -> str:
    """UNIQ_KEY of several that the buffer gathered (`genBatchAckUniqueId`)."""
    offsets = ", ".join(map(str, ack.offsets))
    return f"{ack.topic}@{ack.queue_id}@[{offsets}]@{ack.group}@{ack.pop_time}@{BATCH_ACK_TAG}"


def _java(text: str | None) -> str:
    return "null" if text is None else text


def check_point_due_ms(point: PopCheckPoint) -> int:
    """TIMER_DELIVER_MS of its record."""
    return point.due_ms - ACK_INTERVAL_MS


@lru_cache(maxsize=8)
def record_tags_code(tag: str) -> int:
    """Of the queue entry of a record."""
    return tags_code(tag)


RECORD_INDEX: Final = {tag: (tags_code(tag), tags_key(tag)) for tag in (CHECK_POINT_TAG, ACK_TAG, BATCH_ACK_TAG)}
"""By tag, the code of the queue entry of a record, and the text under which it is indexed beside its unique key."""
RECORD_CODES: Final = frozenset([code for code, _ in RECORD_INDEX.values()])
"""Of all records."""


def record_values(tag: str, deliver_ms: int, unique_key: str) -> dict[str, str]:
    """All properties of a record, in the order in which Java sets them."""
    return {prop.TAGS: tag, prop.TIMER_DELIVER_MS: str(deliver_ms), prop.UNIQ_KEY: unique_key}


def record_properties(tag: str, deliver_ms: int, unique_key: str) -> bytes:
    """The same as stored bytes, of a record that is due already."""
    return (_DUE_FORM % _PICK_DUE((tag, deliver_ms, unique_key))).encode("utf-8", "replace")


def waiting_properties(tag: str, deliver_ms: int, unique_key: str, slot_ms: int, topic: str, queue_id: int) -> bytes:
    """The same of a record that waits in the timer's topic for its slot."""
    form, pick = _waiting_form(tag, topic, queue_id)
    return (form % pick((deliver_ms, unique_key, slot_ms))).encode("utf-8", "replace")


@lru_cache(maxsize=1_024)
def _waiting_form(tag: str, topic: str, queue_id: int) -> tuple[str, Callable[[tuple[object, ...]], tuple[object, ...]]]:
    """Of those with one tag for one queue."""
    place = {prop.REAL_TOPIC: topic.replace("%", "%%"), prop.REAL_QID: str(queue_id)}
    values = {prop.TIMER_DELIVER_MS: "%d", prop.UNIQ_KEY: "%s", prop.TIMER_OUT_MS: "%d", prop.TAGS: tag, **place}
    return _form(values, iteration_order({**_RECORD_FORM, prop.TIMER_OUT_MS: "", **place}, _RECORD_BUCKETS))


def _form(values: Mapping[str, str], ordered: Sequence[str]) -> tuple[str, Callable[[tuple[object, ...]], tuple[object, ...]]]:
    """Of these properties in Java's order, and what brings into it what stands for their `%d` and `%s`."""
    given = [name for name, value in values.items() if value in ("%d", "%s")]
    places = [given.index(name) for name in ordered if name in given]
    return "".join([f"{name}\x01{values[name]}\x02" for name in ordered]), itemgetter(*places)


_RECORD_FORM: Final = {prop.TAGS: "%s", prop.TIMER_DELIVER_MS: "%d", prop.UNIQ_KEY: "%s"}
_DUE_FORM, _PICK_DUE = _form(_RECORD_FORM, iteration_order(_RECORD_FORM, _RECORD_BUCKETS))


def tag_and_time(properties: bytes) -> tuple[str, int | None]:
    """TAGS and TIMER_DELIVER_MS of a stored record, empty and None where there is nothing that can be read."""
    found = _RECORD.match(properties)
    if found is not None:
        at_tag, at_time = _RECORD_GROUPS
        return found[at_tag].decode(), int(found[at_time])
    tag, deliver_ms = find(properties, _TAGS), find(properties, _DELIVER_MS)
    return tag.decode("utf-8", "replace") if tag else "", parse_long(
        deliver_ms.decode("ascii", "replace")
    ) if deliver_ms else None


_VALUE: Final = "[^\x01\x02]++"


def _record_pattern() -> tuple[re.Pattern[bytes], tuple[int, int]]:
    """Of the properties with which a record comes out of the wheel, and which groups the two are."""
    said = {prop.TAGS: "(ck|ack|bAck)", prop.TIMER_DELIVER_MS: "([0-9]{1,18})"}
    added = (prop.UNIQ_KEY, prop.TIMER_OUT_MS, prop.REAL_TOPIC, prop.REAL_QID, prop.TIMER_ENQUEUE_MS, prop.TIMER_DEQUEUE_MS)
    ordered = list(decode(encode_java(dict.fromkeys((*said, *added), "1")).decode()))
    pattern = "".join([f"{re.escape(name)}\x01{said.get(name, _VALUE)}\x02" for name in ordered])
    is_first = ordered.index(prop.TAGS) < ordered.index(prop.TIMER_DELIVER_MS)
    return re.compile(pattern.encode() + rb"\Z"), (1, 2) if is_first else (2, 1)


_RECORD, _RECORD_GROUPS = _record_pattern()
_TAGS: Final = prop.TAGS.encode()
_DELIVER_MS: Final = prop.TIMER_DELIVER_MS.encode()


# Retry topics


def plain_topic(topic: str, group: str) -> str:
    """The topic that a retry topic of this group is for; any other topic itself (`KeyBuilder.parseNormalTopic`)."""
    if not names.is_retry_topic(topic):
        return topic
    for separator in (names.V2_SEPARATOR, names.V1_SEPARATOR):
        prefix = names.RETRY_PREFIX + group + separator
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


def retry_topic_for(topic: str, group: str, *, v2: bool) -> str:
    """Where copies of what this topic holds go: a retry topic keeps its own."""
    return topic if names.is_retry_topic(topic) else names.pop_retry_topic(topic, group, v2=v2)


def revived_values(values: Mapping[str, str], point: PopCheckPoint, reconsume_times: int) -> dict[str, str]:
    """The properties of the copy of a message of this check point that had been delivered so often, in Java's order."""
    tags = values.get(prop.TAGS)
    copied = {} if tags is None else {prop.TAGS: tags}
    copied.update(values)
    if reconsume_times == 0 or prop.FIRST_POP_TIME not in copied:
        copied[prop.FIRST_POP_TIME] = str(point.pop_time)
    copied[prop.ORIGIN_GROUP] = point.group or ""
    return copied


def revived_properties(values: Mapping[str, str]) -> bytes:
    """The same as stored bytes."""
    return encode_java(values, _RECORD_BUCKETS)


def revived_times(point: PopCheckPoint, reconsume_times: int) -> int:
    """How often the copy counts as delivered."""
    return reconsume_times if point.suspend else reconsume_times + 1


def re_put(point: PopCheckPoint, offset: int, now_ms: int) -> PopCheckPoint:
    """The check point that is stored when the message at this queue offset could not be copied (`rePutCK`).

    *Differs*: the copy to come still does not count as an attempt when this one would not have (`suspend`).
    """
    times = point.re_puts()
    later_ms = RE_PUT_S[min(times, len(RE_PUT_S) - 1)] * 1_000 if point.due_ms <= now_ms else 0
    return PopCheckPoint(
        start_offset=offset,
        pop_time=point.pop_time,
        invisible_time=point.invisible_time + later_ms,
        num=1,
        queue_id=point.queue_id,
        topic=point.topic,
        group=point.group,
        diffs=[0],
        broker_name=point.broker_name,
        re_put_times=str(times + 1),
        suspend=point.suspend,
    )
