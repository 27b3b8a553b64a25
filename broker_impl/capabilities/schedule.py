"""Delay levels: what waits in SCHEDULE_TOPIC_XXXX goes to its own topic when its time has come.

A level is a queue in the order of due times, since all that is in it waits equally long; its unit's tag code is the due time.  So
each level needs one deadline: that of the first unit that is not delivered.  Due units are copied a slice at a time, one slice a
turn, the levels one after the other; progress moves only when the slice is written, so an append that fails is tried again and
nothing is passed over.  Due times are wall time
and deadlines are not, hence a look at least every second; a due time that lies too far ahead (the clock was turned back) is now.

Java: `ScheduleMessageService` (one polling thread per level).  *Differs*: a unit that can never be stored (its name is unlawful,
it is too large by now) is passed over with an error in the log, where Java tries it again for ever and the level stands still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability
from broker_impl.engine.slices import BYTES_PER_SLICE
from broker_impl.intake import Intake, NotTaken, PutStatus
from broker_impl.state.delay_offsets import DelayOffsets
from broker_impl.state.stats import Stats
from rmq_store.errors import Cold, StoreError
from rmq_store.log.copies import Readdressing, readdress, values_of
from rmq_store.log.draft import Draft, Placed
from rmq_store.results import Arrived
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.implied.light_queues import light_names
from rmq_wire.implied.real_place import real_place

SCHEDULE_GROUP: Final = "SCHEDULE_CONSUMER"
"""As which the statistics count deliveries (`MixAll.SCHEDULE_CONSUMER_GROUP`)."""
NEVER: Final = (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED, PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED)
"""The level goes on without such a message."""
FIRST_DELAY_MS: Final = 1_000
"""After the start, as Java (FIRST_DELAY_TIME)."""
RETRY_MS: Final = 100
"""After an append that failed (DELAY_FOR_A_WHILE)."""
ERROR_MS: Final = 1_000
"""After an error that nobody foresaw; Java waits for ten (DELAY_FOR_A_PERIOD)."""
TRIES_MAX: Final = 10
"""So often, then a message is passed over of which nobody foresaw that it cannot be delivered."""
LOOK_MS_MAX: Final = 1_000
"""The wall clock is looked at this often."""
UNITS_PER_SLICE: Final = 64
"""Units that one level delivers in one go, some 10 µs each; fewer of large ones (`BYTES_PER_SLICE`)."""
PLACES_MAX: Final = 4_096
"""Queues whose names are remembered with which messages say where they belong."""


class Copies:
    """What one slice has staged.  `sizes`: of the copies, bytes, by topic and queue."""

    __slots__ = ("_place", "_sizes", "bytes", "end_offset", "sizes")

    def __init__(self) -> None:
        self.sizes: dict[tuple[str, int], list[int]] = {}
        self.bytes = self.end_offset = 0
        self._place = ("", -1)
        self._sizes: list[int] = []

    def add(self, draft: Draft, placed: Placed) -> None:
        """One more."""
        topic, queue_id = self._place
        if draft.topic != topic or draft.queue_id != queue_id:
            self._place = topic, queue_id = draft.topic, draft.queue_id
            self._sizes = self.sizes.setdefault(self._place, [])
        self._sizes.append(placed.size)
        self.bytes += placed.size
        self.end_offset = placed.end_offset


class Undeliverable(Exception):
    """A unit that is passed over; the text says why."""


class Hindered(Exception):
    """A unit is tried again, and with it what comes after it."""


class Schedule(Capability):
    """Delivers; answers no code.  `start` after everything is loaded."""

    def __init__(
        self, engine: Engine, config: BrokerConfig, offsets: DelayOffsets, stats: Stats, intake: Intake, reads: ColdReads
    ) -> None:
        self._engine = engine
        self._env = engine.env
        self._config = config
        self._offsets = offsets
        self._stats = stats
        self._intake = intake
        self._store = intake.store
        self._reads = reads
        self._readdressing = Readdressing(
            lambda text: properties.encode_java(properties.decode(text)), frozenset({prop.INNER_MULTI_DISPATCH}), _queue_of
        )
        self._delays = dict(enumerate(intake.delay_levels_ms, 1))
        self._alarms: dict[int, Deadline] = {}
        self._busy: set[int] = set()
        """Levels that wait for a commit, for a read or for their turn."""
        self._staged = False
        """This turn has its slice."""
        self._next: deque[int] = deque()
        """Levels that wait for their turn."""
        self._started = False
        self._failures: dict[int, tuple[int, int]] = {}
        """By level: the offset of a message that could not be delivered, and how often."""

    def start(self) -> None:
        """Clamp what was loaded to the recovered queues and begin."""
        self._offsets.clamp(self._delays, lambda level: self._store.queue_bounds(names.SCHEDULE_TOPIC, level - 1), self._env.log)
        self._started = True
        self._engine.on_arrival(self._arrived)
        for level in self._delays:
            self._look_in(level, FIRST_DELAY_MS)

    def stop(self) -> None:
        """Deliver nothing more."""
        self._started = False
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
        self._next.clear()

    def _arrived(self, arrived: Sequence[Arrived]) -> None:
        for topic, queue_id, _, due_ms, _ in arrived:
            level = queue_id + 1
            if topic == names.SCHEDULE_TOPIC and level in self._delays and level not in self._alarms and level not in self._busy:
                self._look_in(level, due_ms[0] - self._env.wall_ms)

    def _look_in(self, level: int, ms: int) -> None:
        if not self._started:
            return
        alarm = self._alarms.pop(level, None)
        if alarm is not None:
            alarm.cancel()
        due_ms = self._env.mono_ms + min(max(ms, 0), LOOK_MS_MAX)
        self._alarms[level] = self._engine.at(due_ms, partial(self._deliver, level))

    def _deliver(self, level: int) -> None:
        """Copy what is due, at most a slice of it.  Ends with an alarm set, or busy, or nothing left to wait for."""
        del self._alarms[level]
        if self._staged:
            self._busy.add(level)
            self._next.append(level)
            return
        try:
            self._deliver_slice(level)
        except Exception:
            self._let_next()
            self._look_in(level, ERROR_MS)
            raise

    def _deliver_slice(self, level: int) -> None:
        lowest, highest = self._store.queue_bounds(names.SCHEDULE_TOPIC, level - 1)
        begin = self._offsets.progress.get(level, 0)
        offset = min(max(begin, lowest), highest)
        if offset != begin:
            self._env.log.error(
                "delay level %d: its queue is %d..%d, delivery goes on at %d, not at %d", level, lowest, highest, offset, begin
            )
        wait_ms = 0
        trouble: Cold | None = None
        copies = Copies()
        try:
            rows = self._store.queue_units(names.SCHEDULE_TOPIC, level - 1, offset, UNITS_PER_SLICE) if offset < highest else []
            due, wait_ms = self._due(level, rows)
            for draft in self._store.copies(names.SCHEDULE_TOPIC, [(at, size) for at, size, _ in rows[:due]]):
                if copies.bytes >= BYTES_PER_SLICE:
                    wait_ms = 0
                    break
                if draft is None:
                    self._env.log.error("delay level %d: offset %d is passed over: its message cannot be read", level, offset)
                else:
                    self._deliver_one(level, offset, draft, copies)
                offset += 1
        except Cold as there:
            trouble, wait_ms = there, 0
        except NotTaken as no:
            self._env.log.warning("delay level %d: offset %d was not stored: %s", level, offset, no)
            wait_ms = RETRY_MS
        except Hindered:
            wait_ms = ERROR_MS
        except (StoreError, OSError) as wrong:  # and what was staged before it counts
            self._env.log.error("delay level %d: offset %d cannot be read: %s", level, offset, wrong)
            wait_ms = ERROR_MS
        if copies.end_offset:
            self._busy.add(level)
            self._staged = True
            self._engine.after_commit(partial(self._written, level, offset, copies, trouble, wait_ms))
            return
        if highest > 0:
            self._offsets.update(level, offset, self._env.wall_ms)
        self._let_next()
        self._go_on(level, trouble, wait_ms)

    def _written(
        self, level: int, offset: int, copies: Copies, cold: Cold | None, wait_ms: int, error: BaseException | None
    ) -> None:
        """The slice is in the log, or it is not and is done again.  First the levels that waited meanwhile."""
        self._staged = False
        self._busy.discard(level)
        self._let_next()
        if error is not None:
            self._look_in(level, RETRY_MS)
            return
        self._offsets.update(level, offset, self._env.wall_ms, end_offset=copies.end_offset)
        if self._config.enable_schedule_message_stats:
            count = 0
            for (topic, queue_id), sizes in copies.sizes.items():
                count += len(sizes)
                self._stats.add_put(topic, queue_id, len(sizes), sum(sizes), calls=len(sizes))
            self._stats.add_get(SCHEDULE_GROUP, names.SCHEDULE_TOPIC, level - 1, count, copies.bytes, calls=count)
        self._go_on(level, cold, wait_ms)

    def _let_next(self) -> None:
        """The next level that waits has its turn."""
        if self._next:
            level = self._next.popleft()
            self._busy.discard(level)
            self._look_in(level, 0)

    def _go_on(self, level: int, cold: Cold | None, wait_ms: int) -> None:
        if cold is not None:
            self._busy.add(level)
            self._reads.after(cold, partial(self._read, level))
        elif self._offsets.progress.get(level, 0) < self._store.queue_bounds(names.SCHEDULE_TOPIC, level - 1)[1]:
            self._look_in(level, wait_ms)

    def _read(self, level: int, error: BaseException | None) -> None:
        self._busy.discard(level)
        if error is not None:
            self._env.log.error("delay level %d cannot be read: %s", level, error)
        self._look_in(level, RETRY_MS if error is not None else 0)

    def _due(self, level: int, rows: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
        """How many of these entries are due, and how long until the next one is (`correctDeliverTimestamp`)."""
        now_ms = self._env.wall_ms
        latest_ms = now_ms + self._delays[level]
        for number, (_, _, due_ms) in enumerate(rows):
            if now_ms < due_ms <= latest_ms:
                return number, due_ms - now_ms
        return len(rows), 0

    def _deliver_one(self, level: int, offset: int, draft: Draft, copies: Copies) -> None:
        """Stage the copy of one unit, unless it can never be stored.  Raises `NotTaken`."""
        try:
            self._readdress(draft)
            placed = self._intake.stage_draft(draft, self._env.wall_ms)
        except Undeliverable as why:
            self._env.log.error("delay level %d: offset %d is passed over: %s", level, offset, why)
        except NotTaken as no:
            if no.status not in NEVER:
                raise
            self._env.log.error("delay level %d: offset %d can never be stored in %s: %s", level, offset, draft.topic, no)
        except StoreError:
            raise
        except Exception as bug:
            self._fail(level, offset, bug)
        else:
            copies.add(draft, placed)

    def _fail(self, level: int, offset: int, bug: Exception) -> None:
        """A message cannot be delivered, nobody foresaw why.  Raises `Hindered`: not yet; later it is passed over, as in Java."""
        before, tries = self._failures.get(level, (offset, 0))
        tries = tries + 1 if before == offset else 1
        self._failures[level] = offset, tries
        self._env.log.error("delay level %d: offset %d cannot be delivered, try %d", level, offset, tries, error=bug)
        if tries < TRIES_MAX:
            raise Hindered
        self._env.log.error("delay level %d: offset %d is passed over", level, offset)

    def _readdress(self, draft: Draft) -> None:
        """What is delivered, with all properties: consumers see DELAY, REAL_TOPIC, REAL_QID.  Raises `Undeliverable`."""
        if self._readdressing.by_shape(draft):
            return
        values = values_of(draft)
        topic = values.get(prop.REAL_TOPIC, "")
        queue_id = _queue_of(topic, values.get(prop.REAL_QID, ""))
        if self._config.enable_lmq and light_names(topic, draft.properties):
            values.pop(prop.DELAY, None)  # Java encodes what it has changed only for messages to light queues
            values[prop.WAIT] = "false"
        readdress(draft, topic, queue_id, values)


@lru_cache(maxsize=PLACES_MAX)
def _queue_of(topic: str, text: str) -> int:
    """The queue of this topic where a unit belongs.  Raises `Undeliverable`."""
    place = real_place(topic, text)
    if place is None:
        raise Undeliverable("it does not say where it belongs")
    if topic in (names.TRANS_HALF_TOPIC, names.SCHEDULE_TOPIC):
        raise Undeliverable(f"it says that it belongs into {topic}")
    return place[1]
