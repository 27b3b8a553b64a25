"""Pulls that wait for what a filter by properties selects: what arrives is looked at for each, and only a match wakes one.

A filter needs the message, so this reads the store, in slices, while others are served.  A unit that cannot be read here and now
wakes the pull, which then reads for itself.

Java: `PullRequestHoldService.notifyMessageArriving` with the properties that `NotifyMessageArrivingListener` brings.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from broker_impl.engine.engine import Engine
from broker_impl.state.holds import Held, Holds, Key
from rmq_store.errors import Cold
from rmq_store.results import GetStatus
from rmq_store.store import Store

UNITS_PER_SLICE: Final = 256
"""Units that filters are asked about between two yields, at most: 3 µs each."""
_BYTES_MAX: Final = 1 << 27
_NOTHING_YET: Final = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.OFFSET_OVERFLOW_ONE)


class HeldFilters:
    """Looks at what came; `wake` is called with each pull that it concerns, which is no longer held then."""

    def __init__(self, engine: Engine, store: Store, holds: Holds, wake: Callable[[Held], None]) -> None:
        self._engine = engine
        self._store = store
        self._holds = holds
        self._wake = wake
        self._unseen: dict[Key, None] = {}
        """Queues that got units which the filters of those who wait have not seen."""
        self._looking = False

    def look(self, key: Key) -> None:
        """Units came to a queue for which somebody waits."""
        self._unseen[key] = None
        if not self._looking:
            self._looking = True
            self._engine.in_background(self._look_in_slices(), self._looked)

    def _look_in_slices(self) -> Generator[None, None, None]:
        units = 0
        while self._unseen:
            key = next(iter(self._unseen))
            del self._unseen[key]
            for held in self._holds.filtered(key):
                while self._holds.waits(held) and held.matches is not None and held.seen < self._store.queue_bounds(*key)[1]:
                    before = held.seen
                    if self._is_woken(held):
                        break
                    units += max(held.seen - before, 1) * UNITS_PER_SLICE // held.matches.rows_max
                    if units >= UNITS_PER_SLICE:
                        units = 0
                        yield

    def _is_woken(self, held: Held) -> bool:
        """One more read of its queue."""
        try:
            read = self._store.read_queue(*held.key, held.seen, 1, _BYTES_MAX, None, held.matches)
        except Cold:
            read = None
        if read is not None and read.status in _NOTHING_YET and read.next_offset > held.seen:
            held.seen = read.next_offset
            return False
        self._holds.remove(held)
        self._wake(held)
        return True

    def _looked(self, _: object, error: BaseException | None) -> None:
        self._looking = False
        if error is not None:
            self._engine.env.log.error("filtering for held pulls failed: %s", error, error=error)
        if self._unseen:
            self.look(next(iter(self._unseen)))
