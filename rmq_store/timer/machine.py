"""The timer of one store: takes messages from the timer's topic into the wheel, and out of it when their slot is over.

Synchronous and in steps: a step looks at a counted number of messages, stages what is due through the function handed in, and is
`done` when the turn that staged it is written (or was given up, and the next step does the same again).  Nothing is held per
waiting message; of the one slot that is being read, the positions of its units.  A slot counts as read when all of it is written:
a crash in the middle delivers it again.

Java: `TimerMessageStore` (enqueue, doEnqueue, dequeue), which uses nine threads and queues of 1,024 between them.  *Differs*: a
unit that is no timer message is passed over, where Java stops there for ever; units are delivered in the order they came in; what
was in the topic at the start enters every slot that is not read, where Java delivers what is due at once, recalled or not.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from rmq_store.disk.config_files import load_config
from rmq_store.disk.disk import Disk
from rmq_store.layouts import TIMER_BLANK, TIMER_UNIT
from rmq_store.read.reading import Reading
from rmq_store.timer.check import Check, CheckFile
from rmq_store.timer.metrics import TimerMetrics
from rmq_store.timer.rate import Rate
from rmq_store.timer.recovery import TOPIC_BYTES, linked, recover
from rmq_store.timer.settings import TimerSettings
from rmq_store.timer.timer_log import NO_UNIT, UNIT_BYTES, TimerLog
from rmq_store.timer.wheel import EMPTY, Slot, TimerWheel
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.errors import BadRecord
from rmq_wire.implied import timers
from rmq_wire.implied.timers import DELETES, NEVER_IN_WHEEL_MS, ROLLS, NoTimer
from rmq_wire.message import StoredMessage, read_unit

UNITS_PER_STEP: Final = 256
BYTES_PER_STEP: Final = 64 << 10
"""Of messages that one step looks at, at most so many and one more."""
DELIVERIES_PER_STEP: Final = 32
"""Messages that one step stages, some 40 µs each."""
SLOTS_PER_STEP: Final = 4_096
"""Empty slots that one step passes."""

Values = dict[str, str]
Deliver = Callable[[StoredMessage, Values, bool], int]
"""Stage the copy of a message with these properties, into its own topic or (True) into the timer's once more.

The copy's end in the log, 0 when it can never be stored.  What it raises ends the step; what went before stays.
"""


class _Entry(NamedTuple):
    """A message that enters the wheel when the step is done."""

    queue_offset: int
    slot_ms: int
    magic: int
    physical_offset: int
    size: int
    values: Values


class _Reading:
    """The slot that is being read: first its chain, backwards; then its marks; then the messages, in the order they came in."""

    def __init__(self, tick: int, last: int) -> None:
        self.tick = tick
        self.at = last
        self.messages = array("q")
        self.marks = array("q")
        self.deleted: set[str] = set()


class Step:
    """What one step did.  `end_offset`: of what it staged, 0 for nothing; `trouble`: what ended it early."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.queue_offset = -1
        self.delivered = 0
        self.direct: list[int] = []
        """Queue offsets of messages that were delivered past the wheel."""
        self.metrics: list[tuple[str | None, int]] = []
        self.end_offset = 0
        self.source_end = self.rolled_to = 0
        self.trouble: Exception | None = None
        self.looked = 0
        self.bytes = 0

    @property
    def is_half_full(self) -> bool:
        """What enters leaves room for what is due."""
        return (
            self.looked >= UNITS_PER_STEP // 2
            or self.bytes >= BYTES_PER_STEP // 2
            or len(self.direct) >= DELIVERIES_PER_STEP // 2
        )

    @property
    def is_full(self) -> bool:
        staged = len(self.direct) + self.delivered
        return self.looked >= UNITS_PER_STEP or self.bytes >= BYTES_PER_STEP or staged >= DELIVERIES_PER_STEP


class Timer:
    """`report` hears what was found at the start, and what is passed over.  Raises ForeignFile, StoreDamaged, OSError."""

    def __init__(
        self, disk: Disk, settings: TimerSettings, store: Reading, log_end: int, wall_ms: int, report: Callable[[str], None]
    ) -> None:
        root = settings.store_path_root_dir
        self.settings = settings
        self._store = store
        self._report = report
        self.log = TimerLog(disk, root, settings.mapped_file_size_timer_log)
        self.wheel = TimerWheel(disk, root, 2 * settings.wheel_slots, settings.timer_precision_ms)
        self.check_file = CheckFile(disk, root)
        self.metrics = TimerMetrics()
        self.metrics_path = f"{root}/config/timermetrics"
        self._window_slots = timers.usable_window(settings.timer_roll_window_slot, settings.timer_precision_ms)
        load_config(disk, self.metrics_path, self.metrics.load, report)
        check = self.check_file.read()
        has_wheel = self.wheel.load()
        self.log.load()
        recovered = recover(check, has_wheel, self.log, self.wheel, store, log_end, wall_ms)
        for said in recovered.said:
            report(said)
        self.queue_offset = recovered.queue_offset
        """The next message of the timer's topic that enters the wheel."""
        self.read_ms = recovered.read_ms
        """The slot that is read next."""
        if self.read_ms > wall_ms:  # the clock was turned back: what is sent now must not enter a slot that nobody reads again
            last = max((slot.tick for slot in self.wheel.used() if slot.tick < self.wheel.tick(self.read_ms)), default=0)
            self.read_ms = max(wall_ms // self.wheel.precision_ms, last + 1) * self.wheel.precision_ms
        self.write_ms = self.read_ms
        """Slots before it are over."""
        self.waiting = self.wheel.count_from(self.wheel.tick(self.read_ms))
        """Messages in the wheel, by its own count (`getAllCongestNum`)."""
        self.left = 0
        """Messages that left the wheel since the start."""
        self.enqueued = Rate()
        self.dequeued = Rate()
        self.safe_from = 0
        """The commit log must be on the disk up to here before the check file may say how far the timer is."""
        self.version = (0, 0, 0) if check is None else (check.state_version, check.version_ms, check.version_counter)
        self.is_used = check is not None or has_wheel or bool(self.log.segments.starts)
        self._caught_up_at = store.queue_bounds(names.WHEEL_TIMER_TOPIC, 0)[1]
        """What stands before it in the queue was there at the start, and enters before any slot is read: marks, too."""
        self._rolled_to = self._entered_to = 0
        """Log positions behind what was stored anew to roll, and behind what entered the wheel: the one before the next slot."""
        self._ahead: set[int] = set()
        """Queue offsets of messages that were delivered, behind one that could not enter the wheel yet."""
        self._slot: _Reading | None = None
        self._sees(wall_ms)

    def _sees(self, wall_ms: int) -> None:
        """The clock; one that goes back changes nothing (`maybeMoveWriteTime`)."""
        precision_ms = self.settings.timer_precision_ms
        self.write_ms = max(self.write_ms, wall_ms // precision_ms * precision_ms)

    def check(self) -> Check:
        """How far the timer is, in memory."""
        return Check(self.read_ms, self.log.end, self.queue_offset, self.queue_offset, *self.version)

    def count(self, slot_ms: int) -> int:
        """Messages in one slot (`getNum`)."""
        return self.wheel.get(self.wheel.tick(slot_ms)).messages

    @property
    def _unread_ms(self) -> int:
        """Slots from here on are not begun."""
        return self.read_ms if self._slot is None else (self._slot.tick + 1) * self.settings.timer_precision_ms

    @property
    def behind(self) -> int:
        """Messages of the timer's topic that did not enter the wheel yet."""
        return max(self._store.queue_bounds(names.WHEEL_TIMER_TOPIC, 0)[1] - self.queue_offset, 0)

    def has_work(self, wall_ms: int) -> bool:
        """A step would find something to do now."""
        return self.behind > 0 or self.read_ms < wall_ms // self.settings.timer_precision_ms * self.settings.timer_precision_ms

    # --- steps

    def step(self, wall_ms: int, deliver: Deliver, *, enqueues: bool = True, dequeues: bool = True) -> Step:
        """Look at some messages: first those that enter the wheel, then those whose slot is over."""
        self._sees(wall_ms)
        step = Step()
        try:
            if enqueues:
                self._enqueue(step, wall_ms, deliver)
            is_behind = enqueues and (self.queue_offset < self._caught_up_at or self._entered_to < self._rolled_to)
            if dequeues and not is_behind:
                self._dequeue(step, wall_ms, deliver)
        except Exception as trouble:
            step.trouble = trouble
        return step

    def done(self, step: Step, wall_ms: int) -> None:
        """What the step staged is written (or it staged nothing): its messages are in the wheel, or out of it.  Raises OSError,
        and then the messages that did not enter the wheel come again with the next step.
        """
        self.safe_from = max(self.safe_from, step.end_offset, step.source_end)
        self._rolled_to = max(self._rolled_to, step.rolled_to)
        self._entered_to = max(self._entered_to, step.source_end)
        for topic, value in step.metrics:
            self.metrics.add(topic, value, wall_ms)
        self._ahead.update(step.direct)
        self.dequeued.add(len(step.direct) + step.delivered, wall_ms)
        slot = self._slot
        if slot is not None and step.delivered:
            del slot.messages[len(slot.messages) - step.delivered :]
            self.left += step.delivered
        if slot is not None and slot.at == NO_UNIT and not slot.marks and not slot.messages:
            self._slot = None
            self.waiting -= self.wheel.get(slot.tick).messages
            self.read_ms = (slot.tick + 1) * self.settings.timer_precision_ms
        if step.entries:
            self._write(step.entries, wall_ms)
        self.enqueued.add(len(step.direct) + len(step.entries), wall_ms)
        if step.queue_offset >= 0:
            self.is_used = True
            self.queue_offset = step.queue_offset
            self._ahead = {offset for offset in self._ahead if offset >= step.queue_offset}

    # --- into the wheel

    def _enqueue(self, step: Step, wall_ms: int, deliver: Deliver) -> None:
        lowest, highest = self._store.queue_bounds(names.WHEEL_TIMER_TOPIC, 0)
        offset = max(self.queue_offset, lowest)
        while offset < highest and not step.is_half_full:
            physical_offset, size, _ = self._store.queue_unit(names.WHEEL_TIMER_TOPIC, 0, offset)
            try:
                if offset not in self._ahead:
                    self._enqueue_one(step, offset, physical_offset, size, wall_ms, deliver)
            except (NoTimer, BadRecord) as why:
                self._report(f"offset {offset} of the timer's queue is passed over: {why}")
            offset += 1
            step.queue_offset = offset
            step.source_end = physical_offset + size

    def _enqueue_one(
        self, step: Step, queue_offset: int, physical_offset: int, size: int, wall_ms: int, deliver: Deliver
    ) -> None:
        message, values = self._message(step, physical_offset, size)
        due_ms = timers.due_of(values)
        is_late = queue_offset < self._caught_up_at or physical_offset < self._rolled_to
        if due_ms < (self._unread_ms if is_late else self.write_ms):
            if prop.TIMER_DEL_UNIQKEY in values:
                return
            timers.note_dequeue(values, NEVER_IN_WHEEL_MS, wall_ms, rolls=False)
            step.end_offset = deliver(message, values, False) or step.end_offset
            step.direct.append(queue_offset)
            return
        slot_ms, magic = timers.step(
            due_ms, self.write_ms, window_slots=self._window_slots, precision_ms=self.settings.timer_precision_ms
        )
        if prop.TIMER_DEL_UNIQKEY in values:
            magic |= DELETES
        step.entries.append(_Entry(queue_offset, slot_ms, magic, physical_offset, size, values))

    def _message(self, step: Step, physical_offset: int, size: int) -> tuple[StoredMessage, Values]:
        """The message and its properties.  Raises Cold, BadRecord, NoTimer."""
        step.looked += 1
        view = self._store.lookup(physical_offset)
        if view is None or len(view) != size:
            raise NoTimer("its message is not in the log")
        step.bytes += size
        message = read_unit(view)
        if message.topic != TOPIC_BYTES:
            raise NoTimer("its message is of another topic")
        return message, properties.decode(message.properties.decode("utf-8", "replace"))

    def _write(self, entries: list[_Entry], wall_ms: int) -> None:
        """Append units to the timer's log and link them to their slots; one write for all in one file."""
        wheel, log = self.wheel, self.log
        wheel.make()
        tick_now = wheel.tick(self.read_ms)
        done = 0
        while done < len(entries):
            begin = at = log.place()
            room = (log.file_bytes - begin % log.file_bytes - TIMER_BLANK.size) // UNIT_BYTES
            some = entries[done : done + room]
            packed = bytearray()
            slots: dict[int, Slot] = {}
            for entry in some:
                tick = wheel.tick(entry.slot_ms)
                slot = slots.get(tick) or wheel.get(tick)
                delay_ms = entry.slot_ms - self.write_ms
                packed += TIMER_UNIT.pack(
                    UNIT_BYTES,
                    slot.last,
                    entry.magic,
                    self.write_ms,
                    delay_ms,
                    entry.physical_offset,
                    entry.size,
                    timers.topic_hash(entry.values),
                    0,
                )
                slots[tick] = linked(slot, tick, at, entry.magic)
                at += UNIT_BYTES
            log.append(begin, bytes(packed))
            for slot in slots.values():
                wheel.put(slot)
            for entry in some:
                value = -1 if entry.magic & DELETES else 1
                self.metrics.add(entry.values.get(prop.REAL_TOPIC), value, wall_ms)
                if wheel.tick(entry.slot_ms) >= tick_now:
                    self.waiting += value
            done += len(some)
            self.queue_offset = some[-1].queue_offset + 1
            self.is_used = True

    # --- out of the wheel

    def _dequeue(self, step: Step, wall_ms: int, deliver: Deliver) -> None:
        slot = self._slot or self._next_slot()
        if slot is None:
            return
        self._slot = slot
        while slot.at != NO_UNIT and not step.is_full:
            self._walk(step, slot)
        while slot.at == NO_UNIT and slot.marks and not step.is_full:
            self._mark(step, slot)
        while slot.at == NO_UNIT and not slot.marks and step.delivered < len(slot.messages) and not step.is_full:
            self._take_out(step, slot.messages[-1 - step.delivered], slot, wall_ms, deliver)
            step.delivered += 1

    def _next_slot(self) -> _Reading | None:
        """The next slot that has something and is over."""
        wheel = self.wheel
        end = wheel.tick(self.write_ms)
        tick = wheel.next_used(wheel.tick(self.read_ms), end, SLOTS_PER_STEP)
        self.read_ms = max(self.read_ms, tick * self.settings.timer_precision_ms)
        found = wheel.get(tick) if tick < end else EMPTY
        return _Reading(tick, found.last) if found is not EMPTY else None

    def _walk(self, step: Step, slot: _Reading) -> None:
        """One unit of the chain.  Raises Cold, OSError."""
        at = slot.at
        unit = self.log.unit(at)
        step.looked += 1
        if unit is None or self.wheel.tick(unit.slot_ms) != slot.tick:
            self._report(f"the timer's log has no unit of slot {slot.tick} at {at}: its chain ends there")
            slot.at = NO_UNIT
            return
        (slot.marks if unit.magic & DELETES and not unit.magic & ROLLS else slot.messages).append(at)
        slot.at = unit.previous if unit.previous >= self.log.begin else NO_UNIT

    def _mark(self, step: Step, slot: _Reading) -> None:
        """A mark: the message of its key is not delivered.  Raises Cold, OSError."""
        try:
            _, values, _, _ = self._at(step, slot.marks[-1])
            slot.deleted.add(values.get(prop.TIMER_DEL_UNIQKEY, ""))
            self.metrics.add(values.get(prop.REAL_TOPIC), 1, self.write_ms)
        except (NoTimer, BadRecord) as why:
            self._report(f"a mark in the timer's log at {slot.marks[-1]} is passed over: {why}")
        slot.marks.pop()

    def _take_out(self, step: Step, at: int, slot: _Reading, wall_ms: int, deliver: Deliver) -> None:
        """A message whose time has come, or its next step.  What `deliver` raises passes; then it is not counted."""
        counted = len(step.metrics)
        try:
            message, values, write_ms, magic = self._at(step, at)
            topic = values.get(prop.REAL_TOPIC)
            if self._is_deleted(values, slot.deleted):
                step.metrics.append((topic, -1))
                return
            rolls = bool(magic & ROLLS)
            if prop.TIMER_DEL_UNIQKEY in values and not rolls:
                return
            step.metrics.append((topic, 1 if magic & DELETES else -1))
            timers.note_dequeue(values, write_ms, wall_ms, rolls=rolls)
            step.end_offset = deliver(message, values, rolls) or step.end_offset
            if rolls:
                step.rolled_to = step.end_offset
        except (NoTimer, BadRecord) as why:
            self._report(f"what the timer's log says at {at} is passed over: {why}")
        except Exception:
            del step.metrics[counted:]
            raise

    def _at(self, step: Step, at: int) -> tuple[StoredMessage, Values, int, int]:
        """The message that the unit here names, its properties, when it entered the wheel, and the unit's magic."""
        unit = self.log.unit(at)
        if unit is None:
            raise NoTimer("no unit")
        message, values = self._message(step, unit.physical_offset, unit.message_size)
        return message, values, unit.write_ms, unit.magic

    def _is_deleted(self, values: Mapping[str, str], deleted: set[str]) -> bool:
        if not deleted:
            return False
        topic, key = values.get(prop.REAL_TOPIC), values.get(prop.UNIQ_KEY)
        if topic is None or key is None:
            return False
        return timers.delete_key(topic, key, with_topic=self.settings.append_topic_for_timer_delete_key) in deleted
