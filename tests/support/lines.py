"""Work without a clock: how many lines of Python something runs, which is the same on every machine.

A loop within one line counts once a round.  What C does in one call (a join, a decode) counts as nothing: `bench.pieces` has
the milliseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_of(work: Callable[[], object]) -> int:
    """Run it and say how many lines that took."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines
