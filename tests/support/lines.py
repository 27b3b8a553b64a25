"""Work without a clock: how many lines of Python something runs, which is the same on every machine.

A loop within one line counts once a round.  What C does in one call (a join, a decode) counts as nothing: `bench.pieces` has
the milliseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Lines:
    """How many lines have run inside of its block, in this thread and in what it calls or goes on with."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def _trace(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        self.count += event == "line"
        return self._trace

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)


def lines_of(work: Callable[[], object]) -> int:
    """Run it and say how many lines that took."""
    with Lines() as lines:
        work()
    return lines.count
