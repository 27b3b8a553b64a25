"""From the log to queues and index, straight from memory: what `commit` wrote waits here until it may be seen.

One dispatch writes each queue that got units once, then the index.  A dispatch that fails half way may be repeated: queues know
what they have, the index knows what it has seen, and the units stay here until all of it is done.
(Java: ReputMessageService, CommitLogDispatcherBuildConsumeQueue, CommitLogDispatcherBuildIndex)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from rmq_store.errors import InvariantBroken
from rmq_store.index.index import TAIL_BYTES_MAX, Index
from rmq_store.log.staging import Staged
from rmq_store.queues.consume_queue import UNIT_FIELDS, ConsumeQueue
from rmq_store.results import Arrived
from rmq_wire.implied.queue_entries import UNQUEUED

TAGS_FIELD: Final = UNIT_FIELDS - 1
"""Both kinds of units begin with the same fields; the tags code is the last of them."""


KEY_BYTES_MIN: Final = 2
"""What a key takes in the log: a character and a blank."""


class Dispatcher:
    """`dispatched_offset`: everything that begins before it in the log is in queues and index."""

    def __init__(self, index: Index | None, dispatched_offset: int) -> None:
        self.index = index
        self.waiting: list[Staged] = []
        self.is_live = False
        """What comes was staged by this process, and not found by recovery."""
        self.dispatched_offset = dispatched_offset
        self.dirty_files: dict[str, int] = {}
        """queue files written since their last sync, and how many page borders were passed in each"""
        self.last_store_timestamp = 0
        self.last_physical_offset = -1
        """of the newest dispatched message"""
        self._arrived: list[Arrived] = []
        """not reported yet, since the dispatch that brought them failed later on"""

    def add(self, committed: Sequence[Staged]) -> None:
        """Raises InvariantBroken."""
        end = self.waiting[-1].end_offset if self.waiting else self.dispatched_offset
        if committed[0].physical_offset < end:
            seen = f"{committed[0].physical_offset} after {end}"
            raise InvariantBroken("what is committed follows what waits for the dispatch", seen)
        self.waiting += committed

    def forget(self, topics: Collection[str]) -> None:
        """They are deleted: nobody hears of messages that they had."""
        self._arrived = [one for one in self._arrived if one.topic not in topics]

    def dispatch(
        self, upto: int, limit: int, wall_ms: int, keys_max: int | None = None, new_queues_max: int | None = None
    ) -> list[Arrived]:
        """Make visible what ends at or before `upto`, at most `limit` units, and one or as many as have `keys_max` keys and are
        the first in `new_queues_max` queues.

        Raises OSError, and may be called again then; InvariantBroken.
        """
        waiting = self.waiting
        if not waiting:
            return []
        if len(waiting) <= limit and waiting[-1].end_offset <= upto:
            batch = waiting
        else:
            count = 0
            for staged in waiting[:limit]:
                if staged.end_offset > upto:
                    break
                count += 1
            if not count:
                return []
            batch = waiting[:count]
        if keys_max is not None and batch[-1].end_offset - batch[0].physical_offset > KEY_BYTES_MIN * keys_max:
            batch = _within_keys(batch, keys_max)
        if new_queues_max is not None and len(batch) > new_queues_max:
            batch = _within_new_queues(batch, new_queues_max)
        touched: list[ConsumeQueue] = []
        try:
            self._gather(batch, touched)
            for queue in touched:
                self._arrived.append(self._write(queue))
            if self.index is not None:
                self.index.reserve(batch, wall_ms)
                self.index.put_batch(batch)
                self.index.write_gathered(TAIL_BYTES_MAX)
        finally:
            for queue in touched:
                queue.pending = []
        arrived, self._arrived = self._arrived, []
        last = batch[-1]
        self.dispatched_offset = last.end_offset
        self.last_physical_offset = last.physical_offset
        self.last_store_timestamp = last.store_timestamp
        if batch is waiting:
            self.waiting = []
        else:
            del waiting[: len(batch)]
        return arrived

    def _gather(self, batch: list[Staged], touched: list[ConsumeQueue]) -> None:
        """Put each queue's units into its `pending`, and the queues that got some into `touched`, in order of their first."""
        for staged in batch:
            if staged.light:
                self._gather_light(staged, touched)
            if staged.sys_flag & UNQUEUED:
                continue
            queue = staged.queue
            pending = queue.pending
            if not pending:
                if staged.queue_offset < queue.max_offset or queue.is_deleted:
                    continue  # written by a dispatch that failed later; or its topic is gone
                if staged.queue_offset > queue.max_offset:
                    seen = f"{queue.segments.directory} ends at {queue.max_offset}, the next message has {staged.queue_offset}"
                    raise InvariantBroken("a queue has no gap", seen)
                touched.append(queue)
            if queue.is_plain:
                pending += (staged.physical_offset, staged.size, staged.tags_code)
            else:
                queue.pend(staged)
            queue.pending_timestamp = staged.store_timestamp

    def _gather_light(self, staged: Staged, touched: list[ConsumeQueue]) -> None:
        """A light queue takes each unit once, at its end."""
        for queue, _ in staged.light:
            if not queue.pending:
                if queue.is_deleted or staged.end_offset <= queue.end_physical:
                    continue
                touched.append(queue)
            queue.pend(staged)
            queue.pending_timestamp = staged.store_timestamp

    def _write(self, queue: ConsumeQueue) -> Arrived:
        pending = queue.pending
        tags_codes = pending[TAGS_FIELD :: queue.unit_fields]
        if pending[0] < queue.end_physical and self.is_live:
            seen = f"{queue.segments.directory}: {pending[0]} after {queue.end_physical}"
            raise InvariantBroken("a queue has its units in the order of the log", seen)
        queue.write_pending(self.dirty_files)
        return Arrived(queue.topic, queue.queue_id, queue.max_offset, tags_codes, queue.pending_timestamp)


def _within_new_queues(batch: list[Staged], most: int) -> list[Staged]:
    """Its beginning; what a first message costs is the queue's file and directories."""
    new = 0
    for count, staged in enumerate(batch):
        new += staged.queue_offset == 0
        if new > most:
            return batch[:count]
    return batch


def _within_keys(batch: list[Staged], keys_max: int) -> list[Staged]:
    """Its beginning, one message at least."""
    keys = 0
    if sum([len(staged.keys) for staged in batch]) > keys_max:
        for count, staged in enumerate(batch):
            keys += len(staged.keys)
            if keys > keys_max and count:
                return batch[:count]
    return batch
