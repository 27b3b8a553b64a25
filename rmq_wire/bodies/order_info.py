"""Batches that ordered pops have handed out, as `consumerOrderInfo.json` has them.

Java: `QueueLevelConsumerManager` with its `OrderInfo`, in 5.3 `ConsumerOrderInfoManager`.
"""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.declare import I32, I64

QUEUE_LEVEL = "QUEUE"
"""`OrderedConsumptionLevel`: in order within each queue."""


class OrderInfo(Body):
    """The last batch of one queue.  Times in wall milliseconds; offsets are queue offsets.

    `offsets`: the first as it is, the others as distances from it.  Bit i of `acked` is for the i-th of them.
    `consumed` says how often each was handed out before, where that is known; `visible` when one comes again whose time was
    changed.  `attempt` names the request that got the batch.
    """

    pop_time: I64 = 0
    invisible_time: I64 | None = field(default=None, name="i")
    offsets: list[I64] | None = field(default=None, name="o")
    visible: dict[I64, I64] | None = field(default=None, name="ot")
    consumed: dict[I64, I32] | None = field(default=None, name="oc")
    last_consumed: I64 = field(default=0, name="l")
    acked: I64 = field(default=0, name="cm")
    attempt: str | None = field(default=None, name="a")


class OrderInfoTable(Body):
    """The file's document: `topic@group` to queue id to its batch.  `order_info_count` is derived."""

    order_info_count: I32 = 0
    ordered_consumption_level: str | None = QUEUE_LEVEL
    table: dict[str, dict[I32, OrderInfo | None] | None] = field(default_factory=dict)
