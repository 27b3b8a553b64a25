"""All consume queues of a store, by topic and queue id, and the one place where a topic's name becomes a path.

Looking a queue up never makes one; only an append does, and files appear at its first dispatch.  What a clean stop left is opened
topic by topic, when one of its queues is asked for (`rmq_store.queues.unopened`).  (Java: ConsumeQueueStore)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

from rmq_store.disk.disk import Disk, Kind
from rmq_store.disk.segments import OpenFiles, Segments
from rmq_store.errors import Closed, ForeignFile, Illegal, IllegalKind, Unwritable
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import NOTHING, ConsumeQueue
from rmq_store.queues.extended_queue import ExtendedConsumeQueue
from rmq_store.queues.key_heads import KeyHeads, SharedHeads
from rmq_store.queues.unopened import Unopened
from rmq_store.settings import StoreSettings
from rmq_wire import store_names
from rmq_wire.implied.previous_queues import NOTHING_KNOWN, PreviousQueues
from rmq_wire.names import LMQ_PREFIX, is_system_topic, path_problem
from rmq_wire.store_names import QUEUE_ID_MAX, queue_id_of

TOPICS_AT_ONCE = 16
"""looked at, or deleted, between two pauses"""


class Queues:
    """The table of queues. `by_topic` maps topic to {queue id: queue}, of topics that are opened."""

    def __init__(
        self,
        settings: StoreSettings,
        files: OpenFiles,
        has_batch_queues: Callable[[str], bool | None] | None = None,
        previous: PreviousQueues = NOTHING_KNOWN,
    ) -> None:
        """`has_batch_queues`: the kind of a topic (its attribute queue.type), None for none; without it what is on disk decides.
        `previous`: what the queues before these knew."""
        self.directory = f"{settings.store_path_root_dir}/{store_names.QUEUES}"
        self.batch_directory = f"{settings.store_path_root_dir}/{store_names.BATCH_QUEUES}"
        self.by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        self.unopened = Unopened(files.disk, self.directory, settings.consume_queue_file_bytes)
        self.unsynced_directories: dict[str, None] = {}
        self.made = 0
        """without a file, since all that waits was last dispatched"""
        self._files = files
        self._file_bytes = settings.consume_queue_file_bytes
        self._batch_file_bytes = settings.batch_consume_queue_file_bytes
        self.ext_directory = f"{settings.store_path_root_dir}/{store_names.EXTENSIONS}"
        self._ext_file_bytes = settings.mapped_file_size_consume_queue_ext
        self._extends = settings.enable_consume_queue_ext
        self._extended: set[str] = set()
        """topic/queue id with extensions on disk: they are read also when no new ones are made"""
        self._has_batch = has_batch_queues
        self._previous = previous
        self._shared_heads = SharedHeads()
        self._doomed: dict[str, list[ConsumeQueue]] = {}
        """deleted queues whose files are not all removed"""
        self.losing_files: tuple[str, int] | None = None
        """topic and id of a queue that loses files in another thread now"""
        self._batch_topics: set[str] = set()
        """found on disk, or made since"""
        self._orphans: set[str] = set()
        """topics that nobody knew when their queues were found: a kill has left these of a topic that was deleted"""

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Every queue; whatever is not opened is opened."""
        for topic in self.unopened.topics():
            self._open(topic)
        yield from self.opened()

    def opened(self) -> Iterator[ConsumeQueue]:
        for queues in self.by_topic.values():
            yield from queues.values()

    def topics(self) -> list[str]:
        """Opened or not."""
        return [*self.by_topic, *self.unopened.topics()]

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Its queues, opened when they are not."""
        return list((self.by_topic.get(topic) or self._open(topic) or {}).values())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.by_topic.get(topic)
        if queues is None:
            queues = self._open(topic)
        return None if queues is None else queues.get(queue_id)

    def newest(self) -> ConsumeQueue | None:
        """The queue of the last message of all that are in queues."""
        newest = max(self.opened(), key=lambda queue: queue.end_physical, default=None)
        end, topic, queue_id = self.unopened.newest
        if end > (NOTHING if newest is None else newest.end_physical):
            newest = self.find(topic, queue_id)
        return None if newest is None or newest.end_physical == NOTHING else newest

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The least offset and the next one; (0, 0) of a queue that does not exist. Opens nothing."""
        queues = self.by_topic.get(topic)
        if queues is None:
            return self.bounds_of(topic).get(queue_id, (0, 0))
        queue = queues.get(queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def ends(self, topic: str, queue_ids: Iterable[int]) -> list[int]:
        """The next offset of each of these queues."""
        queues = self.by_topic.get(topic)
        if queues is None:
            bounds = self.bounds_of(topic)
            return [bounds.get(queue_id, (0, 0))[1] for queue_id in queue_ids]
        return [0 if (queue := queues.get(queue_id)) is None else queue.max_offset for queue_id in queue_ids]

    def bounds_of(self, topic: str) -> dict[int, tuple[int, int]]:
        """The same by queue id, of queues that ever had a message."""
        queues = self.by_topic.get(topic)
        found = self.unopened.queues(topic) if queues is None else queues.values()
        return {one.queue_id: (one.min_offset, one.max_offset) for one in found if one.max_offset}

    def _open(self, topic: str) -> dict[int, ConsumeQueue] | None:
        """Queues of a topic that is not opened, of its row, without the disk; None when there is no such topic."""
        rows = self.unopened.take(topic)
        if not rows:
            return None
        heads = KeyHeads(topic, self._shared_heads)
        queues = self.by_topic[topic] = {}
        for row in rows:
            segments = self._segments(f"{self.directory}/{topic}/{row.queue_id}", self._file_bytes)
            segments.starts = [row.first + number * self._file_bytes for number in range(row.count)]
            queue = queues[row.queue_id] = ConsumeQueue(topic, row.queue_id, segments, heads)
            queue.min_offset, queue.end_physical = row.min_offset, row.end_physical
            queue.max_offset = queue.next_offset = row.max_offset
        return queues

    def put_back(self, topic: str) -> None:
        """A row is enough for an opened topic that nobody needs now; nothing happens when somebody does."""
        queues = self.by_topic.get(topic)
        if queues is not None and self.unopened.put_back(topic, queues.values()):
            del self.by_topic[topic]

    def noted(self) -> dict[str, bytes]:
        """By topic, what the next start is to find. Raises OSError."""
        return self.unopened.noted(self.by_topic)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made in memory when absent. Raises Illegal for names that must not become paths."""
        queues = self.by_topic.get(topic)
        if queues is None:
            queues = self._open(topic)
        if queues is None:
            if problem := path_problem(topic):
                raise Illegal(IllegalKind.MESSAGE, f"topic {topic[:64]!r} cannot be stored: {problem}")
            queues = self.by_topic[topic] = {}
        queue = queues.get(queue_id)
        if queue is None:
            if not 0 <= queue_id <= QUEUE_ID_MAX:
                raise Illegal(IllegalKind.MESSAGE, f"queue id {queue_id} is not in 0..{QUEUE_ID_MAX}")
            heads = next(iter(queues.values())).hash_heads if queues else KeyHeads(topic, self._shared_heads)
            queue = queues[queue_id] = self._made(topic, queue_id, heads)
        return queue

    def adopt(self, topic: str) -> None:
        """Somebody has made it: queues of another kind that were left of an earlier one of its name go."""
        if topic not in self._orphans or self._has_batch is None:
            return
        is_batch = self._has_batch(topic)
        if is_batch is None:
            return
        self._orphans.discard(topic)
        if is_batch is not (topic in self._batch_topics):
            self._doom(topic)

    def _doom(self, topic: str) -> bool:
        """Its queues are gone for everybody, their files are still to be removed.  Whether there were any."""
        queues = self.by_topic.pop(topic, None) or self._open(topic)
        self.by_topic.pop(topic, None)
        self.unopened.forget(topic)
        self._orphans.discard(topic)
        if not queues:
            return False
        self._doomed.setdefault(topic, []).extend(queues.values())
        for queue in queues.values():
            queue.is_deleted = True
        return True

    def _made(self, topic: str, queue_id: int, heads: KeyHeads) -> ConsumeQueue:
        self.made += 1
        if (topic, queue_id) == self.losing_files:  # a deleted one of this name: its thread must not meet our files
            raise Unwritable(Closed.DISK_FULL, f"old files of {topic} are just being removed")
        try:
            while topic in self._doomed:
                self._remove_doomed(topic)
        except OSError as reason:
            raise Unwritable(Closed.DISK_FULL, f"old files of {topic} cannot be removed: {reason}") from reason
        if topic not in self._batch_topics and self._has_batch is not None and self._has_batch(topic):
            self._batch_topics.add(topic)
        is_batch = topic in self._batch_topics
        size = self._batch_file_bytes if is_batch else self._file_bytes
        segments = self._segments(f"{self._topic_path(topic)}/{queue_id}", size)
        if is_batch:
            return BatchConsumeQueue(topic, queue_id, segments, heads)
        ext_path = f"{self.ext_directory}/{topic}/{queue_id}"
        extends = self._extends or (topic, queue_id) in self._previous.extended
        if (not extends and f"{topic}/{queue_id}" not in self._extended) or topic.startswith(LMQ_PREFIX):
            return ConsumeQueue(topic, queue_id, segments, heads)
        ext = self._segments(ext_path, self._ext_file_bytes)
        return ExtendedConsumeQueue(topic, queue_id, segments, heads, ext, extends, self._previous)

    def _segments(self, directory: str, file_bytes: int) -> Segments:
        return Segments(self._files, directory, file_bytes, self.unsynced_directories)

    def _topic_path(self, topic: str) -> str:
        return f"{self.batch_directory if topic in self._batch_topics else self.directory}/{topic}"

    def load(self, clean: bool, noted: Mapping[str, bytes]) -> list[str]:
        """Find every queue's files, but those of topics that are as noted. Returns paths of empty files, to be removed.

        Raises ForeignFile, OSError.
        """
        disk = self._files.disk
        empty: list[str] = []
        for topic in _directories(disk, self.ext_directory):
            self._extended.update(f"{topic}/{name}" for name in _directories(disk, f"{self.ext_directory}/{topic}"))
        extended = {path.rpartition("/")[0] for path in self._extended}
        for root in (self.batch_directory, self.directory):
            for topic in _directories(disk, root):
                self._check_kind(root, topic)
                is_plain = root == self.directory and not self._extends and topic not in extended
                if is_plain and topic in noted and self.unopened.add(topic, noted[topic]):
                    continue
                for name in _directories(disk, f"{root}/{topic}"):
                    queue_id = queue_id_of(name)
                    if queue_id is not None:  # Java passes over what is no int
                        empty += self.get(topic, queue_id).segments.load(clean)
        return empty + self._load_extensions(clean)

    def _load_extensions(self, clean: bool) -> list[str]:
        empty: list[str] = []
        for path in sorted(self._extended):
            topic, _, name = path.rpartition("/")
            queue_id = queue_id_of(name)
            if queue_id is not None:
                queue = self.get(topic, queue_id)
                if isinstance(queue, ExtendedConsumeQueue):
                    empty += queue.ext.load(clean)
        return empty

    def _check_kind(self, root: str, topic: str) -> None:
        """Raises ForeignFile where Java refuses, too: queues of a kind that the topic does not have."""
        is_batch = root == self.batch_directory
        expected = self._has_batch(topic) if self._has_batch is not None else None
        if expected is None:
            if self._has_batch is not None:
                self._orphans.add(topic)
            expected = is_batch or topic in self._batch_topics
        if expected is not is_batch:
            kind = "batch queues" if is_batch else "ordinary queues"
            raise ForeignFile(f"{root}/{topic} holds {kind}, which the topic does not have (queue.type): move it away")
        if is_batch:
            self._batch_topics.add(topic)

    def is_known(self, topic: str) -> bool:
        """Somebody has made it, and it was not deleted; also where nobody says which topics there are."""
        return topic not in self._orphans or topic.startswith(LMQ_PREFIX)

    def sync_directories(self) -> None:
        """Every directory down to the files: after a power cut nobody knows which entries are safe. Raises OSError."""
        disk = self._files.disk
        for root in (self.directory, self.batch_directory, self.ext_directory):
            if not disk.is_directory(root):
                continue
            disk.sync_directory(root)
            for topic in _directories(disk, root):
                disk.sync_directory(f"{root}/{topic}")
                for name in _directories(disk, f"{root}/{topic}"):
                    disk.sync_directory(f"{root}/{topic}/{name}")
        self.unsynced_directories.clear()

    def delete(self, topics: Iterable[str]) -> int:
        """Remove the files and directories of these topics; how many were there. Raises OSError."""
        return exhausted(self.deleting(topics))

    def deleting(self, topics: Iterable[str]) -> Generator[None, None, int]:
        """The same with a pause after every queue. At the first all of them are gone for everybody; a topic that is made
        again meanwhile waits for its old files. Raises OSError."""
        count = sum(map(self._doom, topics))
        for topic in list(self._doomed):
            while self._doomed.get(topic):
                self._remove_doomed(topic)
                yield
        return count

    def remove_deleted(self) -> None:
        """What `deleting` has left so far. Raises OSError."""
        while self._doomed:
            self._remove_doomed(next(iter(self._doomed)))

    def _remove_doomed(self, topic: str) -> None:
        """One deleted queue; behind the last of a topic its directory goes, too."""
        disk = self._files.disk
        queue = self._doomed[topic][-1]
        queue.remove_files()
        _remove_empty(disk, queue.segments.directory)
        if isinstance(queue, ExtendedConsumeQueue):
            _remove_empty(disk, queue.ext.directory)
        self._doomed[topic].pop()
        if not self._doomed[topic]:
            del self._doomed[topic]
            if self.by_topic.get(topic):
                return
            _remove_empty(disk, self._topic_path(topic))
            _remove_empty(disk, f"{self.ext_directory}/{topic}")
            self._batch_topics.discard(topic)
            self.unsynced_directories[self.directory] = None

    def removing_expired(self, log_min: int) -> Generator[None, None, int]:
        """Remove every queue whose newest message begins before this log position, but those of system topics and those with
        messages on their way, with a pause after each, and after some that stay; how many. A queue made again begins at 0, as
        in Java. Raises OSError.
        """
        disk = self._files.disk
        count = 0
        for number, topic in enumerate(self.topics(), 1):
            if number % TOPICS_AT_ONCE == 0:
                yield
            unopened = self.unopened.queues(topic)
            if is_system_topic(topic) or (unopened and not any(0 <= row.end_physical < log_min for row in unopened)):
                continue
            for queue in self.of_topic(topic):
                expired = 0 <= queue.end_physical < log_min and queue.next_offset == queue.max_offset
                if not expired or queue.is_deleted or self.find(topic, queue.queue_id) is not queue:
                    continue
                del self.by_topic[topic][queue.queue_id]
                queue.is_deleted = True
                self._doomed.setdefault(topic, []).append(queue)
                self._remove_doomed(topic)
                count += 1
                if self.by_topic[topic]:
                    yield
            if self.by_topic.get(topic) == {}:
                del self.by_topic[topic]
                self.unopened.forget(topic)
                _remove_empty(disk, self._topic_path(topic))
                self._batch_topics.discard(topic)
        return count


def _directories(disk: Disk, path: str) -> list[str]:
    """Names of the directories in here; links and devices are refused, stray files are Java's to ignore, so ours too."""
    names = []
    for name, kind, _ in disk.entries(path):
        if kind in (Kind.LINK, Kind.OTHER):
            raise ForeignFile(f"{path}/{name} is a {kind.value}: move it away, only directories belong there")
        if kind is Kind.DIRECTORY:
            names.append(name)
    return names


def exhausted(steps: Generator[None, None, int]) -> int:
    """Do it all at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value)


def _remove_empty(disk: Disk, path: str) -> None:
    try:
        disk.remove_directory(path)
    except OSError:
        pass  # something else lies in it: not ours to remove
