"""What the brokers of a source are known to hold, read on the driver from directories and configuration alone; where these do not
say which topics there are, the log is looked through for them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmq_columns.files.filesystem import Tree
    from rmq_columns.read.stores import Store
    from rmq_spark.jobs import Source

OF_PLACE: Final = frozenset({"brokername", "pathlayout", "storepathcommitlog"})
"""Options that say where a store is, in small letters."""
DETOURS: Final = ("DELAY", "TRANSACTION", "MIXED")
"""`TopicMessageType`: messages may lie in a topic of the system's before they come into their own."""
TIMER_CHECK: Final = "timercheck"
MEANT: Final = ("REAL_TOPIC", "RETRY_TOPIC")
"""Properties of a message that name another topic than its own: where it is to come, or came from."""
LEVELS_MAX: Final = 1 << 31
"""A level is an int of Java's."""


class Broker(NamedTuple):
    """One store.  topics: those of topics.json or with a directory of queue files; None where neither says."""

    name: str
    logStart: int
    """in bytes; above 0 retention has taken what was before"""
    logEnd: int
    """of its last file, written or not"""
    hasQueues: bool
    """whether its queues are files; they may be missing, or in RocksDB"""
    topics: frozenset[str] | None
    isConfigured: bool
    """whether topics.json is there"""
    hasPositions: bool
    """whether consumerOffset.json is there: a broker writes it every five seconds, but for one that keeps it in RocksDB"""
    detours: frozenset[str]
    """topics whose `message.type` says that their messages are delayed, timed or half first"""

    def may_have(self, topic: str) -> bool:
        """Whether messages of this topic may ever have come here."""
        return self.topics is None or topic in self.topics


class TimerProgress(NamedTuple):
    """`TimerCheckpoint`: the wheel was read up to this time; it holds the timer topic's messages below this queue offset."""

    readMs: int
    queueOffset: int


def stores_of(source: Source) -> Iterator[tuple[Store, Tree]]:
    """Raises `CannotRead`."""
    from rmq_columns.read.stores import list_stores
    from rmq_spark.options import located

    given = {name: value for name, value in source.options.items() if name.lower() in OF_PLACE}
    options = located({**given, "paths": list(source.paths)})
    for store in list_stores(options):
        yield store, store.tree(options)


def brokers_of(source: Source) -> list[Broker]:
    """Raises `CannotRead`."""
    found = []
    for store, tree in stores_of(source):
        logs, on_disk = store.log_files(tree), store.queue_topics(tree)
        configured = _table(store, tree, "topics.json", "topicConfigTable")
        detours = frozenset(topic for topic, config in configured.items() if _message_type(config) in DETOURS)
        topics = frozenset(on_disk | configured.keys()) or None
        start, end = (logs[0].start, logs[-1].start + logs[-1].size) if logs else (0, 0)
        has_positions = _has_config(store, tree, "consumerOffset.json")
        found.append(Broker(store.broker_name, start, end, bool(on_disk), topics, bool(configured), has_positions, detours))
    return found


def _has_config(store: Store, tree: Tree, name: str) -> bool:
    """Itself or its backup; large ones are not parsed for that."""
    from rmq_columns.files.filesystem import joined

    names = (name, f"{name}.bak") if store.root else ()
    return any(tree.file_size(joined(store.root, "config", one)) for one in names)


def _message_type(config: Any) -> Any:
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return attributes.get("message.type") if isinstance(attributes, dict) else None


def _table(store: Store, tree: Tree, name: str, table: str) -> Mapping[str, Any]:
    held = store.config(tree, name)
    found = held[1].get(table) if held is not None and isinstance(held[1], dict) else None
    return found if isinstance(found, dict) else {}


def delay_offsets(source: Source) -> dict[str, dict[int, int]]:
    """By broker name, of delayOffset.json: queue id (level - 1) -> the next offset to be delivered.  A level that was never used
    is at 0 (`ScheduleMessageService.start`).  Only brokers that have the file."""
    found = {}
    for store, tree in stores_of(source):
        if store.config(tree, "delayOffset.json") is not None:
            read = _table(store, tree, "delayOffset.json", "offsetTable").items()
            found[store.broker_name] = {
                int(level) - 1: at
                for level, at in read
                if str(level).isdecimal() and 0 < int(level) < LEVELS_MAX and type(at) is int and 0 <= at < 1 << 63
            }
    return found


def timer_progress(source: Source) -> dict[str, TimerProgress]:
    """By broker name, of timercheck.  Only brokers that have the file."""
    from rmq_columns.files.filesystem import joined
    from rmq_wire.layout.timer import CHECK_FLAT

    layout, found = CHECK_FLAT, {}
    for store, tree in stores_of(source):
        path = joined(store.root, "config", TIMER_CHECK)
        if store.root and (tree.file_size(path) or 0) >= layout.size:
            with tree.open(path) as file:
                read = dict(zip(layout.names, layout.packed.unpack(file.read(0, layout.size)), strict=True))
            found[store.broker_name] = TimerProgress(read["last_read_ms"], read["last_queue_offset"])
    return found


def topics_of_logs(spark: SparkSession, source: Source, paths: Collection[str], asked: Collection[str]) -> frozenset[str]:
    """Of the messages in these logs, whatever range of them is asked for: the topics asked for, else all that there are.

    A topic that has messages is found at the first of them; all of a log is read when it has none.
    """
    from pyspark.sql import functions as F

    options = {name: value for name, value in source.options.items() if name.lower() in OF_PLACE}
    logs = [replace(source, paths=(path,), options={**options, "includeSystemTopics": "true"}) for path in paths]
    if all(any(log.read(spark, topics=json.dumps([topic])).select("topic").head(1) for log in logs) for topic in asked):
        return frozenset(asked)
    found: set[str] = set()
    for log in logs:
        meant = F.array("topic", *(F.col("properties")[name] for name in MEANT))
        names = log.read(spark).select(F.explode(meant).alias("topic")).where("topic is not null").distinct()
        found.update(row["topic"] for row in names.toLocalIterator())
    return frozenset(found)
