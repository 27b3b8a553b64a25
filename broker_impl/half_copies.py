"""What else the log has of a half message: its copies in the half messages' topic, its commit.  Found by its unique key.

Only who comes late needs this: an end of a half message that was put back since, a check after a start, a resumed check.  Without
an index (`messageIndexEnable=false`) nothing is found, and it is as in Java.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker_impl.env import Env
from rmq_store.store import Store
from rmq_wire import names
from rmq_wire import property_names as prop
from rmq_wire.implied.timers import TIMES
from rmq_wire.message import StoredMessage, read_unit
from rmq_wire.sys_flag import TRANSACTION_COMMIT, transaction_type

DELAYED: Final = frozenset({prop.DELAY, *TIMES})
COPIES_MAX: Final = 64
"""The newest that the index knows."""
FAR_MS: Final = 10 * 365 * 86_400_000
"""Ahead of the wall clock: it may have been turned back since a copy was stored."""


class Half(NamedTuple):
    """A half message and its properties."""

    unit: StoredMessage
    values: dict[str, str]


class HalfCopies:
    """Looks for them.  Every method may raise `Cold`."""

    def __init__(self, env: Env, store: Store) -> None:
        self._env = env
        self._store = store

    def all(self, half: Half) -> list[StoredMessage]:
        """In the half messages' topic, itself included."""
        return self._same(names.TRANS_HALF_TOPIC, half)

    def newest(self, half: Half) -> StoredMessage | None:
        """The last copy behind it in its queue."""
        unit = half.unit
        behind = [one for one in self.all(half) if one.queue_id == unit.queue_id and one.queue_offset > unit.queue_offset]
        return max(behind, key=lambda one: one.queue_offset, default=None)

    def is_settled(self, half: Half, topic: str) -> bool:
        """It was put back, or its commit is stored."""
        return self.newest(half) is not None or self.is_committed(half, topic)

    def is_committed(self, half: Half, topic: str) -> bool:
        """Its commit is stored where it belongs, or on the long way there."""
        detours = () if DELAYED.isdisjoint(half.values) else (names.SCHEDULE_TOPIC, names.WHEEL_TIMER_TOPIC)
        return any(
            transaction_type(one.sys_flag) == TRANSACTION_COMMIT and one.prepared_transaction_offset == half.unit.physical_offset
            for place in (topic, *detours)
            for one in self._with_key(place, half)
        )

    def is_given_up(self, half: Half) -> bool:
        """A check has moved it to TRANS_CHECK_MAX_TIME_TOPIC."""
        return bool(self._same(names.TRANS_CHECK_MAX_TIME_TOPIC, half))

    def _same(self, topic: str, half: Half) -> list[StoredMessage]:
        """What was sent at once with it: a unique key may be somebody else's too, where clients make their own."""
        return [one for one in self._with_key(topic, half) if _sent(one) == _sent(half.unit)]

    def _with_key(self, topic: str, half: Half) -> list[StoredMessage]:
        key = half.values.get(prop.UNIQ_KEY)
        if not key:
            return []
        return [read_unit(one) for one in self._store.query(topic, key, COPIES_MAX, 0, self._env.wall_ms + FAR_MS).units]


def _sent(unit: StoredMessage) -> tuple[int, bytes, int]:
    """What no copy of a half message changes: when and by whom it was sent, and its body."""
    return unit.born_timestamp, unit.born_host, unit.body_crc
