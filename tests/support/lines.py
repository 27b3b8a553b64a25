"""Work without a clock: how many lines of Python something runs, which is the same on every machine.

A loop within one line counts once a round.  What C does in one call (a join, a decode) counts as nothing: `bench.pieces` has
the milliseconds.  The collector rests: finalizers and its callbacks (hypothesis has one) are lines that come when they like.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Lines:
    """How many lines have run inside of its block, in this thread and in what it calls or goes on with."""

    def __init__(self) -> None:
        self.count = 0
        """Known when the block has ended."""
        self._before: Any = None
        self._collects = False
        self._counted: Callable[[], int] = int

    def __enter__(self) -> Lines:
        count = 0

        def trace(_frame: FrameType, event: str, _argument: Any) -> Any:  # called for each line: nothing is looked up
            nonlocal count
            if event == "line":
                count += 1
            return trace

        self._counted = lambda: count
        self._before = sys.gettrace()
        self._collects = gc.isenabled()
        gc.disable()
        sys.settrace(trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        if self._collects:
            gc.enable()
        self.count += self._counted()


def lines_of(work: Callable[[], object]) -> int:
    """Run it and say how many lines that took."""
    with Lines() as lines:
        work()
    return lines.count
