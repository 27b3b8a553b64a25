"""The consumer groups of this broker: built-in ones, those made at the first heartbeat, those tools make; and what is forbidden.

Java: `SubscriptionGroupManager`, `MixAll.isSysConsumerGroupAndEnableCreate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.state.attributes import GROUP_ATTRIBUTES, altered
from broker_impl.state.persisted import Rows, leftover
from broker_impl.state.versioned_table import VersionedTable, check_room
from rmq_wire import names
from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from rmq_wire.java import concurrent_buckets

BUILTIN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""What `SubscriptionGroupManager.init` makes, in its order."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
"""Groups of the system's own consumers: made even when automatic creation is off."""
READ_INDEX = 2
"""The bit of `forbidden` that says: may not read (Java: `PermName.INDEX_PERM_READ`)."""
FORBIDDEN_TOPICS_MAX = 1_024
"""Topics that one group may not read: each change of them copies the row.  Java has no limit."""
FORBIDDEN_CAPACITY = 4
"""What Java's table is made for; it decides the order of the file."""


class GroupTable(VersionedTable[SubscriptionGroupConfig]):
    """Group name to `SubscriptionGroupConfig`, and group to topic to a set of forbidden bits."""

    file = "subscriptionGroup.json"
    copied = frozenset({"forbiddenTable", "subscriptionGroupTable"})

    def __init__(self, config: BrokerConfig, env: Env) -> None:
        super().__init__(config, env)
        self._forbidden: Rows[dict[str, int]] = Rows(lambda _, row: row, buckets=concurrent_buckets(FORBIDDEN_CAPACITY))
        for name in BUILTIN_GROUPS:
            self._rows.put(name, SubscriptionGroupConfig(group_name=name))

    # -- reading

    @property
    def forbidden_table(self) -> Mapping[str, Mapping[str, int]]:
        """All that is forbidden.  Not to be changed."""
        return self._forbidden.rows

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """The group, made with defaults when configuration and name allow it (`findSubscriptionGroupConfig`)."""
        found = self._rows.rows.get(name)
        if found is not None:
            return found
        system = self._config.enable_create_sys_group and name.startswith(SYSTEM_GROUP_PREFIX)
        if not (self._config.auto_create_subscription_group or system) or names.group_problem(name) is not None:
            return None
        self.check_unsaved()
        check_room("groups", self._rows.rows, {name}, self.rows_max)
        made = SubscriptionGroupConfig(group_name=name)
        self._rows.put(name, made)
        self._env.log.info("consumer group %s made with defaults", name)
        self._changed(undo=lambda: self._rows.drop(name))
        return made

    # -- changing

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Create or replace; `group.attributes` is a *change*.  Raises `BadAttribute`, nothing changed."""
        self.put_all((group,))

    def put_all(self, groups: Sequence[SubscriptionGroupConfig]) -> None:
        """Several at once, all or none (*differs*: Java keeps those before the bad one)."""
        self.check_unsaved()
        check_room("groups", self._rows.rows, {group.group_name for group in groups}, self.rows_max)
        settled = []
        for group in groups:
            old = self.get(group.group_name)
            current = old.attributes if old is not None else {}
            settled.append(altered(GROUP_ATTRIBUTES, current, group.attributes, create=old is None))
        replaced: list[tuple[str, SubscriptionGroupConfig | None]] = []
        for group, attributes in zip(groups, settled, strict=True):
            group.attributes = attributes
            replaced.append((group.group_name, self._rows.put(group.group_name, group)))
            self.data_version.advance(self._env.wall_ms)
        if groups:
            self.changed(undo=lambda: self._put_back(replaced), rows=len(replaced))

    def delete(self, name: str) -> SubscriptionGroupConfig | None:
        """Remove and return the group and what is forbidden to it; None when there is none.

        Raises `Refusal`: too many changes wait.
        """
        self.check_unsaved()
        forbidden = self._forbidden.drop(name)
        unknown = self._unknown.pop(name, None)
        old = self._rows.drop(name)
        if old is not None or forbidden is not None:

            def undo() -> None:
                self._put_back([(name, old)], unknown)
                self._forbid(name, forbidden)

            self._changed(undo=undo)
        return old

    def is_forbidden(self, group: str, topic: str) -> bool:
        """May the group not read this topic?"""
        return bool(self._forbidden_bits(group, topic) >> READ_INDEX & 1)

    def set_forbidden(self, group: str, topic: str, index: int, forbidden: bool) -> None:
        """Set or clear one bit.  Clearing the last bit of one topic clears the whole group (`updateForbiddenValue`)."""
        self.check_unsaved()
        bits = self._forbidden_bits(group, topic)
        bits = bits | 1 << index if forbidden else bits & ~(1 << index)
        if bits <= 0:
            dropped = self._forbidden.drop(group)
            if dropped is not None:
                self.changed(undo=lambda: self._forbid(group, dropped))
            return
        row = self._forbidden.get(group)
        check_room("forbidden groups", self._forbidden.rows, {group}, self.rows_max)
        check_room("topics forbidden to a group", row or {}, {topic}, FORBIDDEN_TOPICS_MAX)
        self._forbidden.put(group, {**(row or {}), topic: bits})
        self._changed(undo=lambda: self._forbid(group, row))

    # -- the file

    def members(self) -> dict[str, Rows[Any] | Any]:
        """`subscriptionGroup.json`."""
        return {
            "dataVersion": self.data_version.plain(),
            "forbiddenTable": self._forbidden,
            "subscriptionGroupTable": self._rows,
        }

    def take(self, document: dict[str, Any]) -> None:
        """The file's groups over the built-in ones, and its version."""
        read = SubscriptionGroupTable.from_plain(document)
        for name, row in read.subscription_group_table.items():
            row.group_name = row.group_name or name
            if row.group_name != name or names.path_problem(name):
                self._env.log.error("%s names a group %s that no retry topic can have: it is left out", self.file, name)
                continue
            self._rows.put(name, row)
            rest = leftover(document["subscriptionGroupTable"][name], _FIELDS)
            if rest:
                self._unknown[name] = rest
        for name, bits in read.forbidden_table.items():
            self._forbidden.put(name, bits)
        self.data_version.assign(read.data_version)
        self.unknown = leftover(document, ("dataVersion", "forbiddenTable", "subscriptionGroupTable"))

    def _forbidden_bits(self, group: str, topic: str) -> int:
        row = self._forbidden.get(group)
        return max(0, row.get(topic, 0)) if row is not None else 0

    def _forbid(self, group: str, row: dict[str, int] | None) -> None:
        if row is None:
            self._forbidden.drop(group)
        else:
            self._forbidden.put(group, row)


_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(SubscriptionGroupConfig))
