"""Order of pops: the batch that each group got last of each queue, what of it is acknowledged, and until when it blocks.

A queue is blocked while an unacknowledged message of its batch is invisible; only a repetition of the attempt that got the batch
gets it again at once.  When all are acknowledged, or the time of those left is over, the next pop begins at the first that is
left, and counts how often each was handed out.  Invisible times are wall times, since the file keeps them over a restart; the
file is written every 5 s with the groups' progress, so that a crash may hand a batch out again, never pass over one.

A deletion takes the batches with it, before anybody can make a topic or a group of that name again.

Java: `QueueLevelConsumerManager` (5.3: `ConsumerOrderInfoManager`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence, Set
from typing import Any, Final, NamedTuple

from broker_impl.env import Env
from broker_impl.state.consumer_offsets import DROPS_PER_SLICE, SEPARATOR
from broker_impl.state.persisted import PersistedTable, Rows, leftover
from rmq_wire.bodies.order_info import QUEUE_LEVEL, OrderInfo, OrderInfoTable
from rmq_wire.implied.pop_order import bit_of, is_acked, offsets_of, open_until, place_of
from rmq_wire.java import concurrent_buckets, long_of, long_order

ILLEGAL: Final = -1
"""Nobody was handed out this offset."""
NOTHING_TO_COMMIT: Final = -2
"""It was, but by another pop than the last one: the acknowledgement counts no more."""
KEPT_MS: Final = 24 * 3_600_000
"""`CLEAN_SPAN_FROM_LAST`: what nobody pops from for so long is forgotten."""
QUEUES_MAX: Final = 200_000
"""Queues of all groups whose batches are known, up to 2 KiB each: those of 10,000 ordered groups of 20 queues."""
ROWS_PER_SLICE: Final = 256
"""Rows looked at for old batches between two yields, 1 µs each queue."""
_BUCKETS: Final = concurrent_buckets(128)


class Handed(NamedTuple):
    """What `orderCountInfo` says of a batch: by offset how often it was handed out before, and the least of it."""

    counts: dict[int, int]
    least: int


class _Going(NamedTuple):
    """Rows of these topics and groups are being dropped.  `rows`: those of that moment that nobody has looked at yet."""

    topics: Set[str]
    groups: Set[str]
    rows: dict[str, dict[int, OrderInfo]]


class OrderInfos(PersistedTable):
    """Batches by `topic@group` and queue id.

    `read_queues(topic)`: how many the topic has, None without such a topic; `has_group(group)`.  `on_block(topic, group,
    queue_id, free_ms)` hears of each batch that is handed out or changed when its queue will be free, by the wall clock.
    """

    file = "consumerOrderInfo.json"
    replaced = frozenset({"table"})

    def __init__(self, env: Env, read_queues: Callable[[str], int | None], has_group: Callable[[str], bool]) -> None:
        super().__init__()
        self._env = env
        self._read_queues = read_queues
        self._has_group = has_group
        self._rows: Rows[dict[int, OrderInfo]] = Rows(_plain, buckets=_BUCKETS)
        self._going: list[_Going] = []
        self._queues = 0
        self.on_block: Callable[[str, str, int, int], None] = lambda topic, group, queue_id, free_ms: None

    def __len__(self) -> int:
        """Queues whose batch is known."""
        return self._queues

    def has_room(self, topic: str, group: str, queue_id: int) -> bool:
        """A batch of this queue can be kept.  Without that its messages must not be handed out."""
        return self._queues < QUEUES_MAX or self._get(topic, group, queue_id) is not None

    def is_blocked(self, attempt: str | None, topic: str, group: str, queue_id: int, invisible_ms: int) -> bool:
        """Somebody else still has messages of this queue (`checkBlock`)."""
        info = self._get(topic, group, queue_id)
        if info is None or not info.offsets or (info.attempt is not None and info.attempt == attempt):
            return False
        if info.invisible_time is None or info.invisible_time <= 0:  # a file of a version that did not keep it
            info.invisible_time = invisible_ms
            self._touched(topic, group)
        return self.free_ms(topic, group, queue_id) > self._env.wall_ms

    def free_ms(self, topic: str, group: str, queue_id: int) -> int:
        """When the queue will be free as it is now: when the last that nobody acknowledged is visible; now at the earliest."""
        info = self._get(topic, group, queue_id)
        now = self._env.wall_ms
        return now if info is None else max((now, *(until for _, until in open_until(info))))

    def update(
        self, attempt: str | None, topic: str, group: str, queue_id: int, pop_ms: int, invisible_ms: int, offsets: Sequence[int]
    ) -> Handed:
        """A pop hands these offsets out, one at least, ascending."""
        old = self._get(topic, group, queue_id)
        info = OrderInfo(
            pop_time=pop_ms,
            invisible_time=invisible_ms,
            offsets=[offsets[0], *(offset - offsets[0] for offset in offsets[1:])],
            last_consumed=self._env.wall_ms,
            attempt=attempt,
        )
        if old is not None:
            info.consumed = _consumed(old, info, offsets)
        key = topic + SEPARATOR + group
        row = self._rows.get(key) or {}
        self._queues += queue_id not in row
        row[queue_id] = info
        self._rows.put(key, row)
        self.changed(at_once=False)
        self.on_block(topic, group, queue_id, self.free_ms(topic, group, queue_id))
        counts = info.consumed or {}
        return Handed(counts, min(counts.values()) if counts and len(counts) == len(offsets) else 0)

    def commit_and_next(self, topic: str, group: str, queue_id: int, offset: int, pop_ms: int, committed: int) -> int:
        """A message is acknowledged: the progress to commit, `ILLEGAL` or `NOTHING_TO_COMMIT`.  `committed`: that until now.

        *Differs*: without a batch, after a crash or a reset, only the message at the progress itself moves it; Java commits
        behind any, and what lies between is lost.
        """
        info = self._get(topic, group, queue_id)
        if info is None:
            return offset + 1 if offset == committed else NOTHING_TO_COMMIT
        if not info.offsets:
            return ILLEGAL
        if pop_ms != info.pop_time:
            return NOTHING_TO_COMMIT
        found = offsets_of(info)
        if offset not in found:
            return ILLEGAL
        info.acked = long_of(info.acked | bit_of(found.index(offset)))
        self._touched(topic, group)
        left = [one for at, one in enumerate(found) if not is_acked(info, at)]
        self.on_block(topic, group, queue_id, self.free_ms(topic, group, queue_id))
        return left[0] if left else found[-1] + 1

    def update_next_visible_time(self, topic: str, group: str, queue_id: int, offset: int, pop_ms: int, visible_ms: int) -> None:
        """A message of the batch is to come again at another time; not said of one that the batch does not have (*differs*)."""
        info = self._get(topic, group, queue_id)
        if info is None or not info.offsets or pop_ms != info.pop_time or offset not in offsets_of(info):
            return
        info.visible = {**(info.visible or {}), offset: visible_ms}
        self._touched(topic, group)
        self.on_block(topic, group, queue_id, self.free_ms(topic, group, queue_id))

    def clear_block(self, topic: str, group: str, queue_id: int) -> None:
        """The group starts anew in this queue."""
        key = topic + SEPARATOR + group
        row = self._rows.get(key)
        if row is None or queue_id not in row:
            return
        del row[queue_id]
        self._queues -= 1
        if row:
            self._rows.touch(key)
        else:
            self._rows.drop(key)
        self.changed(at_once=False)

    def remove(self, topic: str, group: str) -> None:
        """Forget a group's batches of a topic."""
        row = self._rows.drop(topic + SEPARATOR + group)
        if row is not None:
            self._queues -= len(row)
            self.changed(at_once=False)

    def forgetting(self, topics: Set[str], groups: Set[str]) -> Iterator[None]:
        """In slices: these were deleted.  From the first on nobody finds a batch of theirs; one that comes meanwhile stays."""
        going = _Going(topics, groups, self._rows.rows.copy())
        self._going.append(going)
        count = 0
        while going.rows:
            self._drop_if_gone(going, going.rows.popitem()[0])
            count += 1
            if count % DROPS_PER_SLICE == 0:
                yield
        self._going.remove(going)

    def _drop_if_gone(self, going: _Going, key: str) -> None:
        topic, group = place_of(key)
        if topic in going.topics or group in going.groups:
            self.remove(topic, group)

    def blocks(self) -> Iterator[tuple[str, str, int, int]]:
        """(topic, group, queue id, when it will be free) of every queue that is blocked, for a start (`recover`)."""
        for key, row in list(self._rows.rows.items()):
            topic, group = place_of(key)
            for queue_id in row:
                free = self.free_ms(topic, group, queue_id)
                if free > self._env.wall_ms:
                    yield topic, group, queue_id, free

    # The file

    def members(self) -> dict[str, Rows[Any] | Any]:
        return {"orderInfoCount": len(self._rows.rows), "orderedConsumptionLevel": QUEUE_LEVEL, "table": self._rows}

    def take(self, document: dict[str, Any]) -> None:
        read = OrderInfoTable.from_plain(document)
        for key, said in read.table.items():
            row = {queue_id: info for queue_id, info in (said or {}).items() if info is not None}
            if row:
                self._rows.put(key, row)
                self._queues += len(row)
        self.unknown = leftover(document, ("orderInfoCount", "orderedConsumptionLevel", "table"))

    def encode_slices(self) -> Iterator[bytes]:
        for _ in self.cleaning():
            yield b""
        yield from super().encode_slices()

    def cleaning(self) -> Generator[None, None, None]:
        """In slices: forget what nobody needs (`autoClean`): of topics, groups and queues that are gone, and what is old.

        A write begins with it.  While nothing changes there is none, so somebody else has to see to it now and then.
        """
        for count, key in enumerate(list(self._rows.rows)):
            row = self._rows.get(key)
            topic, group = place_of(key)
            queues = self._read_queues(topic)
            if row is not None and (queues is None or not self._has_group(group)):
                self.remove(topic, group)
            elif row is not None and queues is not None:
                oldest = self._env.wall_ms - KEPT_MS
                for queue_id in [one for one, info in row.items() if one >= queues or info.last_consumed < oldest]:
                    self.clear_block(topic, group, queue_id)
            if count % ROWS_PER_SLICE == ROWS_PER_SLICE - 1:
                yield

    def _get(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        key = topic + SEPARATOR + group
        for going in self._going:
            if going.rows.pop(key, None) is not None:
                self._drop_if_gone(going, key)
        row = self._rows.get(key)
        return None if row is None else row.get(queue_id)

    def _touched(self, topic: str, group: str) -> None:
        self._rows.touch(topic + SEPARATOR + group)
        self.changed(at_once=False)


def _consumed(old: OrderInfo, new: OrderInfo, offsets: Sequence[int]) -> dict[int, int]:
    """How often each was handed out before the new batch; a repeated attempt counts as the same (`mergeOffsetConsumedCount`)."""
    before = old.consumed or {}
    if old.attempt is not None and old.attempt == new.attempt:
        return before
    again = set(offsets_of(old)) if old.offsets else set()
    counts = {offset: before.get(offset, 0) + 1 for offset in offsets if offset in again}
    return {offset: counts[offset] for offset in long_order(counts)}


def _plain(_: str, row: dict[int, OrderInfo]) -> dict[int, dict[str, Any]]:
    return {queue_id: _plain_info(row[queue_id]) for queue_id in sorted(row)}


def _plain_info(info: OrderInfo) -> dict[str, Any]:
    """Members in Java's order of names; numbers as keys, as its maps have them."""
    said = {
        "a": info.attempt,
        "cm": info.acked,
        "i": info.invisible_time,
        "l": info.last_consumed,
        "o": info.offsets,
        "oc": info.consumed,
        "ot": info.visible,
        "popTime": info.pop_time,
    }
    for name in ("oc", "ot"):
        table: Any = said[name]
        if table:
            said[name] = {offset: table[offset] for offset in long_order(table)}
    return said
