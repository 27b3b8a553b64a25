"""Young objects are looked through at the end of a turn, a few thousand at a time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

from rmq_net.garbage import YOUNG_MAX, YOUNG_TIMES_MAX, collect_young


class Cycle:
    """Nothing but a look finds that nobody has it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def rarely() -> Iterator[None]:
    """As a broker has it: Python itself looks at nothing."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1_000_000, 1_000_000, 1_000_000)
    yield
    gc.enable()
    gc.set_threshold(*before)
    gc.collect()


def many() -> list[list[int]]:
    """Enough; Python keeps some that were freed and does not count them again."""
    return [[] for _ in range(YOUNG_MAX + 200)]


def cycle() -> weakref.ref[Cycle]:
    return weakref.ref(Cycle())


def test_a_few_wait_and_many_do_not() -> None:
    lost = cycle()
    collect_young()
    assert lost() is not None
    kept = many()
    collect_young()
    assert kept
    assert lost() is None
    assert gc.get_count()[0] < YOUNG_MAX < len(kept)


def test_what_has_stayed_is_looked_through_now_and_then() -> None:
    lost = cycle()
    held = lost()
    gc.collect(0)
    del held
    for times in range(YOUNG_TIMES_MAX):
        kept = many()
        assert lost() is not None, f"after {times} times"
        collect_young()
        del kept
    kept = many()
    collect_young()
    assert kept
    assert lost() is None


@pytest.mark.parametrize("off", [gc.disable, lambda: gc.set_threshold(0)], ids=["disabled", "threshold"])
def test_what_is_switched_off_stays_off(off: Callable[[], None]) -> None:
    off()
    lost = cycle()
    kept = many()
    collect_young()
    assert kept
    assert lost() is not None
