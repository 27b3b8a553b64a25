"""Pops and their ends against an engine: what a test asks, and the messages and receipts of the answer."""

from __future__ import annotations

from typing import Any, NamedTuple

from rmq_wire.bodies.pop import BatchAck, BatchAckMessageRequestBody, bits_text
from rmq_wire.command import Command
from rmq_wire.headers.pop import AckMessage, BatchAckMessage, ChangeInvisibleTime, PopMessage, PopMessageResponse
from rmq_wire.message import StoredMessage
from rmq_wire.pop_receipt import NORMAL, Receipt, flag_of, read_msg_offsets, read_receipt, read_start_offsets
from tests.support.driver import Client
from tests.support.requests import WALL_MS, props, units

INVISIBLE_MS = 10_000


class Popped(NamedTuple):
    """A message that somebody has."""

    unit: StoredMessage
    topic: str
    """Where it lies."""
    receipt: Receipt

    @property
    def body(self) -> bytes:
        return bytes(self.unit.body)

    @property
    def offset(self) -> int:
        assert self.receipt.queue_offset is not None
        return self.receipt.queue_offset


def pop(topic: str = "T", queue_id: int = 0, count: int = 32, **more: Any) -> PopMessage:
    """A pop of everything from the first message on that does not wait, unless asked otherwise."""
    header: dict[str, Any] = {
        "consumer_group": "G",
        "topic": topic,
        "queue_id": queue_id,
        "max_msg_nums": count,
        "invisible_time": INVISIBLE_MS,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
    }
    return PopMessage(**{**header, **more})


def popped(answer: Command, asked: PopMessage) -> list[Popped]:
    """The messages of an answer, with receipts as clients make them; none of 209 and 210."""
    if answer.code in (209, 210):
        return []
    assert answer.code == 0, (answer.code, answer.remark)
    header = answer.header(PopMessageResponse)
    starts, offsets = read_start_offsets(header.start_offset_info), read_msg_offsets(header.msg_offset_info)
    found: list[Popped] = []
    seen: dict[str, int] = {}
    for unit in units(answer.body):
        ready = props(unit).get("POP_CK")
        if ready is not None:
            receipt = read_receipt(ready)
            found.append(Popped(unit, receipt.topic_of(asked.topic, asked.consumer_group), receipt))
            continue
        topic = unit.topic.decode()
        key = f"{flag_of(topic)}@{unit.queue_id}"
        at = seen[key] = seen.get(key, -1) + 1
        receipt = Receipt(
            starts[key],
            header.pop_time,
            header.invisible_time,
            header.revive_qid,
            flag_of(topic),
            "broker-a",
            unit.queue_id,
            offsets[key][at],
        )
        found.append(Popped(unit, topic, receipt))
    return found


def take(client: Client, topic: str = "T", queue_id: int = 0, count: int = 32, **more: Any) -> list[Popped]:
    """Pop."""
    asked = pop(topic, queue_id, count, **more)
    return popped(client.ask(asked), asked)


def ack_of(one: Popped, group: str = "G", **more: Any) -> AckMessage:
    """The acknowledgement of a message."""
    header: dict[str, Any] = {
        "consumer_group": group,
        "topic": one.topic,
        "queue_id": one.receipt.queue_id,
        "extra_info": one.receipt.text(),
        "offset": one.offset,
    }
    return AckMessage(**{**header, **more})


def ack(client: Client, *several: Popped, group: str = "G") -> None:
    """Acknowledge messages, one by one."""
    for one in several:
        answer = client.ask(ack_of(one, group))
        assert answer.code == 0, (answer.code, answer.remark)


def change_of(one: Popped, invisible_ms: int, group: str = "G", **more: Any) -> ChangeInvisibleTime:
    """The wish that a message come again at another time."""
    header: dict[str, Any] = {
        "consumer_group": group,
        "topic": one.topic,
        "queue_id": one.receipt.queue_id,
        "extra_info": one.receipt.text(),
        "offset": one.offset,
        "invisible_time": invisible_ms,
    }
    return ChangeInvisibleTime(**{**header, **more})


def batch_of(several: list[Popped], topic: str = "T", group: str = "G") -> tuple[BatchAckMessage, bytes]:
    """One request that acknowledges messages of one pop of one queue."""
    first = several[0].receipt
    said = BatchAck(
        group=group,
        topic=topic,
        retry=first.flag,
        start_offset=first.start_offset,
        queue_id=first.queue_id,
        revive_queue=first.revive_queue,
        pop_time=first.pop_time,
        invisible_time=first.invisible_time,
        bits=bits_text(one.offset - first.start_offset for one in several),
    )
    return BatchAckMessage(), BatchAckMessageRequestBody(broker_name="broker-a", acks=[said]).encode()


__all__ = ["INVISIBLE_MS", "NORMAL", "WALL_MS", "Popped", "ack", "ack_of", "batch_of", "change_of", "pop", "popped", "take"]
