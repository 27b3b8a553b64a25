"""What becomes of a message that somebody has: consumed (200051, 200151), or to come again at another time (200053).

For an ordinary pop this is a record in the queue of the revive topic that the receipt names, due when the message would come
again; for an ordered one the order of its queue moves on.  A receipt is what a client says, so it counts only within the bounds
that one of ours can have (*differs*: Java writes whatever it says).  More time is a new check point and the end of the old one,
both stored or none.

Java: `AckMessageProcessor`, `ChangeInvisibleTimeProcessor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_impl.engine.answers import Answer, Durable, Refusal, Reply, Settled, refusal_reply
from broker_impl.engine.call import Call
from broker_impl.engine.peer import Peer
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun
from broker_impl.intake import NotTaken
from broker_impl.pop_parts import PopParts
from broker_impl.pop_records import SAME_TIME_MS
from broker_impl.remarks import FAQ, UNTOUCHED
from broker_impl.state.order_info import ILLEGAL
from broker_impl.state.pop_lines import QueueOfGroup
from rmq_wire import names
from rmq_wire.bodies.pop import (
    MESSAGES_MAX,
    AckMsg,
    BatchAck,
    BatchAckMessageRequestBody,
    BatchAckMsg,
    PopCheckPoint,
)
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody, BadReceipt
from rmq_wire.headers.pop import (
    AckMessage,
    BatchAckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    PopRollback,
)
from rmq_wire.implied.pop import BATCH_ACK_OFFSET
from rmq_wire.pop_receipt import ORDER_QUEUE, Receipt, read_receipt, topic_of_flag

ACKS_PER_SLICE: Final = 16
"""Acknowledgements of one request between two yields, some 20 µs each."""
CHARACTERS_OF_ACK: Final = 128
"""Of a longer bit set so many count as another acknowledgement: 768 messages, 0.2 µs each, 3 µs of an ordered pop."""
DISTANCES_MAX: Final = 16_384
"""How far behind the beginning of its pop a message may lie: a filter passes over some hundreds."""
MessageEnd = AckMessage | ChangeInvisibleTime


class PopEnds(Capability):
    """Codes 200051, 200053, 200056, 200151."""

    def __init__(self, parts: PopParts) -> None:
        self.parts = parts

    @answers(AckMessage, stages=True)
    def ack(self, call: Call, asked: AckMessage) -> Answer:
        """One message is consumed.  Refused: 13, 17, 208 with the reference's texts."""
        low, high = self._check_queue(call.peer, asked)
        _check_lite(asked)
        if not low <= asked.offset <= high:
            remark = f"offset is illegal, key:{asked.topic}@{asked.queue_id}, commit:{asked.offset}, store:{low}~{high}"
            raise Refusal(ResponseCode.NO_MESSAGE, remark)
        receipt = self._receipt(asked.extra_info)
        queue = QueueOfGroup(asked.topic, asked.consumer_group, asked.queue_id)
        if receipt.is_ordered:
            self._ack_ordered(call.peer, queue, asked.offset, receipt)
            return Reply()
        return _stored(Reply(), self._end(queue, receipt, self._ack(queue, receipt, asked.offset), (asked.offset,)))

    @answers(BatchAckMessage, stages=True)
    def batch_ack(self, call: Call, asked: BatchAckMessage) -> Answer:
        """Several are; what cannot be is left out.  Refused: 208 for none."""
        try:
            body = call.read(BatchAckMessageRequestBody) if call.body else BatchAckMessageRequestBody()
        except BadBody as unread:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(unread)) from None
        if not body.acks:
            raise Refusal(ResponseCode.NO_MESSAGE)
        broker_name = body.broker_name or None
        if len(body.acks) > 1:
            return begun(self._batches(call.peer, body.acks, broker_name))
        wrong: list[Refusal] = []
        return _answer(self._batch(call.peer, body.acks[0], broker_name, wrong), wrong)

    def _batches(self, peer: Peer, acks: list[BatchAck], broker_name: str | None) -> Slices[Settled | Durable]:
        end_offset = rows = 0
        wrong: list[Refusal] = []
        for one in acks:
            if rows >= ACKS_PER_SLICE:
                rows = 0
                yield None
            rows += 1 + len(one.bits or "") // CHARACTERS_OF_ACK
            end_offset = max(end_offset, self._batch(peer, one, broker_name, wrong))
        return _answer(end_offset, wrong)

    def _batch(self, peer: Peer, said: BatchAck, broker_name: str | None, wrong: list[Refusal]) -> int:
        """Those of one pop: the end of their record, 0 for none.  `broker_name`: None for ours, as who reads the records has it.

        `wrong`: takes in what an ordered pop did not hand out.

        Raises `Refusal` when it cannot be stored now.
        """
        parts = self.parts
        name = broker_name or parts.config.broker_name
        receipt = Receipt(
            said.start_offset, said.pop_time, said.invisible_time, said.revive_queue, said.retry or "", name, said.queue_id
        )
        group = said.group or ""
        try:
            queue = QueueOfGroup(topic_of_flag(receipt.flag, said.topic or "", group), group, said.queue_id)
            self._check_place(queue)
            self._check_receipt(receipt)
            low, high = parts.store.queue_bounds(queue.topic, queue.queue_id)
            offsets = said.offsets(DISTANCES_MAX)
            if offsets and not (low <= offsets[0] and offsets[-1] <= high):
                offsets = [one for one in offsets if low <= one <= high]
        except (BadReceipt, BadBody, Refusal) as no:
            parts.env.log.info("an acknowledgement of group %s is left out: %s", group, no)
            return 0
        if receipt.is_ordered:
            for offset in offsets:
                try:
                    self._ack_ordered(peer, queue, offset, receipt)
                except Refusal as no:
                    wrong[:] = (no,)
            return 0
        if not 0 < len(offsets) <= MESSAGES_MAX:
            return 0
        topic, _, queue_id = queue
        ack = BatchAckMsg(BATCH_ACK_OFFSET, said.start_offset, group, topic, queue_id, said.pop_time, broker_name, offsets)
        return self._end(queue, receipt, ack, offsets)

    @answers(ChangeInvisibleTime, stages=True)
    def change(self, call: Call, asked: ChangeInvisibleTime) -> Answer:
        """A message comes again at another time.  Refused: 1, 13, 17, 208 as in the reference, 29 for a time that is none."""
        low, high = self._check_queue(call.peer, asked)
        _check_lite(asked)
        if not low <= asked.offset < high:
            raise Refusal(ResponseCode.NO_MESSAGE, UNTOUCHED)
        receipt = self._receipt(asked.extra_info)
        self.parts.rules.check_invisible(asked.invisible_time)
        queue = QueueOfGroup(asked.topic, asked.consumer_group, asked.queue_id)
        now_ms = self.parts.env.wall_ms
        if receipt.is_ordered:
            return self._change_ordered(queue, asked, receipt, now_ms)
        pop_ms = now_ms
        if asked.offset == receipt.start_offset and 0 <= receipt.pop_time - now_ms < SAME_TIME_MS:
            pop_ms = receipt.pop_time + 1
        point = PopCheckPoint(
            asked.offset,
            pop_ms,
            asked.invisible_time,
            0,
            1,
            asked.queue_id,
            asked.topic,
            asked.consumer_group,
            0,
            [0],
            receipt.broker_name,
            None,
            asked.suspend,
        )
        try:
            placed = self.parts.records.put_check_point(point, receipt.revive_queue, now_ms)
        except NotTaken as no:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"append check point error: {no.status.name}") from None
        if asked.consumer_group in self.parts.groups:
            self.parts.stats.add_check_point(asked.consumer_group, asked.topic)
        self._count_ack(asked.consumer_group, asked.topic, 1)
        old = self._ack(queue, receipt, asked.offset)
        end_offset = placed.end_offset
        if not self.parts.buffer.ack_with_turn(old, end_offset):
            end_offset = self._put_ack(old, receipt)
        answer = ChangeInvisibleTimeResponse(
            pop_time=pop_ms, invisible_time=asked.invisible_time, revive_qid=receipt.revive_queue
        )
        return _stored(Reply(answer, remark=UNTOUCHED), end_offset)

    @answers(PopRollback)
    def rollback(self, call: Call, asked: PopRollback) -> Answer:
        """There is no other store to move anything from (`transferPopToFsStore`)."""
        return Reply()

    # Receipts

    def _check_queue(self, peer: Peer, asked: MessageEnd) -> tuple[int, int]:
        """The queue's bounds.  Raises `Refusal`."""
        topic = self.parts.topics.get(asked.topic)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist, apply first please! {FAQ}")
        if not 0 <= asked.queue_id < topic.read_queue_nums:
            host, port = peer.remote
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{asked.queue_id}] is illegal, topic:[{asked.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{host}:{port}]",
            )
        return self.parts.store.queue_bounds(asked.topic, asked.queue_id)

    def _receipt(self, text: str) -> Receipt:
        try:
            receipt = read_receipt(text)
        except BadReceipt as wrong:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(wrong)) from None
        self._check_receipt(receipt)
        return receipt

    def _check_receipt(self, receipt: Receipt) -> None:
        """It may be one of this broker's.  Raises `Refusal`."""
        config = self.parts.config
        if receipt.broker_name != config.broker_name:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the receipt is of broker {receipt.broker_name[:64]}")
        if not 0 <= receipt.revive_queue < self.parts.revive_queues and receipt.revive_queue != ORDER_QUEUE:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"reviveQid[{receipt.revive_queue}] is illegal")
        ahead_ms = receipt.due_ms - self.parts.env.wall_ms
        if receipt.pop_time < 0 or receipt.invisible_time < 0 or ahead_ms > config.timer_max_delay_sec * 1_000:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "the receipt names a time that no pop has")

    def _check_place(self, queue: QueueOfGroup) -> None:
        """There is such a queue, or there was: a topic may have fewer than when they were popped.  Raises `BadReceipt`."""
        topic = self.parts.topics.get(queue.topic)
        if topic is None or queue.queue_id < 0:
            raise BadReceipt("there is no such queue")
        if queue.queue_id >= topic.read_queue_nums and not self.parts.store.queue_bounds(queue.topic, queue.queue_id)[1]:
            raise BadReceipt("there is no such queue any more")

    @staticmethod
    def _ack(queue: QueueOfGroup, receipt: Receipt, offset: int) -> AckMsg:
        topic, group, queue_id = queue
        return AckMsg(offset, receipt.start_offset, group, topic, queue_id, receipt.pop_time, receipt.broker_name)

    def _end(self, queue: QueueOfGroup, receipt: Receipt, ack: AckMsg, offsets: Sequence[int]) -> int:
        """These are over: the end of their record, 0 where their check point is in memory and knows it.  Raises `Refusal`."""
        buffer = self.parts.buffer
        self._count_ack(queue.group, queue.topic, len(offsets))
        end_offset = 0 if len(buffer) and buffer.ack(ack, offsets) else self._put_ack(ack, receipt)
        self.parts.lines.freed(queue, len(offsets), receipt.pop_time)
        return end_offset

    def _put_ack(self, ack: AckMsg, receipt: Receipt) -> int:
        """Stage the record; its end.  Raises `Refusal` (*differs*: Java says that all is well, and the message comes again)."""
        parts = self.parts
        try:
            placed = parts.records.put_ack(ack, receipt.revive_queue, receipt.due_ms, parts.env.wall_ms)
        except NotTaken as no:
            raise Refusal(ResponseCode.SYSTEM_ERROR, no.status.name) from None
        return placed.end_offset

    def _count_ack(self, group: str, topic: str, count: int) -> None:
        """Of groups that there are: who acknowledges may name any."""
        if group in self.parts.groups:
            self.parts.stats.add_ack(group, topic, count)

    # Order

    def _ack_ordered(self, peer: Peer, queue: QueueOfGroup, offset: int, receipt: Receipt) -> None:
        """The queue's order moves on, or stays as it is for what is over.  Raises `Refusal`."""
        topic, group, queue_id = queue
        parts = self.parts
        committed = parts.offsets.query(group, topic, queue_id)
        if offset < committed:
            return
        following = parts.orders.commit_and_next(topic, group, queue_id, offset, receipt.pop_time, committed)
        if following == ILLEGAL:
            remark = (
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{committed}, commit:{offset}, next:{following}, "
                f"/{peer.remote[0]}:{peer.remote[1]}"
            )
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
        parts.lines.freed(queue, 1, receipt.pop_time)
        if following >= 0 and not parts.offsets.has_reset(group, topic, queue_id):
            parts.offsets.commit(group, topic, queue_id, following, f"{peer.remote[0]}:{peer.remote[1]}")

    def _change_ordered(self, queue: QueueOfGroup, asked: ChangeInvisibleTime, receipt: Receipt, now_ms: int) -> Reply:
        topic, group, queue_id = queue
        parts = self.parts
        if asked.offset < parts.offsets.query(group, topic, queue_id):
            return Reply(ChangeInvisibleTimeResponse(pop_time=0, invisible_time=0, revive_qid=0), remark=UNTOUCHED)
        visible_ms = now_ms + asked.invisible_time
        parts.orders.update_next_visible_time(topic, group, queue_id, asked.offset, receipt.pop_time, visible_ms)
        invisible_ms = visible_ms - receipt.pop_time
        answer = ChangeInvisibleTimeResponse(
            pop_time=receipt.pop_time, invisible_time=invisible_ms, revive_qid=receipt.revive_queue
        )
        return Reply(answer, remark=UNTOUCHED)


def _check_lite(asked: MessageEnd) -> None:
    """It is no message of a lite topic: there are none, and an end of one must not end another (*differs* for 200053: 0).

    Raises `Refusal`.
    """
    if not names.is_blank(asked.lite_topic or ""):
        raise Refusal(ResponseCode.INVALID_PARAMETER, "group type or bind topic not match.")


def _stored(answer: Reply, end_offset: int) -> Settled | Durable:
    return Durable(answer, end_offset) if end_offset else answer


def _answer(end_offset: int, wrong: list[Refusal]) -> Settled | Durable:
    """To a batch.  `wrong`: the last one is what it hears."""
    return _stored(refusal_reply(wrong[-1]) if wrong else Reply(), end_offset)
