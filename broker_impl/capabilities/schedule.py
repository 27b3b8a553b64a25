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
from functools import partial
from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability
from broker_impl.engine.slices import BYTES_PER_SLICE
from broker_impl.intake import Intake, NotTaken, PutStatus, copy_of
from broker_impl.state.delay_offsets import DelayOffsets
from broker_impl.state.stats import Stats
from rmq_store.errors import Cold
from rmq_store.log.draft import Placed
from rmq_store.results import Arrived
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.errors import BadRecord
from rmq_wire.implied.light_queues import light_names
from rmq_wire.message import StoredMessage, read_unit

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
LOOK_MS_MAX: Final = 1_000
"""The wall clock is looked at this often."""
UNITS_PER_SLICE: Final = 32
"""Units that one level delivers in one go, some 30 µs each; fewer of large ones (`BYTES_PER_SLICE`)."""


class Undeliverable(Exception):
    """A unit that is passed over; the text says why."""


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
        self._delays = dict(enumerate(intake.delay_levels_ms, 1))
        self._alarms: dict[int, Deadline] = {}
        self._busy: set[int] = set()
        """Levels that wait for a commit, for a read or for their turn."""
        self._staged = False
        """This turn has its slice."""
        self._next: deque[int] = deque()
        """Levels that wait for their turn."""
        self._started = False

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
        last = min(highest, offset + UNITS_PER_SLICE)
        start_offset = end_offset = 0
        wait_ms = 0
        cold: Cold | None = None
        try:
            while offset < last and end_offset - start_offset < BYTES_PER_SLICE:
                wait_ms = self._wait_ms(level, offset)
                if wait_ms > 0:
                    break
                placed = self._deliver_one(level, offset)
                if placed is not None:
                    start_offset = start_offset or placed.physical_offset
                    end_offset = placed.end_offset
                offset += 1
        except Cold as there:
            cold = there
        except NotTaken as no:
            self._env.log.warning("delay level %d: offset %d was not stored: %s", level, offset, no)
            wait_ms = RETRY_MS
        if end_offset:
            self._busy.add(level)
            self._staged = True
            self._engine.after_commit(partial(self._written, level, offset, end_offset, cold, wait_ms))
            return
        if highest > 0:
            self._offsets.update(level, offset, self._env.wall_ms)
        self._let_next()
        self._go_on(level, cold, wait_ms)

    def _written(
        self, level: int, offset: int, end_offset: int, cold: Cold | None, wait_ms: int, error: BaseException | None
    ) -> None:
        """The slice is in the log, or it is not and is done again.  First the levels that waited meanwhile."""
        self._staged = False
        self._busy.discard(level)
        self._let_next()
        if error is not None:
            self._look_in(level, RETRY_MS)
            return
        self._offsets.update(level, offset, self._env.wall_ms, end_offset=end_offset)
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

    def _wait_ms(self, level: int, offset: int) -> int:
        """How long until this unit is due (`correctDeliverTimestamp`).  Raises `Cold`."""
        _, _, due_ms = self._store.queue_unit(names.SCHEDULE_TOPIC, level - 1, offset)
        now_ms = self._env.wall_ms
        return 0 if due_ms > now_ms + self._delays[level] else due_ms - now_ms

    def _deliver_one(self, level: int, offset: int) -> Placed | None:
        """Stage the copy of one unit; its place, None when there is nothing to deliver.  Raises `Cold`, `NotTaken`."""
        physical_offset, size, _ = self._store.queue_unit(names.SCHEDULE_TOPIC, level - 1, offset)
        found = self._store.lookup(physical_offset)
        if found is None or len(found) != size:
            return None
        try:
            original = read_unit(found)
            topic, queue_id, values = _destination(original)
        except (Undeliverable, BadRecord) as why:
            self._env.log.error("delay level %d: offset %d is passed over: %s", level, offset, why)
            return None
        if self._config.enable_lmq and light_names(topic, original.properties):
            values.pop(prop.DELAY, None)  # Java encodes what it has changed only for messages to light queues
            values[prop.WAIT] = "false"
        message = copy_of(original, topic, queue_id, values)
        try:
            placed = self._intake.stage(message, self._env.wall_ms, store_host=original.store_host)
        except NotTaken as no:
            if no.status in NEVER:
                self._env.log.error("delay level %d: offset %d can never be stored in %s: %s", level, offset, topic, no)
                return None
            raise
        if self._config.enable_schedule_message_stats:
            self._stats.add_get(SCHEDULE_GROUP, names.SCHEDULE_TOPIC, level - 1, 1, placed.size)
            self._stats.add_put(topic, queue_id, 1, placed.size)
        return placed


def _destination(original: StoredMessage) -> tuple[str, int, dict[str, str]]:
    """Where a unit belongs, and its properties, all of which the copy keeps: consumers see DELAY, REAL_TOPIC, REAL_QID."""
    values = properties.decode(original.properties.decode("utf-8", "replace"))
    topic = values.get(prop.REAL_TOPIC)
    queue_id = values.get(prop.REAL_QID, "")
    if topic is None or not (queue_id.isascii() and queue_id.isdigit()) or len(queue_id) > _QUEUE_ID_DIGITS_MAX:
        raise Undeliverable("it does not say where it belongs")
    if topic in (names.TRANS_HALF_TOPIC, names.SCHEDULE_TOPIC):
        raise Undeliverable(f"it says that it belongs into {topic}")
    return topic, int(queue_id), values


_QUEUE_ID_DIGITS_MAX: Final = 10
