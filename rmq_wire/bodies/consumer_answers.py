"""What a consumer answers when it is asked about itself: its progress (221), what it is doing (307), how a message went (309)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from rmq_wire.bodies.body import CLIENTS_BYTES_MAX, Body, DialectBody
from rmq_wire.bodies.enumerations import CMResult
from rmq_wire.bodies.heartbeat import SubscriptionData
from rmq_wire.declare import I32, I64
from rmq_wire.fastjson import MessageQueue


class ConsumerStatus(DialectBody):
    """Answers 221 and 223 (`GetConsumerStatusBody`): next offsets by queue, in 223 by client."""

    consumer_table: dict[str, dict[MessageQueue, I64]] = field(default_factory=dict)
    message_queue_table: dict[MessageQueue, I64] = field(default_factory=dict)


class ProcessQueueInfo(Body):
    """What a push consumer holds of one queue.  Offsets, counts, MiB; the times in wall milliseconds."""

    cached_msg_count: I32 = 0
    cached_msg_max_offset: I64 = 0
    cached_msg_min_offset: I64 = 0
    cached_msg_size_in_mib: I32 = field(name="cachedMsgSizeInMiB", default=0)
    commit_offset: I64 = 0
    droped: bool = False
    last_consume_timestamp: I64 = 0
    last_lock_timestamp: I64 = 0
    last_pull_timestamp: I64 = 0
    locked: bool = False
    transaction_msg_count: I32 = 0
    transaction_msg_max_offset: I64 = 0
    transaction_msg_min_offset: I64 = 0
    try_unlock_times: I64 = 0


class PopProcessQueueInfo(Body):
    """What a POP consumer holds of one queue."""

    droped: bool = False
    last_pop_timestamp: I64 = 0
    wait_ack_count: I32 = 0


class ConsumeStatus(Body):
    """Rates of one topic: a second over the last minute, milliseconds per message, failures over an hour."""

    consume_failed_msgs: I64 = 0
    consume_failed_tps: float = field(name="consumeFailedTPS", default=0.0)
    consume_ok_tps: float = field(name="consumeOKTPS", default=0.0)
    consume_rt: float = field(name="consumeRT", default=0.0)
    pull_rt: float = field(name="pullRT", default=0.0)
    pull_tps: float = field(name="pullTPS", default=0.0)


class ConsumerRunningInfo(DialectBody):
    """Answer 307 (`ConsumerRunningInfo`).  `jstack`: the threads, when they were asked for."""

    odd_bytes_max: ClassVar[int] = CLIENTS_BYTES_MAX
    jstack: str | None = None
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = field(default_factory=dict)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    user_consumer_info: dict[str, str] = field(default_factory=dict)


class ConsumeMessageDirectlyResult(Body):
    """Answer 309 (`ConsumeMessageDirectlyResult`).  `spent_time_mills` in milliseconds."""

    auto_commit: bool = True
    consume_result: CMResult | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: I64 = 0
