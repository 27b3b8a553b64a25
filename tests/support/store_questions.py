"""Everything that a broker can be asked about its store, so that two brokers' answers, and a view of the log, can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.message import StoredMessage, read_unit
from tests.support.requests import pull
from tests.support.store_view import Queue, Stored, View
from tests.support.talk import Talk

READER = "GID_reader"
HITS_MAX = 64
"""maxMsgsNumBatch: no query gives more."""
TIMES_PER_QUEUE = 5
LATEST_MS = (1 << 63) - 1
TAG_PREFIX = "T#"
SYSTEM_PREFIX = "RMQ_SYS_"
OPS = "RMQ_SYS_TRANS_OP_HALF_TOPIC"

Answers = dict[str, object]
"""Question -> answer, both as text or numbers."""


def units_in(body: bytes) -> Iterator[tuple[StoredMessage, bytes]]:
    """The units of a pull's or query's answer."""
    at = 0
    while at < len(body):
        unit = read_unit(body, at)
        yield unit, body[at : at + unit.total_size]
        at += unit.total_size


def _pull(line: Talk, topic: str, queue_id: int) -> Iterator[tuple[StoredMessage, bytes]]:
    offset = 0
    while True:
        fields = pull(topic, queue_id, offset, consumer_group=READER, suspend_timeout_millis=0).encode()
        answer = line.call(RequestCode.PULL_MESSAGE, fields)
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return
        assert answer.code == 0, (topic, queue_id, offset, answer.code, answer.remark)
        yield from units_in(answer.body)
        assert int(answer.ext["nextBeginOffset"]) > offset
        offset = int(answer.ext["nextBeginOffset"])


def pull_all(line: Talk, topic: str, queue_id: int) -> list[StoredMessage]:
    """Every message of one queue."""
    return [unit for unit, _ in _pull(line, topic, queue_id)]


def _position(line: Talk, code: int, queue: Queue, **more: object) -> str:
    answer = line.good(code, {"topic": queue[0], "queueId": queue[1], **more})
    return answer.ext.get("offset") or answer.ext["timestamp"]


def query(line: Talk, topic: str, key: str, *, unique: bool = False) -> list[int]:
    """Where the messages of a key lie, in the order of the answer; `T#tags` asks for a tag."""
    is_tag = key.startswith(TAG_PREFIX)
    fields: dict[str, object] = {
        "topic": topic,
        "key": key.removeprefix(TAG_PREFIX),
        "maxNum": HITS_MAX,
        "beginTimestamp": 0,
        "endTimestamp": LATEST_MS,
        "indexType": "T" if is_tag else None,
        "_UNIQUE_KEY_QUERY": "true" if unique else None,
    }
    answer = line.call(RequestCode.QUERY_MESSAGE, fields)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return []
    assert answer.code == 0, (topic, key, answer.code, answer.remark)
    return [unit.physical_offset for unit, _ in units_in(answer.body)]


def ask_everything(line: Talk, view: View, *, exactly_as_5_5: bool = True, with_keys: bool = True) -> Answers:
    """Bounds, all messages, positions by time, all keys, look-ups by offset. Asserts what the view knows.

    exactly_as_5_5: ask also what versions before it answer in their own way: positions by time, tags.
    with_keys: False for a broker that gave up a part of its index after a crash.
    """
    answers: Answers = {}
    for queue, stored in view.live_queues().items():
        name = f"{queue[0]}/{queue[1]}"
        bounds = [_position(line, code, queue) for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)]
        assert bounds == ["0", str(len(stored))], name
        if queue[0].startswith(SYSTEM_PREFIX) and not exactly_as_5_5:
            continue  # 4.x has the queues and not the topics
        pulled = [data for _, data in _pull(line, *queue)]
        assert pulled == [one.data for one in stored], f"messages of {name}"
        answers[f"{name} messages"] = len(pulled)
        answers[f"{name} earliest"] = _position(line, RequestCode.GET_EARLIEST_MSG_STORETIME, queue)
        for timestamp in _times(stored) if exactly_as_5_5 else ():
            for boundary in ("LOWER", "UPPER"):
                found = _position(line, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, timestamp=timestamp, boundaryType=boundary)
                answers[f"{name} {boundary} {timestamp}"] = found
    for topic, key in view.indexed() if with_keys else ():
        if key.startswith(TAG_PREFIX) and not exactly_as_5_5:
            continue
        expected = view.hits(topic, key)
        found_at = query(line, topic, key)
        if len(expected) < HITS_MAX:
            assert found_at == expected, f"key {key} of {topic}: {found_at}, in the log {expected}"
        answers[f"{topic} key {key}"] = found_at
    for one in [one for stored in view.live_queues().values() for one in stored][::3]:
        seen = line.good(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": one.unit.physical_offset})
        assert seen.body == one.data, one.unit.physical_offset
        if one.keys and with_keys:
            answers[f"{one.topic} unique {one.keys[0]}"] = query(line, one.topic, one.keys[0], unique=True)
    return answers


def _times(stored: Sequence[Stored]) -> list[int]:
    """Some from before the first message to after the last one."""
    first, last = stored[0].unit.store_timestamp, stored[-1].unit.store_timestamp
    step = max((last - first) // TIMES_PER_QUEUE, 1)
    return [first - 1, *range(first, last + 1, step)[: TIMES_PER_QUEUE + 1], last, last + 1]
