"""What a client makes of a pop's answer, and the requests with which it gives messages back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rmq_wire import pop_receipt
from rmq_wire import property_names as prop
from rmq_wire.bodies.pop import BatchAck, BatchAckMessageRequestBody, bits_text
from rmq_wire.command import Command
from rmq_wire.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    ChangeInvisibleTimeResponse,
    PopMessage,
    PopMessageResponse,
)
from rmq_wire.message import StoredMessage
from rmq_wire.pop_receipt import ORDER_QUEUE, Receipt, read_receipt
from tests.support.requests import props, units


class Got(NamedTuple):
    """A message that was popped.  `topic`: where it lies, a retry topic or the topic itself."""

    unit: StoredMessage
    topic: str
    receipt: Receipt

    @property
    def body(self) -> bytes:
        return bytes(self.unit.body)

    @property
    def offset(self) -> int:
        assert self.receipt.queue_offset is not None
        return self.receipt.queue_offset


class Popped(NamedTuple):
    """An answer to a pop.  `counts`: `orderCountInfo`, read."""

    answer: Command
    header: PopMessageResponse
    got: list[Got]
    counts: dict[str, int]


def pop(topic: str = "T", group: str = "G", *, born_ms: int, queue: int = -1, count: int = 32, **more: Any) -> PopMessage:
    """A pop of all messages, from the first on, that does not wait, for ten seconds."""
    said: dict[str, Any] = {"invisible_time": 10_000, "poll_time": 0, "init_mode": 0, "exp_type": "TAG", "exp": "*", **more}
    return PopMessage(consumer_group=group, topic=topic, queue_id=queue, max_msg_nums=count, born_time=born_ms, **said)


def popped(answer: Command, topic: str, group: str, broker_name: str = "broker-a") -> Popped:
    """The answer as stock clients take it apart (`MQClientAPIImpl.processPopResponse`)."""
    header = answer.header(PopMessageResponse)
    found = units(answer.body) if answer.code == 0 else []
    starts = pop_receipt.read_start_offsets(header.start_offset_info)
    offsets = {key: list(said) for key, said in pop_receipt.read_msg_offsets(header.msg_offset_info).items()}
    got = []
    for unit in found:
        given = props(unit).get(prop.POP_CK)
        if given is not None:
            receipt = read_receipt(given)
        else:
            flag = pop_receipt.flag_of(unit.topic.decode())
            key = f"{flag}@{unit.queue_id}"
            receipt = Receipt(
                starts[key],
                header.pop_time,
                header.invisible_time,
                header.revive_qid,
                flag,
                broker_name,
                unit.queue_id,
                offsets[key].pop(0),
            )
        got.append(Got(unit, receipt.topic_of(topic, group), receipt))
    return Popped(answer, header, got, pop_receipt.read_order_counts(header.order_count_info))


def ack(one: Got, group: str, **more: Any) -> AckMessage:
    """It is consumed.  more: words of the receipt that are to be other ones."""
    receipt = one.receipt._replace(**more)
    return AckMessage(
        consumer_group=group, topic=one.topic, queue_id=receipt.queue_id, extra_info=receipt.text(), offset=one.offset
    )


def batch_ack(ones: Iterable[Got], group: str, topic: str, broker_name: str = "broker-a") -> bytes:
    """The body of 200151 for these, by the pops that they are of."""
    by_pop: dict[Receipt, list[int]] = {}
    for one in ones:
        by_pop.setdefault(one.receipt._replace(queue_offset=None), []).append(one.offset)
    acks = [
        BatchAck(
            group=group,
            topic=topic,
            retry=receipt.flag,
            start_offset=receipt.start_offset,
            queue_id=receipt.queue_id,
            revive_queue=receipt.revive_queue,
            pop_time=receipt.pop_time,
            invisible_time=receipt.invisible_time,
            bits=bits_text(offset - receipt.start_offset for offset in offsets),
        )
        for receipt, offsets in by_pop.items()
    ]
    return BatchAckMessageRequestBody(broker_name=broker_name, acks=acks).encode()


def change(one: Got, group: str, invisible_ms: int, *, suspend: bool = False) -> ChangeInvisibleTime:
    """It is to come again after this time."""
    return ChangeInvisibleTime(
        consumer_group=group,
        topic=one.topic,
        queue_id=one.receipt.queue_id,
        extra_info=one.receipt.text(),
        offset=one.offset,
        invisible_time=invisible_ms,
        suspend=suspend,
    )


def changed(one: Got, answer: Command) -> Got:
    """The message with its new receipt."""
    header = answer.header(ChangeInvisibleTimeResponse)
    receipt = one.receipt
    if receipt.revive_queue == ORDER_QUEUE:
        return one
    return one._replace(
        receipt=receipt._replace(
            start_offset=one.offset,
            pop_time=header.pop_time,
            invisible_time=header.invisible_time,
            revive_queue=header.revive_qid,
        )
    )


def bodies(got: Sequence[Got]) -> list[bytes]:
    """Their bodies, sorted."""
    return sorted(one.body for one in got)
