"""Python's collector: what is loaded stays, and who holds very much for a while need not look through it again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

YOUNG: Final = 100_000
"""New objects after which the collector looks for circles, where it would after some hundreds."""


@cache
def settle() -> None:
    """Take all that this process holds by now out of the sight of Python's collector; done once, costs nothing.

    PySpark's workers collect after each task (`pyspark.daemon`), which takes 50 ms of a core for what the modules alone hold:
    pyarrow, numpy and ours, none of which ever goes.
    """
    gc.freeze()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """For a block that makes many objects and no circles, as a job does of 100,000 queues: the collector's looks through all that
    is held would be a tenth of its time."""
    young, *older = gc.get_threshold()
    if young:  # else it is off
        gc.set_threshold(max(young, YOUNG), *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)
