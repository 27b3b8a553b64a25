"""The topics of this broker: those it makes for itself at start, those clients make by sending, those tools make.

The file's topics are put over the built-in ones, so what an operator changed stays changed.  Creation by sending copies the
permissions of a template topic (TBW102); every change gets a new data version, is written at once, and is given to the
registration.  A name that could not be a directory is never taken, wherever it comes from.

Java: `TopicConfigManager`, `TopicValidator`.  Left out: static topics, tiered storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Unsaved
from broker_impl.env import Env
from broker_impl.state.attributes import CLEANUP_POLICY, COMPACTION, TOPIC_ATTRIBUTES, altered
from broker_impl.state.persisted import Rows, leftover
from broker_impl.state.versioned_table import VersionedTable, check_room
from rmq_net.log import plain_text
from rmq_wire import names
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.topics import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig, TopicConfigTable

BENCHMARK_QUEUES = 1024
CLUSTER_QUEUES = 16
SCHEDULE_QUEUES = 18
"""Queue counts of built-in topics, fixed in `TopicConfigManager.init`."""


class TopicTable(VersionedTable[TopicConfig]):
    """Topic name to `TopicConfig`.  `on_change` hears of every topic that Java would register at once."""

    file = "topics.json"
    copied = frozenset({"topicConfigTable"})

    def __init__(self, config: BrokerConfig, env: Env) -> None:
        super().__init__(config, env)
        self.system: set[str] = set()
        """Topics that tools may not create or delete here: the reserved names and what this broker made for itself."""
        self.on_change: list[Callable[[Sequence[TopicConfig]], None]] = []
        self.before_making: Callable[[], None] = lambda: None
        """Called before a send makes a topic; raises what the send is to end with."""
        self._unsaved: dict[str, int] = {}
        """Topics that are not on the disk yet, and the change that made each."""
        self._told: DataVersion | None = None
        """The version that name servers were told last."""
        for topic in builtin_topics(config):
            self.system.add(topic.topic_name)
            self._rows.put(topic.topic_name, topic)

    # -- reading

    def is_system(self, name: str) -> bool:
        """A reserved name, or a topic that this broker made for itself (Java: `TopicValidator.isSystemTopic`)."""
        return name in self.system or names.is_system_topic(name)

    def is_order(self, name: str) -> bool:
        """The topic exists and its messages are kept in order over all brokers."""
        topic = self.get(name)
        return topic is not None and topic.order

    # -- creating and changing

    def create_in_send(
        self, name: str, default_topic: str, client_default_queues: int, remote: str, topic_sys_flag: int = 0
    ) -> TopicConfig | None:
        """The topic, made after its template when there is none yet.  None: the template is missing or does not pass on.

        `remote` is who asks, for the log.  Java: `createTopicInSendMessageMethod`.
        """
        found = self.get(name)
        if found is not None:
            return found
        template = self.get(default_topic)
        if template is None:
            self._env.log.warning("topic %s not made: no template topic %s, asked by %s", name, default_topic, remote)
            return None
        if default_topic == names.AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
            template.perm = PERM_READ | PERM_WRITE
            self._rows.touch(default_topic)
        if not template.perm & PERM_INHERIT:
            self._env.log.warning(
                "topic %s not made: template %s has perm %d, asked by %s", name, default_topic, template.perm, remote
            )
            return None
        self.before_making()
        queues = max(0, min(client_default_queues, template.write_queue_nums))
        made = TopicConfig(
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=template.perm & ~PERM_INHERIT,
            topic_sys_flag=topic_sys_flag,
            topic_filter_type=template.topic_filter_type,
        )
        self._env.log.info("topic %s made after %s with %d queues, asked by %s", name, default_topic, queues, remote)
        self._create(made)
        return made

    def create_in_send_back(
        self, name: str, queues: int, perm: int = PERM_READ | PERM_WRITE, topic_sys_flag: int = 0, *, order: bool = False
    ) -> TopicConfig:
        """The topic, made as given when there is none; its order flag is brought up to date."""
        found = self.get(name)
        if found is not None:
            if found.order != order:
                self.check_unsaved()
                self._set_order(found, order)
                self._changed(undo=lambda: self._set_order(found, not order))
            return found
        made = TopicConfig(
            topic_name=name,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_sys_flag=topic_sys_flag,
            order=order,
        )
        self._create(made)
        return made

    def create_if_absent(self, topic: TopicConfig) -> TopicConfig:
        """The topic of this name, `topic` itself when there was none (`createTopicIfAbsent`)."""
        found = self.get(topic.topic_name)
        if found is None:
            self._create(topic)
            return topic
        return found

    def put(self, topic: TopicConfig) -> None:
        """Create or replace, `topic.attributes` being a *change* (`+key`, `-key`).  Raises `BadAttribute`, nothing changed.

        The caller registers (`announce`) when the reference does.  Java: `updateTopicConfig`.
        """
        self.put_all((topic,))

    def put_all(self, topics: Sequence[TopicConfig]) -> None:
        """Several at once; either all are lawful or none is put (*differs*: Java keeps those before the bad one)."""
        self.check_unsaved()
        check_room("topics", self._rows.rows, {topic.topic_name for topic in topics}, self.rows_max)
        attributes = [self._altered(topic) for topic in topics]
        old: list[tuple[str, TopicConfig | None]] = []
        for topic, settled in zip(topics, attributes, strict=True):
            topic.attributes = settled
            old.append((topic.topic_name, self._rows.put(topic.topic_name, topic)))
            self.data_version.advance(self._env.wall_ms)
        self.changed(undo=lambda: self._put_back(old), rows=len(old))
        self._note_unsaved(name for name, before in old if before is None)

    def delete(self, *doomed: str) -> None:
        """Remove topics; one that is not there is no change.  Raises `Refusal`, nothing changed: too many wait for the disk."""
        self.check_unsaved()
        for name in doomed:
            old = self._rows.drop(name)
            unknown = self._unknown.pop(name, None)
            if old is not None:
                self._unsaved.pop(name, None)
                self._changed(undo=partial(self._put_back, [(name, old)], unknown))

    def set_order_topics(self, ordered: Iterable[str]) -> None:
        """The name server's list of topics whose messages are in order (`updateOrderTopicConfig`)."""
        for name in ordered:
            topic = self.get(name)
            if topic is not None and not topic.order:
                self._set_order(topic, True)
                self._changed()

    def require_saved(self, name: str) -> None:
        """Raises `Unsaved` for a topic that is not on the disk yet: nothing may be stored in it."""
        if name in self._unsaved:
            raise Unsaved(self)

    def announce_saved(self, topics: Sequence[TopicConfig]) -> None:
        """Announce them when they are on the disk."""
        self.when_saved(lambda no: self.announce(topics) if no is None else None)

    def written(self) -> None:
        super().written()
        if self._unsaved:
            self._unsaved = {name: change for name, change in self._unsaved.items() if change > self.written_changes}

    def is_saved(self, name: str) -> bool:
        """It is there, and on the disk: who is told of it finds it after a crash, too."""
        return name in self._rows.rows and name not in self._unsaved

    def take_back(self) -> int:
        count = super().take_back()
        self._unsaved.clear()
        if count:  # name servers may have been told, and pass over what comes under a version that they know
            self.data_version.advance(self._env.wall_ms)
        return count

    def announce(self, topics: Sequence[TopicConfig]) -> None:
        """Call whoever registers: these changed.

        What was told before said nothing of them; a name server passes over topics that it knows when the version is one that it
        has been told.
        """
        if self._told == self.data_version:
            self.data_version.advance(self._env.wall_ms)
        for listener in self.on_change:
            listener(topics)

    def version_told(self, *, again: bool = False) -> DataVersion:
        """The version of what is told to name servers from now on.  `again`: another one than that of what was told before."""
        if again and self._told == self.data_version:
            self.data_version.advance(self._env.wall_ms)
        self._told = self.data_version.copy()
        return self._told

    def report_uncompacted(self, topics: Iterable[TopicConfig]) -> None:
        """One line when some of these are to be compacted (*differs*: all their messages stay)."""
        found = [topic.topic_name for topic in topics if topic.attributes.get(CLEANUP_POLICY) == COMPACTION]
        if found:
            self._env.log.warning(
                "%d topics with cleanup.policy=COMPACTION, %s among them: compaction does not run, readers get every message",
                len(found),
                found[0],
            )

    # -- the file

    def members(self) -> dict[str, Rows[Any] | Any]:
        """`topics.json` as `TopicConfigSerializeWrapper` writes it."""
        return {"dataVersion": self.data_version.plain(), "topicConfigTable": self._rows}

    def take(self, document: dict[str, Any]) -> None:
        """The file's topics over the built-in ones, and its version."""
        read = TopicConfigTable.from_plain(document)
        for name, row in read.topic_config_table.items():
            row.topic_name = row.topic_name or name
            if row.topic_name != name or names.path_problem(name):
                self._env.log.error("%s names a topic %s that no directory can have: it is left out", self.file, name)
                continue
            self._rows.put(name, row)
            rest = leftover(document["topicConfigTable"][name], _FIELDS)
            if rest:
                self._unknown[name] = rest
        self.data_version.assign(read.data_version)
        self.unknown = leftover(document, ("dataVersion", "topicConfigTable"))

    def _altered(self, topic: TopicConfig) -> dict[str, str]:
        old = self.get(topic.topic_name)
        return altered(TOPIC_ATTRIBUTES, old.attributes if old else {}, topic.attributes, create=old is None)

    def _create(self, topic: TopicConfig) -> None:
        if names.path_problem(topic.topic_name):
            raise ValueError(f"no directory can have the name {plain_text(topic.topic_name)}")
        self.check_unsaved()
        if topic.topic_name not in names.SYSTEM_TOPICS:  # without room for one of these, what needs it would stand still
            check_room("topics", self._rows.rows, {topic.topic_name}, self.rows_max)
        self._rows.put(topic.topic_name, topic)
        self._changed(undo=lambda: self._put_back([(topic.topic_name, None)]))
        self._note_unsaved((topic.topic_name,))
        self.announce_saved((topic,))

    def _note_unsaved(self, new: Iterable[str]) -> None:
        if self.on_dirty is not None:
            self._unsaved.update(dict.fromkeys(new, self.changes))

    def _set_order(self, topic: TopicConfig, order: bool) -> None:
        topic.order = order
        self._rows.touch(topic.topic_name)


def builtin_topics(config: BrokerConfig) -> list[TopicConfig]:
    """What a 5.5.0 broker makes for itself, in its order (`TopicConfigManager.init`)."""
    every = PERM_READ | PERM_WRITE
    cluster, broker = config.broker_cluster_name, config.broker_name

    def topic(name: str, queues: int = 1, perm: int = every) -> TopicConfig:
        return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)

    found = [topic(names.SELF_TEST_TOPIC)]
    if config.auto_create_topic_enable:
        found.append(topic(names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, every | PERM_INHERIT))
    found += [
        topic(names.BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        topic(cluster, CLUSTER_QUEUES, PERM_INHERIT | (every if config.cluster_topic_enable else 0)),
        topic(broker, 1, PERM_INHERIT | (every if config.broker_topic_enable else 0)),
        topic(names.OFFSET_MOVED_EVENT),
        topic(names.SCHEDULE_TOPIC, SCHEDULE_QUEUES),
    ]
    if config.trace_topic_enable:
        found.append(topic(config.msg_trace_topic_name))
    found += [
        topic(names.reply_topic(cluster)),
        topic(names.REVIVE_LOG_PREFIX + cluster, config.revive_queue_num),
        topic(names.SYNC_BROKER_MEMBER_PREFIX + broker, 1, PERM_INHERIT),
        topic(names.TRANS_HALF_TOPIC),
        topic(names.TRANS_OP_HALF_TOPIC),
        topic(names.ROCKSDB_TRANS_HALF_TOPIC),
        topic(names.ROCKSDB_TRANS_OP_HALF_TOPIC),
    ]
    if config.timer_wheel_enable:
        found.append(topic(names.WHEEL_TIMER_TOPIC))
    return found


_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(TopicConfig))
