"""How far each group has read each queue, as committed; how far it has pulled; and resets that its next pull will find.

The key is Java's `topic@group`.  Commits are the hot path: one dictionary store and a mark; the file is written every 5 s by
somebody else.  The maps from group to topics and back are kept as the table grows, where Java walks the whole table.

Java: `ConsumerOffsetManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.state.persisted import PersistedTable, Rows, leftover
from broker_impl.state.safe_progress import SafeProgress
from rmq_wire import names
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.offsets import ConsumerOffsetTable
from rmq_wire.implied.pop import REVIVE_GROUP
from rmq_wire.java import concurrent_buckets, iteration_order

SEPARATOR = names.GROUP_SEPARATOR
ABSENT = -1
"""What a query gives for a queue without stored progress; a stored -1 means the same."""
MAP_CAPACITY = 512
GROUP_MAP_BUCKETS = 128
TOPIC_SET_BUCKETS = 8
"""What Java's tables are made for; it decides the order of the file."""

_Doomed = dict[str, list[dict[str, None]]]
"""By topic the groups, or by group the topics, of rows that are being dropped."""
DROPS_PER_SLICE = 64
"""Rows of a deleted topic or group that are dropped between two yields: 3 µs each."""
PROGRESS_MAX = 4_000_000
"""Queues of all groups in which progress is known, some 200 bytes each: 50,000 topics of 8 queues, read by ten groups."""
ROWS_MAX = 600_000
"""Topics of all groups in which progress is known: those of 100,000 more would have Python's tables grow, 70 ms at once."""
FULL = f"progress in {PROGRESS_MAX} queues, or in {ROWS_MAX} topics of groups, is known, no more is taken: delete groups"
ORDERED_MAX = 4_096
"""Topics of a group that the file has in the order of Java's set; more stand as they came, for nobody reads their order."""


class ConsumerOffsets(PersistedTable):
    """Progress by `topic@group` and queue id.  Offsets are the next one to read.

    `flushed()`: the log offset up to which the disk has everything.
    """

    file = "consumerOffset.json"
    replaced = frozenset({"offsetTable"})

    def __init__(self, config: BrokerConfig, env: Env, flushed: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._config = config
        self._env = env
        buckets = concurrent_buckets(MAP_CAPACITY)
        self._offsets: Rows[dict[int, int]] = Rows(self._in_file, buckets=buckets)
        self._safe = SafeProgress(flushed)
        self._pulled: Rows[dict[int, int]] = Rows(_by_queue, buckets=buckets)
        self._resets: dict[str, dict[int, int]] = {}
        self._topics_of: Rows[dict[str, None]] = Rows(self._in_javas_order, buckets=GROUP_MAP_BUCKETS, concurrent=False)
        self._groups_of: dict[str, dict[str, None]] = {}
        self._pulled_topics_of: dict[str, dict[str, None]] = {}
        self._pulled_groups_of: dict[str, dict[str, None]] = {}
        self._drops = 0
        """Under way: whoever names a row that is still to go finds it gone."""
        self._doomed_topics: _Doomed = {}
        self._doomed_groups: _Doomed = {}
        self._commits = 0
        self._queues = 0
        self.data_version = DataVersion(timestamp=env.wall_ms)
        self.on_reset: list[Callable[[str, str, int], object]] = []
        """Called at each reset by the server: what the group has of this queue counts no more."""

    def is_full(self, group: str) -> bool:
        """No progress of the group in queues that have none of it is taken any more."""
        return self._queues >= PROGRESS_MAX or len(self._offsets.rows) >= ROWS_MAX or len(self._pulled.rows) >= ROWS_MAX

    # -- committed progress

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str = "") -> None:
        """The group has read the queue up to `offset`.  Going back is lawful and logged; `client` is who says so.

        A queue that the group has no progress in is passed over when the table is `full`.
        """
        if self._safe and self._safe.drop(key := topic + SEPARATOR + group, queue_id):
            self._offsets.touch(key)
            self.changes += 1
        self._put(group, topic, queue_id, offset, client)

    def commit_resting(self, group: str, topic: str, queue_id: int, offset: int, end_offset: int, client: str = "") -> None:
        """The same, never back; the file gets it when the disk has the log up to `end_offset`, where its check points lie."""
        if self._drops:
            self._settle(topic, group)
        row = self._offsets.rows.get(key := topic + SEPARATOR + group)
        old = None if row is None else row.get(queue_id)
        if row is None or old is None:
            self.commit(group, topic, queue_id, offset, client)
        elif offset > old:
            self._safe.add(key, queue_id, old, offset, end_offset)
            row[queue_id] = offset
            self._offsets.touch(key)
            self._count_commit(changed=True)

    def _put(self, group: str, topic: str, queue_id: int, offset: int, client: str) -> None:
        key = topic + SEPARATOR + group
        if self._drops:
            self._settle(topic, group)
        row = self._offsets.rows.get(key)
        if row is None:
            if self.is_full(group):
                return None
            self._queues += 1
            self._offsets.put(key, {queue_id: offset})
            self._link(topic, group)
        else:
            old = row.get(queue_id)
            if old == offset:
                return self._count_commit(changed=False)
            if old is None:
                if self.is_full(group):
                    return None
                self._queues += 1
            elif offset < old:
                self._env.log.warning(
                    "%s queue %d: offset goes back from %d to %d, committed by %s", key, queue_id, old, offset, client
                )
            row[queue_id] = offset
            self._offsets.touch(key)
        return self._count_commit(changed=True)

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The stored progress, or a pending reset; `ABSENT` when there is none."""
        key = topic + SEPARATOR + group
        if self._drops:
            self._settle(topic, group)
        if self._resets and self._config.use_server_side_reset_offset:
            reset = self._resets.get(key)
            if reset is not None and queue_id in reset:
                return reset[queue_id]
        row = self._offsets.rows.get(key)
        return ABSENT if row is None else row.get(queue_id, ABSENT)

    def queues(self, group: str, topic: str) -> Mapping[int, int] | None:
        """The progress of a group in every queue of a topic, or None."""
        return self._offsets.rows.get(self._settled(topic, group))

    def knows(self, group: str, topic: str, queue_id: int) -> bool:
        """Has the group ever committed in this queue?"""
        row = self.queues(group, topic)
        return row is not None and queue_id in row

    def clone(self, source: str, destination: str, topic: str) -> None:
        """Give `destination` the progress of `source` in a topic, unless the table `is_full` (`cloneOffset`)."""
        self._settle(topic, destination)
        self._settle(topic, source)
        row = self._offsets.rows.get(topic + SEPARATOR + source)
        if row is not None and source != destination and not self.is_full(destination):
            self._queues += len(row) - len(self._offsets.put(topic + SEPARATOR + destination, dict(row)) or ())
            self._safe.forget(topic + SEPARATOR + destination)
            self._link(topic, destination)
            self.changed(at_once=False)

    # -- what was handed out

    def commit_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group was given the queue up to `offset`."""
        row = self._pulled.rows.get(key := self._settled(topic, group))
        if row is None:
            if self.is_full(group):
                return
            self._queues += 1
            self._pulled.put(key, {queue_id: offset})
            self._pulled_topics_of.setdefault(group, {})[topic] = None
            self._pulled_groups_of.setdefault(topic, {})[group] = None
        else:
            old = row.get(queue_id)
            if old == offset or (old is None and self.is_full(group)):
                return
            self._queues += old is None
            row[queue_id] = offset
            self._pulled.touch(key)
        self.changes += 1

    def query_pull(self, group: str, topic: str, queue_id: int) -> int:
        """What was handed out, or the committed progress where nothing was."""
        row = self._pulled.rows.get(self._settled(topic, group))
        found = None if row is None else row.get(queue_id)
        return self.query(group, topic, queue_id) if found is None else found

    # -- resets by the server

    def assign_reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the progress, and let the group's next pull find it (`assignResetOffset`)."""
        if not topic or not group or queue_id < 0 or offset < 0:
            return
        self._resets.setdefault(topic + SEPARATOR + group, {})[queue_id] = offset
        self.commit(group, topic, queue_id, offset, "reset")
        for told in self.on_reset:
            told(topic, group, queue_id)

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """A reset of this queue waits to be found."""
        return bool(self._resets) and queue_id in self._resets.get(self._settled(topic, group), ())

    @property
    def has_resets(self) -> bool:
        """One of any queue."""
        return bool(self._resets)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The waiting reset, which then waits no more (`queryThenEraseResetOffset`)."""
        row = self._resets.get(key := self._settled(topic, group))
        if row is None:
            return None
        found = row.pop(queue_id, None)
        if not row:
            del self._resets[key]
        return found

    # -- by group, by topic

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group has stored progress (`whichTopicByConsumer`)."""
        found = list(self._topics_of.rows.get(group, ()))
        gone = self._doomed_topics
        return [topic for topic in found if topic not in gone or not _holds(gone, topic, group)] if gone else found

    def groups_of(self, topic: str) -> list[str]:
        """Groups with stored progress in the topic (`whichGroupByTopic`)."""
        found = [group for group in self._groups_of.get(topic, ()) if SEPARATOR not in group]
        gone = self._doomed_groups
        return [group for group in found if group not in gone or not _holds(gone, group, topic)] if gone else found

    def dropping_group(self, group: str) -> Generator[None, None, None]:
        """Forget all progress of a group in slices (`removeOffset`).  From the first on nobody finds any of it."""
        lists = self._topics_of.drop(group), self._pulled_topics_of.pop(group, None)
        yield from self._dropping(self._doomed_groups, group, lists, lambda topic: self._drop(topic, group))

    def dropping_topic(self, topic: str) -> Generator[None, None, None]:
        """Forget all progress in a topic in slices (`cleanOffsetByTopic`).  From the first on nobody finds any of it."""
        lists = self._groups_of.pop(topic, None), self._pulled_groups_of.pop(topic, None)
        yield from self._dropping(self._doomed_topics, topic, lists, lambda group: self._drop(topic, group))

    def dropping_topics(self, topics: Sequence[str]) -> list[Generator[None, None, None]]:
        """The same for several, each to be begun at once."""
        return [self.dropping_topic(topic) for topic in topics]

    def clamp(self, queue_bounds: Callable[[str, int], tuple[int, int]]) -> None:
        """After recovery: no progress beyond its queue's end, or new messages would be skipped (*differs*: Java keeps it)."""
        for key, row in self._offsets.rows.items():
            topic, _, group = key.partition(SEPARATOR)
            is_of_last = group == REVIVE_GROUP  # and not of the next
            for queue_id, offset in row.items():
                most = queue_bounds(topic, queue_id)[1] - is_of_last
                if offset > most:
                    self._env.log.warning(
                        "progress of %s in queue %d is %d, beyond the queue's end: set to %d", key, queue_id, offset, most
                    )
                    row[queue_id] = most
                    self._offsets.touch(key)
                    self.changed(at_once=False)

    # -- the file and answer 43

    @property
    def dirty(self) -> bool:
        """Something changed that no finished write contains, or what it contains has become safe since."""
        return super().dirty or bool(self._safe)

    def encode_slices(self) -> Iterator[bytes]:
        yield from self._safe.settling(self._offsets.touch)
        yield from super().encode_slices()

    def _in_file(self, key: str, row: dict[int, int]) -> dict[int, int]:
        return _by_queue(key, self._safe.of(key, row))

    def members(self) -> dict[str, Rows[Any] | Any]:
        """`consumerOffset.json`; `groupTopicMap` is derived and only there for Java's readers."""
        return {
            "dataVersion": self.data_version.plain(),
            "groupTopicMap": self._topics_of,
            "offsetTable": self._offsets,
            "pullOffsetTable": self._pulled,
        }

    def tables(self) -> tuple[Mapping[str, Mapping[str, None]], Mapping[str, Mapping[int, int]], Mapping[str, Mapping[int, int]]]:
        """By group its topics; by `topic@group` and queue what was committed, and what was handed out."""
        return self._topics_of.rows, self._offsets.rows, self._pulled.rows

    def take(self, document: dict[str, Any]) -> None:
        """The file's committed progress; what was handed out is not read back, as in Java."""
        read = ConsumerOffsetTable.from_plain(document)
        for key, row in read.offset_table.items():
            self._offsets.put(key, row)
            self._queues += len(row)
        for key in self._offsets.order:  # as Java finds them when it makes its map of groups
            self._link(*key.partition(SEPARATOR)[::2])
        self.data_version.assign(read.data_version)
        self.unknown = leftover(document, ("dataVersion", "groupTopicMap", "offsetTable", "pullOffsetTable"))

    def _in_javas_order(self, group: str, topics: dict[str, None]) -> list[str]:
        """As a `HashSet` has them that was filled while the table of offsets was walked."""
        if len(topics) > ORDERED_MAX:
            return list(topics)
        walked = sorted(topics, key=lambda topic: self._offsets.order.place(topic + SEPARATOR + group))
        return iteration_order(walked, TOPIC_SET_BUCKETS)

    def _count_commit(self, *, changed: bool) -> None:
        self._commits += 1
        if self._commits % max(1, self._config.consumer_offset_update_version_step) == 0:
            self.data_version.advance(self._env.wall_ms)
            changed = True
        if changed:
            self.changes += 1

    def _link(self, topic: str, group: str) -> None:
        self._groups_of.setdefault(topic, {})[group] = None
        topics = self._topics_of.get(group)
        if not group or SEPARATOR in group:
            return  # no group: what is kept for a broadcasting one
        if topics is None:
            self._topics_of.put(group, {topic: None})
        elif topic not in topics:
            topics[topic] = None
            self._topics_of.touch(group)

    def _dropping(
        self, doomed: _Doomed, name: str, lists: Iterable[dict[str, None] | None], drop: Callable[[str], None]
    ) -> Generator[None, None, None]:
        """The lists, which nobody else has any more, are emptied; while they are, they say what is doomed."""
        left = [members for members in lists if members]
        self._drops += 1
        doomed[name] = [*doomed.get(name, ()), *left]
        count = 0
        for members in left:
            while members:
                drop(members.popitem()[0])
                count += 1
                if count % DROPS_PER_SLICE == 0:
                    yield
        self._drops -= 1
        others = [members for members in doomed.pop(name, ()) if members]
        if others:
            doomed[name] = others

    def _settled(self, topic: str, group: str) -> str:
        """The row's key."""
        if self._drops:
            self._settle(topic, group)
        return topic + SEPARATOR + group

    def _settle(self, topic: str, group: str) -> None:
        """A row that is being dropped goes now."""
        if _holds(self._doomed_topics, topic, group) or _holds(self._doomed_groups, group, topic):
            self._drop(topic, group)

    def _drop(self, topic: str, group: str) -> None:
        for members in self._doomed_topics.get(topic, ()):
            members.pop(group, None)
        for members in self._doomed_groups.get(group, ()):
            members.pop(topic, None)
        self._unlink(topic, group)
        _out_of(self._pulled_groups_of, topic, group)
        _out_of(self._pulled_topics_of, group, topic)
        self._forget(topic + SEPARATOR + group)

    def _unlink(self, topic: str, group: str) -> None:
        topics = self._topics_of.get(group) or {}
        topics.pop(topic, None)
        if topics:
            self._topics_of.touch(group)
        else:
            self._topics_of.drop(group)
        _out_of(self._groups_of, topic, group)

    def _forget(self, key: str) -> None:
        self._resets.pop(key, None)
        self._safe.forget(key)
        for table in (self._offsets, self._pulled):
            row = table.drop(key)
            if row is not None:
                self._queues -= len(row)
                self.changes += 1


def _holds(doomed: _Doomed, name: str, member: str) -> bool:
    return any(member in members for members in doomed.get(name, ()))


def _out_of(table: dict[str, dict[str, None]], key: str, member: str) -> None:
    found = table.get(key)
    if found is not None:
        found.pop(member, None)
        if not found:
            del table[key]


def _by_queue(_: str, row: dict[int, int]) -> dict[int, int]:
    return dict(sorted(row.items()))
