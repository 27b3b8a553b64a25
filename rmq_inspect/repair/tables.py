"""Topics and groups of a store whose tables are lost, made again from its log and queues.

A table is lost when neither its file nor the backup can be read; topics also when there is no file and the log has messages.
Queues show a topic and how many queues it has at least; the log shows what had no queue yet.  A retry or dead-letter topic shows
its group.  What no message says (permissions, attributes, order, empty topics and queues) begins as a broker would make it.
Progress cannot be made from messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.files import config_value
from rmq_inspect.decode.log import Unit, pieces
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress, quiet
from rmq_wire import fastjson, names
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from rmq_wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from rmq_wire.bodies.order_info import OrderInfoTable
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.errors import WireError
from rmq_wire.implied.filler import is_filler
from rmq_wire.implied.topics import COPY_PREFIXES

TOPICS: Final = "topics.json"
GROUPS: Final = "subscriptionGroup.json"
ORDERS: Final = "consumerOrderInfo.json"
READERS: Final[dict[str, Callable[[Any], object]]] = {
    TOPICS: TopicConfigTable.from_plain,
    GROUPS: SubscriptionGroupTable.from_plain,
    "consumerOffset.json": ConsumerOffsetTable.from_plain,
    "lmqConsumerOffset.json": ConsumerOffsetTable.from_plain,
    "delayOffset.json": DelayOffsetTable.from_plain,
    ORDERS: OrderInfoTable.from_plain,
}
"""The tables without which a broker does not start when they cannot be read."""
NO_PROGRESS: Final = "no message says it: groups begin where their clients say (mqadmin resetOffsetByTime sets them back)"
UNMAKEABLE: Final = {
    "consumerOffset.json": NO_PROGRESS,
    "lmqConsumerOffset.json": NO_PROGRESS,
    "delayOffset.json": "no message says it: every delayed message that is still in the log is delivered again",
    ORDERS: "no message says it: what ordered pops have handed out and nobody acknowledged is handed out again at once",
}
"""What follows when they are gone."""
BACKUP: Final = ".bak"
QUEUES_MAX: Final = 16_384
"""Of one topic; a higher number in a message is damage."""


class Made(NamedTuple):
    """`broken`: files that cannot be read, to be moved aside, each backup before its file; `texts`: new files by name; `gone`:
    tables that cannot be made, and what follows.
    """

    broken: list[str]
    texts: dict[str, bytes]
    gone: dict[str, str]
    topics: int
    groups: int


def lost_tables(store: StoreDirectory) -> dict[str, list[str]]:
    """Table -> its copies, none of which can be read."""
    found: dict[str, list[str]] = {}
    for table, read in READERS.items():
        copies = [name for name in (table, table + BACKUP) if name in store.config and store.config[name].size]
        if copies and not any(_readable(store, name, read) for name in copies):
            found[table] = copies
    if not store.config.keys() & {TOPICS, TOPICS + BACKUP} and any(file.size for file in store.commit_log):
        found.setdefault(TOPICS, [])
    return found


def tables_of(store: StoreDirectory, wall_ms: int, progress: Progress = quiet) -> Made:
    """What stands in for the lost tables.  wall_ms: the new tables' version."""
    lost = lost_tables(store)
    made = Made(
        sorted((copy for copies in lost.values() for copy in copies), reverse=True),
        {},
        {table: why for table, why in UNMAKEABLE.items() if table in lost},
        0,
        0,
    )
    if not lost.keys() & {TOPICS, GROUPS}:
        return made
    queues = _queues(store, progress)
    version = DataVersion(timestamp=wall_ms)
    if TOPICS in lost:
        batch = {topic for topic, _ in store.batch_queues}
        topics = {
            topic: TopicConfig(
                topic_name=topic,
                read_queue_nums=count,
                write_queue_nums=count,
                attributes={"queue.type": "BatchCQ"} if topic in batch else {},
            )
            for topic, count in sorted(queues.items())
            if not names.is_system_topic(topic)
        }
        plain = {"dataVersion": version.plain(), "topicConfigTable": {name: row.plain() for name, row in topics.items()}}
        made.texts[TOPICS] = fastjson.dumps_pretty(plain)
        made = made._replace(topics=len(topics))
    if GROUPS in lost:
        groups = {group: SubscriptionGroupConfig(group_name=group) for group in sorted(_groups(queues))}
        table = {name: row.plain() for name, row in groups.items()}
        made.texts[GROUPS] = fastjson.dumps_pretty(
            {"dataVersion": version.plain(), "forbiddenTable": {}, "subscriptionGroupTable": table}
        )
        made = made._replace(groups=len(groups))
    return made


def _readable(store: StoreDirectory, name: str, read: Callable[[Any], object]) -> bool:
    try:
        value = config_value(store.config[name])
        if not isinstance(value, dict):
            return False
        read(value)
    except (CannotLook, WireError, ValueError):
        return False
    return True


def _queues(store: StoreDirectory, progress: Progress) -> dict[str, int]:
    """Topic -> how many queues it has at least."""
    found: dict[str, int] = {}

    def see(topic: str, queue_id: int) -> None:
        if 0 <= queue_id < QUEUES_MAX and names.path_problem(topic) is None and not names.is_lmq(topic):
            found[topic] = max(found.get(topic, 0), queue_id + 1)

    for rows in (store.queues, store.batch_queues):
        for topic, queue_id in rows:
            see(topic, queue_id)
    for piece in pieces(store.commit_log, progress=progress):
        if isinstance(piece, Unit) and not is_filler(piece.message):
            see(piece.message.topic.decode(errors="replace"), piece.message.queue_id)
    return found


def _groups(topics: dict[str, int]) -> set[str]:
    """Whose retry or dead-letter topics there are."""
    found = {topic[len(prefix) :] for topic in topics for prefix in COPY_PREFIXES if topic.startswith(prefix)}
    return {group for group in found if names.group_problem(group) is None}
