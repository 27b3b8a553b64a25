"""Handing messages out for a while (200050), and showing what would be handed out (200052).

A pop is admitted check by check, goes through its queues (`broker_impl.pop_selection`), and is answered when its check points are
written.  One that finds nothing waits, or is answered 209 or 210.

Java: `PopMessageProcessor`, `PeekMessageProcessor`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from broker_impl.engine.answers import LATER, Answer, Durable, Later, Refusal, Settled, Unsaved
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.router import Capability, answers
from broker_impl.filtering import ALL, PropertyFilter, characters_to_read
from broker_impl.pop_parts import PopParts
from broker_impl.pop_polling import Polling, PopPolling
from broker_impl.pop_selection import READ_BYTES_MAX, PopSelection
from broker_impl.state.consumer_offsets import FULL
from broker_impl.state.pop_lines import QueueOfGroup
from broker_impl.state.pop_waits import PopWait
from rmq_net.log import plain_text
from rmq_net.service import Buffer
from rmq_store.errors import Cold
from rmq_store.results import GetStatus
from rmq_wire.codes import ResponseCode
from rmq_wire.command import AnswerTemplate
from rmq_wire.headers.pop import PeekMessage, PopMessage, PopMessageResponse
from rmq_wire.pop_receipt import ORDER_QUEUE

VIEWS_MAX: Final = 2
"""More pieces than this are joined, as those of a pull."""
_FIELDS: Final = ("pop_time", "invisible_time", "revive_qid", "rest_num", "start_offset_info", "msg_offset_info")
_FOUND: Final = AnswerTemplate(PopMessageResponse, _FIELDS, remark="FOUND")
_FOUND_ORDERED: Final = AnswerTemplate(PopMessageResponse, (*_FIELDS, "order_count_info"), remark="FOUND")
_NOTHING: Final = {
    code: AnswerTemplate(PopMessageResponse, _FIELDS, code=code, remark="NO_MESSAGE_IN_QUEUE")
    for code in (ResponseCode.POLLING_FULL, ResponseCode.POLLING_TIMEOUT)
}
_NOTHING_ORDERED: Final = {
    code: AnswerTemplate(PopMessageResponse, (*_FIELDS, "order_count_info"), code=code, remark="NO_MESSAGE_IN_QUEUE")
    for code in _NOTHING
}
_PEEK_FIELDS: Final = ("rest_num",)
_UNPOPPED: Final = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}
_PEEKED: Final = AnswerTemplate(PopMessageResponse, _PEEK_FIELDS, constants=_UNPOPPED, remark="FOUND")
_NOTHING_PEEKED: Final = AnswerTemplate(
    PopMessageResponse,
    _PEEK_FIELDS,
    constants=_UNPOPPED,
    code=ResponseCode.PULL_NOT_FOUND,
    remark="NO_MESSAGE_IN_QUEUE",
)
_WRONG_PLACE: Final = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY)


class Waiting(NamedTuple):
    """What is known of a pop's waiting: until when it may, where it did before, and what had arrived when it began to look."""

    until_ms: int | None
    arrivals: int


class Pop(Capability):
    """Codes 200050 and 200052."""

    def __init__(self, parts: PopParts) -> None:
        self.parts = parts
        self._next_queue = 0
        self.polling = PopPolling(parts.engine, parts.store, parts.config, self._again, self._give_up, "pop")

    @answers(PopMessage, stages=True, bulky=True)
    def pop(self, call: Call, asked: PopMessage) -> Answer:
        """Hand messages out.  Refused: 1, 16, 17, 23, 26, 29, 210 with the reference's texts; 1 where no progress is kept."""
        if asked.exp and asked.exp != ALL:
            self.parts.engine.shares.one_selector(characters_to_read(asked.exp, asked.exp_type))
        return self.look(asked, call.detach())

    def look(self, asked: PopMessage, pending: PendingAnswer, until_ms: int | None = None) -> Settled | Durable | Later:
        """Execute a pop.  `until_ms`: it waited before, and so long at the most.  Raises `Refusal`, `Unsaved`."""
        parts = self.parts
        rules = parts.rules
        topic, group = rules.admit_pop(pending.peer, asked)
        parts.topics.require_saved(asked.topic)
        wanted = rules.wanted(asked)
        rules.check_count(asked.max_msg_nums)
        legs = parts.walk.of_pop(topic, group, asked.queue_id, order=asked.order)
        selection = PopSelection(parts, asked, legs, wanted, ORDER_QUEUE if asked.order else self._revive_queue())
        return self._go_on(selection, pending, Waiting(until_ms, self.polling.arrivals))

    def _revive_queue(self) -> int:
        """One after the other, so that they fill evenly."""
        self._next_queue = (self._next_queue + 1) % self.parts.config.revive_queue_num
        return self._next_queue

    def _go_on(self, selection: PopSelection, pending: PendingAnswer, waiting: Waiting) -> Settled | Durable | Later:
        try:
            selection.run()
        except Cold as cold:
            self.parts.reads.after(cold, partial(self._read, selection, pending, waiting))
            return LATER
        finally:
            if selection.stretches:
                self.parts.engine.after_commit(partial(self._committed, selection))
        if selection.count:
            return self._found(selection, pending)
        return self._nothing(selection, pending, waiting)

    def _read(self, selection: PopSelection, pending: PendingAnswer, waiting: Waiting, error: BaseException | None) -> None:
        """What was not in memory is: the pop goes on, and is answered here."""
        if not pending.alive:
            selection.give_up()
            return
        try:
            if error is not None:
                raise error
            answer: Settled | Durable | Later | Refusal = self._go_on(selection, pending, waiting)
        except Refusal as no:
            answer = no
        except Exception as wrong:
            selection.give_up()
            answer = self._failure(selection.asked, wrong)
        if answer is not LATER:
            pending.answer(answer)

    def _failure(self, asked: PopMessage, wrong: Exception) -> Refusal:
        self.parts.env.log.error("pop of group %s from %s failed", asked.consumer_group, asked.topic, error=wrong)
        return Refusal(ResponseCode.SYSTEM_ERROR, f"{type(wrong).__name__}: {plain_text(wrong)}")

    # Those that wait

    def _again(self, one: PopWait) -> None:
        """Execute it once more; answer it, unless it goes on waiting."""
        matches = one.wanted.matches
        if isinstance(matches, PropertyFilter):
            matches.keep()
        try:
            answer: Settled | Durable | Later | Refusal = self.look(one.asked, one.pending, one.deadline_ms)
        except Unsaved as unsaved:
            unsaved.table.when_saved(partial(self._saved, one))
            return
        except Refusal as no:
            answer = no
        except Exception as wrong:
            answer = self._failure(one.asked, wrong)
        if answer is not LATER:
            one.pending.answer(answer)

    def _saved(self, one: PopWait, error: BaseException | None) -> None:
        """The topic, made anew meanwhile, is on the disk; or it was taken back, which the pop sees for itself."""
        if one.pending.alive:
            engine = self.parts.engine
            engine.at(engine.env.mono_ms, partial(self._again, one))

    def _give_up(self, one: PopWait) -> None:
        nothing = PopSelection(self.parts, one.asked, iter(()), one.wanted, ORDER_QUEUE if one.asked.order else 0)
        one.pending.answer(self.nothing_head(nothing, one.pending, ResponseCode.POLLING_TIMEOUT))

    def _committed(self, selection: PopSelection, error: BaseException | None) -> None:
        """The check points are written, or nothing was handed out."""
        lines = self.parts.lines
        for stretch in selection.stretches:
            if error is None:
                lines.settle(stretch)
            else:
                lines.undo(stretch)

    # Answers

    def _found(self, selection: PopSelection, pending: PendingAnswer) -> Settled | Durable:
        asked = selection.asked
        if selection.rest > 0 and self.polling.waits:
            self.polling.notify(asked.topic, asked.consumer_group, asked.queue_id)
        head = self._head(_FOUND_ORDERED if asked.order else _FOUND, selection, pending, selection.body_bytes)
        pieces: list[Buffer] = [head, *selection.chunks]
        frame: Settled = pieces if len(selection.chunks) <= VIEWS_MAX else b"".join(pieces)
        if not selection.end_offset:
            return frame
        return Durable(frame, selection.end_offset, failed=self._failed(selection, pending))

    def _failed(self, selection: PopSelection, pending: PendingAnswer) -> Callable[[BaseException], Settled]:
        """Without check points nothing is handed out, and it is as if nothing had been there."""
        return lambda _: self.nothing_head(selection, pending, ResponseCode.POLLING_TIMEOUT)

    def _nothing(self, selection: PopSelection, pending: PendingAnswer, waiting: Waiting) -> Settled | Later:
        """Nothing was found: it waits, if it may.  Raises `Refusal` when there may be something that it could not have."""
        if selection.lacks_room:
            raise Refusal(ResponseCode.SYSTEM_ERROR, FULL)
        asked = selection.asked
        polling = self.polling.hold(pending, asked, selection.wanted, waiting.until_ms, since=waiting.arrivals)
        if polling is Polling.HELD:
            if selection.rest > 0:
                self.polling.notify_soon(asked.topic, asked.consumer_group, asked.queue_id)
            return LATER
        code = ResponseCode.POLLING_FULL if polling is Polling.FULL else ResponseCode.POLLING_TIMEOUT
        return self.nothing_head(selection, pending, code)

    def nothing_head(self, selection: PopSelection, pending: PendingAnswer, code: ResponseCode) -> bytes:
        """209 or 210."""
        table = _NOTHING_ORDERED if selection.asked.order else _NOTHING
        return self._head(table[code], selection, pending, 0)

    def _head(self, template: AnswerTemplate, selection: PopSelection, pending: PendingAnswer, body_size: int) -> bytes:
        values: list[int | str] = [
            selection.pop_ms,
            selection.asked.invisible_time,
            selection.revive_queue,
            selection.rest,
            ";".join(selection.start_infos),
            ";".join(selection.offset_infos),
        ]
        if selection.asked.order:
            values.append(";".join(selection.count_infos))
        return template.render(pending.form, pending.opaque, *values, body_size=body_size)

    # Peeking

    @answers(PeekMessage, bulky=True)
    def peek(self, call: Call, asked: PeekMessage) -> Answer:
        """Show messages, and change nothing.  Refused: 16, 17, 26, 29 with the reference's texts."""
        topic, _ = self.parts.rules.admit(call.peer, asked.topic, asked.queue_id, asked.consumer_group)
        self.parts.rules.check_count(asked.max_msg_nums)
        legs = list(self.parts.walk.of_peek(topic, asked.consumer_group, asked.queue_id))
        form, opaque = call.form, call.opaque

        def attempt() -> Settled:
            count = rest = 0
            chunks: list[Buffer] = []
            for leg in legs:
                if leg.last and count >= asked.max_msg_nums:
                    break
                for queue in [QueueOfGroup(leg.topic, asked.consumer_group, one) for one in leg.queue_ids]:
                    offset = self.parts.walk.begin(queue)
                    rest += self.parts.walk.rest(queue, offset)
                    room = asked.max_msg_nums - count
                    if room > 0:
                        read = self.parts.store.read_queue(*_where(queue), offset, room, READ_BYTES_MAX)
                        if read.status in _WRONG_PLACE:
                            read = self.parts.store.read_queue(*_where(queue), read.next_offset, room, READ_BYTES_MAX)
                        chunks += read.chunks
                        count += read.message_count
            template = _PEEKED if count else _NOTHING_PEEKED
            size = sum(map(len, chunks))
            self.parts.engine.shares.afford(size)
            if count:
                self.parts.stats.add_get(asked.consumer_group, asked.topic, asked.queue_id, count, size)
            return b"".join((template.render(form, opaque, rest, body_size=size), *chunks))

        return self.parts.reads.answer(call, attempt)


def _where(queue: QueueOfGroup) -> tuple[str, int]:
    return queue.topic, queue.queue_id
