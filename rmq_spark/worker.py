"""The Python processes in which Spark runs a source: what they have loaded stays, and need not be looked at after each task."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Take all that this process holds by now out of the sight of Python's collector; done once, costs nothing.

    PySpark's workers collect after each task (`pyspark.daemon`), which takes 50 ms of a core for what the modules alone hold:
    pyarrow, numpy and ours, none of which ever goes.
    """
    gc.freeze()
