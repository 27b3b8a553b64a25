"""Who may read a queue in order: one member of a group at a time, for 60 s from its last word.

Nothing is stored: a restart frees all, as in Java.  Deadlines use the monotonic clock.  Java: `RebalanceLockManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from broker_impl.env import Env
from rmq_wire.bodies.locks import QueueName

LOCK_MS = 60_000
"""How long a lock lives without being renewed (`rocketmq.broker.rebalance.lockMaxLiveTime`)."""


LOCKS_MAX = 262_144
"""Queues locked at once, of all groups: queue names come from outside.  Java has no limit."""


class _Lock(NamedTuple):
    client_id: str
    renewed_ms: int


class QueueLocks:
    """Locks by group and queue."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._groups: dict[str, dict[QueueName, _Lock]] = {}
        self._count = 0

    def lock(self, group: str, queues: Iterable[QueueName], client_id: str) -> list[QueueName]:
        """Take or renew what is free, expired or one's own; returns what this member holds now (`tryLockBatch`)."""
        now = self._env.mono_ms
        table = self._groups.setdefault(group, {})
        held: list[QueueName] = []
        for queue in queues:
            old = table.get(queue)
            if old is not None and old.client_id != client_id:
                if now - old.renewed_ms <= LOCK_MS:
                    continue
                self._env.log.warning(
                    "queue %s of group %s passes from %s, silent for %d ms, to %s",
                    queue,
                    group,
                    old.client_id,
                    now - old.renewed_ms,
                    client_id,
                )
            if old is None:
                if self._count >= LOCKS_MAX:
                    self._env.log.warning("group %s gets no lock: %d queues are locked", group, self._count)
                    break
                self._count += 1
            table[queue] = _Lock(client_id, now)
            held.append(queue)
        if not table:
            del self._groups[group]
        return held

    def unlock(self, group: str, queues: Iterable[QueueName], client_id: str) -> None:
        """Give back what is one's own; the rest is left alone (`unlockBatch`)."""
        table = self._groups.get(group)
        if table is None:
            return
        for queue in queues:
            lock = table.get(queue)
            if lock is not None and lock.client_id == client_id:
                del table[queue]
                self._count -= 1
        if not table:
            del self._groups[group]

    def holder(self, group: str, queue: QueueName) -> str | None:
        """Who holds the queue now."""
        lock = self._groups.get(group, {}).get(queue)
        return lock.client_id if lock is not None and self._env.mono_ms - lock.renewed_ms <= LOCK_MS else None

    def all_expired(self, group: str) -> bool:
        """Nobody in the group reads any queue in order now (`isLockAllExpired`).

        It is asked at each message that comes back: what it finds expired goes, and is not looked at again.
        """
        table, now = self._groups.get(group), self._env.mono_ms
        if table is None:
            return True
        expired = list(takewhile(lambda queue: now - table[queue].renewed_ms > LOCK_MS, table))
        for queue in expired:
            del table[queue]
        self._count -= len(expired)
        if not table:
            del self._groups[group]
        return not table

    def sweep(self) -> None:
        """Forget what expired long ago: Java keeps it for ever, and queue names come from outside."""
        now = self._env.mono_ms
        for group in list(self._groups):
            table = self._groups[group]
            for queue in [queue for queue, lock in table.items() if now - lock.renewed_ms > 2 * LOCK_MS]:
                del table[queue]
                self._count -= 1
            if not table:
                del self._groups[group]
