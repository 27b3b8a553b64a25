"""Progress tables as JSON: `consumerOffset.json` with answer 43, `delayOffset.json` with answer 45.

Integer keys are written bare in files and in these two answers' dialect, and read bare or quoted.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from rmq_wire.bodies.body import CLIENTS_BYTES_MAX, Body, DialectBody
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.declare import I32, I64
from rmq_wire.fastjson import MessageQueue


class ConsumerOffsetTable(Body):
    """`ConsumerOffsetManager` as JSON: `topic@group` to queue id to the next offset.  `group_topic_map` is derived."""

    data_version: DataVersion = field(default_factory=DataVersion)
    group_topic_map: dict[str, list[str]] = field(default_factory=dict)
    offset_table: dict[str, dict[I32, I64]] = field(default_factory=dict)
    pull_offset_table: dict[str, dict[I32, I64]] | None = None


class ResetOffset(DialectBody):
    """Request 220 and answer 222 (`ResetOffsetBody`): where the queues of a topic go on."""

    odd_bytes_max: ClassVar[int] = CLIENTS_BYTES_MAX
    offset_table: dict[MessageQueue, I64] = field(default_factory=dict)


class QueueOffset(Body):
    """One queue and where it goes on, as C++ clients read it (`MessageQueueForC`)."""

    broker_name: str = ""
    offset: I64 = 0
    queue_id: I32 = 0
    topic: str = ""


class ResetOffsetForC(Body):
    """Request 220 for the members of a group that a C++ client had reset (`ResetOffsetBodyForC`): they read no queues as keys."""

    offset_table: list[QueueOffset] = field(default_factory=list)


class CorrectionOffsets(DialectBody):
    """Answer 308 (`QueryCorrectionOffsetBody`): queue id to the smallest next offset of any group, or `UNREAD`."""

    correction_offsets: dict[I32, I64] = field(default_factory=dict)


class DelayOffsetTable(DialectBody):
    """`DelayOffsetSerializeWrapper`: delay level to the next offset of its queue."""

    data_version: DataVersion | None = None
    offset_table: dict[I32, I64] = field(default_factory=dict)
