"""Which groups pull a topic and which pop it: `messageRequestMode.json`, set by code 401.

Java: `MessageRequestModeManager`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from broker_impl.state.persisted import PersistedTable, Rows, leftover
from broker_impl.state.versioned_table import check_room
from rmq_wire.bodies.assignment import MessageRequestModeTable, SetMessageRequestModeRequest
from rmq_wire.java import concurrent_order

GROUPS_OF_TOPIC_MAX: Final = 1_024
"""Groups with a setting for one topic: each change of them copies the row.  Java has no limit."""

Modes = Mapping[str, SetMessageRequestModeRequest]
"""By group."""


class RequestModes(PersistedTable):
    """By topic, then by group.  Deleting either leaves the setting, as in Java."""

    file = "messageRequestMode.json"
    written_at_stop = False

    def __init__(self) -> None:
        super().__init__()
        self._rows: Rows[Modes] = Rows(_plain)
        self.topics_max = sys.maxsize

    @property
    def table(self) -> Mapping[str, Modes]:
        """All of them.  Not to be changed."""
        return self._rows.rows

    def get(self, topic: str, group: str) -> SetMessageRequestModeRequest | None:
        """What was set for the group and this topic."""
        return self._rows.rows.get(topic, {}).get(group)

    def put(self, topic: str, group: str, setting: SetMessageRequestModeRequest) -> None:
        """Set it.  Raises `Refusal` when there is no room, or too many changes wait."""
        self.check_unsaved()
        old = self._rows.get(topic)
        check_room("topics with a request mode", self._rows.rows, {topic}, self.topics_max)
        check_room("groups with a request mode for a topic", old or {}, {group}, GROUPS_OF_TOPIC_MAX)
        self._rows.put(topic, {**(old or {}), group: setting})
        self.changed(undo=lambda: self._put_back(topic, old))

    def members(self) -> dict[str, Rows[Any] | Any]:
        return {"messageRequestModeMap": self._rows}

    def take(self, document: dict[str, Any]) -> None:
        for topic, modes in MessageRequestModeTable.from_plain(document).message_request_mode_map.items():
            self._rows.put(topic, dict(modes))
        self.unknown = leftover(document, ("messageRequestModeMap",))

    def _put_back(self, topic: str, old: Modes | None) -> None:
        if old is None:
            self._rows.drop(topic)
        else:
            self._rows.put(topic, old)


def _plain(_topic: str, modes: Modes) -> dict[str, Any]:
    return {group: modes[group].plain() for group in concurrent_order(modes)}
