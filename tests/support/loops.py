"""One test over many things instead of a test for each: all are looked at, or some; the failure names those that do not hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pytest

SHOWN_MAX = 3
"""Of so many the whole traceback is shown."""
T = TypeVar("T")
OFFSET = "RMQ_OFFSET"
"""The environment's word for the offset of a stride that is to be walked once more."""


def each(things: Iterable[T], check: Callable[[T], object]) -> None:
    """Check them all; a class or a function is called by its name, everything else as it prints itself."""
    failed: list[tuple[str, Exception]] = []
    count = 0
    for thing in things:
        count += 1
        try:
            check(thing)
        except (Exception, pytest.fail.Exception) as reason:
            name = str(getattr(thing, "__name__", repr(thing)))
            reason.add_note(f"this was {name}")
            failed.append((name, reason if isinstance(reason, Exception) else AssertionError(reason)))
    assert count, "nothing was looked at"
    if failed:
        names = ", ".join(name for name, _ in failed)
        raise ExceptionGroup(f"{len(failed)} of {count} do not hold: {names}", [reason for _, reason in failed[:SHOWN_MAX]])


def strided(things: Sequence[T], stride: int, edges: Iterable[int] = ()) -> list[T]:
    """The first, the last, those at the edges, and of the rest each so many: from an offset on that follows from the seed."""
    offset = int(os.environ.get(OFFSET) or os.environ.get("RMQ_SEED", "0")) % stride
    print(f"each {stride}th of {len(things)}; again: {OFFSET}={offset}")
    places = {0, len(things) - 1, *edges, *range(offset, len(things), stride)}
    return [things[place] for place in sorted(places)]
