"""What POP's codes get besides what every code gets (`bench.piece_inputs` has the others')."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from bench.piece_worlds import WALL_MS, World, written
from rmq_wire.bodies.assignment import SetMessageRequestModeRequest
from rmq_wire.bodies.pop import bits_text
from rmq_wire.codes import ResponseCode
from rmq_wire.command import encode_request
from rmq_wire.declare import Request
from rmq_wire.headers.pop import (
    AckMessage,
    BatchAckMessage,
    ChangeInvisibleTime,
    GetAllMessageRequestMode,
    Notification,
    PeekMessage,
    PollingInfo,
    PopMessage,
    QueryAssignment,
    SetMessageRequestMode,
)

Data = Callable[[World], bytes]
BODY_BYTES: Final = 65_536
"""The largest body that is read."""
DISTANCES: Final = 16_384
"""Bits of a bit set that are looked at."""
ORDER_QUEUE: Final = 999
LAST_INT: Final = 2**31 - 1
LAST_LONG: Final = 2**63 - 1
MORE_OPERANDS: Final = 498


def asked(header: Request, body: bytes = b"") -> Data:
    """The same of every world."""
    data = encode_request(header.code, header, body, opaque=1)
    return lambda _: data


def several(*headers: Request) -> Data:
    """At once."""
    data = b"".join(encode_request(header.code, header, opaque=1) for header in headers)
    return lambda _: data


def pop(topic: str = "shared", queue_id: int = 1, **more: Any) -> PopMessage:
    said: dict[str, Any] = {
        "consumer_group": "G",
        "topic": topic,
        "queue_id": queue_id,
        "max_msg_nums": 32,
        "invisible_time": 60_000,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
    }
    return PopMessage(**{**said, **more})


def peek(topic: str, queue_id: int, count: int) -> PeekMessage:
    return PeekMessage(topic=topic, queue_id=queue_id, max_msg_nums=count, consumer_group="G")


def notification(topic: str, **more: Any) -> Notification:
    said: dict[str, Any] = {"consumer_group": "G", "topic": topic, "queue_id": -1, "poll_time": 0, "born_time": WALL_MS}
    return Notification(**{**said, **more})


def receipt(invisible_ms: int = 60_000, revive_queue: int = 0, **words: Any) -> str:
    said = {"start": 0, "popped": WALL_MS, "invisible": invisible_ms, "revive": revive_queue, "flag": 0, "broker": "broker-a"}
    return " ".join(map(str, [*{**said, **words}.values(), 1, 0]))


def ack(extra_info: str, offset: int = 0) -> AckMessage:
    return AckMessage(consumer_group="G", topic="shared", queue_id=1, extra_info=extra_info, offset=offset)


def change(extra_info: str, invisible_ms: int = 60_000, offset: int = 0) -> ChangeInvisibleTime:
    return ChangeInvisibleTime(
        consumer_group="G",
        topic="shared",
        queue_id=1,
        extra_info=extra_info,
        offset=offset,
        invisible_time=invisible_ms,
    )


def batch(bits: str, *, names: str = "short", fill: bool = True, **more: Any) -> bytes:
    """As many acknowledgements as a body holds, or one."""
    said = {"c": "G", "t": "shared", "r": "0", "so": 0, "q": 1, "rq": 0, "pt": WALL_MS, "it": 60_000, "b": bits, **more}
    one = json.dumps(said, separators=(",", ":")).encode()
    if names == "long":
        one = one.replace(b'"c":', b'"consumerGroup":').replace(b'"b":', b'"bitSet":')
    count = (BODY_BYTES - 64) // (len(one) + 1) if fill else 1
    return b'{"brokerName":"broker-a","acks":[' + b",".join([one] * count) + b"]}"


def question(**more: Any) -> bytes:
    said = {"topic": "queues", "consumerGroup": "G", "clientId": "client-1", "strategyName": "AVG", "messageModel": "CLUSTERING"}
    return json.dumps({**said, **more}).encode()


def mode(**more: Any) -> bytes:
    return json.dumps({"topic": "shared", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 8, **more}).encode()


def set_modes(world: World) -> bytes:
    """All of them: every topic has one."""
    modes = world.tables.request_modes
    for count, topic in enumerate(world.tables.topics.table):
        modes.put(topic, "G", SET)
        if count % 1_000 == 999:
            written(modes)
    written(modes)
    return encode_request(GetAllMessageRequestMode().code, GetAllMessageRequestMode(), opaque=1)


SET: Final = SetMessageRequestModeRequest(topic="shared", consumer_group="G", mode="POP", pop_share_queue_num=-1)
ALL_BITS: Final = bits_text(range(DISTANCES))
TEXT: Final = "n > 0" + " OR a > 1" * MORE_OPERANDS
_BATCH: Final = BatchAckMessage()
_ASSIGNMENT: Final = QueryAssignment()
_MODE: Final = SetMessageRequestMode()

POPS: Final[dict[int, dict[str, Data]]] = {
    PopMessage.code: {
        "200 pops at once": several(*[pop(max_msg_nums=1)] * 200),
        "all of 16,384 queues": asked(pop("queues", -1)),
        "20 of the longest selectors": several(*[pop(exp=f"p{n} > 0 OR " + TEXT, exp_type="SQL92") for n in range(20)]),
        "64 KiB of tags": asked(pop(exp="||".join(f"t{n}" for n in range(8_000)), exp_type="TAG")),
        "ordered, of 16,384 queues": asked(pop("queues", -1, order=True, attempt_id="a" * 60_000)),
        "for ever": asked(pop(invisible_time=LAST_LONG, poll_time=LAST_LONG, born_time=-LAST_LONG)),
        "more than there may be": asked(pop(max_msg_nums=LAST_INT)),
        "1,500 that wait": several(*[pop(consumer_group="group-0000001", poll_time=15_000, queue_id=0)] * 1_500),
    },
    PeekMessage.code: {
        "of all": asked(peek("shared", -1, LAST_INT)),
        "all of 16,384 queues": asked(peek("queues", -1, LAST_INT)),
        "less than nothing": asked(peek("shared", -1, -LAST_INT)),
    },
    AckMessage.code: {
        "200 of one message": several(*[ack(receipt())] * 200),
        "a receipt of 256 KiB": asked(ack("9" * 262_144)),
        "a receipt of many words": asked(ack("1 " * 131_072)),
        "a number of 1,000 digits": asked(ack(receipt(start="9" * 900))),
    },
    BatchAckMessage.code: {
        "the whole of 32 messages, again and again": asked(_BATCH, batch(bits_text(range(32)))),
        "one message, again and again": asked(_BATCH, batch(bits_text((0,)))),
        "by long names": asked(_BATCH, batch(bits_text((0,)), names="long")),
        "16,384 bits, again and again": asked(_BATCH, batch(ALL_BITS)),
        "16,384 bits of an ordered pop": asked(_BATCH, batch(ALL_BITS, rq=ORDER_QUEUE)),
        "one bit set of 48 KiB": asked(_BATCH, batch("/" * 65_000, fill=False)),
        "nothing, again and again": asked(_BATCH, b'{"acks":[' + b"{}," * 21_000 + b"{}]}"),
        "negative numbers": asked(_BATCH, batch(ALL_BITS, so=-5_000, q=-1, rq=-1, pt=-1, it=-LAST_LONG)),
        "of a strange broker": asked(_BATCH, batch(ALL_BITS).replace(b"broker-a", b"b" * 100)),
    },
    ChangeInvisibleTime.code: {
        "200 of one message": several(*[change(receipt())] * 200),
        "for ever": asked(change(receipt(), LAST_LONG)),
        "less than nothing": asked(change(receipt(-LAST_LONG), -LAST_LONG)),
    },
    Notification.code: {
        "all of 16,384 queues": asked(notification("queues")),
        "all of 16,384 queues, ordered": asked(notification("queues", order=True, attempt_id="a" * 60_000)),
        "20 of the longest selectors": several(
            *[notification("shared", exp=f"q{n} > 0 OR " + TEXT, exp_type="SQL92") for n in range(20)]
        ),
    },
    PollingInfo.code: {"of all": asked(PollingInfo(consumer_group="G", topic="shared", queue_id=-1))},
    QueryAssignment.code: {
        "16,384 queues": asked(_ASSIGNMENT, question()),
        "16,384 queues, by circle": asked(_ASSIGNMENT, question(strategyName="AVG_BY_CIRCLE")),
        "16,384 queues, by consistent hash": asked(_ASSIGNMENT, question(strategyName="CONSISTENT_HASH")),
        "16,384 queues, broadcast": asked(_ASSIGNMENT, question(messageModel="BROADCASTING")),
        "of a stranger": asked(_ASSIGNMENT, question(clientId="c" * 60_000)),
    },
    SetMessageRequestMode.code: {
        "of one": asked(_MODE, mode()),
        "less than nothing": asked(_MODE, mode(popShareQueueNum=-LAST_INT)),
        "64 KiB of mode": asked(_MODE, mode(mode="m" * 65_000)),
    },
    GetAllMessageRequestMode.code: {"of every topic": set_modes},
}

POPS_ANSWERED: Final[dict[tuple[int, str], int | None]] = {
    (PopMessage.code, "all of 16,384 queues"): ResponseCode.POLLING_TIMEOUT,
    (PopMessage.code, "20 of the longest selectors"): ResponseCode.POLLING_TIMEOUT,
    (PopMessage.code, "64 KiB of tags"): ResponseCode.POLLING_TIMEOUT,
    (PopMessage.code, "ordered, of 16,384 queues"): ResponseCode.POLLING_TIMEOUT,
    (PopMessage.code, "for ever"): ResponseCode.POLLING_TIMEOUT,
    (PopMessage.code, "more than there may be"): ResponseCode.INVALID_PARAMETER,
    (PopMessage.code, "1,500 that wait"): ResponseCode.POLLING_FULL,
    (PeekMessage.code, "of all"): None,  # what the pops before it have left
    (PeekMessage.code, "all of 16,384 queues"): ResponseCode.PULL_NOT_FOUND,
    (PeekMessage.code, "less than nothing"): ResponseCode.PULL_NOT_FOUND,
    (AckMessage.code, "a receipt of 256 KiB"): ResponseCode.SYSTEM_ERROR,
    (AckMessage.code, "a receipt of many words"): ResponseCode.SYSTEM_ERROR,
    (AckMessage.code, "a number of 1,000 digits"): ResponseCode.SYSTEM_ERROR,
    (ChangeInvisibleTime.code, "for ever"): ResponseCode.INVALID_PARAMETER,
    (ChangeInvisibleTime.code, "less than nothing"): ResponseCode.MESSAGE_ILLEGAL,
}
"""What is answered where it is not 0; None: it depends on what was asked before."""
