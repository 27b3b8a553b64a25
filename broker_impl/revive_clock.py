"""Until when all that was due has come to the revive topic, though something else is always on its way there."""

from __future__ import annotations

from collections.abc import Iterator

from broker_impl.env import Env
from rmq_store.store import Store
from rmq_store.timer.machine import Timer


class ReviveClock:
    """Looks, now and then, how far the way through the timer is done.

    Where somebody pops every few milliseconds, no look finds nothing on its way.  So one notes the time and the end of the log;
    when all before that end has entered the timer, what was due by then has left it, and this is visible too, that time has
    passed: whoever read all that is visible has read all that was due by then, of what had been stored by then.
    Java (`PopReviveService`) asks in the moment of a look whether its timer has nothing to do.
    """

    def __init__(self, env: Env, store: Store, timer: Timer | None) -> None:
        self._passed_ms = 0
        self._env = env
        self._store = store
        self._timer = timer
        self._looks = self._way()

    def look(self) -> int:
        """The time of which that was known last, in milliseconds of the wall clock: to come, where that was set back since."""
        next(self._looks)
        return self._passed_ms

    def _way(self) -> Iterator[None]:
        """One wait after the other; a look goes on with those that are over."""
        timer = self._timer
        while True:
            noted_ms = self._env.wall_ms
            yield from self._dispatched()
            if timer is not None:
                entered = timer.queue_offset + timer.behind
                while timer.queue_offset < entered or timer.delivers(min(noted_ms, self._env.wall_ms)):
                    yield
                yield from self._dispatched()
            self._passed_ms = noted_ms
            yield

    def _dispatched(self) -> Iterator[None]:
        """What is in the log now."""
        end = self._store.written_offset
        while self._store.undispatched and self._store.dispatched_offset < end:
            yield
