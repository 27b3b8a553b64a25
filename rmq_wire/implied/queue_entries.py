"""In which consume queues a stored message is, at which offset, and what its entries say.

Messages that are prepared or rolled back are in none; a delayed one has the time when it is due for its tags; an inner batch
takes several offsets of a batch queue; light queues are those that the message names.
Sources: `CommitLogDispatcherBuildConsumeQueue`, `CommitLog.checkMessageAndReturnSize`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from rmq_wire.implied.delay_levels import due_time
from rmq_wire.implied.inner_batch import message_count
from rmq_wire.implied.light_queues import QUEUE_ID, light_places
from rmq_wire.implied.tags import stored_tags_code
from rmq_wire.message import StoredMessage
from rmq_wire.names import SCHEDULE_TOPIC, path_problem
from rmq_wire.sys_flag import TRANSACTION_PREPARED

UNQUEUED: Final = TRANSACTION_PREPARED
"""The sysFlag bit of units without a place in a queue: it is set in the types prepared and rollback."""
OFFSET_END: Final = 1 << 56
"""A queue offset that is not below this is damage: its byte would be no file's."""
GAP_MAX: Final = 1_000_000
"""Offsets without a message.  A larger step in a queue is another life of its topic: the queue begins anew behind it."""


class QueueEntry(NamedTuple):
    """One entry.  `span`: offsets that it takes.  `tags_code`: hash of the tags, or when the message is due."""

    topic: str
    queue_id: int
    offset: int
    span: int
    tags_code: int
    is_light: bool = False


def stored_topic(raw: bytes) -> str | None:
    """The topic of a stored unit; None when there can be no directory for it."""
    try:
        topic = raw.decode()
    except UnicodeDecodeError:
        return None
    return topic if path_problem(topic) is None else None


def why_no_queue(unit: StoredMessage) -> str:
    """Why no queue can hold this message, "" when one can: only damage or a forger brings these about."""
    if stored_topic(unit.topic) is None:
        return "the topic cannot be the name of a directory"
    if unit.queue_id < 0:
        return f"there is no queue {unit.queue_id}"
    if not unit.sys_flag & UNQUEUED and not 0 <= unit.queue_offset < OFFSET_END:
        return f"there is no queue offset {unit.queue_offset}"
    return ""


def entry_code(topic: str, properties: bytes, store_timestamp: int, delay_levels_ms: Sequence[int]) -> int:
    """What stands in the tags code of a message's entries."""
    due = due_time(properties, store_timestamp, delay_levels_ms) if topic == SCHEDULE_TOPIC else None
    return stored_tags_code(properties) if due is None else due


def queue_entries(
    unit: StoredMessage, delay_levels_ms: Sequence[int], has_batch_queues: Callable[[str], bool]
) -> list[QueueEntry]:
    """All entries of a stored message, that of its own queue first.

    `delay_levels_ms`: the delay of level 1, 2, …  `has_batch_queues`: the attribute queue.type of a topic.
    """
    topic = stored_topic(unit.topic)
    if topic is None or unit.sys_flag & UNQUEUED or why_no_queue(unit):
        return []
    code = entry_code(topic, unit.properties, unit.store_timestamp, delay_levels_ms)
    span = message_count(unit.sys_flag, unit.properties) if has_batch_queues(topic) else 1
    own = QueueEntry(topic, unit.queue_id, unit.queue_offset, span, code)
    places = light_places(topic, unit.queue_id, unit.properties)
    return [own, *(QueueEntry(name, QUEUE_ID, offset, 1, code, is_light=True) for name, offset in places.items())]
