"""Topics as JSON: one topic's configuration, the whole table of a broker, and the lists that tools ask for."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.enumerations import TopicFilterType
from rmq_wire.declare import I32

PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1
PERM_PRIORITY = 8
"""Bits of `perm` (Java: `PermName`)."""

TOPIC_UNIT = 1
TOPIC_UNIT_SUB = 2
"""Bits of `topic_sys_flag` (Java: `TopicSysFlag`)."""


class TopicConfig(Body):
    """One topic (`org.apache.rocketmq.common.TopicConfig`), with its class defaults."""

    topic_name: str = ""
    read_queue_nums: I32 = 16
    write_queue_nums: I32 = 16
    perm: I32 = PERM_READ | PERM_WRITE
    topic_filter_type: TopicFilterType = "SINGLE_TAG"
    topic_sys_flag: I32 = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def queues(self) -> int:
        """How many there are: those that may be written, or read, whichever are more."""
        return max(self.read_queue_nums, self.write_queue_nums)

    def readable(self) -> bool:
        """May be consumed."""
        return bool(self.perm & PERM_READ)

    def writable(self) -> bool:
        """May be sent to."""
        return bool(self.perm & PERM_WRITE)


class TopicConfigTable(Body):
    """Answer 21 (`TopicConfigAndMappingSerializeWrapper`) and the part of `topics.json` that Java reads."""

    odd_bytes_max: ClassVar[int] = 64 << 20
    """A broker with static topics registers (103) in the dialect, with all its topics."""
    data_version: DataVersion = field(default_factory=DataVersion)
    mapping_data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, Any] | None = None
    topic_queue_mapping_info_map: dict[str, Any] | None = None


class TopicConfigAndQueueMapping(TopicConfig):
    """Answer 351: one topic; `mapping_detail` only for static topics, whose queues are mapped onto brokers."""

    mapping_detail: dict[str, Any] | None = None


class TopicConfigList(Body):
    """Request 18 (`CreateTopicListRequestBody`)."""

    topic_config_list: list[TopicConfig] = field(default_factory=list)


class TopicList(Body):
    """Answers 206, 224, 304, 305, 343: names, and with some the address of one broker."""

    broker_addr: str | None = None
    topic_list: list[str] = field(default_factory=list)


class GroupList(Body):
    """Answer 300: the groups that consume a topic."""

    group_list: list[str] = field(default_factory=list)
