"""What a push consumer holds of one queue: messages that came and are not done, and from where a commit would go on.

Messages are done in any order; what may be committed is the smallest offset that is not done.  So one stuck message holds the
commit back, however many behind it are done: that is why the span has a limit.  Ordered consumption takes messages out, and
either commits them or puts them back.  Pure: time is an argument, in milliseconds that never step: a wall clock that is set back
would keep a lock alive that nobody renews, one that is set on would take a queue away from a listener.
Source: `ProcessQueue`, `ConsumeMessageConcurrentlyService.processConsumeResult`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Protocol

from rmq_wire.bodies.consumer_answers import ProcessQueueInfo

LOCK_LIVES_MS: Final = 30_000
"""Java: `rocketmq.client.rebalance.lockMaxLiveTime`; half of what the broker gives, so that two never both think they own it."""
PULL_LIVES_MS: Final = 120_000
"""A queue that was not pulled for so long is given up and taken anew.  Java: `rocketmq.client.pull.pullMaxIdleTime`."""
EXPIRED_AT_ONCE_MAX: Final = 16
_MIB: Final = 1 << 20


class Held(Protocol):
    """What is needed of a message."""

    @property
    def queue_offset(self) -> int:
        """Its number in the queue."""

    @property
    def body_size(self) -> int:
        """Bytes of its body as it came."""


class ProcessQueue:
    """`dropped`: the queue is somebody else's now, results no longer count.  `size`: bytes of bodies as they came."""

    def __init__(self, now_ms: int) -> None:
        self.dropped = False
        self.locked = False
        self.resting = False
        """Dropped, to be begun again elsewhere in a while; until then nobody gives it up who need not."""
        self.try_unlock_times = 0
        self.began_at = 0
        """The offset of the first pull."""
        self.last_lock_ms = now_ms
        self.last_pull_ms = now_ms
        self.last_consume_ms = now_ms
        self.count = 0
        self.size = 0
        self._waiting: OrderedDict[int, Held] = OrderedDict()
        """By offset, in order.  No dict: one whose first entries are gone is walked through, gaps and all, to find its first."""
        self._taken: dict[int, Held] = {}
        self._started_ms: dict[int, int] = {}
        """When a listener got it, by offset."""
        self._offset_max = 0
        self._consuming = False
        self.on_less: Callable[[], None] = lambda: None
        """Called when it has less than before."""

    # What came

    def put(self, messages: Iterable[Held]) -> bool:
        """Add what a pull brought; what is there already counts once.  Whether an ordered consumer must begin: none is at it."""
        last = next(reversed(self._waiting), -1)
        in_order = True
        for message in messages:
            offset = message.queue_offset
            if offset in self._waiting:
                self._waiting[offset] = message
                continue
            in_order &= offset > last
            last = max(last, offset)
            self._waiting[offset] = message
            self.count += 1
            self.size += message.body_size
            self._offset_max = offset
        if not in_order:
            self._waiting = OrderedDict(sorted(self._waiting.items()))
        begin = bool(self._waiting) and not self._consuming
        self._consuming |= begin
        return begin

    def holds(self, message: Held) -> bool:
        """It is not done."""
        return message.queue_offset in self._waiting

    @property
    def span(self) -> int:
        """From the first to the last that is not done."""
        return next(reversed(self._waiting)) - next(iter(self._waiting)) if self._waiting else 0

    def too_full(self, *, count_max: int, size_max: int, span_max: int | None) -> str | None:
        """Why nothing more should be pulled for now, or None.  span_max: None for ordered consumption."""
        if self.count > count_max:
            return f"{self.count} messages, {count_max} are the most"
        if self.size > size_max:
            return f"{self.size >> 20} MiB, {size_max >> 20} are the most"
        if span_max is not None and self.span > span_max:
            return f"a span of {self.span}, {span_max} is the most"
        return None

    # Concurrent consumption

    def started(self, messages: Iterable[Held], now_ms: int) -> None:
        """A listener gets them now."""
        for message in messages:
            self._started_ms[message.queue_offset] = now_ms

    def remove(self, messages: Iterable[Held], now_ms: int) -> int | None:
        """These are done.  The offset to commit; None where nothing was held at all."""
        self.last_consume_ms = now_ms
        if not self._waiting:
            return None
        for message in messages:
            found = self._waiting.pop(message.queue_offset, None)
            self._started_ms.pop(message.queue_offset, None)
            if found is not None:
                self._forget(found)
        return next(iter(self._waiting), self._offset_max + 1)

    def expired(self, now_ms: int, timeout_ms: int) -> list[Held]:
        """Messages at the head that a listener has had for longer: to be given back, then removed with `remove`."""
        found: list[Held] = []
        for offset, message in self._waiting.items():
            started = self._started_ms.get(offset)
            if len(found) == EXPIRED_AT_ONCE_MAX or started is None or now_ms - started <= timeout_ms:
                break
            found.append(message)
        return found

    # Ordered consumption

    def take(self, most: int, now_ms: int) -> list[Held]:
        """The next messages, which are then neither waiting nor done.  None: whoever was at it is at it no more."""
        self.last_consume_ms = now_ms
        taken = list(islice(self._waiting.values(), most))
        for message in taken:
            self._taken[message.queue_offset] = self._waiting.pop(message.queue_offset)
        if not taken:
            self._consuming = False
        return taken

    def commit(self) -> int | None:
        """What was taken is done.  The offset to commit; None where nothing was taken."""
        if not self._taken:
            return None
        for message in self._taken.values():
            self._forget(message)
        last = max(self._taken)
        self._taken.clear()
        return last + 1

    def rollback(self) -> None:
        """What was taken waits again."""
        self._put_back(list(self._taken))

    def consume_again(self, messages: Iterable[Held]) -> None:
        """These of the taken ones wait again."""
        self._put_back([message.queue_offset for message in messages if message.queue_offset in self._taken])

    def _put_back(self, offsets: Sequence[int]) -> None:
        for offset in sorted(offsets, reverse=True):
            first = next(iter(self._waiting), offset)
            self._waiting[offset] = self._taken.pop(offset)
            if offset < first:
                self._waiting.move_to_end(offset, last=False)
            else:  # what came meanwhile is before it
                self._waiting = OrderedDict(sorted(self._waiting.items()))

    # State

    def lock_expired(self, now_ms: int) -> bool:
        """The lock was not renewed in time: another member may have it."""
        return now_ms - self.last_lock_ms > LOCK_LIVES_MS

    def pull_expired(self, now_ms: int) -> bool:
        """Nobody has pulled for so long that something must be wrong."""
        return now_ms - self.last_pull_ms > PULL_LIVES_MS

    def clear(self) -> None:
        """Drop all; nothing is done."""
        self._waiting.clear()
        self._taken.clear()
        self._started_ms.clear()
        self.count = self.size = 0
        self.on_less()

    def info(self, commit_offset: int, ahead_ms: int) -> ProcessQueueInfo:
        """As `mqadmin consumerStatus` shows it.  ahead_ms: what the wall clock is ahead of the one that never steps."""
        shown = ProcessQueueInfo(
            cached_msg_count=len(self._waiting),
            cached_msg_size_in_mib=self.size // _MIB,
            commit_offset=commit_offset,
            droped=self.dropped,
            last_consume_timestamp=self.last_consume_ms + ahead_ms,
            last_lock_timestamp=self.last_lock_ms + ahead_ms,
            last_pull_timestamp=self.last_pull_ms + ahead_ms,
            locked=self.locked,
            transaction_msg_count=len(self._taken),
            try_unlock_times=self.try_unlock_times,
        )
        if self._waiting:
            shown.cached_msg_min_offset = next(iter(self._waiting))
            shown.cached_msg_max_offset = next(reversed(self._waiting))
        if self._taken:
            shown.transaction_msg_min_offset, shown.transaction_msg_max_offset = min(self._taken), max(self._taken)
        return shown

    def _forget(self, message: Held) -> None:
        self.count -= 1
        self.size -= message.body_size
        self.on_less()
