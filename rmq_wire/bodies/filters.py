"""Filters by properties, as `consumerFilter.json` has them (`ConsumerFilterManager`, `ConsumerFilterData`)."""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.declare import I32, I64


class BloomFilterData(Body):
    """Bit positions of a group in the bit maps of queue extensions."""

    bit_num: I32 = 0
    bit_pos: list[I32] | None = None


class ConsumerFilterData(Body):
    """One group's filter on one topic; times in wall milliseconds."""

    consumer_group: str | None = None
    topic: str | None = None
    expression: str | None = None
    expression_type: str | None = None
    born_time: I64 = 0
    dead_time: I64 = 0
    bloom_filter_data: BloomFilterData | None = None
    client_version: I64 = 0


class FilterDataMapByTopic(Body):
    """Filters on one topic by group."""

    group_filter_data: dict[str, ConsumerFilterData | None] = field(default_factory=dict)
    topic: str | None = None


class FilterTable(Body):
    """The file's document."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic | None] = field(default_factory=dict)
