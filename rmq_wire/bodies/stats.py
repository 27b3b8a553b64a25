"""Figures that tools ask for: a topic's ends, a group's progress, counters over a minute, an hour, a day."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from rmq_wire.bodies.body import CLIENTS_BYTES_MAX, FASTJSON, Body, DialectBody
from rmq_wire.bodies.locks import QueueName
from rmq_wire.declare import I64
from rmq_wire.fastjson import MessageQueue


class QueueTable(DialectBody):
    """A body that holds a table keyed by queue."""

    odd_bytes_max: ClassVar[int] = CLIENTS_BYTES_MAX
    offset_table: dict[MessageQueue, Any] = field(default_factory=dict)


class TopicOffset(Body):
    """The ends of one queue; `last_update_timestamp` is the store time of its last message, wall ms, 0 when there is none."""

    last_update_timestamp: int = 0
    max_offset: int = 0
    min_offset: int = 0


class TopicStatsTable(QueueTable):
    """Answer 202.  `topic_put_tps` over the last minute."""

    topic_put_tps: float = 0.0


class OffsetWrapper(Body):
    """How far a group is in one queue; `last_timestamp` is the store time of the last consumed message, wall ms."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0
    pull_offset: int = 0


class ConsumeStats(QueueTable):
    """Answer 208.  `consume_tps` over the last minute."""

    consume_tps: float = 0.0

    def total_diff(self) -> int:
        """Messages that the group has not consumed (Java: `computeTotalDiff`)."""
        return sum(row.broker_offset - row.consumer_offset for row in self.offset_table.values())

    def inflight_diff(self) -> int:
        """Messages handed out and not committed (Java: `computeInflightTotalDiff`)."""
        return sum(row.pull_offset - row.consumer_offset for row in self.offset_table.values())


class ConsumeStatsList(Body):
    """Answer 317: the progress of every group of a broker."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    total_diff: int = 0
    total_inflight_diff: int = 0

    def encode(self) -> bytes:
        """The dialect's text."""
        groups = [(group, found) for row in self.consume_stats_list for group, found in row.items()]
        rows = b",".join(progress_of(group, b",".join(stats.encode() for stats in found)) for group, found in groups)
        return progress_begins(self.broker_addr or "") + rows + progress_ends(self.total_diff, self.total_inflight_diff)


def progress_begins(broker_addr: str) -> bytes:
    """The text of a `ConsumeStatsList` up to its first group, for who spells it a row at a time."""
    return b'{"brokerAddr":%b,"consumeStatsList":[' % FASTJSON.value(broker_addr)


def progress_of(group: str, stats: bytes) -> bytes:
    """One group; `stats`: the texts of its `ConsumeStats`, with commas between."""
    return b"{%b:[%b]}" % (FASTJSON.key(group), stats)


def progress_ends(total_diff: int, total_inflight_diff: int) -> bytes:
    """What follows the last group."""
    return b'],"totalDiff":%d,"totalInflightDiff":%d}' % (total_diff, total_inflight_diff)


class QueueTimeSpan(Body):
    """Times of one queue, in wall milliseconds, -1 where there is no message (`QueueTimeSpan`).

    Store times of its first and last message and of the last one that was consumed, each also as local time
    (`rmq_wire.times.tool_time`); `delay_time` is the age of the next one to consume, in milliseconds.
    """

    consume_time_stamp: I64 = 0
    consume_time_stamp_str: str = ""
    delay_time: I64 = 0
    max_time_stamp: I64 = 0
    max_time_stamp_str: str = ""
    message_queue: QueueName = field(default_factory=QueueName)
    min_time_stamp: I64 = 0
    min_time_stamp_str: str = ""


class ConsumeTimeSpans(Body):
    """Answer 303 (`QueryConsumeTimeSpanBody`)."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class BrokerStatsItem(Body):
    """One window: `sum`, per second, per call."""

    avgpt: float = 0.0
    sum: int = 0
    tps: float = 0.0


class BrokerStatsData(Body):
    """Answer 315."""

    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
