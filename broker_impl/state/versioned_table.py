"""What the tables of topics and of groups are alike: configurations by name, one data version over all, a page of them at a time.

Java: `ConfigManager` with `DataVersion`, as `TopicConfigManager` and `SubscriptionGroupManager` have it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, Generic, TypeVar

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Refusal
from broker_impl.env import Env
from broker_impl.state.persisted import PersistedTable, Rows
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.java import concurrent_buckets

Row = TypeVar("Row", TopicConfig, SubscriptionGroupConfig)

MAP_CAPACITY = 1024
"""What Java's tables are made for; it decides the order of the file."""


class VersionedTable(PersistedTable, Generic[Row]):
    """Rows by name.  What a file says of one beyond the fields that we know goes back with it."""

    def __init__(self, config: BrokerConfig, env: Env) -> None:
        super().__init__()
        self._config = config
        self._env = env
        self._unknown: dict[str, dict[str, Any]] = {}
        self._rows: Rows[Row] = Rows(
            lambda name, row: {**self._unknown.get(name, {}), **row.plain()}, buckets=concurrent_buckets(MAP_CAPACITY)
        )
        self.data_version = DataVersion(timestamp=env.wall_ms)
        self._sorted: list[str] = []
        """Names, as they were when the version was `_sorted_at`."""
        self._sorted_at: DataVersion | None = None
        self.rows_max = sys.maxsize
        """So many are made; a file may have more."""

    def get(self, name: str) -> Row | None:
        """The row if it exists; nothing is made."""
        return self._rows.rows.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._rows.rows

    def __len__(self) -> int:
        return len(self._rows.rows)

    @property
    def table(self) -> Mapping[str, Row]:
        """All rows.  Not to be changed."""
        return self._rows.rows

    def page(self, data_version: str | None, start: int, count: int) -> dict[str, Row]:
        """Rows by name from the `start`-th on; from the first when the version that the asker began with is not ours.

        Java: `subTopicConfigTable`, `subGroupTable`.  `data_version`: JSON.
        """
        try:
            same = (
                data_version is not None
                and data_version.strip() != ""
                and DataVersion.read(data_version.encode()) == self.data_version
            )
        except BadBody:
            same = False
        first = max(0, start) if same else 0
        if self._sorted_at != self.data_version:  # sorting 100,000 takes 40 ms: not for each page
            self._sorted_at, self._sorted = self.data_version.copy(), sorted(self._rows.rows)
        table = self._rows.rows
        return {name: table[name] for name in self._sorted[first : first + max(0, count)] if name in table}

    def _changed(self, *, undo: Callable[[], object] | None = None) -> None:
        self.data_version.advance(self._env.wall_ms)
        self.changed(undo=undo)

    def _put_back(self, rows: Iterable[tuple[str, Row | None]], unknown: dict[str, Any] | None = None) -> None:
        """Rows as they were, one that was changed twice as it was first; `unknown` is what a file said of them."""
        self._sorted_at = None
        for name, row in reversed(list(rows)):
            if row is None:
                self._rows.drop(name)
            else:
                self._rows.put(name, row)
            if unknown:
                self._unknown[name] = unknown


def check_room(what: str, table: Mapping[str, Any], put: Set[str], most: int) -> None:
    """Before rows are put.  Raises `Refusal` when there would be too many."""
    if len(table) + len(put) > most and put - table.keys() and len(table) + len(put - table.keys()) > most:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"this broker has {len(table)} {what}, no more than {most} are made: delete some"
        )
