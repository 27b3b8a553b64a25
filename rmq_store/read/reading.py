"""The half of a store that reads: queues, look-ups by position, key and time.

Everything here may raise `Cold`: the bytes are not in memory, and whoever asks lets a thread read them and asks again.  Nothing
makes a queue or a file, and what is only staged is never seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rmq_store.index.index import Index
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.draft import Draft
from rmq_store.log.reader import LogReader
from rmq_store.queues.queues import Queues
from rmq_store.read.asked import UnitFilter
from rmq_store.read.lookup import Lookup
from rmq_store.read.pull import QueueReader
from rmq_store.results import Boundary, IndexType, QueryResult, Read
from rmq_store.settings import StoreSettings
from rmq_store.statistics import StoreStatistics
from rmq_wire.message import StoredMessage


class Reading:
    """What `Store` inherits."""

    def __init__(
        self, settings: StoreSettings, log: CommitLog, queues: Queues, index: Index | None, statistics: StoreStatistics
    ) -> None:
        self.settings = settings
        self.statistics = statistics
        self._log = log
        self._queues = queues
        self._index = index
        self._reader = LogReader(log, settings.hot_window_bytes, settings.log_maps_max)
        self._pull = QueueReader(settings, log, queues, self._reader, statistics)
        self._lookup = Lookup(settings, log, queues, index, self._reader)

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min offset, max offset); (0, 0) for a queue that does not exist. Makes nothing."""
        return self._queues.bounds(topic, queue_id)

    def queue_ends(self, topic: str, queue_ids: Sequence[int]) -> list[int]:
        """The max offset of each of these queues. Makes nothing."""
        return self._queues.ends(topic, queue_ids)

    def read_queue(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        accepts: frozenset[int] | None = None,
        matches: UnitFilter | None = None,
    ) -> Read:
        """Messages of a queue from `offset` on (Java: DefaultMessageStore.getMessage). Raises Cold.

        `accepts`: hash codes of the tags wanted, None for all; `matches` sees each whole unit and may refuse it.
        """
        return self._pull.read(topic, queue_id, offset, max_count, max_bytes, accepts, matches)

    def forget_values(self) -> None:
        """What filters have met so far (`rmq_store.read.columns`): for those who measure what it is worth."""
        self._pull.columns.forget()

    def queue_unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tags code) of one visible entry of a queue; the caller knows its bounds. Raises Cold."""
        return self.queue_units(topic, queue_id, offset, 1)[0]

    def queue_units(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        """The same of up to `count` entries from `offset` on, one at least. Raises Cold."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            raise IndexError(f"{topic} queue {queue_id} has no offset {offset}")
        return queue.units(offset, min(count, queue.max_offset - offset))

    def is_in_memory(self, topic: str, queue_id: int) -> bool:
        """A queue has all that it ever had, and its first message is so near to the log's end that it counts as in memory.

        Raises Cold.  Java: `DefaultMessageStore.checkInMemByConsumeOffset`, which asks the kernel.
        """
        lowest, highest = self.queue_bounds(topic, queue_id)
        if lowest or not highest:
            return False
        return self._log.written_offset - self.queue_unit(topic, queue_id, 0)[0] <= self.settings.memory_bytes

    def stored(self, physical_offset: int, size: int) -> StoredMessage | None:
        """The message that an entry of a queue names, or None when the log has none of this size there. Its body is a view.

        Raises Cold.
        """
        return self._reader.unit_of(physical_offset, size)

    def copies(self, topic: str, places: Iterable[tuple[int, int]]) -> Iterator[Draft | None]:
        """What `stored` gives for each of these (physical offset, size), mostly of this topic, as drafts of their copies.

        A draft has the message's topic and properties; queue, tags and keys are to be set (`rmq_store.log.copies`).  Raises Cold
        at the first message that is not in memory.  Nothing may be committed while it is walked.
        """
        return self._reader.copies_of(topic, places)

    def lookup(self, physical_offset: int, *, checked: bool = False) -> memoryview | None:
        """The whole unit that begins here, or None. `checked`: only when its queue entry points back to it. Raises Cold."""
        return self._lookup.unit(physical_offset, checked)

    def lookup_message(self, physical_offset: int) -> StoredMessage | None:
        """The message to which a queue entry points that begins here, or None. Its body is a view. Raises Cold."""
        return self._lookup.message(physical_offset)

    def query(
        self,
        topic: str,
        key: str,
        max_num: int,
        begin_ms: int,
        end_ms: int,
        index_type: IndexType = IndexType.KEY,
    ) -> QueryResult:
        """Messages with this key, unique key or tag, stored within the times (Java: queryMessage). Raises Cold."""
        return self._lookup.query(topic, key, max_num, begin_ms, end_ms, index_type)

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER) -> int:
        """Java: getOffsetInQueueByTime. 0 for a queue that does not exist. Raises Cold."""
        return self._lookup.offset_by_time(topic, queue_id, timestamp, boundary)

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of one message, ms; -1 when there is none. Raises Cold."""
        return self._lookup.store_time_at(topic, queue_id, offset)

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Store time of the queue's first message, ms; -1 when it has none. Raises Cold."""
        return self._lookup.earliest_store_time(topic, queue_id)

    def earliest_message_time(self) -> int:
        """Store time of the log's first message, ms; -1 when it is empty. Raises Cold."""
        return self._reader.store_timestamp_at(self._log.min_offset)
