"""Queue offsets to begin and end at, as Spark's Kafka source takes them: `{"Orders": {"0": 23, "1": -2}}`, `earliest`, `latest`.

A queue that is not named is read from its first message, to its last one.  Each broker counts its queues from 0: of several
brokers the same range is meant of each.
Sources: `JsonUtils.partitionOffsets`, `KafkaSourceProvider.validateBatchOptions` of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from rmq_columns.decode.dtypes import Ints, Mask
from rmq_wire.store_names import QUEUE_ID_MAX

LATEST, EARLIEST = -1, -2
"""Kafka's numbers for them."""
EARLIEST_WORD, LATEST_WORD = "earliest", "latest"
OFFSET_MAX: Final = (1 << 63) - 1
SHAPE: Final = 'earliest, latest or JSON as {"Orders": {"0": 23, "1": -2}}'


class Bound(NamedTuple):
    """Of one queue."""

    topic: str
    queue_id: int
    offset: int


Bounds = tuple[Bound, ...]


def starting(value: Any) -> Bounds:
    """The first offset of some queues.  Raises `ValueError`."""
    return _bounds(value, EARLIEST_WORD, EARLIEST, LATEST, "begins at an offset or at the earliest (-2)")


def ending(value: Any) -> Bounds:
    """The offset before which some queues end.  Raises `ValueError`."""
    return _bounds(value, LATEST_WORD, LATEST, EARLIEST, "ends before an offset or at the latest (-1)")


def _bounds(value: Any, word: str, whole: int, wrong: int, why: str) -> Bounds:
    """word, whole: what means that nothing is left out; wrong: what would leave out all."""
    if isinstance(value, str):
        text = value.strip()
        if text.lower() == word:
            return ()
        if text.lower() in (EARLIEST_WORD, LATEST_WORD):
            raise ValueError(f"{value!r}: a batch {why}")
        try:
            value = json.loads(text, object_pairs_hook=_once)
        except json.JSONDecodeError:
            raise ValueError(f"not {SHAPE}") from None
    if not isinstance(value, Mapping) or not all(isinstance(queues, Mapping) for queues in value.values()):
        raise ValueError(f"not {SHAPE}")
    found = []
    for topic, queues in value.items():
        for queue, offset in queues.items():
            queue_id = _whole(queue, f"queue {queue!r} of {topic}")
            number = _whole(offset, f"offset {offset!r} of queue {queue_id} of {topic}")
            if not 0 <= queue_id <= QUEUE_ID_MAX:
                raise ValueError(f"queue {queue_id} of {topic}: there is no such queue")
            if number == wrong or not EARLIEST <= number <= OFFSET_MAX:
                raise ValueError(f"offset {number} of queue {queue_id} of {topic}: a batch {why}")
            if number != whole:
                found.append(Bound(str(topic), queue_id, number))
    return tuple(sorted(found))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"{name}: named twice")
        made[name] = value
    return made


def _whole(value: Any, what: str) -> int:
    try:
        made = int(value)
        if isinstance(value, bool) or (isinstance(value, float) and value != made):
            raise ValueError
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{what}: no whole number") from None
    return made


def topics_named(value: Any) -> frozenset[str]:
    """Those of an option that was parsed once already: also one whose queues are all read whole."""
    if isinstance(value, str):
        if value.strip().lower() in (EARLIEST_WORD, LATEST_WORD):
            return frozenset()
        value = json.loads(value)
    return frozenset(map(str, value))


class QueueRanges:
    """Which messages of some queues are wanted, looked up for many rows at once."""

    def __init__(self, starting: Bounds, ending: Bounds) -> None:
        self._starting, self._ending = _by_topic(starting), _by_topic(ending)

    def __bool__(self) -> bool:
        return bool(self._starting or self._ending)

    def range_of(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(first offset, offset before which it ends) of one queue."""
        return (_of(self._starting, topic, queue_id, 0), _of(self._ending, topic, queue_id, OFFSET_MAX))

    def wanted(self, topics: Iterable[str], codes: Ints, queue_ids: Ints, offsets: Ints) -> Mask:
        """Which rows.  codes: the place of each row's topic in `topics`."""
        found: Mask = np.ones(len(codes), np.bool_)
        for code, topic in enumerate(topics):
            for named, outside in ((self._starting, np.less), (self._ending, np.greater_equal)):
                if topic in named:
                    found &= ~((codes == code) & _outside(named[topic], queue_ids, offsets, outside))
        return found


def _outside(bounds: tuple[Ints, Ints], queue_ids: Ints, offsets: Ints, is_outside: Callable[[Ints, Ints], Mask]) -> Mask:
    queues, limits = bounds
    at = np.minimum(np.searchsorted(queues, queue_ids), len(queues) - 1)
    return (queues[at] == queue_ids) & is_outside(offsets, limits[at])


def _by_topic(bounds: Bounds) -> dict[str, tuple[Ints, Ints]]:
    made: dict[str, list[Bound]] = {}
    for one in bounds:
        made.setdefault(one.topic, []).append(one)
    return {
        topic: (np.array([one.queue_id for one in held], np.int64), np.array([one.offset for one in held], np.int64))
        for topic, held in made.items()
    }


def _of(named: Mapping[str, tuple[Ints, Ints]], topic: str, queue_id: int, otherwise: int) -> int:
    if topic not in named:
        return otherwise
    queues, limits = named[topic]
    at = int(np.searchsorted(queues, queue_id))
    return int(limits[at]) if at < len(queues) and queues[at] == queue_id else otherwise
