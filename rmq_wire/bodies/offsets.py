"""Progress tables as JSON: `consumerOffset.json` with answer 43, `delayOffset.json` with answer 45.

Integer keys are written bare in files and in these two answers' dialect, and read bare or quoted.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from rmq_wire import fastjson
from rmq_wire.bodies.body import Body
from rmq_wire.bodies.data_version import DataVersion


class ConsumerOffsetTable(Body):
    """`ConsumerOffsetManager` as JSON: `topic@group` to queue id to the next offset.  `group_topic_map` is derived."""

    data_version: DataVersion = field(default_factory=DataVersion)
    group_topic_map: dict[str, list[str]] = field(default_factory=dict)
    offset_table: dict[str, dict[int, int]] = field(default_factory=dict)
    pull_offset_table: dict[str, dict[int, int]] | None = None


class DelayOffsetTable(Body):
    """`DelayOffsetSerializeWrapper`: delay level to the next offset of its queue."""

    data_version: DataVersion | None = None
    offset_table: dict[int, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The dialect's text, integer keys bare."""
        found: dict[str, Any] = {"dataVersion": self.data_version.plain()} if self.data_version is not None else {}
        return fastjson.dumps_fastjson({**found, "offsetTable": self.offset_table})
