"""Messages that somebody popped and did not acknowledge in time come again: as copies in their group's retry topic.

Each queue of the revive topic is read in a round of its own: what came is paired, and for each check point that is due the
messages without acknowledgement are copied, a slice at a time.  A check point is done when its copies are written, and progress
moves when they are safe, so nothing is passed over; what cannot be stored now is tried again, what cannot be read, or not be
stored at all, has its check point stored again for later and later times: whatever is wrong with one, the others go on.

Java: `PopReviveService`.  *Differs*: no check point is lost when it cannot be stored again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from functools import partial
from typing import Final

from broker_impl.capabilities.schedule import NEVER
from broker_impl.engine.answers import Pause, Refusal, Unsaved
from broker_impl.engine.router import Capability
from broker_impl.engine.slices import BYTES_PER_SLICE
from broker_impl.intake import Message, NotTaken, check_inner_batch, check_names
from broker_impl.pop_parts import PopParts
from broker_impl.revive_clock import ReviveClock
from broker_impl.state.pop_lines import QueueOfGroup
from broker_impl.state.revive_queue import ReviveQueue
from rmq_net.log import plain_text
from rmq_store.errors import Cold, StoreError
from rmq_store.results import Read
from rmq_wire import sys_flag
from rmq_wire.bodies.pop import PopCheckPoint
from rmq_wire.errors import BadBody, BadRecord, WireError
from rmq_wire.implied import pop as rules
from rmq_wire.implied.pop import Pop
from rmq_wire.message import StoredMessage, read_unit, unit_parts
from rmq_wire.properties import decode

RECORDS_PER_SLICE: Final = 32
READ_BYTES_MAX: Final = 4 * 1024 * 1024
COPIES_PER_SLICE: Final = 16
"""Some 30 µs each; fewer of large ones (`BYTES_PER_SLICE`)."""
STRETCH_BYTES: Final = 256 << 10
"""Of the log, on whose end the progress rests that copies in it make: a disk that hangs leaves few thousand rows to settle."""
IDLE_MS: Final = 3_000
"""Nothing has come for so long: the clock says what is due."""
RETRY_PERM: Final = sys_flag.PERM_READ | sys_flag.PERM_WRITE
RETRY_QUEUES: Final = 1
Steps = Generator[Pause | None, None, None]


class NotNow(Exception):
    """Nothing can be stored at the moment."""


class _Resting:
    """Progress by queue that rests on copies in a stretch of the log: however many, one row for each queue."""

    __slots__ = ("begin", "done", "end")

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end
        self.done: dict[ReviveQueue, int] = {}


class PopRevive(Capability):
    """Works in the background; answers no code."""

    def __init__(self, parts: PopParts, clock: ReviveClock) -> None:
        self._parts = parts
        self._env = parts.env
        self._store = parts.store
        self._topic = parts.records.topic
        self._clock = clock
        self._queues: list[ReviveQueue] = []
        self._unsafe: deque[_Resting] = deque()
        self._started = False

    @property
    def open(self) -> int:
        """Check points that were read and are not done with."""
        return sum(map(len, self._queues))

    def start(self) -> None:
        """Go on where this broker, or another one, has stopped."""
        config = self._parts.config
        if not config.timer_wheel_enable:
            return
        for queue_id in range(self._parts.revive_queues):
            done = self._parts.offsets.query(rules.REVIVE_GROUP, self._topic, queue_id)
            self._queues.append(ReviveQueue(queue_id, config.broker_name, done + 1, config.timer_precision_ms))
        self._started = True
        self._parts.engine.every(config.revive_interval, self._look)

    def stop(self) -> None:
        """Copy nothing more.  A check point that is copied in part, or still waits before others that are done, goes behind them.

        Without that the next start would begin with it, and copy those once more.
        """
        self._started = False
        moved = [(queue, point) for queue in self._queues for point in self._overtaken(queue)]
        wall_ms = self._env.wall_ms
        try:
            for queue, point in moved:
                self._parts.records.put_check_point(point, queue.queue_id, wall_ms)
            self._store.commit()
        except (NotTaken, StoreError) as no:
            self._env.log.warning("some popped messages may come twice: %s", plain_text(no))
            return
        for queue, point in moved:
            queue.finish(rules.pop_of(point, self._parts.config.broker_name), point)
        for queue in self._queues:
            self._note_progress(queue, self._store.written_offset)

    def _overtaken(self, queue: ReviveQueue) -> list[PopCheckPoint]:
        """Those that have to be put again, when all that may be about them has been read."""
        if not queue.overtaken():
            return []
        try:
            queue.look_back()
            before = -1
            while before != queue.next_offset < self._store.queue_bounds(self._topic, queue.queue_id)[1]:
                before = queue.next_offset
                self._take_next(queue)
        except Cold:
            self._env.log.info("revive queue %d: what is not in memory is not looked at for this stop", queue.queue_id)
        return queue.overtaken()

    def settle(self) -> None:
        """Note the progress of which all that it rests on is safe."""
        flushed = self._store.flushed_offset
        safe: dict[ReviveQueue, int] = {}
        while self._unsafe and self._unsafe[0].end <= flushed:
            safe.update(self._unsafe.popleft().done)
        for queue, done in safe.items():
            if done > self._parts.offsets.query(rules.REVIVE_GROUP, self._topic, queue.queue_id):
                self._parts.offsets.commit(rules.REVIVE_GROUP, self._topic, queue.queue_id, done, "PopReviveService")

    def _look(self) -> None:
        self.settle()
        for queue in self._queues:
            has_more = self._store.queue_bounds(self._topic, queue.queue_id)[1] > queue.position
            if self._started and not queue.running and (has_more or len(queue)):
                queue.running = True
                self._parts.engine.in_background(self._round(queue), partial(self._ended, queue))

    def _ended(self, queue: ReviveQueue, _result: object, error: BaseException | None) -> None:
        queue.running = False
        if error is not None:
            self._env.log.error("revive queue %d: %s", queue.queue_id, plain_text(error), error=error)

    def _round(self, queue: ReviveQueue) -> Steps:
        """Until there is nothing to do now."""
        while self._started:
            queue.look_ahead()
            before = queue.position
            yield from self._read(queue)
            now_ms = self._env.wall_ms
            if queue.position == before:
                self._idle(queue, now_ms)
            found = queue.next_due()
            if found is None and queue.position == before:
                return
            while found is not None and self._started:
                try:
                    yield from self._revive(queue, *found)
                except NotNow:
                    return
                found = queue.next_due()
            self._note_progress(queue)
            yield None

    def _idle(self, queue: ReviveQueue, now_ms: int) -> None:
        """Nothing more is visible: what was due when nothing of that was on its way any more is due."""
        if now_ms < queue.end_ms:
            queue.saw_nothing(now_ms)
        elif now_ms - queue.end_ms > IDLE_MS and queue.end_ms < (passed_ms := self._clock.look()) <= now_ms:
            queue.saw_nothing(passed_ms)

    def _note_progress(self, queue: ReviveQueue, end_offset: int = 0) -> None:
        """`end_offset`: of what was copied.  It rests on the records that were read, too: of those that a power cut takes with it
        the places are given to others, which the next start would pass over.
        """
        last = self._unsafe[-1] if self._unsafe else None
        done = queue.done
        end_offset = max(end_offset, queue.log_end)
        if done >= 0:
            if last is None or end_offset - last.begin >= STRETCH_BYTES:
                last = _Resting(end_offset, max(end_offset, last.end if last is not None else 0))
                self._unsafe.append(last)
            last.end = max(last.end, end_offset)
            last.done[queue] = done
        self.settle()

    # Reading

    def _read(self, queue: ReviveQueue) -> Steps:
        low, high = self._store.queue_bounds(self._topic, queue.queue_id)
        if not low <= queue.next_offset <= high:
            self._env.log.error(
                "revive queue %d is %d..%d, it goes on there, not at %d", queue.queue_id, low, high, queue.next_offset
            )
            queue.look_back()
            queue.next_offset = min(max(queue.next_offset, low), high)
        if queue.position >= high:
            return
        yield from self._parts.reads.warmed(partial(self._take_next, queue))
        yield None

    def _take_next(self, queue: ReviveQueue) -> None:
        """Take in the next few records, without those that nobody can read.  Raises Cold: then once more from the first."""
        begin = queue.position
        read = self._records(queue, begin, RECORDS_PER_SLICE)
        try:
            self._take_all(queue, read)
        except BadRecord:
            for offset in range(begin, read.next_offset):
                try:
                    self._take_all(queue, self._records(queue, offset, 1))
                except BadRecord as damaged:
                    self._pass_over(queue, offset, damaged)
        queue.moved(read.next_offset)
        queue.log_end = self._store.written_offset

    def _records(self, queue: ReviveQueue, offset: int, count: int) -> Read:
        return self._store.read_queue(self._topic, queue.queue_id, offset, count, READ_BYTES_MAX)

    def _pass_over(self, queue: ReviveQueue, offset: int, why: WireError) -> None:
        self._env.log.warning("revive queue %d: record %d is passed over: %s", queue.queue_id, offset, plain_text(why))

    def _take_all(self, queue: ReviveQueue, read: Read) -> None:
        """Raises `BadRecord` for one that is damaged."""
        now_ms = self._env.wall_ms
        for chunk in read.chunks:
            at = 0
            while at < len(chunk):
                at, offset, born_ms, body, properties = unit_parts(chunk, at)
                tag, due_ms = rules.tag_and_time(properties)
                try:
                    record = rules.read_record(tag, body)
                    if record is not None:
                        queue.take(record, offset)
                except BadBody as wrong:
                    self._pass_over(queue, offset, wrong)
                    continue
                if due_ms is not None and born_ms < due_ms:  # else the timer has not seen it: what is due before may follow
                    queue.saw(due_ms, now_ms)

    # Copying

    def _revive(self, queue: ReviveQueue, pop: Pop, point: PopCheckPoint) -> Steps:
        """Copy what of a check point nobody acknowledged.  Raises `NotNow`."""
        if not self._is_wanted(point):
            self._freed(pop, sum(not point.has_bit(index) for index in range(point.num)))
            queue.finish(pop, point)
            return
        topic = rules.retry_topic_for(pop.topic, pop.group, v2=self._parts.config.enable_retry_topic_v2)
        no_topic: Exception | None = None
        try:
            yield from self._make_topic(topic, pop.group)
        except (Refusal, ValueError) as no:  # there is no room for one more, or none can have this name
            no_topic = no
        staged: list[int] = []
        size = end_offset = 0
        for index in range(point.num):
            if point.has_bit(index):
                continue
            found: StoredMessage | Exception | None
            try:
                offset = point.offset_at(index)
                found = yield from self._fetched(queue, pop, point, offset, staged)
            except NotNow:
                raise
            except WireError as lost:
                self._env.log.error("%s: message %d cannot be read, and comes no more: %s", pop, index, plain_text(lost))
                found = None
            except Exception as unread:
                found = unread
            if found is None:
                point.set_bit(index)
                self._freed(pop, 1)
                continue
            try:
                end_offset = max(end_offset, self._again(queue, point, offset, topic, no_topic or found))
            except NotTaken as no:
                self._env.log.warning("revive queue %d: offset %d of %s was not stored: %s", queue.queue_id, offset, pop, no)
                yield from self._written(queue, pop, point, staged)
                raise NotNow from None
            staged.append(index)
            size += 0 if isinstance(found, Exception) else len(found.body)
            if len(staged) == COPIES_PER_SLICE or size >= BYTES_PER_SLICE:
                size = 0
                yield from self._written(queue, pop, point, staged)
        yield from self._written(queue, pop, point, staged)
        queue.finish(pop, point)
        self._note_progress(queue, end_offset)

    def _written(self, queue: ReviveQueue, pop: Pop, point: PopCheckPoint, staged: list[int]) -> Steps:
        """What was staged is written: these messages are done.  Raises `NotNow` when it is not."""
        if staged:
            self._parts.engine.after_commit(partial(self._committed, queue, pop, point, (*staged,)))
            staged.clear()
            try:
                yield None
            except Exception as error:
                self._env.log.warning("copies of popped messages were not stored: %s", plain_text(error))
                raise NotNow from None

    def _committed(
        self, queue: ReviveQueue, pop: Pop, point: PopCheckPoint, indexes: Sequence[int], error: BaseException | None
    ) -> None:
        """Known at once, and not when the next slice begins: a stop may come before that."""
        if error is None:
            queue.copied(point, indexes)
            self._freed(pop, len(indexes))

    def _freed(self, pop: Pop, count: int) -> None:
        self._parts.lines.freed(QueueOfGroup(pop.topic, pop.group, pop.queue_id), count, pop.pop_time)

    def _is_wanted(self, point: PopCheckPoint) -> bool:
        """Topic and group are still there; of what came again already, the topic that it was sent to, too."""
        parts, topic, group = self._parts, point.topic or "", point.group or ""
        has_group = group in parts.groups or not parts.config.pop_revive_skip_if_group_absent
        return topic in parts.topics and rules.plain_topic(topic, group) in parts.topics and has_group

    def _fetched(
        self, queue: ReviveQueue, pop: Pop, point: PopCheckPoint, offset: int, staged: list[int]
    ) -> Generator[Pause | None, None, StoredMessage | None]:
        """`_original`, when it is in memory.  What was staged before is written first: the wait would commit it unnoticed."""
        try:
            return self._original(pop, offset)
        except Cold:
            yield from self._written(queue, pop, point, staged)
        return (yield from self._parts.reads.warmed(partial(self._original, pop, offset)))

    def _original(self, pop: Pop, offset: int) -> StoredMessage | None:
        """The message at this place, None for one that the log has lost.  Raises Cold."""
        read = self._store.read_queue(pop.topic, pop.queue_id, offset, 1, READ_BYTES_MAX)
        if not read.message_count:
            return None
        unit = read_unit(read.chunks[0])
        return unit if unit.queue_offset == offset else None

    def _again(self, queue: ReviveQueue, point: PopCheckPoint, offset: int, topic: str, found: StoredMessage | Exception) -> int:
        """Stage the copy, or the check point once more; the end of either, 0 for none.  Raises `NotTaken`."""
        if isinstance(found, Exception):
            return self._re_put(queue, point, offset, found)
        try:
            return self._copy(point, topic, found)
        except NotTaken as no:
            if no.status not in NEVER:
                raise
            return self._re_put(queue, point, offset, no)
        except Exception as wrong:  # one message that cannot be copied holds up no other
            return self._re_put(queue, point, offset, wrong)

    def _copy(self, point: PopCheckPoint, topic: str, original: StoredMessage) -> int:
        intake, wall_ms = self._parts.intake, self._env.wall_ms
        message = Message(
            topic,
            rules.RETRY_QUEUE,
            original.body,
            rules.revived_values(decode(original.properties.decode("utf-8", "replace")), point, original.reconsume_times),
            flag=original.flag,
            sys_flag=original.sys_flag,
            born_timestamp=original.born_timestamp,
            born_host=intake.store_host,
            reconsume_times=rules.revived_times(point, original.reconsume_times),
        )
        check_names(topic)
        check_inner_batch(message.values, message.sys_flag, intake.has_batch_queues(topic))
        intake.divert(message, wall_ms)
        draft = intake.draft(message)
        draft.properties = rules.revived_properties(message.values)
        placed = intake.stage_draft(draft, wall_ms)
        self._parts.stats.add_put(message.topic, message.queue_id, 1, placed.size)
        return placed.end_offset

    def _re_put(self, queue: ReviveQueue, point: PopCheckPoint, offset: int, why: Exception) -> int:
        """The message cannot be read or stored as it is: perhaps later.  Raises `NotTaken`."""
        text = plain_text(getattr(why, "remark", why))
        self._env.log.error("offset %d of %s cannot come again now: %s", offset, point.topic, text)
        times = point.re_puts()
        if self._parts.config.skip_when_ckre_put_reach_max_times and times >= len(rules.RE_PUT_S):
            return 0
        wall_ms = self._env.wall_ms
        again = rules.re_put(point, offset, wall_ms)
        return self._parts.records.put_check_point(again, queue.queue_id, wall_ms).end_offset

    def _make_topic(self, topic: str, group: str) -> Steps:
        """The retry topic, and where the group begins in it (`addRetryTopicIfNotExist`)."""
        parts = self._parts
        if topic not in parts.topics:
            parts.topics.create_in_send_back(topic, RETRY_QUEUES, RETRY_PERM)
            if parts.offsets.query(group, topic, rules.RETRY_QUEUE) < 0:
                parts.offsets.commit(group, topic, rules.RETRY_QUEUE, 0, "initPopRetryOffset")
        try:
            parts.topics.require_saved(topic)
        except Unsaved as unsaved:
            pause = Pause()
            unsaved.table.when_saved(lambda _: pause.end())
            yield pause
            if topic not in parts.topics:
                raise NotNow from unsaved
