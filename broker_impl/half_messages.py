"""Half messages and their ends: taken in, ended, put back; and how far they have been dealt with.

Ends are gathered and written as one op message per queue after `transactionOpBatchInterval`, or when their text is longer than
`transactionOpMsgMaxSize` (or a message may be); a clean stop writes what is left.  A crash before that forgets them: then what
was half is asked about, unless its commit is in the log.  Progress (consumer offsets of CID_RMQ_SYS_TRANS) is said to others only
when the disk has everything that it rests on, so that no crash loses a half message that was put back.

Java: `TransactionalMessageBridge`, `TransactionalMessageServiceImpl` (deletePrepareMessage, batchSendOpMessage).  *Differs*: ends
that cannot be written are kept and written later; those of a queue are known while they wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Pause
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.engine import Engine
from broker_impl.half_copies import HalfCopies
from broker_impl.intake import Intake, Message, NotTaken, check_inner_batch, check_names, copy_of
from broker_impl.recent_halves import RecentHalf, RecentHalves
from broker_impl.state.consumer_offsets import ABSENT, ConsumerOffsets
from broker_impl.state.ended_halves import EndedHalves, HalfState
from broker_impl.state.stats import Stats
from broker_impl.state.transaction_metrics import TransactionMetrics
from rmq_store.log.draft import Placed
from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.implied import transactions as rule
from rmq_wire.message import StoredMessage

OPS_PER_SLICE: Final = 1
"""Op messages that are read in one go: each may end a thousand half messages, 0.3 ms."""
RETRY_MS: Final = 1_000
"""After ends that were not written."""
FLUSH_LOOK_MS: Final = 200
"""How often it is looked whether the disk has what progress rests on."""


class HalfQueue:
    """One queue of half messages: what has ended, and what of it no op message says yet."""

    __slots__ = ("alarm", "ended", "op_first", "size", "unwritten")

    def __init__(self, first: int, op_first: int) -> None:
        self.ended = EndedHalves(first)
        self.op_first = op_first
        """Queue offset of the first op message that ends anything that has not been dealt with."""
        self.unwritten: deque[int] = deque()
        self.size = 0
        """Characters of `unwritten` in an op message."""
        self.alarm: Deadline | None = None


class HalfMessages:
    """All queues.  `start` reads which of them have ended; `when_loaded` waits for that.

    What they need are the tools of those who end and check them, too.
    """

    def __init__(
        self,
        engine: Engine,
        config: BrokerConfig,
        offsets: ConsumerOffsets,
        metrics: TransactionMetrics,
        stats: Stats,
        intake: Intake,
        reads: ColdReads,
    ) -> None:
        self.engine = engine
        self.env = engine.env
        self.config = config
        self._offsets = offsets
        self._metrics = metrics
        self.stats = stats
        self.intake = intake
        self.store = intake.store
        self.reads = reads
        self.copies = HalfCopies(engine.env, intake.store)
        self.recent = RecentHalves()
        self._queues: dict[int, HalfQueue] = {}
        self._unsafe: dict[int, tuple[int, int, int]] = {}
        """Queue -> (end in the log of what it rests on, progress of half messages, of op messages) that is not said yet."""
        self._look: Deadline | None = None
        """When it is looked next whether it may be said."""
        self._coming: list[tuple[int, RecentHalf]] = []
        self._ending: list[tuple[int, int]] = []
        self._counting: list[tuple[str, int]] = []
        """All three: when what is staged in this turn is written."""
        self._waiting: list[Callable[[], None]] = []
        self.loaded = False
        self._ends_at_start: dict[int, int] = {}

    # Start and stop

    def start(self, queues: int) -> None:
        """Begin with what progress and op messages say; `queues` as the topic of half messages has them."""
        for queue_id in range(queues):
            lowest, highest = self.store.queue_bounds(names.TRANS_HALF_TOPIC, queue_id)
            self._ends_at_start[queue_id] = highest
            first = max(self._progress(names.TRANS_HALF_TOPIC, queue_id), lowest)
            op_lowest, _ = self.store.queue_bounds(names.TRANS_OP_HALF_TOPIC, queue_id)
            op_first = max(self._progress(names.TRANS_OP_HALF_TOPIC, queue_id), op_lowest)
            self._queues[queue_id] = HalfQueue(first, op_first)
        if not any(highest for highest in self._ends_at_start.values()):
            self._load_ended(None, None)
        else:
            self.engine.in_background(self._load(), self._load_ended)

    def when_loaded(self, then: Callable[[], None]) -> None:
        """Call `then` once it is known what has ended."""
        if self.loaded:
            then()
        else:
            self._waiting.append(then)

    def stop(self) -> None:
        """Write the ends that no op message has yet, and say the progress; nothing else follows, the log is written here."""
        for queue_id, queue in self._queues.items():
            while queue.unwritten and self._write_ops(queue_id, queue) is not None:
                pass
        try:
            self.store.commit()
        except Exception as error:
            self.env.log.error("ends of transactions were not written, they are asked for again: %s", error)

    def settled(self) -> None:
        """The log is on the disk up to its end: progress may be said."""
        self._say_progress()

    def _progress(self, topic: str, queue_id: int) -> int:
        found = self._offsets.query(names.TRANS_GROUP, topic, queue_id)
        return self.store.queue_bounds(topic, queue_id)[0] if found == ABSENT else found

    def _load(self) -> Generator[Pause | None]:
        for queue_id, queue in self._queues.items():
            highest = self._ends_at_start[queue_id]
            for offsets in self.ops(queue_id, queue.op_first):
                if isinstance(offsets, list):
                    for offset in offsets:
                        if offset < highest:
                            queue.ended.end(offset)
                else:
                    yield offsets

    def _load_ended(self, _result: object, error: BaseException | None) -> None:
        if error is not None:
            self.env.log.error("not all ends of transactions could be read, some are asked for again: %s", error)
        self.loaded = True
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            self.engine.guard(then)

    def ops(self, queue_id: int, first: int) -> Generator[Pause | list[int] | None]:
        """What each op message from this one on ends; between them what a background task yields.

        One that cannot be read ends nothing: what it ended is asked for again.
        """
        topic = names.TRANS_OP_HALF_TOPIC
        at = max(first, self.store.queue_bounds(topic, queue_id)[0])
        read = 0
        while at < self.store.queue_bounds(topic, queue_id)[1]:
            try:
                found = yield from self.reads.warmed(partial(self._op, queue_id, at))
            except OSError as error:
                self.env.log.error("op message %d of queue %d cannot be read: %s", at, queue_id, error)
                found = None
            yield [] if found is None else _ended_by(found)
            at += 1
            read += 1
            if read % OPS_PER_SLICE == 0:
                yield None

    def _op(self, queue_id: int, at: int) -> StoredMessage | None:
        physical_offset, size, _ = self.store.queue_unit(names.TRANS_OP_HALF_TOPIC, queue_id, at)
        return self.store.stored(physical_offset, size)

    # Intake

    def prepare(self, message: Message) -> Placed:
        """Stage a message as half message.  Raises `NotTaken`."""
        topic = message.topic
        check_names(topic)
        check_inner_batch(message.values, message.sys_flag, has_batch_queues=False)
        self.intake.check_time(topic, message.values, self.env.wall_ms)
        message.values = rule.half_values(message.values, topic, message.queue_id)
        message.sys_flag = rule.half_sys_flag(message.sys_flag)
        message.topic, message.queue_id = names.TRANS_HALF_TOPIC, rule.HALF_QUEUE
        placed = self.intake.stage(message, self.env.wall_ms)
        self._count(topic, 1)
        return placed

    def coming(self, physical_offset: int, half: RecentHalf) -> None:
        """Somebody has staged this half message, and nothing can go wrong with it in this turn but the commit."""
        self._count(half.topic, 1)
        self._coming.append((physical_offset, half))

    def put_back(self, unit: StoredMessage, values: dict[str, str]) -> Placed:
        """Stage a copy at the end of its queue (`renewHalfMessageInner`).  Raises `NotTaken`."""
        message = copy_of(unit, names.TRANS_HALF_TOPIC, unit.queue_id, values)
        placed = self.intake.stage(message, self.env.wall_ms, store_host=unit.store_host)
        self.stats.add_put(names.TRANS_HALF_TOPIC, unit.queue_id, 1, placed.size)
        return placed

    # Ends

    def state(self, queue_id: int, offset: int) -> HalfState:
        """What is known of a half message."""
        return self._queue(queue_id).ended.state(offset)

    def is_older_than_start(self, queue_id: int, offset: int) -> bool:
        """A copy of it, or its commit, may be in the log without progress or an op message that says so: there was a crash."""
        return offset < self._ends_at_start.get(queue_id, 0)

    def end(self, queue_id: int, offset: int, topic: str) -> None:
        """It has ended, when what is staged in this turn is written; for whoever asks from now on.  `topic`: where it belongs."""
        self.move(queue_id, offset)
        self._count(topic, -1)

    def move(self, queue_id: int, offset: int) -> None:
        """The same for one that was put back elsewhere: it is still there."""
        self._queue(queue_id).ended.end(offset)
        self._after_commit()
        self._ending.append((queue_id, offset))

    def first(self, queue_id: int) -> int:
        """The first half message that has not been dealt with."""
        return self._queue(queue_id).ended.first

    def op_first(self, queue_id: int) -> int:
        """The first op message that ends one of them."""
        return self._queue(queue_id).op_first

    def pass_to(self, queue_id: int, offset: int) -> None:
        """All half messages before this have been dealt with."""
        self._queue(queue_id).ended.pass_to(offset)

    def say(self, queue_id: int, op_first: int) -> None:
        """Let others know the progress as soon as the disk has what it rests on: all that is in the log now."""
        queue = self._queue(queue_id)
        queue.op_first = op_first
        self._unsafe[queue_id] = (self.store.written_offset, queue.ended.first, op_first)
        self._say_progress()

    def forget(self, topic: str) -> None:
        """One of its half messages was given up."""
        self._count(topic, -1)

    def _after_commit(self) -> None:
        """Once a turn, for all that ends or comes in it."""
        if not self._ending and not self._counting:
            self.engine.after_commit(self._committed)

    def _committed(self, error: BaseException | None) -> None:
        coming, self._coming = self._coming, []
        ending, self._ending = self._ending, []
        counting, self._counting = self._counting, []
        if error is not None:
            for queue_id, offset in ending:
                self._queue(queue_id).ended.reopen(offset)
            return
        for physical_offset, half in coming:
            self.recent.keep(physical_offset, half)
        for queue_id in dict.fromkeys([queue_id for queue_id, _ in ending]):
            self._gather(queue_id, [offset for of_queue, offset in ending if of_queue == queue_id])
        counts: dict[str, list[int]] = {}
        for topic, by in counting:
            counts.setdefault(topic, []).append(by)
        for topic, changes in counts.items():
            self._metrics.add(topic, sum(changes), self.env.wall_ms, len(changes))

    def _queue(self, queue_id: int) -> HalfQueue:
        found = self._queues.get(queue_id)
        if found is None:
            found = self._queues[queue_id] = HalfQueue(0, 0)
        return found

    def _say_progress(self) -> None:
        flushed = self.store.flushed_offset
        for queue_id, (needed, first, op_first) in list(self._unsafe.items()):
            if needed <= flushed:
                del self._unsafe[queue_id]
                for topic, offset in ((names.TRANS_HALF_TOPIC, first), (names.TRANS_OP_HALF_TOPIC, op_first)):
                    if offset != self._progress(topic, queue_id):
                        self._offsets.commit(names.TRANS_GROUP, topic, queue_id, offset, "the check of transactions")
        if self._look is not None:
            self._look.cancel()
        self._look = self.engine.at(self.env.mono_ms + FLUSH_LOOK_MS, self._say_progress) if self._unsafe else None

    def _count(self, topic: str, by: int) -> None:
        self._after_commit()
        self._counting.append((topic, by))

    # Op messages

    def _gather(self, queue_id: int, offsets: list[int]) -> None:
        queue = self._queue(queue_id)
        queue.unwritten.extend(offsets)
        queue.size += len(rule.op_body(offsets))
        full = self._fills_one(queue)
        if queue.alarm is None:
            self._alarm(queue_id, queue, 0 if full else self.config.transaction_op_batch_interval)
        elif full:
            queue.alarm.cancel()
            self._alarm(queue_id, queue, 0)

    def _fills_one(self, queue: HalfQueue) -> bool:
        """There is more to write than one op message takes."""
        return queue.size > min(self.config.transaction_op_msg_max_size, self.config.max_message_size)

    def _alarm(self, queue_id: int, queue: HalfQueue, ms: int) -> None:
        queue.alarm = self.engine.at(self.env.mono_ms + ms, partial(self._write, queue_id, queue))

    def _write(self, queue_id: int, queue: HalfQueue) -> None:
        queue.alarm = None
        taken = self._write_ops(queue_id, queue)
        if taken is None:
            self._alarm(queue_id, queue, RETRY_MS)
            return
        self.engine.after_commit(partial(self._written, queue_id, queue, taken))
        if queue.unwritten:
            self._alarm(queue_id, queue, 0 if self._fills_one(queue) else self.config.transaction_op_batch_interval)

    def _written(self, queue_id: int, queue: HalfQueue, taken: tuple[int, ...], error: BaseException | None) -> None:
        if error is not None:
            if queue.alarm is not None:
                queue.alarm.cancel()
            queue.unwritten.extendleft(reversed(taken))
            queue.size += len(rule.op_body(taken))
            self._alarm(queue_id, queue, RETRY_MS)

    def _write_ops(self, queue_id: int, queue: HalfQueue) -> tuple[int, ...] | None:
        """Stage one op message; the ends in it.  None: not taken, all ends stay."""
        taken: list[int] = []
        size = 0
        for offset in queue.unwritten:
            more = len(rule.op_entry(offset))
            if taken and (size >= self.config.transaction_op_msg_max_size or size + more > self.config.max_message_size):
                break
            taken.append(offset)
            size += more
        message = Message(
            names.TRANS_OP_HALF_TOPIC,
            queue_id,
            rule.op_body(taken),
            {prop.TAGS: rule.REMOVE_TAG},
            flag=0,
            sys_flag=0,
            born_timestamp=self.env.wall_ms,
            born_host=self.intake.store_host,
            reconsume_times=0,
        )
        draft = self.intake.draft(message)
        draft.properties = rule.OP_PROPERTIES
        try:
            placed = self.intake.stage_draft(draft, self.env.wall_ms)
        except NotTaken as no:
            self.env.log.warning("ends of transactions were not stored: %s", no)
            return None
        self.stats.add_put(names.TRANS_OP_HALF_TOPIC, queue_id, 1, placed.size)
        for _ in taken:
            queue.unwritten.popleft()
        queue.size -= size
        return tuple(taken)


def _ended_by(unit: StoredMessage) -> list[int]:
    """What this op message ends."""
    mark = f"{prop.TAGS}\x01{rule.REMOVE_TAG}\x02".encode()
    return rule.op_offsets(unit.body) if mark in unit.properties else []
