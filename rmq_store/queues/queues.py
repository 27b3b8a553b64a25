"""All consume queues of a store, by topic and queue id, and the one place where a topic's name becomes a path.

Looking a queue up never makes one; only an append does, and files appear at its first dispatch.  (Java: ConsumeQueueStore)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator

from rmq_store.disk.disk import Disk, Kind
from rmq_store.disk.segments import OpenFiles, Segments
from rmq_store.errors import Closed, ForeignFile, Illegal, IllegalKind, Unwritable
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.queues.extended_queue import ExtendedConsumeQueue
from rmq_store.queues.previous_queues import NOTHING_KNOWN, PreviousQueues
from rmq_store.settings import StoreSettings
from rmq_wire.names import LMQ_PREFIX, is_system_topic, path_problem

QUEUE_ID_MAX = (1 << 31) - 1


class Queues:
    """The table of queues. `by_topic` maps topic to {queue id: queue}."""

    def __init__(
        self,
        settings: StoreSettings,
        files: OpenFiles,
        has_batch_queues: Callable[[str], bool] | None = None,
        previous: PreviousQueues = NOTHING_KNOWN,
    ) -> None:
        """`has_batch_queues`: the kind of a topic (its attribute queue.type); without it what is on disk decides.
        `previous`: what the queues before these knew."""
        self.directory = f"{settings.store_path_root_dir}/consumequeue"
        self.batch_directory = f"{settings.store_path_root_dir}/batchconsumequeue"
        self.by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        self.unsynced_directories: dict[str, None] = {}
        self._files = files
        self._file_bytes = settings.consume_queue_file_bytes
        self._batch_file_bytes = settings.batch_consume_queue_file_bytes
        self.ext_directory = f"{settings.store_path_root_dir}/consumequeue_ext"
        self._ext_file_bytes = settings.mapped_file_size_consume_queue_ext
        self._extends = settings.enable_consume_queue_ext
        self._extended: set[str] = set()
        """topic/queue id with extensions on disk: they are read also when no new ones are made"""
        self._is_told = has_batch_queues
        self._previous = previous
        self._doomed: dict[str, list[ConsumeQueue]] = {}
        """queues of deleted topics whose files are not all removed"""
        self._batch_topics: set[str] = set()
        """found on disk, or made since"""

    def __iter__(self) -> Iterator[ConsumeQueue]:
        for queues in self.by_topic.values():
            yield from queues.values()

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        queues = self.by_topic.get(topic)
        return None if queues is None else queues.get(queue_id)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made in memory when absent. Raises Illegal for names that must not become paths."""
        queues = self.by_topic.get(topic)
        if queues is None:
            if problem := path_problem(topic):
                raise Illegal(IllegalKind.MESSAGE, f"topic {topic[:64]!r} cannot be stored: {problem}")
            queues = self.by_topic[topic] = {}
        queue = queues.get(queue_id)
        if queue is None:
            if not 0 <= queue_id <= QUEUE_ID_MAX:
                raise Illegal(IllegalKind.MESSAGE, f"queue id {queue_id} is not in 0..{QUEUE_ID_MAX}")
            heads = next(iter(queues.values())).hash_heads if queues else {}
            queue = queues[queue_id] = self._made(topic, queue_id, heads)
        return queue

    def _made(self, topic: str, queue_id: int, heads: dict[str, int]) -> ConsumeQueue:
        try:
            while topic in self._doomed:
                self._remove_doomed(topic)
        except OSError as reason:
            raise Unwritable(Closed.DISK_FULL, f"old files of {topic} cannot be removed: {reason}") from reason
        if topic not in self._batch_topics and self._is_told is not None and self._is_told(topic):
            self._batch_topics.add(topic)
        is_batch = topic in self._batch_topics
        size = self._batch_file_bytes if is_batch else self._file_bytes
        segments = Segments(self._files, f"{self._topic_path(topic)}/{queue_id}", size, self.unsynced_directories)
        if is_batch:
            return BatchConsumeQueue(topic, queue_id, segments, heads)
        ext_path = f"{self.ext_directory}/{topic}/{queue_id}"
        extends = self._extends or (topic, queue_id) in self._previous.extended
        if (not extends and f"{topic}/{queue_id}" not in self._extended) or topic.startswith(LMQ_PREFIX):
            return ConsumeQueue(topic, queue_id, segments, heads)
        ext = Segments(self._files, ext_path, self._ext_file_bytes, self.unsynced_directories)
        return ExtendedConsumeQueue(topic, queue_id, segments, heads, ext, extends, self._previous)

    def _topic_path(self, topic: str) -> str:
        return f"{self.batch_directory if topic in self._batch_topics else self.directory}/{topic}"

    def load(self, clean: bool) -> list[str]:
        """Find every queue's files. Returns paths of empty files, to be removed. Raises ForeignFile, OSError."""
        disk = self._files.disk
        empty: list[str] = []
        for topic in _directories(disk, self.ext_directory):
            self._extended.update(f"{topic}/{name}" for name in _directories(disk, f"{self.ext_directory}/{topic}"))
        for root in (self.batch_directory, self.directory):
            for topic in _directories(disk, root):
                self._check_kind(root, topic)
                for name in _directories(disk, f"{root}/{topic}"):
                    if not _is_queue_id(name):
                        continue  # Java passes over what is no int
                    empty += self.get(topic, int(name)).segments.load(clean)
        return empty + self._load_extensions(clean)

    def _load_extensions(self, clean: bool) -> list[str]:
        empty: list[str] = []
        for path in sorted(self._extended):
            topic, _, name = path.rpartition("/")
            if _is_queue_id(name):
                queue = self.get(topic, int(name))
                if isinstance(queue, ExtendedConsumeQueue):
                    empty += queue.ext.load(clean)
        return empty

    def _check_kind(self, root: str, topic: str) -> None:
        """Raises ForeignFile where Java refuses, too: queues of a kind that the topic does not have."""
        is_batch = root == self.batch_directory
        told = self._is_told(topic) if self._is_told is not None else is_batch or topic in self._batch_topics
        if told is not is_batch:
            kind = "batch queues" if is_batch else "ordinary queues"
            raise ForeignFile(f"{root}/{topic} holds {kind}, which the topic does not have (queue.type): move it away")
        if is_batch:
            self._batch_topics.add(topic)

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
        count = 0
        for topic in topics:
            queues = self.by_topic.pop(topic, None)
            if queues:
                count += 1
                self._doomed[topic] = list(queues.values())
                for queue in queues.values():
                    queue.is_deleted = True
        for topic in list(self._doomed):
            while self._doomed.get(topic):
                self._remove_doomed(topic)
                yield
        return count

    def _remove_doomed(self, topic: str) -> None:
        """One queue of a deleted topic; behind the last its directory goes, too."""
        disk = self._files.disk
        queue = self._doomed[topic][-1]
        queue.remove_files()
        _remove_empty(disk, queue.segments.directory)
        if isinstance(queue, ExtendedConsumeQueue):
            _remove_empty(disk, queue.ext.directory)
        self._doomed[topic].pop()
        if not self._doomed[topic]:
            del self._doomed[topic]
            _remove_empty(disk, self._topic_path(topic))
            _remove_empty(disk, f"{self.ext_directory}/{topic}")
            self._batch_topics.discard(topic)
            self.unsynced_directories[self.directory] = None

    def remove_expired(self, log_min: int) -> int:
        """Remove every queue whose newest message begins before this log position, but those of system topics and those with

        messages on their way; how many. A queue made again begins at 0, as in Java. Raises OSError.
        """
        disk = self._files.disk
        count = 0
        for topic, queues in list(self.by_topic.items()):
            if is_system_topic(topic):
                continue
            for queue in list(queues.values()):
                if not 0 <= queue.end_physical < log_min or queue.next_offset != queue.max_offset:
                    continue
                del queues[queue.queue_id]
                queue.is_deleted = True
                queue.remove_files()
                _remove_empty(disk, queue.segments.directory)
                if isinstance(queue, ExtendedConsumeQueue):
                    _remove_empty(disk, queue.ext.directory)
                count += 1
            if not queues:
                del self.by_topic[topic]
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


def _is_queue_id(name: str) -> bool:
    return re.fullmatch(r"0|[1-9][0-9]{0,9}", name) is not None and int(name) <= QUEUE_ID_MAX


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
