"""When the timer looks at what has come to its topic: at once, but records of pops, which are many, some milliseconds later.

They then enter the wheel together.  Java looks ten times a second (`TimerEnqueueGetService`).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_impl.engine.unhurried import GATHER_MAX, GATHER_MS
from broker_impl.env import Env
from rmq_store.results import Arrived
from rmq_store.timer.machine import Timer
from rmq_wire import names
from rmq_wire.implied.pop import RECORD_CODES


class TimerGathering:
    """Of one broker.  `looked_ms`: when the timer looked last, on the clock of deadlines.

    Records that came into its queue with others' messages wait as long as those that are not dispatched yet, and as few of them.
    """

    def __init__(self, env: Env, timer: Timer) -> None:
        self._env = env
        self._timer = timer
        self.looked_ms = -GATHER_MS

    def due_ms(self, arrived: Sequence[Arrived]) -> int | None:
        """When to look for this at the latest; None when nothing of it is the timer's."""
        for topic, _, end, tags_codes, _ in arrived:
            if topic == names.WHEEL_TIMER_TOPIC:
                timer, now_ms = self._timer, self._env.mono_ms
                by_ms = self.looked_ms + GATHER_MS
                if not RECORD_CODES.issuperset(tags_codes):
                    return now_ms
                timer.gathers(end)
                return now_ms if by_ms <= now_ms or end - timer.queue_offset >= GATHER_MAX else by_ms
        return None
