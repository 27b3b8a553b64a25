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

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rmq_store.disk.config_files import load_config
from rmq_store.disk.disk import Disk
from rmq_store.layouts import TIMER_BLANK
from rmq_store.log.copies import Readdressing, readdress, values_of
from rmq_store.log.draft import Draft
from rmq_store.read.reading import Reading
from rmq_store.timer.check import Check, CheckFile
from rmq_store.timer.entering import pack_entries
from rmq_store.timer.leaving import leaving, queue_of, text_of, timers_own
from rmq_store.timer.metrics import TimerMetrics
from rmq_store.timer.rate import Rate
from rmq_store.timer.recovery import recover
from rmq_store.timer.settings import TimerSettings
from rmq_store.timer.steps import DELIVERIES_PER_STEP, ENTRIES_PER_STEP, UNITS_PER_STEP, Entry, SlotReading, Step, short
from rmq_store.timer.timer_log import NO_UNIT, UNIT_BYTES, TimerLog
from rmq_store.timer.wheel import EMPTY, TimerWheel
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.implied import timers
from rmq_wire.implied.timers import DELETES, NEVER_IN_WHEEL_MS, PLAIN, ROLLS, NoTimer
from rmq_wire.property_shapes import Shapes

SLOTS_PER_STEP: Final = 4_096
"""Empty slots that one step passes."""
TOLD_MAX: Final = 4_096
"""Of more messages on their way nothing is remembered: 0.2 KiB each."""

_as_tuple: Final = tuple.__new__
"""`Entry(…)` without the frame in between, where there are many."""
Deliver = Callable[[Draft, bool], int]
"""Stage the copy of a message, which goes into its own topic or (True) into the timer's once more.

The copy's end in the log, 0 when it can never be stored.  What it raises ends the step; what went before stays.
"""


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
        """What stands before it in the queue was there at the start, or was told to wait a little (`gathers`), and enters before
        any slot is read: marks, too."""
        self._rolled_to = self._entered_to = 0
        """Log positions behind what was stored anew to roll, and behind what entered the wheel: the one before the next slot."""
        self._ahead: set[int] = set()
        """Queue offsets of messages that were delivered, behind one that could not enter the wheel yet."""
        self._slot: SlotReading | None = None
        self._told: dict[int, tuple[int, str]] = {}
        """Of messages on their way, by their places: the time of the slot, and the topic.  It is what their properties say."""
        marks = frozenset({prop.TIMER_DEL_UNIQKEY})
        self._waiting = Shapes(
            lambda text: properties.encode_java(properties.decode(text)), marks, (prop.TIMER_OUT_MS, prop.REAL_TOPIC)
        )
        self._leaving = Readdressing(leaving, marks, queue_of, added=2)
        self._sees(wall_ms)
        if check is not None and (self.log.end < check.flush_position or self.queue_offset < check.queue_offset):
            self.check_file.write(self.check()).sync()  # it speaks for what is gone, and must not for what takes that place

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
        return self.behind > 0 or self.delivers(wall_ms)

    def delivers(self, wall_ms: int) -> bool:
        """A slot is over that was not read to its end."""
        return self.read_ms < wall_ms // self.settings.timer_precision_ms * self.settings.timer_precision_ms

    def gathers(self, end: int) -> None:
        """What came up to there, short of a step's fill, enters with a later step: as if it were now, before any slot is read."""
        self._caught_up_at = max(self._caught_up_at, end)

    def tell(self, told: Sequence[tuple[int, int, str]]) -> None:
        """Who has stored such messages says what they are (place, time of the slot, topic): they need not be read.

        It is passed over where that time says so (`steps.over`).  What belongs together is told, and forgotten, at once.
        """
        if len(self._told) > TOLD_MAX:
            self._told.clear()
        self._told.update([(at, (slot_ms, topic)) for at, slot_ms, topic in told])

    # --- steps

    def step(
        self,
        wall_ms: int,
        deliver: Deliver,
        *,
        enqueues: bool = True,
        dequeues: bool = True,
        deliveries_max: int | None = None,
    ) -> Step:
        """Look at some messages: first those that enter the wheel, then those whose slot is over.

        `deliveries_max`: by default, and at most, what a step may have.
        """
        self._sees(wall_ms)
        step = Step(DELIVERIES_PER_STEP if deliveries_max is None else min(deliveries_max, DELIVERIES_PER_STEP))
        enqueues = enqueues and self.wheel.has_room(self.read_ms, self.write_ms, self._window_slots)
        try:
            if enqueues:
                self._enqueue(step, wall_ms, deliver)
            is_behind = max(self.queue_offset, step.queue_offset) < self._caught_up_at or self._entered_to < self._rolled_to
            if dequeues and not (enqueues and is_behind) and not step.has_late:
                self._dequeue(step, wall_ms, deliver)
        except Exception as trouble:
            step.trouble = trouble
        return step

    def done(self, step: Step, wall_ms: int) -> None:
        """What the step staged is written (or it staged nothing): its messages are in the wheel, or out of it.  Raises OSError,
        and then the messages that did not enter the wheel come again with the next step.
        """
        self.safe_from = max(self.safe_from, step.end_offset, step.source_end, step.passed_for)
        self._rolled_to = max(self._rolled_to, step.rolled_to)
        self._entered_to = max(self._entered_to, step.source_end)
        self.metrics.add_all(step.metrics, wall_ms)
        self._ahead.update(step.direct)
        self.dequeued.add(len(step.direct) + step.delivered, wall_ms)
        slot = self._slot
        if slot is not None and step.delivered:
            slot.forget(step.delivered)
            self.left += step.delivered
        if slot is not None and slot.is_over:
            self._slot = None
            self.waiting -= self.wheel.get(slot.tick).messages
            self.read_ms = (slot.tick + 1) * self.settings.timer_precision_ms
        if step.entries:
            self._write(step.entries, wall_ms)
        self.enqueued.add(len(step.direct) + len(step.entries) + len(step.passed), wall_ms)
        for at in step.passed:
            self._told.pop(at, None)
        if step.queue_offset >= 0:
            self.is_used = True
            self.queue_offset = step.queue_offset
            self._ahead = {offset for offset in self._ahead if offset >= step.queue_offset}

    # --- into the wheel

    def _enqueue(self, step: Step, wall_ms: int, deliver: Deliver) -> None:
        lowest, highest = self._store.queue_bounds(names.WHEEL_TIMER_TOPIC, 0)
        offset = max(self.queue_offset, lowest)
        while offset < highest and not step.is_half_full:
            rows = self._store.queue_units(names.WHEEL_TIMER_TOPIC, 0, offset, ENTRIES_PER_STEP)
            ahead, told = self._ahead, self._told
            places = [(at, size) for number, (at, size, _) in enumerate(rows, offset) if number not in ahead and at not in told]
            drafts = self._store.copies(names.WHEEL_TIMER_TOPIC, places)
            for physical_offset, size, _ in rows:
                if step.is_half_full:
                    return
                try:
                    said = told.get(physical_offset) if told else None
                    if said is not None and said[0] < 0:
                        step.passes(physical_offset, -said[0])
                    elif offset in ahead:
                        pass
                    elif said is None:
                        self._enqueue_one(step, offset, physical_offset, size, next(drafts), wall_ms, deliver)
                    elif not self._enqueue_told(step, offset, physical_offset, size, told.pop(physical_offset)):
                        [read] = self._store.copies(names.WHEEL_TIMER_TOPIC, ((physical_offset, size),))
                        self._enqueue_one(step, offset, physical_offset, size, read, wall_ms, deliver)
                except NoTimer as why:
                    self._report(f"offset {offset} of the timer's queue is passed over: {why}")
                offset += 1
                step.queue_offset = offset
                step.source_end = physical_offset + size

    def _enqueue_one(
        self,
        step: Step,
        queue_offset: int,
        physical_offset: int,
        size: int,
        read: Draft | None,
        wall_ms: int,
        deliver: Deliver,
    ) -> None:
        draft = timers_own(step, read, size)
        found = self._waiting.rewrite(draft.properties.decode("utf-8", "replace"))
        if found is not None:
            (_, due_text, topic), is_mark = found, False
        else:
            values = values_of(draft)
            due_text, topic = values.get(prop.TIMER_OUT_MS, ""), values.get(prop.REAL_TOPIC)
            is_mark = prop.TIMER_DEL_UNIQKEY in values
        due_ms = timers.due_said(due_text)
        is_late = queue_offset < self._caught_up_at or physical_offset < self._rolled_to
        if due_ms < (self._unread_ms if is_late else self.write_ms):
            if is_mark:
                return
            values = values_of(draft)
            timers.note_dequeue(values, NEVER_IN_WHEEL_MS, wall_ms, rolls=False)
            readdress(draft, *timers.destination(values), values)
            step.end_offset = deliver(draft, False) or step.end_offset
            step.direct.append(queue_offset)
            return
        slot_ms, magic = timers.step(
            due_ms, self.write_ms, window_slots=self._window_slots, precision_ms=self.settings.timer_precision_ms
        )
        if is_mark:
            magic |= DELETES
        if slot_ms < self.write_ms:
            step.has_late = True
        step.entries.append(Entry(queue_offset, slot_ms, magic, physical_offset, size, topic or None))

    def _enqueue_told(self, step: Step, queue_offset: int, physical_offset: int, size: int, said: tuple[int, str]) -> bool:
        """The same of a message that was told.  False when it has to be read, for its slot is over, or too far to be entered."""
        due_ms, topic = said
        if not 0 <= due_ms - self.write_ms < self._window_slots * self.settings.timer_precision_ms:
            return False
        step.looked += 1
        step.bytes += size
        step.entries.append(_as_tuple(Entry, (queue_offset, due_ms, PLAIN, physical_offset, size, topic)))
        return True

    def _write(self, entries: list[Entry], wall_ms: int) -> None:
        """Append units to the timer's log and link them to their slots; one write for all in one file."""
        wheel, log = self.wheel, self.log
        wheel.make()
        tick_now = wheel.tick(self.read_ms)
        done = 0
        while done < len(entries):
            begin = log.place()
            room = (log.file_bytes - begin % log.file_bytes - TIMER_BLANK.size) // UNIT_BYTES
            some = entries[done : done + room]
            packed, slots = pack_entries(some, begin, wheel, self.write_ms)
            log.append(begin, packed)
            for slot in slots:
                if slot.tick >= tick_now:
                    self.waiting += slot.messages - wheel.get(slot.tick).messages
                wheel.put(slot)
            self.metrics.add_all([(entry.topic, -1 if entry.magic & DELETES else 1) for entry in some], wall_ms)
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
            looked, wrong = slot.walk(self.log, self.settings.timer_precision_ms, UNITS_PER_STEP - step.looked)
            step.looked += looked
            if wrong is not None:
                self._report(wrong)
        while slot.at == NO_UNIT and slot.marks and not step.is_full:
            self._mark(step, slot)
        if slot.at != NO_UNIT or slot.marks:
            return
        places = zip(slot.offsets[: -1 - DELIVERIES_PER_STEP : -1], slot.sizes[: -1 - DELIVERIES_PER_STEP : -1], strict=True)
        drafts = self._store.copies(names.WHEEL_TIMER_TOPIC, places)
        for number in range(slot.left):
            if step.is_full:
                break
            self._take_out(step, -1 - number, slot, next(drafts), wall_ms, deliver)
            step.delivered += 1

    def _next_slot(self) -> SlotReading | None:
        """The next slot that has something and is over."""
        wheel = self.wheel
        end = wheel.tick(self.write_ms)
        tick = wheel.next_used(wheel.tick(self.read_ms), end, SLOTS_PER_STEP)
        self.read_ms = max(self.read_ms, tick * self.settings.timer_precision_ms)
        found = wheel.get(tick) if tick < end else EMPTY
        return SlotReading(found, self.log) if found is not EMPTY else None

    def _mark(self, step: Step, slot: SlotReading) -> None:
        """A mark: the message of its key is not delivered.  Raises Cold, OSError."""
        try:
            place = slot.marks[-1], slot.mark_sizes[-1]
            values = values_of(timers_own(step, next(self._store.copies(names.WHEEL_TIMER_TOPIC, (place,))), place[1]))
            slot.deleted.add(short(values.get(prop.TIMER_DEL_UNIQKEY, "")))
            self.metrics.add(values.get(prop.REAL_TOPIC), 1, self.write_ms)
        except NoTimer as why:
            self._report(f"a mark in the timer's log for {slot.marks[-1]} is passed over: {why}")
        slot.marks.pop()
        slot.mark_sizes.pop()

    def _take_out(self, step: Step, number: int, slot: SlotReading, read: Draft | None, wall_ms: int, deliver: Deliver) -> None:
        """A message whose time has come, or its next step.  What `deliver` raises passes; then it is not counted."""
        counted = len(step.metrics)
        magic = slot.magics[number]
        rolls = magic & ROLLS != 0
        try:
            draft = timers_own(step, read, slot.sizes[number])
            if not rolls and self._leaving.by_shape(draft, (text_of(slot.write_ms[number]), text_of(wall_ms))):
                topic: str | None = draft.topic or None
                if slot.deleted and topic is not None and self._delete_key(topic, draft.keys[0]) in slot.deleted:
                    step.metrics.append((topic, -1))
                    return
                step.metrics.append((topic, 1 if magic & DELETES else -1))
                if topic is None or draft.queue_id < 0:
                    raise NoTimer("it does not say where it belongs")
            elif not self._take_apart(step, number, slot, draft, wall_ms):
                return
            step.end_offset = deliver(draft, rolls) or step.end_offset
            if rolls:
                step.rolled_to = step.end_offset
        except NoTimer as why:
            self._report(f"what the timer's log says of {slot.offsets[number]} is passed over: {why}")
        except Exception:
            del step.metrics[counted:]
            raise

    def _take_apart(self, step: Step, number: int, slot: SlotReading, draft: Draft, wall_ms: int) -> bool:
        """The same of any message, up to its delivery.  False when it is not delivered.  Raises NoTimer."""
        values, magic = values_of(draft), slot.magics[number]
        topic, rolls = values.get(prop.REAL_TOPIC), magic & ROLLS != 0
        if slot.deleted and self._is_deleted(values, slot.deleted):
            step.metrics.append((topic, -1))
            return False
        if prop.TIMER_DEL_UNIQKEY in values and not rolls:
            return False
        step.metrics.append((topic, 1 if magic & DELETES else -1))
        timers.note_dequeue(values, slot.write_ms[number], wall_ms, rolls=rolls)
        readdress(draft, *((names.WHEEL_TIMER_TOPIC, 0) if rolls else timers.destination(values)), values)
        return True

    def _is_deleted(self, values: Mapping[str, str], deleted: set[str]) -> bool:
        topic, key = values.get(prop.REAL_TOPIC), values.get(prop.UNIQ_KEY)
        return topic is not None and key is not None and self._delete_key(topic, key) in deleted

    def _delete_key(self, topic: str, key: str) -> str:
        return short(timers.delete_key(topic, key, with_topic=self.settings.append_topic_for_timer_delete_key))
