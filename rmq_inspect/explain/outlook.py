"""What a broker will still do with a stored message, and when: delayed, timed, half and popped ones, and what ends these.

What a message implies is `rmq_wire.implied`; how far the broker has come stands in its own files: `config/delayOffset.json`,
`config/timercheck`, `config/consumerOffset.json` (group CID_RMQ_SYS_TRANS) and the op messages behind that; and in the timer's
queue what was recalled.  A missing file says that nothing was done yet, as it does for a broker that starts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from rmq_columns.checks.readers import Readers
from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.files import checkpoint_of, config_value
from rmq_inspect.decode.log import Log
from rmq_inspect.decode.records import printable, properties_of, topic_of
from rmq_inspect.errors import CannotLook
from rmq_inspect.explain.in_flight import InFlight, record_of
from rmq_inspect.explain.ordered import OrderedPops
from rmq_inspect.explain.words import listed, when, where
from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire import sys_flag as flags
from rmq_wire.bodies.pop import AckMsg, PopCheckPoint
from rmq_wire.errors import BadBody, BadRecord, WireError
from rmq_wire.implied import pop, timers, transactions
from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS, due_time, stored_level
from rmq_wire.implied.real_place import real_queue
from rmq_wire.implied.tags import tags_code
from rmq_wire.implied.topics import is_users_topic
from rmq_wire.message import StoredMessage
from rmq_wire.names import SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC

OPEN_FILES_MAX: Final = 8
_CHECKS: Final = transactions.CheckRules()


class Kind(StrEnum):
    """Of messages for which a broker has still something to do, or had."""

    DELAYED = "delayed"
    TIMED = "timed"
    RECALL = "recall"
    """of a timed message"""
    HALF = "half"
    OP = "op"
    """ends half messages"""
    COMMIT = "commit"
    """of a half message"""
    GIVEN_UP = "given up"
    """a half message that nobody ended"""
    IN_FLIGHT = "in flight"
    """a consumer has popped it and did not say yet that it is done"""
    CHECK_POINT = "check point"
    """of a pop"""
    ACK = "ack"
    """of popped messages"""


STILL_TO_COME: Final = (Kind.DELAYED, Kind.TIMED, Kind.RECALL, Kind.HALF, Kind.IN_FLIGHT)
"""Kinds that wait for something."""


class State(StrEnum):
    """How far the broker is with it."""

    WAITING = "waiting"
    PASSED = "passed"
    """The broker has been there: it was delivered, put back behind the others, or dropped."""
    ENDED = "ended"
    """A half message with its op, a timed message that was recalled: nothing more comes of it."""
    DONE = "done"
    """It is what it was to become."""


class Outlook(NamedTuple):
    """topic, queue_id: where it will come to, as far as it says so.  due_ms: when, wall time; None where no time is known."""

    kind: Kind
    state: State
    topic: str | None
    queue_id: int | None
    due_ms: int | None
    says: str
    """one line for people"""

    def as_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "kind": str(self.kind),
            "state": str(self.state),
            "topic": self.topic,
            "queueId": self.queue_id,
            "dueTimestamp": self.due_ms,
            "says": self.says,
        }


class Outlooks:
    """The outlook of each message of one store.  store: None for a lone file, of which nothing else is known."""

    def __init__(self, store: StoreDirectory | None = None) -> None:
        self._store = store
        self._readers = Readers(OPEN_FILES_MAX)
        self._levels: Mapping[Any, Any] | None = None
        self._timer: Mapping[str, int] | None = None
        self._recalls: set[tuple[int, str]] | None = None
        self._positions: Mapping[Any, Any] | None = None
        self._ended: set[tuple[int, int]] | None = None
        self._in_flight: InFlight | None = None
        self._ordered: OrderedPops | None = None

    def close(self) -> None:
        """Of the files that were opened; more than once is allowed."""
        self._readers.close()

    def of(self, message: StoredMessage) -> Outlook | None:
        """None for a message that lies where it belongs and has nothing to do with others."""
        topic = bytes(message.topic)
        made = _MAKERS.get(topic)
        if made is not None:
            return made(self, message)
        if topic.startswith(_REVIVE_PREFIX):
            return self._revive(message)
        if (flown := self._flown(message)) is not None:
            return flown
        if flags.transaction_type(message.sys_flag) == flags.TRANSACTION_COMMIT and is_users_topic(topic_of(message)):
            return _commit(message)  # a copy that was sent back keeps the flag, but commits nothing
        return None

    # Delayed

    def _delayed(self, message: StoredMessage) -> Outlook:
        values = properties_of(message)
        level = stored_level(values.get(prop.DELAY, "").encode())
        topic, queue_id = _real_place(values)
        due = self._due(message)
        passed = message.queue_offset < _number(self._level_progress(), message.queue_id + 1)
        goal = where(topic, queue_id)
        says = (
            f"level {level} has gone on behind it: it was delivered to {goal}, or dropped"
            if passed
            else f"goes to {goal} at {when(due)} (delay level {level})"
        )
        return Outlook(Kind.DELAYED, State.PASSED if passed else State.WAITING, topic, queue_id, due, says)

    def _due(self, message: StoredMessage) -> int | None:
        """Its queue unit says so, with the levels that the broker had; without one the usual levels do."""
        stored = message.store_timestamp
        files = self._store.queues.get((SCHEDULE_TOPIC, message.queue_id)) if self._store is not None else None
        if files:
            with contextlib.suppress(CannotLook):
                unit = queues.unit_at(files, message.queue_offset, self._readers)
                if unit is not None and unit.physical_offset == message.physical_offset and unit.tags_code >= stored:
                    return unit.tags_code
        return due_time(bytes(message.properties), stored, DELAY_LEVELS_MS)

    def _level_progress(self) -> Mapping[Any, Any]:
        if self._levels is None:
            self._levels = _table(self._config("delayOffset.json"), "offsetTable")
        return self._levels

    # Timed

    def _timed(self, message: StoredMessage) -> Outlook:
        values = properties_of(message)
        topic, queue_id = _real_place(values)
        if topic is not None and topic.startswith(names.REVIVE_LOG_PREFIX) and (record := record_of(message)) is not None:
            return self._record(record, State.PASSED if self._timer_passed(message) else State.WAITING)
        try:
            due = timers.due_of(values)
        except timers.NoTimer as reason:
            return Outlook(Kind.TIMED, State.WAITING, topic, queue_id, None, f"the broker cannot deliver it: {reason}")
        slot, magic, passed = self._turned(message, due)
        recalled = values.get(prop.TIMER_DEL_UNIQKEY)
        if recalled is not None:
            says = f"keeps the timed message with unique key {printable(recalled)} from being delivered at {when(due)}"
            return Outlook(Kind.RECALL, State.PASSED if passed else State.WAITING, topic, queue_id, due, says)
        goal, state = where(topic, queue_id), State.PASSED if passed else State.WAITING
        if passed:
            rolled = "stored anew on its way to" if magic & timers.ROLLS else "delivered to"
            says = f"the wheel has turned past it: it was {rolled} {goal}, or recalled"
        elif not self._recalled().isdisjoint(
            (due, key) for key in timers.delete_keys(topic or "", values.get(prop.UNIQ_KEY, ""))
        ):
            state, says = State.ENDED, f"it was recalled: it does not come to {goal} at {when(due)}"
        else:
            says = f"goes to {goal} at {when(due)}, unless it is recalled"
            says += (
                f"; stored anew at {when(slot)} on its way (by the default timerRollWindowSlot)" if magic & timers.ROLLS else ""
            )
        return Outlook(Kind.TIMED, state, topic, queue_id, due, says)

    def _recalled(self) -> set[tuple[int, str]]:
        """(due time, delete key) of all recalls; they are known by their tag."""
        if self._recalls is None:
            self._recalls = set()
            files = self._store.queues.get((names.WHEEL_TIMER_TOPIC, 0)) if self._store is not None else None
            if self._store is not None and files:
                tag = tags_code(timers.RECALL_TAG)
                with Log(self._store.commit_log) as log:
                    for unit in queues.written(files):
                        if unit.tags_code == tag:
                            with contextlib.suppress(BadRecord, timers.NoTimer):
                                values = properties_of(log.unit(unit.physical_offset, unit.size).message)
                                self._recalls.add((timers.due_of(values), values.get(prop.TIMER_DEL_UNIQKEY, "")))
        return self._recalls

    def _turned(self, message: StoredMessage, due: int) -> tuple[int, int, bool]:
        """(slot of a message that is due then, what its entry says, whether the wheel has turned past it)"""
        read_ms, read_offset = self._timer_progress()
        slot, magic = timers.step(
            due, message.store_timestamp, window_slots=timers.ROLL_WINDOW_SLOTS, precision_ms=timers.PRECISION_MS
        )
        return slot, magic, message.queue_offset < read_offset and slot < read_ms

    def _timer_passed(self, message: StoredMessage) -> bool:
        try:
            return self._turned(message, timers.due_of(properties_of(message)))[2]
        except timers.NoTimer:
            return False

    def _timer_progress(self) -> tuple[int, int]:
        """(time up to which slots were read, first message that has not entered the wheel)"""
        if self._timer is None:
            self._timer = {}
            if self._store is not None and self._store.timer_check is not None:
                with contextlib.suppress(CannotLook):
                    self._timer = checkpoint_of(self._store.timer_check)
        return self._timer.get("last_read_ms", 0), self._timer.get("last_queue_offset", 0)

    # POP

    def _revive(self, message: StoredMessage) -> Outlook | None:
        """Of a record in the revive topic."""
        record = record_of(message)
        done = self._revive_position(topic_of(message), message.queue_id)
        passed = done is not None and message.queue_offset <= done
        return None if record is None else self._record(record, State.PASSED if passed else State.WAITING)

    def _record(self, record: PopCheckPoint | AckMsg, state: State) -> Outlook:
        place, group = f"{where(record.topic, record.queue_id)}", printable(record.group or "(no group)")
        popped = f"popped from {place} by group {group} at {when(record.pop_time)}"
        if not isinstance(record, PopCheckPoint):
            offsets = listed(pop.acked_offsets(record))
            return Outlook(Kind.ACK, State.DONE, record.topic, record.queue_id, None, f"acknowledges {offsets}, {popped}")
        retry = None if record.topic is None else pop.retry_topic_for(record.topic, record.group or "", v2=False)
        try:
            left = self._flights().open(record)
        except BadBody as wrong:
            return Outlook(Kind.CHECK_POINT, State.DONE, None, None, None, f"the broker cannot read it: {wrong}")
        if state is State.PASSED:
            says = f"the broker has gone on behind it: what was not acknowledged was copied to {where(retry, pop.RETRY_QUEUE)}"
        elif left:
            says = f"not acknowledged: {listed(left)}; copied to {where(retry, pop.RETRY_QUEUE)} from {when(record.due_ms)} on"
        else:
            state, says = State.ENDED, "all are acknowledged: nothing more comes of them"
        says = f"{record.num} messages {popped}; {says}"
        return Outlook(Kind.CHECK_POINT, state, retry, pop.RETRY_QUEUE, record.due_ms, says)

    def _flown(self, message: StoredMessage) -> Outlook | None:
        """Of a message that somebody has; of several the one from whom it comes again first."""
        topic, queue_id = topic_of(message), message.queue_id
        found = [
            Outlook(Kind.IN_FLIGHT, State.WAITING, topic, queue_id, held.until_ms, held.says())
            for held in self.ordered_pops().held(topic, queue_id, message.queue_offset)
        ]
        for flight in self._flights().flights.get((topic, queue_id, message.queue_offset), ()):
            retry = pop.retry_topic_for(topic, flight.group, v2=False)
            says = (
                f"group {printable(flight.group)} popped it at {when(flight.point.pop_time)}: unless it is acknowledged,"
                f" copied to {where(retry, pop.RETRY_QUEUE)} from {when(flight.point.due_ms)} on"
            )
            says += "" if names.is_retry_topic(topic) else " (by the default enableRetryTopicV2)"
            found.append(Outlook(Kind.IN_FLIGHT, State.WAITING, retry, pop.RETRY_QUEUE, flight.point.due_ms, says))
        if not found:
            return None
        first = min(found, key=lambda one: one.due_ms or 0)
        return first._replace(says="; ".join(one.says for one in found))

    def ordered_pops(self) -> OrderedPops:
        """Batches of ordered pops."""
        if self._ordered is None:
            self._ordered = OrderedPops(self._store)
        return self._ordered

    def _flights(self) -> InFlight:
        if self._in_flight is None:
            store = self._store if self._store is not None else StoreDirectory(Path())
            self._in_flight = InFlight(store, self._revive_position, self._timer_passed)
        return self._in_flight

    def _revive_position(self, topic: str, queue_id: int) -> int | None:
        """The last record that is done with; None: none."""
        table = self._offsets().get(f"{topic}@{pop.REVIVE_GROUP}")
        found = table.get(queue_id, table.get(str(queue_id))) if isinstance(table, dict) else None
        return found if isinstance(found, int) else None

    # Transactions

    def _half(self, message: StoredMessage) -> Outlook:
        values = properties_of(message)
        topic, queue_id = _real_place(values)
        goal, group = where(topic, queue_id), values.get(prop.PGROUP)
        wish_ms = transactions.check_immunity_ms(values, _CHECKS.timeout_ms)
        due = message.born_timestamp + (_CHECKS.timeout_ms if wish_ms is None else wish_ms)
        if message.queue_offset < self._position(TRANS_HALF_TOPIC, message.queue_id):
            state, says = State.PASSED, f"the broker has gone on behind it: it was ended, put back or given up; meant for {goal}"
        elif (message.queue_id, message.queue_offset) in self._ended_halves():
            state, says = State.ENDED, f"its end is stored: nothing more comes of it; meant for {goal}"
        else:
            asked = max(transactions.check_times(values), 0)
            state = State.WAITING
            says = (
                f"meant for {goal}; its producer group {printable(group or '(none)')} is asked for its end"
                f" from {when(due)} on (so far {asked} of {_CHECKS.check_max} times; by the default rules)"
            )
        return Outlook(Kind.HALF, state, topic, queue_id, due, says)

    def _position(self, topic: str, queue_id: int) -> int:
        return _number(self._offsets().get(f"{topic}@{TRANS_GROUP}"), queue_id)

    def _offsets(self) -> Mapping[Any, Any]:
        if self._positions is None:
            self._positions = _table(self._config("consumerOffset.json"), "offsetTable")
        return self._positions

    def _ended_halves(self) -> set[tuple[int, int]]:
        """(queue, offset) of those that op messages name behind the broker's position."""
        if self._ended is None:
            self._ended = set()
            if self._store is not None:
                with Log(self._store.commit_log) as log:
                    for (topic, queue_id), files in self._store.queues.items():
                        if topic == TRANS_OP_HALF_TOPIC:
                            for unit in queues.written(files, self._position(topic, queue_id)):
                                with contextlib.suppress(BadRecord):
                                    body = log.unit(unit.physical_offset, unit.size).message.body
                                    self._ended.update((queue_id, offset) for offset in transactions.op_offsets(body))
        return self._ended

    def _op(self, message: StoredMessage) -> Outlook:
        offsets = transactions.op_offsets(message.body)
        says = f"ends the half messages of queue {message.queue_id} at {listed(offsets)}" if offsets else "ends nothing"
        return Outlook(Kind.OP, State.DONE, TRANS_HALF_TOPIC, message.queue_id, None, says)

    def _given_up(self, message: StoredMessage) -> Outlook:
        values = properties_of(message)
        topic, queue_id = _real_place(values)
        says = f"a half message meant for {where(topic, queue_id)} that nobody ended: it stays here"
        return Outlook(Kind.GIVEN_UP, State.DONE, topic, queue_id, None, says)

    def _config(self, name: str) -> Mapping[Any, Any]:
        """Empty where neither the file nor its backup can be read."""
        for file in (self._store.config.get(name), self._store.config.get(f"{name}.bak")) if self._store is not None else ():
            with contextlib.suppress(CannotLook, WireError):
                if file is not None and isinstance(value := config_value(file), dict):
                    return value
        return {}


def _commit(message: StoredMessage) -> Outlook:
    says = f"commits the half message at byte {message.prepared_transaction_offset} of the log"
    return Outlook(Kind.COMMIT, State.DONE, topic_of(message), message.queue_id, None, says)


def _real_place(values: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Each of both as far as the message says it."""
    return values.get(prop.REAL_TOPIC), real_queue(values.get(prop.REAL_QID))


def _table(value: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
    table = value.get(name)
    return table if isinstance(table, dict) else {}


def _number(table: Any, key: int) -> int:
    """Of a table whose keys are written bare or quoted; 0 without one."""
    found = table.get(key, table.get(str(key), 0)) if isinstance(table, dict) else 0
    return found if isinstance(found, int) else 0


_REVIVE_PREFIX: Final = names.REVIVE_LOG_PREFIX.encode()
_MAKERS: Final = {
    SCHEDULE_TOPIC.encode(): Outlooks._delayed,
    names.WHEEL_TIMER_TOPIC.encode(): Outlooks._timed,
    TRANS_HALF_TOPIC.encode(): Outlooks._half,
    TRANS_OP_HALF_TOPIC.encode(): Outlooks._op,
    TRANS_CHECK_MAX_TIME_TOPIC.encode(): Outlooks._given_up,
}
