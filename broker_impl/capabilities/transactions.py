"""The end of a transaction (37), and a half message that is to be checked once more (323).

The producer names its half message by its place in the log and in its queue.  That is believed only when a queue entry of the
half messages' topic points there.  A commit stores the message where it belongs; both ends are noted, and an op message says so
later.  A half message that a check has put back lies further on by then: its copy is found by its unique key, and ends with it.

Java: `EndTransactionProcessor`, `AdminBrokerProcessor.resumeCheckHalfMessage`.  *Differs*: the topic is looked at; an end that
comes twice, or after the other one, is refused (1), where Java stores the message again; so is 323 for what is no half message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from broker_impl.engine.answers import LATER, Answer, Durable, Refusal, Reply, Settled
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.router import Capability, answers
from broker_impl.half_copies import DELAYED, Half
from broker_impl.half_messages import HalfMessages
from broker_impl.intake import NotTaken, PutStatus, check_inner_batch, check_names, copy_of, not_taken
from broker_impl.remarks import UNTOUCHED
from broker_impl.state.ended_halves import HalfState
from rmq_net.log import plain_text
from rmq_store.errors import Cold, StoreError
from rmq_store.log.draft import Draft
from rmq_wire import names, properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import WireError
from rmq_wire.headers.transactions import EndTransaction, ResumeCheckHalfMessage
from rmq_wire.implied import transactions as rule
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.real_place import real_place_of
from rmq_wire.implied.tags import tags_code
from rmq_wire.message_id import parse_offset_message_id

NOT_FOUND: Final = "Find prepared transaction message failed"
COMMITTED: Final = Reply()
ROLLED_BACK: Final = Reply(remark=UNTOUCHED)
WRONG_END: Final = "commitOrRollback field wrong"
ENDED: Final = "the transaction of this half message has ended"
PUT_FAILED: Final = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
EXCEPTION: Final = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."
UNSEEN_MS: Final = 5
UNSEEN_TRIES: Final = 400
"""A half message that is stored and not in its queue yet is waited for so long."""


SPECIAL: Final = DELAYED | {prop.INNER_NUM}
"""Properties with which a commit is more than an append."""


class Unseen(Exception):
    """The message, or what is looked for in the index, is in the log, and queue or index have not come so far."""


class Transactions(Capability):
    """Codes 37 and 323."""

    def __init__(self, halves: HalfMessages) -> None:
        self._halves = halves
        self._engine = halves.engine
        self._env = halves.env
        self._config = halves.config
        self._stats = halves.stats
        self._intake = halves.intake
        self._store = halves.store
        self._copies = halves.copies
        self._committing: set[int] = set()
        """Log offsets of half messages that were given up and whose commit is staged in this turn."""

    @answers(EndTransaction, stages=True)
    def end(self, call: Call, asked: EndTransaction) -> Answer:
        """Commit or roll back.  Refused: 1, 13, 14, 604 with the reference's texts; one that is not known yet gets no answer."""
        how = asked.commit_or_rollback
        if how not in (sys_flag.TRANSACTION_COMMIT, sys_flag.TRANSACTION_ROLLBACK):
            if how != sys_flag.TRANSACTION_NOT:
                raise Refusal(ResponseCode.SYSTEM_ERROR, WRONG_END)  # `EndTransactionRequestHeader.checkFields`
            self._env.log.info("%s does not know yet how transaction %s ended", call.peer.remote[0], asked.msg_id)
            return LATER
        recent = self._halves.recent.find(asked.commit_log_offset)
        if (
            recent is not None
            and recent.queue_offset == asked.tran_state_table_offset
            and recent.group == asked.producer_group
            and self._halves.state(rule.HALF_QUEUE, recent.queue_offset) is HalfState.OPEN
        ):
            return self._end_recent(asked)
        return self._at_once_or_later(call, lambda: self._end(asked))

    @answers(ResumeCheckHalfMessage, stages=True)
    def resume(self, call: Call, asked: ResumeCheckHalfMessage) -> Answer:
        """Put a half message back, or one that was given up, with no checks counted.  Refused: 1."""
        try:
            offset = parse_offset_message_id(asked.msg_id or "").physical_offset
        except WireError:
            raise Refusal(ResponseCode.SYSTEM_ERROR, EXCEPTION) from None
        return self._at_once_or_later(call, lambda: self._resume(offset))

    # Attempts: what is cold, not visible or not known yet is waited for, whether or not the asker stays

    def _at_once_or_later(self, call: Call, attempt: Callable[[], Settled | Durable]) -> Answer:
        if not self._halves.loaded:
            self._halves.when_loaded(partial(self._again, call.detach(), attempt, UNSEEN_TRIES))
            return LATER
        try:
            return attempt()
        except (Cold, Unseen) as why:
            self._wait(why, call.detach(), attempt, UNSEEN_TRIES)
            return LATER

    def _wait(self, why: Cold | Unseen, pending: PendingAnswer, attempt: Callable[[], Settled | Durable], tries: int) -> None:
        if isinstance(why, Cold):
            self._halves.reads.after(why, partial(self._again, pending, attempt, tries))
        elif tries:
            self._engine.at(self._env.mono_ms + UNSEEN_MS, partial(self._again, pending, attempt, tries - 1))
        else:
            pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, NOT_FOUND))

    def _again(
        self,
        pending: PendingAnswer,
        attempt: Callable[[], Settled | Durable],
        tries: int,
        error: BaseException | None = None,
    ) -> None:
        answer: Settled | Durable | Refusal
        try:
            if error is not None:
                raise Refusal(ResponseCode.SYSTEM_ERROR, plain_text(error))
            answer = attempt()
        except (Cold, Unseen) as why:
            self._wait(why, pending, attempt, tries)
            return
        except Refusal as no:
            answer = no
        except Exception as bug:
            pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, f"{type(bug).__name__}: {plain_text(bug)}"))
            raise
        pending.answer(answer)

    # Ends

    def _end_recent(self, asked: EndTransaction) -> Settled | Durable:
        """The end of a half message that came a moment ago, asked for by who may.  Raises `Refusal`."""
        physical_offset = asked.commit_log_offset
        half = self._halves.recent.take(physical_offset)
        topic = half.topic
        answer: Settled | Durable = ROLLED_BACK
        if asked.commit_or_rollback == sys_flag.TRANSACTION_COMMIT:
            draft = half.draft
            draft.topic, draft.queue_id = topic, half.queue_id
            draft.properties = rule.committed_properties(draft.properties, topic, half.queue_id)
            draft.sys_flag = rule.committed_sys_flag(draft.sys_flag)
            draft.prepared_transaction_offset = physical_offset
            answer = Durable(COMMITTED, self._stage(draft), False, None, _undone)
        self._halves.end(rule.HALF_QUEUE, half.queue_offset, topic)
        return answer

    def _end(self, asked: EndTransaction) -> Settled | Durable:
        """Raises `Refusal`, `Cold`, `Unseen`."""
        half = self._half_at(asked.commit_log_offset, (names.TRANS_HALF_TOPIC,))
        if half is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        self._check(half, asked)
        unit, values = half
        place = real_place_of(values)
        if place is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        queue_offset, physical_offset = self._still_open(half, place[0])
        is_waiting = self._halves.state(unit.queue_id, queue_offset) is HalfState.OPEN or not self._config.message_index_enable
        answer: Settled | Durable = ROLLED_BACK
        if asked.commit_or_rollback == sys_flag.TRANSACTION_COMMIT:
            answer = Durable(COMMITTED, self._commit(half, place, physical_offset), False, None, _undone)
            if not is_waiting:
                self._committing.add(physical_offset)
                self._engine.after_commit(lambda _: self._committing.discard(physical_offset))
        if is_waiting:
            self._halves.end(unit.queue_id, queue_offset, place[0])
        return answer

    def _check(self, half: Half, asked: EndTransaction) -> None:
        """`rejectCommitOrRollback` and `checkPrepareMessage`.  Raises `Refusal`."""
        unit, values = half
        immunity_ms = rule.end_immunity_ms(values, self._config.transaction_time_out)
        age_ms = self._env.wall_ms - unit.born_timestamp
        if immunity_ms is not None and age_ms > immunity_ms and not asked.from_transaction_check:
            raise Refusal(ResponseCode.ILLEGAL_OPERATION, UNTOUCHED)
        if values.get(prop.PGROUP) != asked.producer_group:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if unit.queue_offset != asked.tran_state_table_offset:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")

    def _still_open(self, half: Half, topic: str) -> tuple[int, int]:
        """Queue and log offset of the half message, or of the copy that counts in its place.

        One that was given up is open until its commit is stored, as in Java.  Raises `Refusal`, `Cold`, `Unseen`.
        """
        unit = half.unit
        state = self._halves.state(unit.queue_id, unit.queue_offset)
        if state is HalfState.PASSED or self._halves.is_older_than_start(unit.queue_id, unit.queue_offset):
            copy = self._copies.newest(half)
            if copy is not None:
                half = Half(copy, half.values)
                unit, state = copy, self._halves.state(copy.queue_id, copy.queue_offset)
            if not self._config.message_index_enable:
                state = HalfState.OPEN if copy is None else state
            elif copy is None or state is HalfState.PASSED:
                state = self._found_in_index(half, topic, state)
        if state is not HalfState.OPEN:
            raise Refusal(ResponseCode.SYSTEM_ERROR, ENDED)
        return unit.queue_offset, unit.physical_offset

    def _found_in_index(self, half: Half, topic: str, state: HalfState) -> HalfState:
        """How it stands with one of which no copy is known, or whose last copy has been dealt with.  Raises `Cold`, `Unseen`."""
        if state is HalfState.PASSED and self._store.undispatched:
            raise Unseen  # a copy, or its commit, may be on its way into the index
        if half.unit.physical_offset in self._committing or self._copies.is_committed(half, topic):
            return HalfState.ENDED
        if state is HalfState.PASSED and self._copies.is_given_up(half):
            return HalfState.OPEN
        return state

    def _commit(self, half: Half, place: tuple[str, int], physical_offset: int) -> int:
        """Stage the message where it belongs; its end in the log.  Raises `Refusal`."""
        unit, values = half
        topic, queue_id = place
        if SPECIAL.isdisjoint(values):
            encoded = rule.committed_properties(unit.properties, topic, values[prop.REAL_QID])
            tags = values.get(prop.TAGS)
            return self._stage(
                Draft(
                    topic,
                    queue_id,
                    unit.body,
                    encoded,
                    unit.born_timestamp,
                    unit.born_host,
                    unit.store_host,
                    unit.flag,
                    rule.committed_sys_flag(unit.sys_flag),
                    unit.reconsume_times,
                    physical_offset,
                    tags_code(tags),
                    index_keys(values.get(prop.UNIQ_KEY), values.get(prop.KEYS), tags),
                )
            )
        message = copy_of(unit, topic, queue_id, rule.committed_values(values))
        message.sys_flag = rule.committed_sys_flag(unit.sys_flag)
        try:
            check_names(topic)
            check_inner_batch(message.values, message.sys_flag, has_batch_queues=self._intake.has_batch_queues(topic))
            self._intake.divert(message, self._env.wall_ms)
            draft = self._intake.draft(message)
        except NotTaken as no:
            raise self._refusal(no.status) from None
        draft.store_host = unit.store_host
        draft.prepared_transaction_offset = physical_offset
        return self._stage(draft)

    def _stage(self, draft: Draft) -> int:
        try:
            placed = self._intake.stage_draft(draft, self._env.wall_ms)
        except NotTaken as no:
            raise self._refusal(no.status) from None
        self._stats.add_put(draft.topic, draft.queue_id, 1, placed.size)
        return placed.end_offset

    def _refusal(self, status: PutStatus) -> Refusal:
        """`sendFinalMessage`."""
        match status:
            case PutStatus.MESSAGE_ILLEGAL | PutStatus.PROPERTIES_SIZE_EXCEEDED:
                limit = self._config.max_message_size
                return Refusal(
                    ResponseCode.MESSAGE_ILLEGAL,
                    "The message is illegal, maybe msg body or properties length not matched. msg body length limit "
                    f"{limit}B, msg properties length limit 32KB.",
                )
            case PutStatus.SERVICE_NOT_AVAILABLE:
                return Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "Service not available now.")
            case PutStatus.CREATE_MAPPED_FILE_FAILED:
                return Refusal(ResponseCode.SYSTEM_ERROR, "Create mapped file failed.")
            case _:
                return Refusal(ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR DEFAULT")

    # Once more

    def _resume(self, physical_offset: int) -> Durable:
        """Raises `Refusal`, `Cold`, `Unseen`."""
        half = self._half_at(physical_offset, (names.TRANS_HALF_TOPIC, names.TRANS_CHECK_MAX_TIME_TOPIC))
        place = None if half is None else real_place_of(half.values)
        if half is None or place is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, EXCEPTION)
        unit, values = half
        copies = self._copies.all(half)
        waits = [
            one
            for one in copies
            if self._halves.state(one.queue_id, one.queue_offset) is HalfState.OPEN
            and one.physical_offset != unit.physical_offset
        ]
        is_half = unit.topic == names.TRANS_HALF_TOPIC.encode()
        state = self._halves.state(unit.queue_id, unit.queue_offset) if is_half else HalfState.PASSED
        is_committed = any(self._copies.is_committed(Half(one, values), place[0]) for one in copies)
        if waits or is_committed or state is HalfState.ENDED:
            raise Refusal(ResponseCode.SYSTEM_ERROR, PUT_FAILED)
        message = copy_of(unit, names.TRANS_HALF_TOPIC, rule.HALF_QUEUE, {**values, prop.TRANSACTION_CHECK_TIMES: "0"})
        try:
            placed = self._intake.stage(message, self._env.wall_ms, store_host=unit.store_host)
        except NotTaken:
            raise Refusal(ResponseCode.SYSTEM_ERROR, PUT_FAILED) from None
        if state is HalfState.OPEN:
            self._halves.move(unit.queue_id, unit.queue_offset)
        return Durable(
            Reply(), placed.end_offset, False, None, lambda _: Reply(code=ResponseCode.SYSTEM_ERROR, remark=PUT_FAILED)
        )

    def _half_at(self, physical_offset: int, topics: tuple[str, ...]) -> Half | None:
        """The message of one of these topics that is stored here.  Raises `Cold`, `Unseen`."""
        unit = self._store.lookup_message(physical_offset)
        if unit is None:
            if self._store.undispatched and self._store.lookup(physical_offset) is not None:
                raise Unseen
            return None
        if unit.topic.decode("utf-8", "replace") not in topics:
            return None
        return Half(unit, properties.decode(unit.properties.decode("utf-8", "replace")))


def _undone(error: BaseException) -> Settled:
    status = not_taken(error).status if isinstance(error, StoreError) else PutStatus.SERVICE_NOT_AVAILABLE
    illegal = status in (PutStatus.MESSAGE_ILLEGAL, PutStatus.PROPERTIES_SIZE_EXCEEDED)
    code = ResponseCode.MESSAGE_ILLEGAL if illegal else ResponseCode.SERVICE_NOT_AVAILABLE
    return Reply(code=code, remark="Service not available now.")
