"""Check points that wait in memory for their acknowledgements (`enablePopBufferMerge`): most are acknowledged and never stored.

A check point stays for ten seconds, or until three before its messages would come again; then it is stored with the
acknowledgements that came.  The group's progress does not pass it before that, so a crash hands its messages out again, also
acknowledged ones, and loses nothing; a clean stop stores everything.

All ends of its messages are gathered here as long as it is here: a record of one would lie before the check point when a clock is
set or the disk is full meanwhile, and who reads the revive queue would take it for one that belongs to nothing.

Java: `PopBufferMergeService` (addCk, addAk, scan).  *Differs*: what becomes old is looked for every 100 ms, not every 5; Java
stores the acknowledgements of the last one and a half seconds by themselves.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Set
from functools import partial
from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.engine import Engine
from broker_impl.intake import NotTaken
from broker_impl.pop_records import PopRecords
from broker_impl.state.pop_lines import PopLines, Stretch
from rmq_store.errors import StoreError
from rmq_store.store import Store
from rmq_wire.bodies.pop import AckMsg, BatchAckMsg, PopCheckPoint
from rmq_wire.implied.pop import BATCH_ACK_OFFSET, Pop, pop_of

MARGIN_MS: Final = 1_500
"""What would leave so soon does not come here."""
LOOK_MS: Final = 100
ROWS_PER_SLICE: Final = 2_048
"""Check points looked at between two yields, 0.2 µs each."""
POINTS_PER_LOOK: Final = 32
"""Stored in one go, with up to 32 acknowledgements each: some 3 ms."""
NEXT_MS: Final = 5
"""Until the next go while there are more: 200,000 leave within 31 s, and others have their turns."""


class Buffered:
    """A check point in the buffer.  `leaves_ms`: when it is stored at the latest, on the clock of deadlines.

    `unsure`: how many of its bits stand or fall with this turn.  `staged`: it is on its way into the log, to end at `end_offset`.
    """

    __slots__ = ("end_offset", "leaves_ms", "point", "revive_queue", "staged", "stretch", "unsure")

    def __init__(self, point: PopCheckPoint, revive_queue: int, stretch: Stretch, leaves_ms: int) -> None:
        self.point = point
        self.revive_queue = revive_queue
        self.stretch = stretch
        self.leaves_ms = leaves_ms
        self.unsure = self.end_offset = 0
        self.staged = False

    @property
    def is_done(self) -> bool:
        return not self.unsure and self.point.is_done


class PopBuffer:
    """Of one broker; empty unless the configuration wants it."""

    def __init__(self, engine: Engine, config: BrokerConfig, lines: PopLines, records: PopRecords) -> None:
        self._engine = engine
        self._env = engine.env
        self._config = config
        self._lines = lines
        self._records = records
        self._points: dict[Pop, Buffered] = {}
        self._leaving: list[tuple[int, int, Pop]] = []
        """A heap: when, in which order they came."""
        self._count = 0
        self._looks = False

    def __len__(self) -> int:
        return len(self._points)

    def add(self, point: PopCheckPoint, revive_queue: int, stretch: Stretch) -> bool:
        """Keep a check point.  False: it is to be stored now (`addCk`)."""
        config = self._config
        if not config.enable_pop_buffer_merge:
            return False
        left_ms = point.due_ms - self._env.wall_ms - config.pop_ck_stay_buffer_time_out
        if left_ms < MARGIN_MS or len(self._points) > config.pop_ck_max_buffer_size:
            return False
        if self._lines.length(stretch.place) > config.pop_ck_offset_max_queue_size:
            return False
        pop = pop_of(point, config.broker_name)
        if pop in self._points:
            return False
        leaves_ms = self._env.mono_ms + min(config.pop_ck_stay_buffer_time, left_ms)
        self._points[pop] = Buffered(point, revive_queue, stretch, leaves_ms)
        self._count += 1
        heapq.heappush(self._leaving, (leaves_ms, self._count, pop))
        self._look_later()
        return True

    def ack(self, ack: AckMsg, offsets: Iterable[int]) -> bool:
        """Messages of a check point that is here are acknowledged.  False: that is to be stored (`addAk`)."""
        pop, held = self._held(ack)
        if held is None:
            return False
        for offset in offsets:
            index = held.point.index_of(offset)
            if index >= 0:
                held.point.set_bit(index)
        self._settle(pop, held)
        return True

    def ack_with_turn(self, ack: AckMsg, end_offset: int) -> bool:
        """The same of one message, if what this turn has staged is written: a check point that takes this one's place.

        `end_offset`: of that.
        """
        pop, held = self._held(ack)
        if held is None:
            return False
        index = held.point.index_of(ack.ack_offset)
        if index < 0 or held.point.has_bit(index):
            return True
        held.point.set_bit(index)
        held.unsure += 1

        def committed(error: BaseException | None) -> None:
            held.unsure -= 1
            if error is None:
                held.stretch.rests_on(end_offset)
            else:
                held.point.clear_bit(index)
            self._settle(pop, held)

        self._engine.after_commit(committed)
        return True

    def _held(self, ack: AckMsg) -> tuple[Pop, Buffered | None]:
        """The check point that an acknowledgement is about, unless it lies before it in the log already."""
        pop = pop_of(ack, self._config.broker_name)
        held = self._points.get(pop)
        return pop, None if held is None or held.staged else held

    def _settle(self, pop: Pop, held: Buffered) -> None:
        if held.is_done and not held.staged and self._points.get(pop) is held:
            del self._points[pop]
            self._lines.settle(held.stretch)

    def forgetting(self, topics: Set[str], groups: Set[str]) -> Generator[None, None, None]:
        """In slices: these were deleted, and what was handed out of them does not come again."""
        for count, (pop, held) in enumerate(list(self._points.items()), 1):
            if (pop.topic in topics or pop.group in groups) and self._points.get(pop) is held:
                del self._points[pop]
            if count % ROWS_PER_SLICE == 0:
                yield

    def close(self, store: Store) -> bool:
        """Store everything, for a clean stop.  False: not all could be; what is left is handed out again after the start."""
        if not self._points:
            return True
        staged: list[tuple[Pop, Buffered]] = []
        for pop, held in self._points.items():
            try:
                self._store(held)
            except NotTaken as no:
                self._env.log.warning("a check point of group %s was not stored: %s", pop.group, no)
            else:
                staged.append((pop, held))
        error: StoreError | None = None
        try:
            store.commit()
        except StoreError as why:
            self._env.log.error("check points in memory were not stored: %s", why)
            error = why
        self._stored(staged, error)
        return not self._points

    def _look_later(self, pause_ms: int = LOOK_MS) -> None:
        if not self._looks and self._points:
            self._looks = True
            self._engine.at(self._env.mono_ms + pause_ms, self._look)

    def _look(self) -> None:
        """Store those whose time is up."""
        self._looks = False
        stored: list[tuple[Pop, Buffered]] = []
        while self._leaving and self._leaving[0][0] <= self._env.mono_ms and len(stored) < POINTS_PER_LOOK:
            pop = self._leaving[0][2]
            held = self._points.get(pop)
            if held is not None:
                try:
                    self._store(held)
                except NotTaken as no:
                    self._env.log.warning("a check point of group %s was not stored: %s", pop.group, no)
                    break
                held.staged = True
                stored.append((pop, held))
            heapq.heappop(self._leaving)
        if stored:
            self._engine.after_commit(partial(self._stored, stored))
        self._look_later(NEXT_MS if len(stored) == POINTS_PER_LOOK else LOOK_MS)

    def _stored(self, stored: list[tuple[Pop, Buffered]], error: BaseException | None) -> None:
        for pop, held in stored:
            held.staged = False
            if error is None:
                self._points.pop(pop, None)
                held.stretch.rests_on(held.end_offset)
                self._lines.settle(held.stretch)
            else:
                self._count += 1
                heapq.heappush(self._leaving, (held.leaves_ms, self._count, pop))

    def _store(self, held: Buffered) -> None:
        """The check point, as it was handed out, and its acknowledgements.  Raises `NotTaken`."""
        point, wall_ms = held.point, self._env.wall_ms
        acked = [point.offset_at(index) for index in range(point.num) if point.has_bit(index)]
        bits, point.bit_map = point.bit_map, 0
        try:
            held.end_offset = self._records.put_check_point(point, held.revive_queue, wall_ms).end_offset
        finally:
            point.bit_map = bits
        about = (point.start_offset, point.group, point.topic, point.queue_id, point.pop_time)
        if acked and self._config.enable_pop_batch_ack:
            several = BatchAckMsg(BATCH_ACK_OFFSET, *about, None, acked)
            self._records.put_gathered(several, held.revive_queue, point.due_ms, wall_ms)
            return
        for offset in acked:
            one = AckMsg(offset, *about, point.broker_name)
            self._records.put_ack(one, held.revive_queue, point.due_ms, wall_ms)
