"""What lies where in a store: the one walk over the files of logs, queues and index, in any file system and for any reader.

How a directory is listed is handed in, since there are two ways: by path in a `Tree`, for columns, checks and Spark, each part
when it is asked for and no sooner (a listing may be a round trip); and beneath an opened directory, where no link is followed,
for `rmq inspect`, which looks at everything once.  The first drops what does not belong, the second reports it with the reason.
`rmq inspect show` starts with this module: it loads neither numpy nor pyarrow.
Sources: `MappedFileQueue.load`, `ConsumeQueueStore.loadConsumeQueues`, `IndexService.load` of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from rmq_columns.files.filesystem import Entry, LeftOut, ignore, path_of
from rmq_wire.store_names import INDEX, INDEX_DIGITS, OFFSET_DIGITS, is_index_name, offset_of, queue_id_of


class Found(NamedTuple):
    """A file.  parts: its path beneath the directory that is walked.  start: place of its first byte in its log or queue."""

    parts: tuple[str, ...]
    start: int
    size: int


class FoundQueue(NamedTuple):
    """The files of one queue, in order."""

    topic: str
    queue_id: int
    files: list[Found]


class StoreTree:
    """A store, or the directory of a log.  Whatever `entries` raises is raised.

    entries: path beneath the directory -> what lies there, by name; nothing where there is no such directory.
    left_out: takes path and reason of what belongs to no log, queue or index.
    """

    def __init__(self, entries: Callable[[tuple[str, ...]], Iterable[Entry]], left_out: LeftOut = ignore) -> None:
        self.entries, self.left_out = entries, left_out

    def offset_files(self, *parts: str) -> list[Found]:
        """The files of a log or queue, by where they begin."""
        found = []
        for one in self.entries(parts):
            if one.is_directory:
                self.left_out(path_of(*parts, one.name, ""), "a directory among the files of a log or queue")
            elif (start := offset_of(one.name)) is None:
                why = f"not an offset of {OFFSET_DIGITS} digits; Java refuses to start with such a file here"
                self.left_out(path_of(*parts, one.name), why)
            else:
                found.append(Found((*parts, one.name), start, one.size))
        return sorted(found, key=_start)

    def topics(self, tree: str) -> Iterator[str]:
        """Those that have a directory of queues in this tree of queues."""
        for one in self.entries((tree,)):
            if one.is_directory:
                yield one.name
            else:
                self.left_out(path_of(tree, one.name), "a file where directories of topics are")

    def queues(
        self, tree: str, topics: Callable[[str], bool] | None = None, queue_ids: Container[int] | None = None
    ) -> Iterator[FoundQueue]:
        """The queues of a tree of queues, or those that are wanted, by topic and queue id."""
        for topic in self.topics(tree):
            if topics is None or topics(topic):
                for queue_id in self._queue_ids(tree, topic):
                    if queue_ids is None or queue_id in queue_ids:
                        yield FoundQueue(topic, queue_id, self.offset_files(tree, topic, str(queue_id)))

    def _queue_ids(self, tree: str, topic: str) -> list[int]:
        found = []
        for one in self.entries((tree, topic)):
            if not one.is_directory:
                self.left_out(path_of(tree, topic, one.name), "a file where directories of queues are")
            elif (queue_id := queue_id_of(one.name)) is None:
                self.left_out(path_of(tree, topic, one.name, ""), "not a queue number")
            else:
                found.append(queue_id)
        return sorted(found)

    def index_files(self) -> Iterator[Found]:
        """By name, that is by time."""
        for one in self.entries((INDEX,)):
            if one.is_directory:
                self.left_out(path_of(INDEX, one.name, ""), "a directory among the index files")
            elif not is_index_name(one.name):
                self.left_out(path_of(INDEX, one.name), f"not a time of {INDEX_DIGITS} digits")
            else:
                yield Found((INDEX, one.name), 0, one.size)


def _start(file: Found) -> int:
    return file.start
