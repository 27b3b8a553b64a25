"""Timer messages: what waits in the wheel goes to its own topic when its time has come, or is called back (370) before.

`rmq_store.timer` knows what is due; here it is driven, a step per turn: what a step stages stands or falls with the turn, and is
`done` when that is written.  While there is nothing to do the wheel is looked at when its next slot is over.  What was done
reaches the disk on a thread of its own, once in `timerFlushIntervalMs`.

Java: `TimerMessageStore`, `RecallMessageProcessor`, `AdminBrokerProcessor` (getTimerCheckPoint, getTimerMetrics,
switchTimerEngine).  *Differs*: what cannot be stored now is tried until it can, where Java gives up after three times.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Final

from broker_impl.capabilities.schedule import NEVER
from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Pause, Refusal, Reply
from broker_impl.engine.beside import Beside
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import in_javas_order
from broker_impl.intake import Intake, Message, NotTaken, PutStatus
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from broker_impl.timer_gathering import TimerGathering
from rmq_net.service import Job
from rmq_store.errors import Cold
from rmq_store.log.copies import readdress, values_of
from rmq_store.log.draft import Draft
from rmq_store.results import Arrived
from rmq_store.store import Store
from rmq_store.timer.flush import TimerFlusher, TimerTicket
from rmq_store.timer.machine import Timer
from rmq_store.timer.metrics import BUCKETS
from rmq_store.timer.steps import DELIVERIES_PER_STEP, ENTRIES_PER_STEP, Step
from rmq_wire import names, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.headers.timers import (
    GetTimerCheckPoint,
    GetTimerMetrics,
    RecallMessage,
    RecallMessageResponse,
    SwitchTimerEngine,
)
from rmq_wire.implied import timers
from rmq_wire.implied.light_queues import light_names
from rmq_wire.java import double_text, parse_long
from rmq_wire.recall_handle import read_handle

THREAD: Final = "timer"
RETRY_MS: Final = 100
"""After an append that failed."""
ERROR_MS: Final = 1_000
"""After an error that nobody foresaw."""
CLEAN_MS: Final = 30_000
"""How often files of the timer's log are looked at whose messages are gone, as Java."""
COUNTS_MS: Final = 180_000
"""How often counts of topics that nobody knows any more are dropped, as Java."""
STEPS_PER_TURN: Final = 3
"""Of those that stage nothing, some 0.4 ms each."""
_RECALL_BODY: Final = b"0"
TOPICS_PER_SLICE: Final = 256


class Timers(Capability):
    """Codes 60, 61, 370, 5001.  `timer`: None when `timerWheelEnable` is false.  `start` after everything is loaded."""

    def __init__(
        self,
        engine: Engine,
        config: BrokerConfig,
        topics: TopicTable,
        stats: Stats,
        intake: Intake,
        reads: ColdReads,
        timer: Timer | None,
        flusher: TimerFlusher | None,
    ) -> None:
        self._engine = engine
        self._env = engine.env
        self._config = config
        self._topics = topics
        self._stats = stats
        self._intake = intake
        self._store: Store = intake.store
        self._reads = reads
        self._timer = timer
        self._flusher = flusher
        self._alarm: Deadline | None = None
        self._busy = False
        """A step waits for its commit, or for a read."""
        self._gathering = None if timer is None else TimerGathering(engine.env, timer)
        self._started = False
        self._seen_end = timer.queue_offset + timer.behind if timer is not None else 0
        self._beside = Beside(engine.env, engine.counters)

    # --- driving

    def start(self) -> None:
        """Begin to deliver."""
        if self._timer is None:
            return
        self._started = True
        self._engine.on_arrival(self._arrived)
        self._engine.unhurried.tell = self._timer.tell
        self._look_in(0)
        self._flush_later()
        self._engine.every(CLEAN_MS, self._clean)
        self._engine.every(COUNTS_MS, lambda: self._engine.in_background(self._forget_unknown()))

    def stop(self) -> None:
        """Deliver nothing more."""
        self._started = False
        if self._alarm is not None:
            self._alarm.cancel()

    def close(self) -> None:
        """What was done reaches the disk, when the log has what it rests on."""
        ticket = self._begin_flush(force=True)
        if ticket is not None:
            try:
                ticket.run()
            except OSError as error:
                self._flushed(ticket, error)
            else:
                self._flushed(ticket, None)

    def _arrived(self, arrived: Sequence[Arrived]) -> None:
        if not self._busy and self._gathering is not None:
            due_ms = self._gathering.due_ms(arrived)
            if due_ms is not None and (self._alarm is None or self._alarm.due_ms > due_ms):
                self._look_in(due_ms - self._env.mono_ms)

    def _look_in(self, ms: int) -> None:
        if not self._started:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._engine.at(self._env.mono_ms + ms, self._look)

    def _look(self) -> None:
        """Some steps, until one has staged something.  Ends with an alarm set, or busy."""
        assert self._gathering is not None
        self._alarm = None
        self._gathering.looked_ms = self._env.mono_ms
        pause_ms = 0
        for _ in range(self._steps()):
            pause_ms = self._step()
            if pause_ms or self._busy:
                break
        if not self._busy:
            self._look_in(pause_ms)

    def _steps(self) -> int:
        """That this turn has, of those that stage nothing: enough for all that one turn can have brought since the last one."""
        timer = self._timer
        assert timer is not None
        end = timer.queue_offset + timer.behind
        came, self._seen_end = end - self._seen_end, end
        return STEPS_PER_TURN + min(came, self._engine.limits.dispatch_units_max) // ENTRIES_PER_STEP

    def _step(self) -> int:
        """One step.  How many ms until the next, unless it is busy."""
        timer = self._timer
        assert timer is not None
        wall_ms = self._env.wall_ms
        most = self._beside.most(DELIVERIES_PER_STEP, wall_ms - timer.read_ms) if timer.delivers(wall_ms) else DELIVERIES_PER_STEP
        if not most:
            return 1
        step = timer.step(wall_ms, self._deliver, enqueues=not self._config.timer_stop_enqueue, deliveries_max=most)
        if not step.end_offset:
            return self._done(step)
        self._busy = True
        self._engine.after_commit(partial(self._written, step))
        return 0

    def _written(self, step: Step, error: BaseException | None) -> None:
        """What the step staged is in the log, or it is not and is done again."""
        self._busy = False
        pause_ms = RETRY_MS if error is not None else self._done(step)
        if not self._busy:
            self._look_in(pause_ms)

    def _done(self, step: Step) -> int:
        """It is.  How many ms until the next, unless it is busy."""
        timer = self._timer
        assert timer is not None
        wall_ms, log = self._env.wall_ms, self._env.log
        trouble = step.trouble
        try:
            timer.done(step, wall_ms)
        except Exception as error:
            trouble = error
        if isinstance(trouble, Cold):
            self._busy = True
            self._reads.after(trouble, self._read)
            return 0
        if isinstance(trouble, NotTaken):
            log.warning("timer: a message was not stored: %s", trouble)
            return RETRY_MS
        if isinstance(trouble, OSError):
            log.error("timer: %s", trouble)
            return ERROR_MS
        if trouble is not None:
            self._look_in(ERROR_MS)
            raise trouble
        if timer.delivers(wall_ms) or (timer.has_work(wall_ms) and not self._config.timer_stop_enqueue):
            return 0
        precision_ms = timer.settings.timer_precision_ms
        return precision_ms - wall_ms % precision_ms

    def _read(self, error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            self._env.log.error("timer: what is due cannot be read: %s", error)
        self._look_in(RETRY_MS if error is not None else 0)

    def _deliver(self, draft: Draft, rolls: bool) -> int:
        """Stage the copy, into its topic or into the timer's again; its end in the log, 0 when it can never be stored."""
        topic, queue_id = draft.topic, draft.queue_id
        if not rolls and topic in (names.WHEEL_TIMER_TOPIC, names.SCHEDULE_TOPIC):
            raise timers.NoTimer(f"it says that it belongs into {topic}")
        if not rolls and self._config.enable_lmq and light_names(topic, draft.properties):
            values = values_of(draft)
            for name in (prop.REAL_TOPIC, prop.REAL_QID):
                values.pop(name, None)  # Java encodes what it has changed only for messages to light queues
            values[prop.WAIT] = "false"
            readdress(draft, topic, queue_id, values)
        try:
            placed = self._intake.stage_draft(draft, self._env.wall_ms)
        except NotTaken as no:
            values = values_of(draft)
            if no.status is PutStatus.PROPERTIES_SIZE_EXCEEDED and timers.forget_dequeue(values):
                readdress(draft, topic, queue_id, values)
                return self._deliver(draft, rolls)
            if no.status in NEVER:
                self._env.log.error("timer: a message can never be stored in %s: %s", topic, no)
                return 0
            raise
        self._stats.add_put(topic, queue_id, 1, placed.size)
        return placed.end_offset

    # --- to the disk

    def _flush_later(self) -> None:
        if self._flusher is not None:
            self._engine.at(self._env.mono_ms + self._flusher.pause_ms(self._config.timer_flush_interval_ms), self._flush)

    def _flush(self) -> None:
        if not self._started:
            return
        if (ticket := self._begin_flush()) is not None:
            self._engine.job(Job(THREAD, ticket.run, lambda _, error: self._flushed(ticket, error)))
        self._flush_later()

    def _begin_flush(self, *, force: bool = False) -> TimerTicket | None:
        if self._flusher is None:
            return None
        try:
            return self._flusher.begin(self._store.flushed_offset, self._env.wall_ms, force=force)
        except OSError as error:
            self._env.log.error("timer: its files cannot be written: %s", error)
            return None

    def _flushed(self, ticket: TimerTicket, error: BaseException | None) -> None:
        assert self._flusher is not None
        self._flusher.end(ticket, error)
        if self._flusher.is_broken:
            self._env.log.error("timer: a sync failed, the next start does again what comes from now on: %s", error)
        elif error is not None:
            self._env.log.error("timer: its files could not be written, they will be later: %s", error)

    def _clean(self) -> None:
        assert self._timer is not None
        try:
            self._timer.log.delete_before(self._store.min_offset)
        except Cold as cold:
            self._reads.after(cold, lambda _: None)
        except OSError as error:
            self._env.log.error("timer: an old file cannot be removed: %s", error)

    def forget(self, topic: str) -> None:
        """It was deleted: its count starts anew."""
        if self._timer is not None:
            self._timer.metrics.forget(topic)

    def _forget_unknown(self) -> Generator[Pause | None]:
        assert self._timer is not None
        for number, topic in enumerate(list(self._timer.metrics.counts), 1):
            if topic not in self._topics and not topic.startswith((names.SYSTEM_TOPIC_PREFIX, names.LMQ_PREFIX)):
                self.forget(topic)
            if number % TOPICS_PER_SLICE == 0:
                yield None

    # --- answers

    @answers(GetTimerCheckPoint)
    def check_point(self, call: Call, asked: GetTimerCheckPoint) -> Answer:
        """How far the timer is."""
        if self._timer is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "The checkpoint is null")
        return Reply(body=self._timer.check().packed())

    @answers(GetTimerMetrics)
    def metrics(self, call: Call, asked: GetTimerMetrics) -> Answer:
        """How many messages of each topic wait."""
        if self._timer is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "The timer message store is null")
        return self._metrics(self._timer)

    def _metrics(self, timer: Timer) -> Generator[Pause | None, None, Reply]:
        counts = timer.metrics.counts.copy()
        order = yield from in_javas_order(counts, BUCKETS)
        return Reply(body=timer.metrics.encode({topic: counts[topic] for topic in order}))

    @answers(SwitchTimerEngine)
    def switch(self, call: Call, asked: SwitchTimerEngine) -> Answer:
        """There is the wheel, and nothing to switch to."""
        if self._timer is None:
            raise Refusal(ResponseCode.INVALID_PARAMETER, "broker timerWheelEnable is false")
        if asked.engine_type == "R":
            raise Refusal(ResponseCode.INVALID_PARAMETER, "timerRocksDBEnable must be configured true when broker start")
        if asked.engine_type != "F":
            raise Refusal(ResponseCode.INVALID_PARAMETER, "param error")
        return Reply(remark="switch timer engine success")

    @answers(RecallMessage, stages=True)
    def recall(self, call: Call, asked: RecallMessage) -> Answer:
        """Store a mark in the message's slot.  Whether the message is there nobody looks."""
        ext = {"MSG_REGION": self._config.region_id}
        try:
            return self._recall(call, asked, ext)
        except Refusal as no:
            return Reply(code=no.code, remark=no.remark, ext=ext)
        except NotTaken:
            return Reply(code=ResponseCode.SYSTEM_ERROR, remark="recall failed, execute error", ext=ext)

    def _recall(self, call: Call, asked: RecallMessage, ext: dict[str, str]) -> Answer:
        config = self._config
        wall_ms = self._env.wall_ms
        if not config.recall_message_enable:
            raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        writable = config.broker_permission & sys_flag.PERM_WRITE or config.allow_recall_when_broker_not_writeable
        if wall_ms < config.start_accept_send_request_time_stamp or not writable:
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
        if self._topics.get(asked.topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{asked.topic}] not exist")
        self._topics.require_saved(asked.topic)
        try:
            handle = read_handle(asked.recall_handle)
        except BadBody as why:
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, str(why)) from None
        if handle.topic != asked.topic:
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
        if handle.broker_name != config.broker_name:
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available")
        left_ms = (parse_long(handle.time) or -1) - wall_ms
        if not 0 < left_ms < config.timer_max_delay_sec * 1_000:
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
        with_topic = config.append_topic_for_timer_delete_key
        values = {
            prop.TAGS: timers.RECALL_TAG,
            prop.TIMER_DEL_UNIQKEY: timers.delete_key(handle.topic, handle.unique_key, with_topic=with_topic),
            prop.UNIQ_KEY: handle.unique_key,
            prop.TIMER_DELIVER_MS: handle.time,
            prop.BORN_TIMESTAMP: str(wall_ms),
            prop.TRACE_CONTEXT: "",
            prop.PGROUP: asked.producer_group or "",
        }
        message = Message(
            handle.topic,
            0,
            _RECALL_BODY,
            values,
            flag=0,
            sys_flag=0,
            born_timestamp=wall_ms,
            born_host=call.peer.remote_packed,
            reconsume_times=0,
        )
        placed = self._intake.put(message, wall_ms)
        self._stats.add_put(message.topic, message.queue_id, 1, placed.size)
        return Reply(RecallMessageResponse(msg_id=handle.unique_key), ext=ext)

    # --- figures

    def figures(self) -> dict[str, str]:
        """What code 28 says of the timer."""
        timer, wall_ms = self._timer, self._env.wall_ms
        rates = (0.0, 0.0) if timer is None else (timer.enqueued.per_second(wall_ms), timer.dequeued.per_second(wall_ms))
        behind_ms = 0 if timer is None else max(wall_ms - timer.read_ms, 0)
        return {
            "timerReadBehind": str(behind_ms // 1_000),
            "timerOffsetBehind": str(0 if timer is None else timer.behind),
            "timerCongestNum": str(0 if timer is None else timer.waiting),
            "timerEnqueueTps": double_text(round(rates[0], 4)),
            "timerDequeueTps": double_text(round(rates[1], 4)),
        }
