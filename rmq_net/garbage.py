"""Young objects are looked through for cycles between turns, a few thousand at a time.

Python does it by itself when there are so many more objects than at the last time: where next to nothing makes cycles that number
is high, lest a full turn reaches it, and then the one request that reaches it waits for all of them, 28 ms for 50,000 on a slow
machine.  At the end of a turn what is left has come to stay, and a smaller number does.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG_MAX: Final = 4_000
"""Containers more than at the last time: 0.2 to 0.6 µs each."""
YOUNG_TIMES_MAX: Final = 600
"""After so many times those that have stayed are looked through, too."""


def collect_young() -> None:
    """At the end of a turn.  What the process has switched off, in either way, stays off."""
    young, times, _ = gc.get_count()
    if young > YOUNG_MAX and gc.isenabled() and gc.get_threshold()[0]:
        gc.collect(1 if times > YOUNG_TIMES_MAX else 0)
